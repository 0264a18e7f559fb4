"""Send a custom event from inside a node."""

from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.utils.task_context import current_task


def emit(data: Any) -> None:
    """Append a ``custom`` event to the run's stream; followers get it as ``chunk.data``.

    Args:
        data: Any JSON-able value.

    Raises:
        InvalidInputError: ``data`` is not JSON-able.
    """
    context = current_task("emit")
    chunk = {
        "event": "custom",
        "step": context.step,
        "node": context.node,
        "task": context.task,
        "attempt": context.attempt,
        "data": data,
    }
    try:
        context.emit(to_json(chunk))
    except PydanticSerializationError as error:
        raise InvalidInputError(
            f"emit() in node {context.node!r} got something that JSON cannot hold ({error}): pass plain values."
        ) from error

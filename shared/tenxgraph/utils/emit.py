"""Tell the followers of a run something from inside a node."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json

from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.utils.task_context import current_task


def emit(data: Any) -> None:
    """Append an event to the run's stream. It returns at once: followers have the event some 20 ms later.

    Args:
        data: Any JSON-able value becomes a ``custom`` event, with the value in ``chunk.data``. A ``Message`` with
            ``delta=True`` becomes a ``token`` event, with that piece of a message in ``chunk.message``; give it the
            ``message_id`` of the message that the node will return.

    Raises:
        InvalidInputError: ``data`` is not JSON-able.
    """
    context = current_task("emit")
    is_token = isinstance(data, BaseModel) and getattr(data, "delta", None) is True
    chunk = {
        "event": "token" if is_token else "custom",
        "step": context.step,
        "node": context.node,
        "task": context.task,
        "attempt": context.attempt,
    }
    try:
        context.emit(_with_message(chunk, data) if is_token else to_json({**chunk, "data": data}))
    except PydanticSerializationError as error:
        raise InvalidInputError(
            f"emit() in node {context.node!r} got something that JSON cannot hold ({error}): pass plain values."
        ) from error


def _with_message(chunk: Mapping[str, Any], delta: BaseModel) -> bytes:
    # Deltas come by the thousand: what one says nothing of is left out.
    empty = {name for name in type(delta).model_fields if getattr(delta, name) in (None, {})}
    message = delta.model_dump_json(exclude=empty).encode()
    return to_json(chunk)[:-1] + b',"message":' + message + b"}"

"""Ask a person from inside a node: the run waits and holds no worker."""

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, from_json, to_json

from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.utils.task_context import current_task


@dataclass(frozen=True, slots=True)
class Question:
    """What ``interrupt()`` asks. ``body`` is JSON of ``{node, value, reason, response_schema}``."""

    id: str
    body: bytes


class Interrupted(BaseException):
    """Leaves the node so that the run can wait. No ``except Exception`` may swallow it."""

    def __init__(self, *questions: Question) -> None:
        super().__init__(*(question.id for question in questions))
        self.questions = questions


def interrupt(value: Any, *, reason: str | None = None, response_schema: Any = None) -> Any:
    """Wait for a person and return what they answer.

    The attempt ends here and holds no worker. When ``invoke({"resume": answer}, config)`` brings the answer, the node
    runs again from its start, and this call returns the answer at once.

    Args:
        value: What the person is shown; JSON-able.
        reason: Why the run waits.
        response_schema: A JSON schema, or a pydantic model class, that an answer must fit.

    Raises:
        InvalidInputError: ``value`` or the schema is not JSON-able.
    """
    context = current_task("interrupt")
    question_id = context.next_interrupt_id()
    if question_id in context.answers:
        return from_json(context.answers[question_id])
    asked = {"node": context.node, "value": value, "reason": reason, "response_schema": _schema(response_schema)}
    raise Interrupted(Question(question_id, _to_json(context.node, asked)))


def _schema(schema: Any) -> Any:
    return schema.model_json_schema() if isinstance(schema, type) and issubclass(schema, BaseModel) else schema


def _to_json(node: str, asked: dict[str, Any]) -> bytes:
    try:
        return to_json(asked)
    except PydanticSerializationError as error:
        raise InvalidInputError(
            f"interrupt() in node {node!r} got something that JSON cannot hold ({error}): pass plain values."
        ) from error

"""What a node returned, in one form: fields to update, a state to compare, nodes to go to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.message import Message
from tenxgraph.utils.command import Command, Send

_ALLOWED: Final = (
    "return a list of Message, one Message, a str (the assistant's text), a dict of fields, None, a Command, or a state"
)


@dataclass(frozen=True, slots=True)
class NodeReturn:
    """A node's return value.

    Attributes:
        fields: Field name → update, not yet validated.
        state: A state that the node returned: its changed fields are the update.
        targets: Where a ``Command`` goes; None if the node's edges say it.
        trimmed: What a context manager made of the state, which is carried on.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)
    state: AgentState | None = None
    targets: tuple[str | Send, ...] | None = None
    trimmed: AgentState | None = None


class Trimmed(list[Message]):
    """The messages of a node of ours whose context manager has shortened the conversation.

    Attributes:
        state: What the manager made of the node's state.
    """

    def __init__(self, messages: Sequence[Message], state: AgentState) -> None:
        super().__init__(messages)
        self.state: AgentState = state


def normalise(value: Any) -> NodeReturn:
    """Bring what a node returned into one form.

    Raises:
        InvalidInputError: It is nothing that a node may return; names the type, in a list the position too.
    """
    if isinstance(value, Command):
        return replace(_update(value.update, "Command.update"), targets=value.targets)
    if isinstance(value, Trimmed):
        return NodeReturn({"context": list(value)}, trimmed=value.state)
    return _update(value, "A node")


def _update(value: Any, giver: str) -> NodeReturn:
    if value is None:
        return NodeReturn()
    if isinstance(value, AgentState):
        return NodeReturn(state=value)
    if isinstance(value, Mapping):
        return NodeReturn(_named(value, giver))
    return NodeReturn({"context": _messages(value, giver)})


def _messages(value: Any, giver: str) -> list[Message]:
    if isinstance(value, str):
        return [Message.text_message(value, role="assistant")]
    if isinstance(value, Message):
        return [value]
    if not isinstance(value, list | tuple):
        raise _refused(f"{giver} gave a {type(value).__name__}", value)
    for position, item in enumerate(value):
        if not isinstance(item, Message):
            raise _refused(f"{giver} gave a list whose item {position} is a {type(item).__name__}", item)
    return list(value)


def _named(value: Mapping[Any, Any], giver: str) -> dict[str, Any]:
    for name in value:
        if not isinstance(name, str):
            raise _refused(f"{giver} gave a dict with the key {name!r}, which names no field", name)
    return dict(value)


def _refused(fault: str, value: Any) -> InvalidInputError:
    return InvalidInputError(f"{fault}: {_ALLOWED}.", context={"type": type(value).__name__})

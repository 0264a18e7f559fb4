"""What a node may return to choose the next nodes itself: Command and Send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from typing_extensions import TypeVar

from tenxgraph.core.exceptions import GraphError

GotoT = TypeVar("GotoT", bound=str, default=str)


@dataclass(frozen=True)
class Send:
    """One task for ``node`` whose state is overlaid with ``fields``, for that task alone.

    Args:
        node: Name of the node to run.
        fields: Field name → value; copied, so later changes of the mapping do not count.

    Raises:
        GraphError: ``INVALID_SEND`` if the node is no name or the fields are no mapping of names.
    """

    node: str
    fields: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not _is_text(self.node):
            raise GraphError(f"Send needs the name of a node, not {self.node!r}.", error_code="INVALID_SEND")
        if not _is_fields(self.fields):
            raise GraphError(
                f"Send to {self.node!r} needs its fields as a dict of field name to value, "
                f"not {type(self.fields).__name__}.",
                error_code="INVALID_SEND",
                context={"node": self.node},
            )
        object.__setattr__(self, "fields", dict(self.fields))


@dataclass(frozen=True)
class Command(Generic[GotoT]):
    """An update and the nodes to run next, as one return value.

    Annotate the node ``-> Command[Literal["a", "b"]]`` to declare where it may go: a join then knows whom to wait for.

    Args:
        update: What the node would have returned otherwise (messages, a dict of fields, a state), or None.
        goto: A node name, a `Send`, or a sequence of them; empty goes nowhere beyond the node's own edges.

    Raises:
        GraphError: ``INVALID_GOTO`` if ``goto`` holds anything else.
    """

    update: Any = None
    goto: GotoT | Send | Sequence[GotoT | Send] = ()

    def __post_init__(self) -> None:
        for target in self.targets:
            if not isinstance(target, Send) and not _is_text(target):
                raise GraphError(
                    f"Command.goto takes node names and Sends, not {target!r}.",
                    error_code="INVALID_GOTO",
                    context={"target": repr(target)},
                )

    @property
    def targets(self) -> tuple[str | Send, ...]:
        """The nodes to run next, in order."""
        if isinstance(self.goto, list | tuple):
            return tuple(self.goto)
        return (self.goto,)  # type: ignore[return-value]  # anything else is refused by __post_init__


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_fields(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)

"""What a tool returns to change the state as well."""

from collections.abc import Mapping
from typing import Any, Final

from tenxgraph.core.exceptions import InvalidInputError

_REFUSED: Final = {
    "context": "a tool's message reaches it by itself",
    "execution_meta": "it belongs to the runtime",
}


class ToolResult:  # noqa: PLW1641 - it carries a dict
    """A tool's answer together with updates of the state.

    Attributes:
        message: What the model sees.
        state: Field names mapped to updates, which go through the fields' reducers; ``None`` changes nothing.
        is_error: Whether the call failed.
    """

    __slots__ = ("is_error", "message", "state")

    def __init__(
        self,
        message: Any = None,
        state: Mapping[str, Any] | None = None,
        is_error: bool = False,
        *,
        content: Any = None,
    ) -> None:
        """Take the answer and the updates; ``content`` is another name of ``message``.

        Raises:
            InvalidInputError: Both names are used, ``state`` is no dict, or names ``context`` or ``execution_meta``.
        """
        if message is not None and content is not None:
            raise InvalidInputError("ToolResult got both message and content, which are one thing: give one")
        self.message: Any = content if message is None else message
        self.state: dict[str, Any] | None = None if state is None else _checked(state)
        self.is_error: bool = is_error

    @property
    def content(self) -> Any:
        """The same as ``message``."""
        return self.message

    def __eq__(self, other: object) -> bool:
        """Compare message, state and error mark."""
        if not isinstance(other, ToolResult):
            return NotImplemented
        return (self.message, self.state, self.is_error) == (other.message, other.state, other.is_error)

    def __repr__(self) -> str:
        """Show it as it would be written."""
        return f"ToolResult(message={self.message!r}, state={self.state!r}, is_error={self.is_error!r})"


def _checked(state: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(state, Mapping):
        raise InvalidInputError(f"ToolResult.state is a {type(state).__name__}: give a dict of field names and values")
    for name, why in _REFUSED.items():
        if name in state:
            raise InvalidInputError(f"ToolResult.state names {name!r}: {why}; leave it out", context={"field": name})
    return dict(state)

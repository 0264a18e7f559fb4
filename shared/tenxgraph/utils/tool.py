"""Name and describe a tool."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar, cast, overload

from tenxgraph.core.exceptions import GraphError

FnT = TypeVar("FnT", bound=Callable[..., Any])

_MARK: Final = "__tenxgraph_tool__"


@dataclass(frozen=True, slots=True)
class ToolMark:
    """What ``@tool`` says about a function; None where its own name or docstring counts."""

    name: str | None = None
    description: str | None = None
    tags: frozenset[str] = frozenset()
    timeout_s: float | None = None
    queue: str | None = None


@overload
def tool(fn: FnT, /) -> FnT: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    tags: Iterable[str] = (),
    timeout_s: float | None = None,
    queue: str | None = None,
) -> Callable[[FnT], FnT]: ...
def tool(
    fn: Any = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    tags: Iterable[str] = (),
    timeout_s: float | None = None,
    queue: str | None = None,
) -> Any:
    """Mark a function as a tool; it stays callable as before.

    Args:
        fn: The function, where the decorator is written without parentheses.
        name: What models call it by; by default the function's name.
        description: What models read about it; by default the docstring.
        tags: Words by which ``ToolNode.schemas(tags=…)`` picks tools.
        timeout_s: Longest time of one call, in seconds; then it is answered with a failed result. A sync function
            cannot be stopped: it runs on, and what it returns is dropped.
        queue: Name of the queue its calls go to, in a ``ToolNode(…, distribute=True)``.

    Raises:
        GraphError: ``INVALID_TOOL`` if it is put on something that cannot be called.
    """
    mark = ToolMark(name, description, frozenset([tags] if isinstance(tags, str) else tags), timeout_s, queue)
    return partial(_marked, mark) if fn is None else _marked(mark, fn)


def _marked(mark: ToolMark, fn: FnT) -> FnT:
    if not callable(fn):
        raise GraphError(
            f"@tool is for functions, not for {fn!r}: write @tool(name={fn!r}) to give a name.",
            error_code="INVALID_TOOL",
        )
    try:
        setattr(fn, _MARK, mark)
    except AttributeError:  # a bound method or a builtin holds no attributes
        fn = cast("FnT", partial(fn))
        setattr(fn, _MARK, mark)
    return fn


def tool_mark(fn: Callable[..., Any]) -> ToolMark:
    """Return what ``@tool`` says about a function, or an empty mark."""
    mark = getattr(fn, _MARK, None)
    return mark if isinstance(mark, ToolMark) else ToolMark()

"""What the annotations of nodes and conditions declare; what cannot be read declares nothing."""

import functools
import inspect
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from tenxgraph.utils.command import Command, Send
from tenxgraph.utils.constants import END


def plain_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function behind partials and objects with ``__call__``."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if inspect.isroutine(fn) or inspect.isclass(fn):
        return fn
    return type(fn).__call__


def qualified_name(fn: Callable[..., Any]) -> str:
    """Return the name of ``fn``, or of its class where it is an object, as its author would say it."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    named = fn if hasattr(fn, "__qualname__") else type(fn)
    return str(named.__qualname__)


def read_hints(fn: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of ``fn``; one that cannot be evaluated here is left out, the others stay."""
    function = inspect.unwrap(plain_function(fn))
    try:
        return get_type_hints(function)
    except Exception:  # noqa: BLE001 - an annotation is any expression, and may raise anything
        return _hints_one_by_one(function)


def _hints_one_by_one(function: Callable[..., Any]) -> dict[str, Any]:
    names = getattr(function, "__globals__", {})
    hints: dict[str, Any] = {}
    for name, annotation in getattr(function, "__annotations__", {}).items():
        single = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            hints.update(get_type_hints(single, globalns=names))
        except Exception:  # noqa: BLE001 - as above
            continue
    return hints


def command_targets(hint: Any) -> tuple[tuple[str, ...] | None, bool]:
    """Read a node's return annotation.

    Returns:
        The targets that its ``Command[Literal[…]]`` declares, None without a Command; and whether a Command may go
        where nobody declared.
    """
    commands = [arm for arm in _arms(hint) if arm is Command or get_origin(arm) is Command]
    if not commands:
        return None, False
    read = [_names(get_args(command)[0]) if get_args(command) else None for command in commands]
    return _unique(name for names in read for name in names or ()), None in read


def route_targets(hint: Any) -> tuple[str, ...] | None:
    """Return the targets that a condition's return annotation declares, None if it leaves them open."""
    return _unique(_read_routes([hint]) or ()) or None


def _read_routes(hints: Iterable[Any]) -> list[str] | None:
    names: list[str] = []
    for arm in (arm for hint in hints for arm in _arms(hint)):
        read = _read_route(arm)
        if read is None:
            return None
        names.extend(read)
    return names


def _read_route(arm: Any) -> Iterable[str] | None:
    if arm is Send:
        return ()
    if arm is types.NoneType:  # a hint of None is one that is missing
        return (END,)
    if get_origin(arm) in (list, tuple, Sequence):
        return _read_routes(item for item in get_args(arm) if item is not Ellipsis)
    return _names(arm)


def _names(hint: Any) -> tuple[str, ...] | None:
    found: list[str] = []
    for arm in _arms(hint):
        if get_origin(arm) is not Literal:
            if arm is Send:
                continue
            return None
        found.extend(_literal_name(value) for value in get_args(arm))
    return tuple(found)


def _literal_name(value: Any) -> str:
    if value is None:
        return END
    return str(value.value if isinstance(value, Enum) else value)


def _arms(hint: Any) -> Iterator[Any]:
    """Take unions, Annotated and aliases apart."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        for arm in get_args(hint):
            yield from _arms(arm)
    elif origin is Annotated:
        yield from _arms(get_args(hint)[0])
    elif hasattr(hint, "__value__"):
        yield from _arms(hint.__value__)
    elif isinstance(hint, TypeVar):
        yield Any
    else:
        yield hint


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))

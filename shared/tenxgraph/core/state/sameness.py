"""Deep equality that is stricter than ``==``: of types too, and NaN equals NaN."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from itertools import zip_longest
from typing import Any, Final

from pydantic import BaseModel

from tenxgraph.core.state.lazy_items import LazyItems, Undecoded, decoded
from tenxgraph.core.state.message import Message

_MISSING: Final = object()


def same(left: Any, right: Any) -> bool:
    """Tell whether ``right`` restores ``left`` exactly.

    ``1`` is not ``True``, a tuple no list, a member of a str enum no str. A model as a message's ``parsed_content`` is
    the same as its data.
    """
    if left is right:
        return True
    kind = type(left)
    if kind is not type(right):
        return kind in _UNSEEN and same(_seen(left), right)
    compare = _COMPARE.get(kind)
    return compare(left, right) if compare is not None else _same_of_any_kind(left, right)


def _seen(value: Any) -> Any:
    return list(value) if type(value) is LazyItems else decoded(value)


def _equal(left: Any, right: Any) -> bool:
    return bool(left == right)


def _same_float(left: float, right: float) -> bool:
    return left == right or (left != left and right != right)  # NaN is what differs from itself


def _same_sequence(left: Any, right: Any) -> bool:
    return len(left) == len(right) and all(map(same, left, right))


def _same_dict(left: dict[Any, Any], right: dict[Any, Any]) -> bool:
    return len(left) == len(right) and all(map(same, left, right)) and all(map(same, left.values(), right.values()))


def _same_set(left: Any, right: Any) -> bool:
    if left == right:
        found = {item: item for item in right}
        return all(same(item, found[item]) for item in left)
    return sorted(map(repr, left)) == sorted(map(repr, right))  # NaN again


def _same_time(left: datetime, right: datetime) -> bool:
    if left.tzinfo is None or right.tzinfo is None:
        return left == right
    # Not ``==``: in the hour that a zone repeats, times of two zones never compare equal.
    return left.astimezone(UTC) == right.astimezone(UTC) and left.utcoffset() == right.utcoffset()


def _same_model(left: BaseModel, right: BaseModel) -> bool:
    before, after = left.__dict__, right.__dict__
    for name in type(left).__pydantic_fields__:
        old, new = before.get(name, _MISSING), after.get(name, _MISSING)
        if not (old is new or same(old, new) or _is_parsed_data(left, name, old, new)):
            return False
    return same(left.__pydantic_extra__, right.__pydantic_extra__) and same(
        left.__pydantic_private__, right.__pydantic_private__
    )


def _is_parsed_data(owner: BaseModel, name: str, old: Any, new: Any) -> bool:
    if name != "parsed_content" or not isinstance(owner, Message) or not isinstance(old, BaseModel):
        return False
    return same(old.model_dump(mode="json"), new)


def _same_of_any_kind(left: Any, right: Any) -> bool:
    for kind, compare in _COMPARE_KINDS:
        if isinstance(left, kind):
            return compare(left, right)
    if is_dataclass(left):
        return all(same(getattr(left, each.name), getattr(right, each.name)) for each in fields(left))
    try:
        return _equal(left, right)
    except (TypeError, ValueError):  # arrays and the like, which compare item by item
        return False


_UNSEEN: Final = (LazyItems, Undecoded)

_COMPARE: Final[dict[type, Callable[[Any, Any], bool]]] = {
    str: str.__eq__,
    int: int.__eq__,
    bool: _equal,
    bytes: bytes.__eq__,
    float: _same_float,
    list: _same_sequence,
    tuple: _same_sequence,
    dict: _same_dict,
    set: _same_set,
    frozenset: _same_set,
    datetime: _same_time,
}

_COMPARE_KINDS: Final[tuple[tuple[Any, Callable[[Any, Any], bool]], ...]] = (
    (BaseModel, _same_model),
    (Enum, _equal),
    ((list, tuple, deque), _same_sequence),
    (dict, _same_dict),
    ((set, frozenset), _same_set),
    (datetime, _same_time),
    (float, _same_float),
)


def difference(left: Any, right: Any) -> str:
    """Say where two values that are not the same differ first: ``['due'] datetime came back as str``."""
    for at, old, new in _children(left, right):
        if not same(old, new):
            return f"{at}{difference(old, new)}"
    if type(left) is type(right):
        return f" {type(left).__name__} came back with another value"
    return f" {type(left).__name__} came back as {type(right).__name__}"


def _children(left: Any, right: Any) -> Iterator[tuple[str, Any, Any]]:
    if type(left) is not type(right):
        return
    if isinstance(left, BaseModel):
        for name in type(left).__pydantic_fields__:
            yield f".{name}", left.__dict__.get(name), right.__dict__.get(name)
    elif isinstance(left, dict):
        yield from ((f" key {old!r}:", old, new) for old, new in zip(left, right, strict=False))
        yield from _pairs("[{!r}]", left, left.values(), right.values())
    elif isinstance(left, list | tuple):
        yield from _pairs("[{}]", range(len(left)), left, right)


def _pairs(form: str, at: Iterable[Any], left: Iterable[Any], right: Iterable[Any]) -> Iterator[tuple[str, Any, Any]]:
    for where, old, new in zip_longest(at, left, right):
        yield form.format(where), old, new

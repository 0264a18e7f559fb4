"""Reducers: pure functions (old value, update) → new value, which never change what they are given."""

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from itertools import chain
from typing import Any, Final, TypeVar

from tenxgraph.core.state.message import Message
from tenxgraph.core.state.tool_sequence import complete_sequences

T = TypeVar("T")

_NO_ID: Final = object()


def add_messages(left: Sequence[Message], right: Iterable[Message]) -> list[Message]:
    """Append the new messages of ``right``: no deltas, and none whose id is already there; the first wins."""
    return [*left, *new_messages({message.message_id for message in left}, right)]


def new_messages(known_ids: Set[str | int], right: Iterable[Message]) -> list[Message]:
    """Return what ``add_messages`` would append to messages with ``known_ids``."""
    seen: set[str | int] = set()
    fresh: list[Message] = []
    for message in right:
        key = message.message_id
        if not message.delta and key not in known_ids and key not in seen:
            seen.add(key)
            fresh.append(message)
    return fresh


def replace_messages(left: Sequence[Message], right: Iterable[Message]) -> list[Message]:  # noqa: ARG001 — a reducer
    """Return ``right``: the whole history is rewritten."""
    return list(right)


def append_items(left: Sequence[T], right: Iterable[T]) -> list[T]:
    """Append the items of ``right`` whose ``.id`` (or key ``id``) is not there yet; those without id always."""
    seen: set[Hashable] = {_item_id(item) for item in left}
    added: list[T] = []
    for item in right:
        key = _item_id(item)
        if key is _NO_ID or key not in seen:
            seen.add(key)
            added.append(item)
    return [*left, *added]


def _item_id(item: Any) -> Hashable:
    found = item.get("id") if isinstance(item, Mapping) else getattr(item, "id", None)
    return _NO_ID if found is None else found


def replace_value(left: object, right: T) -> T:  # noqa: ARG001 — a reducer
    """Return ``right``."""
    return right


def remove_tool_messages(messages: Sequence[Message]) -> list[Message]:
    """Return the messages without complete tool sequences.

    A sequence is complete when every call has its result and an assistant message without calls follows. Complete ones
    go, calls and results, chained ones whole; what is not complete stays untouched.
    """
    gone = set(chain.from_iterable(complete_sequences(messages)))
    return [message for at, message in enumerate(messages) if at not in gone]

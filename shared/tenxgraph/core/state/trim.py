"""What a context manager made of a state, so that it is carried on: positions of what stays, and what is new."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.codec import EncodedUpdate, StateCodec, is_delta
from tenxgraph.core.state.field_spec import message_key
from tenxgraph.core.state.image import ItemLog, StateImage
from tenxgraph.core.state.lazy_items import Undecoded, raw
from tenxgraph.core.state.sameness import same
from tenxgraph.core.state.tool_sequence import call_ids, result_ids

CONTEXT: Final = "context"


@dataclass(frozen=True, slots=True)
class Trim:
    """What is left of ``context`` after a step, before what the step adds.

    Attributes:
        left: Positions in ``context`` as it was before the step, and in between what the manager put there anew.
        fields: The other fields that the manager changed.
    """

    left: tuple[int | bytes, ...]
    fields: EncodedUpdate = field(default_factory=EncodedUpdate)

    def items(self, before: ItemLog) -> list[bytes]:
        """Return what is left, encoded."""
        old = before[:]
        return [old[item] if isinstance(item, int) else item for item in self.left]

    def to_json(self) -> dict[str, Any]:
        """Return it in JSON's types."""
        left = [item.decode() if isinstance(item, bytes) else item for item in self._spans()]
        return {"left": left, "fields": self.fields.to_json().decode()}

    def _spans(self) -> Iterator[bytes | list[int]]:
        span: list[int] = []
        for item in self.left:
            if span and item == span[1]:
                span[1] += 1
                continue
            if span:
                yield span
            span = [item, item + 1] if isinstance(item, int) else []
            if isinstance(item, bytes):
                yield item
        if span:
            yield span

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """Read what ``to_json`` wrote."""
        left: list[int | bytes] = []
        for item in given["left"]:
            left += [item.encode()] if isinstance(item, str) else range(*item)
        return cls(tuple(left), EncodedUpdate.from_json(given["fields"].encode()))


def trim_of(
    codec: StateCodec, image: StateImage, overlay: EncodedUpdate | None, trimmed: AgentState, *, place: str
) -> Trim | None:
    """Return what a context manager's state changes of the thread's; None where that is nothing.

    Args:
        codec: Of the graph's state class.
        image: The state before the step.
        overlay: What a ``Send`` laid over it; a ``context`` of its own is no thread's, and is not carried on.
        trimmed: What the manager returned.
        place: Who called it, for errors.
    """
    changed = codec.diff(image, overlay, trimmed)
    changed.pop(CONTEXT, None)
    fields = codec.validate_update(changed, place=place)
    before = codec.log(image, CONTEXT)
    left: tuple[int | bytes, ...] = tuple(range(len(before)))
    if overlay is None or CONTEXT not in overlay.fields:
        left = tuple(_left(codec, before, trimmed.context))
    unchanged = left == tuple(range(len(before)))
    return None if unchanged and not fields.fields else Trim(left, fields)


def _left(codec: StateCodec, before: ItemLog, messages: list[Any]) -> Iterator[int | bytes]:
    positions = {message_key(item): position for position, item in enumerate(before)}
    item_codec, old = codec.item_codec(CONTEXT), before[:]
    for message in raw(messages):
        if not isinstance(message, Undecoded) and is_delta(message):
            continue
        data = message.data if type(message) is Undecoded else item_codec.encode_unchecked(message)
        position = positions.get(message_key(data))
        known = position is not None and (old[position] == data or same(item_codec.decode(old[position]), message))
        if position is not None and known:
            yield position
        else:
            yield from codec.encode_items(CONTEXT, [message], place="the context manager")


def chosen_trim(
    codec: StateCodec, image: StateImage, updates: Sequence[tuple[EncodedUpdate, Trim | None]]
) -> Trim | None:
    """Return the trim that a step carries on: the first in plan order.

    None where another task of the step brings the result of a call that would go: the next call of a model trims anew.
    """
    trim = next((trim for _, trim in updates if trim is not None), None)
    if trim is None or len(updates) == 1:
        return trim
    item = codec.item_codec(CONTEXT)
    brought = (message for update, _ in updates for message in update.fields.get(CONTEXT, ()))
    results = {call for data in brought if isinstance(data, bytes) for call in result_ids(item.decode(data))}
    kept = set(trim.left)
    gone = (data for position, data in enumerate(codec.log(image, CONTEXT)) if position not in kept)
    splits = bool(results) and any(results & call_ids(item.decode(data)) for data in gone)
    return None if splits else trim

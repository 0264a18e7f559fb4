"""Between a state object and its encoded image, by the fields of one state class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import orjson
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from tenxgraph.core.exceptions import InvalidInputError, SerializationError
from tenxgraph.core.state.field_spec import FieldSpec, field_spec, message_key
from tenxgraph.core.state.image import ItemLog, Patch, StateImage
from tenxgraph.core.state.lazy_items import LazyItems, Undecoded, decoded, raw
from tenxgraph.core.state.message import Message
from tenxgraph.core.state.sameness import same
from tenxgraph.core.state.value_codec import InexactError, ValueCodec, summary

Encoded = bytes | tuple[bytes, ...]
"""A value as JSON; a list that is stored item by item as the JSON of each item."""

_RUNTIME_FIELD: Final = "execution_meta"
_UNCHANGED: Final = object()


@dataclass(frozen=True, slots=True)
class EncodedUpdate:
    """What a task changes, encoded: per field the right operand of its reducer."""

    fields: Mapping[str, Encoded] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """Return it as one JSON document, which holds the encoded values as strings, byte by byte the same."""
        return orjson.dumps({name: _text(value) for name, value in self.fields.items()})

    @classmethod
    def from_json(cls, data: bytes) -> EncodedUpdate:
        """Read what ``to_json`` wrote."""
        return cls({name: _encoded(value) for name, value in orjson.loads(data).items()})


def _text(value: Encoded) -> str | list[str]:
    return value.decode() if isinstance(value, bytes) else [item.decode() for item in value]


def _encoded(value: str | list[str]) -> Encoded:
    return value.encode() if isinstance(value, str) else tuple([item.encode() for item in value])


def is_delta(item: Any) -> bool:
    """Tell whether an item is a part of a message that is still streamed; those are never stored."""
    return isinstance(item, Message) and item.delta


class StateCodec:
    """Encodes, decodes and compares the fields of one state class; built once per graph.

    Args:
        state_class: The class of the graph's state.
        initial: An instance with the initial values; it is never changed.

    Raises:
        GraphError: A field's reducers are wrong.
        SerializationError: The initial items of a list cannot be stored.
    """

    def __init__(self, state_class: type[BaseModel], initial: BaseModel) -> None:
        self.state_class: Final = state_class
        self.specs: Final[Mapping[str, FieldSpec]] = {
            name: field_spec(state_class, name) for name in state_class.model_fields if name != _RUNTIME_FIELD
        }
        self._defaults: Final[dict[str, Any]] = {}
        self.initial: Final = self._initial_image(initial)

    def _initial_image(self, initial: BaseModel) -> StateImage:
        values: dict[str, bytes] = {}
        lists: dict[str, ItemLog] = {}
        for name, spec in self.specs.items():
            value = getattr(initial, name)
            if spec.is_list:
                lists[name] = self._initial_log(name, value)
                continue
            try:
                values[name] = self.encode(name, value, place="the initial state")
            except SerializationError:
                # A default may be what no update may be, such as None for a str. It is never written, so never lost.
                self._defaults[name] = deepcopy(value)
        return StateImage(values=values, lists=lists)

    def _initial_log(self, name: str, value: Any) -> ItemLog:
        if isinstance(value, list):
            return ItemLog(self.encode_items(name, value, place="the initial state"))
        kind = type(value).__name__
        raise SerializationError(
            f"{self.state_class.__name__}.{name} starts as {kind}, but is declared as a list: "
            "give it a list, or declare `list[…] | None`.",
            context={"field": name, "type": kind},
        )

    def spec(self, name: str) -> FieldSpec:
        """Return how a field is stored and merged."""
        return self.specs[name]

    def encode(self, name: str, value: Any, *, place: str = "") -> bytes:
        """Return the JSON of a valid value of a field.

        Raises:
            SerializationError: It would not be read back equal; names the field and the place.
        """
        with self._refusing(name, value, place):
            return self.specs[name].stored.encode(value)

    def encode_items(
        self, name: str, items: list[Any], *, place: str = "", known: Sequence[bytes] = ()
    ) -> tuple[bytes, ...]:
        """Return the JSON of each item of a valid list, without deltas; ``known`` items at their place are not checked.

        Raises:
            SerializationError: One would not be read back equal; names the field and the place.
        """
        with self._refusing(name, items, place):
            return self.specs[name].stored.encode_items(_without_deltas(items), known)

    def decode(self, name: str, data: bytes) -> Any:
        """Return the value of a field, an object of its own."""
        return self.specs[name].stored.decode(data)

    def decode_item(self, name: str, data: bytes) -> Any:
        """Return an item of a list field, an object of its own."""
        return self.item_codec(name).decode(data)

    def item_codec(self, name: str) -> ValueCodec:
        """Return the codec of a list field's items."""
        item = self.specs[name].stored.item
        if item is None:
            raise TypeError(f"{self.state_class.__name__}.{name} is not stored item by item.")
        return item

    def validate_update(self, fields: Mapping[str, Any], *, place: str) -> EncodedUpdate:
        """Validate and encode what a task, a tool or an input changes.

        Args:
            fields: Field name → update; ``messages`` stands for ``context``, one message for a list of it.
            place: Who made it, for errors: ``node 'plan'``.

        Raises:
            InvalidInputError: A field is unknown or the runtime's, or a value is not valid for it.
            SerializationError: A value would not be read back equal.
        """
        named = self._named(fields, place)
        return EncodedUpdate({name: self._operand(self.specs[name].right, name, named[name], place) for name in named})

    def validate_overlay(self, fields: Mapping[str, Any], *, place: str) -> EncodedUpdate:
        """Validate and encode what a ``Send`` lays over the state: whole values. Errors as ``validate_update``."""
        named = self._named(fields, place)
        return EncodedUpdate({name: self._operand(self.specs[name].stored, name, named[name], place) for name in named})

    def _named(self, fields: Mapping[str, Any], place: str) -> dict[str, Any]:
        named = dict(fields)
        if "messages" in named and "messages" not in self.specs and "context" in self.specs:
            if "context" in named:
                raise self._invalid("messages", place, "names both `messages` and `context`, which are one: leave one")
            named["context"] = named.pop("messages")
        for name in named:
            if name == _RUNTIME_FIELD:
                raise self._invalid(name, place, f"sets `{name}`, which belongs to the runtime: leave it out")
            if name not in self.specs:
                raise self._invalid(name, place, f"sets the unknown field {name!r}: use one of {', '.join(self.specs)}")
        return named

    def _invalid(self, name: str, place: str, fault: str) -> InvalidInputError:
        return InvalidInputError(
            f"The update of {self.state_class.__name__} by {place} {fault}.", context={"field": name, "place": place}
        )

    def _operand(self, codec: ValueCodec, name: str, value: Any, place: str) -> Encoded:
        if isinstance(value, Message) and codec.item is not None:
            value = [value]
        try:
            valid = codec.validated(value)
        except ValidationError as error:
            raise self._invalid(name, place, f"sets {name!r} to what is not valid: {summary(error)}") from error
        with self._refusing(name, valid, place):
            return codec.encode(valid) if codec.item is None else codec.encode_items(_without_deltas(valid))

    @contextmanager
    def _refusing(self, name: str, value: Any, place: str) -> Iterator[None]:
        try:
            yield
        except InexactError as error:
            by = f" by {place}" if place else ""
            raise SerializationError(
                f"{self.state_class.__name__}.{name} was set{by} to a {type(value).__name__} that cannot be stored and "
                f"read back equal: {error.message}. Declare the exact type in the state class, or change the value.",
                context={"field": name, "node": place, "type": type(value).__name__},
            ) from error

    def initial_fields(self) -> EncodedUpdate:
        """Return the initial value of every field."""
        return EncodedUpdate({**self.initial.values, **{name: tuple(log) for name, log in self.initial.lists.items()}})

    def initial_patch(self) -> Patch:
        """Return what a fresh thread is written with first."""
        lists = {name: tuple(log) for name, log in self.initial.lists.items() if log}
        return Patch(values=dict(self.initial.values), appends=lists)

    def log(self, image: StateImage, name: str) -> ItemLog:
        """Return the items of a list field; the initial ones if the thread has none yet."""
        found = image.lists.get(name)
        return self.initial.lists[name] if found is None else found

    def current(self, name: str, image: StateImage, overlay: EncodedUpdate | None = None) -> Any:
        """Return the value of a field as a task sees it, an object of its own; lists are decoded when they are read."""
        spec = self.specs[name]
        if spec.is_list:
            log = self._seen_log(name, image, overlay)
            return LazyItems(log.markers(self.item_codec(name).decode), log.length)
        data = self._seen_value(name, image, overlay)
        return deepcopy(self._defaults[name]) if data is None else spec.stored.decode(data)

    def _seen_log(self, name: str, image: StateImage, overlay: EncodedUpdate | None) -> ItemLog:
        laid = None if overlay is None else overlay.fields.get(name)
        return ItemLog(laid) if isinstance(laid, tuple) else self.log(image, name)

    def _seen_value(self, name: str, image: StateImage, overlay: EncodedUpdate | None) -> bytes | None:
        laid = None if overlay is None else overlay.fields.get(name)
        return laid if isinstance(laid, bytes) else image.values.get(name, self.initial.values.get(name))

    def build(self, image: StateImage, overlay: EncodedUpdate | None, execution_meta: Any) -> Any:
        """Return a state of its own for one attempt.

        Args:
            image: The thread's state.
            overlay: What a ``Send`` lays over it.
            execution_meta: The runtime's notes, which the state takes as they are.
        """
        values = {
            name: execution_meta if name == _RUNTIME_FIELD else self.current(name, image, overlay)
            for name in self.state_class.model_fields
        }
        return self.state_class.model_construct(set(values), **values)

    def diff(self, image: StateImage, overlay: EncodedUpdate | None, state: BaseModel) -> dict[str, Any]:
        """Return the updates by which a node's state differs from the one that ``build`` gave it.

        A list that grew gives what is new if its reducer appends, any other change the whole value. ``context`` gives
        the messages whose ids are new; it is never wiped.
        """
        changes = {name: self._change(spec, image, overlay, getattr(state, name)) for name, spec in self.specs.items()}
        return {name: change for name, change in changes.items() if change is not _UNCHANGED}

    def _change(self, spec: FieldSpec, image: StateImage, overlay: EncodedUpdate | None, value: Any) -> Any:
        if not spec.is_list:
            return self._changed_value(spec, self._seen_value(spec.name, image, overlay), value)
        if not isinstance(value, list):
            return value
        seen = self._seen_log(spec.name, image, overlay)
        if spec.appends == "messages":
            return _new_messages(raw(value), (seen, self.log(image, spec.name)))
        return self._changed_items(spec, seen, value)

    def _changed_value(self, spec: FieldSpec, before: bytes | None, value: Any) -> Any:
        if before is None:
            return _UNCHANGED if same(self._defaults[spec.name], value) else value
        return _UNCHANGED if _is_encoded(spec.stored, value, before) else value

    def _changed_items(self, spec: FieldSpec, before: ItemLog, value: list[Any]) -> Any:
        items, codec = raw(value), self.item_codec(spec.name)
        if len(items) < len(before) or not all(map(partial(_is_encoded, codec), items, before)):
            return value
        if len(items) == len(before):
            return _UNCHANGED
        return value if spec.replaces else [decoded(item) for item in items[len(before) :]]


def _is_encoded(codec: ValueCodec, value: Any, data: bytes) -> bool:
    if type(value) is Undecoded:
        return value.data == data
    try:
        return codec.encode_unchecked(value) == data or same(codec.decode(data), value)  # sets have no order
    except InexactError:
        return False


def _new_messages(items: list[Any], logs: tuple[ItemLog, ...]) -> Any:
    new = [item for item in items if type(item) is not Undecoded and not _is_in(logs, to_json(item.message_id))]
    return new or _UNCHANGED


def _is_in(logs: tuple[ItemLog, ...], key: bytes) -> bool:
    return any(log.contains(key, message_key) for log in logs)


def _without_deltas(items: list[Any]) -> list[Any]:
    return [item for item in raw(items) if type(item) is Undecoded or not is_delta(item)]

"""The exact JSON of one type: what is written is read back the same, or not written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from typing import Any, Final

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import (
    CoreConfig,
    PydanticSerializationError,
    SchemaSerializer,
    SchemaValidator,
)

from tenxgraph.core.exceptions import SerializationError
from tenxgraph.core.state.lazy_items import LazyItems, Undecoded, decoded, load, raw
from tenxgraph.core.state.sameness import difference, same

_EXACT: Final[CoreConfig] = {"ser_json_bytes": "base64", "val_json_bytes": "base64", "ser_json_inf_nan": "constants"}
_CONFIGURED: Final = frozenset({"model", "dataclass", "typed-dict"})
_OPAQUE: Final = frozenset({"metadata", "default", "expected", "members", "cls"})


class InexactError(SerializationError):
    """A value does not survive the trip through JSON; the text says where and why."""


def _exact(schema: Any) -> Any:
    """Return a core schema in which nested models write bytes and NaN as ours do, whatever they are configured with."""
    if isinstance(schema, list | tuple):
        return type(schema)(map(_exact, schema))
    if not isinstance(schema, dict):
        return schema
    if not isinstance(schema.get("type"), str):  # fields or choices by name, where a name may be any word
        return {name: _exact(each) for name, each in schema.items()}
    copied = {key: value if key in _OPAQUE else _exact(value) for key, value in schema.items()}
    if copied["type"] in _CONFIGURED:
        copied["config"] = {**copied.get("config", {}), **_EXACT}
    return copied


def _adapter(annotation: Any, config: ConfigDict) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(annotation, config=config)
    except PydanticUserError as error:
        if error.code != "type-adapter-config-unused":
            raise
        return TypeAdapter(annotation)  # a model brings its own


class ValueCodec:
    """Validates, encodes and decodes values of one type.

    Args:
        annotation: The type as it is stored.
        config: Of the state class; how what users hand in is validated.
        accepts: The type with the validators for what users hand in, if it is another one.
        item: Codec of the items, if values are lists that are stored item by item.
        keeps_markers: Whether validating a list means validating its items, so that stored ones need no look.
    """

    def __init__(
        self,
        annotation: Any,
        config: ConfigDict,
        *,
        accepts: Any = None,
        item: ValueCodec | None = None,
        keeps_markers: bool = False,
    ) -> None:
        stored = _adapter(annotation, config)
        schema = _exact(stored.core_schema)
        # Prebuilt parts are those of the nested models, in their own configuration.
        self._write = SchemaSerializer(schema, _EXACT, _use_prebuilt=False).to_json
        read = SchemaValidator(schema, _EXACT, _use_prebuilt=False).validate_json
        self.decode: Final[Callable[[bytes], Any]] = partial(read, by_alias=False, by_name=True)
        self._accept = (stored if accepts is None else _adapter(accepts, config)).validate_python
        self.item: Final = item
        self._keeps_markers: Final = keeps_markers

    def validated(self, value: Any) -> Any:
        """Return what a user handed in as a value of the type; a lazy list keeps its markers.

        Raises:
            pydantic.ValidationError: It is none.
        """
        if type(value) is LazyItems and self.item is not None and self._keeps_markers:
            return self._validated_items(raw(value), self.item)
        try:
            return self._accept(value)
        except ValidationError:
            if not _load_within(value):
                raise
            return self._accept(value)

    def _validated_items(self, items: list[Any], item: ValueCodec) -> list[Any]:
        return [
            each if type(each) is Undecoded and each.is_of(item.decode) else item.validated(decoded(each))
            for each in items
        ]

    def encode(self, value: Any) -> bytes:
        """Return the JSON of a valid value.

        Raises:
            InexactError: It cannot be written, or would not come back the same.
        """
        data = self.encode_unchecked(value)
        self._check(value, data)
        return data

    def encode_unchecked(self, value: Any) -> bytes:
        """Return the JSON of a valid value that is known to come back, or only to compare it.

        Raises:
            InexactError: It cannot be written.
        """
        try:
            return self._write(value, by_alias=False, round_trip=True, warnings="error")
        except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
            raise InexactError(_first_line(error)) from error

    def _check(self, value: Any, data: bytes) -> None:
        try:
            found = self.decode(data)
        except ValidationError as error:
            raise InexactError(f"what it is written as cannot be read: {summary(error)}") from error
        if not same(value, found):
            raise InexactError(difference(value, found).strip())

    def encode_items(self, items: Iterable[Any], known: Sequence[bytes] = ()) -> tuple[bytes, ...]:
        """Return the JSON of each item of a valid list; what equals the ``known`` item at its place is not checked.

        Raises:
            InexactError: An item cannot be written, or would not come back the same.
        """
        return tuple([self._item_data(each, old) for each, old in _beside(items, known)])

    def _item_data(self, each: Any, old: bytes | None) -> bytes:
        if type(each) is Undecoded:
            return each.data
        assert self.item is not None
        data = self.item.encode_unchecked(each)
        if data != old:
            self.item._check(each, data)
        return data

    def decode_operand(self, data: bytes | tuple[bytes, ...]) -> Any:
        """Return an encoded update as an object of its own."""
        if isinstance(data, bytes):
            return self.decode(data)
        assert self.item is not None
        return [self.item.decode(each) for each in data]


def _beside(items: Iterable[Any], known: Sequence[bytes]) -> Iterable[tuple[Any, bytes | None]]:
    if not known:
        return ((item, None) for item in items)
    values = list(items)
    return zip(values, chain(known, repeat(None)), strict=False)


def _load_within(value: Any) -> bool:
    """Decode the lazy lists inside containers, which pydantic-core would read raw; tell whether there were any."""
    if type(value) is LazyItems:
        load(value)
        return True
    if isinstance(value, Mapping):
        value = list(value.values())
    return isinstance(value, list | tuple) and sum(map(_load_within, value)) > 0


def summary(error: ValidationError) -> str:
    """Return the first faults of a validation in one line."""
    faults = [
        f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" if fault["loc"] else fault["msg"]
        for fault in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    more = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
    return "; ".join(faults[:3]) + more


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines)[:300] or type(error).__name__

"""How one field of a state class is stored and merged."""

from __future__ import annotations

import collections.abc
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    PydanticSchemaGenerationError,
    WrapValidator,
)
from pydantic.fields import FieldInfo
from pydantic_core import from_json, to_json

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.state.message import Message
from tenxgraph.core.state.reducers import add_messages, append_items, replace_messages, replace_value
from tenxgraph.core.state.value_codec import ValueCodec

Reducer = Callable[[Any, Any], Any]

_OWN: Final = (add_messages, append_items, replace_messages, replace_value)
_ID_TYPES: Final = frozenset({str, int, UUID, type(None)})
_VALIDATORS: Final[dict[str, Callable[[Any], Any]]] = {
    "before": BeforeValidator,
    "after": AfterValidator,
    "wrap": WrapValidator,
    "plain": PlainValidator,
}
_ID_PREFIX: Final = b'{"message_id":'
_ID_END: Final = b',"role":'


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field: how it is stored and how updates of it merge.

    Attributes:
        name: Of the field.
        stored: Codec of the value; it has an ``item`` codec if the value is a list, which is stored item by item.
        right: Codec of what an update of the field holds; ``stored``, unless the reducer takes something else.
        reducer: What merges an update; None if the update takes the value's place.
        appends: How the items of our own appending reducers are told apart; None with any other reducer.
    """

    name: str
    stored: ValueCodec
    right: ValueCodec
    reducer: Reducer | None
    appends: Literal["messages", "items"] | None

    @property
    def is_list(self) -> bool:
        """Whether the value is stored item by item."""
        return self.stored.item is not None

    @property
    def replaces(self) -> bool:
        """Whether an update takes the value's place."""
        return self.reducer in (None, replace_messages, replace_value)

    @property
    def key_of(self) -> Callable[[bytes], bytes]:
        """Return what gives the key that dedupes an encoded item; an empty key is no key."""
        return message_key if self.appends == "messages" else id_key


def message_key(item: bytes) -> bytes:
    """Return the JSON of a stored message's id, without decoding: the id comes first and the role second."""
    end = item.find(_ID_END)
    if end < 0 or not item.startswith(_ID_PREFIX):
        return to_json(from_json(item)["message_id"])
    return item[len(_ID_PREFIX) : end]


def id_key(item: bytes) -> bytes:
    """Return the JSON of a stored item's id; empty if it has none."""
    found = from_json(item)["id"]
    return b"" if found is None else to_json(found)


def field_spec(state_class: type[BaseModel], name: str) -> FieldSpec:
    """Work out how a field of a state class is stored and merged.

    Raises:
        GraphError: Its reducers are more than one, or do not take (old value, update).
    """
    info = state_class.model_fields[name]
    config: ConfigDict = {**state_class.model_config, "defer_build": False}
    reducer = _reducer_of(info, f"{state_class.__name__}.{name}")
    item_type = _item_type(info.annotation)
    item = None if item_type is _NO_ITEMS else ValueCodec(item_type, config)
    metadata = _metadata(info, reducer)
    validators = _class_validators(state_class, name)
    stored = ValueCodec(
        _annotated(info.annotation, metadata),
        config,
        accepts=_annotated(info.annotation, metadata + validators) if validators else None,
        item=item,
        keeps_markers=not (metadata or validators),
    )
    right = _right_codec(reducer, info.annotation, config) or stored
    return FieldSpec(name, stored, right, reducer, _appends(reducer, item_type))


_NO_ITEMS: Final = object()


def _item_type(annotation: Any) -> Any:
    if annotation is list:
        return Any
    return get_args(annotation)[0] if get_origin(annotation) is list else _NO_ITEMS


def _is_reducer(entry: Any) -> bool:
    return callable(entry) and not isinstance(entry, type) and not hasattr(entry, "__get_pydantic_core_schema__")


def _reducer_of(info: FieldInfo, field: str) -> Reducer | None:
    reducers = [entry for entry in info.metadata if _is_reducer(entry)]
    if not reducers:
        return None
    if len(reducers) > 1:
        names = ", ".join(map(_name, reducers))
        raise GraphError(
            f"{field} has the reducers {names}: leave one.", error_code="REDUCER", context={"field": field}
        )
    if not _takes_two(reducers[0]):
        raise GraphError(
            f"The reducer {_name(reducers[0])} of {field} must take two arguments: the old value and the update.",
            error_code="REDUCER",
            context={"field": field},
        )
    return reducers[0]  # type: ignore[no-any-return]


def _name(reducer: Any) -> str:
    return getattr(reducer, "__name__", repr(reducer))


def _takes_two(reducer: Reducer) -> bool:
    try:
        inspect.signature(reducer).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # a builtin that does not tell
        return True
    return True


def _metadata(info: FieldInfo, reducer: Reducer | None) -> list[Any]:
    found = [entry for entry in info.metadata if entry is not reducer]
    return found if info.discriminator is None else [*found, Field(discriminator=info.discriminator)]


def _class_validators(state_class: type[BaseModel], name: str) -> list[Any]:
    return [
        _VALIDATORS[decorator.info.mode](decorator.func)
        for decorator in state_class.__pydantic_decorators__.field_validators.values()
        if {name, "*"}.intersection(decorator.info.fields)
    ]


def _annotated(annotation: Any, metadata: list[Any]) -> Any:
    return Annotated[(annotation, *metadata)] if metadata else annotation


def _right_codec(reducer: Reducer | None, annotation: Any, config: ConfigDict) -> ValueCodec | None:
    """Return the codec of updates if the reducer's second parameter says that they are of another type."""
    if reducer is None or reducer in _OWN:
        return None
    right = _second_annotation(reducer)
    if not _is_concrete(right) or right == annotation or get_origin(right) == (get_origin(annotation) or annotation):
        return None
    item_type = _item_type(right)
    try:
        return ValueCodec(right, config, item=None if item_type is _NO_ITEMS else ValueCodec(item_type, config))
    except PydanticSchemaGenerationError:
        return None


def _second_annotation(reducer: Reducer) -> Any:
    try:
        second = list(inspect.signature(reducer).parameters)[1]
        return get_type_hints(reducer, include_extras=True).get(second)
    except (TypeError, ValueError, NameError, IndexError):
        return None


def _is_concrete(annotation: Any) -> bool:
    if annotation in (None, Any, object, list, dict, tuple, set) or isinstance(annotation, TypeVar):
        return False
    origin = get_origin(annotation) or annotation
    is_protocol = getattr(origin, "__module__", "") == collections.abc.__name__
    return not is_protocol and not getattr(annotation, "__parameters__", ())


def _appends(reducer: Reducer | None, item_type: Any) -> Literal["messages", "items"] | None:
    if not isinstance(item_type, type) or not issubclass(item_type, BaseModel) or _writes_itself(item_type):
        return None
    if reducer is add_messages and issubclass(item_type, Message):
        return "messages"
    return "items" if reducer is append_items and _has_plain_id(item_type) else None


def _writes_itself(model: type[BaseModel]) -> bool:
    decorators = model.__pydantic_decorators__
    return bool(decorators.model_serializers or decorators.field_serializers)


def _has_plain_id(model: type[BaseModel]) -> bool:
    """Tell whether ids that are equal have equal JSON, and the others not."""
    info = model.model_fields.get("id")
    if info is None:
        return False
    is_union = get_origin(info.annotation) in (Union, UnionType)
    kinds = set(get_args(info.annotation)) if is_union else {info.annotation}
    return kinds <= _ID_TYPES and not {str, UUID} <= kinds

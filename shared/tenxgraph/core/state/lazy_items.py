"""Lists whose items are decoded when they are first looked at, so that a node pays for what it reads.

A `LazyItems` is a real list. Its raw storage holds a marker for each item that nobody has looked at; C code that reads
the storage past Python's list protocol meets a marker, which serves pydantic's serializers and refuses all else aloud.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from functools import wraps
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, SupportsIndex, TypeVar, cast, overload

from pydantic import BaseModel, SerializerFunctionWrapHandler, model_serializer, model_validator
from pydantic_core import SchemaSerializer, core_schema

from tenxgraph.core.exceptions import TenxGraphError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class UndecodedItemError(TenxGraphError, TypeError):
    """C code read a lazy list past Python's list protocol: hand it ``list(items)`` instead."""

    default_code = "UNDECODED_ITEM"


def _refuse(*_: object, **__: object) -> NoReturn:
    raise UndecodedItemError(
        "An item of a lazy list of the state was read past Python's list protocol; pass list(items) instead."
    )


def decoded(value: Any) -> Any:
    """Return the object that a marker stands for; anything else as it is. For ``before`` validators of item models."""
    return value.decode() if type(value) is Undecoded else value


class Undecoded:
    """Stands in raw storage for an item that nobody has looked at; immutable, shared by all lists over the item."""

    __slots__ = ("_decode", "data")

    __pydantic_serializer__: ClassVar[SchemaSerializer] = SchemaSerializer(
        core_schema.any_schema(serialization=core_schema.plain_serializer_function_ser_schema(decoded))
    )

    def __init__(self, data: bytes, decode: Callable[[bytes], Any]) -> None:
        self.data: bytes = data
        self._decode = decode

    def decode(self) -> Any:
        """Return an object of its own for the item."""
        return self._decode(self.data)

    def is_of(self, decode: Callable[[bytes], Any]) -> bool:
        """Tell whether ``decode`` is what decodes the item."""
        return self._decode is decode

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        _refuse()

    if not TYPE_CHECKING:  # to a type checker it is an object that is good for nothing
        __class__ = property(_refuse)  # isinstance() would answer False, in silence
        __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
        __hash__ = __bool__ = __len__ = __str__ = __repr__ = __format__ = _refuse
        __iter__ = __contains__ = __getitem__ = __call__ = __add__ = __radd__ = _refuse
        __copy__ = __deepcopy__ = __reduce_ex__ = _refuse


def _after_loading(method: F) -> F:
    """Let a method of list read raw storage, with every lazy list in its hands decoded before."""

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        for value in args:
            load(value)
        return method(*args, **kwargs)

    return cast(F, call)


class LazyItems(list[T]):
    """A list over shared markers that decodes an item at first access and keeps the object.

    What is inherited unchanged (``len``, ``append``, ``insert``, ``del``, ``reverse`` …) moves items without looking.
    Slices, sums and copies are plain lists.
    """

    __slots__ = ("_lock",)

    def __init__(self, items: Iterable[Any] = (), length: int | None = None) -> None:
        super().__init__(items)
        self._lock = Lock()
        if length is not None:
            super().__delitem__(slice(length, None))

    def load(self) -> None:
        """Decode all that is not decoded yet."""
        for position, item in enumerate(raw(self)):
            if type(item) is Undecoded:
                self._decode_at(position)

    def _decode_at(self, position: SupportsIndex) -> T:
        with self._lock:  # two threads must get the same object, or an edit of one of them is lost
            item: Any = super().__getitem__(position)
            if type(item) is Undecoded:
                item = item.decode()
                super().__setitem__(position, item)
            return cast(T, item)

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> T: ...
    @overload
    def __getitem__(self, index: slice, /) -> list[T]: ...
    def __getitem__(self, index: SupportsIndex | slice, /) -> T | list[T]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        item = super().__getitem__(index)
        return self._decode_at(index) if type(item) is Undecoded else item

    @overload
    def __setitem__(self, index: SupportsIndex, value: T, /) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[T], /) -> None: ...
    def __setitem__(self, index: Any, value: Any, /) -> None:
        super().__setitem__(index, list(value) if value is self else value)

    def __iter__(self) -> Iterator[T]:
        position = 0
        while position < len(self):
            yield self[position]
            position += 1

    def __reversed__(self) -> Iterator[T]:
        position = len(self)
        while 0 < position <= len(self):
            position -= 1
            yield self[position]

    def __contains__(self, value: object, /) -> bool:
        return any(item is value or item == value for item in self)

    def __radd__(self, other: object) -> Any:
        self.load()
        return NotImplemented  # list's own ``+`` and ``+=`` take over: the latter must extend the left side in place

    def __iadd__(self, other: Iterable[T], /) -> LazyItems[T]:  # type: ignore[override,misc]  # as in list
        self.extend(other)
        return self

    def extend(self, items: Iterable[T], /) -> None:
        """Append all items; the list itself too."""
        super().extend(list(items) if items is self else items)

    def pop(self, index: SupportsIndex = -1, /) -> T:
        """Take an item out and return it."""
        return decoded(super().pop(index))  # type: ignore[no-any-return]

    def __deepcopy__(self, memo: dict[int, Any]) -> list[T]:
        return deepcopy(list(self), memo)

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        return list, (list(self),)

    if not TYPE_CHECKING:  # to a type checker it is a list
        __eq__ = _after_loading(list.__eq__)
        __ne__ = _after_loading(list.__ne__)
        __lt__ = _after_loading(list.__lt__)
        __le__ = _after_loading(list.__le__)
        __gt__ = _after_loading(list.__gt__)
        __ge__ = _after_loading(list.__ge__)
        __add__ = _after_loading(list.__add__)
        __mul__ = _after_loading(list.__mul__)
        __rmul__ = _after_loading(list.__rmul__)
        __imul__ = _after_loading(list.__imul__)
        __repr__ = _after_loading(list.__repr__)
        __copy__ = copy = _after_loading(list.copy)
        count = _after_loading(list.count)
        index = _after_loading(list.index)
        remove = _after_loading(list.remove)
        sort = _after_loading(list.sort)
        __hash__ = None


def raw(items: list[Any]) -> list[Any]:
    """Return a list's raw storage as a plain list: a marker where nobody has looked, else the object."""
    return list.__getitem__(items, slice(None))


def load(value: Any) -> None:
    """Decode all of a lazy list; nothing happens to anything else."""
    if type(value) is LazyItems:
        value.load()


class LazyStateMixin(BaseModel):
    """Base of a state that holds `LazyItems`: pydantic-core reads lists raw, so they are decoded before it does."""

    @model_validator(mode="before")
    @classmethod
    def _load_before_validation(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            for value in data.values():
                load(value)
        return data

    @model_serializer(mode="wrap")
    def _load_before_serialization(self, handler: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]
        # Without a return type: one would replace the fields in the JSON schema.
        for value in self.__dict__.values():
            load(value)
        return handler(self)

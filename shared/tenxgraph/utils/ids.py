"""Where message and tool call ids come from."""

import hashlib
import inspect
import itertools
import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, Protocol, TypeAlias, cast
from weakref import WeakKeyDictionary

from injectq import InjectQ

from tenxgraph.core.exceptions import GraphError
from tenxgraph.utils.awaiting import wait_for

IdType: TypeAlias = Literal["string", "int", "bigint"]

_TYPE_KEY: Final = "generated_id_type"
_VALUE_KEY: Final = "generated_id"
_BYTES: Final[dict[IdType, int]] = {"int": 12, "bigint": 8}


class IdSource(Protocol):
    """Gives ids to whatever asks for one while it is the current source."""

    @property
    def id_type(self) -> IdType:
        """The configured type: an explicit id of this type is kept."""
        ...

    def next_id(self) -> str | int:
        """Return an id that this source gave to nobody before."""
        ...


_source: ContextVar[IdSource | None] = ContextVar("tenxgraph_id_source", default=None)
_coroutine_results: Final[WeakKeyDictionary[Any, Any]] = WeakKeyDictionary()


@contextmanager
def id_source_scope(source: IdSource) -> Iterator[None]:
    """Let ``generate_id`` ask ``source`` in this context, and in threads and tasks that copy it."""
    token = _source.set(source)
    try:
        yield
    finally:
        _source.reset(token)


def generate_id(default_id: str | int | None = None) -> str | int:
    """Return ``default_id`` if it is of the configured type, else a new id.

    A new id is the ``generated_id`` of the injectq container, or else by its ``generated_id_type``: ``string`` (uuid4
    text), ``int`` (96 bits) or ``bigint`` (64 bits). Inside a graph both are asked of the graph's container.

    Args:
        default_id: An explicit id. ``None`` and the empty text stand for no id.

    Raises:
        GraphError: The container holds an unknown ``generated_id_type``, or a ``generated_id`` that is no id.
    """
    source = _source.get() or _RandomIds(InjectQ.get_instance())
    if accepts_id(default_id, source.id_type):
        return cast("str | int", default_id)
    return source.next_id()


def accepts_id(default_id: str | int | None, id_type: IdType | None = None) -> bool:
    """Tell whether an explicit id is one of ``id_type``, by default the type configured here."""
    if default_id is None or default_id == "" or isinstance(default_id, bool):
        return False
    wanted = id_type or (_source.get() or _RandomIds(InjectQ.get_instance())).id_type
    return isinstance(default_id, str if wanted == "string" else int)


def configured_id_type(container: InjectQ) -> IdType:
    """Return the ``generated_id_type`` of a container, ``string`` if it has none."""
    if _TYPE_KEY not in container:
        return "string"
    value = container.get(_TYPE_KEY)
    if value not in ("string", *_BYTES):
        raise GraphError(
            f"generated_id_type is {value!r}: bind 'string', 'int' or 'bigint' in the container",
            error_code="ID_TYPE",
        )
    return cast("IdType", value)


def configured_id(container: InjectQ) -> str | int | None:
    """Return the next ``generated_id`` of a container, or ``None`` if it has none."""
    return _made_id(container.get(_VALUE_KEY), _VALUE_KEY) if _VALUE_KEY in container else None


def _made_id(maker: Any, name: str) -> str | int | None:
    value = _resolved(maker)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise GraphError(
            f"{name} gave a {type(value).__name__}: an id is a str or an int, or something that returns one",
            error_code="ID_VALUE",
        )
    return value


def _resolved(value: Any) -> Any:
    if callable(value):
        return _awaited(value())
    if not inspect.iscoroutine(value):
        return _awaited(value)
    # A coroutine can be awaited once: what it gave is kept as long as it is.
    if value not in _coroutine_results:
        _coroutine_results[value] = wait_for(value)
    return _coroutine_results[value]


def _awaited(value: Any) -> Any:
    return wait_for(value) if inspect.isawaitable(value) else value


@dataclass(slots=True)
class _RandomIds:
    container: InjectQ

    @property
    def id_type(self) -> IdType:
        return configured_id_type(self.container)

    def next_id(self) -> str | int:
        given = configured_id(self.container)
        if given is not None:
            return given
        value = uuid.uuid4()
        size = _BYTES.get(self.id_type)
        return str(value) if size is None else value.int >> (128 - 8 * size)


@dataclass
class DerivedIds:
    """Ids that follow from (run, step, task, position), so that a repeated attempt makes the same ones.

    The position counts from 0 with every id given. The graph's ``id_generator`` wins over
    derivation, and so does a ``generated_id`` of the container.

    Attributes:
        run_id: The run that the task belongs to.
        step: Number of the step in the run.
        task: Number of the task in the step, or its name.
        container: The graph's container; ``None`` stands for the current one.
        generator: The graph's ``id_generator``, of the same kinds as ``generated_id``; ``None`` if it has none.
    """

    run_id: str
    step: int
    task: int | str
    container: InjectQ | None = None
    generator: Any = None
    _positions: Iterator[int] = field(default_factory=itertools.count, init=False, repr=False, compare=False)

    @cached_property
    def _injectq(self) -> InjectQ:
        return self.container if self.container is not None else InjectQ.get_instance()

    @cached_property
    def _id_type(self) -> IdType:
        return configured_id_type(self._injectq)

    @property
    def id_type(self) -> IdType:
        """The container's ``generated_id_type``, read once."""
        return self._id_type

    def next_id(self) -> str | int:
        """Return the id of the next position."""
        position = next(self._positions)
        given = None if self.generator is None else _made_id(self.generator, "id_generator")
        given = given if given is not None else configured_id(self._injectq)
        return given if given is not None else self._derive(position)

    def _derive(self, position: int) -> str | int:
        path = json.dumps([self.run_id, self.step, self.task, position])
        digest = hashlib.sha256(path.encode()).digest()
        size = _BYTES.get(self.id_type)
        if size is None:
            return str(uuid.UUID(bytes=digest[:16], version=5))
        return int.from_bytes(digest[:size], "big")

"""Records that cross the broker or wait in the store, as JSON. Field values inside them are text of their own."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, Final, Self

import orjson

from tenxgraph.core.state.codec import EncodedUpdate
from tenxgraph.core.state.image import ItemLog, Origin, StateImage, Version
from tenxgraph.core.state.trim import Trim

FORMAT = 1


def _dumps(record: Any) -> bytes:
    return orjson.dumps(record)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a finished task leads.

    Attributes:
        node: Name of a node, or END.
        send: JSON text of the fields of a Send; None for an edge.
    """

    node: str
    send: str | None = None


@dataclass(frozen=True, slots=True)
class TaskUpdate:
    """What a task hands in.

    Attributes:
        fields: Right operands of the reducers.
        targets: Where the task itself leads (a Command's goto, an error route); None means by its edges.
        trim: What a context manager left of the conversation.
    """

    fields: EncodedUpdate
    targets: tuple[Target, ...] | None = None
    trim: Trim | None = None

    def to_json(self) -> bytes:
        """Return the record as JSON."""
        targets = None if self.targets is None else [[target.node, target.send] for target in self.targets]
        trim = {} if self.trim is None else {"trim": self.trim.to_json()}
        return _dumps({"fields": self.fields.to_json().decode(), "targets": targets, **trim})

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Read :meth:`to_json` back."""
        raw = orjson.loads(text)
        targets = None if raw["targets"] is None else tuple(Target(*target) for target in raw["targets"])
        trim = Trim.from_json(raw["trim"]) if "trim" in raw else None
        return cls(EncodedUpdate.from_json(raw["fields"].encode()), targets, trim)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A planned task, as it is kept while it waits or runs.

    Attributes:
        call: Id of the one tool call that the task makes; None where it runs its node whole.
        part: Which of the tasks it is, from 0, that one arrival at a distributing tool node became.
    """

    node: str
    send: str | None = None
    each: bool = False
    call: str | None = None
    part: int = 0

    def to_json(self) -> bytes:
        """Return the record as JSON."""
        whole = [self.node, self.send, self.each]
        return _dumps(whole if self.call is None else [*whole, self.call, self.part])

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Read :meth:`to_json` back."""
        return cls(*orjson.loads(text))


@dataclass(frozen=True, slots=True)
class Finished:
    """A task of a step that is over: what routing goes by."""

    node: str
    send: str | None = None
    targets: tuple[Target, ...] | None = None


@dataclass(frozen=True, slots=True)
class Base:
    """Where ``context`` stood when the run had taken its input: generation, length, version, end in its home."""

    gen: int
    length: int
    version: int
    home: int = -1
    end: int = 0


@dataclass(frozen=True, slots=True)
class Frontier:
    """Where a run stands between two steps.

    Attributes:
        base: Start of what the run adds to the context.
        waiting: Planned tasks that a join holds back.
        finished: Tasks whose routes are chosen when a pause ends.
    """

    base: Base | None = None
    waiting: tuple[Arrival, ...] = ()
    finished: tuple[Finished, ...] = ()

    def to_json(self) -> bytes:
        """Return the record as JSON."""
        return _dumps(self)

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Read :meth:`to_json` back; empty text is a run that has not started."""
        if not text:
            return cls()
        raw = orjson.loads(text)
        base = None if raw["base"] is None else Base(**raw["base"])
        finished = tuple(_finished(item) for item in raw["finished"])
        return cls(base, tuple(Arrival(**item) for item in raw["waiting"]), finished)


def _finished(raw: dict[str, Any]) -> Finished:
    targets = raw["targets"]
    return Finished(raw["node"], raw["send"], None if targets is None else tuple(Target(**item) for item in targets))


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """What a checkpoint says of its step: nodes that ran, run next, and wait for a join.

    Attributes:
        source: What wrote it where no step did: ``update``, ``fork``, ``checkpoint``; else "".
        by: The user who asked for that.
    """

    ran: tuple[str, ...] = ()
    upcoming: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    source: str = ""
    by: str = ""

    def to_json(self) -> bytes:
        """Return the record as JSON."""
        return _dumps(self)

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Read :meth:`to_json` back."""
        noted: dict[str, Any] = orjson.loads(text or b"{}")
        read: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in noted.items()
        }
        return cls(**read)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt, a step or a run failed.

    Attributes:
        error: Class of tenxgraph's error to raise for it.
        cause: Qualified name of the exception that user code raised, or "".
        tries: How often the task has failed so far, for one that waits to be tried again; deaths do not count.
    """

    error: str
    message: str
    code: str
    node: str = ""
    attempt: int = 1
    cause: str = ""
    traceback: str = ""
    tries: int = 0
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> bytes:
        """Return the record as JSON."""
        return orjson.dumps(asdict(self), default=repr, option=orjson.OPT_NON_STR_KEYS)

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Read :meth:`to_json` back."""
        return cls(**orjson.loads(text))


_ALWAYS: Final = ("thread_id", "run_id", "user_id", "recursion_limit")
_OPTIONAL: Final[Mapping[str, Any]] = {
    "timeout_s": 0.0,
    "multitask_strategy": "enqueue",
    "priority": None,
    "start_after_s": 0.0,
    "steps": "task",
    "checkpoint": None,
}


@dataclass(frozen=True, slots=True)
class RunConfig:
    """The checked config of a call.

    Attributes:
        extra: Further keys of the caller, JSON-able; nodes see them.
        timeout_s: Of the whole run; 0 for none.
        start_after_s: Delay before the run starts.
        stream_tokens: Whether nodes tell answers of models piece by piece.
        steps: ``task`` or ``sticky``; see ``StateGraph.compile``.
        checkpoint: Version of the thread that the run goes back to first.
    """

    thread_id: str
    run_id: str
    user_id: str
    recursion_limit: int
    timeout_s: float = 0.0
    multitask_strategy: str = "enqueue"
    priority: int | None = None
    start_after_s: float = 0.0
    stream_tokens: bool = True
    steps: str = "task"
    checkpoint: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def seen_by_nodes(self) -> dict[str, Any]:
        """A fresh config dict for a node: what the caller gave, with what every run has."""
        given = {name: getattr(self, name) for name in _OPTIONAL if getattr(self, name) != _OPTIONAL[name]}
        return {**orjson.loads(_dumps(self.extra)), **given, **{name: getattr(self, name) for name in _ALWAYS}}

    def to_json(self) -> bytes:
        """Return the record as JSON."""
        return _dumps(self)

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Read :meth:`to_json` back."""
        return cls(**orjson.loads(text))


@lru_cache(256)
def read_run_config(text: bytes) -> RunConfig:
    """Read a config that is asked for several times in each step; share it, change nothing."""
    return RunConfig.from_json(text)


@dataclass(frozen=True, slots=True)
class TaskMessage:
    """What travels through the broker for one attempt at one task.

    Attributes:
        node: For people; the store says what runs.
        state: The state before the step while it is small; None travels by reference.
        format: Of the message; only the fields that name the attempt can be relied on in all formats.
    """

    graph: str
    graph_version: str
    thread_id: str
    run_id: str
    step: int
    task: str
    attempt: int
    node: str
    state: StateImage | None = None
    format: int = FORMAT

    @property
    def is_readable(self) -> bool:
        """Whether this code knows the format."""
        return self.format == FORMAT

    def to_kwargs(self) -> dict[str, Any]:
        """Return the message as small JSON, the keyword arguments of the queue's task."""
        kwargs = {name: getattr(self, name) for name in ("format", *_NAMING)}
        return kwargs if self.state is None else {**kwargs, "state": _image_to_json(self.state)}

    @classmethod
    def from_kwargs(cls, kwargs: Mapping[str, Any]) -> Self:
        """Read :meth:`to_kwargs` back; of another format what names the attempt."""
        named = {name: kwargs[name] for name in _NAMING}
        known = kwargs["format"] == FORMAT
        state = _image_from_json(kwargs["state"]) if known and "state" in kwargs else None
        return cls(**named, state=state, format=kwargs["format"])


_NAMING = ("graph", "graph_version", "thread_id", "run_id", "step", "task", "attempt", "node")


def _image_to_json(image: StateImage) -> dict[str, Any]:
    return {
        "version": [image.version.number, image.version.nonce],
        "values": {name: value.decode() for name, value in image.values.items()},
        "lists": {name: _log_to_json(log) for name, log in image.lists.items()},
    }


def _log_to_json(log: ItemLog) -> list[Any]:
    items, cut = [item.decode() for item in log], log.origin.to_text()
    return [log.gen, items, cut] if cut else [log.gen, items]


def _log_from_json(gen: int, items: list[str], cut: str = "") -> ItemLog:
    return ItemLog([item.encode() for item in items], gen, Origin.from_text(cut, gen))


def _image_from_json(raw: Mapping[str, Any]) -> StateImage:
    values = {name: value.encode() for name, value in raw["values"].items()}
    lists = {name: _log_from_json(*log) for name, log in raw["lists"].items()}
    return StateImage(Version(*raw["version"]), values, lists)

"""Run graphs as data, in process or on workers, and compare what came of it.

A :class:`GraphCase` says what to build, what to call and what must come of it; :func:`run_case` runs it on any
compiled graph and returns a :class:`Trace` in a normal form, in which generated ids are numbered by first appearance
and times are dropped. The in-process trace is the oracle: :func:`assert_same` compares another one with it.
"""

import difflib
import pprint
import re
import uuid
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from pydantic import BaseModel

from tenxgraph.core.exceptions import NodeError, TenxGraphError
from tenxgraph.core.graph import CompiledGraph, RunHandle, RunStatus, StateGraph, StateSnapshot
from tenxgraph.core.state import Message, StreamChunk, StreamEvent
from tenxgraph.utils.constants import START

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_WIDE: Final = 2**32
_NOT_COMPARED: Final = frozenset({"timestamp", "created_at", "traceback"})
_OF_A_STEP: Final = frozenset({StreamEvent.STEP_END, StreamEvent.STEP_START, StreamEvent.STATE, StreamEvent.MESSAGE})


@dataclass(frozen=True, slots=True)
class CaseCall:
    """One call on the case's thread.

    Attributes:
        give: Gets the last call's result (None at first) and returns the input.
        config: Beside the thread's id.
        status: How the run must stand afterwards.
        raises: The error that the call must raise instead; ``match`` is a pattern that its text must hold.
    """

    give: Callable[[Mapping[str, Any] | None], Any]
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    status: RunStatus = RunStatus.COMPLETED
    raises: type[TenxGraphError] | None = None
    match: str = ""


@dataclass(frozen=True, slots=True)
class GraphCase:
    """A graph as data: how it is built, what is called on one thread of it, and what must come of it.

    Attributes:
        build: Returns the builder of a graph whose nodes are deterministic.
        calls: One after the other.
        steps: The nodes of each step that wrote, over all calls, in plan order; START left out.
        final: Field → value at the end. ``context`` is told as ``["role: text", …]``.
        pauses: Keywords of ``compile()``: ``interrupt_before``, ``interrupt_after``.
    """

    name: str
    build: Callable[[], StateGraph[Any]]
    calls: Sequence[CaseCall]
    steps: Sequence[Sequence[str]]
    final: Mapping[str, Any] = field(default_factory=dict[str, Any])
    pauses: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def compile(self, **options: Any) -> CompiledGraph[Any]:
        """Return the case's graph under the case's name; ``options`` go to ``compile()``."""
        graph = self.build()
        graph.name = self.name
        return graph.compile(**self.pauses, **options)


@dataclass(frozen=True, slots=True)
class Trace:
    """What came of a case, in normal form.

    Attributes:
        outcomes: Of each call: its result, or the error that it raised.
        states: Of each checkpoint: the snapshot.
        events: Of each run: events of the run in order, then each task's own in order.
    """

    outcomes: list[Any]
    states: list[Any]
    events: list[Any]


def run_case(case: GraphCase, app: CompiledGraph[Any], *, timeout_s: float = 60.0) -> Trace:
    """Make the calls of a case on a fresh thread, and check what the case itself expects.

    Args:
        case: What to call and what must come of it.
        app: The case's graph, compiled for whatever runs it.
        timeout_s: For each run to settle.

    Raises:
        AssertionError: Status, error, steps or final state are not as the case says.
        TimeoutError: A run did not settle in time.
    """
    runner = _CaseRun(case, app, timeout_s)
    runner.call_all()
    return runner.trace()


class _CaseRun:
    def __init__(self, case: GraphCase, app: CompiledGraph[Any], timeout_s: float) -> None:
        self._case, self._app, self._timeout_s = case, app, timeout_s
        self._config = {**case.calls[0].config, "thread_id": str(uuid.uuid4())}
        self._plain = _Plain()
        self._runs: dict[str, RunHandle[Any]] = {}
        self._last: dict[str, Any] | None = None
        self._outcomes: list[Any] = []

    def call_all(self) -> None:
        for number, call in enumerate(self._case.calls):
            self._outcomes.append(self._call(call, f"{self._case.name}, call {number}"))

    def _call(self, call: CaseCall, place: str) -> Any:
        try:
            handle = self._app.submit(call.give(self._last), {**call.config, "thread_id": self._config["thread_id"]})
            self._runs.setdefault(handle.run_id, handle)
            self._last = handle.result(self._timeout_s, response_granularity="full")
        except TenxGraphError as error:
            _check_error(call, error, place)
            return self._plain(_error(error))
        assert call.raises is None, f"{place}: raised no {call.raises} but gave {self._last}"
        status = self._last["status"]
        assert status is call.status, f"{place}: the run is {status}, not {call.status}"
        return self._plain(self._last)

    def trace(self) -> Trace:
        snapshots = self._snapshots()
        chunks = {run_id: self._chunks(run_id) for run_id in self._runs}
        steps = [nodes for run in chunks.values() for nodes in _steps(run)]
        wanted = [list(nodes) for nodes in self._case.steps]
        assert steps == wanted, f"{self._case.name}: the steps were {steps}, not {wanted}"
        if snapshots:
            self._check_final(snapshots[-1])
        events = [_normal_events(self._plain, run) for run in chunks.values()]
        return Trace(self._outcomes, [self._plain(snapshot) for snapshot in snapshots], events)

    def _snapshots(self) -> list[StateSnapshot[Any]]:
        if not self._runs:
            return []
        newest = self._app.get_state(self._config)
        older = [self._app.get_state(self._config, number) for number in range(1, newest.checkpoint)]
        return [*older, newest]

    def _chunks(self, run_id: str) -> list[StreamChunk]:
        return list(self._app.get_run(run_id).stream())

    def _check_final(self, snapshot: StateSnapshot[Any]) -> None:
        for name, wanted in self._case.final.items():
            found = getattr(snapshot.state, name)
            found = told(found) if name == "context" else found
            assert found == wanted, f"{self._case.name}: {name} is {found!r}, not {wanted!r}"


def told(messages: Sequence[Message]) -> list[str]:
    """Return messages as ``role: text``."""
    return [f"{message.role}: {message.text()}" for message in messages]


def _check_error(call: CaseCall, error: TenxGraphError, place: str) -> None:
    if call.raises is None or not isinstance(error, call.raises):
        raise AssertionError(f"{place}: raised {error!r}, not {call.raises}") from error
    assert re.search(call.match, str(error)), f"{place}: {call.match!r} is not in {str(error)!r}"


def _error(error: TenxGraphError) -> dict[str, Any]:
    told: dict[str, Any] = {
        "error": type(error).__name__,
        "code": error.error_code,
        "message": error.message,
        "context": error.context,
    }
    if isinstance(error, NodeError):
        told |= {"node": error.node, "attempt": error.attempt}
    return told


def _steps(chunks: Sequence[StreamChunk]) -> list[list[str]]:
    ended = [chunk.data["nodes"] for chunk in chunks if chunk.event is StreamEvent.STEP_END]
    return [nodes for nodes in ended if nodes != [START]]


def _normal_events(plain: "_Plain", chunks: Sequence[StreamChunk]) -> Any:
    main = [_event(chunk) for chunk in chunks if _belongs_to_run(chunk)]
    own: dict[str, list[Any]] = {}
    for chunk in chunks:
        if not _belongs_to_run(chunk):
            own.setdefault(f"step {chunk.step}, {chunk.task or chunk.node}", []).append(_event(chunk))
    return plain({"run": main, "tasks": {task: own[task] for task in sorted(own)}})


def _belongs_to_run(chunk: StreamChunk) -> bool:
    return chunk.event in _OF_A_STEP or (chunk.task is None and chunk.node is None)


def _event(chunk: StreamChunk) -> dict[str, Any]:
    told = {
        name: getattr(chunk, name) for name in ("event", "step", "node", "task", "attempt", "message", "state", "data")
    }
    return {name: value for name, value in told.items() if value is not None}


class _Plain:
    """Brings values into normal form; remembers which generated id got which number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __call__(self, value: Any) -> Any:
        if isinstance(value, BaseModel | StateSnapshot):
            return self._record(value)
        if isinstance(value, Enum | uuid.UUID):
            return value
        if isinstance(value, str):
            return self._text(value)
        if type(value) is int and value > _WIDE:
            return self._number(str(value))
        return self._container(value)

    def _container(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {self(name): self(item) for name, item in value.items() if name not in _NOT_COMPARED}
        if isinstance(value, list | tuple):
            return type(value)([self(item) for item in value])
        if isinstance(value, Set):
            return type(value)([self(item) for item in value])  # type: ignore[call-arg]  # of the class it came in
        return value

    def _record(self, value: Any) -> Any:
        names = type(value).model_fields if isinstance(value, BaseModel) else StateSnapshot.__dataclass_fields__
        fields = {name: self(getattr(value, name)) for name in names if name not in _NOT_COMPARED}
        return {"is a": type(value).__name__, **fields}

    def _text(self, value: str) -> str:
        return _UUID.sub(lambda found: self._number(found[0]), value)

    def _number(self, generated: str) -> str:
        return f"<id {self._numbers.setdefault(generated, len(self._numbers))}>"


def assert_same(oracle: Trace, other: Trace) -> None:
    """Raise AssertionError with the differing lines unless both traces are the same."""
    if oracle == other:
        return
    left, right = (pprint.pformat(trace, width=120).splitlines() for trace in (oracle, other))
    lines = list(difflib.unified_diff(left, right, "oracle", "other", lineterm="", n=4))
    shown = lines or ["They look alike and differ in the types of their values."]
    raise AssertionError("The traces differ:\n" + "\n".join(shown[:200]))

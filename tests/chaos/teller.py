"""A client on one thread: it repeats what got no reply, and notes what it began and what it was told."""

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from tenxgraph.core.exceptions import RunCancelledError, StorageError
from tenxgraph.core.graph import CompiledGraph, RunHandle, RunStatus
from tenxgraph.core.state import Message
from tenxgraph.store.base import RunView
from tests.chaos.graphs import AGAIN, GRAPHS, Marks

T = TypeVar("T")

_INSIST_S: Final = 60.0
_PAUSE_S: Final = 0.2
_LONGEST_S: Final = 1.0


def insist(call: Callable[[], T]) -> T:
    """Repeat a call, under the same ids, while the store is away."""
    deadline_s = time.monotonic() + _INSIST_S
    while True:
        try:
            return call()
        except StorageError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(_PAUSE_S)


def together(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Make calls at one instant, each on a thread of its own."""
    ready = threading.Barrier(len(calls))

    def meet(call: Callable[[], T]) -> T:
        ready.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(meet, calls))


def said_id(run_id: str) -> str:
    """Return the id of the message that begins a run."""
    return f"said-{run_id}"


@dataclass
class Teller:
    """A client on one thread.

    Attributes:
        patience_s: For a run to settle; a run that takes longer is stuck.
        runs: Ids of the runs that were begun, and how each must end.
        answers: Question id → the answer that was taken.
    """

    app: "CompiledGraph[Any]"
    thread_id: str
    patience_s: float
    runs: dict[str, RunStatus] = field(default_factory=dict)
    chance: random.Random = field(default_factory=random.Random)
    answers: dict[str, Any] = field(default_factory=dict)

    @property
    def run_id(self) -> str:
        return f"run-of-{self.thread_id}"

    def begin(self, status: RunStatus = RunStatus.COMPLETED, also: str = "", **config: Any) -> "RunHandle[Any]":
        """Send a message, under the run id of this thread and ``also``."""
        run_id = self.run_id + also
        said = Message.text_message("go", message_id=said_id(run_id))
        said.timestamp = 0.0
        handle = self._submit({"messages": [said]}, run_id, **config)
        self.runs[run_id] = status
        return handle

    def go_on(self) -> "RunHandle[Any]":
        handle = self._submit(None, self.run_id + AGAIN)
        self.runs[self.run_id + AGAIN] = RunStatus.COMPLETED
        return handle

    def answer(self, value: Any, name: str = "answer") -> "RunHandle[Any]":
        # The id of the call makes its repeat known.
        return self._submit({"resume": value}, f"{self.run_id}-{name}")

    def _submit(self, given: Any, run_id: str, **config: Any) -> "RunHandle[Any]":
        full = {"thread_id": self.thread_id, "run_id": run_id, **config}
        return insist(lambda: self.app.submit(given, full))

    def ended(self, handle: "RunHandle[Any]") -> RunStatus:
        """Wait until the run ends, and return how: that is how it must stay."""
        with suppress(RunCancelledError):
            handle.result(self.patience_s)
        self.runs[handle.run_id] = insist(handle.status)
        return self.runs[handle.run_id]

    def waits(self, handle: "RunHandle[Any]") -> list[dict[str, Any]]:
        """Wait until the run asks, and return its questions."""
        waiting = handle.result(self.patience_s)
        assert waiting["status"] is RunStatus.WAITING, waiting["status"]
        asked: list[dict[str, Any]] = waiting["interrupts"]
        return asked

    def cancel(self, handle: "RunHandle[Any]") -> RunStatus:
        """Cancel a run; nothing may be written from then on. Return how it ended: it may have been quicker."""
        status = insist(lambda: handle.cancel("chaos"))
        assert status is not None, "cancel() knows no such run"
        before = self.state().marks
        assert self.ended(handle) is status
        assert self.state().marks == before, "something was merged after the cancel was acknowledged"
        return status

    def let_it_run(self) -> None:
        time.sleep(self.chance.uniform(0, _LONGEST_S))

    def state(self) -> Marks:
        found: Marks = insist(lambda: self.app.get_state({"thread_id": self.thread_id})).state
        return found


Check = Callable[[Teller, Sequence[RunView]], Iterator[str]]
"""Says what is wrong with the runs of a thread, in the order in which they were taken in."""


def nothing_more(teller: Teller, runs: Sequence[RunView]) -> Iterator[str]:
    """Know no further condition."""
    del teller, runs
    yield from ()


@dataclass(frozen=True)
class Story:
    """What is called on a thread.

    Attributes:
        graph: By name.
        tell: Calls; raises AssertionError where an answer is not as it must be.
        share: Of a hundred threads.
        straight: The same without what comes by chance of time, for the oracle; the thread must stand as the oracle's.
            None where that depends on who came first: then the thread must stand as its runs' ends say, each run as it
            goes alone.
        alone: Graph by name in which a run alone leaves the same marks, without waiting.
        check: What must hold besides.
    """

    graph: str
    tell: Callable[[Teller], None]
    share: int
    straight: Callable[[Teller], None] | None = None
    alone: str = ""
    check: Check = nothing_more

    def compile(self, **options: Any) -> "CompiledGraph[Any]":
        return GRAPHS[self.graph].compile(**options)

    def compile_oracle(self) -> "CompiledGraph[Any]":
        return GRAPHS[self.alone or self.graph].compile()

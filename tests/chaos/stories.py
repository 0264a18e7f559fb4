"""What a client does with one thread, and how that must stand then. The same story in process is the oracle."""

import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from tenxgraph.core.exceptions import NodeError, RunCancelledError, StorageError
from tenxgraph.core.graph import CompiledGraph, RunHandle, RunStatus
from tenxgraph.core.state import Message
from tests.chaos.graphs import AGAIN, GRAPHS, Marks

T = TypeVar("T")

_INSIST_S: Final = 60.0
_PAUSE_S: Final = 0.2
_LONGEST_BEFORE_STOP_S: Final = 1.0


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


@dataclass
class Teller:
    """A client on one thread.

    Attributes:
        patience_s: For a run to settle; a run that takes longer is stuck.
        runs: Ids of the runs that were begun, and how each must end.
    """

    app: "CompiledGraph[Any]"
    thread_id: str
    patience_s: float
    runs: dict[str, RunStatus] = field(default_factory=dict)
    chance: random.Random = field(default_factory=random.Random)

    @property
    def run_id(self) -> str:
        return f"run-of-{self.thread_id}"

    def begin(self, status: RunStatus = RunStatus.COMPLETED) -> "RunHandle[Any]":
        said = Message.text_message("go", message_id=f"said-{self.thread_id}")
        said.timestamp = 0.0
        return self._submit({"messages": [said]}, self.run_id, status)

    def go_on(self) -> None:
        self._submit(None, self.run_id + AGAIN, RunStatus.COMPLETED).result(self.patience_s)

    def answer(self, value: str) -> "RunHandle[Any]":
        # The id of the call makes its repeat known.
        config = {"thread_id": self.thread_id, "run_id": f"{self.run_id}-answer"}
        return insist(lambda: self.app.submit({"resume": value}, config))

    def _submit(self, given: Any, run_id: str, status: RunStatus) -> "RunHandle[Any]":
        self.runs[run_id] = status
        return insist(lambda: self.app.submit(given, {"thread_id": self.thread_id, "run_id": run_id}))

    def let_it_run(self) -> None:
        time.sleep(self.chance.uniform(0, _LONGEST_BEFORE_STOP_S))

    def state(self) -> Marks:
        found: Marks = insist(lambda: self.app.get_state({"thread_id": self.thread_id})).state
        return found


def _straight(teller: Teller) -> None:
    teller.begin().result(teller.patience_s)


def _with_a_question(teller: Teller) -> None:
    waiting = teller.begin().result(teller.patience_s)
    assert waiting["status"] is RunStatus.WAITING, waiting["status"]
    done = teller.answer("yes").result(teller.patience_s)
    assert done["status"] is RunStatus.COMPLETED, done["status"]


def _failed_and_continued(teller: Teller) -> None:
    try:
        result = teller.begin(RunStatus.FAILED).result(teller.patience_s)
    except NodeError as error:
        if "never works" not in error.message:
            raise
        teller.go_on()
        return
    raise AssertionError(f"the run did not fail but is {result['status']}")


def _stopped_and_continued(teller: Teller) -> None:
    handle = teller.begin(RunStatus.STOPPED)
    teller.let_it_run()
    insist(handle.stop)
    result = handle.result(teller.patience_s)
    if result["status"] is RunStatus.COMPLETED:
        teller.runs[handle.run_id] = RunStatus.COMPLETED
        return
    assert result["status"] is RunStatus.STOPPED, result["status"]
    teller.go_on()


def _cancelled(teller: Teller) -> None:
    handle = teller.begin(RunStatus.CANCELLED)
    teller.let_it_run()
    status = insist(lambda: handle.cancel("chaos"))
    assert status is not None, "cancel() knows no such run"
    teller.runs[handle.run_id] = status  # completed, if it was quicker
    before = teller.state().marks
    with suppress(RunCancelledError):
        handle.result(teller.patience_s)
    assert teller.state().marks == before, "something was merged after the cancel was acknowledged"


@dataclass(frozen=True)
class Story:
    """What is called on a thread.

    Attributes:
        graph: By name.
        tell: Calls; raises AssertionError where an answer is not as it must be.
        straight: The same without what comes by chance of time, for the oracle.
        is_whole: Whether the thread must stand as the oracle's; if not, its marks are those of a part of the way.
        share: Of a hundred threads.
    """

    graph: str
    tell: Callable[[Teller], None]
    straight: Callable[[Teller], None]
    share: int
    is_whole: bool = True

    def compile(self, **options: Any) -> "CompiledGraph[Any]":
        return GRAPHS[self.graph].compile(**options)


STORIES: Final = {
    "straight": Story("plain", _straight, _straight, 60),
    "question": Story("asking", _with_a_question, _with_a_question, 10),
    "retried": Story("flaky", _straight, _straight, 10),
    "failed, then continued": Story("broken", _failed_and_continued, _failed_and_continued, 10),
    "stopped, then continued": Story("plain", _stopped_and_continued, _straight, 5),
    "cancelled": Story("plain", _cancelled, _straight, 5, is_whole=False),
}


def story_of(number: int) -> str:
    """Return the name of the story of a thread: the shares hold in each hundred."""
    place = number * 37 % 100
    for name, story in STORIES.items():
        if place < story.share:
            return name
        place -= story.share
    raise AssertionError("the shares do not add up to a hundred")


def picture(state: Marks) -> dict[str, Any]:
    """Return what must be equal of two states: everything but times, and but the name of the run that ended it."""
    fields = {name: getattr(state, name) for name in type(state).model_fields if name != "execution_meta"}
    return {**fields, "context": [message.model_dump(exclude={"timestamp"}) for message in state.context]}

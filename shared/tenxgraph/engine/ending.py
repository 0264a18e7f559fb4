"""End runs from outside: one by its id, or many by what they have in common."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.engine.step import error_event
from tenxgraph.store.base import RunView, StopAnswer, Store, ThreadView
from tenxgraph.wire import Failure

PAGE = 200
"""Threads that are read in one trip."""


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which unfinished runs are meant; None means all.

    Attributes:
        status: One that a run can leave: queued, running, waiting, stopping.
    """

    thread_id: str | None = None
    graph: str | None = None
    status: str | None = None
    user_id: str | None = None

    def __post_init__(self) -> None:
        unfinished = [str(status) for status in RunStatus if not status.is_terminal]
        if self.status is not None and self.status not in unfinished:
            names = ", ".join(unfinished)
            raise InvalidInputError(f"No unfinished run is {self.status!r}: choose one of {names}.", error_code="USAGE")

    def takes_thread(self, thread: ThreadView) -> bool:
        """Whether runs of this thread may be meant."""
        return self.graph in (None, thread.graph) and self.user_id in (None, thread.user_id)

    def takes(self, run: RunView) -> bool:
        """Whether this run is meant."""
        return not run.status.is_terminal and self.status in (None, run.status)


def unfinished_runs(store: Store, which: RunFilter) -> Iterator[RunView]:
    """Yield unfinished runs, of the threads that changed last first; a thread's queued ones before its active one.

    There is no index of runs: without a ``thread_id`` every thread is looked at, 200 in a trip, and each that has an
    unfinished run once more for each of these. Runs that begin meanwhile may be missed.
    """
    for thread in _threads(store, which):
        # Last first, and the active one in the end: ending that one would start the next.
        for run_id in [*reversed(thread.inbox), *filter(None, [thread.active])]:
            run = store.run(run_id)
            if run is not None and which.takes(run):
                yield run


def _threads(store: Store, which: RunFilter) -> Iterator[ThreadView]:
    if which.thread_id is not None:
        thread = store.thread(which.thread_id)
        pages: Iterator[list[ThreadView]] = iter([[thread] if thread else []])
    else:
        pages = _pages(store)
    seen: set[str] = set()  # a thread that changes meanwhile moves to the top, and others onto the next page
    for page in pages:
        for thread in page:
            if (thread.active or thread.inbox) and which.takes_thread(thread) and thread.thread_id not in seen:
                seen.add(thread.thread_id)
                yield thread


def _pages(store: Store) -> Iterator[list[ThreadView]]:
    for offset in count(0, PAGE):
        page = list(store.threads(limit=PAGE, offset=offset))
        if not page:
            return
        yield page


def cancel_run(store: Store, run: RunView, *, by: str, reason: str) -> StopAnswer:
    """End a run now, and write down who wanted it and why: in its error, and in its events."""
    failure = Failure(
        "RunCancelledError",
        f"cancelled by {by}: {reason or 'no reason given'}",
        "RUN_CANCELLED",
        context={"by": by, "reason": reason},
    )
    event = error_event(failure, run.step)
    return store.cancel(run.thread_id, run.run_id, reason=reason, error=failure.to_json(), events=event)

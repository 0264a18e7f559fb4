"""What all parts of the memory store stand on: the threads, the lock, who is due and who listens."""

import threading
import time
from collections.abc import Callable

from tenxgraph.store.base import (
    PLAN,
    Claim,
    Refusal,
    ResumeView,
    TaskRef,
)
from tenxgraph.store.memory_thread import Run, Task, Thread


def wall_clock_ms() -> int:
    """The time of this machine."""
    return time.time_ns() // 1_000_000


class MemoryBase:
    """Threads in dictionaries under one lock."""

    def __init__(self, *, watch_ms: int = 15_000, clock: Callable[[], int] = wall_clock_ms) -> None:
        self._watch_ms = watch_ms
        self._clock = clock
        self._changed = threading.Condition()
        self._threads: dict[str, Thread] = {}
        self._thread_of_run: dict[str, str] = {}
        self._due: dict[str, tuple[int, int]] = {}
        self._touches = 0
        self._lines: dict[str, dict[str, int]] = {}
        self._listeners: dict[str, list[Callable[[], None]]] = {}

    def _task(self, ref: TaskRef) -> tuple[Thread, Run, Task] | Refusal:
        thread = self._threads.get(ref.thread_id)
        if thread is None or thread.active != ref.run_id:
            return Refusal("the run does not own the thread")
        run = thread.runs[ref.run_id]
        task = run.tasks.get(ref.task)
        if run.step != ref.step or task is None:
            return Refusal("the step is over")
        return thread, run, task

    def _mine(self, ref: TaskRef, token: str) -> tuple[Thread, Run, Task] | None:
        found = self._task(ref)
        if isinstance(found, Refusal):
            return None
        _, run, task = found
        if (ref.task, token) in run.died:  # whoever speaks under a token did not die with it
            run.died.discard((ref.task, token))
            task.deaths = max(task.deaths - 1, 0)
        return found if task.token == token else None

    def _claimed(self, thread: Thread, run: Run, ref: TaskRef, task: Task) -> Claim:
        nodes = run.node_tasks
        return Claim(
            ref=ref,
            token=task.token,
            spec=task.spec,
            alone=len(run.tasks) == 1,
            run=run.view(),
            image=thread.image,
            specs=tuple(t.spec for t in nodes.values()) if ref.task == PLAN else (),
            updates={name: run.updates[name] for name in nodes if name in run.updates} if ref.task == PLAN else {},
            error=task.error,
            first_started_ms=task.first_started_ms,
            deaths=task.deaths,
        )

    def _find(self, thread_id: str, run_id: str) -> tuple[Thread | None, Run | None]:
        thread = self._threads.get(thread_id)
        return thread, thread.runs.get(run_id) if thread else None

    def _run(self, run_id: str) -> Run | None:
        thread = self._threads.get(self._thread_of_run.get(run_id, ""))
        return thread.runs.get(run_id) if thread else None

    @staticmethod
    def _resume_of(thread: Thread, resume_id: str) -> ResumeView | None:
        return next((run.resumes[resume_id] for run in thread.runs.values() if resume_id in run.resumes), None)

    def _watch(self, thread_id: str, at_ms: int) -> None:
        # A touch never comes twice, also not after a removal: else a slow reconciler could remove a newer entry.
        self._touches += 1
        score, _ = self._due.get(thread_id, (at_ms, 0))
        self._due[thread_id] = (min(score, at_ms), self._touches)

    def _watch_next(self, thread: Thread, now_ms: int) -> None:
        # The run that ended may have waited, unwatched, for a person: the one that started in its place must not.
        if thread.active:
            self._watch(thread.thread_id, now_ms + self._watch_ms)

    def _tell(self, run_id: str) -> None:
        self._changed.notify_all()
        for listener in self._listeners.get(run_id, ()):
            listener()

    def now_ms(self) -> int:
        """See :meth:`Store.now_ms`."""
        return self._clock()

"""Admission in memory."""

from tenxgraph.core.graph.multitask import Verdict
from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.store.base import (
    Admission,
    AdmissionOutcome,
    InputKind,
    NewRun,
)
from tenxgraph.store.memory_base import MemoryBase
from tenxgraph.store.memory_multitask import take_in, verdict_on
from tenxgraph.store.memory_thread import Run, Thread

_REFUSALS = {
    Verdict.ANSWER: AdmissionOutcome.WAITING,
    Verdict.UNANSWERED: AdmissionOutcome.WAITING,
    Verdict.BUSY: AdmissionOutcome.BUSY,
    Verdict.NOTHING: AdmissionOutcome.NOTHING_TO_CONTINUE,
}


class MemoryAdmission(MemoryBase):
    """Takes runs in."""

    def admit(self, run: NewRun) -> Admission:
        """See :meth:`Store.admit`."""
        with self._changed:
            if run.run_id in self._thread_of_run:
                return self._known(run)
            thread = self._threads.get(run.thread_id)
            if refusal := self._known_answer(run, thread) or self._refusal(run, thread):
                return refusal
            return self._take_in(run, thread or self._new_thread(run))

    def _known(self, run: NewRun) -> Admission:
        thread_id = self._thread_of_run[run.run_id]
        thread = self._threads[thread_id]
        if thread_id != run.thread_id or thread.runs[run.run_id].new.digest != run.digest:
            return Admission(AdmissionOutcome.RUN_ID_TAKEN, holder=thread_id)
        return Admission(AdmissionOutcome.KNOWN, thread.dispatch() if thread.active == run.run_id else ())

    def _known_answer(self, run: NewRun, thread: Thread | None) -> Admission | None:
        taken = thread and self._resume_of(thread, run.run_id)
        if not thread or not taken:
            return None
        if taken.digest != run.digest:
            return Admission(AdmissionOutcome.RUN_ID_TAKEN, holder=run.thread_id)
        dispatch = thread.dispatch() if thread.active == taken.run_id else ()
        return Admission(AdmissionOutcome.KNOWN, dispatch, taken.run_id, taken.after)

    def _refusal(self, run: NewRun, thread: Thread | None) -> Admission | None:
        if thread is None and run.checkpoint:
            return Admission(AdmissionOutcome.NO_CHECKPOINT)
        if thread is None:
            missing = run.kind is InputKind.CONTINUE
            return Admission(AdmissionOutcome.NOTHING_TO_CONTINUE) if missing else None
        if thread.user_id != run.user_id:
            return Admission(AdmissionOutcome.OTHER_OWNER, holder=thread.user_id)
        if thread.graph != run.graph:
            return Admission(AdmissionOutcome.OTHER_GRAPH, holder=thread.graph)
        return self._busy(run, thread)

    def _busy(self, run: NewRun, thread: Thread) -> Admission | None:
        if run.checkpoint:
            return self._refusal_to_go_back(run, thread)
        outcome = None if run.delay_ms else _REFUSALS.get(verdict_on(thread, run))
        return Admission(outcome, holder=thread.active) if outcome else None

    @staticmethod
    def _refusal_to_go_back(run: NewRun, thread: Thread) -> Admission | None:
        active, stands_there = thread.active_run, run.checkpoint == thread.version.number
        waits = active is not None and active.status is RunStatus.WAITING
        if waits and stands_there and run.kind is InputKind.CONTINUE:
            return Admission(AdmissionOutcome.WAITING, holder=thread.active)
        if active is not None:
            return Admission(AdmissionOutcome.BUSY, holder=thread.active)
        is_kept = any(point.version.number == run.checkpoint for point in thread.checkpoints)
        return None if is_kept else Admission(AdmissionOutcome.NO_CHECKPOINT)

    def _new_thread(self, run: NewRun) -> Thread:
        now_ms = self._clock()
        thread = Thread(run.thread_id, run.graph, run.graph_version, run.user_id, now_ms, now_ms)
        self._threads[run.thread_id] = thread
        return thread

    def _take_in(self, new: NewRun, thread: Thread) -> Admission:
        now_ms = self._clock()
        run = Run(new, now_ms, input=new.input)
        touched = (new.run_id, thread.active, *thread.inbox)  # those before may end for this one
        thread.runs[new.run_id] = run
        self._thread_of_run[new.run_id] = new.thread_id
        if new.checkpoint:
            thread.go_back(run, now_ms)
        if new.delay_ms:
            thread.delayed[new.run_id] = now_ms + new.delay_ms
        else:
            take_in(thread, run, verdict_on(thread, new), now_ms)
        self._watch(new.thread_id, now_ms + (new.delay_ms or min(self._watch_ms, new.timeout_ms or self._watch_ms)))
        for run_id in touched:
            self._tell(run_id)
        if thread.active == new.run_id:
            return Admission(AdmissionOutcome.STARTED, thread.dispatch())
        return Admission(AdmissionOutcome.QUEUED)

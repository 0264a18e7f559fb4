"""What people ask for, in memory."""

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.store.base import (
    PLAN,
    Resume,
    Resumed,
    ResumeView,
    StopAnswer,
    TaskStatus,
    WaitKind,
)
from tenxgraph.store.memory_base import MemoryBase
from tenxgraph.store.memory_thread import Run, Task, Thread


class MemoryPeople(MemoryBase):
    """Answers, stops and cancels."""

    def resume(self, resume: Resume) -> Resumed:
        """See :meth:`Store.resume`."""
        with self._changed:
            thread = self._threads.get(resume.thread_id)
            run = thread.runs.get(resume.run_id) if thread else None
            if thread is None or run is None:
                return Resumed(accepted=False)
            if resume.resume_id in run.resumes:
                return self._resumed(thread, run, resume)
            if thread.active != resume.run_id or not self._may_resume(run, resume):
                return Resumed(False, tuple(resume.answers))
            missing = tuple(
                i for i in resume.answers if i not in run.interrupts or run.interrupts[i].answer is not None
            )
            if missing:
                return Resumed(False, missing)
            self._take_answers(thread, run, resume)
            return self._resumed(thread, run, resume)

    @staticmethod
    def _resumed(thread: Thread, run: Run, resume: Resume) -> Resumed:
        answered = {asked.task for asked in run.interrupts.values() if asked.id in resume.answers}
        again = answered if resume.answers else {PLAN}
        names = [name for name in run.tasks if name in again] if thread.active == resume.run_id else []
        return Resumed(True, (), run.resumes[resume.resume_id].after, thread.dispatch(iter(names)))

    @staticmethod
    def _may_resume(run: Run, resume: Resume) -> bool:
        if resume.answers:
            return not run.stop
        return run.status is RunStatus.WAITING and run.wait != WaitKind.QUESTION

    def _take_answers(self, thread: Thread, run: Run, resume: Resume) -> None:
        now_ms = self._clock()
        run.resumes[resume.resume_id] = ResumeView(resume.run_id, resume.digest, run.last_event)
        run.move_to(RunStatus.RUNNING)
        thread.add_events(run, now_ms, resume.events)
        if not resume.answers:
            run.input = resume.input
            run.tasks[PLAN] = Task(run.new.resume, dispatched_ms=now_ms)
        for interrupt_id, answer in resume.answers.items():
            asked = run.interrupts[interrupt_id]
            run.interrupts[interrupt_id] = type(asked)(asked.id, asked.task, asked.body, answer)
            task = run.tasks[asked.task]
            if task.status is TaskStatus.WAITING:
                task.queue(now_ms, attempt=task.attempt + 1)
        self._watch(resume.thread_id, now_ms + self._watch_ms)
        self._tell(resume.run_id)

    def resumed(self, thread_id: str, resume_id: str) -> ResumeView | None:
        """See :meth:`Store.resumed`."""
        with self._changed:
            thread = self._threads.get(thread_id)
            return self._resume_of(thread, resume_id) if thread else None

    def stop(self, thread_id: str, run_id: str, *, events: bytes) -> StopAnswer:
        """See :meth:`Store.stop`."""
        with self._changed:
            thread = self._threads.get(thread_id)
            run = thread.runs.get(run_id) if thread else None
            if thread is None or run is None:
                return StopAnswer(None)
            if not run.status.is_terminal and not run.stop:
                self._stop(thread, run, events)
            return StopAnswer(run.status, thread.freed_by(run_id))

    def _stop(self, thread: Thread, run: Run, events: bytes) -> None:
        now_ms = self._clock()
        thread.add_events(run, now_ms, events)
        if thread.active == run.new.run_id:
            thread.stop(run, now_ms)
        else:
            run.stop = "stop"
            thread.end_waiting(run, RunStatus.STOPPED, now_ms)
        self._watch_next(thread, now_ms)
        self._tell(run.new.run_id)

    def cancel(self, thread_id: str, run_id: str, *, reason: str, error: bytes, events: bytes) -> StopAnswer:
        """See :meth:`Store.cancel`."""
        with self._changed:
            thread = self._threads.get(thread_id)
            run = thread.runs.get(run_id) if thread else None
            if thread is None or run is None:
                return StopAnswer(None)
            if not run.status.is_terminal:
                self._cancel(thread, run, reason, error, events)
            return StopAnswer(run.status, thread.freed_by(run_id))

    def _cancel(self, thread: Thread, run: Run, reason: str, error: bytes, events: bytes) -> None:
        now_ms = self._clock()
        thread.add_events(run, now_ms, events)
        run.reason = reason
        if thread.active == run.new.run_id:
            thread.end(run, RunStatus.CANCELLED, now_ms, error)
        else:
            thread.end_waiting(run, RunStatus.CANCELLED, now_ms, error)
        self._watch_next(thread, now_ms)
        self._tell(run.new.run_id)

"""The store of a single process: threads in dictionaries under one lock."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.image import StateImage, Version
from tenxgraph.store.base import (
    PLAN,
    Admission,
    AdmissionOutcome,
    Advance,
    Advanced,
    Checkpoint,
    Claim,
    Committed,
    DueThread,
    InputKind,
    NewRun,
    Overdue,
    Recovery,
    RecoveryRules,
    Refusal,
    Renewal,
    Reservation,
    ReservationOutcome,
    Resume,
    Resumed,
    ResumeView,
    RunView,
    Settled,
    Settlement,
    StopAnswer,
    StoredEvents,
    TaskRef,
    TaskStatus,
    TaskView,
    ThreadView,
    WaitKind,
)
from tenxgraph.store.memory_effects import Effect
from tenxgraph.store.memory_recovery import recover_thread
from tenxgraph.store.memory_thread import Run, Task, Thread


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class MemoryStore:
    """Threads of this process; they end with it.

    Args:
        watch_ms: How soon after an admission the reconciler looks at a thread.
        clock: Milliseconds since the epoch; tests put their own.
    """

    def __init__(self, *, watch_ms: int = 15_000, clock: Callable[[], int] = _wall_clock_ms) -> None:
        self._watch_ms = watch_ms
        self._clock = clock
        self._changed = threading.Condition()
        self._threads: dict[str, Thread] = {}
        self._thread_of_run: dict[str, str] = {}
        self._due: dict[str, tuple[int, int]] = {}
        self._touches = 0
        self._listeners: dict[str, list[Callable[[], None]]] = {}

    # -- admission

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

    @staticmethod
    def _resume_of(thread: Thread, resume_id: str) -> ResumeView | None:
        return next((run.resumes[resume_id] for run in thread.runs.values() if resume_id in run.resumes), None)

    def _refusal(self, run: NewRun, thread: Thread | None) -> Admission | None:
        if thread is None:
            missing = run.kind is InputKind.CONTINUE
            return Admission(AdmissionOutcome.NOTHING_TO_CONTINUE) if missing else None
        if thread.user_id != run.user_id:
            return Admission(AdmissionOutcome.OTHER_OWNER, holder=thread.user_id)
        if thread.graph != run.graph:
            return Admission(AdmissionOutcome.OTHER_GRAPH, holder=thread.graph)
        return self._busy(run, thread)

    def _busy(self, run: NewRun, thread: Thread) -> Admission | None:
        active = thread.active_run
        if active is not None and active.status is RunStatus.WAITING and not run.delay_ms:
            return Admission(AdmissionOutcome.WAITING, holder=thread.active)
        if active is not None and (run.strategy == "reject" or run.kind is InputKind.CONTINUE):
            return Admission(AdmissionOutcome.BUSY, holder=thread.active)
        if run.kind is InputKind.CONTINUE and not thread.continuable:
            return Admission(AdmissionOutcome.NOTHING_TO_CONTINUE)
        return None

    def _new_thread(self, run: NewRun) -> Thread:
        now_ms = self._clock()
        thread = Thread(run.thread_id, run.graph, run.graph_version, run.user_id, now_ms, now_ms)
        self._threads[run.thread_id] = thread
        return thread

    def _take_in(self, new: NewRun, thread: Thread) -> Admission:
        now_ms = self._clock()
        run = Run(new, now_ms, input=new.input)
        thread.runs[new.run_id] = run
        self._thread_of_run[new.run_id] = new.thread_id
        if new.delay_ms:
            thread.delayed[new.run_id] = now_ms + new.delay_ms
        else:
            thread.take_in(run, now_ms)
        self._watch(new.thread_id, now_ms + (new.delay_ms or min(self._watch_ms, new.timeout_ms or self._watch_ms)))
        self._tell(new.run_id)
        if thread.active == new.run_id:
            return Admission(AdmissionOutcome.STARTED, thread.dispatch())
        return Admission(AdmissionOutcome.QUEUED)

    # -- a task's attempt

    def claim(
        self,
        ref: TaskRef,
        nonce: str,
        *,
        worker: str,
        lease_ms: int,
        known: StateImage | None,
        events: bytes,
        suspect_pause_ms: int = 0,
    ) -> Claim | Refusal:
        """See :meth:`Store.claim`."""
        del known
        with self._changed:
            found = self._task(ref)
            if isinstance(found, Refusal):
                return found
            thread, run, task = found
            if task.token == nonce and task.status is TaskStatus.CLAIMED:
                return self._claimed(thread, run, ref, task)
            if task.attempt != ref.attempt or task.status is not TaskStatus.QUEUED:
                return Refusal("taken or given up")
            now_ms = self._clock()
            if suspect_pause_ms and task.deaths:
                thread.put_aside(run, task, "suspect", suspect_pause_ms << min(task.given_back, 4), now_ms)
                self._watch(ref.thread_id, task.until_ms)
                self._tell(ref.run_id)
                return Refusal("taken or given up")
            task.status, task.token, task.worker, task.until_ms = TaskStatus.CLAIMED, nonce, worker, now_ms + lease_ms
            task.first_started_ms, task.leaving = task.first_started_ms or now_ms, False
            run.started_ms = run.started_ms or now_ms
            if run.status is RunStatus.QUEUED:
                run.status = RunStatus.RUNNING
            run.reason = ""
            thread.add_events(run, now_ms, events)
            self._tell(ref.run_id)
            return self._claimed(thread, run, ref, task)

    def _task(self, ref: TaskRef) -> tuple[Thread, Run, Task] | Refusal:
        thread = self._threads.get(ref.thread_id)
        if thread is None or thread.active != ref.run_id:
            return Refusal("the run does not own the thread")
        run = thread.runs[ref.run_id]
        task = run.tasks.get(ref.task)
        if run.step != ref.step or task is None:
            return Refusal("the step is over")
        return thread, run, task

    def _claimed(self, thread: Thread, run: Run, ref: TaskRef, task: Task) -> Claim:
        nodes = run.node_tasks
        return Claim(
            ref=ref,
            token=task.token,
            spec=task.spec,
            alone=len(run.tasks) == 1,
            run=run.view(),
            image=thread.images[-1],
            specs=tuple(t.spec for t in nodes.values()) if ref.task == PLAN else (),
            updates={name: run.updates[name] for name in nodes if name in run.updates} if ref.task == PLAN else {},
            error=task.error,
            first_started_ms=task.first_started_ms,
            deaths=task.deaths,
        )

    def _mine(self, ref: TaskRef, token: str) -> tuple[Thread, Run, Task] | None:
        found = self._task(ref)
        if isinstance(found, Refusal):
            return None
        _, run, task = found
        if (ref.task, token) in run.died:  # whoever speaks under a token did not die with it
            run.died.discard((ref.task, token))
            task.deaths = max(task.deaths - 1, 0)
        return found if task.token == token else None

    def renew(self, ref: TaskRef, token: str, *, lease_ms: int, leaving: bool = False) -> Renewal:
        """See :meth:`Store.renew`."""
        with self._changed:
            mine = self._mine(ref, token)
            if mine is None or mine[2].status is not TaskStatus.CLAIMED:
                return Renewal(alive=False)
            mine[2].until_ms, mine[2].leaving = self._clock() + lease_ms, leaving
            return Renewal(alive=True, stop=mine[1].stop)

    def commit(self, ref: TaskRef, token: str, update: bytes, *, lease_ms: int, events: bytes) -> Committed:
        """See :meth:`Store.commit`."""
        with self._changed:
            mine = self._mine(ref, token)
            if mine is not None and mine[2].status is TaskStatus.CLAIMED:
                self._settle_commit(*mine, update, events, lease_ms)
            return self._committed(ref, token)

    def _committed(self, ref: TaskRef, token: str) -> Committed:
        thread, run = self._find(ref.thread_id, ref.run_id)
        if thread is None or run is None or run.outcomes.get((ref.task, token)) is not TaskStatus.COMMITTED:
            return Committed(accepted=False)
        plan = run.tasks.get(PLAN) if thread.active == ref.run_id else None
        if plan is None or plan.token != token or plan.status is not TaskStatus.CLAIMED:
            return Committed(accepted=True, dispatch=thread.freed_by(ref.run_id))
        plan_ref = TaskRef(ref.thread_id, ref.run_id, ref.step, PLAN, plan.attempt)
        return Committed(accepted=True, plan=self._claimed(thread, run, plan_ref, plan))

    def _settle_commit(self, thread: Thread, run: Run, task: Task, update: bytes, events: bytes, lease_ms: int) -> None:
        now_ms = self._clock()
        task.status, task.error = TaskStatus.COMMITTED, b""
        run.updates[task.spec.task] = update
        run.outcomes[task.spec.task, task.token] = TaskStatus.COMMITTED
        run.interrupts = {i: asked for i, asked in run.interrupts.items() if asked.task != task.spec.task}
        thread.add_events(run, now_ms, events)
        if all(t.status is TaskStatus.COMMITTED for t in run.node_tasks.values()):
            plan = Task(run.new.advance, TaskStatus.CLAIMED, token=task.token, worker=task.worker)
            plan.until_ms, plan.first_started_ms = now_ms + lease_ms, now_ms
            run.tasks[PLAN] = plan
        else:
            thread.close_step(run, now_ms)
        self._tell(run.new.run_id)

    def advance(self, ref: TaskRef, token: str, advance: Advance) -> Advanced:
        """See :meth:`Store.advance`."""
        with self._changed:
            thread = self._threads.get(ref.thread_id)
            if thread is None:
                return Advanced(accepted=False)
            written = Version(advance.base.number + 1, advance.nonce)
            if thread.has(written):
                return self._advanced(thread, ref, written)
            mine = self._mine(ref, token)
            if mine is None or not self._may_advance(mine[1], mine[2]) or thread.version != advance.base:
                return Advanced(accepted=False)
            thread.write_step(mine[1], advance, self._clock())
            self._tell(ref.run_id)
            return self._advanced(thread, ref, written)

    @staticmethod
    def _may_advance(run: Run, task: Task) -> bool:
        return task.status is TaskStatus.CLAIMED and (task.spec.task == PLAN or len(run.tasks) == 1)

    @staticmethod
    def _advanced(thread: Thread, ref: TaskRef, written: Version) -> Advanced:
        dispatch = thread.dispatch() if thread.active == ref.run_id else thread.freed_by(ref.run_id)
        return Advanced(True, written, thread.runs[ref.run_id].status, dispatch)

    def settle(self, ref: TaskRef, token: str, settlement: Settlement) -> Settled:
        """See :meth:`Store.settle`."""
        with self._changed:
            mine = self._mine(ref, token)
            if mine is not None and mine[2].status is TaskStatus.CLAIMED:
                self._settle(*mine, settlement)
                self._tell(ref.run_id)
            thread, run = self._find(ref.thread_id, ref.run_id)
            if thread is None or run is None or run.outcomes.get((ref.task, token)) is not settlement.status:
                return Settled(accepted=False)
            again = iter([ref.task] if run.step == ref.step and ref.task in run.tasks else [])
            return Settled(True, thread.dispatch(again) if thread.active == ref.run_id else thread.freed_by(ref.run_id))

    def _settle(self, thread: Thread, run: Run, task: Task, settlement: Settlement) -> None:
        now_ms = self._clock()
        run.outcomes[task.spec.task, task.token] = settlement.status
        thread.add_events(run, now_ms, settlement.events)
        if settlement.status is TaskStatus.WAITING:
            thread.ask(run, task, settlement.interrupts, now_ms)
        else:
            task.error, task.status = settlement.error, settlement.status
        if task.status is TaskStatus.RETRY_WAIT:
            self._wait_for_retry(run, task, settlement, now_ms)
        thread.close_step(run, now_ms)

    def _wait_for_retry(self, run: Run, task: Task, settlement: Settlement, now_ms: int) -> None:
        task.attempt += 1
        task.until_ms = now_ms + settlement.delay_ms
        run.reason = settlement.reason
        if run.stop:
            task.status = TaskStatus.PARKED
        else:
            self._watch(run.new.thread_id, task.until_ms)

    def give_back(self, ref: TaskRef, *, reason: str, pause_ms: int) -> bool:
        """See :meth:`Store.give_back`."""
        with self._changed:
            found = self._task(ref)
            if isinstance(found, Refusal) or found[2].attempt != ref.attempt:
                return False
            thread, run, task = found
            if task.status is TaskStatus.QUEUED:
                thread.put_aside(run, task, reason, pause_ms << min(task.given_back, 10), self._clock())
                self._watch(ref.thread_id, task.until_ms)
            return task.status in (TaskStatus.RETRY_WAIT, TaskStatus.PARKED)

    def hand_back(self, ref: TaskRef, token: str) -> Settled:
        """See :meth:`Store.hand_back`."""
        with self._changed:
            mine = self._mine(ref, token)
            if mine is not None and mine[2].status is TaskStatus.CLAIMED:
                self._hand_back(*mine)
            thread, run = self._find(ref.thread_id, ref.run_id)
            if thread is None or run is None or (ref.task, token) not in run.handed_back:
                return Settled(accepted=False)
            again = iter([ref.task] if run.step == ref.step and ref.task in run.tasks else [])
            return Settled(True, thread.dispatch(again) if thread.active == ref.run_id else thread.freed_by(ref.run_id))

    def _hand_back(self, thread: Thread, run: Run, task: Task) -> None:
        now_ms = self._clock()
        run.handed_back.add((task.spec.task, task.token))
        thread.discard(run, task, now_ms)
        thread.try_again(run, task, now_ms)
        self._tell(run.new.run_id)

    def emit(self, ref: TaskRef, token: str, events: bytes) -> bool:
        """See :meth:`Store.emit`."""
        with self._changed:
            mine = self._mine(ref, token)
            if mine is None or mine[2].status is not TaskStatus.CLAIMED:
                return False
            mine[0].add_events(mine[1], self._clock(), events)
            self._tell(ref.run_id)
            return True

    # -- effects

    def reserve(
        self, ref: TaskRef, token: str, key: str, nonce: str, *, lease_ms: int, at_most_once: bool
    ) -> Reservation:
        """See :meth:`Store.reserve`."""
        with self._changed:
            mine = self._mine(ref, token)
            if mine is None or mine[2].status is not TaskStatus.CLAIMED:
                return Reservation(ReservationOutcome.FENCED)
            now_ms = self._clock()
            effect = mine[0].effects.setdefault(key, Effect())
            reserved = effect.reserve(ref, nonce, now_ms=now_ms, lease_ms=lease_ms, at_most_once=at_most_once)
            if reserved.outcome is ReservationOutcome.GRANTED:
                # Both leases end together: when a process dies, the next attempt need not wait for the effect.
                mine[2].until_ms = max(mine[2].until_ms, now_ms + lease_ms)
            return reserved

    def renew_effect(self, thread_id: str, key: str, nonce: str, *, lease_ms: int) -> bool:
        """See :meth:`Store.renew_effect`."""
        with self._changed:
            effect = self._effect(thread_id, key)
            return effect is not None and effect.renew(nonce, self._clock() + lease_ms)

    def release_effect(self, thread_id: str, key: str, nonce: str) -> bool:
        """See :meth:`Store.release_effect`."""
        with self._changed:
            effect = self._effect(thread_id, key)
            return effect is not None and effect.release(nonce)

    def record(self, thread_id: str, key: str, nonce: str, result: bytes) -> bool:
        """See :meth:`Store.record`."""
        with self._changed:
            effect = self._effect(thread_id, key)
            return effect is not None and effect.record(nonce, result)

    def _effect(self, thread_id: str, key: str) -> Effect | None:
        thread = self._threads.get(thread_id)
        return thread.effects.get(key) if thread else None

    # -- people

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
        run.status = RunStatus.RUNNING
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
        run.stop = "stop"
        if thread.active != run.new.run_id:
            thread.end_waiting(run, RunStatus.STOPPED, now_ms)
        else:
            self._stop_active(thread, run, now_ms)
        self._watch_next(thread, now_ms)
        self._tell(run.new.run_id)

    def _stop_active(self, thread: Thread, run: Run, now_ms: int) -> None:
        in_flight = {TaskStatus.CLAIMED, TaskStatus.COMMITTED}
        if run.status is RunStatus.WAITING or not any(t.status in in_flight for t in run.tasks.values()):
            thread.end(run, RunStatus.STOPPED, now_ms)
            return
        run.status = RunStatus.STOPPING
        for task in run.tasks.values():
            if task.status is TaskStatus.RETRY_WAIT:
                task.status = TaskStatus.PARKED
        thread.close_step(run, now_ms)

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

    # -- time

    def _watch(self, thread_id: str, at_ms: int) -> None:
        # A touch never comes twice, also not after a removal: else a slow reconciler could remove a newer entry.
        self._touches += 1
        score, _ = self._due.get(thread_id, (at_ms, 0))
        self._due[thread_id] = (min(score, at_ms), self._touches)

    def _watch_next(self, thread: Thread, now_ms: int) -> None:
        # The run that ended may have waited, unwatched, for a person: the one that started in its place must not.
        if thread.active:
            self._watch(thread.thread_id, now_ms + self._watch_ms)

    def due(self, limit: int) -> Sequence[DueThread]:
        """See :meth:`Store.due`."""
        with self._changed:
            now_ms = self._clock()
            ripe = sorted((at, thread_id, touch) for thread_id, (at, touch) in self._due.items() if at <= now_ms)
            return [DueThread(thread_id, touch) for _, thread_id, touch in ripe[:limit]]

    def next_due_ms(self) -> int | None:
        """See :meth:`Store.next_due_ms`."""
        with self._changed:
            return min((at for at, _ in self._due.values()), default=None)

    def recover(self, thread_id: str, rules: RecoveryRules) -> Recovery:
        """See :meth:`Store.recover`."""
        with self._changed:
            thread = self._threads.get(thread_id)
            if thread is None:
                return Recovery()
            recovery = recover_thread(thread, rules, self._clock())
            for run_id in thread.runs:
                self._tell(run_id)
            return recovery

    def mark_resent(self, overdue: Overdue) -> bool:
        """See :meth:`Store.mark_resent`."""
        with self._changed:
            ref = overdue.dispatch.ref
            found = self._task(ref)
            if isinstance(found, Refusal):
                return False
            task = found[2]
            same = task.attempt == ref.attempt and task.dispatched_ms == overdue.dispatched_ms
            if task.status is not TaskStatus.QUEUED or not same:
                return False
            task.dispatched_ms, task.resends = self._clock(), task.resends + 1
            return True

    def settle_due(self, due: DueThread, next_due_ms: int | None) -> None:
        """See :meth:`Store.settle_due`."""
        with self._changed:
            _, touch = self._due.get(due.thread_id, (0, -1))
            if touch != due.touch:
                return
            if next_due_ms is None:
                del self._due[due.thread_id]
            else:
                self._due[due.thread_id] = (next_due_ms, touch)

    def now_ms(self) -> int:
        """See :meth:`Store.now_ms`."""
        return self._clock()

    # -- reading

    def thread(self, thread_id: str) -> ThreadView | None:
        """See :meth:`Store.thread`."""
        with self._changed:
            thread = self._threads.get(thread_id)
            return thread.view() if thread else None

    def run(self, run_id: str) -> RunView | None:
        """See :meth:`Store.run`."""
        with self._changed:
            run = self._run(run_id)
            return run.view() if run else None

    def _find(self, thread_id: str, run_id: str) -> tuple[Thread | None, Run | None]:
        thread = self._threads.get(thread_id)
        return thread, thread.runs.get(run_id) if thread else None

    def _run(self, run_id: str) -> Run | None:
        thread = self._threads.get(self._thread_of_run.get(run_id, ""))
        return thread.runs.get(run_id) if thread else None

    def tasks(self, run_id: str) -> Sequence[TaskView]:
        """See :meth:`Store.tasks`."""
        with self._changed:
            run = self._run(run_id)
            return run.task_views() if run else []

    def threads(self, *, limit: int, offset: int = 0) -> Sequence[ThreadView]:
        """See :meth:`Store.threads`."""
        with self._changed:
            newest_first = sorted(self._threads.values(), key=lambda t: t.changed_ms, reverse=True)
            return [thread.view() for thread in newest_first[offset : offset + limit]]

    def runs(self, thread_id: str) -> Sequence[RunView]:
        """See :meth:`Store.runs`."""
        with self._changed:
            thread = self._threads.get(thread_id)
            return [run.view() for run in thread.runs.values()] if thread else []

    def image(self, thread_id: str, version: int | None = None, known: StateImage | None = None) -> StateImage:
        """See :meth:`Store.image`."""
        del known
        with self._changed:
            images = self._threads[thread_id].images
            if version is None:
                return images[-1]
            if not 0 <= version < len(images):
                raise KeyError(version)
            return images[version]

    def checkpoint(self, thread_id: str, version: int | None = None) -> Checkpoint | None:
        """See :meth:`Store.checkpoint`."""
        found = self.checkpoints(thread_id, limit=1, before=None if version is None else version + 1)
        return found[0] if found and version in (None, found[0].version.number) else None

    def checkpoints(self, thread_id: str, *, limit: int, before: int | None = None) -> Sequence[Checkpoint]:
        """See :meth:`Store.checkpoints`."""
        with self._changed:
            thread = self._threads.get(thread_id)
            kept: Iterable[Checkpoint] = reversed(thread.checkpoints) if thread else ()
            older = (point for point in kept if before is None or point.version.number < before)
            return [point for point, _ in zip(older, range(limit), strict=False)]

    def _after(self, thread_id: str, run_id: str, after: str) -> list[StoredEvents]:
        thread = self._threads.get(thread_id)
        run = thread.runs.get(run_id) if thread else None
        return run.events[int(after.partition("-")[0] or 0) :] if run else []

    def events(self, thread_id: str, run_id: str, after: str, *, timeout_s: float) -> Sequence[StoredEvents]:
        """See :meth:`Store.events`."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._after(thread_id, run_id, after)), timeout_s)
            return self._after(thread_id, run_id, after)

    async def aevents(self, thread_id: str, run_id: str, after: str, *, timeout_s: float) -> Sequence[StoredEvents]:
        """See :meth:`Store.aevents`."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def listener() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(changed.set)

        with self._changed:
            self._listeners.setdefault(run_id, []).append(listener)
            found = self._after(thread_id, run_id, after)
        try:
            if not found:
                async with asyncio.timeout(timeout_s):
                    await changed.wait()
        except TimeoutError:
            pass
        finally:
            with self._changed:
                self._listeners[run_id].remove(listener)
                if not self._listeners[run_id]:
                    del self._listeners[run_id]
        with self._changed:
            return self._after(thread_id, run_id, after)

    def _tell(self, run_id: str) -> None:
        self._changed.notify_all()
        for listener in self._listeners.get(run_id, ()):
            listener()

    def delete_thread(self, thread_id: str) -> bool:
        """See :meth:`Store.delete_thread`."""
        with self._changed:
            thread = self._threads.get(thread_id)
            if thread is None or thread.active or thread.inbox or thread.delayed:
                return False
            for run_id in thread.runs:
                self._thread_of_run.pop(run_id, None)
            del self._threads[thread_id]
            self._due.pop(thread_id, None)
            return True

    def close(self) -> None:
        """See :meth:`Store.close`."""

"""The way of a task's attempt in memory."""

from collections.abc import Sequence

from tenxgraph.core.exceptions import StorageError
from tenxgraph.core.state.image import StateImage, Version
from tenxgraph.store.base import (
    PLAN,
    Advance,
    Advanced,
    Claim,
    Committed,
    Emission,
    Refusal,
    Renewal,
    Settled,
    Settlement,
    TaskRef,
    TaskStatus,
)
from tenxgraph.store.memory_base import MemoryBase
from tenxgraph.store.memory_thread import Run, Task, Thread


class MemoryAttempts(MemoryBase):
    """Claims, and what becomes of them."""

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
            thread.take(run, task, nonce, worker, now_ms + lease_ms, now_ms, events)
            self._tell(ref.run_id)
            return self._claimed(thread, run, ref, task)

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
                return self._advanced(thread, ref, advance)
            mine = self._mine(ref, token)
            if mine is None or not self._may_advance(mine[1], mine[2]) or thread.version != advance.base:
                return Advanced(accepted=False)
            now_ms = self._clock()
            thread.write_step(mine[1], advance, now_ms)
            if advance.claim is not None and (task := self._only_queued(thread, mine[1])):
                taker = advance.claim
                thread.take(mine[1], task, taker.nonce, taker.worker, now_ms + taker.lease_ms, now_ms, taker.events)
            self._tell(ref.run_id)
            return self._advanced(thread, ref, advance)

    @staticmethod
    def _only_queued(thread: Thread, run: Run) -> Task | None:
        tasks = list(run.tasks.values()) if thread.active == run.new.run_id else []
        return tasks[0] if len(tasks) == 1 and tasks[0].status is TaskStatus.QUEUED else None

    @staticmethod
    def _may_advance(run: Run, task: Task) -> bool:
        return task.status is TaskStatus.CLAIMED and (task.spec.task == PLAN or len(run.tasks) == 1)

    def _advanced(self, thread: Thread, ref: TaskRef, advance: Advance) -> Advanced:
        run, written = thread.runs[ref.run_id], Version(advance.base.number + 1, advance.nonce)
        is_active = thread.active == ref.run_id
        dispatch = thread.dispatch() if is_active else thread.freed_by(ref.run_id)
        return Advanced(True, written, run.status, dispatch, self._taken(thread, run, advance) if is_active else None)

    def _taken(self, thread: Thread, run: Run, advance: Advance) -> Claim | None:
        nonce = None if advance.claim is None else advance.claim.nonce
        for name, task in run.tasks.items():
            if task.token == nonce and task.status is TaskStatus.CLAIMED:
                return self._claimed(thread, run, TaskRef(thread.thread_id, run.new.run_id, run.step, name, 1), task)
        return None

    def put_media(self, ref: TaskRef, token: str, media_id: str, data: bytes) -> bool:
        """See :meth:`Store.put_media`."""
        with self._changed:
            mine = self._mine(ref, token)
            if mine is None or mine[2].status is not TaskStatus.CLAIMED:
                return False
            mine[0].media.setdefault(media_id, data)
            return True

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
                thread.put_aside(run, task, reason, pause_ms << min(task.given_back, 6), self._clock())
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

    def emit(self, emissions: Sequence[Emission]) -> Sequence[bool | StorageError]:
        """See :meth:`Store.emit`."""
        return [self._emit(told) for told in emissions]

    def _emit(self, told: Emission) -> bool:
        with self._changed:
            mine = self._mine(told.ref, told.token)
            if mine is None or mine[2].status is not TaskStatus.CLAIMED:
                return False
            if told.number > mine[2].emitted:
                mine[2].emitted = told.number
                mine[0].add_events(mine[1], self._clock(), told.events)
                self._tell(told.ref.run_id)
            return True

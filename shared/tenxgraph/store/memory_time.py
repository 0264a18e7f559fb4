"""What depends on time, in memory."""

from collections.abc import Sequence

from tenxgraph.store.base import (
    DueThread,
    Overdue,
    Recovery,
    RecoveryRules,
    Refusal,
    TaskStatus,
)
from tenxgraph.store.memory_base import MemoryBase
from tenxgraph.store.memory_recovery import recover_thread


class MemoryTime(MemoryBase):
    """Knows who is due."""

    def due(self, limit: int, put_off_ms: int = 0) -> Sequence[DueThread]:
        """See :meth:`Store.due`."""
        with self._changed:
            now_ms = self._clock()
            ripe = sorted((at, thread_id, touch) for thread_id, (at, touch) in self._due.items() if at <= now_ms)
            found = [DueThread(thread_id, touch) for _, thread_id, touch in ripe[:limit]]
            if put_off_ms:
                self._due.update((due.thread_id, (now_ms + put_off_ms, due.touch)) for due in found)
            return found

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

"""What is past goes, in memory."""

from collections.abc import Iterator

from tenxgraph.store.base import Checkpoint, Retention, RetentionRules
from tenxgraph.store.memory_base import MemoryBase
from tenxgraph.store.memory_thread import Thread


class MemoryRetention(MemoryBase):
    """Drops old checkpoints."""

    def retain(self, thread_id: str, rules: RetentionRules) -> Retention:
        """See :meth:`Store.retain`."""
        with self._changed:
            thread = self._threads.get(thread_id)
            if thread is None:
                return Retention()
            now_ms = self._clock()
            leaving = dict(_leaving(thread, rules))
            gone = {number for number, at_ms in leaving.items() if at_ms <= now_ms}
            thread.checkpoints = [point for point in thread.checkpoints if point.version.number not in gone]
            for number in gone:
                del thread.images[number]
            moments_ms = [at_ms for number, at_ms in leaving.items() if number not in gone][:1]
            over_at_ms = thread.rested_since_ms + rules.thread_keep_ms
            rests = thread.is_at_rest and rules.thread_keep_ms > 0
            moments_ms += [over_at_ms] if rests else []
            return Retention(len(gone), min(moments_ms, default=None), rests and over_at_ms <= now_ms)


def _leaving(thread: Thread, rules: RetentionRules) -> Iterator[tuple[int, int]]:
    """Checkpoints that may go, oldest first, and when."""
    newest = thread.version.number
    pinned = {run.base for name in (thread.active, thread.continuable) if (run := thread.runs.get(name))}
    for point in thread.checkpoints:
        number = point.version.number
        is_beyond = 0 < rules.keep_last <= newest - number
        if number < newest and number not in pinned and (is_beyond or rules.keep_ms):
            yield number, _goes_at_ms(point, rules, is_beyond)


def _goes_at_ms(point: Checkpoint, rules: RetentionRules, is_beyond: bool) -> int:
    return point.created_ms + max(rules.grace_ms, 0 if is_beyond else rules.keep_ms)

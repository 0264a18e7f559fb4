"""Effects in memory."""

from tenxgraph.store.base import (
    Reservation,
    ReservationOutcome,
    TaskRef,
    TaskStatus,
)
from tenxgraph.store.memory_base import MemoryBase
from tenxgraph.store.memory_effects import Effect

_KEPT_MS = 60_000
"""How long a turn is known after its moment."""


class MemoryJournal(MemoryBase):
    """Reserves and records effects."""

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

    def turn(self, what: str, nonce: str, *, limit: int, period_ms: int) -> int:
        """See :meth:`Store.turn`."""
        with self._changed:
            now_ms = self._clock()
            line = self._lines.setdefault(what, {})
            if nonce not in line:
                turns = sorted(line.values())
                line[nonce] = max(now_ms, turns[-limit] + period_ms) if len(turns) >= limit else now_ms
                kept_ms = min(now_ms - _KEPT_MS, sorted(line.values())[-limit:][0])
                self._lines[what] = {other: at_ms for other, at_ms in line.items() if at_ms >= kept_ms}
            return max(self._lines[what][nonce] - now_ms, 0)

    def _effect(self, thread_id: str, key: str) -> Effect | None:
        thread = self._threads.get(thread_id)
        return thread.effects.get(key) if thread else None

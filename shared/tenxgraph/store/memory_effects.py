"""Effects of a thread in memory: who reserved them, and what came of it."""

from dataclasses import dataclass, field

from tenxgraph.store.base import Reservation, ReservationOutcome, TaskRef


@dataclass(slots=True)
class Effect:
    """One effect.

    Attributes:
        nonces: All that it was ever granted under.
        holder: The last of them; "" once it was released.
        released: The last one that was.
        run_id: The run whose attempt reserved it last.
        until_ms: End of that lease.
        done_by: The nonce whose result is kept, "" while it is not done.
    """

    nonces: set[str] = field(default_factory=set[str])
    holder: str = ""
    released: str = ""
    run_id: str = ""
    until_ms: int = 0
    done_by: str = ""
    result: bytes = b""

    def reserve(self, ref: TaskRef, nonce: str, *, now_ms: int, lease_ms: int, at_most_once: bool) -> Reservation:
        """See :meth:`Store.reserve`."""
        if self.done_by:
            return Reservation(ReservationOutcome.DONE, self.result)
        if self.holder != nonce:
            if self.holder and self.until_ms > now_ms:
                return Reservation(ReservationOutcome.HELD, until_ms=self.until_ms)
            if at_most_once and self.run_id == ref.run_id:
                return Reservation(ReservationOutcome.LOST)
        self.nonces.add(nonce)
        self.holder, self.run_id, self.until_ms = nonce, ref.run_id, now_ms + lease_ms
        return Reservation(ReservationOutcome.GRANTED, until_ms=self.until_ms)

    def renew(self, nonce: str, until_ms: int) -> bool:
        """See :meth:`Store.renew_effect`."""
        if self.done_by or self.holder != nonce:
            return False
        self.until_ms = until_ms
        return True

    def release(self, nonce: str) -> bool:
        """See :meth:`Store.release_effect`."""
        if self.holder == nonce and not self.done_by:
            self.holder, self.released = "", nonce
        return self.released == nonce

    def record(self, nonce: str, result: bytes) -> bool:
        """See :meth:`Store.record`."""
        if not self.done_by and nonce in self.nonces:
            self.done_by, self.result = nonce, result
        return self.done_by == nonce

"""What an attempt tells of before it ends: gathered, and appended in order, each line once."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from tenxgraph.core.exceptions import StorageError
from tenxgraph.engine.chunks import lines
from tenxgraph.engine.patience import Insist
from tenxgraph.store.base import Claim, Emission, Store
from tenxgraph.utils.journal import AttemptOver

_MOST_BYTES = 1 << 20
"""Of what waits to be sent: who tells more waits for the store."""


def send_at_once(emitter: "Emitter") -> None:
    """Append what was told before the caller goes on."""
    emitter.send()


@dataclass(eq=False)
class Emitter:
    """Takes the lines of one attempt, from any thread.

    What was sent and has no answer goes again under its number; so may the end of the attempt send it beside somebody
    who does so at this moment, and need not wait for him.

    Attributes:
        insist: Makes calls of the store.
        wake: Told that there is something to send: sends it, or sees to it.
    """

    claim: Claim
    store: Store
    insist: Insist
    wake: Callable[["Emitter"], None] = send_at_once
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _turn: threading.RLock = field(default_factory=threading.RLock)
    _lines: list[bytes] = field(default_factory=list[bytes])
    _waiting_bytes: int = 0
    _unanswered: Emission | None = None
    _number: int = 0
    _is_over: bool = False

    def tell(self, line: bytes) -> None:
        """Take a JSON line; nothing becomes of it once the attempt is over.

        Raises:
            AttemptOver: The store is away for too long. The node is not to blame for that.
        """
        with self._lock:
            if self._is_over:
                return
            self._lines.append(line)
            self._waiting_bytes += len(line)
            is_full = self._waiting_bytes > _MOST_BYTES
        try:
            self.send() if is_full else self.wake(self)
        except StorageError as error:
            raise AttemptOver(error) from error

    def send(self) -> None:
        """Append what waits, however long the store takes.

        Raises:
            StorageError: It takes too long.
        """
        with self._turn:
            while (emission := self.next_emission()) is not None:
                self.answered(emission, self._insist_on(emission))

    def next_emission(self) -> Emission | None:
        """Return what is to be sent: what has no answer yet, else what has gathered."""
        with self._lock:
            if self._unanswered is None and self._lines and not self._is_over:
                self._number += 1
                self._unanswered = Emission(self.claim.ref, self.claim.token, self._number, lines(self._lines))
                self._lines, self._waiting_bytes = [], 0
            return self._unanswered

    def answered(self, emission: Emission, is_accepted: bool) -> None:
        """Note what the store said."""
        with self._lock:
            if self._unanswered is emission:
                self._unanswered = None
            self._is_over = self._is_over or not is_accepted

    def close(self) -> bytes:
        """Take nothing any more; return the lines that are left, for the write that ends the attempt.

        Raises:
            StorageError: What has no answer yet can not be sent.
        """
        with self._lock:
            left, self._lines = (b"" if self._is_over else lines(self._lines)), []
            self._is_over, emission = True, self._unanswered
        if emission is not None:
            self._insist_on(emission)
        return left

    def _insist_on(self, emission: Emission) -> bool:
        def emit() -> bool:
            (answer,) = self.store.emit([emission])
            if isinstance(answer, StorageError):
                raise answer
            return answer

        return self.insist(emit)

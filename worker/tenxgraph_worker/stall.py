"""Notices that this worker has a free slot and does not take what waits on its queues."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tenxgraph.settings import Settings
from tenxgraph_worker.shutdown import Shutdown

_logger = logging.getLogger(__name__)

LOOKS: Final = 5
"""Looks in a row that must all find the same: the looks of a frozen process, and of a slow start, are far apart."""

_LEAST_S = 10.0
_SCANS = 10

Heads = Mapping[str, bytes]
"""Queue → the message that is to be taken next; queues that hold none are left out."""


class Slots:
    """Counts the tasks of this process, ours and others.

    Attributes:
        size: How many can run at once.
        begun: How many have begun so far.
    """

    def __init__(self) -> None:
        self.size = 1
        self.begun = 0
        self._running = 0
        self._lock = threading.Lock()

    def begin(self) -> None:
        """A task begins."""
        with self._lock:
            self.begun, self._running = self.begun + 1, self._running + 1

    def end(self) -> None:
        """A task ended."""
        with self._lock:
            self._running -= 1

    @property
    def is_free(self) -> bool:
        """Whether one more could run."""
        return self._running < self.size


@dataclass
class StallWatch:
    """Looks again and again, on a thread of its own.

    Attributes:
        heads: Reads the queues that this worker consumes; None when they cannot be seen.
        slots: Of this process.
        shutdown: Of the worker: one that ends takes nothing.
        end: Called once the worker was found to stall; it does not stall while it is told to.
        patience_s: How long the same message must wait.
    """

    heads: Callable[[], Heads | None]
    slots: Slots
    shutdown: Shutdown
    end: Callable[[], None]
    patience_s: float
    monotonic_s: Callable[[], float] = time.monotonic
    _waiting: Heads = field(default_factory=dict[str, bytes])
    _begun: int = -1
    _looks: int = 0
    _looked_s: float = float("-inf")

    @property
    def pause_s(self) -> float:
        """Between two looks."""
        return self.patience_s / (LOOKS - 1)

    def start(self) -> None:
        """Look from now on."""
        threading.Thread(target=self._look_for_ever, name="tenxgraph-stall", daemon=True).start()

    def _look_for_ever(self) -> None:
        while not self.shutdown.has_begun:
            try:
                stalls = self.look()
            except Exception:
                _logger.exception("the queues cannot be watched")
                stalls = False
            if stalls:
                _logger.critical(
                    "stalled: a slot is free, and for %.0f s nobody took the oldest message of %s; the worker ends, "
                    "so that its supervisor starts it anew",
                    *(self.patience_s, ", ".join(sorted(self._waiting))),
                )
                self.end()
                return
            time.sleep(self.pause_s)

    def look(self) -> bool:
        """Look once; True when the worker stalls."""
        now_s, begun, is_free = self.monotonic_s(), self.slots.begun, self.slots.is_free
        heads = (self.heads() or {}) if is_free else {}
        still = {queue: head for queue, head in heads.items() if self._waiting.get(queue) == head}
        in_time = now_s - self._looked_s < 2 * self.pause_s
        goes_on = bool(still) and in_time and begun == self._begun and self.slots.begun == begun
        self._looks = self._looks + 1 if goes_on else 1
        self._waiting, self._begun, self._looked_s = (still if goes_on else heads), begun, now_s
        return self._looks >= LOOKS


def patience_of(settings: Settings) -> float:
    """Return how long a worker may leave a message that it could take."""
    return max(_LEAST_S, settings.lease_s, _SCANS * settings.scan_s)

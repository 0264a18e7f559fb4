"""A process runs one suspect at a time: so of all that died with a process, only one is tried beside what is fresh."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tenxgraph.store.base import Claim, TaskRef

PAUSE_MS: Final = 250
"""How long a second suspect waits before it looks for a free process again; the store doubles it, up to 4 s."""


class Place:
    """Where a suspect may run.

    Attributes:
        pause_ms: For the claim: 0 when a suspect may run here now.
    """

    def __init__(self, lock: "threading.Lock | None") -> None:
        self._lock = lock
        self.pause_ms = PAUSE_MS if lock is None else 0

    def keep_for(self, claim: Claim) -> None:
        """Let the next one in, unless it was a suspect that was claimed."""
        if not claim.deaths:
            self.leave()

    def leave(self) -> None:
        """Let the next one in."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()


class Suspects:
    """The one place for suspects in a process.

    A task is a suspect once a process died while it ran there. All that ran beside it are suspects too; were they tried
    together again, whatever keeps killing would take the same bystanders along each time, until all of them are dead.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @contextmanager
    def place_for(self, ref: TaskRef) -> Iterator[Place]:
        """Take the place for an attempt that may be at a suspect; a first attempt never is."""
        place = Place(self._lock if ref.attempt > 1 and self._lock.acquire(blocking=False) else None)
        try:
            yield place
        finally:
            place.leave()

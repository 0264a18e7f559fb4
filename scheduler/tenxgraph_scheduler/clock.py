"""The store's clock without a trip for each look."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from tenxgraph.core.exceptions import StorageError

_REFRESH_S = 10.0


class StoreClock:
    """Milliseconds of the store's clock, carried on by the monotonic one for a few seconds at a time.

    Args:
        now_ms: Asks the store.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._ask = now_ms
        self._lock = threading.Lock()
        self._asked_s = -_REFRESH_S
        self._offset_ms = time.time_ns() // 1_000_000 - _monotonic_ms()

    def now_ms(self) -> int:
        """Return the store's time; as last known while the store is away."""
        with self._lock:
            if time.monotonic() - self._asked_s >= _REFRESH_S:
                self._asked_s = time.monotonic()
                with suppress(StorageError):
                    self._offset_ms = self._ask() - _monotonic_ms()
            return _monotonic_ms() + self._offset_ms


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000

"""Sends what the attempts of a process tell of: all of them in one trip, a moment after the first of it."""

import logging
import threading
import time

from tenxgraph.core.exceptions import StorageError
from tenxgraph.engine.emitter import Emitter
from tenxgraph.store.base import Emission, Store

_logger = logging.getLogger(__name__)

_WINDOW_S = 0.015
"""How long lines gather: with the trip, a client has them within 20 ms."""

_PAUSE_S = 0.25
"""Between tries while the store is away."""

_IDLE_S = 1.0
_MOST_AT_ONCE = 200


class Flusher:
    """One thread for all attempts of a process. It starts with the first line, so after a fork, and ends when idle.

    Nothing depends on it but time: an attempt that ends hands in what is left of its lines itself.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._told = threading.Event()
        self._waiting: dict[Emitter, None] = {}
        self._thread: threading.Thread | None = None

    def wake(self, emitter: Emitter) -> None:
        """Have an attempt's lines sent soon."""
        with self._lock:
            self._waiting[emitter] = None
            self._told.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._flush_for_long, name="tenxgraph-flusher", daemon=True)
                self._thread.start()

    def _flush_for_long(self) -> None:
        while self._is_needed():
            time.sleep(_WINDOW_S)
            with self._lock:
                emitters, self._waiting = list(self._waiting), {}
                self._told.clear()
            for first in range(0, len(emitters), _MOST_AT_ONCE):
                self._flush(emitters[first : first + _MOST_AT_ONCE])

    def _is_needed(self) -> bool:
        if self._told.wait(_IDLE_S):
            return True
        with self._lock:
            if not self._waiting:
                self._thread = None
            return bool(self._waiting)

    def _flush(self, emitters: list[Emitter]) -> None:
        try:
            self._send([(emitter, told) for emitter in emitters if (told := emitter.next_emission()) is not None])
        except StorageError as error:
            _logger.debug("%s What nodes tell goes again.", error.message)
            time.sleep(_PAUSE_S)
            for emitter in emitters:
                self.wake(emitter)
        except Exception:
            _logger.exception("what nodes told is sent when they end")

    def _send(self, told: list[tuple[Emitter, Emission]]) -> None:
        answers = self._store.emit([emission for _, emission in told]) if told else ()
        for (emitter, emission), answer in zip(told, answers, strict=True):
            if isinstance(answer, StorageError):  # of this thread's keys alone: the end of the attempt meets it too
                _logger.debug("%s", answer.message)
            else:
                emitter.answered(emission, answer)

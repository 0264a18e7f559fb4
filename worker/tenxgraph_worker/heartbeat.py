"""Keeps this process's claims alive while user code runs, and tells that code of a stop."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tenxgraph.core.exceptions import StorageError
from tenxgraph.engine.grip import Grip
from tenxgraph.engine.log import log_fields
from tenxgraph.settings import Settings
from tenxgraph.store.base import Claim, Dispatch, Store
from tenxgraph_worker.shutdown import Shutdown

_logger = logging.getLogger(__name__)

_RETRY_S = 0.5
"""Between renewals while the store is away: once it is back, a lease may have little time left."""

_LOOK_S = 0.5
"""Between looks whether the worker was told to end."""

_LAST_S = 10.0
"""How long a store that is away is waited for to hand the last attempts back."""


@dataclass(eq=False, slots=True)
class _Held:
    """A claim whose user code runs."""

    claim: Claim
    deadline_s: float
    expire: Callable[[], object]
    call: "Future[Any] | None" = None
    stop: bool = False
    expired: bool = False
    told_of_leaving: bool = False


@dataclass
class Heartbeat:
    """One thread for all claims of a process; it starts with the first claim, so after a fork.

    It keeps reservations of effects, too; those as long as the effect is made, also when the attempt is over before.

    It is no part of the nodes' event loop or threads: a node that blocks them keeps its lease. A lease is renewed only
    while the context of its claim is open, that is, while the attempt's own thread is alive.

    Attributes:
        store: Where leases are renewed.
        dispatch: Puts the next attempts of those that are handed back where workers find them.
        shutdown: Of the worker.
        leave: Called in the end of a shutdown, when no attempt here counts any more.
        end_process: Ends this process, where that frees the slot of a node that cannot be interrupted; None where other
            work would go down with it.
    """

    store: Store
    settings: Settings
    dispatch: Callable[[Sequence[Dispatch]], None]
    shutdown: Shutdown
    leave: Callable[[], None]
    end_process: Callable[[], None] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _wake: threading.Event = field(default_factory=threading.Event)
    _held: "set[_Held]" = field(default_factory=set[_Held])
    _strays: "set[_Held]" = field(default_factory=set[_Held])
    _kept: "dict[object, Callable[[], bool]]" = field(default_factory=dict[object, Callable[[], bool]])
    _thread: threading.Thread | None = None
    _next_look_s: float = float("inf")

    @contextmanager
    def hold(self, claim: Claim, timeout_s: float | None, expire: Callable[[], object]) -> Iterator[Grip]:
        """See :class:`~tenxgraph.engine.grip.Hold`."""
        deadline_s = float("inf") if timeout_s is None else time.monotonic() + timeout_s
        held = _Held(claim, deadline_s, expire)
        self._add(held)
        try:
            yield Grip(lambda: held.stop, lambda call: self._started(held, call))
        finally:
            with self._lock:
                self._held.discard(held)
                self._strays.discard(held)

    def _add(self, held: _Held) -> None:
        with self._lock:
            self._held.add(held)
            self._look_by(held.deadline_s)

    @contextmanager
    def keep(self, renew: Callable[[], bool]) -> Iterator[None]:
        """See :class:`~tenxgraph.engine.grip.Keep`."""
        kept = object()
        with self._lock:
            self._kept[kept] = renew
            self._look_by(float("inf"))
        try:
            yield
        finally:
            with self._lock:
                self._kept.pop(kept, None)

    def _look_by(self, deadline_s: float) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._beat_for_ever, name="tenxgraph-heartbeat", daemon=True)
            self._thread.start()
        if min(deadline_s, time.monotonic() + self.settings.heartbeat_s) < self._next_look_s:
            self._wake.set()

    def _started(self, held: _Held, call: "Future[Any]") -> None:
        # An async call is timed out on its own loop; the deadline here is for a loop that is blocked.
        with self._lock:
            held.call = call
            held.deadline_s += self.settings.heartbeat_s

    # -- the thread

    def _beat_for_ever(self) -> None:
        beat_s = time.monotonic() + self.settings.heartbeat_s
        while True:
            self._wait(beat_s)
            self._expire_late()
            if self.shutdown.left_s <= 0:
                self._hand_back()
            elif time.monotonic() >= beat_s or self._must_say_that_we_leave():
                beat_s = time.monotonic() + (self.settings.heartbeat_s if self._beat() else _RETRY_S)

    def _wait(self, beat_s: float) -> None:
        with self._lock:
            self._wake.clear()
            deadlines_s = [held.deadline_s for held in self._held if not held.expired]
            looks_s = [beat_s, time.monotonic() + _LOOK_S, *deadlines_s]
            self._next_look_s = min(looks_s) if self._held or self._kept or self._strays else float("inf")
            wait_s = self._next_look_s - time.monotonic()
        self._wake.wait(min(max(wait_s, 0), threading.TIMEOUT_MAX))

    def _beat(self) -> bool:
        """Renew every lease; False when the store is away."""
        with self._lock:
            open_now, kept_now = list(self._held), list(self._kept.items())
        try:
            for held in open_now:
                self._renew(held)
            for kept, renew in kept_now:
                self._renew_kept(kept, renew)
        except StorageError as error:
            _logger.warning("leases cannot be renewed: %s", error.message)
            return False
        return True

    def _renew_kept(self, kept: object, renew: Callable[[], bool]) -> None:
        if not renew():
            with self._lock:
                self._kept.pop(kept, None)

    def _renew(self, held: _Held) -> None:
        claim = held.claim
        leaving, lease_ms = self.shutdown.has_begun, round(self.settings.lease_s * 1000)
        renewal = self.store.renew(claim.ref, claim.token, lease_ms=lease_ms, leaving=leaving)
        held.told_of_leaving = leaving
        held.stop = bool(renewal.stop) or not renewal.alive
        if not renewal.alive:
            self._end(held, "fenced")

    def _end(self, held: _Held, why: str) -> None:
        """Make an end of user code whose attempt is over, as far as that is possible."""
        with self._lock:
            if held not in self._held:  # it returned meanwhile
                return
            self._held.discard(held)
            fields = log_fields(held.claim.ref)
            if held.call is not None and held.call.cancel():
                _logger.info("%s: its node is cancelled", why, extra=fields)
            elif self.end_process is not None:
                # Under the lock: the attempt's thread cannot leave its claim and take the next before we are gone.
                _logger.warning("%s: its node does not return, this process ends with it", why, extra=fields)
                self.end_process()
            else:
                self._strays.add(held)
                _logger.warning("%s: its node still runs and keeps its slot until it returns", why, extra=fields)

    # -- the worker's end

    def _must_say_that_we_leave(self) -> bool:
        with self._lock:
            return self.shutdown.has_begun and any(not held.told_of_leaving for held in self._held)

    def _hand_back(self) -> None:
        with self._lock:
            open_now = list(self._held)
        try:
            for held in open_now:
                self.dispatch(self.store.hand_back(held.claim.ref, held.claim.token).dispatch)
                self._end(held, "handed back")
        except StorageError as error:
            _logger.warning("attempts cannot be handed back: %s", error.message)
            if self.shutdown.left_s > -_LAST_S:
                return
        self.leave()

    # -- time limits

    def _expire_late(self) -> None:
        now_s = time.monotonic()
        with self._lock:
            late = [held for held in self._held if held.deadline_s <= now_s and not held.expired]
            for held in late:
                held.expired = held.stop = True
        for held in late:
            # Settling may route, and so call user code: not here, where the others' leases wait.
            threading.Thread(target=self._expire, args=(held,), name="tenxgraph-timeout", daemon=True).start()

    def _expire(self, held: _Held) -> None:
        try:
            held.expire()
        except Exception:
            _logger.exception("the time limit could not be settled", extra=log_fields(held.claim.ref))
        self._end(held, "timed out")

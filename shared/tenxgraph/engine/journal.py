"""The journal of a thread on the reservations of the store, as one attempt writes it."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from tenxgraph.core.exceptions import EffectLostError, StorageError
from tenxgraph.engine.grip import Keep
from tenxgraph.engine.patience import Insist
from tenxgraph.engine.user_call import USER_FAULTS
from tenxgraph.store.base import Claim, Reservation, ReservationOutcome, Store
from tenxgraph.utils.interrupt import Interrupted
from tenxgraph.utils.journal import AttemptOver, EffectKey, effect_name

T = TypeVar("T")

_ENDS_OF_A_CALL = (*USER_FAULTS, Interrupted, AttemptOver)
_FIRST_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 0.25


@dataclass(frozen=True, slots=True)
class StoreJournal:
    """See :class:`~tenxgraph.utils.journal.Journal`.

    Attributes:
        lease_ms: Of a reservation.
        insist: Makes calls of the store.
        keep: Renews a reservation while its effect is made, and tells that calls of the store wait for a server; None
            where the store is this process's own.
    """

    store: Store
    claim: Claim
    lease_ms: int
    insist: Insist
    keep: Keep | None = None

    def once(self, key: EffectKey, make: Callable[[], bytes]) -> bytes:
        """See :meth:`Journal.once`."""
        turn = _Turn(self, key)
        while (found := turn.ask()) is None:
            time.sleep(turn.next_pause_s())
        if found.outcome is ReservationOutcome.DONE:
            return found.result
        with turn.making():
            result = make()
        return turn.record(result)

    async def aonce(self, key: EffectKey, make: Callable[[], Awaitable[bytes]]) -> bytes:
        """See :meth:`Journal.aonce`."""
        turn = _Turn(self, key)
        while (found := await self._beside_the_loop(turn.ask)) is None:  # noqa: ASYNC110 - the maker may be elsewhere
            await asyncio.sleep(turn.next_pause_s())
        if found.outcome is ReservationOutcome.DONE:
            return found.result
        with turn.making():
            result = await make()
        return await self._beside_the_loop(partial(turn.record, result))

    async def turn_s(self, what: str, nonce: str, calls: int, period_s: float) -> float:
        """Return in how many seconds it is the turn of a call, 0 when it may begin; see :meth:`Store.turn`."""
        ask = partial(self.store.turn, what, nonce, limit=calls, period_ms=round(period_s * 1000))
        try:
            return await self._beside_the_loop(partial(self.insist, ask)) / 1000
        except StorageError as error:
            raise AttemptOver(error) from error

    async def _beside_the_loop(self, call: Callable[[], T]) -> T:
        return call() if self.keep is None else await asyncio.to_thread(call)

    def begin(self, key: EffectKey) -> None:
        """Note that something begins that no later attempt of this run may begin again.

        Raises:
            EffectLostError: An earlier one did.
            AttemptOver: This one may not.
        """
        _Turn(self, key, lease_ms=0).ask()


@dataclass(slots=True)
class _Turn:
    """One asker's way to the result of an effect."""

    journal: StoreJournal
    key: EffectKey
    lease_ms: int | None = None
    nonce: str = field(default_factory=lambda: secrets.token_hex(8))
    pause_s: float = _FIRST_PAUSE_S

    @property
    def _name(self) -> str:
        # After a run went back to a checkpoint, what was done before counts no more.
        epoch = self.journal.claim.run.journal
        return effect_name("since", epoch, self.key.name) if epoch else self.key.name

    def ask(self) -> Reservation | None:
        """Return the grant or the result; None while somebody else makes it."""
        claim, journal = self.journal.claim, self.journal
        reserve = partial(journal.store.reserve, claim.ref, claim.token, self._name, self.nonce)
        lease_ms = journal.lease_ms if self.lease_ms is None else self.lease_ms
        found = self._insist(lambda: reserve(lease_ms=lease_ms, at_most_once=self.key.at_most_once))
        if found.outcome is ReservationOutcome.FENCED:
            raise AttemptOver
        if found.outcome is ReservationOutcome.LOST:
            raise self._lost()
        return None if found.outcome is ReservationOutcome.HELD else found

    def next_pause_s(self) -> float:
        """Say how long to wait before asking again. Asking ends when the attempt is fenced."""
        self.pause_s = min(self.pause_s * 2, _LONGEST_PAUSE_S)
        return self.pause_s

    @contextmanager
    def making(self) -> Iterator[None]:
        """Hold the reservation; give it up if the call raises."""
        try:
            with self._keep():
                yield
        except _ENDS_OF_A_CALL:
            self._release()
            raise

    def _keep(self) -> AbstractContextManager[None]:
        return nullcontext() if self.journal.keep is None else self.journal.keep(self._renew)

    def _renew(self) -> bool:
        journal = self.journal
        return journal.store.renew_effect(self._thread_id, self._name, self.nonce, lease_ms=journal.lease_ms)

    def _release(self) -> None:
        try:
            self.journal.insist(lambda: self.journal.store.release_effect(self._thread_id, self._name, self.nonce))
        except StorageError:
            """Its lease ends by itself; what the call raised says more."""

    def record(self, result: bytes) -> bytes:
        """Keep the result; return the one that is kept."""
        record = partial(self.journal.store.record, self._thread_id, self._name, self.nonce, result)
        if self._insist(record):
            return result
        found = self.ask()
        return result if found is None or found.outcome is not ReservationOutcome.DONE else found.result

    @property
    def _thread_id(self) -> str:
        return self.journal.claim.ref.thread_id

    def _insist(self, call: Callable[[], T]) -> T:
        try:
            return self.journal.insist(call)
        except StorageError as error:
            raise AttemptOver(error) from error

    def _lost(self) -> EffectLostError:
        claim = self.journal.claim
        return EffectLostError(
            f"{self.key.title} in node {claim.spec.node!r} was begun before, gave no result, and is to happen at most "
            "once: find out whether it did. invoke(None, config) then begins it anew; a new message leaves it.",
            node=claim.spec.node,
            attempt=claim.ref.attempt,
            context={"effect": self.key.title},
        )

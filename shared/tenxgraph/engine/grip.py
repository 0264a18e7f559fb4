"""Between user code that runs under a claim and whoever keeps that claim alive."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from tenxgraph.store.base import Claim, Store


def _not_wanted(call: "Future[Any]") -> None:
    """Nobody would cancel it."""


@dataclass(frozen=True, slots=True)
class Grip:
    """What running user code and its keeper know of each other.

    Attributes:
        stop_requested: Whether the run is to stop, or the attempt was fenced.
        started: Told of the future of an async call, so that it can be cancelled.
    """

    stop_requested: Callable[[], bool]
    started: Callable[["Future[Any]"], None] = _not_wanted


class Hold(Protocol):
    """Keeps a claim alive while user code runs."""

    def __call__(
        self, claim: Claim, timeout_s: float | None, expire: Callable[[], object]
    ) -> AbstractContextManager[Grip]:
        """Hold a claim inside the context.

        Args:
            claim: The claim.
            timeout_s: How long the user code may take.
            expire: Settles the attempt as timed out; for user code that nothing can interrupt.
        """
        ...


class Keep(Protocol):
    """Keeps a reservation alive while an effect is made, also when its attempt is over before it."""

    def __call__(self, renew: Callable[[], bool]) -> AbstractContextManager[None]:
        """Call ``renew`` every now and then inside the context, until it says False."""
        ...


def hold_by_asking(store: Store, lease_ms: int) -> Hold:
    """Return a hold for claims that cannot end apart from this process: it asks the store for the stop flag."""

    @contextmanager
    def hold(claim: Claim, timeout_s: float | None, expire: Callable[[], object]) -> Iterator[Grip]:
        del timeout_s, expire
        yield Grip(lambda: bool(store.renew(claim.ref, claim.token, lease_ms=lease_ms).stop))

    return hold

"""A crew that is struck by what a user names: kills, lost replies, pauses, an outage, a broker without manners."""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar, cast

import orjson

from tenxgraph.core.exceptions import StorageError
from tenxgraph.core.graph.definition import GraphDefinition
from tenxgraph.engine.user_call import drive
from tenxgraph.store.base import Dispatch, RunView, Store
from tenxgraph.testing.crash import READS, Crew, Died, Faults

T = TypeVar("T")

THREAD_ID: Final = "under-faults"
HAND_IN: Final = ("commit", "advance", "settle")
"""With one of these a worker hands in what it has."""

_PATIENCE: Final = 1_000
"""Moves beyond those of the undisturbed run; one that needs more is stuck."""

_LATEST_MOVES: Final = 12
"""How many moves a late message may be late."""


@dataclass(slots=True)
class Strike:
    """What befalls one effect: the ``nth`` of those named, from 0.

    Attributes:
        effects: Names of them; none means all.
        how: ``before`` and ``after`` kill the process, ``no reply`` loses the answer, ``pause`` stops the worker past
            its lease, ``away`` takes the store away for ``calls`` calls.
    """

    effects: Sequence[str]
    how: str
    nth: int
    calls: int = 0
    seen: int = 0
    is_done: bool = False

    def is_due(self, effect: str) -> bool:
        """Count an effect; True for the one that is meant."""
        if self.is_done or (self.effects and effect not in self.effects):
            return False
        self.seen += 1
        self.is_done = self.seen > self.nth
        return self.is_done


@dataclass(slots=True)
class Manners:
    """How the broker treats messages.

    Attributes:
        copies: Of each.
        dropped: Numbers, from 0, of messages that are lost.
        delayed: Share of messages that come late, perhaps after they were sent again.
        is_shuffled: Whether they come in any order.
        seed: Of what is left to chance.
    """

    copies: int = 1
    dropped: frozenset[int] = frozenset()
    delayed: float = 0.0
    is_shuffled: bool = False
    seed: int = 0


@dataclass(slots=True)
class Trouble(Faults):
    """Strikes at named effects, and counts how many did not come to pass."""

    strikes: Sequence[Strike] = ()
    pause: Callable[[], None] = lambda: None
    away: int = 0

    @property
    def missed(self) -> list[Strike]:
        """Strikes whose effect there never was."""
        return [strike for strike in self.strikes if not strike.is_done]

    def read(self, method: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Make a call that changes nothing, if the store is there."""
        self._check_store()
        return method(*args, **kwargs)

    def _check_store(self) -> None:
        if self.away:
            self.away -= 1
            raise StorageError("The store is being restarted: try again.")

    def perform(self, name: str, effect: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Make an effect, or what is left of it."""
        self.effects.append(name)
        if name != "dispatch":
            self._check_store()
        due = [strike for strike in self.strikes if strike.is_due(name)]
        for strike in due:
            self._before(strike, name)
        reply = effect(*args, **kwargs)
        for strike in due:
            _after(strike, name)
        return reply

    def _before(self, strike: Strike, name: str) -> None:
        if strike.how == "before":
            raise Died(name)
        if strike.how == "pause":
            self.pause()
        if strike.how == "away":
            self.away = strike.calls
            raise StorageError("The store was killed: try again.")


def _after(strike: Strike, name: str) -> None:
    if strike.how == "after":
        raise Died(name)
    if strike.how == "no reply":
        raise StorageError(f"The reply of {name} was lost: try again.")


class TroubledStore:
    """A store that strikes at those who write, and can be away for everybody."""

    def __init__(self, store: Store, trouble: Trouble) -> None:
        self._store, self._trouble = store, trouble

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name not in READS:
            return partial(self._trouble.perform, name, method)
        return partial(self._trouble.read, method)


def troubled(store: Store, trouble: Faults) -> Store:
    """Return what the processes of a troubled crew see of the store."""
    assert isinstance(trouble, Trouble)
    return cast(Store, TroubledStore(store, trouble))


class TroubledCrew(Crew):
    """Drives one thread of a graph through its inputs, whatever strikes.

    Args:
        definition: The graph.
        trouble: What strikes at effects.
        manners: Of the broker.
        moves: That the undisturbed run took; None while it is not known.
        **options: See :class:`~tenxgraph.testing.crash.Crew`.
    """

    moves: int

    def __init__(
        self,
        definition: GraphDefinition[Any],
        trouble: Trouble,
        manners: Manners,
        *,
        moves: int | None = None,
        **options: Any,
    ) -> None:
        self._manners, self._chance = manners, random.Random(manners.seed)
        self._held: list[tuple[int, Dispatch]] = []
        self._patience = 10 * (moves or _PATIENCE) + _PATIENCE
        order = random.Random(manners.seed) if manners.is_shuffled else None
        trouble.pause = self._pause
        super().__init__(
            definition,
            trouble,
            strike=troubled,
            order=order,
            copies=manners.copies,
            lost=manners.dropped,
            **options,
        )

    def tell(self, inputs: Sequence[Any], config: Mapping[str, Any]) -> None:
        """Give the inputs one after the other, each when the last run has settled."""
        for number, given in enumerate(inputs):
            asked = given(self._questions()) if callable(given) else given
            self.submit(asked, {**config, "thread_id": THREAD_ID, "run_id": f"run-{number}"})
            self.see_through(THREAD_ID)

    def _questions(self) -> dict[str, Any]:
        run: RunView = self.store.runs(THREAD_ID)[-1]
        return {asked.id: orjson.loads(asked.body)["value"] for asked in run.interrupts if asked.answer is None}

    def see_through(self, thread_id: str) -> None:
        """Let it come to an end; what was held back comes after it, too."""
        super().see_through(thread_id)
        self._broker += [message for _, message in self._held]
        self._held.clear()
        super().see_through(thread_id)

    def move(self, thread_id: str) -> None:
        """Deliver one message, or let the scheduler look when there is none."""
        if self.moves >= self._patience:
            raise AssertionError(f"stuck: {self.store.runs(thread_id)[-1]}\n{self.faults.effects[-40:]}")
        self.moves += 1
        self._release()
        self._deliver() if self._broker else self._reconcile()

    def _perform(self, message: Dispatch) -> None:
        drive(self._worker.perform(message.ref, message.node))

    # -- late messages

    def _publish(self, item: Dispatch) -> None:
        if self._chance.random() >= self._manners.delayed:
            return super()._publish(item)
        self._published += 1
        self._held.append((self.moves + self._chance.randint(1, _LATEST_MOVES), item))
        return None

    def _release(self) -> None:
        due = [message for at, message in self._held if at <= self.moves]
        self._held = [(at, message) for at, message in self._held if at > self.moves]
        self._broker += due

    # -- a worker that stands still

    def _pause(self) -> None:
        """Somebody hands in late: meanwhile its lease ended, and another worker did what it was about to do."""
        self._worker = self._new_worker()
        self._reconcile()
        for _ in range(len(self._broker)):
            self._deliver()

    # -- the end

    def starts_of_nodes(self) -> Counter[str]:
        """Return how often each node began."""
        found: Counter[str] = Counter()
        for run in self.store.runs(THREAD_ID):
            for stored in self.store.events(THREAD_ID, run.run_id, "", timeout_s=0):
                events = map(orjson.loads, stored.body.splitlines())
                found.update(event["node"] for event in events if event["event"] == "task_start")
        return found

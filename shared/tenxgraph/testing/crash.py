"""The crash test: every effect may be the last of its process, or lose its reply, and the end must be the same.

An effect is a write into the store or a publish. :class:`Faults` counts them and strikes at chosen ones; a
:class:`Crew` is a client, a worker and a scheduler in one thread, with the queue as a list; on the memory store it
turns the clock, on a real server it waits.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, Final, TypeVar, cast

from tenxgraph.core.exceptions import StorageError
from tenxgraph.core.graph.definition import GraphDefinition
from tenxgraph.core.state import Message
from tenxgraph.engine.attempt import AttemptRunner
from tenxgraph.engine.client import EngineClient
from tenxgraph.engine.patience import Insist, insist, once
from tenxgraph.engine.reconcile import reconcile
from tenxgraph.engine.runtime import Runtime
from tenxgraph.engine.user_call import drive
from tenxgraph.engine.views import run_state
from tenxgraph.store.base import Dispatch, Overdue, RecoveryRules, Store
from tenxgraph.testing.contract.harness import MemoryHarness, StoreHarness
from tenxgraph.wire import Checkpointed

T = TypeVar("T")

READS: Final = frozenset(
    {
        "aevents",
        "checkpoint",
        "checkpoints",
        "close",
        "events",
        "keeps_event",
        "image",
        "log",
        "media",
        "next_due_ms",
        "now_ms",
        "resumed",
        "run",
        "runs",
        "tasks",
        "thread",
        "threads",
    }
)
"""Methods of a store that are no effects."""

LEASE_MS: Final = 10_000
"""On the memory store, whose clock costs nothing."""

_BUDGET_S: Final = 600.0
"""Longer than any run of the suite."""

PATIENCE: Final = 400
"""More moves than any run of the suite needs; one that does not end in them is stuck."""


def _at_once(call: Callable[[], T], /) -> T:
    return insist(call, lambda _pause_s: True)


class Died(BaseException):  # it is no error of the code that it ends
    """The process ends here; nothing may catch it."""


class Strike(StrEnum):
    """What becomes of an effect."""

    BEFORE = "the process dies before it"
    AFTER = "the process dies after it"
    NO_REPLY = "its reply is lost"


@dataclass(slots=True)
class Faults:
    """Counts effects, and strikes at those whose number, from 0, is planned."""

    plan: Mapping[int, Strike] = field(default_factory=dict[int, Strike])
    effects: list[str] = field(default_factory=list[str])

    def perform(self, name: str, effect: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Make an effect, or what is left of it."""
        strike = self.plan.get(len(self.effects))
        self.effects.append(name)
        if strike is Strike.BEFORE:
            raise Died(name)
        reply = effect(*args, **kwargs)
        if strike is Strike.AFTER:
            raise Died(name)
        if strike is Strike.NO_REPLY:
            raise StorageError(f"The reply of {name} was lost: try again.")
        return reply


class CrashingStore:
    """A store whose writes are effects. Reading it never fails."""

    def __init__(self, store: Store, faults: Faults) -> None:
        self._store, self._faults = store, faults

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        return partial(self._faults.perform, name, method) if name not in READS else method


def crashing(store: Store, faults: Faults) -> Store:
    """Return a store each of whose methods that write is an effect."""
    return cast(Store, CrashingStore(store, faults))


@dataclass(frozen=True, slots=True)
class End:
    """How a thread stands: what must be the same whatever died.

    Attributes:
        status: Of each run.
        ledger: Of each version: run, step, status, and the nodes whose updates it merged.
        states: Of each version: the state, without times.
    """

    status: Mapping[str, str]
    ledger: Sequence[Any]
    states: Sequence[Any]


class Crew:
    """Drives runs of one graph on one thread, through whatever strikes.

    Args:
        definition: The graph.
        faults: What strikes.
        harness: The store and its time; None for the memory store. Its ``watch_ms`` is the scheduler's grace.
        lease_ms: Of a claim; at least twice the grace.
        strike: Makes the store that clients, workers and scheduler of the crew see.
        late: Whether a message is acknowledged after its task, so that a death brings it back, or on receipt.
        insists: Whether the worker repeats a call whose reply was lost, instead of breaking off.
        order: Picks the next message; None takes the oldest.
        copies: How often each message is delivered.
        lost: Numbers, from 0, of messages that the broker loses.
        strangers: Numbers, from 0, of deliveries that come to a worker that does not know the graph.

    Attributes:
        harness: See above.
        store: As nothing strikes it.
        lease_ms: See above.
        moves: How often the crew delivered, called again or looked.
        looks: How often the scheduler was needed.
    """

    def __init__(
        self,
        definition: GraphDefinition[Any],
        faults: Faults | None = None,
        *,
        harness: StoreHarness | None = None,
        lease_ms: int = LEASE_MS,
        strike: Callable[[Store, Faults], Store] = crashing,
        late: bool = False,
        insists: bool = False,
        order: random.Random | None = None,
        copies: int = 1,
        lost: Iterable[int] = (),
        strangers: Iterable[int] = (),
    ) -> None:
        self.faults: Faults = faults or Faults()
        self.harness: StoreHarness = harness or MemoryHarness(watch_ms=lease_ms // 2)
        self.store: Store = self.harness.store
        self.lease_ms: int = lease_ms
        self.moves: int = 0
        self.looks: int = 0
        self._strike = strike
        self._rules = RecoveryRules(grace_ms=self.harness.watch_ms, max_deliveries=3)
        self._runtime = Runtime(definition)
        self._late, self._order, self._copies, self._lost = late, order, copies, frozenset(lost)
        self._insist: Insist = _at_once if insists else once
        self._broker: list[Dispatch] = []
        self._strangers = frozenset(strangers)
        self._published = self._delivered = 0
        self._client = EngineClient(self._runtime, self._struck(), self._dispatch, recursion_limit=25, does_io=False)
        self._worker = self._new_worker()
        self._scheduler = self._struck()

    def _struck(self) -> Store:
        return self._strike(self.store, self.faults)

    def _new_worker(self) -> AttemptRunner:
        return AttemptRunner(
            self._runtime,
            self._struck(),
            self._dispatch,
            worker="w",
            lease_ms=self.lease_ms,
            insist=self._insist,
            budget_s=_BUDGET_S,
        )

    def _dispatch(self, dispatches: Sequence[Dispatch]) -> None:
        for item in dispatches:
            self.faults.perform("dispatch", self._publish, item)

    def _publish(self, item: Dispatch) -> None:
        if self._published not in self._lost:
            self._broker += [item] * self._copies
        self._published += 1

    # -- the client

    def call(self, input_data: Any, config: Mapping[str, Any]) -> None:
        """Submit, and see the run through."""
        self.submit(input_data, config)
        self.see_through(str(config["thread_id"]))

    def submit(self, input_data: Any, config: Mapping[str, Any]) -> None:
        """Submit until the store has answered, always under the same ids."""
        for _ in range(PATIENCE):
            try:
                self._client.submit(input_data, config)
                break
            except (Died, StorageError):
                self.moves += 1

    def ask(self, request: Callable[[EngineClient[Any]], object]) -> None:
        """Let a person ask for something until the store has answered."""
        for _ in range(PATIENCE):
            try:
                request(self._client)
                return
            except (Died, StorageError):
                self.moves += 1
        raise AssertionError("stuck: the store answered no request of a person")

    # -- workers and scheduler

    def see_through(self, thread_id: str) -> None:
        """Deliver, and let time pass, until nothing happens by itself any more.

        Raises:
            AssertionError: It does not come to an end.
        """
        while not self._is_settled(thread_id):
            self.move(thread_id)
        while self._broker:
            self._deliver()

    def move(self, thread_id: str) -> None:
        """Deliver one message, or let the scheduler look when there is none."""
        self.moves += 1
        if self.moves > PATIENCE:
            raise AssertionError(f"stuck: {self.store.runs(thread_id)[-1]}\n{self.faults.effects}")
        self._deliver() if self._broker else self._reconcile()

    def _is_settled(self, thread_id: str) -> bool:
        return not self._broker and all(run.status.is_settled for run in self.store.runs(thread_id))

    def _deliver(self) -> None:
        position = self._order.randrange(len(self._broker)) if self._order else 0
        message = self._broker.pop(position)
        self._delivered += 1
        try:
            self._perform(message)
        except Died:
            self._worker = self._new_worker()
            if self._late:
                self._broker.append(message)
        except StorageError:
            """The attempt broke off; its lease ends."""

    def _perform(self, message: Dispatch) -> None:
        if self._delivered - 1 in self._strangers:
            given_back = partial(self._worker.store.give_back, message.ref, pause_ms=self._rules.grace_ms)
            self._insist(lambda: given_back(reason="waiting_for_version"))
        else:
            drive(self._worker.perform(message.ref))

    def _reconcile(self) -> None:
        self.looks += 1
        self.harness.sleep_ms(self.lease_ms + 1)
        try:
            reconcile(self._scheduler, self._rules, self._dispatch, self._is_lost)
        except (Died, StorageError):
            """The next one finds the same threads due."""

    def _is_lost(self, overdue: Overdue) -> bool:
        return all(message.ref != overdue.dispatch.ref for message in self._broker)

    # -- the end

    def end(self, thread_id: str) -> End:
        """Return how the thread stands."""
        points = list(reversed(self.store.checkpoints(thread_id, limit=10_000)))
        ledger = [
            (point.version.number, point.run_id, point.step, str(point.status), Checkpointed.from_json(point.meta))
            for point in points
        ]
        states = [self._state(thread_id, point.version.number) for point in points]
        return End({run.run_id: str(run.status) for run in self.store.runs(thread_id)}, ledger, states)

    def _state(self, thread_id: str, number: int) -> Any:
        state = run_state(self._runtime, self.store.image(thread_id, number), None, ())
        fields = {name: getattr(state, name) for name in type(state).model_fields}
        return {**fields, "context": [_timeless(message) for message in state.context]}

    def starts(self, thread_id: str) -> int:
        """Return how many attempts at nodes began."""
        events = [
            stored.body
            for run in self.store.runs(thread_id)
            for stored in self.store.events(thread_id, run.run_id, "", timeout_s=0)
        ]
        return sum(body.count(b'"event":"task_start"') for body in events)


def _timeless(message: Message) -> dict[str, Any]:
    return message.model_dump(exclude={"timestamp"})

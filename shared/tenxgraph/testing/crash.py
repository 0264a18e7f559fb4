"""The crash test: every effect may be the last of its process, or lose its reply, and the end must be the same.

An effect is a write into the store or a publish. :class:`Faults` counts them and strikes at chosen ones; a
:class:`Crew` is a client, a worker and a scheduler in one thread, with the queue as a list and a clock that it turns.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, Final, TypeVar, cast

from tenxgraph.core.exceptions import InterruptConflictError, StorageError, ThreadBusyError
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
from tenxgraph.store.memory import MemoryStore
from tenxgraph.testing.contract.harness import FakeClock
from tenxgraph.wire import Checkpointed

T = TypeVar("T")

WRITES: Final = frozenset(
    {
        "admit",
        "advance",
        "cancel",
        "claim",
        "commit",
        "delete_thread",
        "emit",
        "give_back",
        "mark_resent",
        "recover",
        "renew",
        "resume",
        "settle",
        "settle_due",
        "stop",
    }
)
LEASE_MS: Final = 10_000
RULES: Final = RecoveryRules(grace_ms=5_000, max_deliveries=3)
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
        return partial(self._faults.perform, name, method) if name in WRITES else method


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
        late: Whether a message is acknowledged after its task, so that a death brings it back, or on receipt.
        insists: Whether the worker repeats a call whose reply was lost, instead of breaking off.
        order: Picks the next message; None takes the oldest.
        copies: How often each message is delivered.
        lost: Numbers, from 0, of messages that the broker loses.

    Attributes:
        moves: How often the crew delivered, called again or looked.
        looks: How often the scheduler was needed.
    """

    def __init__(
        self,
        definition: GraphDefinition[Any],
        faults: Faults | None = None,
        *,
        late: bool = False,
        insists: bool = False,
        order: random.Random | None = None,
        copies: int = 1,
        lost: Iterable[int] = (),
    ) -> None:
        self.faults: Faults = faults or Faults()
        self.clock: FakeClock = FakeClock()
        self.store: MemoryStore = MemoryStore(watch_ms=RULES.grace_ms, clock=self.clock)
        self.moves: int = 0
        self.looks: int = 0
        self._struck = cast(Store, CrashingStore(self.store, self.faults))
        self._runtime = Runtime(definition)
        self._late, self._order, self._copies, self._lost = late, order, copies, frozenset(lost)
        self._insist: Insist = _at_once if insists else once
        self._broker: list[Dispatch] = []
        self._published = 0
        self._client = EngineClient(self._runtime, self._struck, self._dispatch, recursion_limit=25, does_io=False)
        self._worker = self._new_worker()

    def _new_worker(self) -> AttemptRunner:
        return AttemptRunner(
            self._runtime, self._struck, self._dispatch, worker="w", lease_ms=LEASE_MS, insist=self._insist
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
        for attempt in range(PATIENCE):
            try:
                self._client.submit(input_data, config)
                break
            except (Died, StorageError):
                self.moves += 1
            except (InterruptConflictError, ThreadBusyError):
                if not attempt:
                    raise
                break  # the first try was taken

    # -- workers and scheduler

    def see_through(self, thread_id: str) -> None:
        """Deliver, and let time pass, until nothing happens by itself any more.

        Raises:
            AssertionError: It does not come to an end.
        """
        while not self._is_settled(thread_id):
            self.moves += 1
            if self.moves > PATIENCE:
                raise AssertionError(f"stuck: {self.store.runs(thread_id)[-1]}\n{self.faults.effects}")
            self._deliver() if self._broker else self._reconcile()
        while self._broker:
            self._deliver()

    def _is_settled(self, thread_id: str) -> bool:
        return not self._broker and all(run.status.is_settled for run in self.store.runs(thread_id))

    def _deliver(self) -> None:
        position = self._order.randrange(len(self._broker)) if self._order else 0
        message = self._broker.pop(position)
        try:
            drive(self._worker.perform(message.ref))
        except Died:
            self._worker = self._new_worker()
            if self._late:
                self._broker.append(message)
        except StorageError:
            """The attempt broke off; its lease ends."""

    def _reconcile(self) -> None:
        self.looks += 1
        self.clock.sleep_ms(LEASE_MS + 1)
        try:
            reconcile(self._struck, RULES, self._dispatch, self._is_lost)
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

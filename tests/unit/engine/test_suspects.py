"""One suspect at a time in a process: a bystander pays once for a killer."""

import threading
from collections import Counter
from typing import Any

from tenxgraph.core.graph import RunStatus
from tenxgraph.core.state import Message
from tenxgraph.engine.attempt import AttemptRunner
from tenxgraph.engine.client import EngineClient
from tenxgraph.engine.reconcile import reconcile
from tenxgraph.engine.runtime import Runtime
from tenxgraph.engine.suspects import Suspects
from tenxgraph.engine.user_call import drive
from tenxgraph.store.base import Dispatch, RecoveryRules, TaskRef
from tenxgraph.store.memory import MemoryStore
from tenxgraph.testing.contract.harness import FakeClock
from tests.graphs.tools import Log, graph

LEASE_MS = 1_000
RULES = RecoveryRules(grace_ms=500, max_deliveries=3)


def place_of(suspects: Suspects, attempt: int) -> int:
    with suspects.place_for(TaskRef("T", "R", 1, "0", attempt)) as place:
        return place.pause_ms


def test_a_first_attempt_takes_no_place_and_needs_none() -> None:
    suspects = Suspects()
    with suspects.place_for(TaskRef("T", "R", 1, "0", 2)) as held:
        assert held.pause_ms == 0
        assert place_of(suspects, 2) > 0
    assert place_of(suspects, 2) == 0


def test_a_later_attempt_that_is_no_suspect_leaves_the_place_to_others() -> None:
    store, suspects = MemoryStore(), Suspects()
    runtime = Runtime(graph().add_node("a", lambda state: None).set_entry_point("a").define())
    messages: list[Dispatch] = []
    client = EngineClient(runtime, store, messages.extend, recursion_limit=5, does_io=False)
    client.submit({"messages": [Message.text_message("Hi")]}, {"thread_id": "T"})
    claim: Any = store.claim(messages[0].ref, "n", worker="w", lease_ms=1, known=None, events=b"")
    with suspects.place_for(TaskRef("T", "R", 1, "0", 2)) as place:
        place.keep_for(claim)
        assert place_of(suspects, 3) == 0


class Town:
    """Worker processes of many slots, each of which dies whole when a killer runs in it; a clock that is turned."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.clock = FakeClock()
        self.store = MemoryStore(watch_ms=500, clock=self.clock)
        self.broker: list[Dispatch] = []
        self.claimed: list[Dispatch] = []
        self.starts: Counter[str] = Counter()
        self.killers = {"killer"}
        self.arrival, self.thread = threading.Condition(), threading.local()
        built = graph().add_node("work", self._work).add_node("then", self._then)
        self.runtime = Runtime(built.add_edge("work", "then").set_entry_point("work").define())
        self.client = EngineClient(self.runtime, self.store, self.broker.extend, recursion_limit=9, does_io=False)

    def _work(self, state: Log, config: dict[str, Any]) -> None:
        thread_id = config["thread_id"]
        self.starts[thread_id] += 1
        self.doomed.append(thread_id in self.killers)
        self._arrive()
        with self.arrival:
            assert self.arrival.wait_for(lambda: self.arrived == self.expected, 20)
        if any(self.doomed):
            raise _Killed

    def _arrive(self) -> None:
        """This thread runs its node, or has none to run: all that run wait for each other."""
        with self.arrival:
            self.arrived += not getattr(self.thread, "has_arrived", False)
            self.thread.has_arrived = True
            self.arrival.notify_all()

    def _then(self, state: Log) -> None:
        """One more step, at which nobody is in danger."""

    def submit(self, thread_id: str) -> None:
        self.client.submit({"messages": [Message.text_message("Hi")]}, {"thread_id": thread_id, "run_id": thread_id})

    def live(self) -> None:
        """Let one process after the other take as many messages as it has slots, until all runs are settled."""
        for _ in range(500):
            if not self.broker:
                self.clock.sleep_ms(LEASE_MS + 1)
                reconcile(self.store, RULES, self.broker.extend, is_lost=lambda late: True)
            batch, self.broker[:] = self.broker[: self.slots], self.broker[self.slots :]
            self._process(batch)
            if all(self.status(thread_id).is_settled for thread_id in self.starts) and not self.broker:
                return
        raise AssertionError(f"stuck: {self.starts}")

    def _process(self, batch: list[Dispatch]) -> None:
        self.expected, self.arrived, self.doomed, suspects = len(batch), 0, list[bool](), Suspects()
        work = [threading.Thread(target=self._perform, args=(item, suspects)) for item in batch]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join(30)

    def _perform(self, item: Dispatch, suspects: Suspects) -> None:
        runner = AttemptRunner(
            self.runtime, self.store, self.broker.extend, worker="w", lease_ms=LEASE_MS, suspects=suspects
        )
        try:
            drive(runner.perform(item.ref))
        except _Killed:
            """The process is gone; the claim stays until its lease ends."""
        finally:
            self._arrive()

    def status(self, thread_id: str) -> RunStatus:
        run = self.store.run(thread_id)
        assert run is not None
        return run.status


class _Killed(BaseException):
    """The process ends here."""


def test_a_bystander_pays_once_for_a_killer_and_the_killer_is_dead_after_three() -> None:
    town = Town(slots=12)
    names = ["killer", *(f"bystander {number}" for number in range(20))]
    for name in names:
        town.submit(name)
    town.live()
    assert town.status("killer") is RunStatus.DEAD
    assert {name: town.status(name) for name in names[1:]} == dict.fromkeys(names[1:], RunStatus.COMPLETED)
    assert town.starts["killer"] == 3
    assert max(town.starts[name] for name in names[1:]) == 2


def test_of_several_killers_each_takes_a_bystander_along_at_most_once() -> None:
    town = Town(slots=12)
    town.killers = {"killer", "murderer"}
    names = ["killer", "murderer", *(f"bystander {number}" for number in range(10))]
    for name in names:
        town.submit(name)
    town.live()
    assert {town.status(name) for name in town.killers} == {RunStatus.DEAD}
    assert {town.status(name) for name in names[2:]} == {RunStatus.COMPLETED}

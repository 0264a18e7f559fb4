"""The scheduler's process: what depends on time, on a store whose time the test moves, and on a real broker."""

import threading
import time
import uuid
from collections.abc import Callable, Sequence

import pytest

from tenxgraph.core.exceptions import StorageError
from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.settings import Settings
from tenxgraph.store.base import Dispatch, Overdue, Recovery, RecoveryRules
from tenxgraph.store.memory import MemoryStore
from tenxgraph.testing.contract.harness import MemoryHarness, StoreMoves
from tenxgraph_scheduler.broker import broker_url, make_celery
from tenxgraph_scheduler.dispatch import CeleryDispatcher
from tenxgraph_scheduler.outage import Outage
from tenxgraph_scheduler.queue_view import QueueView
from tenxgraph_scheduler.reconciler import Reconciler, make_reconciler
from tests.servers import EmbeddedValkey, Server, client_of, running, valkey_server  # noqa: F401  # a fixture

SETTINGS = Settings(lease_s=2.0, heartbeat_s=0.5, scan_s=0.2)
LEASE_MS = 2000
KEEP_MS = round(SETTINGS.thread_keep_s * 1000)


class FragileStore(MemoryStore):
    """A memory store that can be taken away, as a whole or for one thread."""

    def __init__(self, *, watch_ms: int, clock: Callable[[], int]) -> None:
        super().__init__(watch_ms=watch_ms, clock=clock)
        self.is_away = False
        self.bad_thread = ""

    def now_ms(self) -> int:
        if self.is_away:
            raise StorageError("The store is away.")
        return super().now_ms()

    def recover(self, thread_id: str, rules: RecoveryRules) -> Recovery:
        if thread_id == self.bad_thread:
            raise ValueError("what is stored makes no sense")
        return super().recover(thread_id, rules)


class SeenQueues:
    """Queues that a test empties."""

    def __init__(self) -> None:
        self.is_empty = False
        self.lag: int | None = None
        self.looks = 0

    def begin_scan(self) -> None:
        pass

    def is_lost(self, overdue: Overdue) -> bool:
        self.looks += 1
        return self.is_empty

    def lag_ms(self, overdue: Overdue) -> int | None:
        return self.lag


class TestReconciler(StoreMoves):
    @pytest.fixture(autouse=True)
    def _install(self) -> None:
        self.harness: MemoryHarness = MemoryHarness(FragileStore)
        self.sent: list[Dispatch] = []
        self.queues = SeenQueues()
        self.server_id = "server 1"
        self.reconciler = self.make()

    def make(self) -> Reconciler:
        return Reconciler(
            self.store,
            self.sent.extend,
            SETTINGS,
            queues=self.queues,
            server_id=lambda: self.server_id,
            monotonic_s=lambda: self.harness.clock.now_ms / 1000,
        )

    @property
    def fragile(self) -> FragileStore:
        assert isinstance(self.store, FragileStore)
        return self.store

    def scan_after(self, ms: int) -> float:
        """Let time pass in small steps, with a scan after each."""
        pause_s = 0.0
        for _ in range(0, ms, 100):
            self.harness.sleep_ms(100)
            pause_s = self.reconciler.scan()
        return pause_s

    def claimed_in_quiet_times(self, **changes: str) -> Dispatch:
        """A task with a lease of 2 s, when nothing has been forgiven for a while."""
        self.scan_after(LEASE_MS)
        (dispatch,) = self.begin("a", **changes)
        self.claim(dispatch, lease_ms=LEASE_MS)
        self.sent.clear()
        return dispatch

    def test_a_lease_that_ran_out_begins_the_next_attempt(self) -> None:
        first = self.claimed_in_quiet_times()
        self.scan_after(LEASE_MS + 200)
        assert [(item.ref.task, item.ref.attempt) for item in self.sent] == [(first.ref.task, 2)]

    def test_a_task_that_keeps_dying_is_dead_after_three_attempts(self) -> None:
        self.claimed_in_quiet_times()
        for _ in range(2):
            self.scan_after(LEASE_MS + 200)
            self.claim(self.sent[-1], lease_ms=LEASE_MS)
        self.scan_after(LEASE_MS + 200)
        assert (self.status(), len(self.sent)) == (RunStatus.DEAD, 2)

    def test_a_task_whose_workers_live_and_are_not_heard_is_dead_after_ten_leases(self) -> None:
        self.claimed_in_quiet_times()
        for _ in range(SETTINGS.max_lost_leases - 1):
            self.scan_after(LEASE_MS + 200)
            assert self.status() is RunStatus.RUNNING
            held = self.claim(self.sent[-1], lease_ms=LEASE_MS)
            self.harness.sleep_ms(LEASE_MS + 1)
            self.reconciler.scan()
            assert not self.store.renew(held.ref, held.token, lease_ms=LEASE_MS).alive
        assert (self.status(), self.view().reason) == (RunStatus.DEAD, "a lost its lease 10 times")

    def test_no_lease_is_fenced_in_the_first_lease_of_a_scheduler(self) -> None:
        self.claimed_in_quiet_times()
        self.harness.sleep_ms(LEASE_MS + 1)
        self.reconciler = self.make()
        self.scan_after(LEASE_MS - 200)
        assert self.sent == []
        self.scan_after(400)
        assert len(self.sent) == 1

    def test_no_lease_is_fenced_in_the_first_lease_after_an_outage(self) -> None:
        self.claimed_in_quiet_times()
        self.fragile.is_away = True
        self.scan_after(LEASE_MS + 1000)
        self.fragile.is_away = False
        self.scan_after(LEASE_MS - 200)
        assert self.sent == []
        self.scan_after(400)
        assert len(self.sent) == 1

    def test_no_lease_is_fenced_in_the_first_lease_of_a_new_server(self) -> None:
        self.claimed_in_quiet_times()
        self.harness.sleep_ms(LEASE_MS + 1)
        self.server_id = "server 2"
        self.scan_after(LEASE_MS - 200)
        assert self.sent == []
        self.scan_after(400)
        assert len(self.sent) == 1

    def test_no_lease_is_fenced_in_the_first_lease_after_the_stores_clock_jumped(self) -> None:
        self.claimed_in_quiet_times()
        ours_ms = self.harness.clock.now_ms
        self.harness.sleep_ms(60_000)
        jumped_ms = self.harness.clock.now_ms - ours_ms
        self.reconciler._outage._monotonic_s = lambda: (self.harness.clock.now_ms - jumped_ms) / 1000
        self.scan_after(LEASE_MS - 200)
        assert self.sent == []
        self.scan_after(400)
        assert len(self.sent) == 1

    def test_a_retry_is_sent_when_it_is_due_and_not_before(self) -> None:
        (dispatch,) = self.begin("a")
        self.retry_later(self.claim(dispatch), delay_ms=1000)
        self.sent.clear()
        self.scan_after(900)
        assert self.sent == []
        assert self.scan_after(100) <= SETTINGS.scan_s
        assert [item.ref.attempt for item in self.sent] == [2]

    def test_the_next_look_is_not_later_than_the_next_moment(self) -> None:
        (dispatch,) = self.begin("a")
        self.scan_after(100)
        self.retry_later(self.claim(dispatch), delay_ms=50)
        assert self.reconciler.scan() == pytest.approx(0.05)

    def test_a_task_in_a_backlog_is_not_sent_again(self) -> None:
        self.begin("a")
        self.sent.clear()
        self.scan_after(20 * LEASE_MS)
        assert self.sent == []

    def test_a_lost_task_behind_a_short_backlog_is_sent_again_when_the_backlog_has_passed(self) -> None:
        self.begin("a")
        self.sent.clear()
        self.queues.lag = 700
        self.scan_after(LEASE_MS + 100)
        assert (self.queues.looks, self.sent) == (1, [])
        self.queues.is_empty = True
        self.scan_after(500)
        assert self.sent == []
        self.scan_after(300)
        assert len(self.sent) == 1

    def test_a_task_in_a_long_backlog_is_looked_at_once_a_lease(self) -> None:
        self.begin("a")
        self.queues.lag = 1
        self.scan_after(20 * LEASE_MS)
        soon = LEASE_MS // 500  # in its second lease a backlog may turn out to be short
        assert 18 <= self.queues.looks <= 19 + soon
        assert self.sent == []

    def test_a_lost_task_is_sent_again_with_growing_pauses(self) -> None:
        self.begin("a")
        self.sent.clear()
        self.queues.is_empty = True
        self.scan_after(20 * LEASE_MS)
        assert 3 <= len(self.sent) <= 5
        assert {item.ref.attempt for item in self.sent} == {1}

    def test_two_schedulers_send_a_lost_task_once(self) -> None:
        self.begin("a")
        self.sent.clear()
        self.queues.is_empty = True
        other = self.make()
        self.harness.sleep_ms(LEASE_MS + 100)
        both = [threading.Thread(target=scheduler.scan) for scheduler in (self.reconciler, other)]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
        assert len(self.sent) == 1

    def test_a_thread_that_cannot_be_reconciled_starves_no_other(self, caplog: pytest.LogCaptureFixture) -> None:
        self.claimed_in_quiet_times(run_id="bad", thread_id="bad")
        (dispatch,) = self.begin("a", run_id="good", thread_id="good")
        self.claim(dispatch, lease_ms=LEASE_MS)
        self.fragile.bad_thread = "bad"
        self.scan_after(20 * LEASE_MS)
        assert {item.ref.thread_id for item in self.sent} == {"good"}
        faults = [record for record in caplog.records if record.getMessage() == "the thread cannot be reconciled"]
        assert 3 <= len(faults) <= 6

    def test_a_thread_that_can_be_reconciled_again_goes_on(self) -> None:
        self.claimed_in_quiet_times(run_id="bad", thread_id="bad")
        self.fragile.bad_thread = "bad"
        self.scan_after(2 * LEASE_MS)
        self.fragile.bad_thread = ""
        self.scan_after(8 * LEASE_MS)
        assert {item.ref.thread_id for item in self.sent} == {"bad"}

    def test_a_scheduler_that_dies_between_writing_and_sending_is_made_up_for(self) -> None:
        self.claimed_in_quiet_times()

        def die(dispatches: Sequence[Dispatch]) -> None:
            if dispatches:
                raise SystemExit

        mortal = Reconciler(
            self.store, die, SETTINGS, monotonic_s=lambda: self.harness.clock.now_ms / 1000, queues=self.queues
        )
        mortal._outage._until_s = 0.0
        self.harness.sleep_ms(LEASE_MS + 100)
        with pytest.raises(SystemExit):
            mortal.scan()
        self.queues.is_empty = True
        self.scan_after(LEASE_MS + 500)
        assert [item.ref.attempt for item in self.sent] == [2]

    def test_what_a_scheduler_dies_with_is_another_ones_within_a_second(self) -> None:
        first = self.claimed_in_quiet_times()
        self.harness.sleep_ms(LEASE_MS + 100)
        assert self.store.due(10, 1000)  # and dies
        self.scan_after(900)
        assert self.sent == []
        self.scan_after(200)
        assert [(item.ref.task, item.ref.attempt) for item in self.sent] == [(first.ref.task, 2)]

    def test_what_needs_nothing_is_no_longer_due(self) -> None:
        (dispatch,) = self.begin("a")
        self.finish(self.claim(dispatch))
        self.scan_after(2 * LEASE_MS)
        assert self.store.due(10) == []
        ended_ms = self.view().ended_ms
        assert self.store.next_due_ms() == ended_ms + SETTINGS.thread_keep_s * 1000

    def look_after(self, ms: int) -> None:
        """Let time pass, and look twice: a reconciler that was away forgives what ran out meanwhile."""
        self.harness.sleep_ms(ms)
        self.reconciler.scan()
        self.reconciler.scan()

    def test_a_thread_at_rest_is_deleted_with_its_time_and_leaves_nothing(self) -> None:
        self.finish(self.start())
        self.look_after(2 * LEASE_MS)
        self.look_after(KEEP_MS - 3 * LEASE_MS)
        assert self.store.thread("t1") is not None
        self.look_after(2 * LEASE_MS)
        assert (self.store.thread("t1"), self.store.run("r1"), list(self.store.threads(limit=9))) == (None, None, [])
        assert self.store.next_due_ms() is None

    def test_a_thread_that_was_used_again_is_kept_as_long_again(self) -> None:
        self.finish(self.start())
        self.look_after(2 * LEASE_MS)
        self.harness.sleep_ms(KEEP_MS - 3 * LEASE_MS)
        self.finish(self.start("r2"))
        self.look_after(4 * LEASE_MS)
        assert self.store.thread("t1") is not None
        self.look_after(KEEP_MS)
        assert self.store.thread("t1") is None

    def test_a_run_that_waits_for_a_person_keeps_its_thread_for_ever(self) -> None:
        self.pause("a")
        self.look_after(2 * LEASE_MS)
        self.look_after(3 * KEEP_MS)
        assert self.status() is RunStatus.WAITING

    def test_old_checkpoints_go_as_the_settings_say(self) -> None:
        reconciler = Reconciler(
            self.store,
            self.sent.extend,
            SETTINGS.model_copy(update={"checkpoints_keep_last": 2}),
            monotonic_s=lambda: self.harness.clock.now_ms / 1000,
            queues=self.queues,
        )
        claim = self.start()
        for _ in range(5):
            claim = self.claim(self.advance(claim, "a").dispatch[0])
        self.finish(claim)
        self.harness.sleep_ms(2 * LEASE_MS)
        reconciler.scan()
        assert [point.version.number for point in self.store.checkpoints("t1", limit=9)] == [6, 5]

    def test_it_runs_until_it_is_told_to_stop_also_while_the_store_is_away(self) -> None:
        self.fragile.is_away = True
        stop = threading.Event()
        thread = threading.Thread(target=self.reconciler.run, args=(stop,))
        thread.start()
        assert thread.is_alive()
        stop.set()
        thread.join(5)
        assert not thread.is_alive()


def test_an_outage_is_forgotten_after_a_lease() -> None:
    now_s = 100.0
    outage = Outage(2.0, 500, lambda: now_s)
    outage.look("one", 1_000_000)
    now_s = 102.0
    outage.look("one", 1_002_000)
    assert not outage.is_recent
    outage.look("one", 1_002_400)
    assert not outage.is_recent
    outage.look("one", 1_003_000)
    assert outage.is_recent
    now_s = 104.5
    outage.look("two", 1_005_500)
    assert outage.is_recent


# -- on a real broker


class TestOnABroker(StoreMoves):
    """Tasks in memory, their messages on a real queue (the store's time is the test's)."""

    @pytest.fixture(autouse=True)
    def _install(self, valkey_server: Server) -> None:  # noqa: F811  # the fixture
        self.harness: MemoryHarness = MemoryHarness()
        url = f"redis://127.0.0.1:{valkey_server.port}/0"
        self.client = client_of(valkey_server.port)
        self.settings = SETTINGS.model_copy(update={"redis_url": url, "default_queue": f"q-{uuid.uuid4().hex[:8]}"})
        app = make_celery(self.settings, broker_url(self.settings))
        self.dispatch = CeleryDispatcher(lambda: app, self.settings, now_ms=self.store.now_ms)
        self.reconciler = Reconciler(
            self.store,
            self.dispatch,
            self.settings,
            queues=QueueView(app, self.settings),
            monotonic_s=lambda: self.harness.clock.now_ms / 1000,
        )

    @property
    def queue(self) -> str:
        return f"{self.settings.default_queue}\x06\x169"

    def backlog(self, threads: int) -> None:
        for number in range(threads):
            self.dispatch(self.admit(f"run {number}", f"thread {number}").dispatch)

    def scan_after(self, ms: int, step_ms: int = 500) -> None:
        for _ in range(0, ms, step_ms):
            self.harness.sleep_ms(step_ms)
            while self.reconciler.scan() < self.settings.scan_s / 2:
                pass

    def test_a_backlog_is_never_sent_again(self) -> None:
        self.backlog(1000)
        self.scan_after(10 * LEASE_MS)
        assert self.client.llen(self.queue) == 1000

    def test_an_emptied_broker_is_filled_again_once_each(self) -> None:
        self.backlog(250)
        self.client.delete(self.queue)
        self.scan_after(3 * LEASE_MS)
        assert self.client.llen(self.queue) == 250


def test_a_whole_scheduler_survives_its_servers_restart(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = EmbeddedValkey(tmp_path_factory.mktemp("server"))
    with running(server):
        monkeypatch.setenv("TENXGRAPH_REDIS_URL", f"redis://127.0.0.1:{server.port}/0")
        reconciler = make_reconciler(Settings.load(lease_s=0.5, heartbeat_s=0.1, scan_s=0.05))
        stop = threading.Event()
        thread = threading.Thread(target=reconciler.run, args=(stop,))
        thread.start()
        until(lambda: not reconciler._outage.is_recent)
        server.stop()
        until(lambda: reconciler._outage.is_recent)
        server.start()
        until(lambda: not reconciler._outage.is_recent)
        stop.set()
        thread.join(10)
        assert not thread.is_alive()


def until(is_true: Callable[[], bool], timeout_s: float = 20.0) -> None:
    """Poll until something holds."""
    deadline_s = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)

"""When a worker is said to stall."""

import json
import logging
import threading
import time
import uuid

import pytest

from tenxgraph.settings import Settings
from tenxgraph_scheduler.broker import broker_url, make_celery
from tenxgraph_worker.queue_heads import QueueHeads
from tenxgraph_worker.shutdown import Shutdown
from tenxgraph_worker.stall import LOOKS, Slots, StallWatch, patience_of
from tests.servers import Server, client_of, free_port, valkey_server  # noqa: F401  # a fixture comes by import


class Queue:
    """A queue's head, a slot and a clock; the watch looks when it is told to."""

    def __init__(self) -> None:
        self.heads: dict[str, bytes] | None = {"q": b"m1"}
        self.slots = Slots()
        self.now_s = 100.0
        self.ended = threading.Event()
        self.watch = StallWatch(
            lambda: self.heads, self.slots, Shutdown(5), self.ended.set, 10.0, monotonic_s=lambda: self.now_s
        )

    def looks(self, times: int) -> list[bool]:
        found = []
        for _ in range(times):
            found.append(self.watch.look())
            self.now_s += self.watch.pause_s
        return found


def test_a_worker_stalls_that_leaves_a_message_lying_while_a_slot_is_free() -> None:
    queue = Queue()
    assert queue.looks(LOOKS) == [False] * (LOOKS - 1) + [True]
    assert queue.now_s - 100 >= queue.watch.patience_s


def test_a_queue_that_moves_is_no_stall() -> None:
    queue = Queue()
    for number in range(20):
        queue.heads = {"q": b"m%d" % number}
        assert queue.looks(LOOKS - 1) == [False] * (LOOKS - 1)


def test_an_empty_queue_and_one_that_cannot_be_seen_are_no_stall() -> None:
    queue = Queue()
    queue.heads = {}
    assert not any(queue.looks(20))
    queue.heads = None
    assert not any(queue.looks(20))


def test_a_worker_that_is_busy_or_begins_something_does_not_stall() -> None:
    queue = Queue()
    queue.slots.begin()
    assert not any(queue.looks(20))
    queue.slots.end()
    for _ in range(5):
        assert not any(queue.looks(LOOKS - 1))
        queue.slots.begin()
        queue.slots.end()


def test_one_of_two_slots_in_use_leaves_one_free() -> None:
    queue = Queue()
    queue.slots.size = 2
    queue.slots.begin()
    assert any(queue.looks(LOOKS))


def test_a_worker_that_was_frozen_looks_anew() -> None:
    queue = Queue()
    queue.looks(LOOKS - 1)
    queue.now_s += 1_000
    assert queue.looks(LOOKS) == [False] * (LOOKS - 1) + [True]


def test_one_of_several_queues_that_stands_still_is_a_stall() -> None:
    queue = Queue()
    found = []
    for number in range(LOOKS):
        queue.heads = {"q": b"m%d" % number, "other": b"lies"}
        found += queue.looks(1)
    assert found[-1]


def test_a_stalled_worker_says_so_and_ends_once(caplog: pytest.LogCaptureFixture) -> None:
    queue = Queue()
    queue.watch.patience_s, queue.watch.monotonic_s = 0.04, time.monotonic
    with caplog.at_level(logging.CRITICAL):
        queue.watch.start()
        assert queue.ended.wait(10)
    assert "stalled: a slot is free" in caplog.text


def test_the_patience_is_never_shorter_than_a_lease() -> None:
    assert patience_of(Settings(lease_s=2, heartbeat_s=1, scan_s=0.1)) == 10
    assert patience_of(Settings(lease_s=40, heartbeat_s=1)) == 40
    assert patience_of(Settings(lease_s=15, heartbeat_s=1, scan_s=3)) == 30


# -- reading the queues


@pytest.fixture
def settings(valkey_server: Server) -> Settings:  # noqa: F811  # the fixture
    name = f"tg{uuid.uuid4().hex[:8]}"
    return Settings(redis_url=f"redis://127.0.0.1:{valkey_server.port}/0", default_queue=name)


def test_the_head_of_a_queue_is_the_message_that_is_taken_next(settings: Settings) -> None:
    app = make_celery(settings, broker_url(settings))
    heads = QueueHeads(app)
    assert heads() == {}
    for number in range(2):
        app.send_task("some.task", args=[number], priority=3)
    first = heads()
    assert first is not None
    assert list(first) == [f"{settings.default_queue}:3"]
    with client_of(int((settings.redis_url or "").split(":")[2].split("/")[0])) as client:
        taken = client.rpop(f"{settings.default_queue}\x06\x163")
        assert json.loads(taken or b"{}")["headers"]["argsrepr"] == "[0]"
    second = heads()
    assert second is not None
    assert second.keys() == first.keys()
    assert second != first


def test_a_broker_that_is_away_shows_nothing() -> None:
    settings = Settings(redis_url=f"redis://127.0.0.1:{free_port()}/0")
    app = make_celery(settings, broker_url(settings))
    assert QueueHeads(app)() is None

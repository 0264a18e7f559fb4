"""Messages of tasks on a real broker, and what its queues show."""

import json
import threading
import uuid
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from celery import Celery

from tenxgraph.core.state.image import ItemLog, StateImage, Version
from tenxgraph.engine.state_cache import StateCache
from tenxgraph.settings import Settings
from tenxgraph.store.base import Dispatch, Overdue, TaskRef
from tenxgraph.wire import TaskMessage
from tenxgraph_scheduler.broker import broker_url, make_celery
from tenxgraph_scheduler.dispatch import CeleryDispatcher
from tenxgraph_scheduler.message import image_bytes
from tenxgraph_scheduler.queue_view import QueueView
from tests.servers import Server, client_of, free_port, valkey_server  # noqa: F401  # fixtures come by import

NOW_MS = 1_800_000_000_000
VERSION = Version(3, "nonce")
IMAGE = StateImage(VERSION, {"total": b"3", "text": '"ü\\n"'.encode()}, {"notes": ItemLog([b'"a"', b'"b"'], 2)})


class Broker:
    """A queue of its own on a server, and what is needed to fill and read it."""

    def __init__(self, port: int) -> None:
        self.client = client_of(port)
        self.settings = Settings(redis_url=f"redis://127.0.0.1:{port}/0", default_queue=f"q-{uuid.uuid4().hex[:8]}")
        self.app = make_celery(self.settings, broker_url(self.settings))
        self.cache = StateCache()
        self.now_ms = NOW_MS
        self.dispatch = CeleryDispatcher(lambda: self.app, self.settings, now_ms=lambda: self.now_ms, cache=self.cache)

    def item(self, node: str = "work", *, priority: int = 0, queue: str = "", task: str = "0") -> Dispatch:
        ref = TaskRef("thread ü", "run-1", 4, task, 1)
        return Dispatch(ref, node, queue, priority, "graph", "f" * 64, VERSION)

    def lists(self) -> list[Any]:
        found: list[Any] = self.client.keys(f"{self.settings.default_queue}*")
        return sorted(found)

    def raw(self) -> list[Any]:
        """All messages, oldest first."""
        return [message for key in self.lists() for message in reversed(self.client.lrange(key, 0, -1))]

    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(message) for message in self.raw()]

    def kwargs(self) -> list[dict[str, Any]]:
        return [json.loads(b64decode(message["body"]))[1] for message in self.messages()]

    def close(self) -> None:
        self.dispatch.close()
        for key in self.lists():
            self.client.delete(key)
        self.client.close()


@pytest.fixture
def broker(valkey_server: Server) -> Iterator[Broker]:  # noqa: F811  # the fixture
    made = Broker(valkey_server.port)
    yield made
    made.close()


def send_theirs(app: Celery, name: str, settings: Settings) -> None:
    """Send a task as Celery's users do."""
    app.send_task(name, kwargs={}, queue=settings.default_queue, priority=9)


# -- messages


def test_a_message_says_what_to_run_and_reads_back_equal(broker: Broker) -> None:
    broker.dispatch([broker.item()])
    (kwargs,) = broker.kwargs()
    assert TaskMessage.from_kwargs(kwargs) == TaskMessage(
        "graph", "f" * 64, "thread ü", "run-1", 4, "0", 1, "work", state=None
    )


def test_flower_is_shown_the_node_and_short_arguments(broker: Broker) -> None:
    broker.dispatch([broker.item()])
    (message,) = broker.messages()
    headers = message["headers"]
    assert headers["task"] == "tenxgraph.step"
    assert headers["shadow"] == "graph/work"
    shown = {"thread_id": "thread ü", "run": "run-1", "step": 4, "node": "work", "attempt": 1}
    assert headers["kwargsrepr"] == repr(shown)
    assert headers["id"].rpartition(":")[0] == "graph:thread%20%C3%BC:4:work"
    assert headers["ignore_result"] is True
    assert headers["tg-dispatched"] == NOW_MS
    assert message["content-type"] == "application/json"


def test_a_message_has_the_fields_that_celery_gives_its_own(broker: Broker) -> None:
    broker.dispatch([broker.item()])
    send_theirs(broker.app, "tenxgraph.step", broker.settings)
    ours, theirs = broker.messages()
    assert ours.keys() == theirs.keys()
    assert ours["headers"].keys() - theirs["headers"].keys() == {"tg-dispatched"}
    assert ours["properties"].keys() == theirs["properties"].keys()


def test_a_message_without_state_stays_within_2_kb_with_names_of_60_characters(broker: Broker) -> None:
    ref = TaskRef("t" * 60, str(uuid.uuid4()), 10**6, "199", 12)
    broker.dispatch([Dispatch(ref, "n" * 60, "", 0, "g" * 60, "f" * 64, VERSION)])
    assert len(broker.raw()[0]) <= 2048


def test_a_small_state_travels_along_and_reads_back_equal(broker: Broker) -> None:
    broker.cache.put("thread ü", IMAGE)
    broker.dispatch([broker.item()])
    assert TaskMessage.from_kwargs(broker.kwargs()[0]).state == IMAGE


def test_a_state_travels_by_reference_when_all_tasks_together_exceed_the_limit(broker: Broker) -> None:
    size_bytes = image_bytes(IMAGE, 10**6)
    limit_bytes = broker.settings.inline_state_bytes
    many = limit_bytes // size_bytes
    broker.cache.put("thread ü", IMAGE)
    broker.dispatch([broker.item(task=str(number)) for number in range(many)])
    assert all("state" in kwargs for kwargs in broker.kwargs())
    broker.client.delete(*broker.lists())
    broker.dispatch([broker.item(task=str(number)) for number in range(many + 1)])
    assert not any("state" in kwargs for kwargs in broker.kwargs())


def test_a_state_of_another_version_does_not_travel(broker: Broker) -> None:
    broker.cache.put("thread ü", StateImage(Version(3, "another"), IMAGE.values, IMAGE.lists))
    broker.dispatch([broker.item()])
    assert "state" not in broker.kwargs()[0]


def test_a_message_of_a_later_format_still_names_its_attempt() -> None:
    sent = TaskMessage("g", "v", "t", "r", 1, "0", 2, "n", IMAGE)
    read = TaskMessage.from_kwargs({**sent.to_kwargs(), "format": 99, "state": "of another shape"})
    assert not read.is_readable
    assert (read.thread_id, read.run_id, read.step, read.task, read.attempt) == ("t", "r", 1, "0", 2)


# -- queues


def test_a_node_goes_to_its_own_queue_and_others_to_the_default(broker: Broker) -> None:
    own = f"{broker.settings.default_queue}-gpu"
    broker.dispatch([broker.item(queue=own), broker.item()])
    assert {key.decode().partition("\x06")[0] for key in broker.lists()} == {own, broker.settings.default_queue}


def test_higher_priorities_are_served_first(broker: Broker) -> None:
    for priority in (0, 9, 4):
        broker.dispatch([broker.item(f"p{priority}", priority=priority)])
    with broker.app.connection_for_read() as connection:
        simple = connection.SimpleQueue(broker.settings.default_queue)
        order = [simple.get(timeout=5).headers["shadow"] for _ in range(3)]
        simple.close()
    assert order == ["graph/p9", "graph/p4", "graph/p0"]


def test_many_threads_dispatch_at_once(broker: Broker) -> None:
    def send(number: int) -> None:
        broker.dispatch([broker.item(f"n{number}"), broker.item(f"m{number}")])

    threads = [threading.Thread(target=send, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({message["headers"]["shadow"] for message in broker.messages()}) == 100


def test_a_broker_that_is_away_costs_a_log_line_and_no_error(caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(redis_url=f"redis://127.0.0.1:{free_port()}/0")
    dispatch = CeleryDispatcher(lambda: make_celery(settings, broker_url(settings)), settings, now_ms=lambda: NOW_MS)
    dispatch([Dispatch(TaskRef("t", "r", 1, "0", 1), "n", "", 0, "g", "v", VERSION)])
    dispatch.close()
    assert "did not reach the broker" in caplog.text


def test_closing_leaves_a_users_own_app_on_the_same_broker_alone(broker: Broker) -> None:
    own = Celery("own", broker=broker.settings.redis_url, set_as_current=False)
    send_theirs(own, "theirs", broker.settings)
    broker.dispatch([broker.item()])
    broker.dispatch.close()
    send_theirs(own, "theirs", broker.settings)
    broker.dispatch([broker.item()])
    assert len(broker.messages()) == 4


# -- what a queue shows


def overdue(broker: Broker, dispatched_ms: int = NOW_MS, **item: Any) -> Overdue:
    return Overdue(broker.item(**item), dispatched_ms)


def view(broker: Broker) -> QueueView:
    return QueueView(broker.app, broker.settings)


def test_a_task_is_lost_when_its_queue_is_empty(broker: Broker) -> None:
    assert view(broker).is_lost(overdue(broker))


def test_a_task_is_not_lost_while_its_queue_serves_older_ones(broker: Broker) -> None:
    broker.now_ms = NOW_MS - 60_000
    broker.dispatch([broker.item()])
    broker.now_ms = NOW_MS + 60_000
    broker.dispatch([broker.item()])
    assert not view(broker).is_lost(overdue(broker))


def test_a_task_that_is_the_oldest_itself_is_not_lost(broker: Broker) -> None:
    broker.now_ms = NOW_MS + 20
    broker.dispatch([broker.item()])
    assert not view(broker).is_lost(overdue(broker))
    assert view(broker).lag_ms(overdue(broker)) == 980


def test_an_empty_queue_has_no_lag(broker: Broker) -> None:
    assert view(broker).lag_ms(overdue(broker)) is None


def test_a_task_is_lost_when_its_queue_serves_younger_ones(broker: Broker) -> None:
    broker.now_ms = NOW_MS + 60_000
    broker.dispatch([broker.item()])
    assert view(broker).is_lost(overdue(broker))


def test_each_priority_is_a_line_of_its_own(broker: Broker) -> None:
    broker.now_ms = NOW_MS - 60_000
    broker.dispatch([broker.item(priority=9)])
    assert not view(broker).is_lost(overdue(broker, priority=9))
    assert view(broker).is_lost(overdue(broker, priority=0))


def test_tasks_of_other_kinds_in_the_queue_do_not_hide_ours(broker: Broker) -> None:
    own = Celery("own", broker=broker.settings.redis_url, set_as_current=False)
    send_theirs(own, "theirs", broker.settings)
    assert view(broker).is_lost(overdue(broker))
    broker.dispatch([broker.item()])
    assert not view(broker).is_lost(overdue(broker))


def test_a_key_prefix_of_the_broker_is_looked_behind(broker: Broker) -> None:
    options = {**broker.app.conf.broker_transport_options, "global_keyprefix": "some:"}
    broker.app.conf.broker_transport_options = options
    broker.dispatch([broker.item()])
    assert broker.client.keys(f"some:{broker.settings.default_queue}*")
    assert not view(broker).is_lost(overdue(broker))
    broker.client.delete(*broker.client.keys(f"some:{broker.settings.default_queue}*"))


def test_resends_of_one_scan_are_bounded(broker: Broker) -> None:
    queues = view(broker)
    assert sum(queues.is_lost(overdue(broker)) for _ in range(5000)) == 100
    queues.begin_scan()
    assert queues.is_lost(overdue(broker))


def test_a_queue_is_read_once_a_scan(broker: Broker) -> None:
    queues = view(broker)
    queues.is_lost(overdue(broker))
    before = commands(broker.client)
    for _ in range(50):
        queues.is_lost(overdue(broker))
    assert commands(broker.client) == before
    queues.begin_scan()
    queues.is_lost(overdue(broker))
    assert commands(broker.client) == before + 1


def commands(client: redis.Redis) -> int:
    """How often lists were read so far."""
    return int(client.info("commandstats").get("cmdstat_lrange", {"calls": 0})["calls"])


def test_a_broker_that_cannot_be_read_loses_nothing() -> None:
    settings = Settings(redis_url=f"redis://127.0.0.1:{free_port()}/0")
    queues = QueueView(make_celery(settings, broker_url(settings)), settings)
    ref = TaskRef("t", "r", 1, "0", 1)
    late = Overdue(Dispatch(ref, "n", "", 0, "g", "v", VERSION), NOW_MS)
    assert not queues.is_lost(late)
    assert queues.lag_ms(late) is None


# -- URLs


@pytest.mark.parametrize(
    ("store", "broker_of_kombu"),
    [
        ("redis://:p%40ss@host:6380/2", "redis://:p%40ss@host:6380/2"),
        ("unix:///run/redis.sock?db=3", "redis+socket:///run/redis.sock?virtual_host=3"),
        ("rediss://host:6380/0", "rediss://host:6380/0?ssl_cert_reqs=required"),
        ("rediss://host:6380/0?ssl_cert_reqs=none", "rediss://host:6380/0?ssl_cert_reqs=none"),
    ],
)
def test_the_stores_url_is_spelled_as_kombu_wants_it(store: str, broker_of_kombu: str) -> None:
    assert broker_url(Settings(redis_url=store)) == broker_of_kombu

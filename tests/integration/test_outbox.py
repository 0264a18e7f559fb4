"""Messages that are made ahead: equal to what kombu sends, and put on their queues by the store's own scripts."""

import json
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from celery import signals

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.image import Patch, Version
from tenxgraph.engine.prepare import starting, upcoming
from tenxgraph.settings import Settings
from tenxgraph.store.base import (
    AdmissionOutcome,
    Advance,
    Claim,
    Dispatch,
    InputKind,
    QueueMessage,
    TaskRef,
    TaskSpec,
)
from tenxgraph.store.redis import RedisStore
from tenxgraph.testing.contract.harness import a_run
from tenxgraph_scheduler.broker import broker_url, make_celery
from tenxgraph_scheduler.dispatch import CeleryDispatcher
from tenxgraph_scheduler.publisher import Publisher
from tests.integration.test_dispatch import IMAGE, NOW_MS, VERSION, Broker
from tests.servers import Server, client_of, valkey_server  # noqa: F401  # fixtures come by import

LEASE_MS = 60_000
NAMES = ("id", "root_id", "correlation_id", "delivery_tag")


@pytest.fixture
def broker(valkey_server: Server) -> Iterator[Broker]:  # noqa: F811  # the fixture
    made = Broker(valkey_server.port)
    yield made
    made.close()


def dispatcher(broker: Broker, **changes: Any) -> CeleryDispatcher:
    given = {"now_ms": lambda: NOW_MS, "cache": broker.cache, "store_url": broker.settings.redis_url, **changes}
    return CeleryDispatcher(lambda: broker.app, broker.settings, **given)


def unnamed(payload: str | bytes) -> dict[str, Any]:
    """A message without what is made anew for each."""
    message: dict[str, Any] = json.loads(payload)
    for part in (message["headers"], message["properties"]):
        for name in NAMES:
            assert part.pop(name, name)
    message["body"] = json.loads(b64decode(message["body"]))
    return message


def sent(broker: Broker, item: Dispatch) -> tuple[str, dict[str, Any]]:
    """Publish, and take from the server what has come."""
    dispatcher(broker)([item])
    (key,) = [key for key in broker.client.keys("*") if broker.settings.default_queue.encode() in key]
    payload = broker.client.lpop(key)
    assert isinstance(payload, bytes)
    return key.decode() if isinstance(key, bytes) else key, unnamed(payload)


# -- made


@pytest.mark.parametrize("priority", range(10))
@pytest.mark.parametrize("own_queue", [False, True])
@pytest.mark.parametrize("has_state", [False, True])
def test_a_message_made_ahead_is_what_kombu_would_have_sent(
    broker: Broker, priority: int, own_queue: bool, has_state: bool
) -> None:
    if has_state:
        broker.cache.put("thread ü", IMAGE)
    queue = f"{broker.settings.default_queue}-own" if own_queue else ""
    made_by = dispatcher(broker)
    for node, task in (("first", "0"), ('wörk "q"', "1")):
        for _ in range(2):  # the second one comes from the form that the first one left
            item = broker.item(node, priority=priority, queue=queue, task=task)
            (message,) = made_by.prepare([item], IMAGE if has_state else None)
            key, published = sent(broker, item)
            assert (message.key, unnamed(message.payload)) == (key, published)


@pytest.mark.parametrize(
    "options",
    [
        {"global_keyprefix": "some:"},
        {"queue_order_strategy": "priority"},
        {"priority_steps": [0, 2, 4, 8], "sep": ":"},
        {"priority_steps": list(range(10)), "global_keyprefix": "a{b}"},
    ],
)
def test_so_it_is_under_any_options_of_the_broker(broker: Broker, options: dict[str, Any]) -> None:
    broker.app.conf.broker_transport_options = {**broker.app.conf.broker_transport_options, **options}
    for priority in range(10):
        (message,) = dispatcher(broker).prepare([broker.item(priority=priority)], None)
        assert (message.key, unnamed(message.payload)) == sent(broker, broker.item(priority=priority))


def test_each_message_has_a_name_and_a_tag_of_its_own(broker: Broker) -> None:
    made = dispatcher(broker).prepare([broker.item(task=str(number)) for number in range(3)], None)
    messages = [json.loads(message.payload) for message in made]
    assert len({message["headers"]["id"] for message in messages}) == 3
    assert len({message["properties"]["delivery_tag"] for message in messages}) == 3
    for message in messages:
        assert message["headers"]["id"] == message["headers"]["root_id"] == message["properties"]["correlation_id"]


def test_a_message_made_in_a_task_names_its_kin_as_kombu_would(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Publisher, "kin", lambda _: ("the root", "the parent"))
    (message,) = dispatcher(broker).prepare([broker.item()], None)
    headers = json.loads(message.payload)["headers"]
    assert (headers["root_id"], headers["parent_id"]) == ("the root", "the parent")
    dispatcher(broker)([broker.item()])
    (published,) = broker.messages()
    assert (published["headers"]["root_id"], published["headers"]["parent_id"]) == ("the root", "the parent")


def test_kombu_takes_a_message_made_ahead_off_its_queue(broker: Broker) -> None:
    (message,) = dispatcher(broker).prepare([broker.item(priority=3)], None)
    broker.client.lpush(message.key, message.payload)
    with broker.app.connection_for_read() as connection:
        simple = connection.SimpleQueue(broker.settings.default_queue)
        got = simple.get(timeout=5)
        got.ack()
        simple.close()
    assert got.headers["shadow"] == "graph/work"
    assert got.payload[1]["thread_id"] == "thread ü"


def test_making_a_message_asks_the_broker_nothing(broker: Broker) -> None:
    before = broker.client.info("stats")["total_commands_processed"]
    assert dispatcher(broker).prepare([broker.item()], None)
    assert broker.client.info("stats")["total_commands_processed"] == before + 1


@pytest.mark.parametrize(
    "elsewhere",
    [
        "redis://127.0.0.1:{port}/1",
        "redis://localhost.localdomain:{port}/0",
        "redis://127.0.0.1:1/0",
        "redis://user:pw@127.0.0.1:{port}/0",
        "redis://:pw@127.0.0.1:{port}/0",
        "rediss://127.0.0.1:{port}/0",
        "unix:///tmp/redis.sock",
        "sentinel://127.0.0.1:{port}/main",
        None,
    ],
)
def test_where_the_broker_is_not_the_very_store_nothing_is_made(
    broker: Broker,
    elsewhere: str | None,
) -> None:
    port = broker.client.connection_pool.connection_kwargs["port"]
    store_url = elsewhere and elsewhere.format(port=port)
    assert dispatcher(broker, store_url=store_url).prepare([broker.item()], None) == ()


@pytest.mark.parametrize("url", ["redis://u:p@h:7/2", "redis://h", "rediss://h:1/0", "unix:///run/r.sock?db=3"])
def test_the_same_url_is_the_same_place_in_the_spelling_of_kombu(url: str) -> None:
    settings = Settings(redis_url=url)
    dispatch = CeleryDispatcher(
        lambda: make_celery(settings, broker_url(settings)), settings, now_ms=lambda: NOW_MS, store_url=url
    )
    item = Dispatch(TaskRef("t", "r", 1, "0", 1), "n", "", 0, "g", "v", VERSION)
    assert len(dispatch.prepare([item], None)) == 1


@pytest.mark.parametrize("change", [{"task_compression": "zlib"}, {"task_send_sent_event": True}])
def test_a_message_that_is_sent_in_another_way_is_not_made(broker: Broker, change: dict[str, Any]) -> None:
    broker.app.conf.update(change)
    assert dispatcher(broker).prepare([broker.item()], None) == ()


def test_a_message_that_somebody_wants_to_see_first_is_not_made(broker: Broker) -> None:
    def look(**_: Any) -> None: ...

    made_by = dispatcher(broker)
    signals.before_task_publish.connect(look)
    try:
        assert made_by.prepare([broker.item()], None) == ()
    finally:
        signals.before_task_publish.disconnect(look)
    assert made_by.prepare([broker.item()], None)


# -- put on their queues


class Posts:
    """A store that is the broker too."""

    def __init__(self, port: int) -> None:
        self.client = client_of(port)
        self.client.flushdb()
        self.store = RedisStore(self.client)

    def begin(self, run_id: str = "r1", **changes: Any) -> Claim:
        run = a_run(run_id, **changes)
        self.store.admit(run)
        return self.claim(TaskRef(run.thread_id, run_id, 0, "plan", 1))

    def claim(self, ref: TaskRef) -> Claim:
        claim = self.store.claim(ref, f"n-{ref.step}", worker="w", lease_ms=LEASE_MS, known=None, events=b"")
        assert isinstance(claim, Claim)
        return claim

    def step(self, claim: Claim, *queues: str, **changes: Any) -> Advance:
        tasks = tuple(TaskSpec(str(number), "node", queue) for number, queue in enumerate(queues))
        step = Advance(
            claim.image.version, "nonce", Patch({"x": b"1"}), claim.ref.step + 1, RunStatus.RUNNING, tasks=tasks
        )
        messages = tuple(QueueMessage(task.queue, f"m{task.task}") for task in tasks)
        return replace(step, **{"messages": messages, **changes})

    def queue(self, name: str) -> list[str]:
        return [bytes(payload).decode() for payload in reversed(list[Any](self.client.lrange(name, 0, -1)))]


@pytest.fixture
def posts(valkey_server: Server) -> Iterator[Posts]:  # noqa: F811  # the fixture
    made = Posts(valkey_server.port)
    yield made
    made.client.close()


def test_an_advance_puts_its_messages_on_their_queues_and_leaves_none_to_dispatch(posts: Posts) -> None:
    claim = posts.begin()
    answer = posts.store.advance(claim.ref, claim.token, posts.step(claim, "a", "b", "a"))
    assert (answer.accepted, answer.dispatch) == (True, ())
    assert (posts.queue("a"), posts.queue("b")) == (["m0", "m2"], ["m1"])
    assert posts.claim(TaskRef("t1", "r1", 1, "2", 1)).spec.queue == "a"


def test_a_repeated_advance_puts_nothing_twice_and_is_answered_the_same(posts: Posts) -> None:
    claim = posts.begin()
    step = posts.step(claim, "a")
    first, second = (posts.store.advance(claim.ref, claim.token, step) for _ in range(2))
    assert first == second
    assert posts.queue("a") == ["m0"]


def test_a_wide_step_puts_all_its_messages(posts: Posts) -> None:
    claim = posts.begin()
    posts.store.advance(claim.ref, claim.token, posts.step(claim, *["a"] * 2500))
    assert posts.queue("a") == [f"m{number}" for number in range(2500)]


def test_a_fenced_advance_puts_nothing(posts: Posts) -> None:
    claim = posts.begin()
    assert not posts.store.advance(claim.ref, "another", posts.step(claim, "a")).accepted
    moved = posts.step(claim, "a", base=Version(7, "other"))
    assert not posts.store.advance(claim.ref, claim.token, moved).accepted
    assert posts.queue("a") == []


def test_a_stopped_run_puts_nothing_and_the_next_one_is_dispatched(posts: Posts) -> None:
    claim = posts.begin()
    posts.store.admit(a_run("r2"))
    posts.store.stop("t1", "r1", events=b"")
    answer = posts.store.advance(claim.ref, claim.token, posts.step(claim, "a"))
    assert (answer.status, [item.ref.run_id for item in answer.dispatch]) == (RunStatus.STOPPED, ["r2"])
    assert posts.queue("a") == []


def test_an_end_puts_nothing(posts: Posts) -> None:
    claim = posts.begin()
    step = posts.step(claim, "a", status=RunStatus.COMPLETED, tasks=())
    assert posts.store.advance(claim.ref, claim.token, step).status is RunStatus.COMPLETED
    assert posts.queue("a") == []


def test_a_queue_that_is_no_list_is_left_to_the_publisher_and_holds_up_no_step(posts: Posts) -> None:
    posts.client.set("a", "text")
    claim = posts.begin()
    step = posts.step(claim, "a", "b")
    first, second = (posts.store.advance(claim.ref, claim.token, step) for _ in range(2))
    assert [item.ref.task for item in first.dispatch] == ["0", "1"]
    assert first == second
    assert posts.queue("b") == []


def test_an_admission_puts_the_message_of_a_run_that_starts(posts: Posts) -> None:
    run = a_run(messages=(QueueMessage("a", "start"),))
    first, second = (posts.store.admit(run) for _ in range(2))
    assert (first.outcome, second.outcome) == (AdmissionOutcome.STARTED, AdmissionOutcome.KNOWN)
    assert (first.dispatch, second.dispatch) == ((), ())
    assert posts.queue("a") == ["start"]


def test_an_admission_that_starts_nothing_puts_nothing(posts: Posts) -> None:
    message = (QueueMessage("a", "start"),)
    posts.begin()
    assert posts.store.admit(a_run("r2", messages=message)).outcome is AdmissionOutcome.QUEUED
    assert posts.store.admit(a_run("r3", messages=message, strategy="reject")).outcome is AdmissionOutcome.BUSY
    posts.store.admit(a_run("r4", thread_id="t2", messages=message, delay_ms=LEASE_MS))
    posts.store.admit(a_run("r5", thread_id="t3", kind=InputKind.CONTINUE, messages=message))
    assert posts.queue("a") == []


def test_what_is_prepared_is_what_would_be_dispatched(posts: Posts) -> None:
    run = a_run()
    assert list(posts.store.admit(run).dispatch) == starting(run)
    claim = posts.claim(TaskRef("t1", "r1", 0, "plan", 1))
    step = posts.step(claim, "a", "b", messages=())
    assert list(posts.store.advance(claim.ref, claim.token, step).dispatch) == upcoming(claim.run, step)

"""What a worker process does with messages, without Celery's worker: the test takes them off a real queue itself."""

import json
import random
import uuid
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from tenxgraph.core.graph import RunStatus, StateGraph
from tenxgraph.core.state import Message
from tenxgraph.executor import InProcessExecutor
from tenxgraph.settings import Settings
from tenxgraph.wire import TaskMessage
from tenxgraph_scheduler.broker import broker_url, make_celery
from tenxgraph_scheduler.executor import DistributedExecutor
from tenxgraph_worker.graphs import GraphSet
from tenxgraph_worker.node_process import NodeProcess
from tests.acceptance import graphs
from tests.servers import Server, client_of, valkey_server  # noqa: F401  # a fixture comes by import

HELLO = {"messages": [Message.text_message("hello", message_id="m1")]}


class Installation:
    """A store, a queue, and as many worker processes as a test makes; all in this process."""

    def __init__(self, port: int) -> None:
        name = f"tg{uuid.uuid4().hex[:8]}"
        self.client = client_of(port)
        self.settings = Settings(redis_url=f"redis://127.0.0.1:{port}/0", key_prefix=name, default_queue=name)
        self.app = make_celery(self.settings, broker_url(self.settings))

    def worker(self, *served: StateGraph[Any]) -> NodeProcess:
        return NodeProcess(self.app, self.settings, GraphSet(served, self.settings), "test")

    def executor(self, graph: StateGraph[Any]) -> DistributedExecutor[Any]:
        return DistributedExecutor(graph.define(), settings=self.settings)

    def take(self) -> bytes | None:
        taken: Any = self.client.rpop(f"{self.settings.default_queue}\x06\x169")
        return None if taken is None else bytes(taken)


@pytest.fixture
def installed(valkey_server: Server) -> Iterator[Installation]:  # noqa: F811  # the fixture
    made = Installation(valkey_server.port)
    yield made
    made.client.close()


def body(raw: bytes) -> dict[str, Any]:
    kwargs: dict[str, Any] = json.loads(b64decode(json.loads(raw)["body"]))[1]
    return kwargs


def read(raw: bytes) -> TaskMessage:
    return TaskMessage.from_kwargs(body(raw))


def test_a_graph_of_100_nodes_sends_messages_of_2_kb_and_the_inline_state(installed: Installation) -> None:
    executor, worker = installed.executor(graphs.hundred), installed.worker(graphs.hundred)
    run = executor.submit(HELLO, {"thread_id": "a", "recursion_limit": 100})
    taken = 0
    with_state = 0
    while raw := installed.take():
        taken += 1
        state = body(raw).get("state")
        with_state += state is not None
        state_bytes = len(b64encode(json.dumps(state).encode())) if state else 0
        assert len(raw) <= 2048 + state_bytes
        worker.perform(read(raw))
    assert (taken, with_state) == (100, 99)  # the start goes with the first node's
    assert executor.result(run.run_id, "full")["state"].total == 100


@pytest.mark.parametrize("seed", range(5))
def test_doubled_and_shuffled_deliveries_change_nothing(installed: Installation, seed: int) -> None:
    chance = random.Random(seed)
    for graph in (graphs.chain, graphs.fan, graphs.sends):
        executor, workers = installed.executor(graph), [installed.worker(graph) for _ in range(2)]
        run = executor.submit(HELLO, {"thread_id": f"{graph.name}-{seed}"})
        pending: list[bytes] = []
        delivered = 0
        while (raw := installed.take()) or pending:
            pending += [raw, raw] if raw else []
            if raw and chance.random() < 0.5:
                continue
            chance.shuffle(pending)
            chance.choice(workers).perform(read(pending.pop()))
            delivered += 1
        oracle = InProcessExecutor(graph.define(), settings=installed.settings)
        expected = oracle.submit(HELLO, {"thread_id": "a"})
        list(oracle.follow(expected, granularity="low", timeout_s=30))
        state, wanted = (of.result(it.run_id, "full")["state"] for of, it in ((executor, run), (oracle, expected)))
        assert (state.notes, state.total) == (wanted.notes, wanted.total)
        assert delivered > 0


def test_an_inline_state_saves_the_store_from_sending_it(installed: Installation) -> None:
    sent = {}
    for how, limit_bytes in (("inline", 100_000), ("by reference", 0)):
        installed.settings = installed.settings.model_copy(update={"inline_state_bytes": limit_bytes})
        installed.executor(graphs.chain).submit({"messages": [Message.text_message("x" * 50_000)]}, {"thread_id": how})
        raw = installed.take()
        assert raw is not None
        installed.worker(graphs.chain).perform(read(raw))
        raw = installed.take()
        assert raw is not None
        newcomer = installed.worker(graphs.chain)
        before = installed.client.info("stats")["total_net_output_bytes"]
        assert newcomer.perform(read(raw)) == {"outcome": "advanced"}
        sent[how] = installed.client.info("stats")["total_net_output_bytes"] - before
    assert sent["by reference"] > 50_000
    assert sent["inline"] < 15_000


def test_a_stale_inline_state_is_not_believed(installed: Installation) -> None:
    executor, worker = installed.executor(graphs.long_chain), installed.worker(graphs.long_chain)
    run = executor.submit(HELLO, {"thread_id": "a"})
    messages = []
    while raw := installed.take():
        message = read(raw)
        messages.append(message)
        first_state = next((known.state for known in messages if known.state is not None), None)
        fresh = installed.worker(graphs.long_chain) if len(messages) == 10 else worker
        stale = TaskMessage(**{name: getattr(message, name) for name in NAMING}, state=first_state)
        fresh.perform(stale)
    assert executor.result(run.run_id, "full")["state"].notes == [f"n{number}" for number in range(20)]


NAMING = ("graph", "graph_version", "thread_id", "run_id", "step", "task", "attempt", "node")


@pytest.mark.parametrize("what", ["another graph", "another version", "another format"])
def test_what_a_worker_does_not_know_it_gives_back(installed: Installation, what: str) -> None:
    executor = installed.executor(graphs.chain)
    run = executor.submit(HELLO, {"thread_id": "a"})
    raw = installed.take()
    assert raw is not None
    other = graphs.chain_of(4, "chain") if what == "another version" else graphs.fan
    worker = installed.worker(graphs.chain if what == "another format" else other)
    kwargs = {**body(raw), **({"format": 99} if what == "another format" else {})}
    given = worker.perform(TaskMessage.from_kwargs(kwargs))
    assert given == {"outcome": "given back", "reason": "waiting_for_version"}
    view = executor.store.run(run.run_id)
    assert view is not None
    assert (view.status, view.reason) == (RunStatus.QUEUED, "waiting_for_version")
    assert worker.perform(TaskMessage.from_kwargs(kwargs))["outcome"] == "given back"


def test_a_message_of_a_run_that_is_over_is_refused_without_a_word(installed: Installation) -> None:
    executor, worker = installed.executor(graphs.chain), installed.worker(graphs.chain)
    executor.submit(HELLO, {"thread_id": "a"})
    messages = []
    while raw := installed.take():
        messages.append(read(raw))
        worker.perform(messages[-1])
    assert [worker.perform(message) for message in messages] == [{"outcome": "refused"}] * 3

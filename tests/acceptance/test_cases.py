"""The cases of the fault catalogue that the workers must pass, under their letters."""

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
import redis

from tenxgraph.core.exceptions import NodeError
from tenxgraph.core.graph import CompiledGraph, RunStatus, StateGraph
from tenxgraph.core.state import Message
from tenxgraph.settings import Settings
from tenxgraph.store.memory import MemoryStore
from tenxgraph.store.redis import RedisStore, redis_store
from tenxgraph.testing.oracle import CaseCall, GraphCase, run_case
from tenxgraph_worker import make_app
from tenxgraph_worker.node_process import _GIVE_BACK_PAUSE_MS
from tests.acceptance import case_graphs, graphs
from tests.acceptance.shuffling import COPIES, served_queue, start_shuffler, tally
from tests.acceptance.workers import Deployment, Process, wait_until
from tests.graphs.suite import CASES
from tests.graphs.tools import say
from tests.servers import EmbeddedValkey, running

pytestmark = pytest.mark.timeout(180)

HELLO: Final = {"messages": [Message.text_message("Hi", message_id="m1")]}

_WORKER = "import sys; from tests.acceptance.test_cases import serve; serve(sys.argv[1].split(','), sys.argv[2:])"


def serve(names: list[str], options: list[str]) -> None:
    """Be a worker of graphs by their names, in case_graphs, graphs or the suite."""
    make_app(Settings.load(), map(_graph, names)).worker_main(["worker", *options])


def _graph(name: str) -> StateGraph[Any] | CompiledGraph[Any]:
    if name in CASES:
        return CASES[name].compile()
    found = getattr(case_graphs, name, None) or getattr(graphs, name)
    built: StateGraph[Any] = found if isinstance(found, StateGraph) else found()
    return built


def start_worker(
    deployment: Deployment, *names: str, pool: str = "threads", concurrency: int = 4, queue: str = ""
) -> Process:
    """Start a worker of graphs by their names; return when it serves."""
    number = len(deployment.processes)
    flags = f"-P {pool} -c {concurrency} -n w{number}-{deployment.queue}@localhost -l INFO --without-gossip"
    queues = f"--without-mingle -Q {queue or deployment.queue}"
    worker = deployment.start("worker", _WORKER, ",".join(names), *flags.split(), *queues.split())
    worker.wait_for_log(" ready.")
    return worker


def start_disturbed(deployment: Deployment, *names: str, concurrency: int = 8) -> list[Process]:
    """Start two workers, a scheduler, and what doubles and shuffles every message between them."""
    # Leases that a busy machine does not let end: who runs twice was killed.
    deployment.settings |= {"LEASE_S": "5", "HEARTBEAT_S": "0.5"}
    start_shuffler(deployment, seed=6)
    deployment.start_scheduler()
    queue = served_queue(deployment)
    return [start_worker(deployment, *names, concurrency=concurrency, queue=queue) for _ in range(2)]


@pytest.fixture
def store(deployment: Deployment) -> RedisStore:
    """The installation's store."""
    return redis_store(deployment.settings["REDIS_URL"], Settings.load())


# -- F


def _many(**config: Any) -> GraphCase:
    lines = [*(f"part {part}" for part in range(case_graphs.BRANCHES)), f"{case_graphs.BRANCHES} parts"]
    steps = [["split"], ["work"] * case_graphs.BRANCHES, ["join"]]
    return GraphCase("many", case_graphs.many, [CaseCall(say(), config)], steps, {"lines": lines})


def test_case_f_200_sends_doubled_and_a_worker_killed_end_as_in_one_process(deployment: Deployment) -> None:
    oracle = run_case(_many(quick=True), _many().compile(checkpointer=MemoryStore()))
    victim, _ = start_disturbed(deployment, "many")
    case = _many()
    with ThreadPoolExecutor(1) as pool:
        running_case = pool.submit(run_case, case, case.compile())
        wait_until(lambda: len(deployment.ledger) > case_graphs.BRANCHES / 4, "a quarter of the branches began")
        wait_until(lambda: deployment.ledger[-1][-1] == str(victim.pid), "the victim has just begun one")
        victim.kill()
        trace = running_case.result()
    assert trace.states == oracle.states, "rebuilt from the checkpoints"
    assert trace.outcomes == oracle.outcomes
    began = [part for _, part, _ in deployment.ledger]
    assert case_graphs.BRANCHES < len(began) <= case_graphs.BRANCHES + 8, "only what was killed ran again"
    assert tally(deployment)["handed on"] >= COPIES * case_graphs.BRANCHES


def test_case_f_two_sends_that_write_a_field_without_reducer_are_named_both(deployment: Deployment) -> None:
    start_disturbed(deployment, "many")
    with pytest.raises(NodeError, match=r"'work \(task 0\)' and 'work \(task 1\)' of one step wrote Work\.single"):
        case_graphs.many().compile().invoke(HELLO, {"clash": True, "quick": True})


# -- c, d


def test_case_c_a_branch_delivered_twice_joins_once(deployment: Deployment) -> None:
    start_disturbed(deployment, "fan_out_2")
    app = CASES["fan_out_2"].compile()
    for number in range(10):
        app.invoke(HELLO, {"thread_id": f"T{number}"})
        state = app.get_state({"thread_id": f"T{number}"})
        assert (state.state.log, state.checkpoint) == (["split", "n0", "n1", "join"], 4)


def test_case_d_sixteen_branches_append_to_one_list_fifty_times_the_same(deployment: Deployment) -> None:
    start_disturbed(deployment, "appenders")
    app = case_graphs.appenders().compile()
    handles = [app.submit(HELLO, {"thread_id": f"T{number}"}) for number in range(50)]
    in_order = [f"b{number}" for number in range(case_graphs.APPENDERS)]
    for handle in handles:
        state = handle.result(timeout_s=90, response_granularity="full")["state"]
        assert state.lines == [*in_order, "join"]
        assert [message.text() for message in state.context] == ["Hi", *in_order]


# -- K


def test_case_k_500_steps_of_2_kb_store_little_more_than_they_say_and_a_deletion_leaves_no_key(
    deployment: Deployment, store: RedisStore
) -> None:
    start_worker(deployment, "growing")
    app = case_graphs.growing().compile()
    result = app.submit(HELLO, {"thread_id": "T", "recursion_limit": 501}).result(timeout_s=120)
    payload_bytes = sum(len(message.text()) for message in result["messages"])
    assert payload_bytes > 1_000_000
    with redis.Redis.from_url(deployment.settings["REDIS_URL"], protocol=2) as client:
        assert _memory_bytes(client, _keys(client, deployment)) <= 3 * payload_bytes
        assert store.delete_thread("T")
        assert _keys(client, deployment) == []


def _keys(client: "redis.Redis", deployment: Deployment) -> list[bytes]:
    return sorted(client.scan_iter(f"{deployment.settings['KEY_PREFIX']}:*", count=1000))


def _memory_bytes(client: "redis.Redis", keys: list[bytes]) -> int:
    sizes: list[Any] = [client.memory_usage(key, samples=0) for key in keys]
    return sum(sizes)


# -- V


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_case_v_one_async_client_serves_the_nodes_of_many_tasks(deployment: Deployment, pool: str) -> None:
    for _ in range(2):
        start_worker(deployment, "clients", pool=pool, concurrency=2)
    app = graphs.clients.compile()
    handles = [app.submit(HELLO) for _ in range(30)]
    states = [handle.result(timeout_s=60, response_granularity="full")["state"] for handle in handles]
    assert [state.notes for state in states] == [["pong"] * 4] * 30


# -- m


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_case_m_a_node_that_blocks_the_loop_for_four_leases_runs_once_and_so_does_its_neighbour(
    deployment: Deployment, pool: str
) -> None:
    deployment.start_scheduler()
    start_worker(deployment, "blocking", "beside", pool=pool, concurrency=2)
    beside = case_graphs.beside.compile().submit(HELLO, {"thread_id": "beside"})
    wait_until(lambda: ["start", "beside"] in deployment.ledger, "a node waits on the loop")
    block = case_graphs.blocking.compile().submit(HELLO, {"thread_id": "block"})
    start_worker(deployment, "blocking", "beside", pool=pool, concurrency=2)  # it would take the second copies
    assert block.result(timeout_s=60)["status"] is RunStatus.COMPLETED
    assert beside.result(timeout_s=60)["status"] is RunStatus.COMPLETED
    assert Counter(map(tuple, deployment.ledger)) == {
        (word, name): 1 for word in ("start", "end") for name in ("block", "beside")
    }


# -- h


@pytest.mark.parametrize("other", ["fan", "chain_of_another_version"])
def test_case_h_a_task_of_an_unknown_graph_or_version_is_given_back_with_growing_pauses(
    deployment: Deployment, store: RedisStore, other: str
) -> None:
    deployment.start_scheduler()
    stranger = start_worker(deployment, other)
    handle = case_graphs.chain.compile().submit(HELLO, {"thread_id": "T"})
    moments: list[int] = []

    def is_given_back_often() -> bool:
        until_ms = max(task.until_ms for task in store.tasks(handle.run_id))
        if until_ms and until_ms not in moments:
            moments.append(until_ms)
        return len(moments) == 6

    wait_until(is_given_back_often, "the task was given back six times")
    run = store.run(handle.run_id)
    assert run is not None
    assert run.reason == "waiting_for_version"
    pauses_ms = [later - earlier for earlier, later in pairwise(moments)]
    least_ms = [_GIVE_BACK_PAUSE_MS * 2**number for number in range(1, 6)]
    assert all(pause_ms >= least for pause_ms, least in zip(pauses_ms, least_ms, strict=True)), pauses_ms
    assert stranger.is_alive()
    stranger.stop()
    start_worker(deployment, "chain")
    result = handle.result(timeout_s=60, response_granularity="full")
    assert result["state"].notes == ["n0", "n1", "n2"]


# -- i


@pytest.mark.parametrize("inline_state_bytes", [0, 16384])
def test_case_i_messages_of_a_graph_of_100_nodes_are_small(deployment: Deployment, inline_state_bytes: int) -> None:
    deployment.settings["INLINE_STATE_BYTES"] = str(inline_state_bytes)
    start_disturbed(deployment, "hundred")
    handle = graphs.hundred.compile().submit(HELLO, {"recursion_limit": 100})
    state = handle.result(timeout_s=60, response_granularity="full")["state"]
    assert state.total == 100
    state_bytes = len(state.model_dump_json()) if inline_state_bytes else 0
    assert tally(deployment)["largest"] <= 2048 + 2 * state_bytes, "base64 and quotes in quotes cost up to twice"


# -- how much a step of a long thread sends


@pytest.fixture
def alone(tmp_path: Path, deployment: Deployment) -> Iterator[Deployment]:
    """An installation on a server that nobody else talks to."""
    folder = tmp_path / "server"
    folder.mkdir()
    with running(EmbeddedValkey(folder)) as server:
        deployment.settings |= {"REDIS_URL": f"redis://127.0.0.1:{server.port}/0", "INLINE_STATE_BYTES": "0"}
        os.environ.update(deployment.environment)
        yield deployment
        deployment.end()


def test_a_step_of_a_thread_with_10_000_messages_sends_no_more_than_one_with_10(alone: Deployment) -> None:
    start_worker(alone, "growing", concurrency=1)
    few, many = (_bytes_a_step(alone, number) for number in (10, 10_000))
    assert many <= 1.2 * few, f"{few:.0f} bytes a step with 10 messages, {many:.0f} with 10,000"


def _bytes_a_step(deployment: Deployment, messages: int) -> float:
    app, config = case_graphs.growing().compile(), {"thread_id": f"T{messages}", "recursion_limit": 60}
    said = [Message.text_message(f"message {number}", message_id=f"m{number}") for number in range(messages)]
    app.invoke({"messages": said, "state": {"part": 1}}, config)
    with redis.Redis.from_url(deployment.settings["REDIS_URL"], protocol=2) as client:
        before = _received_bytes(client)
        app.invoke({"messages": [Message.text_message("go on")]}, config)
        return (_received_bytes(client) - before) / 50


def _received_bytes(client: "redis.Redis") -> int:
    told: Any = client.info("stats")
    return int(told["total_net_input_bytes"])

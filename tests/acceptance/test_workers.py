"""Graphs on real worker processes."""

import asyncio
import os
import time
from typing import Any

import psutil
import pytest

from tenxgraph.core.exceptions import NodeError, NodeTimeoutError, StorageError
from tenxgraph.core.graph import RunStatus
from tenxgraph.core.state import Message
from tenxgraph.settings import Settings
from tenxgraph.store.redis import redis_store
from tests.acceptance import graphs
from tests.acceptance.workers import Deployment, wait_until
from tests.servers import EmbeddedValkey, free_port, running

pytestmark = pytest.mark.timeout(180)

HELLO = {"messages": [Message.text_message("hello", message_id="m1")]}
FULL = "full"


@pytest.mark.parametrize("pool", ["solo", "threads", "prefork"])
def test_a_chain_runs_on_every_pool(deployment: Deployment, pool: str) -> None:
    deployment.start_worker("chain", pool=pool)
    result = graphs.chain.compile().invoke(HELLO, {"thread_id": "a}b{ ü"}, FULL)
    assert (result["state"].notes, result["state"].total) == (["n0", "n1", "n2"], 3)


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_branches_join_once_in_plan_order_on_two_workers(deployment: Deployment, pool: str) -> None:
    for _ in range(2):
        deployment.start_worker("fan", "sends", pool=pool)
    fanned = graphs.fan.compile().invoke(HELLO, {"thread_id": "fan"}, FULL)["state"]
    assert (fanned.notes, fanned.total) == (["split", "c", "a", "b", "join"], 4)
    sent = graphs.sends.compile().invoke(HELLO, {"thread_id": "sends"}, FULL)["state"]
    assert (sent.notes, sent.total) == ([f"part {number}" for number in range(8)], 8)


def test_an_interrupt_holds_no_worker_and_is_answered(deployment: Deployment) -> None:
    deployment.start_worker("asking", "chain", pool="solo", concurrency=1)
    app = graphs.asking.compile()
    waiting = app.invoke(HELLO, {"thread_id": "a"})
    assert waiting["status"] is RunStatus.WAITING
    assert [asked["value"] for asked in waiting["interrupts"]] == ["go on?"]
    assert graphs.chain.compile().invoke(HELLO)["status"] is RunStatus.COMPLETED
    done = app.invoke({"resume": "yes"}, {"thread_id": "a"}, FULL)
    assert done["state"].notes == ["answered yes"]


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_worker_killed_in_a_node_is_replaced_by_another(deployment: Deployment, pool: str) -> None:
    deployment.start_scheduler()
    victim = deployment.start_worker("slow", pool=pool, concurrency=1)
    handle = graphs.slow.compile().submit(HELLO, {"thread_id": "a"})
    wait_until(lambda: len(deployment.ledger) == 1, "the node started")
    victim.kill()
    deployment.let_go()
    deployment.start_worker("slow", pool=pool, concurrency=1)
    state = handle.result(timeout_s=60, response_granularity=FULL)["state"]
    assert state.notes == ["slow"]
    assert [line[0] for line in deployment.ledger] == ["start", "start", "end"]


def test_a_node_longer_than_its_lease_runs_once(deployment: Deployment) -> None:
    deployment.start_scheduler()
    for _ in range(2):
        deployment.start_worker("slow", pool="threads", concurrency=1)
    handle = graphs.slow.compile().submit(HELLO, {"thread_id": "a"})
    wait_until(lambda: len(deployment.ledger) == 1, "the node started")
    leases_end_s = time.monotonic() + 3 * float(deployment.settings["LEASE_S"])
    wait_until(lambda: time.monotonic() > leases_end_s, "three leases are over")
    deployment.let_go()
    handle.result(timeout_s=60)
    assert [line[0] for line in deployment.ledger] == ["start", "end"]


def test_a_node_that_kills_its_process_is_tried_three_times_and_the_run_is_dead(deployment: Deployment) -> None:
    deployment.start_scheduler()
    deployment.start_worker("killer", "chain", pool="prefork", concurrency=2)
    handle = graphs.killer.compile().submit(HELLO, {"thread_id": "a"})
    with pytest.raises(NodeError, match="died with its worker 3 times"):
        handle.result(timeout_s=60)
    assert handle.status() is RunStatus.DEAD
    assert len(deployment.ledger) == 3
    assert graphs.chain.compile().invoke(HELLO)["status"] is RunStatus.COMPLETED


def test_a_graph_that_no_worker_serves_waits_visibly_and_runs_when_one_does(deployment: Deployment) -> None:
    deployment.start_scheduler()
    deployment.start_worker("fan", pool="threads")
    handle = graphs.chain.compile().submit(HELLO, {"thread_id": "a"})
    store = redis_store(deployment.url, Settings.load())

    def reason() -> str:
        run = store.run(handle.run_id)
        return run.reason if run else ""

    wait_until(lambda: reason() == "waiting_for_version", "the run says what it waits for")
    deployment.start_worker("chain", pool="threads")
    assert handle.result(timeout_s=60, response_granularity=FULL)["state"].notes == ["n0", "n1", "n2"]


def test_a_stop_reaches_a_node_that_asks_and_the_next_never_begins(deployment: Deployment) -> None:
    deployment.start_worker("stubborn")
    handle = graphs.stubborn.compile().submit(HELLO, {"thread_id": "a"})
    wait_until(lambda: len(deployment.ledger) == 1, "the node started")
    assert handle.stop() is RunStatus.STOPPING
    result = handle.result(timeout_s=30, response_granularity=FULL)
    assert (result["status"], result["state"].notes) == (RunStatus.STOPPED, ["stopped True"])


def test_a_cancelled_run_ends_its_async_node(deployment: Deployment) -> None:
    deployment.start_worker("endless")
    handle = graphs.endless.compile().submit(HELLO, {"thread_id": "a"})
    wait_until(lambda: len(deployment.ledger) == 1, "the node started")
    assert handle.cancel("enough") is RunStatus.CANCELLED
    wait_until(lambda: ["cancelled"] in deployment.ledger, "the node is told")


def test_a_cancelled_run_ends_the_prefork_child_that_hangs_in_it(deployment: Deployment) -> None:
    deployment.start_worker("slow", "chain", pool="prefork", concurrency=1)
    handle = graphs.slow.compile().submit(HELLO, {"thread_id": "a"})
    wait_until(lambda: len(deployment.ledger) == 1, "the node started")
    handle.cancel("enough")
    child = int(deployment.ledger[0][1])
    wait_until(lambda: not psutil.pid_exists(child), "the child ends")
    assert graphs.chain.compile().invoke(HELLO)["status"] is RunStatus.COMPLETED


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_sync_node_past_its_time_limit_fails_the_run(deployment: Deployment, pool: str) -> None:
    worker = deployment.start_worker("deaf", "chain", pool=pool, concurrency=2)
    with pytest.raises(NodeTimeoutError, match="took longer than its timeout_s of 1 s"):
        graphs.deaf.compile().submit(HELLO).result(timeout_s=30)
    assert graphs.chain.compile().invoke(HELLO)["status"] is RunStatus.COMPLETED
    worker.kill()


def test_async_nodes_of_many_tasks_share_one_loop_and_its_clients(deployment: Deployment) -> None:
    deployment.start_worker("clients", pool="threads", concurrency=4)
    app = graphs.clients.compile()
    handles = [app.submit(HELLO) for _ in range(10)]
    notes = [handle.result(timeout_s=60, response_granularity=FULL)["state"].notes for handle in handles]
    assert notes == [["pong"] * 4] * 10


def test_two_hundred_nodes_wait_in_one_process(deployment: Deployment) -> None:
    worker = deployment.start_worker("waiting", pool="threads", concurrency=200)
    app = graphs.waiting.compile()

    async def run_all() -> list[dict[str, Any]]:
        return await asyncio.gather(*(app.ainvoke(HELLO, {"thread_id": f"t{number}"}) for number in range(200)))

    started_s = time.monotonic()
    results = asyncio.run(run_all())
    took_s = time.monotonic() - started_s
    assert {result["status"] for result in results} == {RunStatus.COMPLETED}
    assert took_s < 200 * 0.5 / 5, f"{took_s:.1f} s: they did not wait side by side\n{worker.log}"
    assert "Traceback" not in worker.log


def test_a_node_with_a_queue_of_its_own_runs_where_that_queue_is_served(deployment: Deployment) -> None:
    deployment.start_worker("pinned", options=f"-Q {deployment.queue}")
    handle = graphs.pinned.compile().submit(HELLO)
    deployment.start_worker("pinned", options="-Q pinned-queue")
    assert handle.result(timeout_s=60, response_granularity=FULL)["state"].notes == ["pinned"]


def test_a_worker_that_names_no_queues_serves_those_of_its_graphs(deployment: Deployment) -> None:
    deployment.start_worker("pinned")
    assert graphs.pinned.compile().invoke(HELLO, None, FULL)["state"].notes == ["pinned"]


def test_a_client_that_forks_works_on_both_sides(deployment: Deployment) -> None:
    deployment.start_worker("chain")
    app = graphs.chain.compile()
    app.invoke(HELLO)
    pid = os.fork()
    if pid == 0:
        outcome = 1
        try:
            outcome = 0 if app.invoke(HELLO)["status"] is RunStatus.COMPLETED else 2
        finally:
            os._exit(outcome)
    assert app.invoke(HELLO)["status"] is RunStatus.COMPLETED
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_the_prefork_main_process_has_no_heartbeat_and_its_child_has(deployment: Deployment) -> None:
    worker = deployment.start_worker("chain", pool="prefork", concurrency=1)
    graphs.chain.compile().invoke(HELLO)
    main = psutil.Process(worker.pid)
    assert main.num_threads() == 1
    assert [child.num_threads() > 1 for child in main.children()] == [True]


def test_a_redis_that_is_not_there_is_one_sentence_at_the_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENXGRAPH_REDIS_URL", f"redis://127.0.0.1:{free_port()}/0")
    app = graphs.chain.compile()
    with pytest.raises(StorageError, match="is out of reach"):
        app.invoke(HELLO)


def test_everybody_goes_on_after_the_store_was_killed_and_came_back(deployment: Deployment) -> None:
    server = EmbeddedValkey(deployment.folder)
    with running(server):
        deployment.settings["REDIS_URL"] = f"redis://127.0.0.1:{server.port}/0"
        os.environ.update(deployment.environment)
        deployment.start_scheduler()
        worker = deployment.start_worker("slow", "chain", concurrency=1)
        handle = graphs.slow.compile().submit(HELLO, {"thread_id": "a"})
        wait_until(lambda: len(deployment.ledger) == 1, "the node started")
        server.kill()
        deployment.let_go()
        wait_until(lambda: len(deployment.ledger) == 2, "the node ended while the store was away")
        worker.wait_for_log("Trying again.")
        server.start()
        assert handle.result(timeout_s=60, response_granularity=FULL)["state"].notes == ["slow"]
        assert len(deployment.ledger) == 2
        assert graphs.chain.compile().submit(HELLO).result(timeout_s=60)["status"] is RunStatus.COMPLETED
        deployment.end()

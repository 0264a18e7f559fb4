"""People stop and cancel runs on real workers. Letters are those of the known cases."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from tenxgraph.core.exceptions import RunCancelledError
from tenxgraph.core.graph import RunHandle, RunStatus
from tenxgraph.core.state import Message
from tenxgraph.settings import Settings
from tenxgraph.store.base import TaskStatus
from tenxgraph.store.redis import redis_store
from tests.acceptance import graphs, people_graphs
from tests.acceptance.workers import Deployment, Process, wait_until

pytestmark = pytest.mark.timeout(240)

HELLO = {"messages": [Message.text_message("hello", message_id="m1")]}
AGAIN = {"messages": [Message.text_message("again", message_id="m2")]}
T = {"thread_id": "T"}
FULL = "full"
TIMES = 100


def start_worker(deployment: Deployment, *names: str, pool: str = "threads", concurrency: int = 2) -> Process:
    places = [f"tests.acceptance.people_graphs:{name}" for name in names]
    return deployment.start_worker(*places, "chain", pool=pool, concurrency=concurrency)


def bytes_of(deployment: Deployment, thread_id: str) -> dict[bytes, object]:
    """All that the store holds of a thread, key by key."""
    pattern = f"{deployment.settings['KEY_PREFIX']}:{{{thread_id}}}:*"
    with redis.Redis.from_url(deployment.settings["REDIS_URL"], protocol=2) as client:
        return {key: client.dump(key) for key in sorted(client.scan_iter(pattern, count=1000))}


# -- stop; Q


def test_a_stop_with_one_task_claimed_and_two_queued_lets_all_three_finish_once(deployment: Deployment) -> None:
    deployment.start_scheduler()
    start_worker(deployment, "trio", concurrency=1)
    app = people_graphs.trio.compile()
    handle = app.submit(HELLO, T)
    wait_until(lambda: len(deployment.ledger) == 1, "one task is claimed")
    tasks = redis_store(deployment.url, Settings.load()).tasks(handle.run_id)
    assert Counter(task.status for task in tasks) == {TaskStatus.CLAIMED: 1, TaskStatus.QUEUED: 2}
    assert app.stop(T) is RunStatus.STOPPING
    deployment.let_go()
    result = handle.result(timeout_s=60, response_granularity=FULL)
    assert (result["status"], result["state"].notes) == (RunStatus.STOPPED, ["a", "b", "c"])
    assert app.invoke(None, T, FULL)["state"].notes == ["a", "b", "c", "join"]
    assert Counter(map(tuple, deployment.ledger)) == {(word, name): 1 for word in ("start", "end") for name in "abc"}
    assert app.invoke(AGAIN, T, FULL)["state"].notes == ["a", "b", "c", "join"] * 2


def test_a_stop_with_no_task_claimed_ends_the_run_at_once(deployment: Deployment) -> None:
    deployment.let_go()
    app = people_graphs.trio.compile()
    app.submit(HELLO, T)
    assert app.stop(T) is RunStatus.STOPPED
    deployment.start_scheduler()
    start_worker(deployment, "trio")
    assert graphs.chain.compile().invoke(HELLO)["status"] is RunStatus.COMPLETED
    assert deployment.ledger == []
    assert app.get_state(T).status is RunStatus.STOPPED
    assert app.invoke(None, T, FULL)["state"].notes == ["a", "b", "c", "join"]


def test_case_q_a_stop_at_the_very_end_of_a_node_keeps_its_output_once(deployment: Deployment) -> None:
    deployment.start_scheduler()
    start_worker(deployment, "edge", concurrency=8)
    app = people_graphs.edge.compile()

    def stop_at_the_end(number: int) -> list[str]:
        config = {"thread_id": f"T{number}"}
        handle = app.submit(HELLO, config)
        wait_until(lambda: [f"T{number}", "a"] in deployment.ledger, "the node is at work")
        app.stop(config)
        stopped = handle.result(timeout_s=60, response_granularity=FULL)
        assert stopped["status"] is RunStatus.STOPPED, number
        assert app.get_state(config).status is RunStatus.STOPPED
        notes = app.invoke(None, {**config, "quick": True}, FULL)["state"].notes
        assert notes == ["a", "b", "c"], number
        return list(stopped["state"].notes)

    with ThreadPoolExecutor(8) as pool:
        seen = Counter(map(tuple, pool.map(stop_at_the_end, range(TIMES))))
    assert sum(seen.values()) == TIMES
    assert set(seen) <= {("a",), ("a", "b")}, seen
    assert Counter(map(tuple, deployment.ledger)) == {(f"T{number}", "a"): 1 for number in range(TIMES)}


# -- cancel; I


def check_nothing_came_after(deployment: Deployment, handle: RunHandle[Any], before: dict[bytes, object]) -> None:
    """What was stored when the cancel was acknowledged is stored now, and the next message starts fresh."""
    assert bytes_of(deployment, "T") == before
    with pytest.raises(RunCancelledError, match="was cancelled by anonymous: enough"):
        handle.result(timeout_s=10)
    result = people_graphs.lazy.compile().invoke(AGAIN, {**T, "quick": True}, FULL)
    assert (result["status"], result["state"].notes) == (RunStatus.COMPLETED, ["fresh"])
    assert [message.text() for message in result["state"].context][-1] == "again"


def cancel(deployment: Deployment, handle: RunHandle[Any]) -> dict[bytes, object]:
    assert handle.cancel("enough") is RunStatus.CANCELLED
    return bytes_of(deployment, "T")


def let_leases_end(deployment: Deployment) -> None:
    ends_s = time.monotonic() + float(deployment.settings["LEASE_S"]) + 2
    wait_until(lambda: time.monotonic() > ends_s, "every lease is over")


def test_case_i_a_cancel_before_any_worker_is_up(deployment: Deployment) -> None:
    handle = people_graphs.lazy.compile().submit(HELLO, T)
    before = cancel(deployment, handle)
    deployment.start_scheduler()
    start_worker(deployment, "lazy", concurrency=1)
    assert graphs.chain.compile().invoke(HELLO)["status"] is RunStatus.COMPLETED
    assert deployment.ledger == []
    check_nothing_came_after(deployment, handle, before)


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_case_i_a_cancel_in_a_blocking_node(deployment: Deployment, pool: str) -> None:
    deployment.start_scheduler()
    worker = start_worker(deployment, "lazy", pool=pool)
    handle = people_graphs.lazy.compile().submit(HELLO, T)
    wait_until(lambda: deployment.ledger == [["start"]], "the node is at work")
    before = cancel(deployment, handle)
    if pool == "prefork":
        worker.wait_for_log("its node does not return, this process ends with it")
        deployment.let_go()
    else:
        worker.wait_for_log("its node still runs and keeps its slot until it returns")
        deployment.let_go()
        worker.wait_for_log("fenced before")
    let_leases_end(deployment)
    assert deployment.ledger == ([["start"]] if pool == "prefork" else [["start"], ["end"]])
    check_nothing_came_after(deployment, handle, before)


def test_case_i_a_cancel_in_a_retry_wait(deployment: Deployment) -> None:
    deployment.start_scheduler()
    start_worker(deployment, "lazy")
    handle = people_graphs.lazy.compile().submit(HELLO, {**T, "fails": True})
    store = redis_store(deployment.url, Settings.load())
    wait_until(lambda: [task.status for task in store.tasks(handle.run_id)] == [TaskStatus.RETRY_WAIT], "a retry waits")
    tried = len(deployment.ledger)
    before = cancel(deployment, handle)
    let_leases_end(deployment)
    assert len(deployment.ledger) == tried
    check_nothing_came_after(deployment, handle, before)


@pytest.mark.parametrize("first", ["cancel", "kill"])
def test_case_i_a_cancel_and_a_worker_killed_one_right_after_the_other(deployment: Deployment, first: str) -> None:
    deployment.start_scheduler()
    victim = start_worker(deployment, "lazy")
    handle = people_graphs.lazy.compile().submit(HELLO, T)
    wait_until(lambda: deployment.ledger == [["start"]], "the node is at work")
    if first == "kill":
        victim.kill()
    before = cancel(deployment, handle)
    victim.kill()
    start_worker(deployment, "lazy")
    let_leases_end(deployment)
    assert deployment.ledger == [["start"]]
    check_nothing_came_after(deployment, handle, before)

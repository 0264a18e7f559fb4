"""Runs that wait for a person, on real workers. Letters are those of the known cases."""

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from typing import Any

import pytest
import redis

from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.core.graph import CompiledGraph, RunStatus
from tenxgraph.core.state import ContentBlock, Message, ToolCallBlock
from tests.acceptance import people_graphs
from tests.acceptance.test_stopping import AGAIN, FULL, HELLO, T, bytes_of, start_worker
from tests.acceptance.workers import Deployment, wait_until
from tests.servers import EmbeddedValkey, running

pytestmark = pytest.mark.timeout(400)

QUESTIONS = ("o", "q1", "q2", "t1", "t2")
RUNS = {"once": 2, "twice": 3, "tools": 3, "look": 1}
WAITING = 50


def _asked() -> dict[str, Any]:
    names = ("pay", "ship", "look")
    calls: list[ContentBlock] = [ToolCallBlock(id=f"call-{name}", name=name, args={}) for name in names]
    return {"messages": [Message.text_message("Hi"), Message(role="assistant", content=calls)]}


def _orders() -> Iterator[tuple[str, ...]]:
    """Every order in which the questions can be answered: q2 is asked when q1 has its answer."""
    return (order for order in permutations(QUESTIONS) if order.index("q1") < order.index("q2"))


def _answer_in(app: CompiledGraph[Any], order: tuple[str, ...]) -> None:
    config = {"thread_id": "-".join(order)}
    last = app.invoke(_asked(), config)
    for place, question in enumerate(order):
        ids = {asked["value"]: asked["id"] for asked in last["interrupts"]}
        left = {name for name in order[place:] if name != "q2" or "q1" in order[:place]}
        assert (last["status"], set(ids)) == (RunStatus.WAITING, left), (order, place)
        last = app.invoke({"resume": {ids[question]: f"to-{question}"}}, config, FULL)
    assert last["status"] is RunStatus.COMPLETED, order
    assert last["state"].notes == ["o=to-o", "q1=to-q1 q2=to-q2", "join"], order
    outputs = {block.call_id: block.output for message in last["state"].context[2:] for block in message.content}
    assert outputs == {"call-pay": "to-t1", "call-ship": "to-t2", "call-look": "seen"}, order


@pytest.mark.parametrize("name", ["questions", "questions_apart"])
def test_case_h_three_parallel_interrupts_answered_in_every_order(deployment: Deployment, name: str) -> None:
    for _ in range(2):
        start_worker(deployment, name, concurrency=4)
    app, orders = getattr(people_graphs, name).compile(), list(_orders())
    assert len(orders) == 60
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda order: _answer_in(app, order), orders))
    ran = Counter(map(tuple, deployment.ledger))
    # Where each call is a task of its own, the tools' node itself is no task that could run again.
    runs = {node: times for node, times in RUNS.items() if name == "questions" or node != "tools"}
    assert ran == {("-".join(order), node): times for order in orders for node, times in runs.items()}


@pytest.mark.parametrize("point", ["before it is taken", "in the node"])
def test_case_l_a_worker_killed_right_after_a_resume_leaves_the_answer_there(
    deployment: Deployment, point: str
) -> None:
    deployment.start_scheduler()
    victim = start_worker(deployment, "ask_and_hang")
    app = people_graphs.ask_and_hang.compile()
    assert app.invoke(HELLO, T)["status"] is RunStatus.WAITING
    if point == "before it is taken":
        victim.kill()
    handle = app.submit({"resume": "yes"}, T)
    if point == "in the node":
        wait_until(lambda: ["has", "yes"] in deployment.ledger, "the node has its answer")
        victim.kill()
    deployment.let_go()
    start_worker(deployment, "ask_and_hang")
    assert handle.result(timeout_s=60, response_granularity=FULL)["state"].notes == ["yes"]
    times = 1 if point == "before it is taken" else 2
    assert Counter(map(tuple, deployment.ledger)) == {("begins",): 1 + times, ("has", "yes"): times}


def test_case_t_a_message_or_a_wrong_answer_to_a_question_changes_no_byte(deployment: Deployment) -> None:
    deployment.let_go()
    start_worker(deployment, "ask_and_hang")
    app = people_graphs.ask_and_hang.compile()
    app.invoke(HELLO, T)
    before = bytes_of(deployment, "T")
    for refused in (AGAIN, None, {"resume": 7}, {"resume": "yes", **AGAIN}):
        with pytest.raises(InvalidInputError):
            app.invoke(refused, T)
    assert bytes_of(deployment, "T") == before
    assert app.invoke({"resume": "yes"}, T, FULL)["state"].notes == ["yes"]


def test_fifty_waiting_runs_survive_their_workers_and_the_store(deployment: Deployment) -> None:
    server = EmbeddedValkey(deployment.folder)
    with running(server):
        deployment.settings["REDIS_URL"] = f"redis://127.0.0.1:{server.port}/0"
        os.environ.update(deployment.environment)
        deployment.let_go()
        deployment.start_scheduler()
        worker = start_worker(deployment, "ask_and_hang", concurrency=4)
        app = people_graphs.ask_and_hang.compile()
        configs = [{"thread_id": f"T{number}"} for number in range(WAITING)]
        for handle in [app.submit(HELLO, config) for config in configs]:
            assert handle.result(timeout_s=60)["status"] is RunStatus.WAITING
        assert _keys_that_expire(deployment) == []
        worker.kill()
        server.kill()
        server.start()
        start_worker(deployment, "ask_and_hang", concurrency=4)
        handles = [app.submit({"resume": config["thread_id"]}, config) for config in configs]
        notes = [handle.result(timeout_s=60, response_granularity=FULL)["state"].notes for handle in handles]
        assert notes == [[config["thread_id"]] for config in configs]
        deployment.end()


def _keys_that_expire(deployment: Deployment) -> list[bytes]:
    with redis.Redis.from_url(deployment.settings["REDIS_URL"], protocol=2) as client:
        keys = client.scan_iter(f"{deployment.settings['KEY_PREFIX']}:*", count=1000)
        return [key for key in keys if client.ttl(key) >= 0]  # -2: it went meanwhile

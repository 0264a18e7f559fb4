"""Workers are killed while their nodes and tools do what must not be done twice."""

from collections import Counter
from typing import Any

import pytest
import redis

from tenxgraph.core.exceptions import EffectLostError, NodeTimeoutError
from tenxgraph.core.graph import RunStatus
from tenxgraph.core.state import Message, ToolResultBlock
from tests.acceptance import effect_graphs
from tests.acceptance.workers import Deployment, wait_until

pytestmark = pytest.mark.timeout(180)

HELLO = {"messages": [Message.text_message("hello", message_id="m1")]}
FULL = "full"


def _served(*graphs: str) -> list[str]:
    return [f"tests.acceptance.effect_graphs:{graph}" for graph in graphs]


def _calls(*names: str) -> dict[str, Any]:
    blocks: list[Any] = [
        {"type": "tool_call", "id": f"c{at}", "name": name, "args": {"n": at}} for at, name in enumerate(names)
    ]
    return {"messages": [Message(role="assistant", content=blocks, message_id="asks")]}


def _recorded(deployment: Deployment) -> int:
    """How many effects are done."""
    with redis.Redis.from_url(deployment.url) as client:
        keys = client.keys(f"{deployment.settings['KEY_PREFIX']}:*:effects")
        return sum(field.endswith(b":result") for key in keys for field in client.hkeys(key))


def _counted(deployment: Deployment) -> Counter[str]:
    return Counter(" ".join(line) for line in deployment.ledger)


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_worker_killed_in_a_round_of_tools_makes_no_finished_call_again(deployment: Deployment, pool: str) -> None:
    deployment.start_scheduler()
    victim = deployment.start_worker(*_served("tools"), pool=pool, concurrency=1)
    calls = _calls("quick", "slow", "quick_async", "quick", "slow")
    handle = effect_graphs.tools.compile().submit(calls, {"thread_id": "a}b"})
    wait_until(lambda: _recorded(deployment) == 3, "three calls are done")
    wait_until(lambda: len(deployment.ledger) == 5, "two more have begun")
    victim.kill()
    deployment.let_go()
    deployment.start_worker(*_served("tools"), pool=pool, concurrency=1)
    state = handle.result(timeout_s=60, response_granularity=FULL)["state"]
    answers = [block.output for m in state.context for block in m.content if isinstance(block, ToolResultBlock)]
    assert answers == ["paid quick0", "paid slow1", "paid async2", "paid quick3", "paid slow4"]
    once = {"pay quick0": 1, "pay async2": 1, "pay quick3": 1}
    assert _counted(deployment) == {**once, "start slow1": 2, "start slow4": 2, "end slow1": 1, "end slow4": 1}


def test_a_recorded_effect_is_not_made_again_and_both_attempts_have_one_key(deployment: Deployment) -> None:
    deployment.start_scheduler()
    victim = deployment.start_worker(*_served("paying"), concurrency=1)
    handle = effect_graphs.paying.compile().submit(HELLO, {"thread_id": "a"})
    wait_until(lambda: len(deployment.ledger) == 2, "the node paid")
    victim.kill()
    deployment.let_go()
    deployment.start_worker(*_served("paying"), concurrency=1)
    assert handle.result(timeout_s=60, response_granularity=FULL)["state"].notes == ["paid once"]
    paid, key, again = deployment.ledger
    assert (paid, key) == (["pay", "once"], again)


def test_an_effect_that_outlives_its_attempt_and_its_lease_is_waited_for(deployment: Deployment) -> None:
    deployment.start_scheduler()
    for _ in range(2):
        deployment.start_worker(*_served("patient"), concurrency=1)
    app = effect_graphs.patient.compile()
    with pytest.raises(NodeTimeoutError):
        app.submit(HELLO, {"thread_id": "a"}).result(timeout_s=60)
    handle = app.submit(None, {"thread_id": "a"})
    wait_until(lambda: handle.status() is RunStatus.RUNNING, "the next attempt began")
    deployment.let_go()
    assert handle.result(timeout_s=60, response_granularity=FULL)["state"].notes == ["paid slowly"]
    assert deployment.ledger == [["start", "slowly"], ["end", "slowly"]]


@pytest.mark.parametrize("graph", ["careful", "careful_node"])
def test_what_may_happen_once_fails_visibly_when_its_worker_is_killed(deployment: Deployment, graph: str) -> None:
    deployment.start_scheduler()
    victim = deployment.start_worker(*_served(graph), concurrency=1)
    app = getattr(effect_graphs, graph).compile()
    handle = app.submit(HELLO, {"thread_id": "a"})
    wait_until(lambda: len(deployment.ledger) == 1, "it began")
    victim.kill()
    deployment.let_go()
    deployment.start_worker(*_served(graph), concurrency=1)
    with pytest.raises(EffectLostError, match="find out whether it did"):
        handle.result(timeout_s=60)
    assert deployment.ledger == [["start", "once"]]
    assert app.invoke(None, {"thread_id": "a"}, FULL)["state"].notes == ["paid once"]
    assert deployment.ledger == [["start", "once"], ["start", "once"], ["end", "once"]]

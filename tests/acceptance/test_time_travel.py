"""Going back, forking, updating and keeping on real workers: the same as in process; what goes leaves no key."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
import redis

from tenxgraph.core.graph import CompiledGraph
from tenxgraph.core.state import Message
from tenxgraph.settings import Settings
from tenxgraph.store.memory import MemoryStore
from tenxgraph.store.redis import redis_store
from tests.acceptance import case_graphs
from tests.acceptance.test_cases import start_worker
from tests.acceptance.workers import Deployment, wait_until
from tests.graphs.suite import CASES

pytestmark = pytest.mark.timeout(180)

HELLO: Final = {"messages": [Message.text_message("Hi", message_id="m1")]}
T: Final[dict[str, Any]] = {"thread_id": "T"}


def told(app: CompiledGraph[Any]) -> Iterator[Any]:
    """Go back and forth in a thread; tell every checkpoint of it and of its fork."""
    app.invoke(HELLO, T)
    before_b = next(snap for snap in app.get_state_history(T) if snap.next == ("b",))
    app.invoke(None, before_b.config)
    forked = app.fork(T, before_b.checkpoint, thread_id="F")
    app.update_state(forked, {"log": ["by hand"]})
    app.invoke(None, forked)
    app.update_state(T, {"count": 7}, as_node="b")
    app.invoke(None, T)
    for config in (T, forked):
        for snap in app.get_state_history(config):
            what = snap.state.model_dump(include={"log", "count"})
            yield config["thread_id"], snap.checkpoint, snap.step, snap.next, snap.status, snap.source, what


def test_time_travel_on_workers_is_as_in_process(deployment: Deployment) -> None:
    oracle = list(told(CASES["linear"].compile(checkpointer=MemoryStore())))
    deployment.start_scheduler()
    start_worker(deployment, "linear")
    assert list(told(CASES["linear"].compile())) == oracle
    assert [line[:2] for line in oracle][:9] == [("T", number) for number in range(9, 0, -1)]


def test_case_k_retention_bounds_the_bytes_and_after_its_time_no_key_is_left(deployment: Deployment) -> None:
    kept = {"CHECKPOINTS_KEEP_LAST": "10", "THREAD_KEEP_S": "8", "STREAM_KEEP_S": "5"}
    deployment.settings |= kept
    start_worker(deployment, "growing")
    app = case_graphs.growing().compile()
    result = app.submit(HELLO, {**T, "recursion_limit": 501}).result(timeout_s=120)
    payload_bytes = sum(len(message.text()) for message in result["messages"])
    values = {f"TENXGRAPH_{name}": value for name, value in deployment.settings.items()}
    settings = Settings.load(redis_url=values["TENXGRAPH_REDIS_URL"], key_prefix=values["TENXGRAPH_KEY_PREFIX"])
    store = redis_store(deployment.settings["REDIS_URL"], settings)
    deployment.start_scheduler()
    with redis.Redis.from_url(deployment.settings["REDIS_URL"], protocol=2) as client:
        pattern = f"{deployment.settings['KEY_PREFIX']}:*"
        wait_until(lambda: len(store.checkpoints("T", limit=99)) == 10, "ten checkpoints are left")
        kept_bytes = sum(
            client.memory_usage(key, samples=0) or 0 for key in client.scan_iter(pattern) if b":events:" not in key
        )
        assert kept_bytes <= 1.3 * payload_bytes
        wait_until(lambda: not list(client.scan_iter(pattern)), "no key is left")
    store.close()

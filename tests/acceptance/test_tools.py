"""Agents and tools on real workers: killed at every point of a round, spread over processes, each in its container."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tenxgraph.core.exceptions import EffectLostError
from tenxgraph.core.graph import CompiledGraph, RunHandle
from tenxgraph.core.state import Message, ToolResultBlock
from tests.acceptance import tool_graphs
from tests.acceptance.striking import is_struck, order
from tests.acceptance.workers import Deployment, Process
from tests.servers import Server
from tests.thorough import combined

pytestmark = pytest.mark.timeout(300)

HELLO: Final = {"messages": [Message.text_message("hello", message_id="m1")]}
FULL: Final = "full"
PLACE: Final = "tests.acceptance.tool_graphs"

_STRIKING_WORKER: Final = "from tests.acceptance.striking import serve; serve()"

CALLS: Final = [f"call_{number}_{call}" for number, count in enumerate((1, 3, 2, 1, 1, 1)) for call in range(count)]

POINTS: Final = {
    "after the model answered, before its commit": "before advance 3.0",
    "after the model's commit, before the dispatch": "after advance 3.0",
    "before the claim of the calls": "before claim 4.0",
    "after the claim of the calls": "after claim 4.0",
    "before a call is reserved": "before reserve call_1_0",
    "after a call is reserved": "after reserve call_1_0",
    "in a tool": "in tool call_1_0",
    "after a tool, before its record": "before record call_1_0",
    "after a record": "after record call_1_0",
    "before the calls' commit": "before {commit} 4.0",
    "after the calls' commit": "after {commit} 4.0",
}
MAY_REPEAT: Final = {"in a tool", "after a tool, before its record"}
AMONG_SIBLINGS: Final = MAY_REPEAT | {"before a call is reserved", "after a call is reserved", "after a record"}
"""Here the other calls of the same task die, too, each wherever it is."""


def _served(*graphs: str) -> list[str]:
    return [f"{PLACE}:{graph}" for graph in graphs]


def _app(graph: str) -> CompiledGraph[Any]:
    return getattr(tool_graphs, graph).compile()  # type: ignore[no-any-return]


def _content(messages: list[Message]) -> list[Any]:
    return [(message.role, [block.model_dump() for block in message.content]) for message in messages]


def _outputs(messages: list[Message]) -> list[Any]:
    return [block.output for m in messages for block in m.content if isinstance(block, ToolResultBlock)]


# -- killed


@pytest.fixture(scope="module")
def striking(valkey_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A prefork worker, each of whose children may be told where to die; the worker starts another one."""
    deployment = Deployment(f"redis://127.0.0.1:{valkey_server.port}/0", tmp_path_factory.mktemp("struck"))
    try:
        deployment.start_scheduler()
        _start_striking(deployment, "rounds", "spread_rounds", "careful_rounds")
        yield deployment
    finally:
        deployment.end()


@pytest.fixture
def struck(striking: Deployment, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """The same, with the test's own process for a client."""
    for name, value in striking.environment.items():
        monkeypatch.setenv(name, value)
    return striking


def _start_striking(deployment: Deployment, *graphs: str) -> Process:
    flags = f"-P prefork -c 2 -n strikes-{deployment.queue}@localhost -l INFO --without-gossip --without-mingle"
    worker = deployment.start("worker", _STRIKING_WORKER, ",".join(_served(*graphs)), *flags.split())
    worker.wait_for_log(" ready.")
    return worker


def _payments(deployment: Deployment, done: int) -> Counter[str]:
    return Counter(line[1] for line in deployment.ledger[done:] if line[0] != "recorded")


def _made_after_their_record(deployment: Deployment, done: int) -> list[str]:
    recorded: set[str] = set()
    late: list[str] = []
    for what, call in deployment.ledger[done:]:
        recorded.update([call] if what == "recorded" else [])
        late += [call] if what != "recorded" and call in recorded else []
    return late


@pytest.mark.parametrize(("point", "graph"), combined(list(POINTS), ("rounds", "spread_rounds")))
def test_a_worker_killed_in_a_round_makes_no_call_again_that_was_recorded(
    struck: Deployment, graph: str, point: str
) -> None:
    done, commit = len(struck.ledger), "commit" if graph == "spread_rounds" else "advance"
    order(struck.folder, POINTS[point].format(commit=commit))
    state = _app(graph).submit(HELLO).result(timeout_s=60, response_granularity=FULL)["state"]
    assert is_struck(struck.folder), struck.logs()
    assert state.notes == [call for call in CALLS if call not in ("call_1_1", "call_2_0")]
    assert _outputs(state.context)[1:4] == ["paid 0", "asked 1", "paid 2"]
    made = _payments(struck, done)
    assert set(made) == set(CALLS)
    assert _made_after_their_record(struck, done) == []
    again = {call: times for call, times in made.items() if times > 1}
    if graph == "rounds" and point in AMONG_SIBLINGS:
        again = {call: times for call, times in again.items() if call not in ("call_1_1", "call_1_2")}
    assert again == ({"call_1_0": 2} if point in MAY_REPEAT else {})


def test_a_tool_that_pays_at_most_once_fails_visibly_when_killed_in_the_middle(struck: Deployment) -> None:
    done = len(struck.ledger)
    order(struck.folder, "in tool call_0_0")
    with pytest.raises(EffectLostError, match="find out whether it did"):
        _app("careful_rounds").submit(HELLO, {"thread_id": "careful"}).result(timeout_s=60)
    assert _payments(struck, done) == {"call_0_0": 1}
    assert _app("careful_rounds").invoke(None, {"thread_id": "careful"})["messages"][-1].text() == "done"
    assert _payments(struck, done) == {"call_0_0": 2}


# -- the same everywhere


def _contexts(graph: str) -> Iterator[list[Any]]:
    """Yield the context after each way to run."""
    app = _app(graph)
    invoked = app.invoke(HELLO, {"thread_id": f"{graph}, invoked"}, FULL)
    yield _content(invoked["state"].context)
    chunks = app.stream(HELLO, {"thread_id": f"{graph}, streamed"})
    streamed = [chunk.message for chunk in chunks if chunk.event == "message"]
    yield _content([*HELLO["messages"], *(message for message in streamed if message is not None)])
    yield _content(app.get_state({"thread_id": f"{graph}, streamed"}).state.context)


def test_six_rounds_give_one_context_in_process_and_on_workers_invoked_and_streamed(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = ["suite_rounds", "suite_spread_rounds"]
    deployment.start_scheduler()
    for _ in range(2):
        deployment.start_worker(*_served(*graphs))
    found = [context for graph in graphs for context in _contexts(graph)]
    monkeypatch.delenv("TENXGRAPH_REDIS_URL")
    found += [context for graph in graphs for context in _contexts(graph)]
    assert len(found) == 12
    assert [role for role, _ in found[0]].count("tool") == 13
    assert all(context == found[0] for context in found)


def test_a_tools_message_is_in_the_next_prompt_and_its_state_merged_in_every_mode(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = ["cities", "spread_cities"]
    deployment.start_scheduler()
    deployment.start_worker(*_served(*graphs))
    ends = [_end_of_cities(graph, way) for graph in graphs for way in ("invoke", "stream")]
    monkeypatch.delenv("TENXGRAPH_REDIS_URL")
    ends += [_end_of_cities(graph, way) for graph in graphs for way in ("invoke", "stream")]
    assert ends == [ends[0]] * 8
    city, seen, said = ends[0]
    assert (city, seen) == ("Oslo", ["Oslo", "Rome"])
    first, second, context, meta = said.split(" | ")
    assert (first, second) == ("City updated to 'Oslo'.", "Rome is next.")
    assert "ToolResult.state names 'context'" in context
    assert "ToolResult.state names 'execution_meta'" in meta


def _end_of_cities(graph: str, way: str) -> tuple[str, list[str], str]:
    app, config = _app(graph), {"thread_id": f"{graph}, {way}"}
    if way == "invoke":
        app.invoke(HELLO, config)
    else:
        assert [chunk.event for chunk in app.stream(HELLO, config)][-1] == "run_end"
    state = app.get_state(config).state
    return state.city, state.seen, state.context[-1].text()


# -- spread


def test_ten_slow_tools_take_ten_places_on_two_processes_at_once(deployment: Deployment) -> None:
    deployment.start_scheduler()
    workers = [deployment.start_worker(*_served("slow_ten"), concurrency=5) for _ in range(2)]
    found = _app("slow_ten").submit(HELLO).result(timeout_s=90)
    assert _outputs(found["messages"]) == ["together"] * 10
    words = [line[0] for line in deployment.ledger]
    assert words == ["start"] * 10 + ["end"] * 10
    processes = Counter(int(line[2]) for line in deployment.ledger if line[0] == "start")
    assert processes == {worker.pid: 5 for worker in workers}


def test_a_call_runs_where_its_tools_queue_is_served(deployment: Deployment) -> None:
    deployment.start_scheduler()
    plain = deployment.start_worker(*_served("two_queues"), options=f"-Q {deployment.queue}")
    gpu = deployment.start_worker(*_served("two_queues"), options="-Q gpu")
    found = _app("two_queues").submit(HELLO).result(timeout_s=60)
    assert _outputs(found["messages"]) == [str(gpu.pid), str(plain.pid)]


def test_a_worker_serves_the_queues_of_its_tools_by_itself(deployment: Deployment) -> None:
    deployment.start_scheduler()
    worker = deployment.start_worker(*_served("two_queues"))
    found = _app("two_queues").submit(HELLO).result(timeout_s=60)
    assert _outputs(found["messages"]) == [str(worker.pid)] * 2


# -- injected


def _told(handle: RunHandle[Any]) -> list[str]:
    state = handle.result(timeout_s=60, response_granularity=FULL)["state"]
    return [*state.notes, *_outputs(state.context)]


@pytest.mark.parametrize("pool", ["threads", "in process"])
def test_two_graphs_of_one_process_keep_their_containers_apart(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, pool: str
) -> None:
    if pool == "in process":
        monkeypatch.delenv("TENXGRAPH_REDIS_URL")
    else:
        deployment.start_scheduler()
        deployment.start_worker(*_served("left", "right"), concurrency=4)
    apps = [_app(graph) for graph in ("left", "right")]
    handles = [app.submit(HELLO) for app in apps]
    assert [_told(handle) for handle in handles] == [[" ".join([name] * 4)] * 3 for name in ("left", "right")]
    assert Counter(line[0] for line in deployment.ledger) == {"node": 2, "tool": 2}

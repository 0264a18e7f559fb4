"""A tool node that distributes: each call a task of its own on its tool's queue, and one arrival for what follows."""

import threading
from typing import Any

import pytest

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph import StateGraph, ToolNode
from tenxgraph.core.state import AgentState, Message, ToolResultBlock
from tenxgraph.engine.runtime import Runtime
from tenxgraph.store.base import TaskSpec
from tenxgraph.store.memory import MemoryStore
from tenxgraph.testing.crash import Crew
from tenxgraph.utils import Send, tool
from tenxgraph.utils.constants import START
from tenxgraph.wire import Arrival
from tests.unit.tools.graphs import asking, results


@tool(queue="gpu")
def draw() -> str:
    return "a picture"


@tool(queue="")
def nowhere() -> str:
    return "nothing"


def add(n: int) -> int:
    return n + 1


def graph(node: ToolNode, **policies: Any) -> StateGraph[AgentState]:
    return StateGraph(name="shop").add_node("tools", node, **policies).add_edge(START, "tools")


def planned(built: StateGraph[AgentState], calls: Any) -> list[TaskSpec]:
    """Return the tasks of the step behind START."""
    crew = Crew(built.define())
    crew.submit(calls, {"thread_id": "T", "run_id": "R"})
    crew.move("T")
    claim = crew.store.tasks("R")
    return [TaskSpec(task.task, task.node, task.queue) for task in claim]


def test_each_call_is_a_task_on_its_tools_queue_or_the_nodes() -> None:
    built = graph(ToolNode([draw, add], distribute=True), queue="tools")
    calls = asking(("draw", {}), ("add", {"n": 1}), ("unknown", {}))
    assert planned(built, calls) == [
        TaskSpec("0", "tools", "gpu"),
        TaskSpec("1", "tools", "tools"),
        TaskSpec("2", "tools", "tools"),
    ]
    assert Runtime(built.define()).queues == ["tools", "gpu"]


def test_a_node_that_does_not_distribute_is_one_task() -> None:
    built = graph(ToolNode([add]), queue="elsewhere")  # whoever starts the run does not go on with it
    calls = asking(("add", {"n": 1}), ("add", {"n": 2}))
    assert planned(built, calls) == [TaskSpec("0", "tools", "elsewhere")]


def test_a_queue_means_nothing_where_nothing_is_distributed_and_is_refused() -> None:
    with pytest.raises(GraphError, match=r"'draw' names the queue 'gpu'.*distribute=True"):
        ToolNode([add, draw])
    with pytest.raises(GraphError, match="'nowhere': queue must be the name of a queue"):
        ToolNode([nowhere], distribute=True)


def take(n: int) -> int:
    return n - 1


@tool(name="draw")
def draw_here() -> str:
    return "a picture"


def test_distribution_and_its_queues_count_in_the_fingerprint_and_other_graphs_keep_theirs() -> None:
    nodes = [
        ToolNode([add]),
        ToolNode([add], distribute=True),
        ToolNode([add, draw], distribute=True),
        ToolNode([add, draw_here], distribute=True),
        ToolNode([add, take], distribute=True),
    ]
    assert len({graph(node).define().fingerprint for node in nodes}) == len(nodes)
    assert graph(ToolNode([add, take])).define().fingerprint == graph(nodes[0]).define().fingerprint


def test_calls_of_one_step_wait_for_none_of_their_siblings() -> None:
    together = threading.Barrier(10)

    def meet(n: int) -> int:
        together.wait(10)
        return n

    app = graph(ToolNode([meet], distribute=True)).compile()
    found = app.invoke(asking(*[("meet", {"n": n}) for n in range(10)]))
    assert [block.output for block in results(found["messages"])] == list(range(10))


def test_each_send_to_it_is_a_round_of_its_own_and_what_follows_runs_for_each() -> None:
    def split(state: AgentState) -> list[Send]:
        _, asks = state.context
        return [Send("tools", {"context": [asks]}), Send("tools", {"context": [asks]})]

    ran: list[int] = []
    built = StateGraph(name="sent").add_node("tools", ToolNode([add], distribute=True))
    built.add_node("after", lambda state: ran.append(1), join="each").add_edge("tools", "after")
    app = built.add_conditional_edges(START, split, {"tools": "tools"}).compile()
    found = app.invoke(asking(("add", {"n": 1}), ("add", {"n": 2})), {"thread_id": "t"}, "full")
    assert len(ran) == 2
    assert len(results(found["state"].context)) == 4


def test_events_name_the_node_and_not_the_call() -> None:
    app = graph(ToolNode([add], distribute=True)).compile()
    chunks = list(app.stream(asking(("add", {"n": 1}), ("add", {"n": 2})), response_granularity="partial"))
    assert {chunk.node for chunk in chunks if chunk.event == "message"} == {"tools"}
    assert sorted(str(chunk.task) for chunk in chunks if chunk.event == "task_end") == ["0", "1"]


def test_a_call_that_is_answered_while_the_run_is_paused_is_not_planned_again() -> None:
    store, answered = MemoryStore(), Message.tool_message([ToolResultBlock(call_id="c0", output="by hand")])
    built = graph(ToolNode([add], distribute=True))
    app = built.compile(store, interrupt_before=["tools"])
    app.invoke(asking(("add", {"n": 1}), ("add", {"n": 2})), {"thread_id": "t"})
    found = app.invoke({"messages": [answered]}, {"thread_id": "t"}, "full")
    assert [block.output for block in results(found["state"].context)] == ["by hand", 3]


@pytest.mark.parametrize(
    "arrival", [Arrival("a"), Arrival("a", '{"x":1}', True), Arrival("a", call="c"), Arrival("a", None, True, "c", 7)]
)
def test_an_arrival_is_read_as_it_was_written(arrival: Arrival) -> None:
    assert Arrival.from_json(arrival.to_json()) == arrival

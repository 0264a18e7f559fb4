"""Policies that a graph sets for all its nodes."""

import pytest

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph import RetryPolicy, StateGraph
from tenxgraph.core.state import AgentState, Message
from tenxgraph.utils.constants import START

RETRY = RetryPolicy(max_attempts=2, initial_s=0.001, jitter=False)
HELLO = {"messages": [Message.text_message("Hi")]}


def nothing(state: AgentState) -> None:
    """Change nothing."""


def test_a_node_has_the_defaults_of_its_graph_where_it_names_none() -> None:
    graph = StateGraph().add_node("a", nothing).set_defaults(retry=RETRY, timeout_s=3, queue="q", priority=2)
    graph.add_node("b", nothing, timeout_s=9, priority=0).add_edge(START, "a").add_edge("a", "b")
    nodes = graph.define().nodes
    assert (nodes["a"].policies.timeout_s, nodes["a"].policies.priority) == (3, 2)
    assert (nodes["b"].policies.timeout_s, nodes["b"].policies.priority) == (9, 0)
    assert {node.policies.queue for node in nodes.values()} == {"q"}
    assert {node.policies.retry for node in nodes.values()} == {RETRY}


def test_a_default_retry_is_made() -> None:
    attempts: list[int] = []

    def fails_once(state: AgentState) -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise ValueError("not yet")
        return "done"

    app = StateGraph().set_defaults(retry=RETRY).add_node(fails_once).add_edge(START, "fails_once").compile()
    assert app.invoke(HELLO)["messages"][-1].text() == "done"
    assert len(attempts) == 2


def test_the_node_that_takes_over_by_default_takes_over_from_all_but_itself() -> None:
    def fails(state: AgentState) -> None:
        raise ValueError("no")

    graph = StateGraph().set_defaults(on_error="rescue").add_node(fails).add_node("rescue", lambda state: "saved")
    app = graph.add_edge(START, "fails").compile()
    assert app.invoke(HELLO)["messages"][-1].text() == "saved"
    assert graph.define().nodes["rescue"].policies.on_error is None


def test_a_default_counts_in_the_fingerprint() -> None:
    def build() -> StateGraph[AgentState]:
        return StateGraph().add_node("a", nothing).add_edge(START, "a")

    assert build().set_defaults(timeout_s=1).define().fingerprint != build().define().fingerprint


def test_a_default_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(GraphError, match=r"by default.*timeout_s must be a number of seconds above 0"):
        StateGraph().set_defaults(timeout_s=-1)

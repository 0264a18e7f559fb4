"""Drawing a graph."""

from typing import Literal

import pytest

from tenxgraph.core.graph import StateGraph
from tenxgraph.core.graph.checks import GraphWarning
from tenxgraph.core.graph.mermaid import draw_mermaid
from tenxgraph.core.state import AgentState
from tenxgraph.utils.command import Command
from tenxgraph.utils.constants import END, START


def step(state: AgentState) -> None: ...


def decide(state: AgentState) -> Literal["tool", "__end__"]:
    return "tool"


def is_done(state: AgentState) -> bool:
    return True


def go(state: AgentState) -> Command[Literal["agent"]]: ...  # type: ignore[empty-body]


def test_every_kind_of_edge_is_drawn() -> None:
    graph = (
        StateGraph()
        .add_node("agent", step, on_error="rescue")
        .add_node("tool", go)
        .add_node("rescue", step)
        .add_edge(START, "agent")
        .add_conditional_edges("agent", decide)
        .add_conditional_edges("agent", is_done, {True: END, False: "agent"})
    )
    assert draw_mermaid(graph.define()).splitlines() == [
        "flowchart TD",
        '    start(["START"])',
        '    n0["agent"]',
        '    n1["tool"]',
        '    n2["rescue"]',
        '    stop(["END"])',
        "    start --> n0",
        '    n0 -. "decide" .-> n1',
        '    n0 -. "decide" .-> stop',
        '    n0 -. "is_done: True" .-> stop',
        '    n0 -. "is_done: False" .-> n0',
        '    n0 -. "on error" .-> n2',
        '    n1 -. "goto" .-> n0',
        "    n2 --> stop",
        "    linkStyle 5 stroke:#c33",
    ]


def test_an_undeclared_condition_leads_to_a_question_mark() -> None:
    graph = StateGraph().add_node("a", step).set_entry_point("a").add_conditional_edges("a", lambda state: "a")
    with pytest.warns(GraphWarning):
        lines = draw_mermaid(graph.define()).splitlines()
    assert '    open{{"?"}}' in lines
    assert '    n0 -. "#60;lambda#62;" .-> open' in lines


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ('say "hi"', "say #34;hi#34;"),
        ("a]-->b", "a]--#62;b"),
        ("#quot;", "#35;quot;"),
        ("`x`", "#96;x#96;"),
        ("ü 🤖", "ü 🤖"),
    ],
)
def test_a_name_cannot_break_the_drawing(name: str, shown: str) -> None:
    drawn = draw_mermaid(StateGraph().add_node(name, step).set_entry_point(name).define())
    assert f'    n0["{shown}"]' in drawn.splitlines()

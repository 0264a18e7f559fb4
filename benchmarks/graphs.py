"""The graphs that the benchmarks' workers serve. Workers import no more than this, so it stays small."""

import asyncio
from itertools import pairwise
from typing import Any

from tenxgraph.core.graph import CompiledGraph, RunHandle, StateGraph
from tenxgraph.core.state import AgentState, Message
from tenxgraph.utils import END, Send

MODES: dict[str, dict[str, Any]] = {"task": {}, "sticky": {"steps": "sticky"}}
WAITS = 3
WAIT_S = 0.5


def answer(_state: AgentState) -> str:
    """Answer at once."""
    return "fine"


async def wait(_state: AgentState) -> None:
    """Wait, as for a model."""
    await asyncio.sleep(WAIT_S)


def speak(_state: AgentState) -> str:
    """Add a message of some 200 bytes."""
    return "a word " * 20


def again(state: AgentState, config: dict[str, Any]) -> str:
    """Speak as often as the config says."""
    return "speak" if state.execution_meta.step < config["length"] else END


def said(number: int) -> Message:
    """Return one of a conversation's messages, of some 200 bytes as JSON."""
    return Message.text_message(f"message {number} of a long conversation", "assistant" if number % 2 else "user")


def talk(app: CompiledGraph[AgentState], text: str = "Go", **config: Any) -> RunHandle[AgentState]:
    """Begin a run, on a fresh thread unless the config names one."""
    return app.submit({"messages": [Message.text_message(text)]}, {"recursion_limit": 60, **config})


def _waiting() -> StateGraph[AgentState]:
    graph = StateGraph(AgentState, name="waiting")
    names = [f"wait_{number}" for number in range(WAITS)]
    for name in names:
        graph.add_node(name, wait)
    for source, target in pairwise(names):
        graph.add_edge(source, target)
    return graph.set_entry_point(names[0])


def chain_of(steps: int) -> StateGraph[AgentState]:
    """Return a graph of as many nodes, one after another, that each add a message."""
    graph = StateGraph(AgentState, name=f"chain-{steps}")
    names = [f"speak_{number}" for number in range(steps)]
    for name in names:
        graph.add_node(name, speak)
    for source, target in pairwise(names):
        graph.add_edge(source, target)
    return graph.set_entry_point(names[0])


def spread(state: AgentState) -> list[Send]:
    """Branch as often as the last message says."""
    return [Send("branch", {}) for _ in range(int(state.context[-1].text()))]


def gather(_state: AgentState) -> None:
    """Come after all branches."""


def _fan() -> StateGraph[AgentState]:
    graph = StateGraph(AgentState, name="fan").add_node("begin", gather).add_node("branch", speak)
    graph.add_node("gather", gather).set_entry_point("begin")
    return graph.add_conditional_edges("begin", spread, ["branch"]).add_edge("branch", "gather")


idle = StateGraph(AgentState, name="idle").add_node(answer).set_entry_point("answer")
waiting = _waiting()
chain_10, chain_20, fan = chain_of(10), chain_of(20), _fan()
talking = (
    StateGraph(AgentState, name="talking")
    .add_node(speak)
    .set_entry_point("speak")
    .add_conditional_edges("speak", again, ["speak", END])
)

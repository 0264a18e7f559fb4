"""The graphs that the benchmarks' workers serve. Workers import no more than this, so it stays small."""

import asyncio
from itertools import pairwise
from typing import Any

from tenxgraph.core.graph import StateGraph
from tenxgraph.core.state import AgentState
from tenxgraph.utils import END

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
    return "speak" if state.execution_meta.step < config["steps"] else END


def _waiting() -> StateGraph[AgentState]:
    graph = StateGraph(AgentState, name="waiting")
    names = [f"wait_{number}" for number in range(WAITS)]
    for name in names:
        graph.add_node(name, wait)
    for source, target in pairwise(names):
        graph.add_edge(source, target)
    return graph.set_entry_point(names[0])


idle = StateGraph(AgentState, name="idle").add_node(answer).set_entry_point("answer")
waiting = _waiting()
talking = (
    StateGraph(AgentState, name="talking")
    .add_node(speak)
    .set_entry_point("speak")
    .add_conditional_edges("speak", again, ["speak", END])
)

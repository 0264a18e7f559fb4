"""The tasks of a tool node that distributes: one for each open call, and one arrival again for what follows."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tenxgraph.core.graph.tool_calls import open_calls
from tenxgraph.core.graph.tool_node import ToolNode
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.engine.runtime import Runtime
from tenxgraph.store.base import TaskSpec
from tenxgraph.wire import Arrival, Finished, Target


@dataclass(frozen=True, slots=True)
class Part:
    """An arrival as a task.

    Attributes:
        queue: That its tool names; None for its node's.
    """

    arrival: Arrival
    queue: str | None = None


def parts_of(tools: ToolNode, arrival: Arrival, state: AgentState) -> list[Part]:
    """Return a task for each open call in call order; where there is none, the node runs whole."""
    _, calls = open_calls(state.context)
    parts = (Part(replace(arrival, call=call.id, part=part), tools.queue_of(call)) for part, call in enumerate(calls))
    return list(parts) or [Part(arrival)]


def distributing(runtime: Runtime[Any], node: str) -> ToolNode | None:
    """Return the tool node of this name if it distributes its calls."""
    known = runtime.definition.nodes.get(node)
    fn = None if known is None else known.fn
    return fn if isinstance(fn, ToolNode) and fn.distribute else None


def whole(arrivals: Iterable[Arrival]) -> list[Arrival]:
    """Return the arrivals as they were before they became tasks."""
    return [replace(arrival, call=None) for arrival in arrivals if arrival.part == 0]


def has_calls(specs: Sequence[TaskSpec]) -> bool:
    """Tell whether one of the tasks makes a single call."""
    return any(Arrival.from_json(spec.body).call is not None for spec in specs)


def finished(tasks: Iterable[tuple[Arrival, tuple[Target, ...] | None]]) -> Iterator[Finished]:
    """Yield one finished task for each arrival. If a call failed over to another node, that is where all lead."""
    lead: Finished | None = None
    for arrival, targets in tasks:
        if lead is None or arrival.part == 0:
            if lead is not None:
                yield lead
            lead = Finished(arrival.node, arrival.send, targets)
        elif lead.targets is None:
            lead = replace(lead, targets=targets)
    if lead is not None:
        yield lead

"""Build a graph, compile it, run it. Names are imported on first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenxgraph.core.graph.agent import Agent
    from tenxgraph.core.graph.compiled_graph import CompiledGraph
    from tenxgraph.core.graph.retry_policy import RetryPolicy
    from tenxgraph.core.graph.run_handle import RunHandle
    from tenxgraph.core.graph.run_status import RunStatus
    from tenxgraph.core.graph.state_graph import StateGraph
    from tenxgraph.core.graph.state_snapshot import StateSnapshot
    from tenxgraph.core.graph.tool_node import ToolNode

__all__ = [
    "Agent",
    "CompiledGraph",
    "RetryPolicy",
    "RunHandle",
    "RunStatus",
    "StateGraph",
    "StateSnapshot",
    "ToolNode",
]

_MODULES = {
    "Agent": "agent",
    "CompiledGraph": "compiled_graph",
    "RetryPolicy": "retry_policy",
    "RunHandle": "run_handle",
    "RunStatus": "run_status",
    "StateGraph": "state_graph",
    "StateSnapshot": "state_snapshot",
    "ToolNode": "tool_node",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

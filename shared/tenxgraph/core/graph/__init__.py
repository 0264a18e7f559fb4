"""Build a graph, compile it, run it. Names are imported on first use."""

from typing import TYPE_CHECKING

from tenxgraph._lazy import lazy

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

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "Agent": "tenxgraph.core.graph.agent",
            "CompiledGraph": "tenxgraph.core.graph.compiled_graph",
            "RetryPolicy": "tenxgraph.core.graph.retry_policy",
            "RunHandle": "tenxgraph.core.graph.run_handle",
            "RunStatus": "tenxgraph.core.graph.run_status",
            "StateGraph": "tenxgraph.core.graph.state_graph",
            "StateSnapshot": "tenxgraph.core.graph.state_snapshot",
            "ToolNode": "tenxgraph.core.graph.tool_node",
        },
    )

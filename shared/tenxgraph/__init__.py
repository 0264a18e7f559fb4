"""Graphs of agents and functions that keep their state. Importing loads nothing; a name loads what it needs."""

from typing import TYPE_CHECKING

from tenxgraph._lazy import lazy

if TYPE_CHECKING:
    from tenxgraph.core.graph import Agent, StateGraph, ToolNode
    from tenxgraph.core.state import AgentState, Message
    from tenxgraph.utils.constants import END, START

__version__ = "0.1.0"

__all__ = ["END", "START", "Agent", "AgentState", "Message", "StateGraph", "ToolNode", "__version__"]

# Hidden from type checkers, which would take any name for granted beside a module's own __getattr__.
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "Agent": "tenxgraph.core.graph",
            "AgentState": "tenxgraph.core.state",
            "END": "tenxgraph.utils.constants",
            "Message": "tenxgraph.core.state",
            "START": "tenxgraph.utils.constants",
            "StateGraph": "tenxgraph.core.graph",
            "ToolNode": "tenxgraph.core.graph",
        },
    )

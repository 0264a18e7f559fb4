"""An agent that calls tools until it can answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.agent import Agent
from tenxgraph.core.graph.compiled_graph import CompiledGraph
from tenxgraph.core.graph.state_graph import StateGraph
from tenxgraph.core.graph.tool_calls import open_calls
from tenxgraph.core.graph.tool_node import ToolNode
from tenxgraph.core.state import AgentState, BaseContextManager
from tenxgraph.utils.constants import END, START

if TYPE_CHECKING:
    from injectq import InjectQ
    from pydantic_ai.models import Model

MAIN: Final = "MAIN"
TOOL: Final = "TOOL"


class ReactAgent:
    """A graph of two nodes: ``MAIN`` asks the model, ``TOOL`` makes the calls it asks for, until it asks for none.

    Example: ``app = ReactAgent("gpt-5", [get_weather], "Be brief.").compile()``.

    Args:
        model: As for ``Agent``; or any node that answers in its place, such as a ``TestAgent``.
        tools: Functions, or a ToolNode.
        system_prompt: As for ``Agent``.
        state: The state class or instance.
        context_manager: Shortens what the model is sent; ``trim_context`` is on where one is given.
        container: The injectq container.
        name: The graph's name.
        **agent_options: Any other argument of ``Agent``.

    Raises:
        GraphError: What ``Agent``, ``ToolNode`` and ``StateGraph`` find.
    """

    def __init__(
        self,
        model: str | Model | Callable[..., Any],
        tools: Sequence[Callable[..., Any]] | ToolNode,
        system_prompt: str | None = None,
        *,
        state: type[AgentState] | AgentState = AgentState,
        context_manager: BaseContextManager | None = None,
        container: InjectQ | None = None,
        name: str | None = None,
        **agent_options: Any,
    ) -> None:
        self.tool_node: ToolNode = tools if isinstance(tools, ToolNode) else ToolNode(tools)
        if system_prompt is not None:
            agent_options["system_prompt"] = system_prompt
        if context_manager is not None:
            agent_options.setdefault("trim_context", True)
        self.main: Callable[..., Any] = _main(model, self.tool_node, agent_options)
        self.graph: StateGraph[Any] = StateGraph(state, context_manager, container=container, name=name)
        self.graph.add_node(MAIN, self.main).add_node(TOOL, self.tool_node)
        self.graph.add_edge(START, MAIN).add_edge(TOOL, MAIN)
        self.graph.add_conditional_edges(MAIN, asks_for_tools, {True: TOOL, False: END})

    def compile(self, checkpointer: Any = None, **options: Any) -> CompiledGraph[Any]:
        """Return what runs it; the arguments are those of ``StateGraph.compile``."""
        return self.graph.compile(checkpointer, **options)


def asks_for_tools(state: AgentState) -> bool:
    """Tell whether the last assistant message has a call that nobody answered: the condition of a tool loop."""
    return bool(open_calls(state.context)[1])


def _main(model: Any, tool_node: ToolNode, options: dict[str, Any]) -> Callable[..., Any]:
    if not callable(model):
        return Agent(model, tool_node=tool_node, **options)
    # A scripted stand-in has no prompt and no settings; the graph's own context manager does not concern it.
    unused = sorted(set(options) - {"trim_context", "system_prompt"})
    if unused:
        raise GraphError(
            f"ReactAgent got a node of its own to answer, which takes no {', '.join(unused)}: leave them out.",
            error_code="INVALID_AGENT",
        )
    return model  # type: ignore[no-any-return]

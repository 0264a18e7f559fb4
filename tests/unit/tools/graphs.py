"""Small graphs around tools."""

from collections.abc import Callable, Sequence
from typing import Any

from tenxgraph.core.graph import CompiledGraph, StateGraph, ToolNode
from tenxgraph.core.state import AgentState, Message, ToolResultBlock
from tenxgraph.utils.constants import START


def tool_app(
    tools: Sequence[Callable[..., Any]] | ToolNode, state: type[AgentState] = AgentState, **options: Any
) -> CompiledGraph[Any]:
    """Return a graph whose only node makes the calls of the message that it is given."""
    graph = StateGraph(state, **options)
    graph.add_node("TOOL", tools if isinstance(tools, ToolNode) else ToolNode(tools))
    graph.add_edge(START, "TOOL")
    return graph.compile()


def asking(*calls: Any, form: str = "blocks") -> dict[str, Any]:
    """Return an input whose last message asks for tools: (name, args) each, with ids from c0 up."""
    blocks = [
        {"type": "tool_call", "id": f"c{at}", "name": name, "args": args} for at, (name, args) in enumerate(calls)
    ]
    raw = [{"id": f"c{at}", "name": name, "args": args} for at, (name, args) in enumerate(calls)]
    message: dict[str, Any] = {"role": "assistant", "content": blocks if form == "blocks" else []}
    if form == "raw":
        message["tools_calls"] = raw
    return {"messages": [Message.text_message("go"), Message.model_validate(message)]}


def results(messages: Sequence[Message]) -> list[ToolResultBlock]:
    """Return the results in the tool messages."""
    blocks = [block for message in messages if message.role == "tool" for block in message.content]
    return [block for block in blocks if isinstance(block, ToolResultBlock)]

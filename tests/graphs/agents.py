"""Graphs whose point is what a model is sent. The models are functions."""

from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tenxgraph.core.graph import Agent, StateGraph
from tenxgraph.core.state import AgentState, MessageContextManager
from tenxgraph.testing.oracle import GraphCase
from tests.graphs.tools import ask, chain


def _count(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    sent = [part for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
    return ModelResponse(parts=[TextPart(f"sent {len(sent)}, the last {sent[-1].content}")])


def _trimmed() -> StateGraph[Any]:
    built: StateGraph[Any] = StateGraph(AgentState, context_manager=MessageContextManager(2))
    built.add_node("main", Agent(FunctionModel(_count), trim_context=True))
    return chain(built, "main")


CASES = [
    GraphCase(
        "trimmed_context",
        _trimmed,
        [ask(text) for text in "abcde"],
        [["main"]] * 5,
        {
            "context": [
                "user: a",
                "user: d",
                "assistant: sent 3, the last d",
                "user: e",
                "assistant: sent 3, the last e",
            ]
        },
    ),
]

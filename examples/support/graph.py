"""The graph: an agent and its tools. Workers take it as ``examples.support.graph:app``, in the repository's root."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from examples.support.script import scripted
from examples.support.state import SupportState
from examples.support.tools import look_up_order, refund_item
from tenxgraph.core.graph import CompiledGraph
from tenxgraph.core.state import MessageContextManager
from tenxgraph.prebuilt import ReactAgent

ROOT = Path(__file__).resolve().parents[2]
MODEL_VARIABLE = "TENXGRAPH_SUPPORT_MODEL"
PROMPT = (
    "You work for the support of a shop. Look orders up before you speak of them. Refund what arrived broken; "
    "a person approves each refund. Be brief and kind, and never promise what a tool has not confirmed."
)


def build(model: str | None = None) -> ReactAgent:
    """Return the graph, not yet compiled; without a model it answers from the script."""
    tools: list[Callable[..., Any]] = [look_up_order, refund_item]
    if not model:
        return ReactAgent(scripted, tools, state=SupportState, name="support")
    manager = MessageContextManager(max_messages=20)
    return ReactAgent(model, tools, PROMPT, state=SupportState, context_manager=manager, name="support")


app: CompiledGraph[SupportState] = build(os.environ.get(MODEL_VARIABLE)).compile()

"""The graphs of the benchmarks of agents and token streams."""

import asyncio
import os
from typing import Any

from tenxgraph.core.graph import StateGraph
from tenxgraph.core.state import AgentState, Message, TextBlock
from tenxgraph.prebuilt import ReactAgent
from tenxgraph.utils import START, emit

TOKENS_PER_S = 100
MODEL_URL = "BENCHMARK_MODEL_URL"


def get_weather(city: str) -> str:
    """Tell the weather.

    Args:
        city: The place.
    """
    return f"Rain in {city}"


def _agents() -> StateGraph[AgentState]:
    url = os.environ.get(MODEL_URL, "http://127.0.0.1:1/v1")
    return ReactAgent("m", [get_weather], "Be brief.", base_url=url, name="agents").graph


async def tell(_state: AgentState, config: dict[str, Any]) -> Message:
    """Tell tokens as a fast model does."""
    loop = asyncio.get_running_loop()
    begin_s = loop.time()
    for number in range(config["tokens"]):
        piece: list[Any] = [TextBlock(text="word ")]
        emit(Message(message_id="told", role="assistant", content=piece, delta=True))
        await asyncio.sleep(max(0.0, begin_s + (number + 1) / TOKENS_PER_S - loop.time()))
    return Message.text_message("word " * config["tokens"], "assistant", "told")


agents = _agents()
talkers = StateGraph(AgentState, name="talkers").add_node("tell", tell).add_edge(START, "tell")

"""Graphs of the fault catalogue's cases, as workers load them."""

import asyncio
import operator
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from tenxgraph.core.graph import RetryPolicy, StateGraph
from tenxgraph.core.state import AgentState, Message, TextBlock
from tenxgraph.utils import END, START, Send, emit
from tests.acceptance.graphs import chain_of, note

BRANCHES = 200
APPENDERS = 16
LINE = "x" * 2048


class Work(AgentState):
    """``lines`` is appended to; ``single`` has no reducer."""

    lines: Annotated[list[str], operator.add] = []
    part: int = 0
    single: str = ""


def _takes_its_time(part: int, longest_s: float) -> None:
    time.sleep(random.Random(part).uniform(0, longest_s))


def _work(state: Work, config: dict[str, Any]) -> dict[str, Any]:
    if "quick" not in config:
        note("start", state.part, os.getpid())
        _takes_its_time(state.part, 0.1)
    update = {"lines": [f"part {state.part}"], "context": [Message.text_message(f"did {state.part}", "assistant")]}
    return {**update, "single": f"by {state.part}"} if config.get("clash") and state.part < 2 else update


def _parts(state: Work) -> list[Send]:
    return [Send("work", {"part": part}) for part in range(BRANCHES)]


def many() -> StateGraph[Work]:
    """Case F: 200 branches by Send."""
    graph = StateGraph(Work, name="many").add_node("split", lambda state: None).add_node("work", _work)
    graph.add_node("join", lambda state: {"lines": [f"{len(state.lines)} parts"]})
    graph.add_conditional_edges("split", _parts, ["work"])
    return graph.add_edge(START, "split").add_edge("work", "join")


def _append_late(name: str) -> Any:
    def append(state: Work) -> dict[str, Any]:
        time.sleep(random.random() / 100)
        return {"lines": [name], "context": [Message.text_message(name, "assistant")]}

    return append


def appenders() -> StateGraph[Work]:
    """Case d: 16 branches that append to one list after random delays."""
    graph = StateGraph(Work, name="appenders").add_node("join", lambda state: {"lines": ["join"]})
    for number in range(APPENDERS):
        name = f"b{number}"
        graph.add_node(name, _append_late(name)).add_edge(START, name).add_edge(name, "join")
    return graph


def _say(state: Work) -> dict[str, Any]:
    line = LINE if state.part == 0 else "short"
    return {"context": [Message.text_message(line, "assistant")], "single": str(int(state.single or 0) + 1)}


def _again(state: Work) -> Literal["say", "__end__"]:
    return END if int(state.single) % (500 if state.part == 0 else 50) == 0 else "say"


def growing() -> StateGraph[Work]:
    """Case K: 500 steps of 2 KB; 50 short ones where ``part`` is set."""
    graph = StateGraph(Work, name="growing").add_node("say", _say).add_edge(START, "say")
    return graph.add_conditional_edges("say", _again)


chain = chain_of(3)
chain_of_another_version = chain_of(4)


TOKENS = 10_000


def _tell_until_the_end(state: AgentState, config: dict[str, Any]) -> Iterator[None]:
    attempt = int(config["fails"]) and 1 + len(Path(os.environ["LEDGER"]).read_text().splitlines())
    note("start", attempt)
    for number in range(TOKENS):
        if attempt == 1 and number == 5:
            raise RuntimeError("broke off")
        piece: list[Any] = [TextBlock(text=f"{number} ")]
        emit(Message(message_id="told", role="assistant", content=piece, delta=True))
        if number % 100 == 0:
            yield


def _told() -> Message:
    return Message.text_message("".join(f"{number} " for number in range(TOKENS)), "assistant", "told")


def _tells(state: AgentState, config: dict[str, Any]) -> Message:
    for _ in _tell_until_the_end(state, config):
        time.sleep(0.01)
    return _told()


async def _atells(state: AgentState, config: dict[str, Any]) -> Message:
    for _ in _tell_until_the_end(state, config):
        await asyncio.sleep(0.01)
    return _told()


def _telling(name: str, node: Any) -> StateGraph[AgentState]:
    graph = StateGraph(name=name).add_node("tell", node, retry=RetryPolicy(initial_s=0, max_attempts=2))
    return graph.add_edge(START, "tell")


telling = _telling("telling", _tells)
atelling = _telling("atelling", _atells)


async def _block(state: AgentState) -> Message:
    note("start", "block")
    time.sleep(4 * float(os.environ["TENXGRAPH_LEASE_S"]))  # noqa: ASYNC251  # that is the fault
    note("end", "block")
    return Message.text_message("blocked", "assistant")


async def _beside(state: AgentState) -> Message:
    note("start", "beside")
    await asyncio.sleep(0.3)  # not over before the loop is blocked
    note("end", "beside")
    return Message.text_message("waited", "assistant")


blocking = StateGraph(name="blocking").add_node("block", _block).add_edge(START, "block")
beside = StateGraph(name="beside").add_node("wait", _beside).add_edge(START, "wait")
many_parts = many()

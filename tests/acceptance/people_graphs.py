"""Graphs that people answer, stop and cancel, as workers load them."""

import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from tenxgraph.core.graph import RetryPolicy, StateGraph, ToolNode
from tenxgraph.utils import START, interrupt
from tests.acceptance.graphs import Notes, note, wait_for

Config = Mapping[str, Any]


def _once(state: Notes, config: Config) -> dict[str, Any]:
    note(config["thread_id"], "once")
    return {"notes": [f"o={interrupt('o')}"]}


async def _twice(state: Notes, config: Config) -> dict[str, Any]:
    note(config["thread_id"], "twice")
    first = interrupt("q1")
    return {"notes": [f"q1={first} q2={interrupt('q2')}"]}


def pay(config: Config) -> str:
    """Pay."""
    return str(interrupt("t1"))


async def ship() -> str:
    """Ship."""
    return str(interrupt("t2"))


def look(config: Config) -> str:
    """Look."""
    note(config["thread_id"], "look")
    return "seen"


class CountedTools(ToolNode):
    """Notes each time that it runs."""

    async def __call__(self, state: Any, config: Config | None = None) -> dict[str, Any] | None:
        assert config is not None
        note(config["thread_id"], "tools")
        return await super().__call__(state, config)


def _questions(name: str, tools: ToolNode) -> StateGraph[Notes]:
    graph = StateGraph(Notes, name=name).add_node("once", _once).add_node("twice", _twice)
    graph.add_node("tools", tools).add_node("join", lambda state: {"notes": ["join"]})
    for name in ("once", "twice", "tools"):
        graph.add_edge(START, name).add_edge(name, "join")
    return graph


questions = _questions("questions", CountedTools([pay, ship, look]))
questions_apart = _questions("questions_apart", ToolNode([pay, ship, look], distribute=True))


def _ask_and_hang(state: Notes) -> dict[str, Any]:
    note("begins")
    given = interrupt("sure?", response_schema={"type": "string"})
    note("has", given)
    wait_for("go")
    return {"notes": [given]}


ask_and_hang = StateGraph(Notes, name="ask_and_hang").add_node("ask", _ask_and_hang).set_entry_point("ask")


def _held(name: str) -> Callable[[Notes, Config], dict[str, Any]]:
    def hold(state: Notes, config: Config) -> dict[str, Any]:
        note("start", name)
        wait_for("go")
        note("end", name)
        return {"notes": [name]}

    return hold


def _trio() -> StateGraph[Notes]:
    graph = StateGraph(Notes, name="trio").add_node("join", lambda state: {"notes": ["join"]})
    for name in "abc":
        graph.add_node(name, _held(name)).add_edge(START, name).add_edge(name, "join")
    return graph


trio = _trio()


def _ends_soon(state: Notes, config: Config) -> dict[str, Any]:
    note(config["thread_id"], "a")
    time.sleep(random.random() / 100)
    return {"notes": ["a"]}


def _ends_on_a_stop(state: Notes, config: Config) -> dict[str, Any]:
    deadline_s = time.monotonic() + 20
    while "quick" not in config and not state.is_stopped_requested() and time.monotonic() < deadline_s:
        threading.Event().wait(0.01)
    return {"notes": ["b"]}


edge = StateGraph(Notes, name="edge").add_node("a", _ends_soon).add_node("b", _ends_on_a_stop)
edge.add_node("c", lambda state: {"notes": ["c"]}).add_edge(START, "a").add_edge("a", "b").add_edge("b", "c")


def _lazy(state: Notes, config: Config) -> dict[str, Any]:
    if "quick" in config:
        return {"notes": ["fresh"]}
    note("start")
    if "fails" in config:
        raise ConnectionError("not now")
    wait_for("go")
    note("end")
    return {"notes": ["late"]}


lazy = StateGraph(Notes, name="lazy").set_entry_point("lazy")
lazy.add_node("lazy", _lazy, retry=RetryPolicy(max_attempts=5, initial_s=1.0, jitter=False))

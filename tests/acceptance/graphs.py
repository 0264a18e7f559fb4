"""Graphs that the tests' workers serve. Nodes note what they do in the file that LEDGER names."""

import asyncio
import os
import signal
import threading
import time
from pathlib import Path
from typing import Annotated, Any

from tenxgraph.core.graph import StateGraph
from tenxgraph.core.state import AgentState
from tenxgraph.core.state.reducers import append_items
from tenxgraph.utils import END, Send, interrupt


def note(*words: object) -> None:
    """Append a line to the ledger, in one write."""
    with Path(os.environ["LEDGER"]).open("a") as ledger:
        ledger.write(" ".join(map(str, words)) + "\n")


def ledger_lines() -> list[list[str]]:
    """Return what was noted so far: a list of words for each whole line."""
    text = Path(os.environ["LEDGER"]).read_text()
    return [line.split() for line in text[: text.rfind("\n") + 1].splitlines()]


def wait_for(name: str) -> None:
    """Wait until the test puts a file beside the ledger."""
    deadline_s = time.monotonic() + 60
    while not Path(os.environ["LEDGER"]).with_name(name).exists() and time.monotonic() < deadline_s:
        threading.Event().wait(0.02)


class Notes(AgentState):
    notes: Annotated[list[str], append_items] = []
    total: int = 0
    part: int = 0


def chain_of(length: int, name: str = "chain") -> StateGraph[Notes]:
    """Nodes in a row, each of which adds a note."""
    graph = StateGraph(Notes, name=name)
    for number in range(length):

        def step(state: Notes, number: int = number) -> dict[str, Any]:
            return {"notes": [f"n{number}"], "total": state.total + 1}

        graph.add_node(f"n{number}", step)
        graph.add_edge(f"n{number - 1}", f"n{number}") if number else graph.set_entry_point("n0")
    return graph


chain = chain_of(3)
long_chain = chain_of(20, "long")
hundred = chain_of(100, "hundred")


def _fan() -> StateGraph[Notes]:
    graph = StateGraph(Notes, name="fan")
    graph.add_node("split", lambda state: {"notes": ["split"]})
    for branch in "cab":
        graph.add_node(branch, lambda state, branch=branch: {"notes": [branch]})
        graph.add_edge("split", branch).add_edge(branch, "join")
    graph.add_node("join", lambda state: {"notes": ["join"], "total": len(state.notes)})
    return graph.set_entry_point("split")


fan = _fan()


def _sends() -> StateGraph[Notes]:
    graph = StateGraph(Notes, name="sends")
    graph.add_node("plan", lambda state: None)
    graph.add_node("work", lambda state: {"notes": [f"part {state.part}"]})
    graph.add_node("join", lambda state: {"total": len(state.notes)})

    def parts(state: Notes) -> list[Send]:
        return [Send("work", {"part": part}) for part in range(8)]

    graph.add_conditional_edges("plan", parts, {"work": "work"})
    return graph.add_edge("work", "join").set_entry_point("plan")


sends = _sends()


def _ask(state: Notes) -> dict[str, Any]:
    return {"notes": [f"answered {interrupt('go on?')}"]}


asking = StateGraph(Notes, name="asking").add_node("ask", _ask).set_entry_point("ask")


def _slow(state: Notes) -> dict[str, Any]:
    note("start", os.getpid(), os.getppid())
    wait_for("go")
    note("end", os.getpid())
    return {"notes": ["slow"]}


slow = StateGraph(Notes, name="slow").add_node("slow", _slow).set_entry_point("slow")


def _stubborn(state: Notes) -> dict[str, Any]:
    note("start", os.getpid())
    deadline_s = time.monotonic() + 30
    while not state.is_stopped_requested() and time.monotonic() < deadline_s:
        threading.Event().wait(0.02)
    return {"notes": [f"stopped {state.is_stopped_requested()}"]}


stubborn = StateGraph(Notes, name="stubborn").add_node("loop", _stubborn).add_node("after", lambda state: None)
stubborn.add_edge("loop", "after").set_entry_point("loop")


async def _endless(state: Notes) -> None:
    note("start", os.getpid())
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        note("cancelled")
        raise


endless = StateGraph(Notes, name="endless").add_node("wait", _endless).set_entry_point("wait")


def _deaf(state: Notes) -> None:
    note("start", os.getpid())
    threading.Event().wait(60)


deaf = StateGraph(Notes, name="deaf").add_node("hang", _deaf, timeout_s=1.0).set_entry_point("hang")


class LoopBoundClient:
    """Works on the one loop that it was first used on, as clients of models do."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    async def ask(self) -> str:
        loop = asyncio.get_running_loop()
        self._loop = self._loop or loop
        assert loop is self._loop, "attached to a different loop"
        await asyncio.sleep(0)
        return "pong"


_client = LoopBoundClient()


async def _asks(state: Notes) -> dict[str, Any]:
    return {"notes": [await _client.ask()]}


clients = StateGraph(Notes, name="clients")
for _number in range(4):
    clients.add_node(f"c{_number}", _asks)
    clients.add_edge(f"c{_number}", f"c{_number + 1}" if _number < 3 else END)
clients.set_entry_point("c0")


def _pinned(state: Notes) -> dict[str, Any]:
    return {"notes": ["pinned"]}


pinned = StateGraph(Notes, name="pinned").add_node("pin", _pinned, queue="pinned-queue").set_entry_point("pin")


def _killer(state: Notes) -> dict[str, Any]:
    note("start", os.getpid())
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


killer = StateGraph(Notes, name="killer").add_node("kill", _killer).set_entry_point("kill")


async def _pause(state: Notes) -> dict[str, Any]:
    await asyncio.sleep(0.5)
    return {"total": state.total + 1}


waiting = StateGraph(Notes, name="waiting").add_node("pause", _pause).set_entry_point("pause")

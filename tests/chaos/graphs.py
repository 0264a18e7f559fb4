"""The graphs of the chaos run: ten steps and more, with fan-outs, loops, and nodes that ask, fail or are tried again.

Each update carries (run, step, task): the final state itself shows what was merged, how often and in which order.
Starts are noted in the file that LEDGER names: what was started may be more than what was merged.
"""

import asyncio
import os
import random
import time
from pathlib import Path
from typing import Annotated, Any, Final

from tenxgraph.core.graph import RetryPolicy, StateGraph
from tenxgraph.core.state import AgentState, Message
from tenxgraph.core.state.reducers import append_items
from tenxgraph.utils import Send, interrupt
from tenxgraph.utils.task_context import current_task

AGAIN: Final = "-again"
"""Ends the id of the run that goes on where one failed or was stopped."""

NEXT: Final = "-next"
"""Ends the id of the run after one that was ended."""

QUESTIONS: Final = {"one": 1, "two": 2, "other": 1}
"""Of the nodes of a survey: how much each asks."""

_PARTS: Final = 4
_ROUNDS: Final = 2
_LONG_SHARE: Final = 0.01
_chance = random.Random()


class Marks(AgentState):
    """What was merged."""

    marks: Annotated[list[str], append_items] = []
    rounds: int = 0
    part: int = -1


def _begin() -> dict[str, Any]:
    """Note the start; return an update that says what it is."""
    task = current_task("mark")
    origin = task.run_id.removesuffix(AGAIN)
    what = (task.run_id, task.step, task.task, task.node, task.attempt)
    words = (*what, os.environ.get("CHAOS_NAME", "-"), os.getpid(), time.time())
    with Path(os.environ["LEDGER"]).open("a") as ledger:
        ledger.write(" ".join(map(str, words)) + "\n")
    return {"marks": [f"{origin}/{task.step}/{task.task}/{task.node}"]}


def _work_s() -> float:
    """Mostly short; now and then longer than a lease."""
    longest_s = float(os.environ.get("CHAOS_WORK_S", "0"))
    long_s = float(os.environ.get("CHAOS_LONG_S", "0"))
    return long_s if _chance.random() < _LONG_SHARE else _chance.uniform(0, longest_s)


def _sync(state: Marks) -> dict[str, Any]:
    update = _begin()
    time.sleep(_work_s())
    return update


async def _async(state: Marks) -> dict[str, Any]:
    update = _begin()
    await asyncio.sleep(_work_s())
    return update


def _join(state: Marks) -> dict[str, Any]:
    update = _sync(state)
    said = Message.text_message(f"{len(state.marks)} before", role="assistant")
    return {**update, "messages": [said], "rounds": state.rounds + 1}


def _parts(state: Marks) -> list[Send]:
    return [Send("part", {"part": part}) for part in range(_PARTS)]


def _again(state: Marks) -> str:
    return "first" if state.rounds < _ROUNDS else "last"


def _ask(state: Marks) -> dict[str, Any]:
    update = _begin()
    return {"marks": [f"{update['marks'][0]} {interrupt('go on?')}"]} if state.rounds == 1 else update


def _flaky(state: Marks) -> dict[str, Any]:
    update = _begin()
    if current_task("flaky").attempt == 1:
        raise ConnectionError("the first attempt never works")
    return update


def _broken(state: Marks) -> dict[str, Any]:
    update = _begin()
    if state.rounds == 1 and not current_task("broken").run_id.endswith(AGAIN):
        raise ValueError("the first run never works")
    return update


def _patient(state: Marks) -> dict[str, Any]:
    update = _begin()
    if not current_task("patient").run_id.endswith(NEXT):
        raise ConnectionError("only the next run works")
    return update


def _asker(state: Marks) -> dict[str, Any]:
    update = _begin()
    answers = [interrupt(f"{number}?") for number in range(QUESTIONS[current_task("asker").node])]
    return {"marks": [" ".join([*update["marks"], *answers])]}


def _graph(name: str, special: Any, **policies: Any) -> StateGraph[Marks]:
    """Twice: first, three branches of different length, split, four parts, join. Then last."""
    graph = StateGraph(Marks, name=name)
    graph.add_node("first", _sync).add_node("special", special, **policies).add_node("waits", _async)
    graph.add_node("short", _sync).add_node("long", _sync).add_node("longer", _sync)
    graph.add_node("split", _sync).add_node("part", _async).add_node("join", _join).add_node("last", _sync)
    graph.set_entry_point("first")
    for branch in ("waits", "special", "short", "long"):
        graph.add_edge("first", branch)
    graph.add_edge("long", "longer").add_edge("longer", "split")
    for branch in ("waits", "special", "short"):
        graph.add_edge(branch, "split")
    graph.add_conditional_edges("split", _parts, {"part": "part"}).add_edge("part", "join")
    return graph.add_conditional_edges("join", _again, {"first": "first", "last": "last"})


def _survey() -> StateGraph[Marks]:
    """Three nodes ask at once."""
    graph = StateGraph(Marks, name="survey").add_node("first", _sync).add_node("last", _sync)
    graph.set_entry_point("first")
    for asker in QUESTIONS:
        graph.add_node(asker, _asker).add_edge("first", asker).add_edge(asker, "last")
    return graph


STEPS: Final = _ROUNDS * 6 + 1

plain = _graph("plain", _sync)
asking = _graph("asking", _ask)
flaky = _graph("flaky", _flaky, retry=RetryPolicy(max_attempts=3, initial_s=0.3))
broken = _graph("broken", _broken)

patient = _graph("patient", _patient, retry=RetryPolicy(max_attempts=2, initial_s=600, max_s=600))
survey = _survey()

GRAPHS: Final = {graph.name: graph for graph in (plain, asking, flaky, broken, patient, survey)}

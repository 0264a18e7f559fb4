"""Graphs whose workers die, and the points at which they do.

On a thread that is named like a point the process dies there, once: a file beside the ledger says that it did.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from tenxgraph.core.graph import RetryPolicy, StateGraph
from tenxgraph.store.base import Dispatch
from tenxgraph.store.redis import RedisStore
from tenxgraph_scheduler.dispatch import CeleryDispatcher
from tests.acceptance.graphs import Notes, note, wait_for

SENDS_ITSELF = "ADVANCE_SENDS"
"""Set where broker and store are one server: the advance has put the next message on the queue when it returns."""

POINTS = ("claimed", "in the node", "before the commit", "committed", "dispatched")
STEP = 3
"""Of the node ``n2`` in the chain: START is step 0."""


def beside_the_ledger(name: str) -> Path:
    return Path(os.environ["LEDGER"]).with_name(name)


def die_once(point: str, thread_id: str) -> None:
    """End this process, if this is its thread's point and nobody died there yet."""
    if thread_id != point:
        return
    try:
        os.close(os.open(beside_the_ledger(f"died {point}"), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def _wrapped(owner: type, name: str, before: str, after: str, is_there: Callable[..., bool]) -> None:
    original = getattr(owner, name)

    @wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_there(*args):
            return original(self, *args, **kwargs)
        thread_id = _thread_of(args[0])
        die_once(before, thread_id)
        answer = original(self, *args, **kwargs)
        die_once(after, thread_id)
        return answer

    setattr(owner, name, call)


def _thread_of(what: Any) -> str:
    ref = what[0].ref if isinstance(what, Sequence) else what
    return str(ref.thread_id)


def _sends_the_step_after(dispatches: Sequence[Dispatch], *_: Any) -> bool:
    return bool(dispatches) and dispatches[0].ref.step == STEP + 1


if "LEDGER" in os.environ:  # in a worker of these tests, not in the tests themselves
    _wrapped(RedisStore, "claim", "", "claimed", lambda ref, *_: ref.step == STEP)
    _wrapped(RedisStore, "advance", "before the commit", "committed", lambda ref, *_: ref.step == STEP)
    _wrapped(RedisStore, "advance", "", "dispatched", lambda ref, *_: ref.step == STEP and SENDS_ITSELF in os.environ)
    _wrapped(CeleryDispatcher, "__call__", "", "dispatched", _sends_the_step_after)


def _five() -> StateGraph[Notes]:
    graph = StateGraph(Notes, name="five")
    for number in range(5):

        def step(state: Notes, config: dict[str, Any], number: int = number) -> dict[str, Any]:
            note(f"n{number}", config["thread_id"].replace(" ", "-"), time.time())
            if number == STEP - 1:
                die_once("in the node", config["thread_id"])
            return {"notes": [f"n{number}"], "total": state.total + 1}

        graph.add_node(f"n{number}", step)
        graph.add_edge(f"n{number - 1}", f"n{number}") if number else graph.set_entry_point("n0")
    return graph


five = _five()


def _three(name: str, middle: Callable[[Notes], Any], **policies: Any) -> StateGraph[Notes]:
    """A split into three branches, the middle one of which is given, and their join."""

    def branch(letter: str) -> Callable[[Notes], dict[str, Any]]:
        def run(state: Notes) -> dict[str, Any]:
            note(letter)
            return {"notes": [letter]}

        return run

    graph = StateGraph(Notes, name=name)
    graph.add_node("split", branch("split")).add_node("a", branch("a"))
    graph.add_node("b", middle, **policies)
    graph.add_node("c", branch("c")).add_node("join", branch("join"))
    for letter in "abc":
        graph.add_edge("split", letter).add_edge(letter, "join")
    return graph.set_entry_point("split")


def _kills(state: Notes) -> dict[str, Any]:
    note("b")
    if not beside_the_ledger("mended").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return {"notes": ["b"]}


def _raises(state: Notes) -> dict[str, Any]:
    note("b")
    if not beside_the_ledger("mended").exists():
        raise RuntimeError("it broke")
    return {"notes": ["b"]}


killing = _three("killing", _kills)
raising = _three("raising", _raises)


def _crowded(state: Notes, config: dict[str, Any]) -> dict[str, Any]:
    """All tasks of a worker run side by side until the killer among them ends it."""
    note("start", config["thread_id"])
    if config["thread_id"] == "killer":
        wait_for("crowded")
        os.kill(os.getpid(), signal.SIGKILL)
    if not beside_the_ledger("died").exists():
        wait_for("died")
    return {"notes": [config["thread_id"]]}


crowd = StateGraph(Notes, name="crowd").add_node("work", _crowded).set_entry_point("work")

LEASES = 4


def _length_s() -> float:
    return LEASES * float(os.environ["TENXGRAPH_LEASE_S"])


def _blocking(state: Notes) -> dict[str, Any]:
    note("start", "blocking")
    time.sleep(_length_s())
    note("end", "blocking")
    return {"notes": ["blocking"]}


async def _async(state: Notes) -> dict[str, Any]:
    note("start", "async")
    await asyncio.sleep(_length_s())
    note("end", "async")
    return {"notes": ["async"]}


blocking = StateGraph(Notes, name="blocking").add_node("long", _blocking).set_entry_point("long")
asynchronous = StateGraph(Notes, name="async").add_node("long", _async).set_entry_point("long")


def _quick(state: Notes, config: dict[str, Any]) -> dict[str, Any]:
    note("start", config["thread_id"])
    time.sleep(0.01)
    return {"notes": ["done"]}


quick = StateGraph(Notes, name="quick").add_node("quick", _quick).set_entry_point("quick")


def _fails_once(state: Notes) -> dict[str, Any]:
    note("start")
    if not beside_the_ledger("mended").exists():
        raise ConnectionError("the model is out of reach")
    return {"notes": ["answered"]}


patient = StateGraph(Notes, name="patient")
patient.add_node("ask", _fails_once, retry=RetryPolicy(max_attempts=2, initial_s=3.0, jitter=False))
patient.set_entry_point("ask")

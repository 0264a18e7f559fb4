"""Graphs of which many runs want one thread, and the processes that want it at one instant."""

import json
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import redis

from tenxgraph.core.exceptions import InterruptConflictError, ThreadBusyError
from tenxgraph.core.graph import StateGraph
from tenxgraph.core.graph.multitask import MultitaskStrategy
from tenxgraph.core.state import Message
from tenxgraph.settings import Settings
from tenxgraph.utils import interrupt
from tests.acceptance.graphs import Notes, note

NODES = ("first", "second")
ROUNDS = 50
CLIENTS = 4
RESUMES = 5


def _noting(name: str) -> Any:
    def node(state: Notes, config: Mapping[str, Any]) -> dict[str, Any]:
        note(config["run_id"], name)
        return {"notes": [f"{config['run_id']} {name}"]}

    return node


two = StateGraph(Notes, name="two")
for _name in NODES:
    two.add_node(_name, _noting(_name))
two.add_edge(*NODES).set_entry_point(NODES[0])


def _pay(state: Notes, config: Mapping[str, Any]) -> dict[str, Any]:
    answer = interrupt("pay?")
    note("paid", answer)
    return {"notes": [f"paid {answer}"]}


approval = StateGraph(Notes, name="approval").add_node("pay", _pay).set_entry_point("pay")


def said(text: str) -> dict[str, Any]:
    return {"messages": [Message.text_message(text, message_id=text)]}


def _meet(name: str, many: int) -> None:
    """Return in all of ``many`` processes at one instant."""
    settings = Settings.load()
    with redis.Redis.from_url(str(settings.redis_url)) as client:
        key = f"{settings.key_prefix}-barrier:{name}"
        client.incr(key)
        deadline_s = time.monotonic() + 60
        while int(client.get(key) or 0) < many:
            assert time.monotonic() < deadline_s, f"{name}: the others did not come"
            time.sleep(0.0005)


def start_at_once(number: int) -> None:
    """Be one of the clients: two of them start a run on the same thread, time after time, under each strategy."""
    app, pair = two.compile(), number // 2
    app.invoke(said("warm"), {"thread_id": f"warm {number}"})
    for strategy in MultitaskStrategy:
        for place in range(ROUNDS):
            thread_id = f"{strategy}.{pair}.{place}"
            run_id = f"{thread_id}.{number}"
            _meet(thread_id, 2)
            try:
                config = {"thread_id": thread_id, "run_id": run_id, "multitask_strategy": strategy.value}
                app.submit(said(run_id), config)
                _tell(thread_id, run_id, "taken in")
            except ThreadBusyError as error:
                _tell(thread_id, run_id, f"busy: {error.context['run_id']}")
    app.close()


def resume_at_once(number: int) -> None:
    """Be one of the clients: five threads of each answer the same question."""
    app, barrier = approval.compile(), Barrier(RESUMES)
    app.get_state({"thread_id": "T"})

    def answer(place: int) -> str:
        if barrier.wait(30) == 0:
            _meet("resume", CLIENTS)
        barrier.wait(60)
        try:
            result = app.invoke({"resume": f"yes.{number}.{place}"}, {"thread_id": "T"})
        except InterruptConflictError:
            return "conflict"
        return str(result["status"])

    with ThreadPoolExecutor(RESUMES) as pool:
        for outcome in pool.map(answer, range(RESUMES)):
            _tell(outcome)
    app.close()


def be_client() -> None:
    """Do what the command line says."""
    {"start": start_at_once, "resume": resume_at_once}[sys.argv[1]](int(sys.argv[2]))


def _tell(*words: str) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()

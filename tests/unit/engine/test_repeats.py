"""A call made again under its run_id is the same call: nothing runs twice, and it gets the first one's result."""

from typing import Any

import pytest

from tenxgraph.core.exceptions import InterruptConflictError, InvalidInputError
from tenxgraph.core.graph import CompiledGraph, RunStatus
from tenxgraph.core.state import Message
from tenxgraph.store.memory import MemoryStore
from tenxgraph.utils import interrupt
from tests.graphs.tools import Log, graph

HELLO = {"messages": [Message.text_message("Hello", message_id="m1")]}
MORE = {"messages": [Message.text_message("more", message_id="m2")]}


class App:
    """A graph that pauses before ``a``, or asks in it, and counts what runs."""

    def __init__(self, **pauses: Any) -> None:
        self.store = MemoryStore()
        self.ran: list[Any] = []
        built = graph().add_node("a", self._ask if not pauses else self._run).set_entry_point("a")
        self.compiled: CompiledGraph[Log] = built.compile(checkpointer=self.store, **pauses)

    def _run(self, state: Log) -> str:
        self.ran.append("a")
        return f"{len(self.ran)}"

    def _ask(self, state: Log) -> str:
        self.ran.append(interrupt("?"))
        return f"{self.ran[-1]}"

    def __call__(self, given: Any, run_id: str) -> dict[str, Any]:
        return self.compiled.invoke(given, {"thread_id": "T", "run_id": run_id})

    @property
    def runs(self) -> list[str]:
        return [run.run_id for run in self.store.runs("T")]


def test_a_repeated_answer_attaches_to_the_run_that_took_it() -> None:
    app = App()
    assert app(HELLO, "r1")["status"] is RunStatus.WAITING
    first = app({"resume": "yes"}, "r2")
    assert first["status"] is RunStatus.COMPLETED
    again = app({"resume": "yes"}, "r2")
    assert (again["run_id"], again["status"]) == ("r1", RunStatus.COMPLETED)
    assert [message.text() for message in again["messages"]] == [message.text() for message in first["messages"]]
    assert (app.ran, app.runs) == (["yes"], ["r1"])


def test_a_repeated_answer_is_known_while_the_next_run_waits_for_another() -> None:
    app = App()
    app(HELLO, "r1")
    app({"resume": "yes"}, "r2")
    app(MORE, "r3")
    assert app({"resume": "yes"}, "r2")["run_id"] == "r1"
    assert app.ran == ["yes"]
    assert app({"resume": "no"}, "r4")["run_id"] == "r3"


def test_a_repeated_message_that_ended_a_pause_starts_no_second_run() -> None:
    app = App(interrupt_before=["a"])
    assert app(HELLO, "r1")["status"] is RunStatus.WAITING
    for _ in range(2):
        result = app(MORE, "r2")
        assert (result["run_id"], result["status"]) == ("r1", RunStatus.COMPLETED)
    assert (app.ran, app.runs) == (["a"], ["r1"])


def test_a_repeated_call_without_input_that_ended_a_pause_continues_nothing_else() -> None:
    app = App(interrupt_before=["a"])
    app(HELLO, "r1")
    for _ in range(2):
        assert app(None, "r2")["status"] is RunStatus.COMPLETED
    assert (app.ran, app.runs) == (["a"], ["r1"])


def test_the_events_of_a_repeated_answer_begin_where_those_of_the_first_did() -> None:
    app = App()
    app(HELLO, "r1")
    told = [
        [(chunk.id, str(chunk.event)) for chunk in app.compiled.stream({"resume": "yes"}, config, "full")]
        for config in ({"thread_id": "T", "run_id": "r2"}, {"thread_id": "T", "run_id": "r2"})
    ]
    assert told[0] == told[1]
    assert "run_start" not in {event for _, event in told[0]}


@pytest.mark.parametrize("other", [{"resume": "no"}, MORE, None])
def test_the_id_of_an_answer_with_another_input_is_taken(other: Any) -> None:
    app = App()
    app(HELLO, "r1")
    app({"resume": "yes"}, "r2")
    with pytest.raises(InvalidInputError, match="run_id 'r2' was used on thread 'T' with another"):
        app(other, "r2")


def test_another_call_gets_a_conflict_all_the_same() -> None:
    app = App()
    app(HELLO, "r1")
    app({"resume": "yes"}, "r2")
    with pytest.raises(InterruptConflictError):
        app({"resume": "yes"}, "r3")

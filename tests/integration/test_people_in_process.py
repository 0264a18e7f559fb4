"""People step in while graphs run in process: what they asked for holds across stops and continuations."""

import asyncio
import re
import threading
import time
from typing import Any

import pytest

from tenxgraph.core.exceptions import (
    InterruptConflictError,
    InvalidInputError,
    NodeError,
    RunCancelledError,
    ThreadOwnerError,
)
from tenxgraph.core.graph import CompiledGraph, RunStatus
from tenxgraph.core.graph.ports import EndedRuns
from tenxgraph.core.state import Message
from tenxgraph.utils import interrupt
from tests.graphs.tools import Log, graph

HI = {"messages": [Message.text_message("Hi")]}
T = {"thread_id": "T"}


def test_answers_given_before_a_stop_are_known_to_the_run_that_goes_on() -> None:
    def two_questions(state: Log) -> dict[str, Any]:
        return {"log": [f"{interrupt('a?')} {interrupt('b?')}"]}

    app = graph(ask=two_questions).set_entry_point("ask").compile()
    app.invoke(HI, T)
    before = app.invoke({"resume": "A"}, T)
    assert app.stop(T) is RunStatus.STOPPED
    after = app.invoke(None, T)
    assert after["run_id"] != before["run_id"]
    assert after["interrupts"] == before["interrupts"]
    assert app.invoke({"resume": "B"}, T)["status"] is RunStatus.COMPLETED
    assert app.get_state(T).state.log == ["A B"]


@pytest.mark.parametrize("waiting", [1, 2])
def test_an_answer_by_id_that_comes_too_late_is_no_answer_to_another_question(waiting: int) -> None:
    def asks(name: str) -> Any:
        return lambda state: {"log": [f"{name} {interrupt(name)}"]}

    names = ["a", "b", "c"][: waiting + 1]
    made = graph("first", **{name: asks(name) for name in names}).set_entry_point("first")
    for name in names:
        made.add_edge("first", name)
    app = made.compile()
    ids = [asked["id"] for asked in app.invoke(HI, T)["interrupts"]]
    app.invoke({"resume": {ids[0]: "A"}}, T)
    for late in ({ids[0]: "B"}, {ids[0]: "B", ids[1]: "B"}):
        with pytest.raises(InterruptConflictError, match=f"to {re.escape(repr(ids[0]))}, but to"):
            app.invoke({"resume": late}, T)
    assert app.invoke({"resume": dict.fromkeys(ids[1:], "C")}, T)["status"] is RunStatus.COMPLETED
    assert app.get_state(T).state.log == ["first", "a A", *[f"{name} C" for name in names[1:]]]


def test_an_answer_by_id_to_a_question_of_an_earlier_step_is_no_answer_to_this_one() -> None:
    def asks(name: str) -> Any:
        return lambda state: {"log": [f"{name} {interrupt(name)}"]}

    app = graph(a=asks("a"), b=asks("b")).set_entry_point("a").add_edge("a", "b").compile()
    (asked,) = app.invoke(HI, T)["interrupts"]
    app.invoke({"resume": {asked["id"]: "A"}}, T)
    with pytest.raises(InterruptConflictError, match="somebody answered before"):
        app.invoke({"resume": {asked["id"]: "B"}}, T)
    assert app.invoke({"resume": {"any": "dict"}}, T)["status"] is RunStatus.COMPLETED
    assert app.get_state(T).state.log == ["a A", "b {'any': 'dict'}"]


def test_an_answer_outlives_a_node_that_failed_after_it() -> None:
    is_broken = [True]

    def ask(state: Log) -> dict[str, Any]:
        given = interrupt("a?")
        if is_broken.pop() if is_broken else False:
            raise RuntimeError("it broke")
        return {"log": [given]}

    app = graph(ask=ask).set_entry_point("ask").compile()
    app.invoke(HI, T)
    with pytest.raises(NodeError, match="it broke"):
        app.invoke({"resume": "A"}, T)
    assert app.invoke(None, T)["status"] is RunStatus.COMPLETED
    assert app.get_state(T).state.log == ["A"]


def test_a_sync_call_in_an_async_node_is_refused_before_a_run_was_made() -> None:
    inner = graph("a").set_entry_point("a").compile()
    config = {"thread_id": "inner", "run_id": "R"}

    def invoke(app: CompiledGraph[Log]) -> object:
        return app.invoke(HI, config)

    def stream(app: CompiledGraph[Log]) -> object:
        return list(app.stream(HI, config))

    for call in (invoke, stream):

        async def calls(state: Log) -> None:
            call(inner)  # noqa: B023 - used within the turn

        with pytest.raises(NodeError, match=r"use await app\.ainvoke"):
            graph(calls=calls).set_entry_point("calls").compile().invoke(HI)
        assert inner._executor.store.run("R") is None  # type: ignore[attr-defined]


# -- who ends what


def _asking() -> CompiledGraph[Log]:
    def ask(state: Log) -> dict[str, Any]:
        return {"log": [interrupt("sure?")]}

    return graph(ask=ask).set_entry_point("ask").compile()


def test_a_handle_of_another_user_is_refused_and_one_without_a_user_is_the_operators() -> None:
    app = _asking()
    run_id = app.invoke(HI, {"thread_id": "T", "user_id": "anna"})["run_id"]
    with pytest.raises(ThreadOwnerError):
        app.get_run(run_id, {"user_id": "eve"})
    with pytest.raises(ThreadOwnerError):
        app.get_run(run_id, {})
    with pytest.raises(ThreadOwnerError):
        app.stop({"thread_id": "T", "user_id": "eve"})
    assert app.get_run(run_id).status() is RunStatus.WAITING
    assert app.get_run(run_id, {"user_id": "anna"}).stop() is RunStatus.STOPPED


@pytest.mark.parametrize(("config", "by"), [(None, "operator"), ({"user_id": "anna"}, "anna")])
def test_a_cancelled_run_says_who_and_why_in_its_error_and_its_events(config: dict[str, str] | None, by: str) -> None:
    app = _asking()
    run_id = app.invoke(HI, {"thread_id": "T", "user_id": "anna"})["run_id"]
    handle = app.get_run(run_id, config)
    assert handle.cancel("too dear") is RunStatus.CANCELLED
    with pytest.raises(RunCancelledError, match=f"was cancelled by {by}: too dear") as raised:
        handle.result()
    assert (raised.value.context["by"], raised.value.context["reason"]) == (by, "too dear")
    *_, told, end = handle.stream()
    assert (told.event, told.data["message"]) == ("error", f"cancelled by {by}: too dear")
    assert (end.event, end.data["status"]) == ("run_end", "cancelled")


def test_a_cancelled_sync_node_runs_out_fenced_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    began, gate, ended = threading.Event(), threading.Event(), threading.Event()

    def holds(state: Log) -> dict[str, Any]:
        began.set()
        gate.wait(10)
        ended.set()
        return {"log": ["late"]}

    app = graph(holds=holds).set_entry_point("holds").compile()
    handle = app.submit(HI, T)
    assert began.wait(10)
    assert handle.cancel("enough") is RunStatus.CANCELLED
    deadline_s = time.monotonic() + 10
    while "its node still runs" not in caplog.text:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    gate.set()
    assert ended.wait(10)
    assert app.get_state(T).state.log == []
    assert app.get_state(T).status is RunStatus.CANCELLED


def test_many_runs_are_ended_at_once_by_thread_status_and_user() -> None:
    app = _asking()
    waiting = [
        app.invoke(HI, {"thread_id": f"T{number}", "user_id": "anna" if number % 2 else "ben"})["run_id"]
        for number in range(6)
    ]
    app.invoke({"resume": "yes"}, {"thread_id": "T0", "user_id": "ben"})
    delayed = app.submit(HI, {"thread_id": "T0", "user_id": "ben", "start_after_s": 600}).run_id
    with pytest.raises(InvalidInputError, match="No unfinished run is 'completed'"):
        app.stop_runs(status="completed")
    assert asyncio.run(app.astop_runs(thread_id="T1")) == EndedRuns({waiting[1]: RunStatus.STOPPED}, more=False)
    assert app.stop_runs(status="queued") == EndedRuns({delayed: RunStatus.STOPPED}, more=False)
    assert set(app.cancel_runs("over", user_id="anna").statuses) == {waiting[3], waiting[5]}
    ended = app.cancel_runs("over", status="waiting", limit=1)
    assert (len(ended.statuses), ended.more) == (1, True)
    assert asyncio.run(app.acancel_runs("over")).more is False
    assert app.cancel_runs("over") == EndedRuns({}, more=False)


def test_queued_runs_of_a_thread_are_ended_before_the_one_they_wait_for() -> None:
    began = []

    async def note(state: Log) -> None:
        began.append(state.context[-1].text())
        await asyncio.Event().wait()

    app = graph(note=note).set_entry_point("note").compile()
    handles = [app.submit({"messages": [Message.text_message(f"{n}")]}, T) for n in range(3)]
    while not began:
        threading.Event().wait(0.01)
    assert set(app.cancel_runs("over", thread_id="T").statuses.values()) == {RunStatus.CANCELLED}
    assert [handle.status() for handle in handles] == [RunStatus.CANCELLED] * 3
    assert began == ["0"]

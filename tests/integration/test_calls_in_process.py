"""Sync and async calls of a graph in process: from any thread, on any loop, many times, side by side."""

import asyncio
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tenxgraph.core.exceptions import (
    GraphError,
    InterruptConflictError,
    InvalidInputError,
    NodeError,
    RunCancelledError,
    RunTimeoutError,
    ThreadBusyError,
)
from tenxgraph.core.graph import CompiledGraph, RunStatus
from tenxgraph.core.state import Message
from tests.graphs.suite import CASES
from tests.graphs.tools import Log, chain, graph, say


def _echo() -> CompiledGraph[Log]:
    def sync_node(state: Log) -> dict[str, Any]:
        return {"count": state.count + 1}

    async def async_node(state: Log) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"log": [state.context[-1].text()]}

    return chain(graph(first=sync_node, second=async_node), "first", "second").compile()


def _said(text: str = "Hi") -> dict[str, Any]:
    return {"messages": [Message.text_message(text)]}


# -- case U


def test_case_u_a_thousand_sync_calls_in_a_row() -> None:
    app = _echo()
    for number in range(1000):
        result = app.invoke(_said(f"{number}"), {"thread_id": f"T{number % 10}"})
        assert result["status"] is RunStatus.COMPLETED
    assert app.get_state({"thread_id": "T7"}).state.count == 100


def test_case_u_sync_calls_from_many_threads() -> None:
    app = _echo()

    def call(number: int) -> list[str]:
        app.invoke(_said(f"{number}"), {"thread_id": f"T{number}"})
        return app.get_state({"thread_id": f"T{number}"}).state.log

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(call, range(200))) == [[f"{number}"] for number in range(200)]


def test_case_u_threads_of_a_program_share_one_conversation_and_lose_nothing() -> None:
    app = _echo()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: app.invoke(_said(f"{number}"), {"thread_id": "T"}), range(40)))
    state = app.get_state({"thread_id": "T"}).state
    assert (state.count, sorted(state.log, key=int)) == (40, [f"{number}" for number in range(40)])


def test_case_u_a_sync_call_on_a_running_loops_own_thread() -> None:
    app = _echo()

    async def main() -> list[Any]:
        return [app.invoke(_said(), {"thread_id": f"T{number}"})["status"] for number in range(100)]

    assert asyncio.run(main()) == [RunStatus.COMPLETED] * 100


def test_case_u_async_calls_of_several_loops_one_after_the_other() -> None:
    app = _echo()

    async def main() -> Any:
        calls = [app.ainvoke(_said(), {"thread_id": f"T{number}"}) for number in range(20)]
        return [result["status"] for result in await asyncio.gather(*calls)]

    for _ in range(5):
        assert asyncio.run(main()) == [RunStatus.COMPLETED] * 20
    assert app.get_state({"thread_id": "T3"}).state.count == 5


def test_a_sync_node_may_call_another_graph() -> None:
    inner = _echo()

    def outer(state: Log) -> dict[str, Any]:
        return {"count": inner.invoke(_said("inner"), response_granularity="full")["state"].count}

    app = chain(graph(outer=outer), "outer").compile()
    app.invoke(_said(), {"thread_id": "T"})
    assert app.get_state({"thread_id": "T"}).state.count == 1


def test_an_async_node_may_await_another_graph() -> None:
    inner = _echo()

    async def outer(state: Log) -> dict[str, Any]:
        result = await inner.ainvoke(_said("inner"), response_granularity="full")
        return {"log": result["state"].log}

    app = chain(graph(outer=outer), "outer").compile()
    app.invoke(_said(), {"thread_id": "T"})
    assert app.get_state({"thread_id": "T"}).state.log == ["inner"]


def test_a_sync_call_that_would_block_the_loop_of_async_nodes_is_refused_with_the_way_out() -> None:
    inner = _echo()

    async def outer(state: Log) -> None:
        inner.invoke(_said())

    with pytest.raises(NodeError, match="ainvoke") as caught:
        chain(graph(outer=outer), "outer").compile().invoke(_said())
    assert isinstance(caught.value.__cause__, GraphError)


PROGRAM = """
    import asyncio, sys
    from tenxgraph.core.graph import StateGraph
    from tenxgraph.core.state import AgentState, Message

    async def slow(state: AgentState) -> str:
        await asyncio.sleep({nap_s})
        return "done"

    def blocking(state: AgentState) -> str:
        import time
        time.sleep({nap_s})
        return "done"

    for node in (slow, blocking):
        app = StateGraph().add_node("node", node).set_entry_point("node").compile()
        for number in range(20):
            app.submit({{"messages": [Message.text_message("Hi")]}}, {{"thread_id": str(number)}})
        if {nap_s} < 1:
            assert app.invoke({{"messages": [Message.text_message("Hi")]}})["status"] == "completed"
    print("end of the program")
"""


@pytest.mark.parametrize("nap_s", [0.01, 30])
def test_case_u_the_interpreter_exits_by_itself_after_background_runs(nap_s: float) -> None:
    started = time.monotonic()
    code = textwrap.dedent(PROGRAM.format(nap_s=nap_s))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("end of the program\n", "")
    assert time.monotonic() - started < 20


# -- background runs


def _gated(gate: threading.Event) -> CompiledGraph[Log]:
    def wait(state: Log) -> dict[str, Any]:
        assert gate.wait(30)
        return {"log": [state.context[-1].text()]}

    return chain(graph("after", wait=wait), "wait", "after").compile()


def test_runs_on_one_thread_queue_up_and_each_input_is_merged_when_its_run_starts() -> None:
    gate = threading.Event()
    app = _gated(gate)
    handles = [app.submit(_said(text), {"thread_id": "T"}) for text in ("one", "two", "three")]
    assert handles[2].status() is RunStatus.QUEUED
    _until(lambda: [m.text() for m in app.get_state({"thread_id": "T"}).state.context] == ["one"])
    gate.set()
    results = [handle.result(30) for handle in handles]
    assert [[m.text() for m in result["messages"]] for result in results] == [["one"], ["two"], ["three"]]
    assert app.get_state({"thread_id": "T"}).state.log == ["one", "after", "two", "after", "three", "after"]


def test_a_busy_thread_is_refused_under_reject_and_nothing_is_queued() -> None:
    gate = threading.Event()
    app = _gated(gate)
    first = app.submit(_said("one"), {"thread_id": "T"})
    with pytest.raises(ThreadBusyError, match=rf"{first.run_id}.* is active on thread 'T'"):
        app.submit(_said("two"), {"thread_id": "T", "multitask_strategy": "reject"})
    gate.set()
    first.result(30)
    assert app.get_state({"thread_id": "T"}).state.log == ["one", "after"]


def test_an_interrupting_run_keeps_what_the_old_one_did_and_comes_before_those_in_line() -> None:
    gate = threading.Event()
    app = _gated(gate)
    old, queued = (app.submit(_said(text), {"thread_id": "T"}) for text in ("one", "two"))
    _until(lambda: [m.text() for m in app.get_state({"thread_id": "T"}).state.context] == ["one"])
    new = app.submit(_said("three"), {"thread_id": "T", "multitask_strategy": "interrupt"})
    gate.set()
    assert new.result(30)["status"] is RunStatus.COMPLETED
    assert old.result(30)["status"] is RunStatus.STOPPED
    with pytest.raises(RunCancelledError, match=f"superseded by {new.run_id}"):
        queued.result(30)
    state = app.get_state({"thread_id": "T"}).state
    assert ([m.text() for m in state.context], state.log) == (["one", "three"], ["one", "three", "after"])


def test_a_run_that_is_rolled_back_leaves_no_trace_and_its_async_node_is_cancelled() -> None:
    begun, cancelled = threading.Event(), threading.Event()

    async def node(state: Log) -> dict[str, Any]:
        if state.context[-1].text() == "old":
            begun.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.set()
                raise
        return {"log": [state.context[-1].text()]}

    app = chain(graph(node=node), "node").compile()
    before = app.invoke(_said("first"), {"thread_id": "T"}, "full")["state"].log
    old = app.submit(_said("old"), {"thread_id": "T"})
    assert begun.wait(30)
    new = app.submit(_said("new"), {"thread_id": "T", "multitask_strategy": "rollback"})
    assert new.result(30)["status"] is RunStatus.COMPLETED
    assert cancelled.wait(30)
    with pytest.raises(RunCancelledError, match=f"rolled back by {new.run_id}"):
        old.result(30)
    state = app.get_state({"thread_id": "T"}).state
    assert ([m.text() for m in state.context], state.log) == (["first", "new"], [*before, "new"])


def test_a_delayed_run_takes_the_place_of_the_active_one_when_its_moment_has_come() -> None:
    gate = threading.Event()
    app = _gated(gate)
    old = app.submit(_said("one"), {"thread_id": "T"})
    new = app.submit(_said("two"), {"thread_id": "T", "multitask_strategy": "rollback", "start_after_s": 0.05})
    with pytest.raises(RunCancelledError, match=f"rolled back by {new.run_id}"):
        old.result(30)
    gate.set()
    assert new.result(30)["status"] is RunStatus.COMPLETED
    assert app.get_state({"thread_id": "T"}).state.log == ["two", "after"]


def test_a_result_that_is_not_there_in_time_raises_and_the_run_goes_on() -> None:
    gate = threading.Event()
    handle = _gated(gate).submit(_said(), {"thread_id": "T"})
    with pytest.raises(TimeoutError, match="has not ended in time; it goes on"):
        handle.result(timeout_s=0.05)
    gate.set()
    assert handle.result(30)["status"] is RunStatus.COMPLETED


def test_the_same_run_id_attaches_to_the_first_run_and_nothing_runs_twice() -> None:
    app = _echo()
    config = {"thread_id": "T", "run_id": "R"}
    first, second = (app.invoke(_said(), config) for _ in range(2))
    assert (first["status"], first["run_id"], first["messages"]) == (second["status"], "R", second["messages"])
    assert app.get_run("R").result()["messages"] == first["messages"]
    assert app.get_state({"thread_id": "T"}).state.count == 1


def test_a_run_id_gives_nothing_to_another_user() -> None:
    app = _echo()
    app.invoke(_said(), {"thread_id": "T", "run_id": "R", "user_id": "ann"})
    with pytest.raises(InvalidInputError, match="with another thread, user or input"):
        app.invoke(_said(), {"thread_id": "T", "run_id": "R", "user_id": "eve"})


def test_the_same_run_id_from_twenty_threads_runs_once() -> None:
    app = _echo()
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda _: app.invoke(_said(), {"thread_id": "T", "run_id": "R"}), range(20)))
    assert app.get_state({"thread_id": "T"}).state.count == 1


def test_a_cancelled_run_says_why_and_the_next_message_starts_fresh() -> None:
    async def sleeps(state: Log) -> None:
        if state.context[-1].text() == "long":
            await asyncio.sleep(60)

    app = chain(graph("a", sleeps=sleeps), "a", "sleeps").compile()
    handle = app.submit(_said("long"), {"thread_id": "T"})
    _until(lambda: app.get_state({"thread_id": "T"}).state.log == ["a"])
    assert handle.cancel("changed my mind") is RunStatus.CANCELLED
    with pytest.raises(RunCancelledError, match="changed my mind"):
        handle.result(10)
    assert app.invoke(_said("short"), {"thread_id": "T"})["status"] is RunStatus.COMPLETED
    assert app.get_state({"thread_id": "T"}).state.log == ["a", "a"]


def test_a_stopped_run_keeps_the_step_in_flight_and_continues_with_none() -> None:
    gate = threading.Event()
    app = _gated(gate)
    handle = app.submit(_said("one"), {"thread_id": "T"})
    _until(lambda: handle.status() is RunStatus.RUNNING)
    _until(lambda: [(t.task, t.status) for t in app._executor.store.tasks(handle.run_id)] == [("0", "claimed")])  # type: ignore[attr-defined]
    assert app.stop({"thread_id": "T"}) is RunStatus.STOPPING
    gate.set()
    assert handle.result(10)["status"] is RunStatus.STOPPED
    assert app.get_state({"thread_id": "T"}).state.log == ["one"]
    assert app.invoke(None, {"thread_id": "T"})["status"] is RunStatus.COMPLETED
    assert app.get_state({"thread_id": "T"}).state.log == ["one", "after"]


def test_a_run_that_takes_too_long_is_timed_out_and_frees_the_thread() -> None:
    app = _slow()
    with pytest.raises(RunTimeoutError, match="took longer than its timeout_s"):
        app.invoke(_said("long"), {"thread_id": "T", "timeout_s": 0.1})
    assert app.invoke(_said("short"), {"thread_id": "T"})["status"] is RunStatus.COMPLETED


def test_a_queued_runs_timeout_counts_from_its_start() -> None:
    app = _slow()
    first = app.submit(_said("for 0.5 s"), {"thread_id": "T"})
    second = app.submit(_said("long"), {"thread_id": "T", "timeout_s": 0.2})
    assert first.result(10)["status"] is RunStatus.COMPLETED
    with pytest.raises(RunTimeoutError):
        second.result(10)


def _slow() -> CompiledGraph[Log]:
    naps_s = {"long": 60.0, "for 0.5 s": 0.5}

    async def sleeps(state: Log) -> None:
        await asyncio.sleep(naps_s.get(state.context[-1].text(), 0))

    return chain(graph(sleeps=sleeps), "sleeps").compile()


def test_a_delayed_run_starts_later() -> None:
    app, started = _echo(), time.monotonic()
    handle = app.submit(_said(), {"thread_id": "T", "start_after_s": 0.2})
    assert handle.status() is RunStatus.QUEUED
    assert handle.result(10)["status"] is RunStatus.COMPLETED
    assert time.monotonic() - started >= 0.2


def test_an_unknown_run_is_refused_by_name() -> None:
    with pytest.raises(InvalidInputError, match="has no run 'nobody'"):
        _echo().get_run("nobody")


def test_twenty_answers_to_one_question_and_one_wins() -> None:
    app = CASES["question"].compile()
    app.invoke(say()(None), {"thread_id": "T"})

    def answer(number: int) -> str:
        try:
            return str(app.invoke({"resume": True}, {"thread_id": "T"})["status"])
        except InterruptConflictError as error:
            return type(error).__name__

    with ThreadPoolExecutor(20) as pool:
        outcomes = sorted(pool.map(answer, range(20)))
    assert outcomes == ["InterruptConflictError"] * 19 + ["completed"]
    assert app.get_state({"thread_id": "T"}).state.log == ["a", "approved: True", "b"]


def test_custom_events_of_a_node_reach_its_followers_in_order() -> None:
    from tenxgraph.utils import emit

    def tells(state: Log) -> None:
        for number in range(5):
            emit({"number": number})

    app = chain(graph(tells=tells), "tells").compile()
    told = [chunk.data for chunk in app.stream(say()(None), response_granularity="full") if chunk.event == "custom"]
    assert told == [{"number": number} for number in range(5)]


def _until(is_so: Any, timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)

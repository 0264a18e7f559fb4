"""Every graph of the suite in process: what the case expects, and the same again in every way of calling it."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from tenxgraph.core.exceptions import TenxGraphError
from tenxgraph.core.graph import RunStatus
from tenxgraph.core.state import ExecutionStatus, Message, StreamChunk
from tenxgraph.store.memory import MemoryStore
from tenxgraph.testing.oracle import CaseCall, GraphCase, Trace, assert_same, run_case
from tests.graphs.suite import CASES, graphs
from tests.graphs.tools import Log, chain, go_on, graph, say

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@every_case
def test_a_graph_does_what_its_case_says(case: GraphCase) -> None:
    trace = run_case(case, case.compile())
    assert trace.states
    assert trace.events


@every_case
def test_a_graph_does_the_same_again_beside_others(case: GraphCase) -> None:
    app = case.compile(checkpointer=MemoryStore())
    assert_same(run_case(case, app), run_case(case, app))


@every_case
def test_async_calls_end_like_sync_calls(case: GraphCase) -> None:
    oracle = run_case(case, case.compile())
    assert asyncio.run(_outcomes(case)) == [_essence(outcome) for outcome in oracle.outcomes]


async def _outcomes(case: GraphCase) -> list[Any]:
    app, last = case.compile(), None
    told: list[Any] = []
    for call in case.calls:
        try:
            last = await app.ainvoke(call.give(last), {**call.config, "thread_id": "T"}, "full")
            told.append((last["status"], [message.text() for message in last["state"].context]))
        except TenxGraphError as error:
            told.append(type(error).__name__)
    return told


def _essence(outcome: Any) -> Any:
    if "error" in outcome:
        return outcome["error"]
    texts = ["".join(_text(block) for block in message["content"]) for message in outcome["state"]["context"]]
    return outcome["status"], texts


def _text(block: dict[str, Any]) -> str:
    if block["type"] != "tool_result":
        return str(block.get("text", ""))
    output = block["output"]
    return output if isinstance(output, str) else json.dumps(output, separators=(",", ":"))


def test_the_suite_has_the_graphs_that_workers_will_be_measured_by() -> None:
    assert len(CASES) >= 25
    assert [app.name for app in graphs()] == list(CASES)


def _changed(trace: Trace, path: list[Any], value: Any) -> Trace:
    copied = Trace(list(trace.outcomes), list(trace.states), list(trace.events))
    holder: Any = getattr(copied, path[0])
    holder[path[1]] = {**holder[path[1]], path[2]: value}
    return copied


def test_traces_that_differ_are_shown_line_by_line() -> None:
    trace = run_case(CASES["linear"], CASES["linear"].compile())
    with pytest.raises(AssertionError, match=r"(?s)The traces differ.*-.*'step': 3.*\+.*'step': 7"):
        assert_same(trace, _changed(trace, ["states", 3, "step"], 7))


def test_a_case_with_a_wrong_expectation_fails() -> None:
    linear = CASES["linear"]
    for wrong, message in [
        (GraphCase("x", linear.build, linear.calls, [["a"]]), "the steps were"),
        (GraphCase("x", linear.build, linear.calls, linear.steps, {"log": ["b"]}), "log is"),
        (GraphCase("x", linear.build, [CaseCall(say(), status=RunStatus.WAITING)], []), "the run is completed"),
        (GraphCase("x", linear.build, [CaseCall(go_on)], []), "raised"),
    ]:
        with pytest.raises(AssertionError, match=message):
            run_case(wrong, wrong.compile())


def test_generated_ids_are_numbered_and_times_are_dropped() -> None:
    trace = run_case(CASES["return_types"], CASES["return_types"].compile())
    messages = trace.states[-1]["state"]["context"]
    assert [message["message_id"] for message in messages] == [f"<id {number}>" for number in (0, 1, 2, 3, 4, 5, 6, 7)]
    assert not any("timestamp" in message for message in messages)


# -- cases of the fault catalogue


def test_case_g_a_join_behind_branches_of_different_length_runs_once_also_with_a_skipped_parent() -> None:
    for name in ("uneven_branches", "uneven_branches_in_a_loop", "skipped_parent"):
        run_case(CASES[name], CASES[name].compile())


def test_case_r_the_recursion_limit_is_an_error_once_and_exactly_at_the_limit_is_fine() -> None:
    run_case(CASES["recursion_limit"], CASES["recursion_limit"].compile())
    run_case(CASES["exactly_at_the_limit"], CASES["exactly_at_the_limit"].compile())


def test_case_s_a_failing_node_leaves_no_trace_of_what_it_changed_in_place() -> None:
    app = CASES["node_raises_then_continue"].compile()
    with pytest.raises(Exception, match="the pump is dry"):
        app.invoke(say()(None), {"thread_id": "T", "broken": True})
    state = app.get_state({"thread_id": "T"}).state
    assert (state.count, state.log, [m.text() for m in state.context]) == (0, ["a"], ["Hi"])
    assert state.execution_meta.status is ExecutionStatus.ERROR


def test_case_n_only_the_branch_that_failed_runs_again(tmp_path: Path) -> None:
    app, ledger = CASES["one_of_three_raises_then_continue"].compile(), tmp_path / "ledger"
    config = {"thread_id": "T", "ledger": str(ledger)}
    with pytest.raises(Exception, match="the pump is dry"):
        app.invoke(say()(None), {**config, "broken": True})
    app.invoke(None, config)
    lines = ledger.read_text().split()
    assert sorted(lines) == ["fragile", "fragile", "left", "right"]


def test_case_c_a_branch_delivered_twice_neither_joins_early_nor_twice() -> None:
    """The in-process side of it: the set of the missing, by task and not by count."""
    app = CASES["fan_out_2"].compile(checkpointer=(store := MemoryStore()))
    executor: Any = app._executor
    original = executor._start
    executor._start = lambda dispatches: original([*dispatches, *dispatches])
    app.invoke(say()(None), {"thread_id": "T"})
    assert app.get_state({"thread_id": "T"}).state.log == ["split", "n0", "n1", "join"]
    assert len(store.checkpoints("T", limit=100)) == 4


def _delayed(number: int, source: random.Random) -> Any:
    async def branch(state: Log) -> dict[str, Any]:
        await asyncio.sleep(source.random() / 200)
        return {"log": [f"{number}"], "context": [Message.text_message(f"{number}", "assistant")]}

    return branch


def test_case_d_sixteen_branches_append_in_plan_order_whatever_finishes_first() -> None:
    source = random.Random(16)
    built = graph("join")
    for number in range(16):
        built.add_node(f"b{number}", _delayed(number, source)).add_edge("__start__", f"b{number}")
        built.add_edge(f"b{number}", "join")
    app, in_order = built.compile(), [str(number) for number in range(16)]
    for repeat in range(50):
        app.invoke(say()(None), {"thread_id": f"T{repeat}"})
        state = app.get_state({"thread_id": f"T{repeat}"}).state
        assert state.log == [*in_order, "join"]
        assert [message.text() for message in state.context[1:]] == in_order


# -- what is read on the way


def test_an_older_checkpoint_tells_its_own_step_and_status() -> None:
    app = chain(graph("a", "b", "c"), "a", "b", "c").compile()
    app.invoke(say()(None), {"thread_id": "T"})
    notes = [app.get_state({"thread_id": "T"}, number) for number in (1, 2, 3, 4)]
    assert [(n.checkpoint, n.step, n.status, n.next) for n in notes] == [
        (1, 1, RunStatus.RUNNING, ("a",)),
        (2, 2, RunStatus.RUNNING, ("b",)),
        (3, 3, RunStatus.RUNNING, ("c",)),
        (4, 3, RunStatus.COMPLETED, ()),
    ]
    assert [n.state.execution_meta.status for n in notes] == [ExecutionStatus.RUNNING] * 3 + [ExecutionStatus.COMPLETED]
    assert [n.state.execution_meta.step for n in notes] == [1, 2, 3, 3]
    assert [n.state.log for n in notes] == [[], ["a"], ["a", "b"], ["a", "b", "c"]]


def test_a_pause_is_still_a_pause_when_it_is_looked_at_later() -> None:
    app = CASES["interrupt_after_and_before"].compile()
    for given in (say()(None), None, None):
        app.invoke(given, {"thread_id": "T"})
    statuses = [app.get_state({"thread_id": "T"}, n).state.execution_meta.status for n in range(1, 7)]
    assert statuses[1:4] == [
        ExecutionStatus.INTERRUPTED_AFTER,
        ExecutionStatus.INTERRUPTED_BEFORE,
        ExecutionStatus.RUNNING,
    ]


def test_a_live_follower_and_a_late_one_see_the_same() -> None:
    app = CASES["loop"].compile()
    live = list(app.stream(say()(None), {"run_id": "R"}, "full"))
    late = list(app.get_run("R").stream())
    assert [_shown(chunk) for chunk in live] == [_shown(chunk) for chunk in late]
    assert [chunk.id for chunk in live] == [chunk.id for chunk in late]
    assert len({chunk.id for chunk in live}) == len(live)


def _shown(chunk: StreamChunk) -> Any:
    return chunk.event, chunk.step, chunk.node, chunk.data, chunk.state


def test_a_follower_goes_on_from_the_last_id_it_saw() -> None:
    app = CASES["fan_out_2"].compile()
    whole = list(app.stream(say()(None), {"run_id": "R"}, "full"))
    for position in range(len(whole) - 1):
        rest = list(app.get_run("R").stream(after=whole[position].id))
        assert [chunk.id for chunk in rest] == [chunk.id for chunk in whole[position + 1 :]]

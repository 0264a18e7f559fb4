"""People step in while graphs run in process: what they asked for holds across stops and continuations."""

from typing import Any

import pytest

from tenxgraph.core.exceptions import NodeError
from tenxgraph.core.graph import CompiledGraph, RunStatus
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

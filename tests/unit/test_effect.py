"""What a node does outside of the graph is recorded, and not done again."""

import asyncio
import threading
from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Any

import pytest

from tenxgraph.core.exceptions import EffectLostError, GraphError, InvalidInputError, NodeError, SerializationError
from tenxgraph.core.graph import CompiledGraph, RetryPolicy, StateGraph, ToolNode
from tenxgraph.core.state import Message
from tenxgraph.utils import Send, effect, interrupt
from tenxgraph.utils.constants import START
from tests.graphs.tools import Log, note
from tests.unit.tools.graphs import asking, results, tool_app

SAID = {"messages": [Message.text_message("Hi")]}
TWICE = RetryPolicy(max_attempts=3, initial_s=0.001, jitter=False)


def alone(node: Callable[..., Any], **policies: Any) -> CompiledGraph[Log]:
    return StateGraph(Log).add_node("node", node, **policies).set_entry_point("node").compile()


@pytest.fixture
def ledger() -> list[Any]:
    return []


# -- once


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_retry_gets_the_recorded_result_and_calls_nothing(ledger: list[Any], is_async: bool) -> None:
    def pay(amount: int, *, currency: str) -> dict[str, Any]:
        ledger.append(amount)
        return {"paid": [amount, currency], "no": len(ledger)}

    async def apay(amount: int, *, currency: str) -> dict[str, Any]:
        await asyncio.sleep(0)
        return pay(amount, currency=currency)

    receipts: list[Any] = []

    def node(state: Log) -> None:
        receipts.append(effect("pay", pay, 5, currency="EUR"))
        if len(receipts) < 3:
            raise ValueError("after it")

    async def anode(state: Log) -> None:
        receipts.append(await effect("pay", partial(apay, 5), currency="EUR"))
        if len(receipts) < 3:
            raise ValueError("after it")

    alone(anode if is_async else node, retry=TWICE).invoke(SAID)
    assert ledger == [5]
    assert receipts == [{"paid": [5, "EUR"], "no": 1}] * 3


def test_a_run_that_continues_a_failed_one_gets_the_recorded_result(ledger: list[Any]) -> None:
    def pay() -> int:
        ledger.append("paid")
        return len(ledger)

    def node(state: Log) -> str:
        receipt = effect("pay", pay)
        if len(ledger) == 1:
            ledger.append("failed")
            raise ValueError("after it")
        return f"receipt {receipt}"

    app = alone(node)
    with pytest.raises(NodeError):
        app.invoke(SAID, {"thread_id": "T"})
    assert app.invoke(None, {"thread_id": "T"})["messages"][-1].text() == "receipt 1"
    assert ledger == ["paid", "failed"]


def test_each_task_and_each_name_is_an_effect_of_its_own(ledger: list[Any]) -> None:
    def node(state: Log) -> None:
        for name in ("pay", "ship", "pay"):
            effect(name, ledger.append, f"{name} {state.item}")

    graph = StateGraph(Log).add_node("node", node).add_node("again", node)
    graph.add_conditional_edges(START, lambda state: [Send("node", {"item": item}) for item in "ab"], ["node"])
    app = graph.add_edge("node", "again").compile()
    for _ in range(2):
        app.invoke(SAID, {"thread_id": "T"})
    assert sorted(ledger[:4]) == ["pay a", "pay b", "ship a", "ship b"]
    assert ledger[4:6] == ["pay ", "ship "]
    assert len(ledger) == 12


def test_a_call_that_raises_is_no_effect_and_is_made_again(ledger: list[Any]) -> None:
    def pay() -> int:
        ledger.append("try")
        if len(ledger) < 3:
            raise ConnectionError("no line")
        return len(ledger)

    assert alone(lambda state: str(effect("pay", pay)), retry=TWICE).invoke(SAID)["messages"][-1].text() == "3"


def test_a_sibling_with_the_same_name_waits_for_the_first(ledger: list[Any]) -> None:
    async def pay() -> int:
        ledger.append("pay")
        await asyncio.sleep(0.02)
        return len(ledger)

    async def node(state: Log) -> str:
        return str(await asyncio.gather(*(effect("pay", pay) for _ in range(5))))

    assert alone(node).invoke(SAID)["messages"][-1].text() == "[1, 1, 1, 1, 1]"


def test_an_effect_that_outlives_its_attempt_is_waited_for(ledger: list[Any]) -> None:
    go_on = threading.Event()

    def pay() -> int:
        ledger.append("pay")
        assert go_on.wait(10)
        return 7

    app = alone(lambda state: str(effect("pay", pay)), timeout_s=0.1)
    with pytest.raises(NodeError, match="timeout_s"):
        app.invoke(SAID, {"thread_id": "T"})
    go_on.set()
    assert app.invoke(None, {"thread_id": "T"})["messages"][-1].text() == "7"
    assert ledger == ["pay"]


def test_a_cancelled_async_effect_is_free_for_the_next(ledger: list[Any]) -> None:
    async def pay() -> int:
        ledger.append("pay")
        if len(ledger) == 1:
            await asyncio.Event().wait()
        return 7

    async def node(state: Log) -> str:
        return str(await effect("pay", pay))

    app = alone(node, timeout_s=0.1)
    with pytest.raises(NodeError, match="timeout_s"):
        app.invoke(SAID, {"thread_id": "T"})
    assert app.invoke(None, {"thread_id": "T"})["messages"][-1].text() == "7"


def test_a_question_in_an_effect_is_asked_and_the_effect_made_with_the_answer(ledger: list[Any]) -> None:
    def pay() -> str:
        answer = interrupt("pay?")
        ledger.append(answer)
        return str(answer)

    app = alone(lambda state: effect("pay", pay))
    app.invoke(SAID, {"thread_id": "T"})
    assert app.invoke({"resume": "yes"}, {"thread_id": "T"})["messages"][-1].text() == "yes"
    assert ledger == ["yes"]


# -- at most once


def test_what_may_happen_once_fails_visibly_instead_of_repeating(ledger: list[Any]) -> None:
    def pay() -> None:
        ledger.append("pay")
        raise ConnectionError("the line broke while it was paid")

    def node(state: Log) -> None:
        effect("pay", pay, at_most_once=True)

    app = alone(node, retry=TWICE)
    with pytest.raises(EffectLostError, match=r"effect\('pay'\) in node 'node' was begun before") as caught:
        app.invoke(SAID, {"thread_id": "T", "run_id": "R"})
    assert ledger == ["pay"]
    assert (caught.value.node, caught.value.attempt, caught.value.error_code) == ("node", 2, "EFFECT_LOST")
    assert caught.value.context["effect"] == "effect('pay')"


def test_a_node_may_catch_that_its_effect_is_lost_and_find_out() -> None:
    def pay() -> None:
        raise ConnectionError

    def node(state: Log) -> str:
        try:
            effect("pay", pay, at_most_once=True)
        except EffectLostError:
            return "found out"
        return "paid"

    assert alone(node, retry=TWICE).invoke(SAID)["messages"][-1].text() == "found out"


def test_a_result_that_is_there_is_given_whatever_may_happen_once(ledger: list[Any]) -> None:
    def node(state: Log) -> None:
        effect("pay", ledger.append, "paid", at_most_once=True)
        ledger.append("again")
        if ledger.count("again") < 3:
            raise ValueError("after it")

    alone(node, retry=TWICE).invoke(SAID)
    assert ledger == ["paid", "again", "again", "again"]


def test_whoever_continues_a_run_has_found_out_and_begins_anew(ledger: list[Any]) -> None:
    def pay() -> int:
        ledger.append("pay")
        if len(ledger) == 1:
            raise ConnectionError
        return len(ledger)

    app = alone(lambda state: str(effect("pay", pay, at_most_once=True)), retry=TWICE)
    with pytest.raises(EffectLostError):
        app.invoke(SAID, {"thread_id": "T"})
    assert app.invoke(None, {"thread_id": "T"})["messages"][-1].text() == "2"


def test_a_node_that_may_run_once_is_not_retried(ledger: list[Any]) -> None:
    def node(state: Log) -> str:
        ledger.append("run")
        if len(ledger) == 1:
            raise ValueError("boom")
        return "fine"

    app = alone(node, retry=TWICE, at_most_once=True)
    with pytest.raises(NodeError, match="boom"):
        app.invoke(SAID, {"thread_id": "T"})
    assert ledger == ["run"]
    assert app.invoke(None, {"thread_id": "T"})["messages"][-1].text() == "fine"


def test_a_node_that_may_run_once_may_ask_and_goes_on_with_each_answer() -> None:
    app = alone(lambda state: str([interrupt("1?"), interrupt("2?")]), at_most_once=True)
    for given in (SAID, {"resume": 1}):
        app.invoke(given, {"thread_id": "T"})
    assert app.invoke({"resume": 2}, {"thread_id": "T"})["messages"][-1].text() == "[1, 2]"


def test_at_most_once_is_yes_or_no() -> None:
    with pytest.raises(GraphError, match="at_most_once must be True or False, not 1"):
        alone(lambda state: None, at_most_once=1)


def test_only_graphs_that_use_it_have_another_version() -> None:
    def fingerprint(**policies: Any) -> str:
        return StateGraph(Log).add_node("node", note("node"), **policies).set_entry_point("node").define().fingerprint

    assert fingerprint() == fingerprint(at_most_once=False) != fingerprint(at_most_once=True)


# -- results


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -0.0, 2**70, 0.1, "", "ü\n\ud800", [], {}, {"a": [1, {"b": None}], "": 1.5}, [[["x"]]]],
)
def test_what_json_restores_exactly_comes_back_equal(value: Any) -> None:
    found: list[Any] = []

    def node(state: Log) -> None:
        found.append(effect("pay", lambda: value))
        if len(found) == 1:
            raise ValueError("after it")

    alone(node, retry=TWICE).invoke(SAID)
    assert repr(found) == repr([value, value])


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ((1, 2), "the result is a tuple"),
        ({"a": [0, (1,)]}, r"the result\['a'\]\[1\] is a tuple"),
        ({1: "x"}, "the result has the key 1"),
        ([{None: 1}], r"the result\[0\] has the key None"),
        (float("nan"), "float"),
        (date(2026, 1, 1), "date"),
        (b"x", "bytes"),
        (Message.text_message("x"), "Message"),
    ],
)
def test_what_json_does_not_restore_is_refused_by_name_and_not_made_again(
    value: Any, fault: str, ledger: list[Any]
) -> None:
    def pay() -> Any:
        ledger.append("pay")
        return value

    def node(state: Log) -> None:
        with pytest.raises(SerializationError, match=rf"effect\('pay'\) in node 'node' was made.*{fault}"):
            effect("pay", pay)
        raise ValueError("after it")

    with pytest.raises(NodeError, match="after it"):
        alone(node, retry=TWICE).invoke(SAID)
    assert ledger == ["pay"]


def test_a_value_that_holds_itself_is_refused_not_followed_for_ever() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(NodeError, match=r"[Cc]ircular"):
        alone(lambda state: effect("pay", lambda: loop)).invoke(SAID)


# -- misuse


def test_a_function_that_returns_an_awaitable_is_refused_and_counts_for_nothing(ledger: list[Any]) -> None:
    async def pay() -> None:
        ledger.append("pay")

    async def node(state: Log) -> None:
        with pytest.raises(InvalidInputError, match="pass the coroutine function and its arguments"):
            _ = effect("pay", lambda: pay())  # noqa: PLW0108 - this is the mistake
        await effect("pay", pay)

    alone(node).invoke(SAID)
    assert ledger == ["pay"]


@pytest.mark.parametrize("key", ["", 7, None])
def test_an_effect_has_a_name(key: Any) -> None:
    with pytest.raises(NodeError, match="is named by a text that is not empty"):
        alone(lambda state: effect(key, len, "x")).invoke(SAID)


def test_outside_of_a_node_there_is_no_effect() -> None:
    with pytest.raises(GraphError, match=r"effect\(\) works inside a node") as caught:
        effect("pay", len, "x")
    assert caught.value.error_code == "NO_TASK"


# -- tools


def test_a_tool_has_effects_of_its_own_call(ledger: list[Any]) -> None:
    def pay(n: int) -> int:
        effect("pay", ledger.append, n)
        return n

    app = tool_app([pay])
    app.invoke(asking(("pay", {"n": 1}), ("pay", {"n": 2})))
    assert sorted(ledger) == [1, 2]


def test_each_call_and_each_task_has_an_idempotency_key_of_its_own(ledger: list[Any]) -> None:
    def pay(config: dict[str, Any]) -> None:
        ledger.append(config["idempotency_key"])

    app = tool_app([pay])
    for _ in range(2):
        app.invoke(asking(("pay", {}), ("pay", {})), {"thread_id": "T"})
    assert len(set(ledger)) == 4
    assert {len(key) for key in ledger} == {32}


def test_a_node_has_the_same_idempotency_key_in_every_attempt_and_in_the_run_that_continues(ledger: list[Any]) -> None:
    def node(state: Log, config: dict[str, Any]) -> None:
        ledger.append(config["idempotency_key"])
        if len(ledger) < 4:
            raise ValueError("again")

    app = alone(node, retry=TWICE)
    with pytest.raises(NodeError):
        app.invoke(SAID, {"thread_id": "T"})
    app.invoke(None, {"thread_id": "T"})
    assert len(ledger) == 4
    assert len(set(ledger)) == 1
    app.invoke(SAID, {"thread_id": "T"})
    assert len(set(ledger)) == 2


def test_a_tool_call_is_not_made_again_by_another_node_or_run_of_its_thread(ledger: list[Any]) -> None:
    def pay(n: int) -> dict[str, Any]:
        ledger.append(n)
        return {"nan": float("nan"), "big": 2**70, "no": len(ledger)}

    class Failing(ToolNode):
        async def __call__(self, state: Any, config: Any = None) -> Any:
            update = await super().__call__(state, config)
            if len(ledger) == 1:
                ledger.append("failed")
                raise ValueError("after the calls")
            return update

    app = tool_app(Failing([pay]))
    with pytest.raises(NodeError, match="after the calls"):
        app.invoke(asking(("pay", {"n": 1})), {"thread_id": "T"})
    (answer,) = results(app.invoke(None, {"thread_id": "T"}, response_granularity="full")["state"].context)
    assert ledger == [1, "failed"]
    assert repr(answer.output) == repr({"nan": float("nan"), "big": 2**70, "no": 1})

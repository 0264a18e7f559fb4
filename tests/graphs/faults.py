"""Graphs whose point is what goes wrong: nodes, conditions, reducers and values that fail, and what follows."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from tenxgraph.core.exceptions import InvalidInputError, NodeError, NodeTimeoutError
from tenxgraph.core.graph import RetryPolicy, StateGraph
from tenxgraph.core.state import AgentState, Message
from tenxgraph.testing.oracle import CaseCall, GraphCase
from tenxgraph.utils.constants import START
from tenxgraph.utils.task_context import current_task
from tests.graphs.tools import Log, ask, chain, go_on, graph, say, write_down

BROKEN = {"broken": True}
QUICKLY = RetryPolicy(max_attempts=3, initial_s=0.01, jitter=False)


class OutOfOrderError(Exception):
    """What the nodes raise."""


def _fails_if_broken(state: Log, config: Mapping[str, Any]) -> dict[str, Any]:
    write_down(config, "fragile")
    state.count = 99
    state.log.append("half done")
    state.context.append(Message.text_message("half done", role="assistant"))
    if config.get("broken"):
        raise OutOfOrderError("the pump is dry")
    return {"log": ["fragile"]}


def _ledger(name: str) -> Callable[..., dict[str, Any]]:
    def noted(state: Log, config: Mapping[str, Any]) -> dict[str, Any]:
        write_down(config, name)
        return {"log": [name]}

    return noted


def _node_raises() -> StateGraph[Log]:
    return chain(graph("a", "b", fragile=_fails_if_broken), "a", "fragile", "b")


def _one_of_three() -> StateGraph[Log]:
    built = graph("join", left=_ledger("left"), fragile=_fails_if_broken, right=_ledger("right"))
    for name in ("left", "fragile", "right"):
        built.add_edge(START, name).add_edge(name, "join")
    return built


def _lost(state: Log, config: Mapping[str, Any]) -> str:
    if config.get("broken"):
        raise OutOfOrderError("no map")
    return "b"


def _router_raises() -> StateGraph[Log]:
    return graph("b", a=_ledger("a")).add_edge(START, "a").add_conditional_edges("a", _lost, ["b"])


def _nowhere(state: Log) -> str:
    return "atlantis"


def _unknown_target() -> StateGraph[Log]:
    return graph("a", "b").add_edge(START, "a").add_conditional_edges("a", _nowhere, ["b"])


def _picky(left: list[int], right: list[int]) -> list[int]:
    if right == [13]:
        raise OutOfOrderError("not thirteen")
    return left + right


def _wrong_kind(left: int, right: int) -> Any:
    return "many"


class Picky(AgentState):
    """Reducers that fail."""

    numbers: Annotated[list[int], _picky] = []
    amount: Annotated[int, _wrong_kind] = 0
    anything: Any = None
    single: str = ""


def _writes(**fields: Any) -> Callable[[], StateGraph[Picky]]:
    def build() -> StateGraph[Picky]:
        return StateGraph(Picky).add_node("write", lambda state: fields).set_entry_point("write")

    return build


def _unserialisable() -> StateGraph[Picky]:
    return _writes(anything=threading.Lock())()


def _double_write() -> StateGraph[Picky]:
    built = (
        StateGraph(Picky).add_node("one", lambda state: {"single": "1"}).add_node("two", lambda state: {"single": "2"})
    )
    return built.add_edge(START, "one").add_edge(START, "two")


def _on_error() -> StateGraph[Log]:
    built = graph("after", "rescue").add_node("fragile", _fails_if_broken, on_error="rescue")
    return built.add_edge(START, "fragile").add_edge("fragile", "after").add_edge("rescue", "after")


def _flaky(state: Log) -> dict[str, Any]:
    attempt = current_task("flaky").attempt
    if attempt < 3:
        raise OutOfOrderError(f"attempt {attempt}")
    return {"log": ["at last"], "context": [Message.text_message("at last", role="assistant")]}


def _retry(on_error: str | None = None) -> Callable[[], StateGraph[Log]]:
    def build() -> StateGraph[Log]:
        return chain(graph("b").add_node("flaky", _flaky, retry=QUICKLY), "flaky", "b")

    return build


def _never(state: Log) -> None:
    raise OutOfOrderError(f"attempt {current_task('never').attempt}")


def _retries_used_up() -> StateGraph[Log]:
    return graph().add_node("never", _never, retry=QUICKLY).set_entry_point("never")


async def _sleeps(state: Log) -> None:
    await asyncio.sleep(30)


def _blocks(state: Log) -> None:
    threading.Event().wait(3)


def _slow(node: Callable[..., Any]) -> Callable[[], StateGraph[Log]]:
    def build() -> StateGraph[Log]:
        return graph().add_node("slow", node, timeout_s=0.15).set_entry_point("slow")

    return build


async def _exits(state: Log) -> None:
    raise SystemExit(3)


def _exit() -> StateGraph[Log]:
    return chain(graph("a", exits=_exits), "a", "exits")


def _fails(
    name: str, build: Callable[[], StateGraph[Any]], match: str, error: type[NodeError] = NodeError
) -> GraphCase:
    return GraphCase(name, build, [ask(raises=error, match=match)], [], {"context": ["user: Hi"]})


CASES = [
    GraphCase(
        "node_raises_then_a_new_message",
        _node_raises,
        [
            CaseCall(say(), BROKEN, raises=NodeError, match="node 'fragile' failed: OutOfOrderError: the pump is dry"),
            ask("Again"),
        ],
        [["a"], ["a"], ["fragile"], ["b"]],
        {"log": ["a", "a", "fragile", "b"], "count": 0, "context": ["user: Hi", "user: Again"]},
    ),
    GraphCase(
        "node_raises_then_continue",
        _node_raises,
        [CaseCall(say(), BROKEN, raises=NodeError), CaseCall(go_on, BROKEN, raises=NodeError), CaseCall(go_on)],
        [["a"], ["fragile"], ["b"]],
        {"log": ["a", "fragile", "b"], "count": 0, "context": ["user: Hi"]},
    ),
    GraphCase(
        "one_of_three_raises_then_continue",
        _one_of_three,
        [CaseCall(say(), BROKEN, raises=NodeError, match="'fragile'"), CaseCall(go_on)],
        [["left", "fragile", "right"], ["join"]],
        {"log": ["left", "fragile", "right", "join"]},
    ),
    GraphCase(
        "router_raises_then_continue",
        _router_raises,
        [CaseCall(say(), BROKEN, raises=NodeError, match="advance:_lost failed .*no map"), CaseCall(go_on)],
        [["a"], ["b"]],
        {"log": ["a", "b"]},
    ),
    GraphCase(
        "unknown_target",
        _unknown_target,
        [ask(raises=NodeError, match="chose 'atlantis', which leads nowhere")],
        [],
        {"log": []},
    ),
    _fails("reducer_raises", _writes(numbers=[13]), r"advance:numbers failed .*not thirteen"),
    _fails("reducer_gives_another_type", _writes(amount=1), r"advance:amount failed .*does not take"),
    _fails("unserialisable_value", _unserialisable, r"\[SERIALIZATION\] node 'write' failed: .*Picky\.anything"),
    _fails("unknown_field", _writes(colour="red"), r"node 'write' sets the unknown field 'colour'"),
    _fails("invalid_value", _writes(single=["no text"]), r"node 'write' sets 'single' to what is not valid"),
    _fails("runtime_field", _writes(execution_meta={}), r"node 'write' sets `execution_meta`, which belongs"),
    _fails(
        "wrong_return", lambda: StateGraph().add_node("write", lambda state: 7).set_entry_point("write"), "gave a int"
    ),
    _fails("double_write", _double_write, r"advance:single failed .*'one' and 'two' of one step wrote Picky.single"),
    GraphCase(
        "on_error",
        _on_error,
        [CaseCall(say(), BROKEN), ask("Again")],
        [["fragile"], ["rescue"], ["after"], ["fragile"], ["after"]],
        {"log": ["rescue", "after", "fragile", "after"], "count": 0},
    ),
    GraphCase(
        "retry_then_success",
        _retry(),
        [ask()],
        [["flaky"], ["b"]],
        {"log": ["at last", "b"], "context": ["user: Hi", "assistant: at last"]},
    ),
    _fails("retries_used_up", _retries_used_up, "node 'never' failed: OutOfOrderError: attempt 3"),
    _fails("async_timeout", _slow(_sleeps), r"'slow' took longer than its timeout_s of 0.15 s", NodeTimeoutError),
    _fails("sync_timeout", _slow(_blocks), r"'slow' took longer than its timeout_s of 0.15 s", NodeTimeoutError),
    GraphCase("async_node_exits", _exit, [ask(raises=NodeError, match="SystemExit: 3")], [["a"]], {"log": ["a"]}),
    GraphCase(
        "nothing_to_continue",
        _node_raises,
        [ask(), CaseCall(go_on, raises=InvalidInputError, match="no failed, stopped or paused run to continue")],
        [["a"], ["fragile"], ["b"]],
        {"log": ["a", "fragile", "b"]},
    ),
]

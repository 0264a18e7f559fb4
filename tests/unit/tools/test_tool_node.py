"""The calls of a message: made side by side, answered one by one, never made twice."""

import asyncio
import operator
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from decimal import Decimal
from typing import Annotated, Any

import pytest
from injectq import InjectQ
from pydantic import BaseModel, Field

from tenxgraph.core.exceptions import GraphError, NodeError
from tenxgraph.core.graph import RetryPolicy, StateGraph, ToolNode
from tenxgraph.core.graph.tool_journal import CallKey, MemoryToolJournal, ToolOutcome
from tenxgraph.core.state import (
    AgentState,
    Message,
    RemoteToolCallBlock,
    ToolResult,
    append_items,
    replace_value,
)
from tenxgraph.utils import emit, interrupt, tool
from tenxgraph.utils.constants import START
from tests.unit.tools.graphs import asking, results, tool_app

seen: ContextVar[str] = ContextVar("seen", default="nothing")


class Item(BaseModel):
    id: str


def concat(left: list[int], right: list[int]) -> list[int]:
    return left + right


def subtract(left: int, right: int) -> int:
    return left - right


class Shop(AgentState):
    city: str = ""
    total: Annotated[int, operator.add] = 0
    rest: Annotated[int, subtract] = 100
    mood: Annotated[str, replace_value] = ""
    items: Annotated[list[Item], append_items] = Field(default_factory=list[Item])


def run(app: Any, calls: dict[str, Any] | None, **config: Any) -> Any:
    return app.invoke(calls, config={"thread_id": "t", **config}, response_granularity="full")


# -- answers


def double(n: int) -> int:
    """Double it."""
    return 2 * n


async def greet(name: str) -> str:
    return f"Hi {name}"


@pytest.mark.parametrize("form", ["blocks", "raw"])
def test_sync_and_async_calls_of_either_form_are_answered_in_call_order(form: str) -> None:
    found = run(tool_app([double, greet]), asking(("greet", {"name": "Ada"}), ("double", {"n": 4}), form=form))

    answers = found["state"].context[2:]
    assert [message.role for message in answers] == ["tool", "tool"]
    assert [(block.call_id, block.output, block.is_error, block.status) for block in results(answers)] == [
        ("c0", "Hi Ada", False, "completed"),
        ("c1", 8, False, "completed"),
    ]


def test_calls_in_the_form_of_openai_are_read() -> None:
    call = {"id": "x", "type": "function", "function": {"name": "double", "arguments": '{"n": 3}'}}
    message = Message(role="assistant", content=[], tools_calls=[call])

    found = run(tool_app([double]), {"messages": [message]})

    assert [(block.call_id, block.output) for block in results(found["messages"])] == [("x", 6)]


def test_calls_of_one_message_run_side_by_side() -> None:
    together = threading.Barrier(20, timeout=10)

    def wait_sync() -> str:
        together.wait()
        return "sync"

    async def wait_async() -> str:
        await asyncio.to_thread(together.wait)
        return "async"

    found = run(tool_app([wait_sync, wait_async]), asking(*[("wait_sync", {})] * 19, ("wait_async", {})))

    assert [block.output for block in results(found["messages"])] == ["sync"] * 19 + ["async"]


def test_a_sync_tool_sees_the_context_variables_and_not_the_loops_thread() -> None:
    threads: list[str] = []

    def look() -> str:
        threads.append(threading.current_thread().name)
        return seen.get()

    async def direct() -> Any:
        seen.set("something")
        return await ToolNode([look])(AgentState(context=asking(("look", {}))["messages"]), {})

    update = asyncio.run(direct())

    assert results(update["context"])[0].output == "something"
    assert threads == ["tenxgraph-tool"]


def test_without_an_open_call_nothing_happens() -> None:
    app = tool_app([double])

    assert run(app, {"messages": [Message.text_message("hi")]})["state"].context[1:] == []
    plain = Message.text_message("fine", role="assistant")
    assert run(app, {"messages": [plain]}, thread_id="u")["state"].context == [plain]


def test_calls_that_are_answered_already_are_not_made_again() -> None:
    made: list[int] = []

    def note(n: int) -> int:
        made.append(n)
        return n

    given = asking(("note", {"n": 0}), ("note", {"n": 1}))
    given["messages"].append(Message.tool_message([{"type": "tool_result", "call_id": "c0", "output": "done"}]))  # type: ignore[list-item]
    found = run(tool_app([note]), given)

    assert made == [1]
    assert [block.call_id for block in results(found["state"].context)] == ["c0", "c1"]


def test_calls_of_tools_that_run_elsewhere_are_left_alone() -> None:
    message = Message(role="assistant", content=[RemoteToolCallBlock(id="r", name="search")])

    assert results(run(tool_app([double]), {"messages": [message]})["messages"]) == []


@pytest.mark.parametrize(
    ("value", "output"),
    [
        (None, None),
        ({"a": [1, 2.5, None]}, {"a": [1, 2.5, None]}),
        (Item(id="x"), {"id": "x"}),
        (Decimal("1.20"), "1.20"),
        (b"\xff", "_w=="),
        ({1: "a"}, {"1": "a"}),
    ],
)
def test_what_json_can_hold_is_the_output(value: Any, output: Any) -> None:
    def give() -> Any:
        return value

    assert results(run(tool_app([give]), asking(("give", {})))["messages"])[0].output == output


# -- failures


def explode() -> None:
    raise ValueError("no such order: 7")


def leave() -> None:
    raise SystemExit(3)


async def aleave() -> None:
    raise KeyboardInterrupt


async def cancelled() -> None:
    raise asyncio.CancelledError


def stop() -> None:
    raise StopIteration


def strange() -> Any:
    return threading.Lock()


def named_context() -> ToolResult:
    return ToolResult("x", state={"context": []})


def told() -> ToolResult:
    return ToolResult("Out of stock.", is_error=True)


BROKEN: list[Callable[..., Any]] = [explode, leave, aleave, cancelled, stop, strange, named_context, told, double]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (("explode", {}), "Tool 'explode' failed: ValueError: no such order: 7"),
        (("leave", {}), "SystemExit: 3"),
        (("aleave", {}), "KeyboardInterrupt"),
        (("cancelled", {}), "was cancelled"),
        (("stop", {}), "StopIteration"),
        (("strange", {}), "ran, but returned a lock that JSON cannot hold"),
        (("named_context", {}), "names 'context'"),
        (("told", {}), "Out of stock."),
        (("double", {}), "n: Field required"),
        (("double", {"n": "many"}), "n: Input should be a valid integer"),
        (("double", {"n": 1, "m": 2}), "m: Extra inputs are not permitted"),
        (("halve", {"n": 1}), "There is no tool 'halve'. The tools are: explode, leave"),
    ],
)
def test_a_call_that_fails_is_answered_and_its_siblings_settle(call: tuple[str, Any], said: str) -> None:
    found = run(tool_app(BROKEN), asking(("double", {"n": 1}), call, ("double", {"n": 2})))

    before, failed, after = results(found["messages"])
    assert (before.output, after.output) == (2, 4)
    assert failed.is_error
    assert failed.status == "failed"
    assert said in failed.output


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({"id": "c", "name": "double", "args": '{"n": 1'}, "no JSON object"),
        ({"id": "c", "name": "double", "args": "[1]"}, "no JSON object"),
        ({"id": "c", "function": {"name": "double", "arguments": "n=1"}}, "no JSON object"),
        ({"id": "c", "function": {"arguments": "{}"}}, "names no tool"),
        ({"id": "c"}, "names no tool"),
    ],
)
def test_a_malformed_call_is_answered_with_what_is_wrong(call: dict[str, Any], said: str) -> None:
    message = Message(role="assistant", content=[], tools_calls=[call])

    failed = results(run(tool_app([double]), {"messages": [message]})["messages"])[0]

    assert (failed.call_id, failed.is_error) == ("c", True)
    assert said in failed.output


def test_a_call_without_id_and_one_without_arguments_are_made() -> None:
    def ping() -> str:
        return "pong"

    message = Message(
        role="assistant", content=[], tools_calls=[{"name": "ping"}, {"id": "b", "name": "ping", "args": ""}]
    )

    answers = results(run(tool_app([ping]), {"messages": [message]})["messages"])

    assert [(block.call_id, block.output) for block in answers] == [("call_0", "pong"), ("b", "pong")]


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(GraphError, match="Two tools are named 'double'") as caught:
        ToolNode([double, tool(name="double")(explode)])

    assert caught.value.error_code == "DUPLICATE_TOOL"


def test_a_single_function_in_place_of_a_list_is_refused() -> None:
    with pytest.raises(GraphError, match=r"ToolNode\(\[…\]\)"):
        ToolNode(double)  # type: ignore[arg-type]


# -- what the runtime gives


class Database:
    def __init__(self, name: str) -> None:
        self.name = name


def test_state_config_call_id_emit_and_dependencies_are_given() -> None:
    container = InjectQ()
    container.bind_instance(Database, Database("orders"))

    async def look(
        city: str,
        state: Shop,
        config: dict[str, Any],
        tool_call_id: str,
        emit: Callable[[Any], None],
        database: Database,
    ) -> list[str]:
        emit({"looking": city})
        return [city, state.city, config["tenant"], tool_call_id, database.name]

    app = tool_app([look], Shop, container=container)
    given = {**asking(("look", {"city": "Oslo"})), "state": {"city": "Bergen"}}
    config = {"thread_id": "t", "tenant": "acme"}
    chunks = list(app.stream(given, config=config, response_granularity="full"))

    assert [chunk.data for chunk in chunks if chunk.event == "custom"] == [{"looking": "Oslo"}]
    answer = next(chunk.message for chunk in chunks if chunk.message is not None and chunk.message.role == "tool")
    assert results([answer])[0].output == ["Oslo", "Bergen", "acme", "c0", "orders"]


def test_a_model_cannot_give_what_the_runtime_gives() -> None:
    def look(tool_call_id: str, **more: Any) -> list[Any]:
        return [tool_call_id, more]

    found = run(tool_app([look]), asking(("look", {"tool_call_id": "forged", "x": 1})))

    assert results(found["messages"])[0].output == ["c0", {"x": 1}]


def test_a_dependency_that_nobody_supplies_fails_the_run_before_any_call() -> None:
    made: list[int] = []

    def note() -> None:
        made.append(1)

    def look(database: Database) -> None: ...

    with pytest.raises(NodeError, match="Tool 'look' needs database") as caught:
        run(tool_app([note, look], container=InjectQ()), asking(("note", {}), ("look", {})))

    assert caught.value.error_code == "MISSING_DEPENDENCY"
    assert made == []


def test_emit_and_interrupt_work_without_being_parameters() -> None:
    def look() -> str:
        emit("looking")
        return str(interrupt("really?"))

    app = tool_app([look])
    waiting = run(app, asking(("look", {})))
    done = run(app, {"resume": "yes"})

    assert [asked["value"] for asked in waiting["interrupts"]] == ["really?"]
    assert results(done["state"].context)[0].output == "yes"


# -- state


def pick(city: str) -> ToolResult:
    return ToolResult(f"City is {city}.", state={"city": city})


def add(n: int) -> ToolResult:
    return ToolResult({"added": n}, state={"total": n, "mood": f"m{n}", "items": [Item(id=f"i{n}")]})


def take(n: int) -> ToolResult:
    return ToolResult(content="taken", state={"rest": n})


def test_the_message_of_a_tool_result_reaches_the_context_and_its_state_the_state() -> None:
    found = run(tool_app([pick], Shop), asking(("pick", {"city": "Rome"})))

    assert found["state"].city == "Rome"
    assert results(found["state"].context)[0].output == "City is Rome."


def test_updates_of_one_field_by_several_calls_go_through_its_reducer_in_call_order() -> None:
    app = tool_app([add, pick], Shop)
    given = {**asking(("add", {"n": 1}), ("pick", {"city": "Rome"}), ("add", {"n": 2})), "state": {"total": 10}}

    state = run(app, given)["state"]

    assert (state.total, state.mood, state.city) == (13, "m2", "Rome")
    assert [item.id for item in state.items] == ["i1", "i2"]


def test_a_reducer_that_cannot_take_two_updates_as_one_is_named_not_misused() -> None:
    with pytest.raises(NodeError, match=r"'take' \(call c0\) and 'take' \(call c1\).*Shop\.rest.*another value"):
        run(tool_app([take], Shop), asking(("take", {"n": 1}), ("take", {"n": 2})))

    assert run(tool_app([take], Shop), asking(("take", {"n": 1})))["state"].rest == 99


def test_two_calls_that_write_a_field_without_reducer_are_an_error_that_names_them() -> None:
    @tool(name="choose")
    def other(city: str) -> ToolResult:
        return pick(city)

    calls = asking(("pick", {"city": "Rome"}), ("choose", {"city": "Oslo"}))
    with pytest.raises(NodeError, match=r"'pick' \(call c0\) and 'choose' \(call c1\).*Shop\.city") as caught:
        run(tool_app([pick, other], Shop), calls)

    assert caught.value.error_code == "MERGE_CONFLICT"


def test_an_unknown_field_is_an_error_that_names_node_and_field() -> None:
    def wrong() -> ToolResult:
        return ToolResult("x", state={"town": "Rome"})

    with pytest.raises(NodeError, match="town"):
        run(tool_app([wrong], Shop), asking(("wrong", {})))


# -- questions, and calls that are not made again


@pytest.fixture
def ledger() -> list[str]:
    return []


def test_a_question_waits_until_all_other_calls_are_through_and_they_are_not_made_again(ledger: list[str]) -> None:
    asked_both = threading.Barrier(3, timeout=10)

    async def slow() -> str:
        await asyncio.to_thread(asked_both.wait)
        ledger.append("slow")
        return "slow"

    def pay(amount: int) -> str:
        try:
            answer = interrupt({"pay": amount}, reason="money")
        finally:
            if "slow" not in ledger:
                asked_both.wait()
        ledger.append(f"pay {amount} {answer}")
        return f"{amount}: {answer}"

    app = tool_app([slow, pay])
    waiting = run(app, asking(("pay", {"amount": 1}), ("slow", {}), ("pay", {"amount": 2})))

    assert waiting["status"] == "waiting"
    assert ledger == ["slow"]
    asked = {item["value"]["pay"]: item["id"] for item in waiting["interrupts"]}
    assert set(asked) == {1, 2}
    assert [item["node"] for item in waiting["interrupts"]] == ["TOOL", "TOOL"]

    done = run(app, {"resume": {asked[1]: "yes", asked[2]: "no"}})

    assert ledger.count("slow") == 1
    assert sorted(entry for entry in ledger if entry.startswith("pay")) == ["pay 1 yes", "pay 2 no"]
    assert [block.output for block in results(done["state"].context)] == ["1: yes", "slow", "2: no"]


def test_a_tool_with_two_questions_gets_each_answer_at_its_question(ledger: list[str]) -> None:
    def form() -> list[Any]:
        ledger.append("start")
        return [interrupt("name?"), interrupt("age?")]

    app = tool_app([form])
    assert run(app, asking(("form", {})))["interrupts"][0]["value"] == "name?"
    assert run(app, {"resume": "Ada"})["interrupts"][0]["value"] == "age?"

    assert results(run(app, {"resume": 36})["state"].context)[0].output == ["Ada", 36]
    assert len(ledger) == 3


def test_a_node_that_runs_again_after_a_failure_makes_no_finished_call_again(ledger: list[str]) -> None:
    def note(n: int) -> ToolResult:
        ledger.append(f"note {n}")
        return ToolResult("noted", state={"city": n})

    @tool(name="other")
    def other() -> str:
        ledger.append("other")
        return "x"

    graph = StateGraph(Shop)
    graph.add_node("TOOL", ToolNode([note, other]), retry=RetryPolicy(max_attempts=3, initial_s=0.01))
    app = graph.add_edge(START, "TOOL").compile()

    with pytest.raises(NodeError, match="city"):  # the update is refused, after the calls
        run(app, asking(("note", {"n": 1}), ("other", {})))

    assert sorted(ledger) == ["note 1", "other"]


def test_a_failed_call_is_a_finished_call(ledger: list[str]) -> None:
    def fail() -> None:
        ledger.append("fail")
        raise ValueError("moved half of it")

    def ask() -> Any:
        return interrupt("go on?")

    app = tool_app([fail, ask])
    run(app, asking(("fail", {}), ("ask", {})))
    done = run(app, {"resume": "yes"})

    assert ledger == ["fail"]
    assert [block.is_error for block in results(done["state"].context)] == [True, False]


def test_a_sync_call_that_outlives_its_node_is_noted_and_not_made_again(ledger: list[str]) -> None:
    release = threading.Event()

    def slow() -> str:
        ledger.append("slow")
        assert release.wait(10)
        return "done"

    graph = StateGraph()
    graph.add_node("TOOL", ToolNode([slow]), timeout_s=0.1)
    app = graph.add_edge(START, "TOOL").compile()
    with pytest.raises(NodeError, match="timeout_s"):
        run(app, asking(("slow", {})))
    release.set()
    done = run(app, None)

    assert ledger == ["slow"]
    assert results(done["state"].context)[0].output == "done"


def test_the_same_call_id_in_another_message_or_thread_is_another_call(ledger: list[str]) -> None:
    def note() -> int:
        ledger.append("note")
        return len(ledger)

    app = tool_app([note])
    for thread_id in ("a", "a", "b"):
        run(app, asking(("note", {})), thread_id=thread_id)

    assert len(ledger) == 3


# -- the journal


def outcome(value: Any) -> Callable[[], Awaitable[ToolOutcome]]:
    async def make() -> ToolOutcome:
        return ToolOutcome(value)

    return make


KEY = CallKey("t", "m", "c")


def test_concurrent_askers_wait_for_the_first() -> None:
    made: list[int] = []

    async def make() -> ToolOutcome:
        made.append(1)
        await asyncio.sleep(0)
        return ToolOutcome("once")

    async def ask() -> list[ToolOutcome]:
        journal = MemoryToolJournal()
        return await asyncio.gather(*(journal.once(KEY, make) for _ in range(5)))

    assert asyncio.run(ask()) == [ToolOutcome("once")] * 5
    assert made == [1]


def test_who_waits_makes_the_call_when_the_first_gives_up() -> None:
    async def fail() -> ToolOutcome:
        await asyncio.sleep(0)
        raise RuntimeError("gone")

    async def ask() -> list[Any]:
        journal = MemoryToolJournal()
        asked = [journal.once(KEY, fail), journal.once(KEY, outcome("second")), journal.once(KEY, outcome("third"))]
        return await asyncio.gather(*asked, return_exceptions=True)

    first, second, third = asyncio.run(ask())
    assert isinstance(first, RuntimeError)
    assert (second.output, third.output) == ("second", "second")


def test_a_cancelled_wait_leaves_the_call_to_the_others() -> None:
    async def ask() -> Any:
        journal, go_on = MemoryToolJournal(), asyncio.Event()

        async def make() -> ToolOutcome:
            await go_on.wait()
            return ToolOutcome("made")

        first = asyncio.create_task(journal.once(KEY, make))
        await asyncio.sleep(0)
        second = asyncio.create_task(journal.once(KEY, outcome("other")))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait([second])
        go_on.set()
        return second.cancelled(), (await first).output

    assert asyncio.run(ask()) == (True, "made")


def test_the_memory_journal_forgets_the_message_that_nobody_asked_about_for_longest() -> None:
    async def ask() -> list[Any]:
        journal = MemoryToolJournal(max_messages=2)
        keys = [CallKey("t", message, "c") for message in ("a", "b", "a", "c", "a", "b")]
        return [(await journal.once(key, outcome(at))).output for at, key in enumerate(keys)]

    assert asyncio.run(ask()) == [0, 1, 0, 3, 0, 5]


def test_schemas_can_be_picked_by_tag() -> None:
    node = ToolNode([double, tool(tags={"shop", "read"})(pick), tool(tags=["shop"])(add)])

    assert [schema["name"] for schema in node.schemas()] == ["double", "pick", "add"]
    assert [schema["name"] for schema in node.schemas(tags={"read"})] == ["pick"]
    assert list(node.tools) == ["double", "pick", "add"]

"""Only type-checked (mypy --strict and pyright): what the builder infers."""

from typing import Any, Literal

from typing_extensions import assert_type

from tenxgraph.core.graph import CompiledGraph, RetryPolicy, RunHandle, RunStatus, StateGraph, StateSnapshot
from tenxgraph.core.state import AgentState, Message
from tenxgraph.utils import END, START
from tenxgraph.utils.command import Command, Send


class MyState(AgentState):
    city: str = ""


class OtherState(AgentState):
    town: str = ""


class Service:
    pass


class Callable_:
    async def __call__(self, state: AgentState, config: dict[str, Any]) -> list[Message]:
        return []


def on_base(state: AgentState) -> dict[str, Any]:
    return {}


def on_mine(state: MyState, config: dict[str, Any], service: Service | None = None) -> list[Message]:
    return [Message.text_message(state.city, role="assistant")]


async def on_mine_async(state: MyState) -> MyState:
    return state


def goes(state: MyState) -> Command[Literal["a", "b"]]:
    if state.city:
        return Command(update={"city": ""}, goto="a")
    return Command(goto=["a", Send("b", {"city": "Paris"})])


def goes_nowhere(state: MyState) -> Command[Literal["a"]]:
    return Command(update={"city": ""})


def on_other(state: OtherState) -> None: ...


def route(state: MyState) -> Literal["a", "b"]:
    return "a"


assert_type(StateGraph(MyState), StateGraph[MyState])
assert_type(StateGraph(MyState()), StateGraph[MyState])
assert_type(StateGraph(), StateGraph[AgentState])
assert_type(StateGraph(MyState, name="mine"), StateGraph[MyState])

graph = StateGraph(MyState)
assert_type(graph.add_node("a", on_mine, retry=RetryPolicy(), timeout_s=3, join="each"), StateGraph[MyState])
assert_type(graph.add_node(on_mine_async).add_edge(START, "a").set_entry_point("a"), StateGraph[MyState])
graph.add_node("b", on_base).add_node("c", Callable_()).add_node("d", goes).add_node("e", lambda state: None)
assert_type(graph.add_conditional_edges("a", route, {"a": "a", "b": END}), StateGraph[MyState])
assert_type(graph.override_node("a", on_base), StateGraph[MyState])

graph.add_node("x", on_other)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
graph.add_node("x", on_base, join="all")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
StateGraph(str)  # type: ignore[type-var]  # pyright: ignore[reportCallIssue, reportArgumentType]

assert_type(Command(goto="a").targets, tuple[str | Send, ...])

app = graph.compile()
assert_type(app, CompiledGraph[MyState])
snapshot = app.get_state({"thread_id": "t"})
assert_type(snapshot, StateSnapshot[MyState])
assert_type(snapshot.state, MyState)
assert_type(next(app.get_state_history({"thread_id": "t"})), StateSnapshot[MyState])
handle = app.submit({"messages": [Message.text_message("Hi")]})
assert_type(handle, RunHandle[MyState])
assert_type(handle.status(), RunStatus)


def takes_handle(given: RunHandle[MyState]) -> None:
    assert_type(given.run_id, str)

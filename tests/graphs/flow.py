"""Graphs whose point is where they lead: edges, conditions, Send, Command, joins, limits."""

from collections.abc import Callable
from typing import Any, Literal

from injectq import Inject, InjectQ

from tenxgraph.core.exceptions import GraphRecursionError
from tenxgraph.core.graph import StateGraph
from tenxgraph.testing.oracle import CaseCall, GraphCase
from tenxgraph.utils import Command, Send, emit
from tenxgraph.utils.constants import START
from tests.graphs.tools import Log, ask, chain, graph, note, say


def _linear() -> StateGraph[Log]:
    return chain(graph("a", "b", "c"), "a", "b", "c")


def _implicit_end() -> StateGraph[Log]:
    return graph("only").set_entry_point("only")


def _count(state: Log) -> dict[str, Any]:
    return {"count": state.count + 1, "log": [f"round {state.count + 1}"]}


def _again(state: Log) -> Literal["work", "__end__"]:
    return "work" if state.count < 3 else "__end__"


def _loop() -> StateGraph[Log]:
    return graph(work=_count).add_edge(START, "work").add_conditional_edges("work", _again)


def _by_item(state: Log) -> str:
    return state.item


def _branch() -> StateGraph[Log]:
    built = graph("look", "left", "right").add_edge(START, "look")
    return built.add_conditional_edges("look", _by_item, {"l": "left", "r": "right"})


def _fan_out(width: int) -> Callable[[], StateGraph[Log]]:
    def build() -> StateGraph[Log]:
        names = [f"n{number}" for number in range(width)]
        built = graph("split", *names, "join").add_edge(START, "split")
        for name in names:
            built.add_edge("split", name).add_edge(name, "join")
        return built

    return build


def _fan_out_case(width: int) -> GraphCase:
    names = [f"n{number}" for number in range(width)]
    steps = [["split"], names, ["join"]]
    return GraphCase(f"fan_out_{width}", _fan_out(width), [ask()], steps, {"log": ["split", *names, "join"]})


def _work(state: Log) -> dict[str, Any]:
    return {"log": [f"work {state.item}"]}


def _sends(state: Log) -> list[Send]:
    return [Send("work", {"item": letter}) for letter in "xyz"]


def _send() -> StateGraph[Log]:
    built = graph("split", work=_work).add_edge(START, "split")
    return built.add_conditional_edges("split", _sends, ["work"])


def _send_and_join() -> StateGraph[Log]:
    return _send().add_node("join", note("join")).add_edge("work", "join")


async def _route_async(state: Log) -> list[str | Send]:
    return ["plain", Send("work", {"item": "sent"})]


def _mixed_route() -> StateGraph[Log]:
    built = graph("split", "plain", work=_work).add_edge(START, "split")
    return built.add_conditional_edges("split", _route_async, ["plain", "work"])


def _jump(state: Log) -> Command[Literal["far"]]:
    return Command(update={"log": ["jump"], "count": 7}, goto="far")


def _command() -> StateGraph[Log]:
    return graph("near", "far", jump=_jump).add_edge(START, "jump").add_edge("jump", "near")


def _only_update(state: Log) -> Command[Literal["second"]]:
    return Command(update={"log": ["update"]})


def _command_without_goto() -> StateGraph[Log]:
    built = StateGraph(Log).add_node("first", _only_update).add_node("second", note("second"))
    return chain(built, "first", "second")


def _spread(state: Log) -> Command[Literal["work", "other"]]:
    return Command(goto=[Send("work", {"item": "one"}), "other", Send("work", {"item": "two"})])


def _command_sends() -> StateGraph[Log]:
    return (
        graph("other", "join", spread=_spread, work=_work)
        .add_edge(START, "spread")
        .add_edge("work", "join")
        .add_edge("other", "join")
    )


def _uneven() -> StateGraph[Log]:
    built = graph("a", "b", "c", "short", "join").add_edge(START, "a").add_edge(START, "short")
    return built.add_edge("a", "b").add_edge("b", "c").add_edge("c", "join").add_edge("short", "join")


def _rounds(state: Log) -> Literal["head", "__end__"]:
    return "head" if state.count < 2 else "__end__"


def _uneven_in_loop() -> StateGraph[Log]:
    built = graph("long", "longer", "short", head=_count, join=note("join")).add_edge(START, "head")
    built.add_edge("head", "long").add_edge("long", "longer").add_edge("longer", "join")
    return built.add_edge("head", "short").add_edge("short", "join").add_conditional_edges("join", _rounds)


def _only_right(state: Log) -> list[str]:
    return ["right"]


def _skipped_parent() -> StateGraph[Log]:
    built = graph("look", "left", "right", "join", "after").add_edge(START, "look")
    built.add_conditional_edges("look", _only_right, ["left", "right"])
    return built.add_edge("left", "join").add_edge("right", "join").add_edge("join", "after")


def _join_each() -> StateGraph[Log]:
    built = graph("a", "b").add_node("each", note("each"), join="each").add_edge(START, "a").add_edge(START, "b")
    return built.add_edge("a", "each").add_edge("b", "each")


def _entry(state: Log) -> Literal["day", "night"]:
    return "night" if state.item == "dark" else "day"


def _conditional_entry() -> StateGraph[Log]:
    return graph("day", "night").add_conditional_edges(START, _entry)


def _several_entries() -> StateGraph[Log]:
    return graph("a", "b").add_edge(START, "a").add_edge(START, "b").add_edge("a", "b")


async def _async_node(state: Log) -> dict[str, Any]:
    return {"log": ["async"]}


def _mixed() -> StateGraph[Log]:
    built = graph("sync", "last", awaited=_async_node).add_edge(START, "sync").add_edge(START, "awaited")
    return built.add_edge("sync", "last").add_edge("awaited", "last")


def _emits(state: Log) -> dict[str, Any]:
    emit({"half": "done"})
    return {"log": [f"stop: {state.is_stopped_requested()}"]}


def _chatty() -> StateGraph[Log]:
    return chain(graph("a", chatty=_emits), "a", "chatty")


def _tell_config(state: Log, config: dict[str, Any]) -> dict[str, Any]:
    config["changed"] = "by a node"
    return {"log": [f"{name}={config[name]!r}" for name in ("user_id", "tone", "recursion_limit")]}


def _config() -> StateGraph[Log]:
    return chain(graph(first=_tell_config, second=_tell_config), "first", "second")


class Greeter:
    """A dependency."""

    def __init__(self, word: str) -> None:
        self.word = word


def _greet(state: Log, greeter: Greeter = Inject[Greeter]) -> str:  # type: ignore[assignment]  # as injectq asks for it
    return f"{greeter.word} you"


def _injected() -> StateGraph[Log]:
    container = InjectQ()
    container.bind_instance(Greeter, Greeter("Hello"))
    return StateGraph(Log, container=container).add_node("greet", _greet).set_entry_point("greet")


def _rounds_of(number: int) -> list[list[str]]:
    return [["work"]] * number


LIMITED = [
    CaseCall(say(), {"recursion_limit": 2}, raises=GraphRecursionError, match="took 2 steps and would go on to 'work'"),
    CaseCall(say("More"), {"recursion_limit": 3}),
]

CASES = [
    GraphCase("linear", _linear, [ask()], [["a"], ["b"], ["c"]], {"log": ["a", "b", "c"], "context": ["user: Hi"]}),
    GraphCase("implicit_end", _implicit_end, [ask(), ask("Again")], [["only"], ["only"]], {"log": ["only"] * 2}),
    GraphCase("loop", _loop, [ask()], _rounds_of(3), {"count": 3, "log": ["round 1", "round 2", "round 3"]}),
    GraphCase("branch_left", _branch, [CaseCall(say(item="l"))], [["look"], ["left"]], {"log": ["look", "left"]}),
    GraphCase("branch_right", _branch, [CaseCall(say(item="r"))], [["look"], ["right"]], {"log": ["look", "right"]}),
    _fan_out_case(1),
    _fan_out_case(2),
    _fan_out_case(50),
    GraphCase(
        "send", _send, [ask()], [["split"], ["work"] * 3], {"log": ["split", "work x", "work y", "work z"], "item": ""}
    ),
    GraphCase(
        "send_and_join",
        _send_and_join,
        [ask()],
        [["split"], ["work"] * 3, ["join"]],
        {"log": ["split", "work x", "work y", "work z", "join"]},
    ),
    GraphCase(
        "mixed_route", _mixed_route, [ask()], [["split"], ["plain", "work"]], {"log": ["split", "plain", "work sent"]}
    ),
    GraphCase("command", _command, [ask()], [["jump"], ["far"]], {"log": ["jump", "far"], "count": 7}),
    GraphCase(
        "command_without_goto", _command_without_goto, [ask()], [["first"], ["second"]], {"log": ["update", "second"]}
    ),
    GraphCase(
        "command_sends",
        _command_sends,
        [ask()],
        [["spread"], ["work", "other", "work"], ["join"]],
        {"log": ["work one", "other", "work two", "join"]},
    ),
    GraphCase(
        "uneven_branches",
        _uneven,
        [ask()],
        [["a", "short"], ["b"], ["c"], ["join"]],
        {"log": ["a", "short", "b", "c", "join"]},
    ),
    GraphCase(
        "uneven_branches_in_a_loop",
        _uneven_in_loop,
        [ask()],
        [["head"], ["long", "short"], ["longer"], ["join"]] * 2,
        {"log": ["round 1", "long", "short", "longer", "join", "round 2", "long", "short", "longer", "join"]},
    ),
    GraphCase(
        "skipped_parent",
        _skipped_parent,
        [ask()],
        [["look"], ["right"], ["join"], ["after"]],
        {"log": ["look", "right", "join", "after"]},
    ),
    GraphCase("join_each", _join_each, [ask()], [["a", "b"], ["each", "each"]], {"log": ["a", "b", "each", "each"]}),
    GraphCase(
        "conditional_entry",
        _conditional_entry,
        [ask(), CaseCall(say(item="dark"))],
        [["day"], ["night"]],
        {"log": ["day", "night"]},
    ),
    GraphCase("several_entries", _several_entries, [ask()], [["a"], ["b"]], {"log": ["a", "b"]}),
    GraphCase("async_and_sync", _mixed, [ask()], [["sync", "awaited"], ["last"]], {"log": ["sync", "async", "last"]}),
    GraphCase(
        "config",
        _config,
        [CaseCall(say(), {"user_id": "ann", "tone": ["warm"]})],
        [["first"], ["second"]],
        {"log": ["user_id='ann'", "tone=['warm']", "recursion_limit=25"] * 2},
    ),
    GraphCase(
        "emits_and_looks_for_a_stop",
        _chatty,
        [ask()],
        [["a"], ["chatty"]],
        {"log": ["a", "stop: False"]},
    ),
    GraphCase(
        "injected_dependency", _injected, [ask()], [["greet"]], {"context": ["user: Hi", "assistant: Hello you"]}
    ),
    GraphCase("recursion_limit", _loop, LIMITED, _rounds_of(3), {"count": 3, "context": ["user: Hi", "user: More"]}),
    GraphCase("exactly_at_the_limit", _loop, [CaseCall(say(), {"recursion_limit": 3})], _rounds_of(3), {"count": 3}),
]

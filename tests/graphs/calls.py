"""Graphs of agents and tools: rounds of calls, in one task and as tasks of their own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tenxgraph.core.exceptions import NodeError
from tenxgraph.core.graph import RunStatus, StateGraph, ToolNode
from tenxgraph.core.state import Message, ToolResult
from tenxgraph.prebuilt import ReactAgent
from tenxgraph.testing import TestAgent
from tenxgraph.testing.oracle import CaseCall, GraphCase
from tenxgraph.testing.test_agent import Response
from tenxgraph.utils import interrupt
from tenxgraph.utils.constants import END, START
from tests.graphs.people import by_id
from tests.graphs.tools import Log, ask, graph, say, write_down

WAITING = RunStatus.WAITING


async def find(n: int, config: Mapping[str, Any]) -> str:
    """Find something."""
    write_down(config, f"find {n}")
    return f"found {n}"


def mark(n: int, config: Mapping[str, Any]) -> ToolResult:
    """Put something into the log."""
    write_down(config, f"mark {n}")
    return ToolResult(f"marked {n}", state={"log": [f"mark {n}"]})


def fill(n: int) -> ToolResult:
    """Write a field without reducer."""
    return ToolResult(f"filled {n}", state={"count": n})


def spoil(n: int) -> ToolResult:
    """Write a field that is not there."""
    return ToolResult(f"spoiled {n}", state={"nothing": n})


def confirm(n: int, config: Mapping[str, Any]) -> ToolResult:
    """Ask a person."""
    write_down(config, f"asks {n}")
    given = interrupt(f"{n}?", reason="confirm")
    write_down(config, f"confirm {n}")
    return ToolResult(f"{n}: {given}", state={"log": [f"{n}: {given}"]})


def calls(*names: str) -> list[tuple[str, dict[str, int]]]:
    """Return calls of tools by name, numbered."""
    return [(name, {"n": number}) for number, name in enumerate(names)]


ROUNDS: Final[list[Response]] = [
    calls("find"),
    calls("mark", "find", "mark"),
    calls("nobody", "find"),
    [("mark", {"n": "no number"}), ("mark", {"n": 7})],
    calls("find", "find", "find", "find"),
    calls("mark"),
    "done",
]
"""Six rounds of tools, and an answer."""


def loop(distribute: bool, rounds: Sequence[Response] = ROUNDS) -> Callable[[], StateGraph[Any]]:
    """Return the builder of an agent that goes through the rounds."""

    def build() -> StateGraph[Any]:
        return ReactAgent(TestAgent(rounds), ToolNode([find, mark], distribute=distribute), state=Log).graph

    return build


def _round(*names: str, **options: Any) -> StateGraph[Log]:
    """One round of distributed calls beside a branch, and what comes after both."""
    built = graph("beside", "after", ask=TestAgent([calls(*names), calls(*names)]))
    built.add_node("tools", ToolNode([find, mark, fill, spoil, confirm], distribute=True), **options)
    built.add_edge(START, "ask").add_edge("ask", "beside").add_edge("ask", "tools")
    return built.add_edge("beside", "after").add_edge("tools", "after")


def _join() -> StateGraph[Log]:
    return _round("mark", "find", "mark")


def _questions() -> StateGraph[Log]:
    return _round("mark", "confirm", "confirm")


def _clash() -> StateGraph[Log]:
    return _round("fill", "find", "fill")


def _spoiled() -> StateGraph[Log]:
    return _round("mark", "spoil")


def _rescued() -> StateGraph[Log]:
    built = _round("spoil", "mark", "spoil", on_error="rescue")
    return built.add_node("rescue", lambda state: {"log": ["rescue"]}).add_edge("rescue", END)


def _asks_again(last: Any) -> Any:
    """What comes with the resume asks for other calls."""
    blocks: list[Any] = [{"type": "tool_call", "id": f"new{n}", "name": "mark", "args": {"n": n}} for n in (8, 9)]
    return {"messages": [Message(role="assistant", content=blocks)]}


def _nothing_to_call() -> StateGraph[Log]:
    built = graph("after", ask=TestAgent(["no call"])).add_node("tools", ToolNode([find], distribute=True))
    return built.add_edge(START, "ask").add_edge("ask", "tools").add_edge("tools", "after")


_LOOPED: Final = ["mark 0", "mark 2", "mark 7", "mark 0"]
_ROUND: Final = ["tools"] * 3
_PROMPTS: Final = ["user: Hi", "assistant: ", "tool: marked 0", "tool: found 1", "tool: marked 2"]

CASES = [
    GraphCase("tool_loop", loop(distribute=False), [ask()], [["MAIN"], ["TOOL"]] * 6 + [["MAIN"]], {"log": _LOOPED}),
    GraphCase(
        "tool_loop_distributed",
        loop(distribute=True),
        [ask()],
        [step for n in (1, 3, 2, 2, 4, 1) for step in (["MAIN"], ["TOOL"] * n)] + [["MAIN"]],
        {"log": _LOOPED},
    ),
    GraphCase(
        "distributed_calls_are_one_arrival",
        _join,
        [ask()],
        [["ask"], ["beside", *_ROUND], ["after"]],
        {"log": ["beside", "mark 0", "mark 2", "after"], "context": _PROMPTS},
    ),
    GraphCase(
        "distributed_questions",
        _questions,
        [ask(status=WAITING), CaseCall(by_id("2?"), status=WAITING), CaseCall(by_id("1?"))],
        [["ask"], ["beside", *_ROUND], ["after"]],
        {"log": ["beside", "mark 0", "1: to 1?", "2: to 2?", "after"]},
    ),
    GraphCase(
        "distributed_calls_clash",
        _clash,
        [ask(raises=NodeError, match=r"'tools \(call call_0_0\)' and 'tools \(call call_0_2\)' .*Log\.count")],
        [["ask"]],
    ),
    GraphCase(
        "distributed_call_fails",
        _spoiled,
        [ask(raises=NodeError, match="node 'tools' failed: .*'call_0_1'.*nothing"), ask(raises=NodeError)],
        [["ask"]] * 2,
        {"log": []},
    ),
    GraphCase(
        "distributed_calls_fail_over_once",
        _rescued,
        [ask()],
        [["ask"], ["beside", *_ROUND], ["after", "rescue"]],
        {"log": ["beside", "mark 1", "after", "rescue"]},
    ),
    GraphCase(
        "pause_before_distributed_calls",
        _join,
        [ask(status=WAITING), CaseCall(say("Wait"))],
        [["ask"], ["beside", *_ROUND], ["after"]],
        {"log": ["beside", "mark 0", "mark 2", "after"]},
        {"interrupt_before": ["tools"]},
    ),
    GraphCase(
        "other_calls_come_with_the_resume",
        _join,
        [ask(status=WAITING), CaseCall(_asks_again)],
        [["ask"], ["beside", "tools", "tools"], ["after"]],
        {"log": ["beside", "mark 8", "mark 9", "after"]},
        {"interrupt_before": ["tools"]},
    ),
    GraphCase(
        "pause_after_distributed_calls",
        _join,
        [ask(status=WAITING), CaseCall(say("Wait"))],
        [["ask"], ["beside", *_ROUND], ["after"]],
        {"log": ["beside", "mark 0", "mark 2", "after"]},
        {"interrupt_after": ["tools"]},
    ),
    GraphCase(
        "nothing_to_distribute",
        _nothing_to_call,
        [ask()],
        [["ask"], ["tools"], ["after"]],
        {"log": ["after"], "context": ["user: Hi", "assistant: no call"]},
    ),
]

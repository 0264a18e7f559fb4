"""Graphs that do something outside, and do not do it again."""

from typing import Any

from tenxgraph.core.graph import RetryPolicy, StateGraph, ToolNode
from tenxgraph.core.state import Message, ToolResult
from tenxgraph.testing.oracle import GraphCase
from tenxgraph.utils import effect
from tenxgraph.utils.task_context import current_task
from tests.graphs.tools import Log, ask, chain, graph

QUICKLY = RetryPolicy(max_attempts=3, initial_s=0.01, jitter=False)


def _fail_at_first() -> str:
    if current_task("node").attempt == 1:
        raise ConnectionError("no line")
    return "line"


async def _charge(amount: int) -> dict[str, int]:
    return {"charged": amount}


async def _pay(state: Log) -> dict[str, Any]:
    receipt = await effect("charge", _charge, 5)
    line = effect("connect", _fail_at_first)
    return {"log": [f"{receipt['charged']} by {line}"]}


def _plan(state: Log) -> list[Message]:
    blocks: list[Any] = [
        {"type": "tool_call", "id": f"c{at}", "name": name, "args": {"n": at}}
        for at, name in enumerate(("pick", "note"))
    ]
    return [Message(role="assistant", content=blocks)]


async def pick(n: int) -> int:
    return n


async def note(n: int) -> ToolResult:
    return ToolResult("noted", state={"log": [f"tool {n}"]})


def _effects() -> StateGraph[Log]:
    built = graph("end", plan=_plan).add_node("pay", _pay, retry=QUICKLY)
    return chain(built.add_node("tools", ToolNode([pick, note])), "pay", "plan", "tools", "end")


CASES = [
    GraphCase(
        "effects",
        _effects,
        [ask()],
        [["pay"], ["plan"], ["tools"], ["end"]],
        {"log": ["5 by line", "tool 1", "end"]},
    )
]

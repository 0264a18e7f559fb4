"""The time of one call: over, it is a failed result; the siblings and the node go on."""

import asyncio
import threading
from typing import Any

import pytest

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph import ToolNode
from tenxgraph.core.state import AgentState, ToolResult
from tenxgraph.utils import interrupt, tool
from tests.unit.tools.graphs import asking, results, tool_app

LATE = "did not end within 0.05 s"


def quick() -> str:
    return "quick"


@pytest.mark.parametrize("distribute", [False, True])
def test_a_call_that_takes_too_long_is_a_failed_result_and_its_siblings_settle(distribute: bool) -> None:
    release, cancelled = threading.Event(), threading.Event()

    @tool(timeout_s=0.05)
    def blocks() -> str:
        release.wait(10)
        return "too late"

    @tool(timeout_s=0.05)
    async def sleeps() -> str:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "too late"

    node = ToolNode([blocks, sleeps, quick], distribute=distribute)
    app = tool_app(node)
    try:
        found = app.invoke(asking(("blocks", {}), ("sleeps", {}), ("quick", {})))
    finally:
        release.set()
    answers = results(found["messages"])
    assert [(block.is_error, block.status) for block in answers] == [(True, "failed")] * 2 + [(False, "completed")]
    assert all(LATE in block.output for block in answers[:2])
    assert cancelled.is_set()


def test_a_timed_out_call_is_over_and_is_not_made_again() -> None:
    started: list[int] = []

    @tool(timeout_s=0.05)
    async def sleeps() -> None:
        started.append(1)
        await asyncio.sleep(10)

    def ask() -> Any:
        return interrupt("go on?")

    app = tool_app([sleeps, ask])
    app.invoke(asking(("sleeps", {}), ("ask", {})), {"thread_id": "t"})
    found = app.invoke({"resume": "yes"}, {"thread_id": "t"})
    assert started == [1]
    assert [block.is_error for block in results(found["messages"])] == [True, False]


def test_a_timeout_error_of_the_tools_own_is_told_as_it_is() -> None:
    @tool(timeout_s=10)
    async def connect() -> None:
        raise TimeoutError("no answer from the shop")

    found = tool_app([connect]).invoke(asking(("connect", {})))
    assert "TimeoutError: no answer from the shop" in results(found["messages"])[0].output


@pytest.mark.parametrize("timeout_s", [0, -1, True, "5", float("nan")])
def test_a_time_that_is_none_is_refused(timeout_s: Any) -> None:
    with pytest.raises(GraphError, match="timeout_s must be a number of seconds above 0"):
        ToolNode([_named(timeout_s)])


def _named(timeout_s: Any) -> Any:
    @tool(timeout_s=timeout_s)
    def slow() -> None:
        """Take time."""

    return slow


class Shop(AgentState):
    city: str = ""


@pytest.mark.parametrize("field", ["context", "execution_meta"])
def test_what_is_put_into_a_result_afterwards_is_refused_as_well(field: str) -> None:
    def sly() -> ToolResult:
        result = ToolResult("done", {"city": "Oslo"})
        assert result.state is not None
        result.state[field] = []
        return result

    found = tool_app([sly], Shop).invoke(asking(("sly", {})), {"thread_id": "t"}, "full")
    (block,) = results(found["messages"])
    assert block.is_error
    assert f"ToolResult.state names '{field}'" in block.output
    assert found["state"].city == ""

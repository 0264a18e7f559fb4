"""Agents and tools that the tests' workers serve. They note what they do in the file that LEDGER names."""

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Annotated, Any

from injectq import InjectQ, inject
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tenxgraph.core.graph import StateGraph, ToolNode
from tenxgraph.core.state import AgentState, ToolResult
from tenxgraph.core.state.reducers import append_items
from tenxgraph.prebuilt import ReactAgent
from tenxgraph.testing import TestAgent
from tenxgraph.utils import effect, tool
from tests.acceptance.graphs import Notes, ledger_lines, note
from tests.acceptance.striking import strike_here
from tests.graphs.calls import calls, loop

TOGETHER = 10
"""Calls of the distributing graph that must be under way at once."""


def _wait_for_starts(count: int) -> bool:
    deadline_s = time.monotonic() + 30
    while time.monotonic() < deadline_s:
        if sum(line[0] == "start" for line in ledger_lines()) >= count:
            return True
        time.sleep(0.02)
    return False


# -- rounds under kills: marking tools, six rounds, one task or a task each


def pay(n: int, tool_call_id: str) -> ToolResult:
    """Pay for something."""
    note("pay", tool_call_id)
    strike_here("in", "tool", tool_call_id)
    return ToolResult(f"paid {n}", state={"notes": [tool_call_id]})


async def ask(n: int, tool_call_id: str) -> str:
    """Ask for something."""
    note("ask", tool_call_id)
    await asyncio.sleep(0)
    return f"asked {n}"


ROUNDS: Sequence[Any] = [calls("pay"), calls("pay", "ask", "pay"), calls("ask", "pay"), *[calls("pay")] * 3, "done"]
"""Six rounds of tools, the second of three calls."""


def _rounds(name: str, distribute: bool) -> StateGraph[Any]:
    return ReactAgent(TestAgent(ROUNDS), ToolNode([pay, ask], distribute=distribute), state=Notes, name=name).graph


rounds = _rounds("rounds", distribute=False)
spread_rounds = _rounds("spread_rounds", distribute=True)


def careful(n: int, tool_call_id: str) -> str:
    """Pay at most once."""
    return str(effect("pay", _pay_once, tool_call_id, at_most_once=True))


def _pay_once(call_id: str) -> str:
    note("pay", call_id)
    strike_here("in", "tool", call_id)
    return "paid"


careful_rounds = ReactAgent(TestAgent([calls("careful"), "done"]), [careful], name="careful_rounds").graph


def _named(name: str, distribute: bool) -> StateGraph[Any]:
    graph = loop(distribute)()
    graph.name = name
    return graph


suite_rounds = _named("suite_rounds", distribute=False)
suite_spread_rounds = _named("suite_spread_rounds", distribute=True)


# -- ten slow tools


def slow(n: int) -> str:
    """Take as long as ten of its kind need to be under way at once."""
    note("start", n, os.getpid())
    together = _wait_for_starts(TOGETHER)
    note("end", n, os.getpid())
    return "together" if together else "alone"


slow_ten = ReactAgent(
    TestAgent([calls(*["slow"] * TOGETHER), "done"]), ToolNode([slow], distribute=True), name="slow_ten"
).graph


@tool(queue="gpu")
def where(n: int) -> str:
    """Tell which process this is."""
    return str(os.getpid())


def here(n: int) -> str:
    """Tell which process this is."""
    return str(os.getpid())


two_queues = ReactAgent(
    TestAgent([calls("where", "here"), "done"]), ToolNode([where, here], distribute=True), name="two_queues"
).graph


# -- a tool's message and state (case P)


class City(AgentState):
    city: str = ""
    seen: Annotated[list[str], append_items] = []


def select_city(city: str) -> ToolResult:
    """Choose a city."""
    return ToolResult(f"City updated to {city!r}.", state={"city": city, "seen": [city]})


def spoil(what: str) -> ToolResult:
    """Touch what belongs to the runtime."""
    return ToolResult("spoiled", state={what: []})


def _prompted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Ask for tools once; then tell what came back, which it sees in its prompt."""
    returned = [str(part.content) for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    if returned:
        return ModelResponse(parts=[TextPart(" | ".join(returned))])
    asked = [
        ("select_city", {"city": "Oslo"}), ("select_city_later", {"city": "Rome"}),
        ("spoil", {"what": "context"}), ("spoil", {"what": "execution_meta"}),
    ]  # fmt: skip
    return ModelResponse(parts=[ToolCallPart(name, args, f"call{at}") for at, (name, args) in enumerate(asked)])


async def select_city_later(city: str) -> ToolResult:
    """Choose another city."""
    return ToolResult(f"{city} is next.", state={"seen": [city]})


def _cities(name: str, distribute: bool) -> StateGraph[Any]:
    tools = ToolNode([select_city, select_city_later, spoil], distribute=distribute)
    return ReactAgent(FunctionModel(_prompted), tools, state=City, name=name).graph


cities = _cities("cities", distribute=False)
spread_cities = _cities("spread_cities", distribute=True)


# -- two graphs with containers of their own


class Database:
    def __init__(self, name: str) -> None:
        self.name = name


class Service:
    def __init__(self, database: Database) -> None:
        self.database = database


@inject
def helper(database: Database) -> str:
    """Be called by nodes and tools, and ask injectq itself."""
    return database.name


async def _meet(database: Database, service: Service, where: str) -> str:
    """Return whom it knows of, when the other graph's code of this kind is under way, too."""
    note(where, database.name)
    while sum(line[0] == where for line in ledger_lines()) < 2:  # noqa: ASYNC110 - the other is another run
        await asyncio.sleep(0.01)
    told = InjectQ.get_instance().get(Database).name
    return f"{database.name} {service.database.name} {helper()} {told}"  # type: ignore[call-arg]  # injected


async def node(state: Notes, database: Database, service: Service) -> dict[str, Any]:
    return {"notes": [await _meet(database, service, "node")]}


async def async_tool(n: int, database: Database, service: Service) -> str:
    """Tell the container's name."""
    return await _meet(database, service, "tool")


def sync_tool(n: int, database: Database, service: Service) -> str:
    """Tell the container's name."""
    told = InjectQ.get_instance().get(Database).name
    return f"{database.name} {service.database.name} {helper()} {told}"  # type: ignore[call-arg]  # injected


def _tenant(name: str) -> StateGraph[Any]:
    container = InjectQ()
    container.bind_instance(Database, Database(name))
    container.bind(Service, Service)
    graph = StateGraph(Notes, container=container, name=name)
    graph.add_node("node", node).add_node("ask", TestAgent([calls("async_tool", "sync_tool")]))
    graph.add_node("tools", ToolNode([async_tool, sync_tool]))
    return graph.set_entry_point("node").add_edge("node", "ask").add_edge("ask", "tools")


left = _tenant("left")
right = _tenant("right")

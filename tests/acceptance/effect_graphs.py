"""Graphs whose nodes and tools do what must not be done twice. They note it in the file that LEDGER names."""

from typing import Any

from tenxgraph.core.graph import StateGraph, ToolNode
from tenxgraph.utils import effect
from tests.acceptance.graphs import Notes, note, wait_for


def _pay(what: str) -> str:
    note("pay", what)
    return f"paid {what}"


def _slow_pay(what: str) -> str:
    note("start", what)
    wait_for("go")
    note("end", what)
    return f"paid {what}"


def quick(n: int) -> str:
    return _pay(f"quick{n}")


async def quick_async(n: int) -> str:
    return _pay(f"async{n}")


def slow(n: int) -> str:
    return _slow_pay(f"slow{n}")


tools = StateGraph(Notes, name="tools").add_node("tools", ToolNode([quick, quick_async, slow]))
tools.set_entry_point("tools")


def _pays_then_waits(state: Notes, config: dict[str, Any]) -> dict[str, Any]:
    receipt = effect("pay", _pay, "once")
    note("key", config["idempotency_key"])
    wait_for("go")
    return {"notes": [receipt]}


paying = StateGraph(Notes, name="paying").add_node("pay", _pays_then_waits).set_entry_point("pay")


def _pays_slowly(state: Notes) -> dict[str, Any]:
    return {"notes": [effect("pay", _slow_pay, "slowly")]}


patient = StateGraph(Notes, name="patient").add_node("pay", _pays_slowly, timeout_s=4.0).set_entry_point("pay")


def _pays_at_most_once(state: Notes) -> dict[str, Any]:
    return {"notes": [effect("pay", _slow_pay, "once", at_most_once=True)]}


careful = StateGraph(Notes, name="careful").add_node("pay", _pays_at_most_once).set_entry_point("pay")


def _works_at_most_once(state: Notes) -> dict[str, Any]:
    return {"notes": [_slow_pay("once")]}


careful_node = StateGraph(Notes, name="careful_node").add_node("pay", _works_at_most_once, at_most_once=True)
careful_node.set_entry_point("pay")

"""What the graphs of the suite are made of: states, nodes, inputs. Nodes are deterministic and run in any process."""

import operator
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from tenxgraph.core.graph import StateGraph
from tenxgraph.core.state import AgentState, Message
from tenxgraph.testing.oracle import CaseCall
from tenxgraph.utils.constants import END, START

Last = Mapping[str, Any] | None


class Log(AgentState):
    """Nodes note themselves in ``log``."""

    log: Annotated[list[str], operator.add] = []
    count: int = 0
    item: str = ""


def note(name: str) -> Callable[[Log], dict[str, Any]]:
    """Return a node that notes its name."""

    def noted(state: Log) -> dict[str, Any]:
        return {"log": [name]}

    return noted


def write_down(config: Mapping[str, Any], line: str) -> None:
    """Append to the ledger that the config names, if it does: it tells how often a node really ran."""
    if "ledger" in config:
        with Path(config["ledger"]).open("a", encoding="utf-8") as ledger:
            ledger.write(f"{line}\n")


def graph(*names: str, **nodes: Callable[..., Any]) -> StateGraph[Log]:
    """Return a builder with a noting node per name, and the given nodes."""
    built = StateGraph(Log)
    for name in names:
        built.add_node(name, note(name))
    for name, node in nodes.items():
        built.add_node(name, node)
    return built


def chain(built: StateGraph[Any], *names: str) -> StateGraph[Any]:
    """Lead from START through the nodes to END."""
    for source, target in zip((START, *names), (*names, END), strict=True):
        built.add_edge(source, target)
    return built


def say(text: str = "Hi", **fields: Any) -> Callable[[Last], Any]:
    """Return what gives one user message, with state fields."""

    def give(last: Last) -> Any:
        messages = [Message.text_message(text)]
        return {"messages": messages, "state": fields} if fields else {"messages": messages}

    return give


def go_on(last: Last) -> None:
    """Give nothing: continue."""


def answer(value: Any) -> Callable[[Last], Any]:
    """Return what answers the only question."""
    return lambda last: {"resume": value}


def ask(text: str = "Hi", **options: Any) -> CaseCall:
    """Return a call with one user message."""
    return CaseCall(say(text), **options)

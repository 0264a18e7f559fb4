"""What ``compile()`` finds wrong with a graph: all of it at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from injectq import InjectQ

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.call_plan import CallPlan
from tenxgraph.core.graph.node import Node
from tenxgraph.core.graph.router import Router
from tenxgraph.core.graph.topology import Link, Topology, reachable
from tenxgraph.utils.constants import END, START


class GraphWarning(UserWarning):
    """The graph runs, but something about it will surprise."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing to mend.

    Attributes:
        code: A stable upper-case word.
        names: The names it is about.
        text: A sentence with the next move.
    """

    code: str
    names: tuple[str, ...]
    text: str


_KIND = {"edge": "an edge", "route": "a condition", "goto": "the Command annotation", "error": "on_error"}


def find_faults(
    nodes: Mapping[str, Node],
    topology: Topology,
    routers: Sequence[Router],
    interrupts: Mapping[str, Collection[str]],
    container: InjectQ | None,
) -> list[Fault]:
    """Return every fault, the ones that may cause others first."""
    calls = {f"node {node.name!r}": node.call for node in nodes.values()}
    calls.update({f"condition {router.name!r} after {router.source!r}": router.call for router in routers})
    faults = [*_entry(topology), *_unknown(topology), *_interrupts(nodes, interrupts), *_dependencies(calls, container)]
    if not any(fault.code == "NO_ENTRY" for fault in faults):
        faults.extend(_unreachable(topology))
    return faults


def raise_faults(graph: str, faults: Sequence[Fault]) -> None:
    """Raise one GraphError for all of them, under the code of the first; none raises nothing."""
    if not faults:
        return
    text = faults[0].text if len(faults) == 1 else "".join(f"\n- {fault.code}: {fault.text}" for fault in faults)
    raise GraphError(
        f"{graph} does not compile: {text}",
        error_code=faults[0].code,
        context={
            "faults": [{"code": fault.code, "names": list(fault.names), "text": fault.text} for fault in faults],
            "names": list(dict.fromkeys(name for fault in faults for name in fault.names)),
        },
    )


def undeclared(nodes: Mapping[str, Node], routers: Sequence[Router]) -> list[str]:
    """Name the conditions and nodes that may lead where nobody declared."""
    conditions = [f"condition {item.name!r} after {item.source!r}" for item in routers if item.targets is None]
    return conditions + [f"the Command of node {node.name!r}" for node in nodes.values() if node.goto_open]


def _entry(topology: Topology) -> Iterator[Fault]:
    starts = [link for link in topology.links if link.source == START]
    if all(link.declared and set(link.targets) <= {END} for link in starts):
        yield Fault("NO_ENTRY", (), "no node comes first: add_edge(START, …) or set_entry_point(…).")


def _unknown(topology: Topology) -> Iterator[Fault]:
    known = set(topology.nodes)
    for link in topology.links:
        if link.source not in known and link.source != START:
            yield _missing("UNKNOWN_NODE", link.source, f"{_KIND[link.kind]} leaves it", topology)
        code = "UNKNOWN_ON_ERROR" if link.kind == "error" else "UNKNOWN_NODE"
        for target in link.targets:
            if target not in known and target != END:
                yield _missing(code, target, f"{_KIND[link.kind]} of {link.source!r} leads there", topology)


def _missing(code: str, name: str, why: str, topology: Topology) -> Fault:
    close = get_close_matches(name, topology.nodes, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else f"; add_node({name!r}, …)."
    return Fault(code, (name,), f"there is no node {name!r}, but {why}{hint}")


def _interrupts(nodes: Mapping[str, Node], interrupts: Mapping[str, Collection[str]]) -> Iterator[Fault]:
    for parameter, names in interrupts.items():
        for name in sorted(set(names) - set(nodes)):
            close = get_close_matches(name, list(nodes), n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            yield Fault("UNKNOWN_INTERRUPT_NODE", (name,), f"{parameter} names {name!r}, which is no node{hint}")


def _dependencies(calls: Mapping[str, CallPlan], container: InjectQ | None) -> Iterator[Fault]:
    for what, call in calls.items():
        for parameter in call.missing(container):
            yield Fault(
                "UNKNOWN_DEPENDENCY",
                (parameter,),
                f"{what} needs {parameter!r}, whose class no container knows: bind it before compile(), "
                "or mark the parameter `= Inject[…]`.",
            )


def _unreachable(topology: Topology) -> Iterator[Fault]:
    found = reachable(topology)
    if any(_is_open(link, found) for link in topology.links):
        return
    lost = tuple(name for name in topology.nodes if name not in found)
    if lost:
        names = ", ".join(map(repr, lost))
        yield Fault(
            "UNREACHABLE_NODE",
            lost,
            f"nothing leads to {names}: add an edge, or declare the goto with `-> Command[Literal[…]]`.",
        )


def _is_open(link: Link, found: Collection[str]) -> bool:
    return not link.declared and (link.source == START or link.source in found)

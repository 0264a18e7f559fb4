"""Which node leads where: pure data, and who can reach whom once the back edges are taken out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tenxgraph.core.exceptions import GraphError
from tenxgraph.utils.constants import START

LinkKind = Literal["edge", "route", "goto", "error"]


@dataclass(frozen=True, slots=True)
class Link:
    """One declaration of where a node leads.

    Attributes:
        kind: ``edge`` (always), ``route`` (a condition), ``goto`` (a Command's annotation), ``error`` (``on_error``).
        source: The node, or START.
        targets: Nodes or END, in the order of declaration.
        declared: False if there may be further targets that nobody declared.
    """

    kind: LinkKind
    source: str
    targets: tuple[str, ...]
    declared: bool = True


@dataclass(frozen=True, slots=True)
class Topology:
    """The frozen shape of a graph.

    Attributes:
        nodes: Names in the order of declaration.
        links: Every declaration, in order.
        back_edges: The edges that close a circle, depth-first from START in the order of declaration.
    """

    nodes: tuple[str, ...]
    links: tuple[Link, ...]
    back_edges: frozenset[tuple[str, str]]
    _static: Mapping[str, tuple[str, ...]] = field(repr=False)
    _on_error: Mapping[str, str] = field(repr=False)
    _bits: Mapping[str, int] = field(repr=False)
    _reach: Mapping[str, int] = field(repr=False)

    def static_targets(self, source: str) -> tuple[str, ...]:
        """Return where ``source`` always leads; empty means nowhere but its conditions, or END."""
        return self._static.get(source, ())

    def on_error(self, node: str) -> str | None:
        """Return the node that takes over when ``node`` fails for good, if any."""
        return self._on_error.get(node)

    def bit(self, node: str) -> int:
        """Return the one-bit mask of ``node``.

        Raises:
            GraphError: ``UNKNOWN_NODE`` if the graph has no such node.
        """
        try:
            return self._bits[node]
        except KeyError:
            raise GraphError(
                f"The graph has no node {node!r}.", error_code="UNKNOWN_NODE", context={"node": node}
            ) from None

    def reach(self, node: str) -> int:
        """Return the mask of the nodes that ``node`` can reach without a back edge; never itself."""
        return self._reach[node]

    def reaches(self, source: str, target: str) -> bool:
        """Say whether a path without back edges leads from ``source`` (or START) to ``target``."""
        return bool(self._reach[source] & self.bit(target))


def build_topology(nodes: Sequence[str], links: Sequence[Link]) -> Topology:
    """Freeze the declarations; names that no node has are left to the checks of ``compile()``."""
    bits = {name: 1 << position for position, name in enumerate(nodes)}
    successors = _successors(bits, links)
    back_edges, finished = _depth_first([START, *nodes], successors)
    return Topology(
        nodes=tuple(nodes),
        links=tuple(links),
        back_edges=frozenset(back_edges),
        _static=_static(links),
        _on_error={link.source: link.targets[0] for link in links if link.kind == "error"},
        _bits=bits,
        _reach=_reachability(finished, successors, back_edges, bits),
    )


def _successors(bits: Mapping[str, int], links: Sequence[Link]) -> dict[str, tuple[str, ...]]:
    ordered: dict[str, dict[str, None]] = {name: {} for name in (START, *bits)}
    for link in links:
        if link.source in ordered:
            ordered[link.source].update((target, None) for target in link.targets if target in bits)
    return {name: tuple(targets) for name, targets in ordered.items()}


def _static(links: Sequence[Link]) -> dict[str, tuple[str, ...]]:
    targets: dict[str, dict[str, None]] = {}
    for link in links:
        if link.kind == "edge":
            targets.setdefault(link.source, {}).update(dict.fromkeys(link.targets))
    return {source: tuple(found) for source, found in targets.items()}


def _depth_first(
    roots: Sequence[str], successors: Mapping[str, tuple[str, ...]]
) -> tuple[set[tuple[str, str]], list[str]]:
    """Return the back edges and the nodes in the order in which the search left them."""
    back_edges: set[tuple[str, str]] = set()
    finished: list[str] = []
    open_or_done: dict[str, bool] = {}
    for root in roots:
        if root in open_or_done:
            continue
        open_or_done[root] = True
        stack: list[tuple[str, Iterator[str]]] = [(root, iter(successors[root]))]
        while stack:
            node, rest = stack[-1]
            target = next(rest, None)
            if target is None:
                stack.pop()
                open_or_done[node] = False
                finished.append(node)
            elif target not in open_or_done:
                open_or_done[target] = True
                stack.append((target, iter(successors[target])))
            elif open_or_done[target]:
                back_edges.add((node, target))
    return back_edges, finished


def _reachability(
    finished: Sequence[str],
    successors: Mapping[str, tuple[str, ...]],
    back_edges: set[tuple[str, str]],
    bits: Mapping[str, int],
) -> dict[str, int]:
    reach: dict[str, int] = {}
    for node in finished:
        mask = 0
        for target in successors[node]:
            if (node, target) not in back_edges:
                mask |= bits[target] | reach[target]
        reach[node] = mask
    return reach


def reachable(topology: Topology) -> frozenset[str]:
    """Return the nodes to which a declared path leads from START; back edges add none."""
    mask = topology.reach(START)
    return frozenset(name for name in topology.nodes if mask & topology.bit(name))

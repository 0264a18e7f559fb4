"""Which tasks run next: pure functions of the graph and of what arrives where."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.topology import Topology
from tenxgraph.utils.command import Send
from tenxgraph.utils.constants import END


@dataclass(frozen=True, slots=True)
class Planned:
    """One arrival at a node, to become a task.

    Attributes:
        node: Where.
        send: The payload of a `Send`, None for an edge; the planner never looks into it.
        each: Whether the node runs once per arrival (``join="each"``).
    """

    node: str
    send: Mapping[str, Any] | None = None
    each: bool = False

    @property
    def joins(self) -> bool:
        """Whether it merges with other arrivals at its node."""
        return self.send is None and not self.each


@dataclass(frozen=True, slots=True)
class Plan:
    """What runs now and what waits, each in the order of first arrival."""

    ready: tuple[Planned, ...]
    waiting: tuple[Planned, ...]


def plan_next(topology: Topology, waiting: Sequence[Planned], arrivals: Sequence[Planned]) -> Plan:
    """Decide which tasks make the next step.

    A node that joins waits while another planned node can reach it without a back edge. That relation has no circle,
    so of any planned tasks some can run: there is no deadlock.

    Args:
        topology: The graph.
        waiting: What the last plan left waiting.
        arrivals: What the step that just ended leads to, in plan order; END arrivals vanish.

    Raises:
        GraphError: ``UNKNOWN_NODE`` for an arrival at no node of the graph.
    """
    planned = _merge(waiting, arrivals)
    held = 0
    for item in planned:
        topology.bit(item.node)
        held |= topology.reach(item.node)
    ready: list[Planned] = []
    kept: list[Planned] = []
    for item in planned:
        waits = item.joins and held & topology.bit(item.node)
        (kept if waits else ready).append(item)
    return Plan(tuple(ready), tuple(kept))


def _merge(waiting: Sequence[Planned], arrivals: Sequence[Planned]) -> list[Planned]:
    joined: set[str] = set()
    merged: list[Planned] = []
    for item in (*waiting, *arrivals):
        if item.node == END or (item.joins and item.node in joined):
            continue
        if item.joins:
            joined.add(item.node)
        merged.append(item)
    return merged


def resolve_targets(
    decision: Any, path_map: Mapping[Any, str] | None, known: Collection[str], *, condition: str
) -> list[str | Send]:
    """Turn what a condition returned, or a Command's ``targets``, into nodes, END and Sends.

    Args:
        decision: One value, or a list or tuple of them: a name, a key of ``path_map``, a `Send`; None and an empty
            list lead to END.
        path_map: Returned value → node, or None.
        known: The nodes of the graph.
        condition: How an error names it.

    Raises:
        GraphError: ``UNKNOWN_TARGET`` naming the condition, the value and the targets it may choose.
    """
    if _is_key(decision, path_map):
        return [_resolve(decision, path_map, known, condition)]
    if decision is None:
        return [END]
    decisions = decision if isinstance(decision, list | tuple) else [decision]
    return [_resolve(item, path_map, known, condition) for item in decisions] or [END]


def _resolve(item: Any, path_map: Mapping[Any, str] | None, known: Collection[str], condition: str) -> str | Send:
    if isinstance(item, Send):
        if item.node in known:
            return item
        raise _unknown(item.node, known, condition)
    name = path_map[item] if path_map is not None and _is_key(item, path_map) else item
    if name == END or (isinstance(name, str) and name in (known if path_map is None else path_map.values())):
        return str.__str__(name)  # the plain text of a str enum, whose own str() may be its member's name
    raise _unknown(item, known if path_map is None else path_map, condition)


def _is_key(item: Any, path_map: Mapping[Any, str] | None) -> bool:
    try:
        return path_map is not None and item in path_map
    except TypeError:  # not hashable, so no key
        return False


def _unknown(value: Any, choices: Collection[Any], condition: str) -> GraphError:
    listed = ", ".join(repr(choice) for choice in choices)
    return GraphError(
        f"{condition} chose {value!r}, which leads nowhere; it can choose {listed} or END.",
        error_code="UNKNOWN_TARGET",
        context={"condition": condition, "value": repr(value), "targets": [str(choice) for choice in choices]},
    )


def exceeds(step: int, limit: int) -> bool:
    """Say whether ``step`` is one too many; START is step 0, so ``limit`` steps with nodes are fine."""
    return step > limit

"""Draw a graph as a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tenxgraph.core.graph.definition import GraphDefinition
from tenxgraph.core.graph.router import Router
from tenxgraph.core.graph.topology import Topology
from tenxgraph.utils.constants import END, START

_ESCAPES = {ord(char): f"#{ord(char)};" for char in '#"&<>`'}


def draw_mermaid(definition: GraphDefinition[Any]) -> str:
    """Return the graph as Mermaid text: solid edges always hold, dotted ones by choice, red ones after a failure."""
    ids = {START: "start", END: "stop", **{name: f"n{number}" for number, name in enumerate(definition.nodes)}}
    edges = list(_edges(definition, ids))
    lines = ["flowchart TD", '    start(["START"])']
    lines += [f'    {ids[name]}["{_escape(name)}"]' for name in definition.nodes]
    lines += ['    stop(["END"])', *(['    open{{"?"}}'] if _is_open(definition) else [])]
    lines += [f"    {edge}" for edge, _ in edges]
    failing = [str(number) for number, (_, fails) in enumerate(edges) if fails]
    if failing:
        lines.append(f"    linkStyle {','.join(failing)} stroke:#c33")
    return "\n".join(lines) + "\n"


def _is_open(definition: GraphDefinition[Any]) -> bool:
    return any(router.targets is None for routers in definition.routers.values() for router in routers)


def _edges(definition: GraphDefinition[Any], ids: dict[str, str]) -> Iterator[tuple[str, bool]]:
    topology = definition.topology
    for name in (START, *definition.nodes):
        for target in topology.static_targets(name):
            yield f"{ids[name]} --> {ids[target]}", False
        for router in definition.routers.get(name, ()):
            yield from ((edge, False) for edge in _conditional(router, ids))
        if name != START:
            yield from _of_node(definition, name, ids)


def _conditional(router: Router, ids: dict[str, str]) -> Iterator[str]:
    label = router.name.rpartition(".")[2]
    if router.targets is None:
        yield _dotted(ids[router.source], label, "open")
    elif router.path_map is None:
        yield from (_dotted(ids[router.source], label, ids[target]) for target in router.targets)
    else:
        for value, target in router.path_map.items():
            text = label if value == target else f"{label}: {value}"
            yield _dotted(ids[router.source], text, ids[target])


def _of_node(definition: GraphDefinition[Any], name: str, ids: dict[str, str]) -> Iterator[tuple[str, bool]]:
    node = definition.nodes[name]
    for target in node.goto_targets or ():
        yield _dotted(ids[name], "goto", ids[target]), False
    if node.policies.on_error is not None:
        yield _dotted(ids[name], "on error", ids[node.policies.on_error]), True
    if _leads_to_end(definition.topology, name):
        yield f"{ids[name]} --> {ids[END]}", False


def _leads_to_end(topology: Topology, name: str) -> bool:
    return all(link.kind == "error" for link in topology.links if link.source == name)


def _dotted(source: str, label: str, target: str) -> str:
    return f'{source} -. "{_escape(label)}" .-> {target}'


def _escape(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text).translate(_ESCAPES)

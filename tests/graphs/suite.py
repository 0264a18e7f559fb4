"""The suite: every graph as data. Workers load ``tests.graphs.suite:graphs``."""

from itertools import chain
from typing import Any, Final

from tenxgraph.core.graph import CompiledGraph
from tenxgraph.testing.oracle import GraphCase
from tests.graphs import calls, effects, faults, flow, people, values

CASES: Final[dict[str, GraphCase]] = {
    case.name: case for case in chain(flow.CASES, values.CASES, faults.CASES, people.CASES, effects.CASES, calls.CASES)
}


def graphs() -> list[CompiledGraph[Any]]:
    """Return all graphs of the suite, each under its case's name."""
    return [case.compile() for case in CASES.values()]

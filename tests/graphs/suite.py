"""The suite: every graph as data. Workers load ``tests.graphs.suite:graphs``."""

from itertools import chain
from typing import Any, Final

from tenxgraph.core.graph import CompiledGraph
from tenxgraph.testing.oracle import GraphCase
from tests.graphs import agents, calls, effects, faults, flow, people, values

_ALL = (flow.CASES, values.CASES, faults.CASES, people.CASES, effects.CASES, calls.CASES, agents.CASES)
CASES: Final[dict[str, GraphCase]] = {case.name: case for case in chain(*_ALL)}


def graphs() -> list[CompiledGraph[Any]]:
    """Return all graphs of the suite, each under its case's name."""
    return [case.compile() for case in CASES.values()]

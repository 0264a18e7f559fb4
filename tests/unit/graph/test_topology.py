"""The frozen shape of a graph: back edges, reachability, size."""

import pickle
from itertools import pairwise

import pytest

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.topology import Link, build_topology, reachable
from tenxgraph.utils.constants import END, START


def edges(*pairs: str) -> list[Link]:
    return [Link("edge", *_split(pair)) for pair in pairs]


def _split(pair: str) -> tuple[str, tuple[str, ...]]:
    source, target = pair.replace("START", START).replace("END", END).split(">")
    return source, (target,)


def test_the_edge_that_closes_a_circle_is_the_back_edge() -> None:
    topology = build_topology(["a", "b", "c"], edges("START>a", "a>b", "b>c", "c>a"))
    assert topology.back_edges == {("c", "a")}
    assert topology.reaches("a", "c")
    assert not topology.reaches("c", "a")


def test_which_edge_closes_a_circle_depends_on_the_order_of_declaration() -> None:
    first_a = build_topology(["a", "b"], edges("START>a", "START>b", "a>b", "b>a"))
    first_b = build_topology(["a", "b"], edges("START>b", "START>a", "a>b", "b>a"))
    assert first_a.back_edges == {("b", "a")}
    assert first_b.back_edges == {("a", "b")}


def test_conditions_gotos_and_error_handlers_are_edges_too() -> None:
    links = [
        *edges("START>a"),
        Link("route", "a", ("b", END)),
        Link("goto", "b", ("c",), declared=False),
        Link("error", "c", ("d",)),
    ]
    topology = build_topology(["a", "b", "c", "d"], links)
    assert reachable(topology) == {"a", "b", "c", "d"}
    assert topology.reaches("a", "d")
    assert topology.static_targets("a") == ()
    assert topology.on_error("c") == "d"
    assert topology.on_error("a") is None


def test_a_node_never_reaches_itself() -> None:
    topology = build_topology(["a", "b"], edges("START>a", "a>a", "a>b", "b>a"))
    assert not topology.reaches("a", "a")
    assert not topology.reaches("b", "b")


def test_nodes_that_no_declared_path_leads_to_have_their_acyclic_rest_as_well() -> None:
    topology = build_topology(["a", "x", "y"], edges("START>a", "x>y", "y>x", "y>a"))
    assert reachable(topology) == {"a"}
    assert topology.reaches("x", "y")
    assert topology.reaches("x", "a")
    assert not topology.reaches("y", "x")


def test_an_edge_declared_twice_leads_there_once() -> None:
    assert build_topology(["a"], edges("START>a", "START>a")).static_targets(START) == ("a",)


def test_an_unknown_node_is_refused_by_name() -> None:
    with pytest.raises(GraphError, match="'nobody'"):
        build_topology(["a"], edges("START>a")).reaches("a", "nobody")


def test_a_chain_of_ten_thousand_nodes_needs_no_deep_stack() -> None:
    names = [f"n{number}" for number in range(10_000)]
    links = [Link("edge", START, (names[0],))]
    links += [Link("edge", left, (right,)) for left, right in pairwise(names)]
    topology = build_topology(names, links)
    assert topology.reaches(names[0], names[-1])
    assert not topology.reaches(names[-1], names[0])


def test_a_topology_can_be_pickled() -> None:
    topology = build_topology(["a", "b"], edges("START>a", "a>b", "b>a"))
    assert pickle.loads(pickle.dumps(topology)) == topology

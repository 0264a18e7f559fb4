"""The planner: joins, Sends, order, targets, the limit."""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, StrEnum
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.planner import Plan, Planned, exceeds, plan_next, resolve_targets
from tenxgraph.core.graph.topology import Link, Topology, build_topology
from tenxgraph.utils.command import Send
from tenxgraph.utils.constants import END, START

Choose = Callable[[str, tuple[str, ...]], Iterable[str]]


def graph(edges: Mapping[str, str]) -> Topology:
    """Return a topology of ``{"a": "b c"}``; every node is declared in the order of first mention."""
    links = [Link("edge", source, (target,)) for source, targets in edges.items() for target in targets.split()]
    names = dict.fromkeys(name for link in links for name in (link.source, *link.targets))
    return build_topology([name for name in names if name not in (START, END)], links)


def take_all(_: str, targets: tuple[str, ...]) -> Iterable[str]:
    return targets


def run(topology: Topology, choose: Choose = take_all, most_steps: int = 100) -> list[list[str]]:
    """Follow ``choose`` from START until nothing is planned; return the nodes of each step."""
    steps: list[list[str]] = []
    waiting: tuple[Planned, ...] = ()
    arrivals = [Planned(name) for name in choose(START, topology.static_targets(START))]
    for _ in range(most_steps):
        plan = plan_next(topology, waiting, arrivals)
        assert plan.ready or not plan.waiting, "a deadlock"
        if not plan.ready:
            break
        steps.append([item.node for item in plan.ready])
        waiting = plan.waiting
        arrivals = [
            Planned(name) for item in plan.ready for name in choose(item.node, topology.static_targets(item.node))
        ]
    return steps


def nodes(items: Iterable[Planned]) -> list[str]:
    return [item.node for item in items]


def test_a_chain_runs_one_node_a_step() -> None:
    assert run(graph({START: "a", "a": "b", "b": END})) == [["a"], ["b"]]


def test_branches_of_different_length_join_once() -> None:
    topology = graph({START: "short long", "long": "longer", "longer": "longest", "longest": "join", "short": "join"})
    assert run(topology) == [["short", "long"], ["longer"], ["longest"], ["join"]]


def test_a_branch_that_a_condition_skipped_holds_nobody_up() -> None:
    topology = graph({START: "fork", "fork": "left right", "left": "join", "right": "join", "join": "after"})

    def only_left(node: str, targets: tuple[str, ...]) -> Iterable[str]:
        return ["left"] if node == "fork" else targets

    assert run(topology, only_left) == [["fork"], ["left"], ["join"], ["after"]]


def test_a_branch_that_ends_elsewhere_releases_the_join() -> None:
    topology = graph({START: "quick slow", "quick": "join", "slow": "detour", "detour": "join other"})

    def avoid_the_join(node: str, targets: tuple[str, ...]) -> Iterable[str]:
        return ["other"] if node == "detour" else targets

    assert run(topology, avoid_the_join) == [["quick", "slow"], ["detour"], ["join", "other"]]


def test_inside_a_loop_uneven_branches_join_once_a_round() -> None:
    topology = graph(
        {START: "top", "top": "short long", "long": "longer", "short": "join", "longer": "join", "join": "top"}
    )
    one_round = [["top"], ["short", "long"], ["longer"], ["join"]]
    assert run(topology, most_steps=12) == one_round * 3


def test_two_joins_in_a_row_wait_for_each_other() -> None:
    topology = graph({START: "a b c", "a": "first last", "b": "first", "first": "last", "c": "last"})
    assert run(topology) == [["a", "b", "c"], ["first"], ["last"]]


def test_a_node_does_not_wait_for_its_own_next_round() -> None:
    assert run(graph({START: "a", "a": "a"}), most_steps=3) == [["a"], ["a"], ["a"]]


def test_an_error_handler_that_leads_back_is_waited_for_like_any_branch() -> None:
    links = [
        Link("edge", START, ("risky", "calm")),
        Link("edge", "risky", ("join",)),
        Link("edge", "calm", ("join",)),
        Link("error", "risky", ("rescue",)),
        Link("edge", "rescue", ("join",)),
    ]
    topology = build_topology(["risky", "calm", "rescue", "join"], links)
    failed = plan_next(topology, (), [Planned("rescue"), Planned("join")])
    assert (nodes(failed.ready), nodes(failed.waiting)) == (["rescue"], ["join"])


def test_a_branch_delivered_twice_counts_once() -> None:
    topology = graph({START: "a b", "a": "join", "b": "join"})
    plan = plan_next(topology, [Planned("join")], [Planned("join"), Planned("join")])
    assert plan == Plan(ready=(Planned("join"),), waiting=())


def test_a_merged_arrival_keeps_the_place_of_the_first() -> None:
    topology = graph({START: "a b c"})
    plan = plan_next(topology, [Planned("b")], [Planned("c"), Planned("b"), Planned("a")])
    assert nodes(plan.ready) == ["b", "c", "a"]


def test_every_send_is_a_task_of_its_own_and_starts_at_once() -> None:
    topology = graph({START: "slow work", "slow": "work"})
    sends = [Planned("work", send={"part": number}) for number in range(3)]
    plan = plan_next(topology, (), [Planned("slow"), *sends, Planned("work")])
    assert plan.ready == (Planned("slow"), *sends)
    assert plan.waiting == (Planned("work"),)


def test_an_empty_send_is_still_a_send() -> None:
    plan = plan_next(graph({START: "work"}), (), [Planned("work", send={}), Planned("work", send={})])
    assert len(plan.ready) == 2


def test_a_send_in_flight_holds_the_join_behind_it() -> None:
    topology = graph({START: "fan quick", "fan": "work", "work": "join", "quick": "join"})
    plan = plan_next(topology, (), [Planned("work", send={}), Planned("join")])
    assert (nodes(plan.ready), nodes(plan.waiting)) == (["work"], ["join"])


def test_join_each_runs_once_per_arrival_and_never_waits() -> None:
    topology = graph({START: "a slow", "slow": "log", "a": "log"})
    plan = plan_next(topology, (), [Planned("slow"), Planned("log", each=True), Planned("log", each=True)])
    assert nodes(plan.ready) == ["slow", "log", "log"]


def test_an_undeclared_arrival_counts_when_it_arrives_and_then_holds_what_follows_it() -> None:
    topology = graph({START: "a", "a": "join", "surprise": "join"})
    assert nodes(plan_next(topology, (), [Planned("a")]).ready) == ["a"]
    plan = plan_next(topology, (), [Planned("join"), Planned("surprise")])
    assert (nodes(plan.ready), nodes(plan.waiting)) == (["surprise"], ["join"])


def test_arrivals_at_end_vanish() -> None:
    topology = graph({START: "a"})
    assert plan_next(topology, (), [Planned(END), Planned(END)]) == Plan(ready=(), waiting=())
    assert nodes(plan_next(topology, (), [Planned(END), Planned("a")]).ready) == ["a"]


def test_an_arrival_at_no_node_is_refused_by_name() -> None:
    with pytest.raises(GraphError, match="'gone'") as caught:
        plan_next(graph({START: "a"}), (), [Planned("gone")])
    assert caught.value.error_code == "UNKNOWN_NODE"


def test_sixteen_branches_stay_in_plan_order() -> None:
    branches = [f"b{number}" for number in range(16)]
    topology = graph({START: " ".join(branches), **dict.fromkeys(branches, "join")})
    assert run(topology) == [branches, ["join"]]


def test_two_hundred_sends_of_a_thousand_node_graph_are_planned_at_once() -> None:
    chain = {f"n{number}": f"n{number + 1}" for number in range(1_000)}
    topology = graph({START: "n0", **chain})
    plan = plan_next(topology, (), [Planned("n0", send={"i": i}) for i in range(200)] + [Planned("n1000")])
    assert (len(plan.ready), nodes(plan.waiting)) == (200, ["n1000"])


NAMES = [f"n{number}" for number in range(8)]
PAIRS = st.tuples(st.integers(0, len(NAMES) - 1), st.integers(0, len(NAMES) - 1))


def build(pairs: Iterable[tuple[int, int]], entries: Iterable[int]) -> Topology:
    links = [Link("edge", START, (NAMES[entry],)) for entry in entries]
    links += [Link("edge", NAMES[source], (NAMES[target],)) for source, target in pairs]
    return build_topology(NAMES, links)


ENTRIES = st.lists(st.integers(0, len(NAMES) - 1), min_size=1, unique=True)
PLANNED = st.lists(
    st.builds(
        Planned, st.sampled_from(NAMES), st.sampled_from([None, None, {}]), st.sampled_from([False, False, True])
    ),
    max_size=12,
)


@settings(deadline=None)
@given(st.lists(PAIRS, max_size=30), ENTRIES, PLANNED, PLANNED)
def test_whatever_is_planned_something_can_run(
    pairs: list[tuple[int, int]], entries: list[int], waiting: list[Planned], arrivals: list[Planned]
) -> None:
    plan = plan_next(build(pairs, entries), waiting, arrivals)
    assert bool(plan.ready) == bool(waiting or arrivals)


@settings(deadline=None)
@given(st.lists(PAIRS, max_size=30), ENTRIES, PLANNED)
def test_what_is_ready_is_reached_by_nothing_else_and_what_waits_is(
    pairs: list[tuple[int, int]], entries: list[int], arrivals: list[Planned]
) -> None:
    topology = build(pairs, entries)
    plan = plan_next(topology, (), arrivals)
    everything = [*plan.ready, *plan.waiting]
    for item in everything:
        held = any(topology.reaches(other.node, item.node) for other in everything)
        assert (item in plan.waiting) == (item.joins and held)


@settings(deadline=None)
@given(st.lists(PAIRS, max_size=30), ENTRIES)
def test_without_circles_every_node_that_is_led_to_runs_exactly_once(
    pairs: list[tuple[int, int]], entries: list[int]
) -> None:
    downward = [(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]]
    topology = build(downward, entries)
    ran = [name for step in run(topology) for name in step]
    assert sorted(ran) == [name for name in NAMES if topology.reaches(START, name)]


@settings(deadline=None)
@given(st.lists(PAIRS, max_size=30), ENTRIES, st.randoms(use_true_random=False))
def test_whatever_conditions_choose_a_node_runs_at_most_once_and_parents_come_first(
    pairs: list[tuple[int, int]], entries: list[int], random: Random
) -> None:
    downward = [(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]]
    topology = build(downward, entries)

    def some(_: str, targets: tuple[str, ...]) -> Iterable[str]:
        return [name for name in targets if random.random() < 0.6]

    ran = [name for step in run(topology, some) for name in step]
    assert len(ran) == len(set(ran))
    for early, name in enumerate(ran):
        assert not any(topology.reaches(later, name) for later in ran[early + 1 :])


@settings(deadline=None)
@given(st.lists(PAIRS, max_size=30), ENTRIES, st.randoms(use_true_random=False))
def test_with_circles_no_choice_makes_a_deadlock(
    pairs: list[tuple[int, int]], entries: list[int], random: Random
) -> None:
    def some(_: str, targets: tuple[str, ...]) -> Iterable[str]:
        return [name for name in targets if random.random() < 0.6]

    run(build(pairs, entries), some, most_steps=30)


class Answer(Enum):
    YES = "yes"


class Where(str, Enum):  # noqa: UP042 - its str() is "Where.A", which is what is tested
    A = "a"


class Named(StrEnum):
    B = "b"


KNOWN = ("a", "b")


@pytest.mark.parametrize(
    ("decision", "path_map", "targets"),
    [
        ("a", None, ["a"]),
        (END, None, [END]),
        (None, None, [END]),
        ([], None, [END]),
        (["a", "b"], None, ["a", "b"]),
        (("b", END), None, ["b", END]),
        (Named.B, None, ["b"]),
        (Where.A, None, ["a"]),
        (True, {True: "a", False: "b"}, ["a"]),
        (False, {True: "a", False: "b"}, ["b"]),
        (None, {None: "a"}, ["a"]),
        (Answer.YES, {Answer.YES: "b"}, ["b"]),
        (["yes", "no"], {"yes": "a", "no": END}, ["a", END]),
        (("x", 1), {("x", 1): "a"}, ["a"]),
        ("a", {"yes": "a"}, ["a"]),
        (END, {"yes": "a"}, [END]),
    ],
)
def test_a_decision_becomes_targets(
    decision: object, path_map: Mapping[object, str] | None, targets: list[str]
) -> None:
    found = resolve_targets(decision, path_map, KNOWN, condition="route")
    assert found == targets
    assert all(type(target) is str for target in found)


def test_names_and_sends_mix_and_keep_their_order() -> None:
    send = Send("b", {"part": 1})
    assert resolve_targets([send, "yes", send], {"yes": "a"}, KNOWN, condition="route") == [send, "a", send]
    assert resolve_targets(send, None, KNOWN, condition="route") == [send]


@pytest.mark.parametrize(
    ("decision", "path_map"),
    [
        ("c", None),
        ("b", {"yes": "a"}),
        (True, None),
        (3, {"yes": "a"}),
        (["a", None], None),
        ({"a"}, None),
        ({"a": 1}, {"yes": "a"}),
        (START, None),
        (Send("c", {}), None),
        (Send(END, {}), {"yes": "a"}),
    ],
)
def test_a_decision_that_leads_nowhere_names_condition_value_and_choices(
    decision: object, path_map: Mapping[object, str] | None
) -> None:
    with pytest.raises(GraphError, match="pick_next chose") as caught:
        resolve_targets(decision, path_map, KNOWN, condition="pick_next")
    assert caught.value.error_code == "UNKNOWN_TARGET"
    assert caught.value.context["condition"] == "pick_next"
    assert caught.value.context["targets"]


def test_exactly_at_the_limit_is_fine_and_one_more_is_not() -> None:
    assert [exceeds(step, 3) for step in range(5)] == [False, False, False, False, True]

"""The builder: what it refuses at once, and what define() finds."""

import warnings
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pytest
from injectq import Inject, InjectQ
from pydantic import Field

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph import StateGraph
from tenxgraph.core.graph.checks import GraphWarning
from tenxgraph.core.state import AgentState, Message
from tenxgraph.utils.command import Command, Send
from tenxgraph.utils.constants import END, START


class Order(AgentState):
    city: str = ""
    cart: list[str] = Field(default_factory=list)


class Needy(AgentState):
    order_id: str


class Service:
    pass


def step(state: AgentState) -> None: ...


def plan(state: AgentState) -> None: ...


def to_ab(state: AgentState) -> Literal["a", "b"]:
    return "a"


def anywhere(state: AgentState) -> str:
    return "a"


def chain(*names: str) -> StateGraph[AgentState]:
    graph = StateGraph()
    for name in names:
        graph.add_node(name, step)
    for left, right in zip((START, *names), (*names, END), strict=True):
        graph.add_edge(left, right)
    return graph


def faults(graph: StateGraph[Any], **options: Any) -> list[tuple[str, ...]]:
    with pytest.raises(GraphError) as caught:
        graph.define(**options)
    found = [(fault["code"], *fault["names"]) for fault in caught.value.context["faults"]]
    assert caught.value.error_code == found[0][0]
    for code, *names in found:
        assert all(name in caught.value.message for name in names), code
    return found


def test_the_builder_methods_return_the_builder() -> None:
    graph = StateGraph()
    same = (
        graph.add_node("a", step)
        .add_node(plan)
        .set_entry_point("a")
        .add_edge("a", "plan")
        .add_conditional_edges("plan", to_ab, {"a": "a", "b": END})
        .override_node("a", plan)
    )
    assert same is graph
    assert list(graph.define().nodes) == ["a", "plan"]


def test_a_state_may_be_a_class_or_an_instance_or_nothing() -> None:
    assert StateGraph().add_node("a", step).set_entry_point("a").define().state_class is AgentState
    for state in (Order, Order(city="Paris")):
        definition = StateGraph(state).add_node("a", step).set_entry_point("a").define()
        assert definition.state_class is Order
        assert type(definition.new_state()) is Order


def test_an_instance_gives_the_initial_values_and_is_never_changed_nor_shared() -> None:
    given = Order(city="Paris", cart=["hat"], context=[Message.text_message("Hi")])
    graph = StateGraph(given).add_node("a", step).set_entry_point("a")
    given.cart.append("after the builder")
    definition = graph.define()
    first, second = definition.new_state(), definition.new_state()
    first.cart.append("of one thread")
    assert (second.city, second.cart, len(second.context)) == ("Paris", ["hat"], 1)
    assert given.cart == ["hat", "after the builder"]


def test_a_class_makes_its_defaults_anew_for_each_thread() -> None:
    definition = StateGraph(Order).add_node("a", step).set_entry_point("a").define()
    definition.new_state().cart.append("hat")
    assert definition.new_state().cart == []


@pytest.mark.parametrize("state", [dict, {}, int, "AgentState", list[int]])
def test_anything_but_a_state_is_refused(state: Any) -> None:
    with pytest.raises(GraphError) as caught:
        StateGraph(state)
    assert caught.value.error_code == "INVALID_STATE"


def test_a_state_class_without_defaults_is_refused_by_field_but_an_instance_is_fine() -> None:
    with pytest.raises(GraphError, match="order_id"):
        StateGraph(Needy)
    assert StateGraph(Needy(order_id="7")).add_node("a", step).set_entry_point("a").define().new_state().order_id == "7"


def test_a_node_without_a_name_is_named_by_its_function() -> None:
    class Worker:
        def __call__(self, state: AgentState) -> None: ...

    assert list(StateGraph().add_node(step).add_node(Worker())._nodes) == ["step", "Worker"]
    with pytest.raises(GraphError, match="add_node"):
        StateGraph().add_node(lambda state: None)


def test_a_node_without_a_function_is_refused() -> None:
    with pytest.raises(GraphError, match="'a'"):
        StateGraph().add_node("a")  # type: ignore[call-overload]


def test_a_second_node_of_one_name_is_refused_and_the_first_stays() -> None:
    graph = StateGraph().add_node("a", step)
    with pytest.raises(GraphError, match="'a'") as caught:
        graph.add_node("a", plan)
    assert caught.value.error_code == "DUPLICATE_NODE"
    assert graph._nodes["a"].fn is step


@pytest.mark.parametrize("name", ["", "a\n", START])
def test_a_graph_has_a_proper_name_or_none(name: str) -> None:
    with pytest.raises(GraphError, match="name of a graph"):
        StateGraph(name=name)


@pytest.mark.parametrize(
    ("source", "target"), [(END, "a"), ("a", START), (START, START), ("", "a"), ("a", None), (3, "a")]
)
def test_an_edge_that_cannot_be_is_refused_at_once(source: Any, target: Any) -> None:
    with pytest.raises(GraphError) as caught:
        StateGraph().add_edge(source, target)
    assert caught.value.error_code == "INVALID_EDGE"


def test_a_condition_cannot_leave_end_nor_lead_to_start() -> None:
    for source, path_map in ((END, ["a"]), ("a", [START])):
        with pytest.raises(GraphError):
            StateGraph().add_conditional_edges(source, anywhere, path_map)


@pytest.mark.parametrize("path_map", [[], {}, "ab", {"a"}, ["a", 1], {"yes": None}, {"yes": ""}, 3])
def test_a_path_map_that_maps_nothing_is_refused_by_condition(path_map: Any) -> None:
    with pytest.raises(GraphError, match="anywhere") as caught:
        StateGraph().add_conditional_edges("a", anywhere, path_map)
    assert caught.value.error_code == "INVALID_PATH_MAP"


def test_a_graph_without_an_entry_is_refused_and_its_nodes_are_not_called_unreachable_too() -> None:
    assert faults(StateGraph()) == [("NO_ENTRY",)]
    assert faults(StateGraph().add_node("a", step).add_edge("a", END)) == [("NO_ENTRY",)]
    assert faults(StateGraph().add_edge(START, END)) == [("NO_ENTRY",)]


def test_edges_may_come_before_their_nodes() -> None:
    assert StateGraph().add_edge(START, "a").add_node("a", step).define().topology.reaches(START, "a")


def test_missing_sources_and_targets_are_named() -> None:
    graph = chain("plan").add_edge("plan", "nowhere").add_edge("nobody", "plan")
    assert faults(graph) == [("UNKNOWN_NODE", "nowhere"), ("UNKNOWN_NODE", "nobody")]


def test_a_misspelled_node_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(GraphError, match="did you mean 'research'"):
        chain("research").add_edge("research", "reserach").define()


def test_targets_of_conditions_gotos_and_error_handlers_must_exist() -> None:
    def go(state: AgentState) -> Command[Literal["lost"]]: ...  # type: ignore[empty-body]

    graph = StateGraph().add_node("a", go, on_error="rescue").set_entry_point("a")
    graph.add_conditional_edges("a", anywhere, {"x": "gone"}).add_conditional_edges("a", to_ab)
    assert faults(graph) == [
        ("UNKNOWN_NODE", "gone"),
        ("UNKNOWN_NODE", "b"),
        ("UNKNOWN_NODE", "lost"),
        ("UNKNOWN_ON_ERROR", "rescue"),
    ]


def test_unreachable_nodes_are_named_together() -> None:
    graph = chain("a").add_node("x", step).add_node("y", step).add_edge("x", "y").add_edge("y", "x")
    assert faults(graph) == [("UNREACHABLE_NODE", "x", "y")]


def test_nodes_led_to_by_conditions_gotos_and_error_handlers_are_reachable() -> None:
    def go(state: AgentState) -> Command[Literal["b"]]: ...  # type: ignore[empty-body]

    graph = StateGraph().add_node("a", go, on_error="c")
    for name in "bcd":
        graph.add_node(name, step)
    graph.set_entry_point("a").add_conditional_edges("b", anywhere, ["d"])
    assert list(graph.define().nodes) == ["a", "b", "c", "d"]


def test_nobody_is_called_unreachable_behind_a_condition_that_declares_nothing() -> None:
    graph = chain("a").add_node("x", step).add_conditional_edges("a", anywhere)
    with pytest.warns(GraphWarning, match="'anywhere' after 'a'"):
        graph.define()


def test_an_undeclared_condition_that_itself_cannot_be_reached_excuses_nobody() -> None:
    graph = chain("a").add_node("x", step).add_conditional_edges("x", anywhere)
    assert faults(graph) == [("UNREACHABLE_NODE", "x")]


def test_interrupts_at_unknown_nodes_are_named_with_their_parameter() -> None:
    found = faults(chain("approve"), interrupt_before=["aprove"], interrupt_after=["b", "approve"])
    assert found == [("UNKNOWN_INTERRUPT_NODE", "aprove"), ("UNKNOWN_INTERRUPT_NODE", "b")]


def test_interrupts_are_kept() -> None:
    definition = chain("a", "b").define(interrupt_before=["a", "b"], interrupt_after="b")
    assert definition.interrupt_before == {"a", "b"}
    assert definition.interrupt_after == {"b"}


def test_all_faults_come_in_one_error() -> None:
    graph = chain("a").add_node("x", step).add_edge("a", "gone")
    codes = [code for code, *_ in faults(graph, interrupt_after=["y"])]
    assert codes == ["UNKNOWN_NODE", "UNKNOWN_INTERRUPT_NODE", "UNREACHABLE_NODE"]


def test_a_dependency_that_no_container_knows_is_found_before_anything_runs() -> None:
    def needs(state: AgentState, service: Service) -> None: ...

    graph = StateGraph().add_node("a", needs).set_entry_point("a")
    knowing = InjectQ()
    assert faults(graph, container=knowing) == [("UNKNOWN_DEPENDENCY", "service")]
    knowing.bind_instance(Service, Service())
    assert graph.define(container=knowing).container is knowing


def test_a_marked_dependency_may_be_bound_later() -> None:
    def needs(state: AgentState, service: Service = Inject[Service]) -> None: ...  # type: ignore[assignment]

    StateGraph(container=InjectQ()).add_node("a", needs).set_entry_point("a").define()


def literal_list(state: AgentState) -> list[Literal["a", "b"]]: ...  # type: ignore[empty-body]


def literal_or_send(state: AgentState) -> Literal["a"] | list[Send]: ...  # type: ignore[empty-body]


def literal_or_nothing(state: AgentState) -> Literal["a"] | None: ...


def mixed_list(state: AgentState) -> Sequence[Send | Literal["b"]]: ...  # type: ignore[empty-body]


def annotated(state: AgentState) -> Annotated[Literal["b"], "why"]: ...  # type: ignore[empty-body]


async def later(state: AgentState) -> "Literal['a']": ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("condition", "path_map", "targets"),
    [
        (to_ab, None, ("a", "b")),
        (literal_list, None, ("a", "b")),
        (literal_or_send, None, ("a",)),
        (literal_or_nothing, None, ("a", END)),
        (mixed_list, None, ("b",)),
        (annotated, None, ("b",)),
        (later, None, ("a",)),
        (anywhere, ["b", "a"], ("b", "a")),
        (anywhere, {True: "a", False: END, None: "a"}, ("a", END)),
        (to_ab, {"a": "b", "b": "b"}, ("b",)),
    ],
)
def test_a_condition_declares_its_targets_by_path_map_or_by_type(
    condition: Any, path_map: Any, targets: tuple[str, ...]
) -> None:
    graph = chain("a", "b").add_conditional_edges("a", condition, path_map)
    router = graph.define().routers["a"][0]
    assert router.targets == targets
    assert router.is_async == (condition is later)


def only_sends(state: AgentState) -> list[Send]: ...  # type: ignore[empty-body]


@pytest.mark.parametrize("condition", [anywhere, only_sends, lambda state: "a"])
def test_a_condition_that_declares_nothing_compiles_with_a_warning_at_the_callers_line(condition: Any) -> None:
    graph = chain("a").add_conditional_edges("a", condition)
    with pytest.warns(GraphWarning, match="path_map") as caught:
        graph.define()
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_a_command_without_targets_warns_but_a_node_without_annotation_is_not_suspect() -> None:
    def go(state: AgentState) -> Command: ...  # type: ignore[empty-body]

    with pytest.warns(GraphWarning, match="the Command of node 'a'"):
        StateGraph().add_node("a", go).set_entry_point("a").define()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        StateGraph().add_node("a", lambda state: None).set_entry_point("a").define()


def test_start_may_have_several_edges_and_conditions() -> None:
    graph = StateGraph().add_edge(START, "a").set_entry_point("b").add_conditional_edges(START, anywhere, ["c"])
    for name in "abc":
        graph.add_node(name, step)
    definition = graph.define()
    assert definition.topology.static_targets(START) == ("a", "b")
    assert [router.targets for router in definition.routers[START]] == [("c",)]


def test_an_overridden_node_keeps_its_policies_and_declared_targets() -> None:
    def go(state: AgentState) -> Command[Literal["b"]]: ...  # type: ignore[empty-body]

    graph = StateGraph().add_node("a", go, timeout_s=3.0).add_node("b", step).set_entry_point("a")
    node = graph.override_node("a", lambda state: Command(goto="b")).define().nodes["a"]
    assert (node.policies.timeout_s, node.goto_targets) == (3.0, ("b",))
    assert node.fn is not go


def test_overriding_nobody_is_refused() -> None:
    with pytest.raises(GraphError, match="'b'") as caught:
        chain("a").override_node("b", step)
    assert caught.value.error_code == "UNKNOWN_NODE"


def test_a_definition_does_not_follow_later_changes_of_the_builder() -> None:
    graph = chain("a")
    definition = graph.define()
    graph.add_node("b", step).add_edge("a", "b").override_node("a", plan)
    assert list(definition.nodes) == ["a"]
    assert definition.nodes["a"].fn is step
    assert definition.topology.static_targets("a") == (END,)
    with pytest.raises(TypeError):
        definition.nodes["b"] = definition.nodes["a"]  # type: ignore[index]


def test_a_graph_of_a_thousand_nodes_is_defined() -> None:
    assert len(chain(*(f"n{number}" for number in range(1_000))).define().nodes) == 1_000


def test_compile_checks_warns_at_the_callers_line_and_hands_the_definition_over() -> None:
    with pytest.raises(GraphError) as caught:
        chain("a").compile(interrupt_before=["b"])
    assert caught.value.error_code == "UNKNOWN_INTERRUPT_NODE"
    graph = StateGraph(Order, name="orders").add_node("a", step).set_entry_point("a")
    with pytest.warns(GraphWarning) as warned:
        app = graph.add_conditional_edges("a", anywhere).compile(interrupt_after=["a"])
    assert warned[0].filename == __file__
    assert (app.definition.name, app.definition.state_class) == ("orders", Order)
    assert app.definition.interrupt_after == {"a"}

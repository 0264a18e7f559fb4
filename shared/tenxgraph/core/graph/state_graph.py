"""The mutable builder of a graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Self, TypeAlias, cast, overload

from pydantic import ValidationError

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.checks import GraphWarning, find_faults, raise_faults, undeclared
from tenxgraph.core.graph.definition import GraphDefinition, StateT
from tenxgraph.core.graph.fingerprint import fingerprint
from tenxgraph.core.graph.node import Join, Node, NodePolicies, build_node, check_name, name_of
from tenxgraph.core.graph.router import Router, build_router
from tenxgraph.core.graph.topology import Link, build_topology
from tenxgraph.core.state import AgentState
from tenxgraph.utils.constants import END, START

if TYPE_CHECKING:
    from injectq import InjectQ

    from tenxgraph.core.graph.compiled_graph import CompiledGraph
    from tenxgraph.core.graph.retry_policy import RetryPolicy
    from tenxgraph.core.state import BaseContextManager

# The first arm is for lambdas, whose type mypy cannot infer from Concatenate.
NodeFn: TypeAlias = Callable[[StateT], Any] | Callable[Concatenate[StateT, ...], Any]


class StateGraph(Generic[StateT]):
    """Nodes and edges over one state class; ``compile()`` makes it runnable. Builder methods return the builder.

    Args:
        state: A state class, or an instance whose values a fresh thread starts with (it is copied, never changed);
            AgentState by default.
        context_manager: Trims the context for agents with ``trim_context=True``.
        id_generator: Makes the ids of messages that tasks create: an id, a callable (async too) or an awaitable;
            before the container's ``generated_id``. By default ids are derived, so that a repeat makes the same ones.
        container: The injectq container for nodes' dependencies and ids; by default ``InjectQ.get_instance()``.
        name: The graph's name among workers and threads; by default made of its fingerprint.

    Raises:
        GraphError: ``INVALID_STATE`` for anything but a state whose fields all have defaults; ``INVALID_NAME``.
    """

    @overload
    def __init__(
        self: StateGraph[AgentState],
        state: None = None,
        context_manager: BaseContextManager | None = None,
        id_generator: Any = None,
        container: InjectQ | None = None,
        *,
        name: str | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        state: type[StateT] | StateT,
        context_manager: BaseContextManager | None = None,
        id_generator: Any = None,
        container: InjectQ | None = None,
        *,
        name: str | None = None,
    ) -> None: ...

    def __init__(
        self,
        state: Any = None,
        context_manager: BaseContextManager | None = None,
        id_generator: Any = None,
        container: InjectQ | None = None,
        *,
        name: str | None = None,
    ) -> None:
        if name is not None:
            check_name(name, "a graph")
        self.name = name
        self.context_manager = context_manager
        self.id_generator = id_generator
        self.container = container
        self._state_class, self._initial = cast("tuple[type[StateT], StateT | None]", _read_state(state))
        self._nodes: dict[str, Node] = {}
        self._defaults = NodePolicies()
        self._routers: list[Router] = []
        self._links: list[Link] = []

    @overload
    def add_node(
        self,
        node: NodeFn[StateT],
        /,
        *,
        retry: RetryPolicy | None = None,
        timeout_s: float | None = None,
        queue: str | None = None,
        priority: int | None = None,
        on_error: str | None = None,
        join: Join = "once",
        at_most_once: bool = False,
    ) -> Self: ...

    @overload
    def add_node(
        self,
        name: str,
        node: NodeFn[StateT],
        *,
        retry: RetryPolicy | None = None,
        timeout_s: float | None = None,
        queue: str | None = None,
        priority: int | None = None,
        on_error: str | None = None,
        join: Join = "once",
        at_most_once: bool = False,
    ) -> Self: ...

    def add_node(self, name: Any = None, node: Any = None, **policies: Any) -> Self:
        """Add a node.

        Args:
            name: Its name; by default the name of its function.
            node: A function or an object with ``__call__``, sync or async, that takes the state.
            **policies: See `NodePolicies`: ``retry``, ``timeout_s`` (seconds), ``queue``, ``priority``, ``on_error``
                (a node that takes over), ``join`` (``once``, or ``each``: a run per arrival), ``at_most_once``.

        Raises:
            GraphError: ``DUPLICATE_NODE``, ``INVALID_NAME``, ``INVALID_POLICY``, ``NOT_CALLABLE``,
                ``UNCALLABLE_NODE`` or ``GENERATOR_NODE``, naming the node.
        """
        fn = node
        if node is None and not isinstance(name, str):
            name, fn = name_of(name), name
        built = build_node(name, fn, NodePolicies(**policies))
        if name in self._nodes:
            raise GraphError(
                f"There is a node {name!r} already: choose another name, or override_node({name!r}, …).",
                error_code="DUPLICATE_NODE",
                context={"node": name},
            )
        self._nodes[name] = built
        return self

    def set_defaults(
        self,
        *,
        retry: RetryPolicy | None = None,
        timeout_s: float | None = None,
        queue: str | None = None,
        priority: int | None = None,
        on_error: str | None = None,
    ) -> Self:
        """Set what holds for every node that names nothing else, added before or after.

        Args:
            retry: When a failed attempt is tried again.
            timeout_s: Longest time of one attempt, in seconds.
            queue: Name of the queue its tasks go to.
            priority: 0 to 9, higher first.
            on_error: The node that takes over when one fails for good; it takes over from all but itself.

        Raises:
            GraphError: ``INVALID_POLICY``.
        """
        defaults = NodePolicies(retry, timeout_s, queue, priority, on_error)
        defaults.check("by default")
        self._defaults = defaults
        return self

    def override_node(self, name: str, fn: NodeFn[StateT]) -> Self:
        """Give a node another function, as tests do; its edges, policies and declared targets stay.

        Raises:
            GraphError: ``UNKNOWN_NODE``, or what `add_node` raises.
        """
        old = self._nodes.get(name)
        if old is None:
            raise GraphError(
                f"There is no node {name!r} to override: add_node({name!r}, …).",
                error_code="UNKNOWN_NODE",
                context={"node": name},
            )
        new = build_node(name, fn, old.policies)
        if new.goto_targets is None:
            new = replace(new, goto_targets=old.goto_targets, goto_open=old.goto_open)
        self._nodes[name] = new
        return self

    def add_edge(self, source: str, target: str) -> Self:
        """Lead from ``source`` (or START) to ``target`` (or END), always; both may be added later.

        Raises:
            GraphError: ``INVALID_EDGE``.
        """
        _check_source(source)
        _check_end(target, START, "START cannot be a target")
        self._links.append(Link("edge", source, (target,)))
        return self

    def add_conditional_edges(
        self,
        source: str,
        condition: NodeFn[StateT],
        path_map: Mapping[Any, str] | Sequence[str] | None = None,
    ) -> Self:
        """Let ``condition`` decide where ``source`` (or START) leads.

        Args:
            source: A node, or START.
            condition: Sync or async, called once per decision with the state; returns a name, a list of names, or
                Sends. Declare its targets by ``path_map`` or by a ``Literal`` return type: joins then know of them.
            path_map: Returned value → node or END; a list stands for names that map to themselves.

        Raises:
            GraphError: ``INVALID_EDGE``, ``INVALID_PATH_MAP``, ``NOT_CALLABLE`` or ``UNCALLABLE_NODE``.
        """
        _check_source(source)
        router = build_router(source, condition, path_map)
        for target in router.targets or ():
            _check_end(target, START, "START cannot be a target")
        self._routers.append(router)
        self._links.append(Link("route", source, router.targets or (), declared=router.targets is not None))
        return self

    def set_entry_point(self, node: str) -> Self:
        """Lead from START to ``node``; the same as ``add_edge(START, node)``."""
        return self.add_edge(START, node)

    def define(
        self,
        *,
        interrupt_before: Sequence[str] | None = None,
        interrupt_after: Sequence[str] | None = None,
        container: InjectQ | None = None,
    ) -> GraphDefinition[StateT]:
        """Check everything and freeze it; later changes of the builder do not count.

        Raises:
            GraphError: All faults in one, ``context["faults"]`` lists them.

        Warns:
            GraphWarning: Where a condition or a Command may lead is not declared.
        """
        return self._define(interrupt_before, interrupt_after, container)

    def compile(
        self,
        checkpointer: Any = None,
        *,
        interrupt_before: Sequence[str] | None = None,
        interrupt_after: Sequence[str] | None = None,
        redis_url: str | None = None,
        steps: str = "task",
        container: InjectQ | None = None,
    ) -> CompiledGraph[StateT]:
        """Check everything, freeze it, and return what runs it.

        Args:
            checkpointer: An in-memory or Redis one chooses the store; None is as configured.
            interrupt_before: Nodes before which a run waits.
            interrupt_after: Nodes after which a run waits.
            redis_url: The store, instead of the configured one.
            steps: How steps travel. ``task``: each task of a node as a message of its own. ``sticky``: the worker that
                ended a step goes on with the next one, if that is one task of the same queue.
            container: The injectq container, instead of the builder's.

        Raises:
            GraphError: All faults in one, ``context["faults"]`` lists them.

        Warns:
            GraphWarning: Where a condition or a Command may lead is not declared.
        """
        from tenxgraph.core.graph.compiled_graph import CompiledGraph

        definition = self._define(interrupt_before, interrupt_after, container)
        return CompiledGraph(definition, checkpointer=checkpointer, redis_url=redis_url, steps=steps)

    def _define(
        self, before: Sequence[str] | None, after: Sequence[str] | None, container: InjectQ | None
    ) -> GraphDefinition[StateT]:
        container = self.container if container is None else container
        interrupts = {"interrupt_before": _names(before), "interrupt_after": _names(after)}
        nodes = {
            name: replace(node, policies=node.policies.over(self._defaults, name)) for name, node in self._nodes.items()
        }
        topology = build_topology(list(nodes), [*self._links, *_own_links(nodes)])
        title = "The graph" if self.name is None else f"Graph {self.name!r}"
        raise_faults(title, find_faults(nodes, topology, self._routers, interrupts, container))
        self._warn_undeclared(title)
        digest = fingerprint(nodes, topology, self._routers, self._state_class, interrupts)
        return GraphDefinition(
            name=self.name or f"graph-{digest[:12]}",
            fingerprint=digest,
            state_class=self._state_class,
            initial=self._initial,
            nodes=MappingProxyType(nodes),
            topology=topology,
            routers=MappingProxyType(_by_source(self._routers)),
            context_manager=self.context_manager,
            container=container,
            id_generator=self.id_generator,
            interrupt_before=interrupts["interrupt_before"],
            interrupt_after=interrupts["interrupt_after"],
        )

    def _warn_undeclared(self, title: str) -> None:
        found = undeclared(self._nodes, self._routers)
        if found:
            warnings.warn(
                f"{title} does not declare where {', '.join(found)} may lead, so no join waits for it: "
                "give a path_map, or a Literal return type.",
                GraphWarning,
                stacklevel=4,  # the caller of define() or compile()
            )


def _read_state(state: Any) -> tuple[type[AgentState], AgentState | None]:
    if isinstance(state, AgentState):
        return type(state), state.model_copy(deep=True)
    state_class = AgentState if state is None else state
    if not isinstance(state_class, type) or not issubclass(state_class, AgentState):
        raise _invalid_state(f"StateGraph takes a subclass of AgentState or an instance of one, not {state!r}.")
    try:
        state_class()
    except ValidationError as error:
        fields = ", ".join(sorted({str(fault["loc"][0]) for fault in error.errors() if fault["loc"]}))
        raise _invalid_state(
            f"A fresh thread starts with {state_class.__name__}(), which fails at {fields or 'its validators'}: "
            "give the fields defaults, or pass an instance."
        ) from error
    return state_class, None


def _invalid_state(message: str) -> GraphError:
    return GraphError(message, error_code="INVALID_STATE")


def _check_source(source: object) -> None:
    _check_end(source, END, "END leads nowhere and cannot be a source")


def _check_end(name: object, forbidden: str, reason: str) -> None:
    if name == forbidden:
        raise GraphError(f"{reason}.", error_code="INVALID_EDGE", context={"node": forbidden})
    if not isinstance(name, str) or not name:
        raise GraphError(
            f"An edge joins two nodes by name, not {name!r}.", error_code="INVALID_EDGE", context={"node": repr(name)}
        )


def _names(names: Sequence[str] | None) -> frozenset[str]:
    return frozenset([names] if isinstance(names, str) else names or ())


def _own_links(nodes: Mapping[str, Node]) -> list[Link]:
    """Return what the nodes declare themselves: their gotos, then their ``on_error``."""
    links: list[Link] = []
    for node in nodes.values():
        if node.goto_targets is not None:
            links.append(Link("goto", node.name, node.goto_targets, declared=not node.goto_open))
        if node.policies.on_error is not None:
            links.append(Link("error", node.name, (node.policies.on_error,)))
    return links


def _by_source(routers: Sequence[Router]) -> dict[str, tuple[Router, ...]]:
    grouped: dict[str, tuple[Router, ...]] = {}
    for router in routers:
        grouped[router.source] = (*grouped.get(router.source, ()), router)
    return grouped

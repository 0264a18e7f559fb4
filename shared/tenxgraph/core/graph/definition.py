"""A graph as it runs: everything that the builder found, frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tenxgraph.core.state import AgentState

if TYPE_CHECKING:
    from injectq import InjectQ

    from tenxgraph.core.graph.node import Node
    from tenxgraph.core.graph.router import Router
    from tenxgraph.core.graph.topology import Topology
    from tenxgraph.core.state import BaseContextManager

StateT = TypeVar("StateT", bound=AgentState)


@dataclass(frozen=True, slots=True, eq=False)
class GraphDefinition(Generic[StateT]):
    """What ``StateGraph.define()`` returns.

    Attributes:
        name: As given, or ``graph-`` and the start of the fingerprint.
        fingerprint: Hex SHA-256 over topology, state schema, nodes, policies and pauses; equal on every Python version.
        state_class: The class of the state.
        initial: The values of a fresh thread, None where the class's defaults are; use `new_state`.
        nodes: Name → node, in the order of declaration.
        topology: Where each node leads.
        routers: Source (or START) → its conditions, in the order of declaration.
        interrupt_before: Nodes before which a run waits.
        interrupt_after: Nodes after which a run waits.
        context_manager: What trims the context, if anything does.
        container: Where dependencies come from; None means ``InjectQ.get_instance()`` at the call.
        id_generator: What makes message ids, None for the default.
    """

    name: str
    fingerprint: str
    state_class: type[StateT]
    nodes: Mapping[str, Node]
    topology: Topology
    routers: Mapping[str, tuple[Router, ...]]
    initial: StateT | None = field(default=None, repr=False)
    interrupt_before: frozenset[str] = frozenset()
    interrupt_after: frozenset[str] = frozenset()
    context_manager: BaseContextManager | None = field(default=None, repr=False)
    container: InjectQ | None = field(default=None, repr=False)
    id_generator: Any = field(default=None, repr=False)

    def new_state(self) -> StateT:
        """Return the state of a fresh thread, shared with nobody."""
        return self.state_class() if self.initial is None else self.initial.model_copy(deep=True)

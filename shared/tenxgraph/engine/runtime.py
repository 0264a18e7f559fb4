"""A graph made ready to run: its definition and the codec of its state, built once."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from tenxgraph.core.graph.definition import GraphDefinition
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.codec import StateCodec

StateT = TypeVar("StateT", bound=AgentState)


@dataclass(frozen=True)
class Runtime(Generic[StateT]):
    """What the engine needs of a graph.

    Attributes:
        definition: As compiled.
        default_timeout_s: Of a node that names none.
        default_queue: Of a node that names none; "" for the broker's default.
    """

    definition: GraphDefinition[StateT]
    default_timeout_s: float | None = None
    default_queue: str = ""

    @cached_property
    def codec(self) -> StateCodec:
        """Encodes and decodes the fields of the graph's state."""
        return StateCodec(self.definition.state_class, self.definition.new_state())

    @property
    def name(self) -> str:
        """The graph's name."""
        return self.definition.name

    @property
    def version(self) -> str:
        """The graph's version: its fingerprint."""
        return self.definition.fingerprint

    def timeout_s(self, node: str) -> float | None:
        """How long one attempt at a node may take."""
        own = self.definition.nodes[node].policies.timeout_s
        return self.default_timeout_s if own is None else own

    def routing(self, node: str, priority: int | None) -> dict[str, Any]:
        """Queue and priority of a node's tasks."""
        policies = self.definition.nodes[node].policies
        chosen = policies.priority if policies.priority is not None else priority
        return {"queue": policies.queue or self.default_queue, "priority": chosen or 0}

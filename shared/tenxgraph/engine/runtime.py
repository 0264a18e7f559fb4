"""A graph made ready to run: its definition and the codec of its state, built once."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from tenxgraph.core.graph.definition import GraphDefinition
from tenxgraph.core.graph.node import NodePolicies
from tenxgraph.core.graph.tool_node import ToolNode
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.codec import StateCodec
from tenxgraph.utils.constants import START

StateT = TypeVar("StateT", bound=AgentState)


@dataclass(frozen=True)
class Runtime(Generic[StateT]):
    """What the engine needs of a graph.

    Attributes:
        definition: As compiled.
        default_timeout_s: Of a node that names none.
        default_queue: Of a node that names none; "" for the broker's default.
        inline_media_bytes: Larger media lie in the store.
    """

    definition: GraphDefinition[StateT]
    default_timeout_s: float | None = None
    default_queue: str = ""
    inline_media_bytes: int = 65_536

    @cached_property
    def codec(self) -> StateCodec:
        """Encodes and decodes the fields of the graph's state."""
        return StateCodec(self.definition.state_class, self.definition.new_state())

    @cached_property
    def first_node(self) -> str:
        """The node that runs under the message of a start, "" where that is not known beforehand."""
        entries, routers = self.definition.topology.static_targets(START), self.definition.routers.get(START)
        known = [node for node in entries if node in self.definition.nodes]
        is_known = len(known) == 1 and not routers and self.routing(known[0], None)["queue"] == self.default_queue
        return known[0] if is_known else ""

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

    @property
    def queues(self) -> list[str]:
        """Every queue that a node or a tool names."""
        nodes = self.definition.nodes.values()
        tools = [tool for node in nodes if isinstance(node.fn, ToolNode) for tool in node.fn.tools.values()]
        return list(filter(None, [*(node.policies.queue for node in nodes), *(tool.queue for tool in tools)]))

    def routing(self, node: str, priority: int | None, queue: str | None = None) -> dict[str, Any]:
        """Queue and priority of a node's tasks; ``queue`` comes before the node's own."""
        known = self.definition.nodes.get(node)
        policies = NodePolicies() if known is None else known.policies
        chosen = policies.priority if policies.priority is not None else priority
        return {"queue": queue or policies.queue or self.default_queue, "priority": chosen or 0}

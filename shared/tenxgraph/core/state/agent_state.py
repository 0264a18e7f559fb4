"""The state that nodes share."""

from collections.abc import Callable
from typing import Annotated, Any, Self

from pydantic import Field, PrivateAttr

from tenxgraph.core.state.execution_state import ExecMeta, ExecutionStatus
from tenxgraph.core.state.lazy_items import LazyStateMixin
from tenxgraph.core.state.media import EXACT_JSON
from tenxgraph.core.state.message import Message
from tenxgraph.core.state.reducers import add_messages
from tenxgraph.utils.constants import START


class AgentState(LazyStateMixin):  # noqa: PLW1641 — it changes, so it has no hash
    """A conversation and what belongs to it; subclass it for fields of your own.

    Inside a node the methods act on the node's own copy: to steer a run, return a ``Command`` or raise.

    Attributes:
        context: The conversation, which the model is sent.
        context_summary: What a context manager made of messages that it took out of ``context``.
        execution_meta: The runtime's notes about the run; read them through the methods.
    """

    model_config = EXACT_JSON

    context: Annotated[list[Message], add_messages] = Field(default_factory=list[Message])
    context_summary: str | None = None
    execution_meta: ExecMeta = Field(default_factory=lambda: ExecMeta(current_node=START))

    # Asks the runtime, so that a stop is seen in the middle of a long node.
    _stop_probe: Callable[[], bool] | None = PrivateAttr(default=None)

    def is_running(self) -> bool:
        """Tell whether the run goes on."""
        return self.execution_meta.is_running()

    def is_interrupted(self) -> bool:
        """Tell whether the run waits for a person."""
        return self.execution_meta.is_interrupted()

    def is_stopped_requested(self) -> bool:
        """Tell whether a stop was requested; turns true inside a node that runs."""
        return self.execution_meta.is_stopped_requested() or (self._stop_probe is not None and self._stop_probe())

    def set_interrupt(self, node: str, reason: str | None, status: ExecutionStatus | str, data: Any = None) -> None:
        """Note that the run waits at ``node``."""
        self.execution_meta.set_interrupt(node, reason, status, data)

    def clear_interrupt(self) -> None:
        """Note that nothing waits any more."""
        self.execution_meta.clear_interrupt()

    def advance_step(self) -> None:
        """Count one step."""
        self.execution_meta.advance_step()

    def set_current_node(self, node: str) -> None:
        """Note which node runs."""
        self.execution_meta.set_current_node(node)

    def complete(self) -> None:
        """Note that the run ended well."""
        self.execution_meta.complete()

    def error(self, error_msg: str) -> None:
        """Note that the run failed, and why."""
        self.execution_meta.error(error_msg)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        # A bound method would take its owner along: connections, locks.
        memo = {} if memo is None else memo
        memo[id(self._stop_probe)] = self._stop_probe
        return super().__deepcopy__(memo)

    def __eq__(self, other: object) -> bool:
        """Compare class and fields; a stop probe makes no difference."""
        if not isinstance(other, AgentState):
            return NotImplemented
        return type(self) is type(other) and self._fields() == other._fields()

    def _fields(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return values | (self.model_extra or {})

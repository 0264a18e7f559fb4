"""A thread's state at one checkpoint."""

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.agent_state import AgentState

StateT = TypeVar("StateT", bound=AgentState)


@dataclass(frozen=True, slots=True)
class StateSnapshot(Generic[StateT]):
    """What ``get_state()`` returns.

    Attributes:
        state: An own copy of the state, of the graph's state class.
        checkpoint: Number of the version; grows over the whole thread.
        step: Step of the run that wrote it.
        next: Names of the nodes that run next, in plan order.
        status: Of the run that wrote it: now for the newest checkpoint, then for an older one.
        interrupts: Questions that wait for an answer, each ``{id, node, value, reason, response_schema}``.
        created_at: Unix time in seconds, of the store's clock.
        run_id: The run that wrote it; "" for none.
        source: What wrote it: ``run``, ``update`` (by ``update_state``), ``fork``, or ``checkpoint`` (a run that went
            back to an older one).
        config: Names this checkpoint, for ``invoke(None, config)`` and the calls that look: thread_id, checkpoint, and
            user_id where it is not the default.
    """

    state: StateT
    checkpoint: int
    step: int
    next: tuple[str, ...]
    status: RunStatus
    interrupts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    created_at: float = 0.0
    run_id: str = ""
    source: str = "run"
    config: dict[str, Any] = field(default_factory=dict[str, Any])

"""How far a run is, as the state shows it."""

from enum import StrEnum
from typing import Any, Final, TypeAlias

from pydantic import BaseModel, Field

from tenxgraph.core.state.media import EXACT_JSON
from tenxgraph.utils.constants import START


class ExecutionStatus(StrEnum):
    """What a run does, in the words of the state."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    INTERRUPTED_BEFORE = "interrupted_before"
    INTERRUPTED_AFTER = "interrupted_after"
    COMPLETED = "completed"
    ERROR = "error"
    STOPPED = "stopped"
    CANCELLED = "cancelled"


class StopRequestStatus(StrEnum):
    """How far a stop is."""

    NONE = "none"
    STOP_REQUESTED = "stop_requested"
    STOPPED = "stopped"


_INTERRUPTED: Final = frozenset(
    {ExecutionStatus.INTERRUPTED, ExecutionStatus.INTERRUPTED_BEFORE, ExecutionStatus.INTERRUPTED_AFTER}
)


class ExecutionState(BaseModel):
    """What the runtime notes about the run; nodes read it.

    Attributes:
        current_node: The node that runs, or ran last.
        step: Number of the step in the run, from 0.
        status: What the run does.
        interrupted_node: Where the run waits, or waited last; also readable as ``interrupt_node``.
        interrupt_reason: Why it waits.
        interrupt_data: What the person who answers is shown.
        thread_id: The thread that the state belongs to.
        stop_current_execution: How far a stop is.
        internal_data: Further notes of the runtime; ``error`` holds the last error's message.
    """

    model_config = EXACT_JSON

    current_node: str = START
    step: int = 0
    status: ExecutionStatus = ExecutionStatus.RUNNING
    interrupted_node: str | None = None
    interrupt_reason: str | None = None
    interrupt_data: Any = None
    thread_id: str | None = None
    stop_current_execution: StopRequestStatus = StopRequestStatus.NONE
    internal_data: dict[str, Any] = Field(default_factory=dict)

    @property
    def interrupt_node(self) -> str | None:
        """The same as ``interrupted_node``."""
        return self.interrupted_node

    def is_running(self) -> bool:
        """Tell whether the run goes on."""
        return self.status is ExecutionStatus.RUNNING

    def is_interrupted(self) -> bool:
        """Tell whether the run waits for a person."""
        return self.status in _INTERRUPTED

    def is_stopped_requested(self) -> bool:
        """Tell whether a stop was requested, done or not yet."""
        return self.stop_current_execution is not StopRequestStatus.NONE

    def set_interrupt(self, node: str, reason: str | None, status: ExecutionStatus | str, data: Any = None) -> None:
        """Note that the run waits at ``node``."""
        self.status = ExecutionStatus(status)
        self.interrupted_node = node
        self.interrupt_reason = reason
        self.interrupt_data = data

    def clear_interrupt(self) -> None:
        """Note that nothing waits any more; an interrupted run goes on."""
        if self.is_interrupted():
            self.status = ExecutionStatus.RUNNING
        self.interrupted_node = self.interrupt_reason = self.interrupt_data = None

    def advance_step(self) -> None:
        """Count one step."""
        self.step += 1

    def set_current_node(self, node: str) -> None:
        """Note which node runs."""
        self.current_node = node

    def complete(self) -> None:
        """Note that the run ended well."""
        self.status = ExecutionStatus.COMPLETED

    def error(self, error_msg: str) -> None:
        """Note that the run failed, and why."""
        self.status = ExecutionStatus.ERROR
        self.internal_data["error"] = error_msg


ExecMeta: TypeAlias = ExecutionState

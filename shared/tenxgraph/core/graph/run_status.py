"""Where a run stands, and which moves between these places exist."""

from enum import StrEnum

from tenxgraph.core.exceptions import StorageError
from tenxgraph.core.state.execution_state import ExecutionStatus


class RunStatus(StrEnum):
    """Status of a run. The last six are terminal."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    STOPPING = "stopping"
    CANCELLING = "cancelling"
    STOPPED = "stopped"
    CANCELLED = "cancelled"
    COMPLETED = "completed"
    FAILED = "failed"
    DEAD = "dead"
    TIMED_OUT = "timed_out"

    @property
    def is_terminal(self) -> bool:
        """True when nothing moves the run any more."""
        return not MOVES[self]

    @property
    def is_settled(self) -> bool:
        """True when the run ended or waits for a person: nothing happens by itself."""
        return self is RunStatus.WAITING or self.is_terminal


_ENDS = frozenset(
    {
        RunStatus.STOPPED,
        RunStatus.CANCELLED,
        RunStatus.COMPLETED,
        RunStatus.FAILED,
        RunStatus.DEAD,
        RunStatus.TIMED_OUT,
    }
)

# A continuation takes over a step: it may wait, or be in flight, before it has claimed anything itself.
MOVES: dict[RunStatus, frozenset[RunStatus]] = {
    RunStatus.QUEUED: frozenset(
        {
            RunStatus.RUNNING,
            RunStatus.WAITING,
            RunStatus.STOPPING,
            RunStatus.STOPPED,
            RunStatus.CANCELLED,
            RunStatus.FAILED,
            RunStatus.DEAD,
            RunStatus.TIMED_OUT,
        }
    ),
    RunStatus.RUNNING: frozenset({RunStatus.WAITING, RunStatus.STOPPING, RunStatus.CANCELLING}) | _ENDS,
    RunStatus.WAITING: frozenset({RunStatus.RUNNING, RunStatus.STOPPED, RunStatus.CANCELLED, RunStatus.TIMED_OUT}),
    RunStatus.STOPPING: frozenset({RunStatus.CANCELLING}) | _ENDS,
    RunStatus.CANCELLING: frozenset({RunStatus.CANCELLED}),
    **{end: frozenset[RunStatus]() for end in _ENDS},
}


def check_move(before: RunStatus, after: RunStatus) -> None:
    """Refuse what :data:`MOVES` lacks.

    Raises:
        StorageError: A store was about to do it; it is a fault of the store.
    """
    if after not in MOVES[before]:
        raise StorageError(f"A run does not go from {before} to {after}.", context={"from": before, "to": after})


EXECUTION_STATUS: dict[RunStatus, ExecutionStatus] = {
    RunStatus.QUEUED: ExecutionStatus.RUNNING,
    RunStatus.RUNNING: ExecutionStatus.RUNNING,
    RunStatus.WAITING: ExecutionStatus.INTERRUPTED,
    RunStatus.STOPPING: ExecutionStatus.RUNNING,
    RunStatus.CANCELLING: ExecutionStatus.RUNNING,
    RunStatus.STOPPED: ExecutionStatus.STOPPED,
    RunStatus.CANCELLED: ExecutionStatus.CANCELLED,
    RunStatus.COMPLETED: ExecutionStatus.COMPLETED,
    RunStatus.FAILED: ExecutionStatus.ERROR,
    RunStatus.DEAD: ExecutionStatus.ERROR,
    RunStatus.TIMED_OUT: ExecutionStatus.ERROR,
}

"""Every error of tenxgraph, one tree, split by who acts next.

TenxGraphError
├── GraphError                  fix the graph
│   └── InvalidInputError       fix the input (also a ValueError)
├── NodeError                   a node failed: fix the node, then continue the run
│   ├── NodeTimeoutError        it took longer than its timeout_s
│   └── EffectLostError         something to be done at most once may have been done: find out
├── GraphRecursionError         raise recursion_limit, or mend the loop
├── RunCancelledError           somebody cancelled the run
├── RunTimeoutError             the run took longer than its timeout_s
├── ThreadBusyError             wait for the active run, or choose another multitask_strategy
├── ThreadOwnerError            the thread belongs to another user
├── InterruptConflictError      nothing waits here, or no more
├── StorageError                the store is away or refuses: try again
├── SerializationError          a value that cannot be restored equal: change the value or its type
└── StaleStateError             the state moved on: read it again
"""

from typing import Any, ClassVar


class TenxGraphError(Exception):
    """Base of all errors here.

    Attributes:
        message: A sentence that names the thing, the place and the next move.
        error_code: A stable upper-case word for programs.
        context: JSON-able facts (ids, names) about the error.
    """

    default_code: ClassVar[str] = "TENXGRAPH"

    def __init__(self, message: str, *, error_code: str | None = None, context: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message: str = message
        self.error_code: str = error_code or self.default_code
        self.context: dict[str, Any] = dict(context or {})

    def __str__(self) -> str:
        return f"[{self.error_code}] {self.message}"

    def to_dict(self) -> dict[str, Any]:
        """Return ``{error_type, error_code, message, context}``, all JSON-able."""
        return {
            "error_type": type(self).__name__,
            "error_code": self.error_code,
            "message": self.message,
            "context": self.context,
        }


class GraphError(TenxGraphError):
    """The graph is wrong: found by ``compile()`` or by a builder method."""

    default_code = "GRAPH"


class InvalidInputError(GraphError, ValueError):
    """The input or the config of a call is wrong; nothing was written."""

    default_code = "INVALID_INPUT"


class NodeError(TenxGraphError):
    """A node failed and the run with it.

    Attributes:
        node: Name of the node, or ``advance:<router or field>`` where merging or routing failed.
        attempt: Number of the attempt that failed last, from 1.
    """

    default_code = "NODE"

    def __init__(
        self,
        message: str,
        *,
        node: str = "",
        attempt: int = 1,
        error_code: str | None = None,
        context: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message, error_code=error_code, context={"node": node, "attempt": attempt, **(context or {})})
        self.node: str = node
        self.attempt: int = attempt


class NodeTimeoutError(NodeError):
    """A node ran longer than its ``timeout_s``."""

    default_code = "NODE_TIMEOUT"


class EffectLostError(NodeError):
    """A node or effect with ``at_most_once`` was begun and not finished; it may have happened, and is not repeated."""

    default_code = "EFFECT_LOST"


class GraphRecursionError(TenxGraphError):
    """The run needed more steps than ``recursion_limit``; the thread stays usable."""

    default_code = "RECURSION_LIMIT"


class RunCancelledError(TenxGraphError):
    """The run was cancelled; ``context`` says by whom and why."""

    default_code = "RUN_CANCELLED"


class RunTimeoutError(TenxGraphError):
    """The run took longer than ``timeout_s`` of its config."""

    default_code = "RUN_TIMEOUT"


class ThreadBusyError(TenxGraphError):
    """Another run is active on the thread and the strategy is ``reject``."""

    default_code = "THREAD_BUSY"


class ThreadOwnerError(TenxGraphError):
    """The thread belongs to another ``user_id``."""

    default_code = "THREAD_OWNER"


class InterruptConflictError(TenxGraphError):
    """A resume for an interrupt that does not wait, or no more."""

    default_code = "INTERRUPT_CONFLICT"


class StorageError(TenxGraphError):
    """The store is out of reach or refuses writes; trying again may help."""

    default_code = "STORAGE"


class SerializationError(TenxGraphError):
    """A value cannot be stored and read back equal; ``context`` names node and field."""

    default_code = "SERIALIZATION"


class StaleStateError(TenxGraphError):
    """A guarded write met a newer version of the thread's state."""

    default_code = "STALE_STATE"

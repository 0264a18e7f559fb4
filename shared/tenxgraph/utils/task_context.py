"""What the runtime tells user code about the task it runs in."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tenxgraph.core.exceptions import GraphError
from tenxgraph.utils.journal import Journal

if TYPE_CHECKING:
    from injectq import InjectQ

    from tenxgraph.core.graph.tool_journal import ToolJournal


@dataclass(slots=True)
class TaskContext:
    """One attempt at one task.

    Attributes:
        origin: The run, or the one at the beginning of those that it continues.
        answers: Interrupt id → JSON of its answer.
        emit: Takes a JSON line for the run's events.
        idempotency_key: The same in every attempt at the task, and in the runs that continue it.
        journal: Keeps effects from being made again.
        interrupts: How many ``interrupt()`` calls were made in this attempt, or by this tool call.
        context_manager: The graph's; it shortens what agents send.
        container: The graph's; it supplies what tools depend on.
        load_media: Reference, data block or media id → the data.
        tool_call_id: The call of a tool that the code runs for, None in a node's own code.
        follows_tokens: Whether somebody wants answers of models piece by piece.
        may_begin_again: Whether the node may leave with ``RetryLater``.
        note: What the attempt before left for this one.
        turn: Says how long a call must wait for its turn: what is called, a nonce for the call, how many calls may
            begin in how many seconds. None where nothing is limited.
        tool_journal: Keeps tool calls from being made again; None for the tool node's own.
        only_call: The one tool call that this task is there for; None for all of the message's.
    """

    thread_id: str
    run_id: str
    origin: str
    step: int
    task: str
    attempt: int
    node: str
    answers: Mapping[str, bytes]
    emit: Callable[[bytes], None]
    idempotency_key: str
    journal: Journal
    load_media: Callable[[Any], bytes]
    interrupts: int = 0
    context_manager: Any = None
    container: "InjectQ | None" = None
    tool_call_id: str | None = None
    follows_tokens: bool = False
    may_begin_again: bool = False
    note: Mapping[str, Any] = field(default_factory=dict[str, Any])
    turn: Callable[[str, str, int, float], Awaitable[float]] | None = None
    tool_journal: "ToolJournal | None" = None
    only_call: str | None = None

    def next_interrupt_id(self) -> str:
        """Name the next question of this task, or of this tool call: the same in every attempt and continuation."""
        index, self.interrupts = self.interrupts, self.interrupts + 1
        place = self.node if self.tool_call_id is None else self.tool_call_id
        return f"{self.origin}:{self.step}.{self.task}:{place}:{index}"

    def of_tool_call(self, call_id: str) -> "TaskContext":
        """Return the context of one tool call, which counts its own questions."""
        return replace(self, tool_call_id=call_id, interrupts=0, only_call=None)


_current: ContextVar[TaskContext | None] = ContextVar("tenxgraph_task", default=None)


@contextmanager
def task_scope(context: TaskContext) -> Iterator[None]:
    """Make ``context`` the current task here and in threads and tasks that copy this context."""
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)


def find_task() -> TaskContext | None:
    """Return the task that the calling code runs in, None where no node runs."""
    return _current.get()


def current_task(caller: str) -> TaskContext:
    """Return the task that the calling code runs in.

    Raises:
        GraphError: ``NO_TASK`` when no node runs here.
    """
    context = _current.get()
    if context is None:
        raise GraphError(
            f"{caller}() works inside a node or tool that a graph runs; call it there, on its own thread or task.",
            error_code="NO_TASK",
        )
    return context

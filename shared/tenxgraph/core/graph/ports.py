"""What a compiled graph runs through: the port that executors fill in."""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.graph.state_snapshot import StateSnapshot
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.message import Message
from tenxgraph.core.state.stream_chunk import StreamChunk

StateT = TypeVar("StateT", bound=AgentState)


@dataclass(frozen=True, slots=True)
class SubmittedRun:
    """A run that the store took in.

    Attributes:
        after: Chunk id behind which this call's events begin; "" is the beginning.
        user_id: Who called; "" for whoever operates the installation.
    """

    run_id: str
    thread_id: str
    after: str = ""
    user_id: str = ""


@dataclass(frozen=True, slots=True)
class EndedRuns:
    """What became of a request to end many runs.

    Attributes:
        statuses: Run id → its status after the request.
        more: Whether there may be more of them than ``limit``.
    """

    statuses: Mapping[str, RunStatus]
    more: bool


class Executor(Protocol[StateT]):
    """Runs one compiled graph. Every call may come from any thread."""

    def check_may_wait(self) -> None:
        """Raise GraphError where a sync wait for a run would block the loop that the run needs."""
        ...

    def submit(self, input_data: Any, config: Mapping[str, Any] | None) -> SubmittedRun:
        """Check the call and start, queue or resume a run.

        Raises:
            InvalidInputError: Before anything is written.
            ThreadBusyError: Under the strategy ``reject``.
            ThreadOwnerError: The thread is another user's.
            InterruptConflictError: Nothing waits for the answer.
        """
        ...

    async def asubmit(self, input_data: Any, config: Mapping[str, Any] | None) -> SubmittedRun:
        """Like :meth:`submit`."""
        ...

    def find(self, run_id: str, config: Mapping[str, Any] | None) -> SubmittedRun:
        """Return a run by its id, or raise InvalidInputError; with a config, ThreadOwnerError for another user's."""
        ...

    async def afind(self, run_id: str, config: Mapping[str, Any] | None) -> SubmittedRun:
        """Like :meth:`find`."""
        ...

    def status(self, run_id: str) -> RunStatus:
        """Return where the run stands."""
        ...

    async def astatus(self, run_id: str) -> RunStatus:
        """Like :meth:`status`."""
        ...

    def follow(self, run: SubmittedRun, *, granularity: str, timeout_s: float | None) -> Iterator[StreamChunk]:
        """Yield the run's events until it ends or waits. TimeoutError when ``timeout_s`` is over first."""
        ...

    def afollow(self, run: SubmittedRun, *, granularity: str, timeout_s: float | None) -> AsyncIterator[StreamChunk]:
        """Like :meth:`follow`."""
        ...

    def result(self, run_id: str, granularity: str) -> dict[str, Any]:
        """Return what a settled run gave, or raise what it failed with."""
        ...

    async def aresult(self, run_id: str, granularity: str) -> dict[str, Any]:
        """Like :meth:`result`."""
        ...

    def snapshot(self, config: Mapping[str, Any], checkpoint: int | None) -> StateSnapshot[StateT]:
        """Return a thread's state."""
        ...

    async def asnapshot(self, config: Mapping[str, Any], checkpoint: int | None) -> StateSnapshot[StateT]:
        """Like :meth:`snapshot`."""
        ...

    def messages(self, config: Mapping[str, Any], offset: int, limit: int) -> list[Message]:
        """Return messages of the thread's log, oldest first."""
        ...

    async def amessages(self, config: Mapping[str, Any], offset: int, limit: int) -> list[Message]:
        """Like :meth:`messages`."""
        ...

    def media(self, config: Mapping[str, Any], file_id: str) -> bytes:
        """Return the data that the thread keeps under an id."""
        ...

    async def amedia(self, config: Mapping[str, Any], file_id: str) -> bytes:
        """Like :meth:`media`."""

    def history(self, config: Mapping[str, Any], limit: int | None, before: Any) -> Iterator[StateSnapshot[StateT]]:
        """Yield a thread's snapshots, newest first."""
        ...

    def ahistory(
        self, config: Mapping[str, Any], limit: int | None, before: Any
    ) -> AsyncIterator[StateSnapshot[StateT]]:
        """Like :meth:`history`."""
        ...

    def fork(self, config: Mapping[str, Any], checkpoint: int | None, thread_id: str | None) -> dict[str, Any]:
        """Begin a thread at a checkpoint of another."""
        ...

    async def afork(self, config: Mapping[str, Any], checkpoint: int | None, thread_id: str | None) -> dict[str, Any]:
        """Like :meth:`fork`."""
        ...

    def update_state(self, config: Mapping[str, Any], values: Any, as_node: str | None) -> dict[str, Any]:
        """Change a thread's state beside its runs."""
        ...

    async def aupdate_state(self, config: Mapping[str, Any], values: Any, as_node: str | None) -> dict[str, Any]:
        """Like :meth:`update_state`."""
        ...

    def delete_thread(self, config: Mapping[str, Any], *, force: bool) -> None:
        """Remove a thread."""
        ...

    async def adelete_thread(self, config: Mapping[str, Any], *, force: bool) -> None:
        """Like :meth:`delete_thread`."""
        ...

    def stop(self, config: Mapping[str, Any]) -> RunStatus | None:
        """Ask the thread's active run to stop; None when there is none."""
        ...

    async def astop(self, config: Mapping[str, Any]) -> RunStatus | None:
        """Like :meth:`stop`."""
        ...

    def stop_run(self, run_id: str) -> RunStatus | None:
        """Ask one run to stop."""
        ...

    async def astop_run(self, run_id: str) -> RunStatus | None:
        """Like :meth:`stop_run`."""
        ...

    def cancel_run(self, run_id: str, reason: str, user_id: str) -> RunStatus | None:
        """End one run now and fence its step in flight; ``user_id`` is "" for whoever operates the installation."""
        ...

    async def acancel_run(self, run_id: str, reason: str, user_id: str) -> RunStatus | None:
        """Like :meth:`cancel_run`."""
        ...

    def end_runs(
        self, thread_id: str | None, status: str | None, user_id: str | None, limit: int, cancel: str | None
    ) -> EndedRuns:
        """Stop the graph's unfinished runs, or cancel them for the reason ``cancel``."""
        ...

    async def aend_runs(
        self, thread_id: str | None, status: str | None, user_id: str | None, limit: int, cancel: str | None
    ) -> EndedRuns:
        """Like :meth:`end_runs`."""
        ...

    def close(self) -> None:
        """Give up what the executor holds; runs in the store stay."""
        ...

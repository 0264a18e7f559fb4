"""A run in the background, seen from a client."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any, Generic, TypeVar

from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.core.graph.ports import Executor, SubmittedRun
from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.stream_chunk import StreamChunk
from tenxgraph.utils.constants import ResponseGranularity

StateT = TypeVar("StateT", bound=AgentState)

_LOW, _FULL = ResponseGranularity.LOW, ResponseGranularity.FULL


def checked_granularity(value: str) -> str:
    """Return the value if it is one of `ResponseGranularity`, else raise InvalidInputError."""
    if value not in list(ResponseGranularity):
        names = ", ".join(repr(str(name)) for name in ResponseGranularity)
        raise InvalidInputError(f"response_granularity is {value!r}: choose one of {names}.")
    return str(value)


class RunHandle(Generic[StateT]):
    """What ``submit()`` and ``get_run()`` return.

    Attributes:
        run_id: Id of the run.
        thread_id: Id of its thread.
    """

    def __init__(self, executor: Executor[StateT], run: SubmittedRun) -> None:
        self._executor: Executor[StateT] = executor
        self._run = run
        self.run_id: str = run.run_id
        self.thread_id: str = run.thread_id

    def __repr__(self) -> str:
        return f"RunHandle(run_id={self.run_id!r}, thread_id={self.thread_id!r})"

    def status(self) -> RunStatus:
        """Return where the run stands now."""
        return self._executor.status(self.run_id)

    async def astatus(self) -> RunStatus:
        """Like :meth:`status`."""
        return await self._executor.astatus(self.run_id)

    def result(self, timeout_s: float | None = None, *, response_granularity: str = _LOW) -> dict[str, Any]:
        """Wait until the run ends or waits for a person, and return what it gave.

        Args:
            timeout_s: Give up waiting after so many seconds; the run goes on.
            response_granularity: ``low`` {messages, token_usage}, ``partial`` adds context and summary, ``full``
                {state, messages, token_usage}. All carry status, run_id, thread_id and interrupts.

        Raises:
            TimeoutError: ``timeout_s`` is over.
            NodeError: The run failed or is dead.
            GraphRecursionError: It took more steps than ``recursion_limit``.
            RunTimeoutError: It timed out.
            RunCancelledError: It was cancelled.
        """
        granularity = checked_granularity(response_granularity)
        for _ in self._executor.follow(self._run, granularity=_LOW, timeout_s=timeout_s):
            pass
        return self._executor.result(self.run_id, granularity)

    async def aresult(self, timeout_s: float | None = None, *, response_granularity: str = _LOW) -> dict[str, Any]:
        """Like :meth:`result`."""
        granularity = checked_granularity(response_granularity)
        async for _ in self._executor.afollow(self._run, granularity=_LOW, timeout_s=timeout_s):
            pass
        return await self._executor.aresult(self.run_id, granularity)

    def stream(self, after: str | None = None, *, response_granularity: str = _FULL) -> Iterator[StreamChunk]:
        """Yield the run's events until it ends or waits.

        Args:
            after: Id of the last chunk that was seen; None begins where this handle began.
            response_granularity: ``low`` messages, tokens, errors and the end; ``partial`` adds tasks and steps;
                ``full`` adds states.
        """
        granularity = checked_granularity(response_granularity)
        yield from self._executor.follow(self._from(after), granularity=granularity, timeout_s=None)

    async def astream(
        self, after: str | None = None, *, response_granularity: str = _FULL
    ) -> AsyncIterator[StreamChunk]:
        """Like :meth:`stream`."""
        granularity = checked_granularity(response_granularity)
        async for chunk in self._executor.afollow(self._from(after), granularity=granularity, timeout_s=None):
            yield chunk

    def _from(self, after: str | None) -> SubmittedRun:
        return self._run if after is None else replace(self._run, after=after)

    def stop(self) -> RunStatus | None:
        """Ask the run to end after the step in flight."""
        return self._executor.stop_run(self.run_id)

    async def astop(self) -> RunStatus | None:
        """Like :meth:`stop`."""
        return await self._executor.astop_run(self.run_id)

    def cancel(self, reason: str = "") -> RunStatus | None:
        """End the run now; the step in flight writes nothing any more.

        Args:
            reason: Kept with the run, beside who cancelled it: the user whose handle this is, else ``operator``.
        """
        return self._executor.cancel_run(self.run_id, reason, self._run.user_id)

    async def acancel(self, reason: str = "") -> RunStatus | None:
        """Like :meth:`cancel`."""
        return await self._executor.acancel_run(self.run_id, reason, self._run.user_id)

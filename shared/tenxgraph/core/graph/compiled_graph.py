"""A frozen graph, ready to run."""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.definition import GraphDefinition
from tenxgraph.core.graph.executors import DISTRIBUTED, IN_PROCESS, executor_class
from tenxgraph.core.graph.mermaid import draw_mermaid
from tenxgraph.core.graph.ports import EndedRuns, Executor
from tenxgraph.core.graph.run_handle import RunHandle, checked_granularity
from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.graph.state_snapshot import StateSnapshot
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.message import Message
from tenxgraph.core.state.stream_chunk import StreamChunk
from tenxgraph.settings import Settings
from tenxgraph.utils.constants import ResponseGranularity

StateT = TypeVar("StateT", bound=AgentState)
Config = Mapping[str, Any]

_STEPS = ("task", "sticky")
_LOW = ResponseGranularity.LOW


@dataclass(frozen=True, slots=True)
class DrawableGraph:
    """A graph's shape, for people."""

    definition: GraphDefinition[Any]

    def draw_mermaid(self) -> str:
        """Return the graph as a Mermaid flowchart."""
        return draw_mermaid(self.definition)


class CompiledGraph(Generic[StateT]):
    """What ``StateGraph.compile()`` returns. It may be called from any thread, also from a running loop's own.

    Args:
        definition: The checked graph.
        checkpointer: A store for the runs. None: Redis where ``redis_url`` or ``TENXGRAPH_REDIS_URL`` names one, else
            the memory of this process.
        redis_url: URL of the Redis that workers of this graph watch.
        steps: How steps travel; see `StateGraph.compile`. A run may choose in its config.

    Raises:
        GraphError: ``INVALID_COMPILE`` for a value that means nothing.
    """

    def __init__(
        self,
        definition: GraphDefinition[StateT],
        *,
        checkpointer: Any = None,
        redis_url: str | None = None,
        steps: str = "task",
    ) -> None:
        if steps not in _STEPS:
            raise _invalid("steps", steps, " or ".join(map(repr, _STEPS)))
        if checkpointer is not None and redis_url is not None:
            raise _invalid("redis_url", redis_url, "left out beside a checkpointer, which names the store already")
        if checkpointer is not None and not hasattr(checkpointer, "admit"):
            raise _invalid("checkpointer", checkpointer, "a store such as tenxgraph.store.MemoryStore()")
        self.definition: GraphDefinition[StateT] = definition
        self._checkpointer = checkpointer
        self._redis_url = redis_url
        self._steps = steps

    @property
    def name(self) -> str:
        """The graph's name."""
        return self.definition.name

    @cached_property
    def _executor(self) -> Executor[StateT]:
        settings = Settings.load(redis_url=self._redis_url) if self._redis_url else Settings.load()
        url = settings.redis_url
        is_remote = url is not None if self._checkpointer is None else hasattr(self._checkpointer, "redis_url")
        make = executor_class(DISTRIBUTED if is_remote else IN_PROCESS)
        executor: Executor[StateT] = make(self.definition, settings=settings, store=self._checkpointer, redis_url=url)
        return executor

    def get_graph(self) -> DrawableGraph:
        """Return the graph's shape: ``app.get_graph().draw_mermaid()``."""
        return DrawableGraph(self.definition)

    # -- run and wait

    def invoke(self, input_data: Any, config: Config | None = None, response_granularity: str = _LOW) -> dict[str, Any]:
        """Run until the graph ends or waits for a person.

        Args:
            input_data: ``{"messages": […], "state": {…}}`` starts a run; ``{"resume": answer}`` answers a waiting one;
                None goes on with a failed, stopped or paused one. A state instance stands for its set fields.
            config: ``thread_id``, ``user_id``, ``run_id``, ``recursion_limit``, ``timeout_s``, ``multitask_strategy``,
                ``priority``, ``start_after_s``, ``steps``, ``stream_tokens`` (whether models' answers are told piece by
                piece; only ``invoke`` does not ask for it), and JSON-able keys of your own. It is never changed.
            response_granularity: See :meth:`RunHandle.result`.

        Returns:
            See :meth:`RunHandle.result`, which also says what it raises.

        Raises:
            InvalidInputError: The input or config is wrong; nothing was written.
        """
        granularity = checked_granularity(response_granularity)
        self._executor.check_may_wait()
        return self.submit(input_data, _quiet(config)).result(response_granularity=granularity)

    async def ainvoke(
        self, input_data: Any, config: Config | None = None, response_granularity: str = _LOW
    ) -> dict[str, Any]:
        """Like :meth:`invoke`."""
        granularity = checked_granularity(response_granularity)
        handle = await self.asubmit(input_data, _quiet(config))
        return await handle.aresult(response_granularity=granularity)

    def stream(
        self, input_data: Any, config: Config | None = None, response_granularity: str = _LOW
    ) -> Iterator[StreamChunk]:
        """Run, and yield the events as they happen; the last is ``run_end``. See :meth:`RunHandle.stream`."""
        granularity = checked_granularity(response_granularity)
        self._executor.check_may_wait()
        return self.submit(input_data, config).stream(response_granularity=granularity)

    async def astream(
        self, input_data: Any, config: Config | None = None, response_granularity: str = _LOW
    ) -> AsyncIterator[StreamChunk]:
        """Like :meth:`stream`."""
        granularity = checked_granularity(response_granularity)
        handle = await self.asubmit(input_data, config)
        async for chunk in handle.astream(response_granularity=granularity):
            yield chunk

    # -- in the background

    def submit(self, input_data: Any, config: Config | None = None) -> RunHandle[StateT]:
        """Start a run and return at once. Arguments as in :meth:`invoke`."""
        return RunHandle(self._executor, self._executor.submit(input_data, self._with_steps(config)))

    async def asubmit(self, input_data: Any, config: Config | None = None) -> RunHandle[StateT]:
        """Like :meth:`submit`."""
        return RunHandle(self._executor, await self._executor.asubmit(input_data, self._with_steps(config)))

    def _with_steps(self, config: Config | None) -> Config | None:
        is_own = self._steps == _STEPS[0] or not isinstance(config, Mapping | None)
        return config if is_own else {"steps": self._steps, **(config or {})}

    def get_run(self, run_id: str, config: Config | None = None) -> RunHandle[StateT]:
        """Return a handle of a run that was started before, here or elsewhere.

        Args:
            run_id: Of the run.
            config: Its ``user_id`` must own the run, and is who cancels by the handle. Without a config nothing is
                checked: that is for whoever operates the installation.

        Raises:
            InvalidInputError: The store knows no such run.
            ThreadOwnerError: The run is another user's.
        """
        return RunHandle(self._executor, self._executor.find(run_id, config))

    async def aget_run(self, run_id: str, config: Config | None = None) -> RunHandle[StateT]:
        """Like :meth:`get_run`."""
        return RunHandle(self._executor, await self._executor.afind(run_id, config))

    def stop_runs(
        self,
        *,
        thread_id: str | None = None,
        status: str | None = None,
        user_id: str | None = None,
        limit: int = 1000,
    ) -> EndedRuns:
        """Stop many unfinished runs of this graph; for whoever operates the installation: no owner is checked.

        There is no index of runs. Without ``thread_id`` every thread of the store is looked at: a trip to the store for
        200 threads, and two for each run that is ended.

        Args:
            thread_id: Only runs of this thread.
            status: Only ``queued``, ``running``, ``waiting`` or ``stopping`` ones.
            user_id: Only this user's.
            limit: At most so many.

        Returns:
            Run id → status after the request, and whether there may be more.

        Raises:
            InvalidInputError: No unfinished run has such a status.
        """
        return self._executor.end_runs(thread_id, status, user_id, limit, None)

    async def astop_runs(
        self,
        *,
        thread_id: str | None = None,
        status: str | None = None,
        user_id: str | None = None,
        limit: int = 1000,
    ) -> EndedRuns:
        """Like :meth:`stop_runs`."""
        return await self._executor.aend_runs(thread_id, status, user_id, limit, None)

    def cancel_runs(
        self,
        reason: str,
        *,
        thread_id: str | None = None,
        status: str | None = None,
        user_id: str | None = None,
        limit: int = 1000,
    ) -> EndedRuns:
        """Cancel many unfinished runs of this graph, as :meth:`stop_runs` stops them."""
        return self._executor.end_runs(thread_id, status, user_id, limit, reason)

    async def acancel_runs(
        self,
        reason: str,
        *,
        thread_id: str | None = None,
        status: str | None = None,
        user_id: str | None = None,
        limit: int = 1000,
    ) -> EndedRuns:
        """Like :meth:`cancel_runs`."""
        return await self._executor.aend_runs(thread_id, status, user_id, limit, reason)

    # -- the thread

    def get_state(self, config: Config, checkpoint: int | None = None) -> StateSnapshot[StateT]:
        """Return a thread's state, now or at a checkpoint.

        Raises:
            InvalidInputError: There is no such thread or checkpoint.
            ThreadOwnerError: The thread is another user's.
        """
        return self._executor.snapshot(config, checkpoint)

    async def aget_state(self, config: Config, checkpoint: int | None = None) -> StateSnapshot[StateT]:
        """Like :meth:`get_state`."""
        return await self._executor.asnapshot(config, checkpoint)

    def messages(self, config: Config, offset: int = 0, limit: int = 100) -> list[Message]:
        """Return the messages of a thread as they came, also those that a context manager took out of ``context``.

        Args:
            config: Names the thread, and its user.
            offset: How many to pass over; below 0 it counts from the end, so -20 begins with the last twenty.
            limit: How many to return at most.

        Raises:
            InvalidInputError: There is no such thread, or a number makes no sense.
            ThreadOwnerError: The thread is another user's.
        """
        return self._executor.messages(config, offset, limit)

    async def amessages(self, config: Config, offset: int = 0, limit: int = 100) -> list[Message]:
        """Like :meth:`messages`."""
        return await self._executor.amessages(config, offset, limit)

    def media(self, config: Config, file_id: str) -> bytes:
        """Return the bytes of an image or a file that a thread keeps.

        Args:
            config: Names the thread, and its user.
            file_id: Of a ``MediaRef`` in a message of the thread: ``sha256:…``.

        Raises:
            InvalidInputError: There is no such thread, or ``NO_MEDIA``: it keeps nothing under this id.
            ThreadOwnerError: The thread is another user's.
        """
        return self._executor.media(config, file_id)

    async def amedia(self, config: Config, file_id: str) -> bytes:
        """Like :meth:`media`."""
        return await self._executor.amedia(config, file_id)

    def get_state_history(
        self, config: Config, *, limit: int | None = None, before: int | Config | None = None
    ) -> Iterator[StateSnapshot[StateT]]:
        """Yield a thread's snapshots, one for each checkpoint that is kept, newest first.

        Args:
            config: ``thread_id``, and ``user_id`` of its owner.
            limit: At most so many.
            before: Only those older than this checkpoint: its number, or a snapshot's ``config``.

        Raises:
            InvalidInputError: There is no such thread.
            ThreadOwnerError: The thread is another user's.
        """
        return self._executor.history(config, limit, before)

    def aget_state_history(
        self, config: Config, *, limit: int | None = None, before: int | Config | None = None
    ) -> AsyncIterator[StateSnapshot[StateT]]:
        """Like :meth:`get_state_history`, for ``async for``."""
        return self._executor.ahistory(config, limit, before)

    def fork(self, config: Config, checkpoint: int | None = None, *, thread_id: str | None = None) -> dict[str, Any]:
        """Begin a new thread with the state of this one at a checkpoint, and with what comes next there.

        ``invoke(None, forked)`` goes on from it; effects and tool calls of the old thread do not count in the new one.

        Args:
            config: ``thread_id``, and ``user_id`` of its owner, who owns the fork as well.
            checkpoint: Its number; also as ``config["checkpoint"]``. None: the newest.
            thread_id: Id of the new thread; None for a generated one.

        Returns:
            The config that names the new thread.

        Raises:
            InvalidInputError: There is no such thread or checkpoint, or there is a thread of the new id.
            ThreadOwnerError: The thread is another user's.
        """
        return self._executor.fork(config, checkpoint, thread_id)

    async def afork(
        self, config: Config, checkpoint: int | None = None, *, thread_id: str | None = None
    ) -> dict[str, Any]:
        """Like :meth:`fork`."""
        return await self._executor.afork(config, checkpoint, thread_id)

    def update_state(self, config: Config, values: Mapping[str, Any], as_node: str | None = None) -> dict[str, Any]:
        """Change a thread's state beside its runs: while none is active, or while one waits for a person.

        Args:
            config: ``thread_id``, and ``user_id`` of its owner. With ``checkpoint`` only if the thread is still there.
            values: Field name → update, as a node would return it: it is checked like that, and goes through reducers.
            as_node: What comes next is then what comes behind this node. None: it stays as it is.

        Returns:
            The config that names the new checkpoint.

        Raises:
            InvalidInputError: A field, a value, the thread or the node is wrong. Nothing was changed.
            StaleStateError: The thread has moved on.
            ThreadBusyError: A run is active.
            ThreadOwnerError: The thread is another user's.
        """
        return self._executor.update_state(config, values, as_node)

    async def aupdate_state(
        self, config: Config, values: Mapping[str, Any], as_node: str | None = None
    ) -> dict[str, Any]:
        """Like :meth:`update_state`."""
        return await self._executor.aupdate_state(config, values, as_node)

    def delete_thread(self, config: Config, *, force: bool = False) -> None:
        """Remove a thread with its messages, checkpoints, runs and events. A straggling attempt writes nothing back.

        Args:
            config: ``thread_id``, and ``user_id`` of its owner.
            force: Cancel what runs, waits or is queued on it first.

        Raises:
            ThreadBusyError: A run is active, waits or is queued, and ``force`` is not set.
            InvalidInputError: There is no such thread.
            ThreadOwnerError: The thread is another user's.
        """
        self._executor.delete_thread(config, force=force)

    async def adelete_thread(self, config: Config, *, force: bool = False) -> None:
        """Like :meth:`delete_thread`."""
        await self._executor.adelete_thread(config, force=force)

    def stop(self, config: Config) -> RunStatus | None:
        """Ask the thread's active run to end after the step in flight; None when there is none.

        Raises:
            InvalidInputError: There is no such thread.
            ThreadOwnerError: The thread is another user's.
        """
        return self._executor.stop(config)

    async def astop(self, config: Config) -> RunStatus | None:
        """Like :meth:`stop`."""
        return await self._executor.astop(config)

    def close(self) -> None:
        """Give back connections. Runs in a Redis store go on; the graph may be used again."""
        if "_executor" in self.__dict__:
            self._executor.close()

    async def aclose(self) -> None:
        """Like :meth:`close`."""
        self.close()


def _quiet(config: Any) -> Any:
    """Nobody follows an invoke: answers of models need not be told piece by piece."""
    if config is not None and not isinstance(config, Mapping):
        return config
    return {"stream_tokens": False, **(config or {})}


def _invalid(name: str, value: Any, wanted: str) -> GraphError:
    return GraphError(f"compile(): {name} must be {wanted}, not {value!r}.", error_code="INVALID_COMPILE")

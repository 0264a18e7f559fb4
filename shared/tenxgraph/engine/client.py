"""The client's side of a graph on a store: submit, follow, results, people's requests. Executors are made of it."""

# Over 300 lines of code: each call stands twice, sync and async.

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Generic, ParamSpec, TypeVar

from pydantic_core import to_json

from tenxgraph.core.exceptions import (
    GraphError,
    InterruptConflictError,
    InvalidInputError,
    ThreadBusyError,
    ThreadOwnerError,
)
from tenxgraph.core.graph.ports import EndedRuns, SubmittedRun
from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.graph.state_snapshot import StateSnapshot
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.kept_media import no_media
from tenxgraph.core.state.message import Message
from tenxgraph.core.state.stream_chunk import StreamChunk, StreamEvent
from tenxgraph.core.state.trim import CONTEXT
from tenxgraph.engine import threads
from tenxgraph.engine.answers import match_answers
from tenxgraph.engine.call import Call, new_run, read_call, read_config
from tenxgraph.engine.ending import RunFilter, cancel_run, unfinished_runs
from tenxgraph.engine.follow import Follower
from tenxgraph.engine.patience import ainsist, insist
from tenxgraph.engine.prepare import Prepare, no_messages, starting
from tenxgraph.engine.results import build_result, raise_for
from tenxgraph.engine.runtime import Runtime
from tenxgraph.engine.snapshots import build_snapshot, snapshots_of, state_at
from tenxgraph.engine.step import PLAN_START
from tenxgraph.engine.time_travel import RETURNED, comes_next
from tenxgraph.engine.user_call import node_loop
from tenxgraph.store.base import (
    Admission,
    AdmissionOutcome,
    Dispatch,
    InputKind,
    Resume,
    RunView,
    Store,
    ThreadView,
    WaitKind,
)
from tenxgraph.wire import Checkpointed, RunConfig

StateT = TypeVar("StateT", bound=AgentState)
P = ParamSpec("P")
T = TypeVar("T")

POLL_S = 5.0
"""How long one wait for events lasts before the follower looks whether the run still lives."""

OUTAGE_S = 300.0
"""How long somebody who waits for a run puts up with a store that is away."""

OPERATOR = "operator"
"""Who cancels through a handle that names no user."""

_BEHIND_ALL = 2**31


def _no_cause(run_id: str) -> BaseException | None:
    del run_id
    return None


class EngineClient(Generic[StateT]):
    """Runs a graph through a store and whatever takes its messages.

    Args:
        runtime: The graph.
        store: Where its threads live.
        dispatch: Puts messages where workers find them.
        recursion_limit: For configs that name none.
        does_io: Whether store calls wait on a network; then async methods make them on a thread.
        cause_of: Run id → exception that failed it, where this process knows.
        prepare: Makes messages for the store to put on their queues.
    """

    def __init__(
        self,
        runtime: Runtime[StateT],
        store: Store,
        dispatch: Callable[[Sequence[Dispatch]], None],
        *,
        recursion_limit: int,
        does_io: bool,
        cause_of: Callable[[str], BaseException | None] = _no_cause,
        prepare: Prepare = no_messages,
    ) -> None:
        self.runtime: Runtime[StateT] = runtime
        self.store: Store = store
        self._dispatch = dispatch
        self._recursion_limit = recursion_limit
        self._does_io = does_io
        self._cause_of = cause_of
        self._prepare = prepare

    async def _call(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(fn, *args, **kwargs) if self._does_io else fn(*args, **kwargs)

    # -- submit

    def check_may_wait(self) -> None:
        """See :meth:`Executor.check_may_wait`. All async nodes share a loop: waiting on it would wait for itself."""
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            return
        if here is node_loop():
            raise GraphError(
                "A sync call inside an async node would block the loop that it waits for: "
                "use await app.ainvoke(…) there.",
                error_code="SYNC_ON_NODE_LOOP",
            )

    def submit(self, input_data: Any, config: Mapping[str, Any] | None) -> SubmittedRun:
        """See :meth:`Executor.submit`."""
        call = read_call(self.runtime, input_data, config, recursion_limit=self._recursion_limit)
        if call.resume is not None:
            return self._answer(call)
        if call.kind is InputKind.MESSAGE and not call.has_messages:
            self._refuse_fresh_thread(call)
        run = new_run(self.runtime, call, self._noted_return(call))
        if run.kind is InputKind.MESSAGE and not run.delay_ms and not run.checkpoint:
            run = replace(run, messages=self._prepare(self._shown(starting(run)), None))
        admission = self.store.admit(run)
        self._dispatch(self._shown(admission.dispatch))
        return self._admitted(call, admission)

    def _shown(self, starts: Sequence[Dispatch]) -> list[Dispatch]:
        """Where a start goes on with a node, its message is shown as that node's."""
        first = self.runtime.first_node
        return [replace(item, node=first) if first and item.node == PLAN_START else item for item in starts]

    async def asubmit(self, input_data: Any, config: Mapping[str, Any] | None) -> SubmittedRun:
        """See :meth:`Executor.asubmit`."""
        return await self._call(self.submit, input_data, config)

    def _noted_return(self, call: Call) -> bytes:
        """What the checkpoint says that going back writes."""
        config = call.config
        if config.checkpoint is None:
            return b""
        if config.start_after_s:
            raise InvalidInputError("start_after_s and checkpoint do not go together: going back waits for nothing.")
        point = self.store.checkpoint(config.thread_id, config.checkpoint)
        if point is None:
            return b""
        noted = Checkpointed.from_json(point.meta) if call.kind is InputKind.CONTINUE else Checkpointed()
        if call.kind is InputKind.CONTINUE and not comes_next(point):
            raise InvalidInputError(
                f"Nothing comes next at checkpoint {config.checkpoint} of thread {config.thread_id!r}: a run ended "
                "there. Pass messages, or take an earlier one from get_state_history().",
                context={"thread_id": config.thread_id, "checkpoint": config.checkpoint},
            )
        return replace(noted, source=RETURNED, by=config.user_id).to_json()

    def _refuse_fresh_thread(self, call: Call) -> None:
        if self.store.thread(call.config.thread_id) is None:
            raise InvalidInputError(
                f"Thread {call.config.thread_id!r} is new and the input has no messages: begin with one.",
                context={"thread_id": call.config.thread_id},
            )

    def _admitted(self, call: Call, admission: Admission) -> SubmittedRun:
        config, outcome = call.config, admission.outcome
        if outcome is AdmissionOutcome.WAITING:
            return self._take_up(call, admission.holder)
        if outcome is AdmissionOutcome.OTHER_GRAPH:
            raise _other_graph(config.thread_id, admission.holder, self.runtime.name)
        if refuse := _REFUSALS.get(outcome):
            raise refuse(call, admission.holder)
        if admission.holder:  # it was taken for an answer before: this is a repeat
            return _following(admission.holder, config, admission.after)
        return SubmittedRun(config.run_id, config.thread_id, user_id=config.user_id)

    # -- resume

    def _take_up(self, call: Call, run_id: str) -> SubmittedRun:
        """A message, or nothing, for a run that waits: only a pause takes it."""
        run = self._run(run_id)
        if run.wait == WaitKind.QUESTION:
            waiting = ", ".join(repr(asked.id) for asked in run.interrupts if asked.answer is None)
            raise InvalidInputError(
                f"Run {run_id!r} on thread {run.thread_id!r} waits for an answer to {waiting}: "
                'call with {"resume": answer}. Nothing was changed.',
                context={"run_id": run_id, "thread_id": run.thread_id},
            )
        return self._resume(call, run, {})

    def _answer(self, call: Call) -> SubmittedRun:
        if repeated := self._repeated(call):
            return repeated
        try:
            return self._answer_once(call)
        except InterruptConflictError:  # perhaps by the same call, made twice at one moment
            if repeated := self._repeated(call):
                return repeated
            raise

    def _repeated(self, call: Call) -> SubmittedRun | None:
        taken = self.store.resumed(call.config.thread_id, call.config.run_id)
        if taken is None:
            return None
        if taken.digest != call.digest:
            raise _run_id_taken(call, call.config.thread_id)
        return _following(taken.run_id, call.config, taken.after)

    def _answer_once(self, call: Call) -> SubmittedRun:
        assert call.resume is not None
        run = self._waiting_run(call)
        if call.config.checkpoint not in (None, run.version):
            raise InvalidInputError(
                f"An answer goes to what waits now, at checkpoint {run.version}, not at {call.config.checkpoint}: "
                "leave checkpoint out.",
                context={"run_id": run.run_id, "checkpoint": call.config.checkpoint},
            )
        if run.wait != WaitKind.QUESTION and run.status is RunStatus.WAITING:
            return self._resume(call, run, {})
        if call.update is not None:
            raise InvalidInputError(
                f'Run {run.run_id!r} waits for an answer: {{"resume": …}} goes alone, without messages and state.',
                context={"run_id": run.run_id},
            )
        answers = match_answers(run, call.resume[0])
        return self._resume(call, run, {name: to_json(answer) for name, answer in answers.items()})

    def _waiting_run(self, call: Call) -> RunView:
        thread = self.store.thread(call.config.thread_id)
        if thread is not None:
            self._check_access(thread, call.config.user_id)
        run = self.store.run(thread.active) if thread is not None and thread.active else None
        if run is None or run.status not in (RunStatus.WAITING, RunStatus.RUNNING):
            raise _nothing_waits(call)
        return run

    def _resume(self, call: Call, run: RunView, answers: Mapping[str, bytes]) -> SubmittedRun:
        update = b"" if call.update is None else call.update.to_json()
        resume = Resume(run.thread_id, run.run_id, call.config.run_id, answers, update, digest=call.digest)
        resumed = self.store.resume(resume)
        if not resumed.accepted:
            raise _nothing_waits(call)
        self._dispatch(resumed.dispatch)
        return _following(run.run_id, call.config, resumed.after)

    # -- look

    def _run(self, run_id: str) -> RunView:
        run = self.store.run(run_id)
        if run is None or run.graph != self.runtime.name:
            raise InvalidInputError(
                f"Graph {self.runtime.name!r} has no run {run_id!r} in this store: check the id, and the store.",
                context={"run_id": run_id},
            )
        return run

    def find(self, run_id: str, config: Mapping[str, Any] | None) -> SubmittedRun:
        """See :meth:`Executor.find`."""
        run = self._run(run_id)
        if config is None:
            return SubmittedRun(run_id, run.thread_id)
        user_id = read_config(config, recursion_limit=self._recursion_limit).user_id
        if user_id != run.user_id:
            raise _other_owner(run.thread_id, user_id)
        return SubmittedRun(run_id, run.thread_id, user_id=user_id)

    async def afind(self, run_id: str, config: Mapping[str, Any] | None) -> SubmittedRun:
        """See :meth:`Executor.afind`."""
        return await self._call(self.find, run_id, config)

    def status(self, run_id: str) -> RunStatus:
        """See :meth:`Executor.status`."""
        return self._run(run_id).status

    async def astatus(self, run_id: str) -> RunStatus:
        """See :meth:`Executor.astatus`."""
        return await self._call(self.status, run_id)

    def result(self, run_id: str, granularity: str) -> dict[str, Any]:
        """See :meth:`Executor.result`."""
        pause = partial(_pause, _Patience(None))
        run = insist(partial(self._run, run_id), pause)
        raise_for(run, self._cause_of(run_id))
        return insist(partial(build_result, self.runtime, self.store, run, granularity), pause)

    async def aresult(self, run_id: str, granularity: str) -> dict[str, Any]:
        """See :meth:`Executor.aresult`."""
        return await self._call(self.result, run_id, granularity)

    def snapshot(self, config: Mapping[str, Any], checkpoint: int | None) -> StateSnapshot[StateT]:
        """See :meth:`Executor.snapshot`."""
        number = self._checkpoint_in(config) if checkpoint is None else checkpoint
        return build_snapshot(self.runtime, self.store, self._thread(config), number)

    async def asnapshot(self, config: Mapping[str, Any], checkpoint: int | None) -> StateSnapshot[StateT]:
        """See :meth:`Executor.asnapshot`."""
        return await self._call(self.snapshot, config, checkpoint)

    def messages(self, config: Mapping[str, Any], offset: int, limit: int) -> list[Message]:
        """See :meth:`Executor.messages`."""
        _check_whole("offset", offset, None)
        _check_whole("limit", limit, 1)
        items = self.store.log(self._thread(config).thread_id, CONTEXT, offset=offset, limit=limit)
        return [self.runtime.codec.decode_item(CONTEXT, item) for item in items]

    async def amessages(self, config: Mapping[str, Any], offset: int, limit: int) -> list[Message]:
        """See :meth:`Executor.amessages`."""
        return await self._call(self.messages, config, offset, limit)

    def media(self, config: Mapping[str, Any], file_id: str) -> bytes:
        """See :meth:`Executor.media`."""
        thread_id = self._thread(config).thread_id
        data = self.store.media(thread_id, file_id) if isinstance(file_id, str) else None
        if data is None:
            raise no_media(thread_id, file_id)
        return data

    async def amedia(self, config: Mapping[str, Any], file_id: str) -> bytes:
        """See :meth:`Executor.amedia`."""
        return await self._call(self.media, config, file_id)

    def _thread(self, config: Mapping[str, Any]) -> ThreadView:
        checked = read_config(config, recursion_limit=self._recursion_limit)
        thread = self.store.thread(checked.thread_id) if "thread_id" in config else None
        if thread is None:
            raise InvalidInputError(
                f"There is no thread {config.get('thread_id')!r} in this store: name one in config['thread_id'].",
                context={"thread_id": config.get("thread_id")},
            )
        self._check_access(thread, checked.user_id)
        return thread

    def _checkpoint_in(self, config: Mapping[str, Any]) -> int | None:
        return read_config(config, recursion_limit=self._recursion_limit).checkpoint

    def _check_access(self, thread: ThreadView, user_id: str) -> None:
        if thread.user_id != user_id:
            raise _other_owner(thread.thread_id, user_id)
        if thread.graph != self.runtime.name:
            raise _other_graph(thread.thread_id, thread.graph, self.runtime.name)

    # -- the thread

    def history(self, config: Mapping[str, Any], limit: int | None, before: Any) -> Iterator[StateSnapshot[StateT]]:
        """See :meth:`Executor.history`."""
        if limit is not None:
            _check_whole("limit", limit, 1)
        if isinstance(before, Mapping):
            before = before.get("checkpoint")
        if before is not None:
            _check_whole("before", before, 1)
        return snapshots_of(self.runtime, self.store, self._thread(config), limit, before)

    async def ahistory(
        self, config: Mapping[str, Any], limit: int | None, before: Any
    ) -> AsyncIterator[StateSnapshot[StateT]]:
        """See :meth:`Executor.ahistory`."""
        snapshots = await self._call(self.history, config, limit, before)
        while (snapshot := await self._call(next, snapshots, None)) is not None:
            yield snapshot

    def fork(self, config: Mapping[str, Any], checkpoint: int | None, thread_id: str | None) -> dict[str, Any]:
        """See :meth:`Executor.fork`."""
        number = self._checkpoint_in(config) if checkpoint is None else checkpoint
        return threads.fork(self.store, self._thread(config), number, thread_id)

    async def afork(self, config: Mapping[str, Any], checkpoint: int | None, thread_id: str | None) -> dict[str, Any]:
        """See :meth:`Executor.afork`."""
        return await self._call(self.fork, config, checkpoint, thread_id)

    def update_state(self, config: Mapping[str, Any], values: Any, as_node: str | None) -> dict[str, Any]:
        """See :meth:`Executor.update_state`."""
        read, number = partial(self._thread, config), self._checkpoint_in(config)
        return threads.update_state(self.runtime, self.store, read, values, as_node, number)

    async def aupdate_state(self, config: Mapping[str, Any], values: Any, as_node: str | None) -> dict[str, Any]:
        """See :meth:`Executor.aupdate_state`."""
        return await asyncio.to_thread(self.update_state, config, values, as_node)  # reducers may take their time

    def delete_thread(self, config: Mapping[str, Any], *, force: bool) -> None:
        """See :meth:`Executor.delete_thread`."""
        thread = self._thread(config)

        def cancel(run_id: str) -> None:
            if run := self.store.run(run_id):  # else whoever deletes beside us was faster
                answer = cancel_run(self.store, run, by=thread.user_id, reason="its thread was deleted")
                self._dispatch(answer.dispatch)

        threads.delete(self.store, thread, cancel, force=force)

    async def adelete_thread(self, config: Mapping[str, Any], *, force: bool) -> None:
        """See :meth:`Executor.adelete_thread`."""
        await self._call(partial(self.delete_thread, config, force=force))

    # -- follow

    def _follower(self, run: SubmittedRun, granularity: str, patience: "_Patience") -> Follower:
        # Inside the follower, so that what it took from a batch is not lost with the call.
        view = partial(insist, partial(self._run, run.run_id), partial(_pause, patience))
        return Follower(run, granularity, self.runtime.definition.state_class, view)

    def follow(self, run: SubmittedRun, *, granularity: str, timeout_s: float | None) -> Iterator[StreamChunk]:
        """See :meth:`Executor.follow`."""
        self.check_may_wait()
        patience = _Patience(timeout_s, run)
        follower, pause = self._follower(run, granularity, patience), partial(_pause, patience)
        while not follower.is_over:
            read = partial(self.store.events, run.thread_id, run.run_id, follower.position)
            batch = insist(partial(read, timeout_s=patience.wait_s(follower)), pause)
            is_kept = not follower.may_miss(batch) or insist(partial(self._keeps_place, follower), pause)
            patience.renew()
            for chunk in follower.feed(batch, is_kept=is_kept):
                yield insist(partial(self._with_state, chunk), pause)

    async def afollow(
        self, run: SubmittedRun, *, granularity: str, timeout_s: float | None
    ) -> AsyncIterator[StreamChunk]:
        """See :meth:`Executor.afollow`."""
        patience = _Patience(timeout_s, run)
        follower, pause = self._follower(run, granularity, patience), partial(_pause, patience)
        while not follower.is_over:
            read = partial(self.store.aevents, run.thread_id, run.run_id, follower.position)
            batch = await ainsist(partial(read, timeout_s=patience.wait_s(follower)), partial(_apause, patience))
            may_miss, keeps = follower.may_miss(batch), partial(self._keeps_place, follower)
            is_kept = not may_miss or await self._call(insist, keeps, pause)
            patience.renew()
            for chunk in await self._call(list, follower.feed(batch, is_kept=is_kept)):
                is_state = chunk.event is StreamEvent.STATE
                yield await self._call(insist, partial(self._with_state, chunk), pause) if is_state else chunk

    def _keeps_place(self, follower: Follower) -> bool:
        return self.store.keeps_event(follower.run.thread_id, follower.run.run_id, follower.position)

    def _with_state(self, chunk: StreamChunk) -> StreamChunk:
        if chunk.event is StreamEvent.STATE:
            chunk.state = state_at(self.runtime, self.store, chunk.thread_id, chunk.data["checkpoint"])
        return chunk

    # -- stop and cancel

    def stop(self, config: Mapping[str, Any]) -> RunStatus | None:
        """See :meth:`Executor.stop`."""
        thread = self._thread(config)
        return self._stop(thread.thread_id, thread.active) if thread.active else None

    async def astop(self, config: Mapping[str, Any]) -> RunStatus | None:
        """See :meth:`Executor.astop`."""
        return await self._call(self.stop, config)

    def stop_run(self, run_id: str) -> RunStatus | None:
        """See :meth:`Executor.stop_run`."""
        return self._stop(self._run(run_id).thread_id, run_id)

    async def astop_run(self, run_id: str) -> RunStatus | None:
        """See :meth:`Executor.astop_run`."""
        return await self._call(self.stop_run, run_id)

    def _stop(self, thread_id: str, run_id: str) -> RunStatus | None:
        answer = self.store.stop(thread_id, run_id, events=b"")
        self._dispatch(answer.dispatch)
        return answer.status

    def cancel_run(self, run_id: str, reason: str, user_id: str) -> RunStatus | None:
        """See :meth:`Executor.cancel_run`."""
        answer = cancel_run(self.store, self._run(run_id), by=user_id or OPERATOR, reason=reason)
        self._dispatch(answer.dispatch)
        return answer.status

    async def acancel_run(self, run_id: str, reason: str, user_id: str) -> RunStatus | None:
        """See :meth:`Executor.acancel_run`."""
        return await self._call(self.cancel_run, run_id, reason, user_id)

    def end_runs(
        self, thread_id: str | None, status: str | None, user_id: str | None, limit: int, cancel: str | None
    ) -> EndedRuns:
        """See :meth:`Executor.end_runs`."""
        which = RunFilter(thread_id, self.runtime.name, status, user_id)
        chosen = list(islice(unfinished_runs(self.store, which), limit + 1))
        ended: dict[str, RunStatus] = {}
        for run in chosen[:limit]:
            end = self.stop_run(run.run_id) if cancel is None else self.cancel_run(run.run_id, cancel, "")
            ended[run.run_id] = end or run.status
        return EndedRuns(ended, more=len(chosen) > limit)

    async def aend_runs(
        self, thread_id: str | None, status: str | None, user_id: str | None, limit: int, cancel: str | None
    ) -> EndedRuns:
        """See :meth:`Executor.aend_runs`."""
        return await self._call(self.end_runs, thread_id, status, user_id, limit, cancel)

    def close(self) -> None:
        """See :meth:`Executor.close`."""
        self.store.close()


def _check_whole(name: str, given: Any, least: int | None) -> None:
    if isinstance(given, int) and not isinstance(given, bool) and (least is None or given >= least):
        return
    wanted = "a whole number" if least is None else f"a whole number from {least} up"
    raise InvalidInputError(f"{name} is {given!r}: give {wanted}.", context={name: given})


def _following(run_id: str, config: RunConfig, after: str) -> SubmittedRun:
    """A run whose events count from behind an id of the store's; all of them when it is ""."""
    return SubmittedRun(run_id, config.thread_id, f"{after}.{_BEHIND_ALL}" if after else "", config.user_id)


class _Patience:
    """How long a caller goes on waiting: for its run, and for a store that is away."""

    def __init__(self, timeout_s: float | None, run: SubmittedRun | None = None) -> None:
        self._run = run
        self._deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self.renew()

    def renew(self) -> None:
        """The store answered."""
        self._outage_ends = time.monotonic() + OUTAGE_S

    def left_s(self) -> float:
        """How long the next wait may take; TimeoutError when the time is over."""
        if self._deadline is None:
            return POLL_S
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            run = self._run
            name = f"Run {run.run_id!r} on thread {run.thread_id!r}" if run else "The run"
            raise TimeoutError(f"{name} has not ended in time; it goes on.")
        return min(left_s, POLL_S)

    def wait_s(self, follower: Follower) -> float:
        """How long the next read of a follower may take."""
        left_s = self.left_s()
        return left_s if follower.may_wait else 0.0

    def is_left(self) -> bool:
        """Whether the store may be away for longer."""
        return time.monotonic() < self._outage_ends


def _pause(patience: _Patience, wanted_s: float) -> bool:
    time.sleep(min(wanted_s, patience.left_s()))
    return patience.is_left()


async def _apause(patience: _Patience, wanted_s: float) -> bool:
    await asyncio.sleep(min(wanted_s, patience.left_s()))
    return patience.is_left()


def _nothing_waits(call: Call) -> InterruptConflictError:
    return InterruptConflictError(
        f"Nothing waits for this answer on thread {call.config.thread_id!r}: it was answered before, or never asked.",
        context={"thread_id": call.config.thread_id},
    )


def _other_owner(thread_id: str, user_id: str) -> ThreadOwnerError:
    return ThreadOwnerError(
        f"Thread {thread_id!r} belongs to another user than {user_id!r}: use that user's user_id, or another thread.",
        context={"thread_id": thread_id},
    )


def _other_graph(thread_id: str, holder: str, graph: str) -> InvalidInputError:
    return InvalidInputError(
        f"Thread {thread_id!r} belongs to graph {holder!r}, not to {graph!r}: use another thread_id, or that graph.",
        context={"thread_id": thread_id, "graph": holder},
    )


def _run_id_taken(call: Call, holder: str) -> InvalidInputError:
    return InvalidInputError(
        f"run_id {call.config.run_id!r} was used on thread {holder!r} with another thread, user or input: "
        "a run_id names one run for ever; take a new one.",
        context={"run_id": call.config.run_id, "thread_id": holder},
    )


def _busy(call: Call, holder: str) -> ThreadBusyError:
    return ThreadBusyError(
        f"Run {holder!r} is active on thread {call.config.thread_id!r}: wait for it, or enqueue behind it.",
        context={"thread_id": call.config.thread_id, "run_id": holder},
    )


def _nothing_to_continue(call: Call, holder: str) -> InvalidInputError:
    del holder
    return InvalidInputError(
        f"Thread {call.config.thread_id!r} has no failed, stopped or paused run to continue: pass messages.",
        context={"thread_id": call.config.thread_id},
    )


def _no_checkpoint(call: Call, holder: str) -> InvalidInputError:
    del holder
    thread_id, checkpoint = call.config.thread_id, call.config.checkpoint
    return InvalidInputError(
        f"Thread {thread_id!r} has no checkpoint {checkpoint}: get_state_history() lists those that are kept.",
        context={"thread_id": thread_id, "checkpoint": checkpoint},
    )


_REFUSALS: dict[AdmissionOutcome, Callable[[Call, str], Exception]] = {
    AdmissionOutcome.RUN_ID_TAKEN: _run_id_taken,
    AdmissionOutcome.OTHER_OWNER: lambda call, _: _other_owner(call.config.thread_id, call.config.user_id),
    AdmissionOutcome.BUSY: _busy,
    AdmissionOutcome.NOTHING_TO_CONTINUE: _nothing_to_continue,
    AdmissionOutcome.NO_CHECKPOINT: _no_checkpoint,
}

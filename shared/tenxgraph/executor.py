"""The in-process executor: the same engine, with the memory of this process for a store and its threads for workers."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from tenxgraph.core.graph.definition import GraphDefinition
from tenxgraph.core.graph.multitask import MultitaskStrategy
from tenxgraph.core.graph.ports import SubmittedRun
from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.engine.attempt import AttemptRunner
from tenxgraph.engine.client import EngineClient
from tenxgraph.engine.log import log_fields
from tenxgraph.engine.reconcile import reconcile, retention_rules
from tenxgraph.engine.runtime import Runtime
from tenxgraph.engine.user_call import adrive, node_loop
from tenxgraph.settings import Settings
from tenxgraph.store.base import PLAN, Dispatch, RecoveryRules, Store, TaskRef
from tenxgraph.store.memory import MemoryStore
from tenxgraph.wire import RunConfig

_logger = logging.getLogger(__name__)

StateT = TypeVar("StateT", bound=AgentState)

_NEVER_MS = 10**15
"""A lease that does not end: tasks of this process cannot die apart from it."""


_FIRST_LOOK_MS = 15_000
"""When threads are looked at for what is past."""


class _Causes:
    """Exceptions that failed the last runs, so that ``__cause__`` is the very one that user code raised."""

    def __init__(self, size: int = 1024) -> None:
        self._size = size
        self._errors: OrderedDict[str, BaseException] = OrderedDict()

    def note(self, run_id: str, error: BaseException) -> None:
        self._errors[run_id] = error
        while len(self._errors) > self._size:
            self._errors.popitem(last=False)

    def get(self, run_id: str) -> BaseException | None:
        return self._errors.get(run_id)


class InProcessExecutor(EngineClient[StateT]):
    """Runs a graph in this process: async nodes on its node loop, sync nodes on threads, a step's tasks side by side.

    Args:
        definition: The graph.
        settings: Defaults of runs and nodes.
        store: Where threads live; None for a memory of its own.
        redis_url: Not used here; executors are made alike.
    """

    def __init__(
        self,
        definition: GraphDefinition[StateT],
        *,
        settings: Settings,
        store: Store | None = None,
        redis_url: str | None = None,
    ) -> None:
        del redis_url
        runtime = Runtime(
            definition, default_timeout_s=settings.node_timeout_s, inline_media_bytes=settings.inline_media_bytes
        )
        causes = _Causes()
        super().__init__(
            runtime,
            MemoryStore() if store is None else store,
            self.dispatch,
            recursion_limit=settings.recursion_limit,
            does_io=False,
            cause_of=causes.get,
        )
        self._attempts = AttemptRunner(
            runtime,
            self.store,
            self.dispatch,
            worker="in process",
            lease_ms=_NEVER_MS,
            note_failure=causes.note,
            budget_s=settings.sticky_budget_s,
            watch_retry=self._look_in,
        )
        self._rules = RecoveryRules(grace_ms=_NEVER_MS, max_deliveries=settings.max_deliveries)
        self._retention = retention_rules(settings)
        self._running: dict[TaskRef, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def dispatch(self, dispatches: Sequence[Dispatch]) -> None:
        """Let this process perform the tasks."""
        if dispatches:
            node_loop().call_soon_threadsafe(self._start, dispatches)

    def _start(self, dispatches: Sequence[Dispatch]) -> None:
        for item in dispatches:
            if item.ref.task == PLAN:
                self._watch_deadline(item.ref)
            task = asyncio.get_running_loop().create_task(self._perform(item.ref, item.node), name=item.node)
            self._running[item.ref] = task
            task.add_done_callback(partial(self._forget, item.ref))

    def _forget(self, ref: TaskRef, _: asyncio.Task[None]) -> None:
        self._running.pop(ref, None)

    async def _perform(self, ref: TaskRef, node: str) -> None:
        try:
            await adrive(self._attempts.perform(ref, node))
        except Exception:
            _logger.exception("the attempt broke off", extra=log_fields(ref))

    # -- time

    def submit(self, input_data: Any, config: Mapping[str, Any] | None) -> SubmittedRun:
        """See :meth:`Executor.submit`."""
        run = super().submit(input_data, config)
        if (config or {}).get("multitask_strategy") == MultitaskStrategy.ROLLBACK:
            node_loop().call_soon_threadsafe(self._cancel_tasks)
        if delay_s := (config or {}).get("start_after_s"):
            self._look_in(round(delay_s * 1000))
        elif self._timer is None and not self._retention.is_for_ever:
            self._look_in(_FIRST_LOOK_MS)
        return run

    def _watch_deadline(self, ref: TaskRef) -> None:
        """A run's time begins when it starts, which may be long after it was submitted."""
        run = self.store.run(ref.run_id)
        if run is not None and (timeout_s := RunConfig.from_json(run.request).timeout_s):
            asyncio.get_running_loop().call_later(timeout_s + 0.001, self._recover, ref.thread_id)

    def _recover(self, thread_id: str) -> None:
        self.dispatch(self.store.recover(thread_id, self._rules).dispatch)

    def _look_in(self, delay_ms: int) -> None:
        node_loop().call_soon_threadsafe(self._arm, delay_ms / 1000)

    def _arm(self, delay_s: float) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time() + max(delay_s, 0.001)
        if self._timer is None or self._timer.cancelled() or at < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(at, self._reconcile)

    def _reconcile(self) -> None:
        self._timer = None
        reconcile(self.store, self._rules, self.dispatch, is_lost=lambda _: False, retention=self._retention)
        self._cancel_tasks()  # a delayed run may have rolled another back
        next_due_ms = self.store.next_due_ms()
        if next_due_ms is not None:
            self._arm((next_due_ms - self.store.now_ms()) / 1000)

    # -- people

    def cancel_run(self, run_id: str, reason: str, user_id: str) -> RunStatus | None:
        """See :meth:`Executor.cancel_run`. Async nodes are cancelled; a sync node's thread runs out, fenced."""
        status = super().cancel_run(run_id, reason, user_id)
        node_loop().call_soon_threadsafe(self._cancel_tasks)
        return status

    def _cancel_tasks(self) -> None:
        """Cancel what runs for a run that was cancelled: such a task has nothing left to write or to send."""
        for ref, task in list(self._running.items()):
            run = self.store.run(ref.run_id)
            if run is not None and run.status is RunStatus.CANCELLED:
                task.cancel()
                node = self.runtime.definition.nodes.get(task.get_name())
                if node is not None and not node.is_async:
                    _logger.warning(
                        "cancelled: its node still runs, in a thread, until it returns", extra=log_fields(ref)
                    )

"""What a process that runs nodes holds: made in it when the first message comes, so after any fork."""

import logging
import os
import threading
from collections.abc import Callable
from typing import Any, Final

from billiard.process import current_process
from celery import Celery

from tenxgraph.engine.attempt import AttemptRunner
from tenxgraph.engine.flusher import Flusher
from tenxgraph.engine.log import log_fields
from tenxgraph.engine.runtime import Runtime
from tenxgraph.engine.state_cache import StateCache
from tenxgraph.engine.suspects import Suspects
from tenxgraph.engine.user_call import drive
from tenxgraph.settings import Settings
from tenxgraph.store.base import TaskRef
from tenxgraph.store.redis import redis_store
from tenxgraph.wire import TaskMessage
from tenxgraph_scheduler.broker import store_url
from tenxgraph_scheduler.clock import StoreClock
from tenxgraph_scheduler.dispatch import CeleryDispatcher
from tenxgraph_worker.endurance import Endurance
from tenxgraph_worker.graphs import GraphSet
from tenxgraph_worker.heartbeat import Heartbeat
from tenxgraph_worker.leaving import leave_worker
from tenxgraph_worker.shutdown import Shutdown

_logger = logging.getLogger(__name__)

WAITING_FOR_VERSION: Final = "waiting_for_version"

_GIVE_BACK_PAUSE_MS = 50
"""Doubles ten times: soon, where workers of different graphs share a queue; each minute, where nobody serves this."""

_EXIT_CODE = 75


class NodeProcess:
    """One process's store, cache, heartbeat and dispatcher, shared by all its threads.

    Args:
        app: Publishes.
        settings: Of the worker.
        graphs: That it serves.
        name: Of this process in the store.
        shutdown: Of the worker; None for one that is not told.
    """

    def __init__(
        self, app: Celery, settings: Settings, graphs: GraphSet, name: str, shutdown: Shutdown | None = None
    ) -> None:
        shutdown = shutdown or Shutdown(settings.shutdown_grace_s)
        self._settings = settings
        self._shutdown = shutdown
        self._graphs = graphs
        self._name = name
        self._store = redis_store(store_url(settings), settings)
        self._cache = StateCache()
        is_child = _is_prefork_child()
        self._endurance = Endurance(shutdown, os.getppid() if is_child else None)
        self._suspects = Suspects()
        clock = StoreClock(self._store.now_ms)
        self._dispatch = CeleryDispatcher(
            lambda: app, settings, now_ms=clock.now_ms, cache=self._cache, store_url=store_url(settings)
        )
        leave, end_process = (_stay, _exit) if is_child else (leave_worker, None)
        self._heartbeat = Heartbeat(self._store, settings, self._dispatch, shutdown, leave, end_process)
        self._flusher = Flusher(self._store)
        self._runners: dict[str, AttemptRunner] = {}

    def perform(self, message: TaskMessage) -> dict[str, Any]:
        """Do what a message asks for.

        Returns:
            What became of it, for the log and Flower's result column.
        """
        ref = TaskRef(message.thread_id, message.run_id, message.step, message.task, message.attempt)
        runtime = self._graphs.find(message.graph, message.graph_version) if message.is_readable else None
        if runtime is None:
            return self._give_back(ref, message)
        if message.state is not None:
            self._cache.offer(ref.thread_id, message.state)
        return {"outcome": drive(self._runner(runtime).perform(ref, message.node))}

    def _runner(self, runtime: Runtime[Any]) -> AttemptRunner:
        runner = self._runners.get(runtime.name)
        if runner is None:  # two threads may both make one: they are alike
            runner = self._runners[runtime.name] = AttemptRunner(
                runtime,
                self._store,
                self._dispatch,
                worker=self._name,
                lease_ms=round(self._settings.lease_s * 1000),
                cache=self._cache,
                insist=self._endurance,
                suspects=self._suspects,
                wake=self._flusher.wake,
                prepare=self._dispatch.prepare,
                budget_s=self._settings.sticky_budget_s,
                is_leaving=lambda: self._shutdown.has_begun,
                hold=self._heartbeat.hold,
                keep=self._heartbeat.keep,
            )
        return runner

    def _give_back(self, ref: TaskRef, message: TaskMessage) -> dict[str, Any]:
        given = self._endurance(
            lambda: self._store.give_back(ref, reason=WAITING_FOR_VERSION, pause_ms=_GIVE_BACK_PAUSE_MS)
        )
        _logger.info(
            "given back: graph %r in version %s is not served here",
            *(message.graph, message.graph_version[:12]),
            extra=log_fields(ref),
        )
        return {"outcome": "given back" if given else "refused", "reason": WAITING_FOR_VERSION}


def _is_prefork_child() -> bool:
    return bool(current_process().name != "MainProcess")


def _exit() -> None:
    os._exit(_EXIT_CODE)


def _stay() -> None:
    """A prefork child ends with its node, or is ended by its parent."""


class NodeProcesses:
    """Finds the :class:`NodeProcess` of the running process.

    Args:
        make: Makes one under a name.
    """

    def __init__(self, make: Callable[[str], NodeProcess]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._by_pid: dict[int, NodeProcess] = {}

    def here(self, worker: str) -> NodeProcess:
        """Return this process's own, made now if need be."""
        pid = os.getpid()
        found = self._by_pid.get(pid)
        if found is not None:
            return found
        with self._lock:
            if pid not in self._by_pid:
                self._by_pid = {pid: self._make(f"{worker}/{pid}")}
            return self._by_pid[pid]

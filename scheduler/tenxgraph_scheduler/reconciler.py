"""The scheduler's process: does what depends on time. It knows no graph; any number may run."""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from redis.backoff import NoBackoff
from redis.exceptions import NoPermissionError, OutOfMemoryError, ReadOnlyError, ResponseError
from redis.retry import Retry

from tenxgraph.core.exceptions import StorageError
from tenxgraph.engine.reconcile import BATCH, reconcile, retention_rules
from tenxgraph.guard import refuse_beside_10xgraph
from tenxgraph.settings import Settings
from tenxgraph.store.base import Dispatch, DueThread, RecoveryRules, Store
from tenxgraph.store.redis import redis_store
from tenxgraph.store.redis_scripts import Scripts
from tenxgraph.store.sentinel import redis_client
from tenxgraph_scheduler.broker import broker_url, make_celery, store_url
from tenxgraph_scheduler.clock import StoreClock
from tenxgraph_scheduler.dispatch import CeleryDispatcher
from tenxgraph_scheduler.outage import Outage
from tenxgraph_scheduler.queue_view import Queues, QueueView, UnseenQueues

_logger = logging.getLogger(__name__)

_LEAST_PAUSE_S = 0.01
_FAULTY_THREADS = 1000
_LONGEST_BACKOFF_DOUBLINGS = 6


class Reconciler:
    """Looks at the threads that are due, until it is told to stop.

    Args:
        store: Where threads live.
        dispatch: Puts messages on queues.
        settings: Lease, scan and limits.
        queues: Tell whether an overdue task's message is gone.
        server_id: Names the store's server process; another name means that it was started anew.
        monotonic_s: This process's clock.
    """

    def __init__(
        self,
        store: Store,
        dispatch: Callable[[Sequence[Dispatch]], None],
        settings: Settings,
        *,
        queues: Queues | None = None,
        server_id: Callable[[], str] = lambda: "",
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._dispatch = dispatch
        self._settings = settings
        self._queues = queues or UnseenQueues()
        self._server_id = server_id
        self._retention = retention_rules(settings)
        self._grace_ms = round(settings.lease_s * 1000)
        # A living worker's lease has at least this left when its heartbeat comes; half of it is ours to lose.
        slack_s = settings.lease_s - settings.heartbeat_s
        self._outage = Outage(settings.lease_s, slack_s * 1000 / 2, monotonic_s)
        self._faults: dict[str, int] = {}

    def run(self, stop: threading.Event) -> None:
        """Scan until ``stop`` is set; a store that is away is waited for."""
        while not stop.is_set():
            stop.wait(self.scan())

    def scan(self) -> float:
        """Look once.

        Returns:
            Seconds until the next look.
        """
        try:
            self._outage.look(self._server_id(), self._store.now_ms())
            self._queues.begin_scan()
            due = reconcile(
                self._store,
                self._rules(),
                self._dispatch,
                self._queues.is_lost,
                self._back_off,
                self._retention,
                self._queues.lag_ms,
            )
            return _LEAST_PAUSE_S if due >= BATCH else self._pause_s()
        except StorageError as error:
            self._outage.note(error.message)
            return self._settings.scan_s

    def _rules(self) -> RecoveryRules:
        limits = self._settings
        return RecoveryRules(
            self._grace_ms, limits.max_deliveries, self._outage.is_recent, max_lost_leases=limits.max_lost_leases
        )

    def _pause_s(self) -> float:
        next_due_ms = self._store.next_due_ms()
        if next_due_ms is None:
            return self._settings.scan_s
        left_s = (next_due_ms - self._store.now_ms()) / 1000
        return max(_LEAST_PAUSE_S, min(left_s, self._settings.scan_s))

    def _back_off(self, due: DueThread, error: Exception) -> None:
        """Put a thread that fails further away each time; an outage is no fault of the thread."""
        if _is_of_the_store(error):
            self._outage.note(str(error))
        now_ms = self._store.now_ms()
        faults = self._faults.pop(due.thread_id, 0)
        self._faults[due.thread_id] = faults + 1
        while len(self._faults) > _FAULTY_THREADS:
            del self._faults[next(iter(self._faults))]
        self._store.settle_due(due, now_ms + (self._grace_ms << min(faults, _LONGEST_BACKOFF_DOUBLINGS)))
        _logger.error("the thread cannot be reconciled", exc_info=error, extra={"thread_id": due.thread_id})


def _is_of_the_store(error: Exception) -> bool:
    """Whether the server failed as such. An answer that it did not like the question is about one thread."""
    full = isinstance(error.__cause__, OutOfMemoryError | ReadOnlyError)
    return isinstance(error, StorageError) and (full or not isinstance(error.__cause__, ResponseError))


def make_reconciler(settings: Settings) -> Reconciler:
    """Return the reconciler of the configured store and broker.

    Raises:
        InvalidInputError: No Redis is named.
        TenxGraphError: ``ENVIRONMENT``; 10xgraph is installed beside us.
    """
    refuse_beside_10xgraph()
    url = store_url(settings)
    store = redis_store(url, settings)
    app = make_celery(settings, broker_url(settings))
    return Reconciler(
        store,
        CeleryDispatcher(lambda: app, settings, now_ms=StoreClock(store.now_ms).now_ms),
        settings,
        queues=QueueView(app, settings),
        server_id=_server_id(url),
    )


def _server_id(url: str) -> Callable[[], str]:
    timeouts = {"socket_timeout": 10, "socket_connect_timeout": 5}
    client = redis_client(url, protocol=2, retry=Retry(NoBackoff(), 1), **timeouts)

    scripts = Scripts(client, {})

    def ask() -> str:
        try:
            return str(scripts.run(("INFO", "server"))[0]["run_id"])
        except StorageError as error:
            if isinstance(error.__cause__, NoPermissionError):
                return ""
            raise

    return ask

"""What the broker's queues show of a message that nobody claimed."""

import logging
from typing import Any, Protocol

import orjson
import redis
from celery import Celery
from kombu.exceptions import KombuError

from tenxgraph.settings import Settings
from tenxgraph.store.base import Overdue
from tenxgraph_scheduler.broker import DISPATCHED_HEADER
from tenxgraph_scheduler.publisher import redis_queue_priority

_logger = logging.getLogger(__name__)

_OLDEST = 20
"""How many messages are looked at for one of ours, where other tasks share the queue."""

_SLACK_MS = 1000
"""Between the store's note of a dispatch and the header of its message lie a trip and the error of a clock."""

_RESENDS_PER_SCAN = 100

_NOT_READ = -1


class Queues(Protocol):
    """What the reconciler asks about queues."""

    def begin_scan(self) -> None:
        """A new look begins."""
        ...

    def is_lost(self, overdue: Overdue) -> bool:
        """Tell whether an overdue task's message is gone."""
        ...

    def lag_ms(self, overdue: Overdue) -> int | None:
        """Return by how much the queue's head is older than a task that is not lost; None if that is unknown."""
        ...


class UnseenQueues:
    """Takes every overdue task's message for gone."""

    def begin_scan(self) -> None:
        """Nothing is remembered."""

    def is_lost(self, overdue: Overdue) -> bool:
        """Yes."""
        del overdue
        return True

    def lag_ms(self, overdue: Overdue) -> int | None:
        """Unknown."""
        del overdue
        return None


class QueueView:
    """Looks at the consuming end of queues, each once a scan.

    On a broker that is not Redis nothing can be seen: there every overdue task counts as lost, and the growing grace
    alone bounds how often it is sent again.

    Args:
        app: A Celery app on the broker.
        settings: Name the default queue.
    """

    def __init__(self, app: Celery, settings: Settings) -> None:
        self._app = app
        self._default_queue = settings.default_queue
        self._channel: Any = None
        self._oldest_ms: dict[tuple[str, int], int | None] = {}
        self._resends = 0

    def begin_scan(self) -> None:
        """Forget what the queues looked like."""
        self._oldest_ms.clear()
        self._resends = 0

    def is_lost(self, overdue: Overdue) -> bool:
        """Tell whether a task should be sent again: its queue is empty, or serves messages that were sent after it.

        A backlog answers no, however long it is. At most a hundred yeses a scan; the rest waits for the next.
        """
        if self._resends >= _RESENDS_PER_SCAN or not self._looks_lost(overdue):
            return False
        self._resends += 1
        return True

    def lag_ms(self, overdue: Overdue) -> int | None:
        """Return by how much the queue's head must move on before the task counts as lost; None if no head is seen."""
        oldest_ms = self._oldest_ms_of(overdue)
        if oldest_ms is None or oldest_ms == _NOT_READ:
            return None
        return max(0, overdue.dispatched_ms + _SLACK_MS - oldest_ms)

    def _looks_lost(self, overdue: Overdue) -> bool:
        oldest_ms = self._oldest_ms_of(overdue)
        return oldest_ms is None or oldest_ms > overdue.dispatched_ms + _SLACK_MS

    def _oldest_ms_of(self, overdue: Overdue) -> int | None:
        dispatch = overdue.dispatch
        key = (dispatch.queue or self._default_queue, redis_queue_priority(dispatch.priority))
        if key not in self._oldest_ms:
            self._oldest_ms[key] = self._read(*key)
        return self._oldest_ms[key]

    def _read(self, queue: str, priority: int) -> int | None:
        """When the oldest message was dispatched; None when there is none."""
        try:
            return self._oldest(self._redis_channel(), queue, priority)
        except (redis.RedisError, KombuError, OSError) as error:
            _logger.warning("queue %r cannot be read: %s", queue, error)
            self._channel = None
            return _NOT_READ

    def _redis_channel(self) -> Any:
        if self._channel is None:
            self._channel = self._app.connection_for_read().channel()
        return self._channel

    def _oldest(self, channel: Any, queue: str, priority: int) -> int | None:
        if channel.connection.driver_type != "redis":
            return None
        # kombu puts at the left and takes at the right, in a list for each step of priority. Its own client prefixes
        # the keys of those commands only that it uses itself.
        key = f"{channel.global_keyprefix}{channel._q_for_pri(queue, priority)}"
        messages: list[Any] = redis.Redis(connection_pool=channel.pool).lrange(key, -_OLDEST, -1)
        return next(filter(None, map(_dispatched_ms, reversed(messages))), None)


def _dispatched_ms(message: Any) -> int | None:
    try:
        headers = orjson.loads(message)["headers"]
        return int(headers[DISPATCHED_HEADER])
    except (ValueError, KeyError, TypeError):
        return None

"""Sends dispatched tasks on their way."""

import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from celery import Celery

from tenxgraph.core.state.image import StateImage
from tenxgraph.engine.log import log_fields
from tenxgraph.engine.state_cache import StateCache
from tenxgraph.settings import Settings
from tenxgraph.store.base import Dispatch, QueueMessage
from tenxgraph_scheduler.broker import DISPATCHED_HEADER
from tenxgraph_scheduler.message import image_bytes, message_of
from tenxgraph_scheduler.outbox import Outbox, is_watched
from tenxgraph_scheduler.publisher import Publisher

_logger = logging.getLogger(__name__)


class CeleryDispatcher:
    """Publishes through a Celery app; may be called from any thread and after a fork.

    Args:
        make_app: Makes the producing app, once in each process.
        settings: Default queue and the limit of inline state.
        now_ms: The store's clock.
        cache: Where the states are that may travel inline; None sends all by reference.
        store_url: Of a store that takes prepared messages; None for one that takes none.
    """

    def __init__(
        self,
        make_app: Callable[[], Celery],
        settings: Settings,
        *,
        now_ms: Callable[[], int],
        cache: StateCache | None = None,
        store_url: str | None = None,
    ) -> None:
        self._make_app = make_app
        self._settings = settings
        self._now_ms = now_ms
        self._cache = cache
        self._store_url = store_url
        self._lock = threading.Lock()
        self._publishers: dict[int, Publisher] = {}
        self._outboxes: dict[int, Outbox | None] = {}

    def __call__(self, dispatches: Sequence[Dispatch]) -> None:
        """Send the tasks' messages. One that cannot be sent is left to the reconciler: a message is a hint."""
        if not dispatches:
            return
        try:
            self._publish(dispatches)
        except Exception:
            _logger.exception(
                "%d messages did not reach the broker; the scheduler sends them again",
                len(dispatches),
                extra=log_fields(dispatches[0].ref),
            )

    def prepare(self, dispatches: Sequence[Dispatch], image: StateImage | None) -> tuple[QueueMessage, ...]:
        """See :class:`Prepare`. Where a message cannot be made ahead, it is sent in the end."""
        try:
            outbox = None if is_watched() else self._outbox()
            if outbox is None:
                return ()
            now_ms, tasks = self._now_ms(), len(dispatches)
            return tuple(
                outbox.message(
                    item, self._kwargs(item, image, tasks), item.queue or self._settings.default_queue, now_ms
                )
                for item in dispatches
            )
        except Exception:
            _logger.exception("messages cannot be made ahead, they are sent", extra=log_fields(dispatches[0].ref))
            return ()

    def close(self) -> None:
        """Close this process's connections to the broker."""
        publisher = self._publishers.pop(os.getpid(), None)
        if publisher is not None:
            publisher.close()

    def _publisher(self) -> Publisher:
        pid = os.getpid()
        with self._lock:
            if pid not in self._publishers:
                self._publishers = {pid: Publisher(self._make_app())}
            return self._publishers[pid]

    def _outbox(self) -> Outbox | None:
        pid = os.getpid()
        if pid not in self._outboxes:
            self._outboxes = {pid: self._publisher().outbox(self._store_url)}
        return self._outboxes[pid]

    def _publish(self, dispatches: Sequence[Dispatch]) -> None:
        publisher = self._publisher()
        headers = {DISPATCHED_HEADER: self._now_ms()}
        with publisher.batch(len(dispatches)) as producer:
            for item in dispatches:
                image = self._cache.get(item.ref.thread_id) if self._cache is not None else None
                queue = item.queue or self._settings.default_queue
                publisher.send(producer, item, self._kwargs(item, image, len(dispatches)), queue, headers)

    def _kwargs(self, item: Dispatch, image: StateImage | None, tasks: int) -> dict[str, Any]:
        limit_bytes = self._settings.inline_state_bytes // tasks
        travels = image is not None and image.version == item.version and image_bytes(image, limit_bytes) <= limit_bytes
        return message_of(item, image if travels else None).to_kwargs()

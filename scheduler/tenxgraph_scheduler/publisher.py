"""Puts messages on the broker through a Celery app, with connections of our own."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from celery import Celery
from kombu import Exchange, Queue
from kombu.pools import ProducerPool

from tenxgraph.sentinel_url import names_sentinels
from tenxgraph.store.base import Dispatch
from tenxgraph_scheduler.broker import TASK_NAME
from tenxgraph_scheduler.message import TOP_PRIORITY, shown_kwargs, shown_name, task_id
from tenxgraph_scheduler.outbox import Outbox, can_prepare

_PRODUCERS = 10
_RETRY = {"max_retries": 3, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.5}


def redis_queue_priority(priority: int) -> int:
    """Return kombu's number for one of ours: on Redis it serves 0 first, we serve 9 first."""
    return TOP_PRIORITY - min(priority, TOP_PRIORITY)


class Publisher:
    """One process's producers. They are not kombu's global ones, which a user's app in this process shares.

    Args:
        app: Makes the messages, and names the broker.
    """

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._connections: Any = app.connection_for_write().Pool(limit=_PRODUCERS)
        self._producers: Any = ProducerPool(self._connections, limit=_PRODUCERS, Producer=app.amqp.Producer)

    def outbox(self, store_url: str | None) -> Outbox | None:
        """Return what makes messages for the store at a URL, if it is this broker too."""
        if store_url is None or names_sentinels(store_url) or not can_prepare(self._app):
            return None
        outbox = Outbox(self._app, self.send, self.kin)
        return outbox if outbox.is_on(store_url) else None

    @contextmanager
    def batch(self, messages: int) -> Iterator[Any]:
        """Yield a producer; what is sent through it inside the context goes in one trip where kombu can do that."""
        with self._producers.acquire(block=True) as producer:
            # kombu < 5.7 has no batches. A failed batch is not repeated, a single message is.
            whole = getattr(producer, "batch", nullcontext) if messages > 1 else nullcontext
            with whole():
                yield producer

    def send(
        self, producer: Any, item: Dispatch, kwargs: dict[str, Any], queue: str, headers: Mapping[str, Any]
    ) -> None:
        """Send one task's message.

        Args:
            producer: From :meth:`batch`.
            item: The dispatch.
            kwargs: Arguments of the queue's task.
            queue: Where it goes.
            headers: Further ones.
        """
        on_redis = producer.connection.transport.driver_type == "redis"
        self._app.amqp.send_task_message(
            producer,
            TASK_NAME,
            self._message(item, kwargs),
            # Of our own making and not declared: an app that we joined may not know this queue, nor may make new ones.
            queue=Queue(queue, Exchange(queue), routing_key=queue),
            declare=[],
            serializer="json",
            priority=redis_queue_priority(item.priority) if on_redis else item.priority,
            headers=dict(headers),
            retry=True,
            retry_policy=_RETRY,
        )

    def _message(self, item: Dispatch, kwargs: dict[str, Any]) -> Any:
        root, parent = self.kin()
        return self._app.amqp.as_task_v2(
            task_id(item),
            TASK_NAME,
            kwargs=kwargs,
            kwargsrepr=shown_kwargs(item),
            argsrepr="()",
            shadow=shown_name(item),
            root_id=root,
            parent_id=parent,
            ignore_result=True,
        )

    def kin(self) -> tuple[str | None, str | None]:
        """Return the ids of the first task of the chain that this process's task belongs to, and of that task."""
        task = self._app.current_worker_task
        return (task.request.root_id, task.request.id) if task else (None, None)

    def close(self) -> None:
        """Close the connections."""
        self._producers.force_close_all()
        self._connections.force_close_all()

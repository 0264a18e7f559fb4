"""The messages that a worker should take next."""

import hashlib
import logging
from typing import Any

import redis
from celery import Celery
from kombu.exceptions import KombuError

_logger = logging.getLogger(__name__)


class QueueHeads:
    """Reads the consuming ends of the queues that an app's worker consumes, over a connection of its own.

    Args:
        app: The worker's.
    """

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._channel: Any = None

    def __call__(self) -> dict[str, bytes] | None:
        """Return a digest of each queue's next message; None when the broker is away, or no Redis."""
        try:
            return self._read()
        except (redis.RedisError, KombuError, OSError) as error:
            _logger.debug("the queues cannot be read: %s", error)
            self._channel = None
            return None

    def _read(self) -> dict[str, bytes] | None:
        if self._channel is None:
            self._channel = self._app.connection_for_read().channel()
        channel = self._channel
        if channel.connection.driver_type != "redis":
            return None
        # kombu takes at the right, from a list for each step of priority.
        queues: Any = self._app.amqp.queues
        names = [channel._q_for_pri(name, step) for name in queues.consume_from for step in channel.priority_steps]
        with redis.Redis(connection_pool=channel.pool).pipeline(transaction=False) as pipe:
            for name in names:
                pipe.lindex(f"{channel.global_keyprefix}{name}", -1)
            found: list[Any] = pipe.execute()
        return {_shown(name): hashlib.sha256(head).digest() for name, head in zip(names, found, strict=True) if head}


def _shown(name: str) -> str:
    return str(name).replace("\x06\x16", ":")

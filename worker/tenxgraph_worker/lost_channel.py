"""Lets a worker go on whose connection to its Redis broker was lost while messages were unacknowledged."""

from typing import Any

from kombu.transport import redis
from redis.exceptions import ConnectionError  # noqa: A004 - redis-py's own name


class LostChannel(redis.Channel):
    """A channel whose connection is lost says just that.

    kombu puts messages back, or acknowledges them, also through a connection that it has given up. That fails with an
    AttributeError, for which Celery ends the worker; from a lost connection it goes on.
    """

    def _connparams(self, asynchronous: bool = False) -> Any:
        if self.connection is None or self.connection.client is None:
            raise ConnectionError("the connection to the broker is closed")
        return super()._connparams(asynchronous)  # type: ignore[misc]  # private: not in the stubs


def outlive_lost_channels() -> None:
    """Let all Redis brokers of this process do so from now on; a channel that is not kombu's own stays as it is."""
    if redis.Transport.Channel is redis.Channel:
        redis.Transport.Channel = LostChannel

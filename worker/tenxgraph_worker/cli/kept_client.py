"""Makes kombu keep its Redis clients, in a process whose Celery is ours alone."""

from typing import Any

from kombu.transport import redis

from tenxgraph_worker.lost_channel import LostChannel


class KeepingChannel(LostChannel):
    """A channel that makes one client for each connection pool.

    kombu's own makes one for each operation: a tenth of what a worker spends on a step that only waits. A client holds
    nothing but the pool, so that threads and pipelines can share it.
    """

    _kept: Any = None

    def _create_client(self, asynchronous: bool = False) -> Any:
        if asynchronous:
            return super()._create_client(asynchronous)  # type: ignore[misc]  # private: not in the stubs
        # After a lost connection kombu goes on with another pool.
        if self._kept is None or self._kept.connection_pool is not self.pool:
            self._kept = super()._create_client()  # type: ignore[misc]  # private: not in the stubs
        return self._kept


def keep_clients() -> None:
    """Let all Redis brokers of this process do so from now on."""
    redis.Transport.Channel = KeepingChannel

"""Redis clients for every kind of URL; behind sentinels they ask for the primary whenever they connect."""

from typing import Any

import redis
import redis.asyncio
import redis.asyncio.retry
import redis.asyncio.sentinel
import redis.sentinel
from redis.backoff import NoBackoff
from redis.retry import Retry

from tenxgraph.sentinel_url import SentinelUrl, names_sentinels, parse_sentinel_url


class _Primary(redis.Redis):
    """A client that closes its connections to the sentinels with its own."""

    def close(self) -> None:
        super().close()
        manager = getattr(self.connection_pool, "sentinel_manager", None)
        for sentinel in manager.sentinels if manager else ():
            sentinel.close()


class _AsyncPrimary(redis.asyncio.Redis):
    """The same on an event loop."""

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        await super().aclose(close_connection_pool)
        manager = getattr(self.connection_pool, "sentinel_manager", None)
        for sentinel in manager.sentinels if manager else ():
            await sentinel.aclose()


def redis_client(url: str, **options: Any) -> redis.Redis:
    """Return a client for a URL: ``redis://``, ``rediss://``, ``unix://`` or ``sentinel://``.

    Args:
        url: Where the server is, or who knows it.
        options: What ``redis.Redis`` takes. A sentinel gets the ``socket_*`` ones of them.

    Raises:
        InvalidInputError: ``SENTINEL_URL``.
    """
    if not names_sentinels(url):
        return redis.Redis.from_url(url, **options)
    named = parse_sentinel_url(url)
    make: Any = redis.sentinel.Sentinel  # untyped
    manager = make(named.hosts, sentinel_kwargs=_for_sentinel(named, options, Retry(NoBackoff(), 0)))
    made: redis.Redis = manager.master_for(named.service, _Primary, **_for_primary(named, options))
    return made


def async_redis_client(url: str, **options: Any) -> redis.asyncio.Redis:
    """Return the same for an event loop."""
    if not names_sentinels(url):
        return redis.asyncio.Redis.from_url(url, **options)
    named = parse_sentinel_url(url)
    make: Any = redis.asyncio.sentinel.Sentinel  # untyped
    once = redis.asyncio.retry.Retry(NoBackoff(), 0)
    manager = make(named.hosts, sentinel_kwargs=_for_sentinel(named, options, once))
    made: redis.asyncio.Redis = manager.master_for(named.service, _AsyncPrimary, **_for_primary(named, options))
    return made


def _for_primary(named: SentinelUrl, options: dict[str, Any]) -> dict[str, Any]:
    return {**options, "db": named.database, "username": named.username, "password": named.password}


def _for_sentinel(named: SentinelUrl, options: dict[str, Any], retry: object) -> dict[str, Any]:
    # One that is away is not asked again: the next one is.
    timeouts = {name: value for name, value in options.items() if name.startswith("socket_")}
    return {**timeouts, "protocol": 2, "retry": retry, **named.sentinel_login}

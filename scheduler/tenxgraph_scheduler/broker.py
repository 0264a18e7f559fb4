"""Celery as a producer: the broker's URL and settings, and the one task that all nodes of all graphs travel as."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from celery import Celery
from redis.backoff import NoBackoff
from redis.retry import Retry

from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.sentinel_url import SentinelUrl, names_sentinels, parse_sentinel_url
from tenxgraph.settings import Settings

TASK_NAME: Final = "tenxgraph.step"
DISPATCHED_HEADER: Final = "tg-dispatched"

_MAX_CONNECTIONS = 10_000
"""kombu's 10 fail the acknowledgements of a pool of 100 threads."""

_CONNECT_TIMEOUT_S = 5


def store_url(settings: Settings, redis_url: str | None = None) -> str:
    """Return the store's URL: the one that is passed, else the configured one.

    Raises:
        InvalidInputError: ``NO_REDIS``; nothing names a Redis.
    """
    url = redis_url or settings.redis_url
    if url is None:
        raise InvalidInputError(
            "No Redis is named: set TENXGRAPH_REDIS_URL, such as redis://localhost:6379/0, or pass redis_url.",
            error_code="NO_REDIS",
        )
    return url


def broker_url(settings: Settings, redis_url: str | None = None) -> str:
    """Return the broker's URL, for `make_celery`: the configured one, else the store's.

    It is in kombu's spelling, but for one of sentinels: their service is no part of kombu's URLs.

    Raises:
        InvalidInputError: ``NO_REDIS``; nothing names a Redis.
    """
    return _for_kombu(settings.broker_url or store_url(settings, redis_url))


def _for_kombu(url: str) -> str:
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    if parts.scheme == "unix":
        database = query.pop("db", "0")
        return f"redis+socket://{parts.path}?{urlencode({**query, 'virtual_host': database})}"
    if parts.scheme == "rediss" and "ssl_cert_reqs" not in query:
        # Without it kombu would take any certificate; redis-py, and so the store, would not.
        return urlunsplit(parts._replace(query=urlencode({**query, "ssl_cert_reqs": "required"})))
    return url


def celery_settings(settings: Settings, sentinels: SentinelUrl | None = None) -> dict[str, Any]:
    """Return the settings of an app that is ours alone; an app that we join keeps its own."""
    of_sentinels = {} if sentinels is None else _sentinel_options(sentinels)
    return {
        "task_default_queue": settings.default_queue,
        "task_ignore_result": True,
        "task_serializer": "json",
        "accept_content": ["json"],
        "task_send_sent_event": False,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_transport_options": {
            "visibility_timeout": 6 * 3600,
            "unacked_restore_interval": 10,
            "unacked_restore_throttle": 1,
            # Without a timeout a publish into a half-open connection hangs for ever.
            "socket_timeout": 30,
            "socket_connect_timeout": _CONNECT_TIMEOUT_S,
            "socket_keepalive": True,
            "health_check_interval": 10,
            "max_connections": _MAX_CONNECTIONS,
            **of_sentinels,
        },
        "worker_prefetch_multiplier": 1,
        # A blip must not kill work: the duplicates that follow it are refused at the claim.
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
    }


def _sentinel_options(sentinels: SentinelUrl) -> dict[str, Any]:
    of_a_sentinel = {
        "socket_timeout": _CONNECT_TIMEOUT_S,
        "socket_connect_timeout": _CONNECT_TIMEOUT_S,
        # One that is away is not asked again: the next one is.
        "retry": Retry(NoBackoff(), 0),
        **sentinels.sentinel_login,
    }
    return {"master_name": sentinels.service, "sentinel_kwargs": of_a_sentinel}


def make_celery(settings: Settings, url: str) -> Celery:
    """Return a Celery app of our own on a broker, see `broker_url`. It connects when it is first used."""
    sentinels = parse_sentinel_url(url) if names_sentinels(url) else None
    broker = ";".join(sentinels.urls()) if sentinels else url
    app = Celery("tenxgraph", broker=broker, set_as_current=False, backend=None)
    app.conf.update(celery_settings(settings, sentinels))
    return app

"""Whether a server will do as a store: there, new enough, and keeping what it is given."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    RedisError,
    ResponseError,
)
from redis.retry import Retry

from tenxgraph.core.exceptions import StorageError
from tenxgraph.sentinel_url import names_sentinels
from tenxgraph.store.sentinel import redis_client

_SENTINEL_PASSWORD: Final = re.compile(r"(\bsentinel_password=)[^&]*")
_OLDEST: Final = {"Redis": 7, "Valkey": 8}
_TIMEOUT_S = 5.0
_LOADING_S = 60.0
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a server says of itself.

    Attributes:
        flavour: Redis or Valkey; "" where it may not say.
        warnings: Sentences about settings that can lose data.
    """

    flavour: str
    version: str
    warnings: tuple[str, ...] = ()


def shown(url: str) -> str:
    """Return a URL as it may be printed: without a password."""
    parts = urlsplit(url)
    if names_sentinels(url):
        parts = parts._replace(query=_SENTINEL_PASSWORD.sub(r"\1***", parts.query))
    if parts.password is None:
        return parts.geturl()
    return parts._replace(netloc=f"{parts.username or ''}:***@{parts.netloc.rpartition('@')[2]}").geturl()


def check_server(url: str) -> ServerFacts:
    """Connect, and look at version and persistence. Nothing is written.

    Raises:
        StorageError: ``NO_SERVER``, ``SERVER_PASSWORD``, ``SERVER_TOO_OLD``; each says what to do next.
    """
    options: dict[str, Any] = {"socket_connect_timeout": _TIMEOUT_S, "socket_timeout": _TIMEOUT_S, "protocol": 2}
    with redis_client(url, retry=Retry(NoBackoff(), 0), **options) as client:
        try:
            _wait_until_loaded(client, url)
            facts = _info(client)
        except AuthenticationError as error:
            raise _asks_for_password(url) from error
        except ResponseError as error:
            raise (_asks_for_password(url) if "NOAUTH" in str(error) else _not_there(url, error)) from error
        except RedisError as error:
            raise _not_there(url, error) from error
    return _judge(url, facts)


def _wait_until_loaded(client: "redis.Redis", url: str) -> None:
    deadline = time.monotonic() + _LOADING_S
    while True:
        try:
            client.ping()
            return
        except BusyLoadingError as error:
            if time.monotonic() > deadline:
                raise StorageError(f"The Redis at {shown(url)} is still loading its data; try again later.") from error
            time.sleep(_POLL_S)
        except NoPermissionError:
            return


def _info(client: "redis.Redis") -> Mapping[str, Any]:
    try:
        return dict(client.info())
    except NoPermissionError:
        return {}


def _not_there(url: str, error: Exception) -> StorageError:
    return StorageError(
        f"No Redis answers at {shown(url)} ({str(error).rstrip('.')}): start it, or point TENXGRAPH_REDIS_URL "
        "to one that runs; 'tenxgraph dev' brings its own.",
        error_code="NO_SERVER",
        context={"url": shown(url)},
    )


def _asks_for_password(url: str) -> StorageError:
    given = urlsplit(url).password
    wrong = "asks for a password" if given is None else "refuses the password"
    return StorageError(
        f"The Redis at {shown(url)} {wrong}: write the right one into TENXGRAPH_REDIS_URL, "
        "redis://:PASSWORD@HOST:PORT/0.",
        error_code="SERVER_PASSWORD",
        context={"url": shown(url)},
    )


def _judge(url: str, info: Mapping[str, Any]) -> ServerFacts:
    if not info:
        unseen = "the server does not show INFO to this user: version and persistence unchecked."
        return ServerFacts("", "", (unseen,))
    flavour = "Valkey" if "valkey_version" in info else "Redis"
    version = str(info.get(f"{flavour.lower()}_version", "0"))
    oldest = _OLDEST[flavour]
    if int(version.partition(".")[0]) < oldest:
        raise StorageError(
            f"The server at {shown(url)} is {flavour} {version}, which is too old: use Redis 7 or Valkey 8 or newer; "
            "'tenxgraph dev' brings its own.",
            error_code="SERVER_TOO_OLD",
            context={"url": shown(url), "version": version},
        )
    return ServerFacts(flavour, version, tuple(_warnings(info)))


def _warnings(info: Mapping[str, Any]) -> list[str]:
    found = []
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        found.append(f"maxmemory-policy is {policy}: the server may drop threads when memory is short; set noeviction.")
    if not info.get("aof_enabled"):
        found.append("the append-only file is off: a restart loses what was written since; set appendonly yes.")
    return found

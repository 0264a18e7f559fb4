"""Which store a command works on, and the look at it before anything is written."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tenxgraph.core.exceptions import StorageError
from tenxgraph.settings import ENV_PREFIX, Settings

if TYPE_CHECKING:
    from tenxgraph.store.redis import RedisStore

REDIS_URL = f"{ENV_PREFIX}REDIS_URL"


def load_settings(redis_url: str | None = None) -> Settings:
    """Read the settings; the store is the one given, else the configured, else the folder's own if it runs.

    Raises:
        InvalidInputError: A setting is wrong.
        StorageError: ``NO_STORE``: there is none.
    """
    settings = Settings.load() if redis_url is None else Settings.load(redis_url=redis_url)
    return settings if settings.redis_url else Settings.load(redis_url=_url_of_folder())


def _url_of_folder() -> str:
    from tenxgraph_worker.embedded.server import running_server

    server = running_server(Path.cwd())
    if server is None:
        raise StorageError(
            f"No store is configured: run 'tenxgraph dev MODULE:ATTR' in this folder, or set {REDIS_URL}.",
            error_code="NO_STORE",
        )
    return server.url


def check_store(settings: Settings) -> None:
    """Refuse a server that will not do, and warn of one that may lose data.

    Raises:
        StorageError: See `check_server`.
    """
    from tenxgraph_worker.embedded.check import check_server

    assert settings.redis_url is not None
    for warning in check_server(settings.redis_url).warnings:
        print(f"tenxgraph: warning: {warning}", file=sys.stderr)


def hand_on(settings: Settings) -> None:
    """Let graphs that are compiled without a store, and child processes, use this one."""
    assert settings.redis_url is not None
    os.environ[REDIS_URL] = settings.redis_url


def forget_store() -> None:
    """Let graphs that are compiled without a store run in this process."""
    os.environ.pop(REDIS_URL, None)


def open_store(redis_url: str | None) -> "RedisStore":
    """Return the store, checked.

    Raises:
        StorageError: There is none, or it will not do.
    """
    from tenxgraph.store.redis import redis_store

    settings = load_settings(redis_url)
    check_store(settings)
    assert settings.redis_url is not None
    return redis_store(settings.redis_url, settings)

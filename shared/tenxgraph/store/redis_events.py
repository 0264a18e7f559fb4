"""Following a run's events: blocking, or on an event loop without holding a thread."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from threading import Lock
from typing import Any

from redis.asyncio import Redis as AsyncRedis

from tenxgraph.store.base import StoredEvents
from tenxgraph.store.redis_replies import events
from tenxgraph.store.redis_scripts import Command, Scripts, storage_errors

_BATCH = 1000
_BLOCK_S = 2.0
"""Longest wait in one command; shorter than any sane socket timeout."""

_CLOSE_S = 5.0

_Lifetime = AsyncGenerator[AsyncRedis, None]


def _read(key: str, after: str, wait_s: float) -> Command:
    block_ms = max(1, int(min(wait_s, _BLOCK_S) * 1000))  # 0 would wait for ever
    wait = ("BLOCK", block_ms) if wait_s > 0 else ()
    return ("XREAD", "COUNT", _BATCH, *wait, "STREAMS", key, after or "0-0")


def _parsed(reply: Any) -> list[StoredEvents]:
    if not reply:
        return []
    if isinstance(reply, Mapping):  # RESP3
        return events(next(iter(reply.values()))[0])
    return events(reply[0][1])


def follow(scripts: Scripts, key: str, after: str, timeout_s: float) -> list[StoredEvents]:
    """Return up to 1,000 events after an id; wait for the first."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        wait_s = deadline_s - time.monotonic()
        found = _parsed(scripts.run(_read(key, after, wait_s))[0])
        if found or wait_s <= 0:
            return found


class AsyncFollower:
    """Follows on event loops, with one client a loop: made when first needed, closed with its loop or by ``close``."""

    def __init__(self, make_client: Callable[[], AsyncRedis], place: str) -> None:
        self._make_client = make_client
        self._place = place
        self._lock = Lock()
        self._held: dict[asyncio.AbstractEventLoop, tuple[AsyncRedis, _Lifetime]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def follow(self, key: str, after: str, timeout_s: float) -> list[StoredEvents]:
        """Return up to 1,000 events after an id; wait for the first."""
        deadline_s = time.monotonic() + timeout_s
        execute: Callable[..., Awaitable[Any]] = (await self._client()).execute_command
        while True:
            wait_s = deadline_s - time.monotonic()
            with storage_errors(self._place):
                found = _parsed(await execute(*_read(key, after, wait_s)))
            if found or wait_s <= 0:
                return found

    async def _client(self) -> AsyncRedis:
        loop = asyncio.get_running_loop()
        held = self._held.get(loop)
        if held is None:
            lifetime = self._lifetime()
            held = (await anext(lifetime), lifetime)
            with self._lock:
                self._held = {other: of for other, of in self._held.items() if not other.is_closed()} | {loop: held}
        return held[0]

    async def _lifetime(self) -> _Lifetime:
        """Hold a client for the running loop. Loops close their generators before they end: that closes it in time."""
        client = self._make_client()
        try:
            yield client
        finally:
            with self._lock:
                self._held.pop(asyncio.get_running_loop(), None)
            await client.aclose()

    def close(self) -> None:
        """Close the clients of all loops; on a loop's own thread, soon."""
        for loop, (_, lifetime) in list(self._held.items()):
            if not loop.is_closed():
                self._close(loop, lifetime)

    def _close(self, loop: asyncio.AbstractEventLoop, lifetime: _Lifetime) -> None:
        if not loop.is_running():
            loop.run_until_complete(lifetime.aclose())
        elif loop is _running_loop():
            task = loop.create_task(_end(lifetime))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        else:
            asyncio.run_coroutine_threadsafe(_end(lifetime), loop).result(_CLOSE_S)


async def _end(lifetime: _Lifetime) -> None:
    await lifetime.aclose()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None

"""The connections on which models are asked. Imported when a model is called: it needs the ``openai`` extra."""

from __future__ import annotations

import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache, partial
from typing import Final
from urllib.request import getproxies

import httpx2
from pydantic_ai.models import create_async_httpx2_client

_IDLE_S: Final = 5.0
_ONE: Final = httpx2.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=_IDLE_S)
_PROXIED: Final = frozenset({"http", "https", "all"})


def connected_client() -> httpx2.AsyncClient:
    """Return a client with the timeouts and headers of pydantic-ai's own; close it on the loop that uses it."""
    proxied = not _PROXIED.isdisjoint(getproxies())
    return create_async_httpx2_client(transport=None if proxied else Lines())  # with one, no proxy is looked for


class Lines(httpx2.AsyncBaseTransport):
    """Connections of which each is a pool of its own, and the idle ones a stack.

    The pool of httpx2 looks at all its connections whenever a request begins or ends: with 200 at once that is most of
    what a request costs.
    """

    def __init__(self) -> None:
        self._idle: deque[tuple[float, httpx2.AsyncHTTPTransport]] = deque()
        self._closed = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request on the connection that was used last, or on a new one."""
        line = self._idle.pop()[1] if self._idle else httpx2.AsyncHTTPTransport(verify=_trusted(), limits=_ONE)
        try:
            response = await line.handle_async_request(request)
        except BaseException:
            await self._give_back(line)
            raise
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Answer(response.stream, partial(self._give_back, line))
        return response

    async def _give_back(self, line: httpx2.AsyncHTTPTransport) -> None:
        now_s = time.monotonic()
        self._idle.append((now_s, line))
        while self._idle and (self._closed or self._idle[0][0] < now_s - _IDLE_S):
            await self._idle.popleft()[1].aclose()

    async def aclose(self) -> None:
        """Close what is idle now, and the others as they become so."""
        self._closed = True
        while self._idle:
            await self._idle.popleft()[1].aclose()


class _Answer(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, give_back: Callable[[], Awaitable[None]]) -> None:
        self._stream = stream
        self._give_back: Callable[[], Awaitable[None]] | None = give_back

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            yield piece

    async def aclose(self) -> None:
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            try:
                await self._stream.aclose()
            finally:
                await give_back()


@cache
def _trusted() -> ssl.SSLContext:
    return httpx2.create_ssl_context()  # reads some hundred certificates: once is enough

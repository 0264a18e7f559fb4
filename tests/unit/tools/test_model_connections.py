"""An agent's connections: kept between calls, no more than are in use, and closed when their time is over."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from tenxgraph.core.graph import Agent
from tenxgraph.core.state import AgentState, Message
from tests.unit.tools.openai_server import completion

ASK = AgentState(context=[Message.text_message("Weather in Oslo?")])
LOOKS = 500


class Server:
    """Answers each request after a moment; counts connections."""

    def __init__(self) -> None:
        self.url, self.made, self.open = "", 0, 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.made, self.open = self.made + 1, self.open + 1
        data = json.dumps(completion("It rains.")).encode()
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    head = (await reader.readuntil(b"\r\n\r\n")).lower()
                    await reader.readexactly(int(head.partition(b"content-length:")[2].partition(b"\r\n")[0]))
                    await asyncio.sleep(0.05)
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
                    writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        finally:
            self.open -= 1
            writer.close()

    async def until_open(self, connections: int) -> None:
        for _ in range(LOOKS):
            if self.open == connections:
                break
            await asyncio.sleep(0.01)
        assert self.open == connections


@asynccontextmanager
async def counting_server() -> AsyncIterator[Server]:
    """Run the server on the loop that runs here."""
    found = Server()
    server = await asyncio.start_server(found.answer, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield found
    finally:
        server.close()


def on_loop(test: Callable[[Server], Awaitable[None]]) -> None:
    """Run a test; no connection is left once its agents are gone."""

    async def run() -> None:
        async with counting_server() as server:
            await test(server)
            gc.collect()
            await server.until_open(0)

    asyncio.run(run())


async def ask(agent: Agent, times: int) -> None:
    for [answer] in await asyncio.gather(*(agent(ASK) for _ in range(times))):
        assert answer.text() == "It rains."


def test_connections_are_used_again() -> None:
    async def test(server: Server) -> None:
        agent = Agent("m", base_url=server.url)
        for times in (20, 20, 1, 5):
            await ask(agent, times)
        assert server.made == server.open == 20

    on_loop(test)


def test_a_connection_that_was_idle_for_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(server: Server) -> None:
        agent = Agent("m", base_url=server.url)
        await ask(agent, 5)
        monkeypatch.setattr("tenxgraph.core.graph.model_connections._IDLE_S", 0.0)
        await ask(agent, 1)
        await server.until_open(1)

    on_loop(test)


def test_a_given_up_call_leaves_its_place_to_the_next() -> None:
    async def test(server: Server) -> None:
        agent = Agent("m", base_url=server.url)
        await ask(agent, 1)
        given_up = asyncio.create_task(ask(agent, 3))
        await asyncio.sleep(0.02)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        await server.until_open(0)
        await ask(agent, 3)
        await server.until_open(3)

    on_loop(test)


def test_the_connections_of_a_loop_end_with_it() -> None:
    async def test(server: Server) -> None:
        agent = Agent("m", base_url=server.url)
        for _ in range(2):
            await asyncio.to_thread(asyncio.run, ask(agent, 3))
            await server.until_open(0)
        assert server.made == 6

    on_loop(test)


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(server: Server) -> None:
        monkeypatch.setenv("http_proxy", server.url.removesuffix("/v1"))
        monkeypatch.delenv("no_proxy", raising=False)
        await ask(Agent("m", base_url="http://nowhere.invalid/v1"), 1)
        assert server.made == 1

    on_loop(test)

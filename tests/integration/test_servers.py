"""The servers that other tests stand on."""

from pathlib import Path

import pytest

from tests.servers import EmbeddedValkey, RedisServer, client_of, restart_after_kill, running

MAKERS = [pytest.param(RedisServer, marks=pytest.mark.redis_server), EmbeddedValkey]


@pytest.mark.parametrize("make", MAKERS)
def test_a_killed_server_comes_back_with_its_data(make: type[RedisServer | EmbeddedValkey], tmp_path: Path) -> None:
    with running(make(tmp_path)) as server:
        with client_of(server.port) as client:
            client.set("key", "value")
        restart_after_kill(server)
        with client_of(server.port) as client:
            assert client.get("key") == b"value"


@pytest.mark.parametrize("make", MAKERS)
def test_a_stopped_server_comes_back_with_its_data(make: type[RedisServer | EmbeddedValkey], tmp_path: Path) -> None:
    with running(make(tmp_path)) as server:
        with client_of(server.port) as client:
            client.set("key", "value")
        server.stop()
        server.start()
        with client_of(server.port) as client:
            assert client.get("key") == b"value"

"""kombu's Redis clients, kept."""

from collections.abc import Iterator
from typing import Any

import pytest
from kombu import Connection
from kombu.transport import redis
from redis.exceptions import ConnectionError  # noqa: A004 - redis-py's own name

from tenxgraph_worker.cli.kept_client import KeepingChannel, keep_clients
from tests.servers import Server, valkey_server

__all__ = ["valkey_server"]


@pytest.fixture
def channel(valkey_server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(redis.Transport, "Channel", redis.Transport.Channel)
    keep_clients()
    with Connection(f"redis://127.0.0.1:{valkey_server.port}/3") as connection:
        yield connection.channel()


def client_of(channel: Any) -> Any:
    with channel.conn_or_acquire() as client:
        return client


def test_a_channel_works_through_one_client(channel: Any) -> None:
    first = client_of(channel)

    assert isinstance(channel, KeepingChannel)
    assert first.ping()
    assert client_of(channel) is first


def test_the_client_goes_with_its_pool(channel: Any) -> None:
    first = client_of(channel)
    channel._pool = channel._get_pool()

    assert client_of(channel) is not first
    assert client_of(channel).connection_pool is channel.pool
    first.connection_pool.disconnect()


def test_the_client_that_waits_for_messages_stays_one_of_its_own(channel: Any) -> None:
    assert channel.client is not client_of(channel)
    assert channel.client.connection_pool is not channel.pool


def test_a_channel_whose_connection_was_given_up_says_that_it_is_lost(channel: Any) -> None:
    """Any other error in its last acknowledgement would end the worker."""
    channel._disconnect_pools()
    channel.connection.client = None

    with pytest.raises(ConnectionError, match="is closed"):
        channel.basic_ack("tag")

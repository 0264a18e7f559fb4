"""Workers of any app that we joined outlive a broker that went away with messages unacknowledged."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery, signals
from kombu import Connection
from kombu.transport import redis
from redis.exceptions import ConnectionError  # noqa: A004 - redis-py's own name

from tenxgraph.settings import Settings
from tenxgraph_worker import install
from tenxgraph_worker.lost_channel import LostChannel, outlive_lost_channels
from tests.graphs.suite import CASES
from tests.servers import Server, valkey_server

__all__ = ["valkey_server"]


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis.Transport, "Channel", redis.Channel)


@pytest.fixture
def channel(valkey_server: Server) -> Iterator[Any]:
    outlive_lost_channels()
    with Connection(f"redis://127.0.0.1:{valkey_server.port}/3") as connection:
        yield connection.channel()


@pytest.mark.parametrize("lost", ["its client", "all"])
def test_a_channel_whose_connection_was_given_up_says_that_it_is_lost(channel: Any, lost: str) -> None:
    """Any other error, as messages are put back or acknowledged, would end the worker."""
    connection = channel.connection
    channel._disconnect_pools()
    if lost == "all":
        channel.connection = None
    else:
        connection.client = None
    with pytest.raises(ConnectionError, match="is closed"):
        channel.basic_ack("tag")
    with pytest.raises(ConnectionError, match="is closed"):
        channel.qos.restore_unacked()
    channel.connection = connection


def test_a_worker_of_an_app_that_we_joined_does_so() -> None:
    app, other = Celery("theirs"), Celery("others")
    install(app, [CASES["linear"].compile()], settings=Settings(redis_url="redis://127.0.0.1:1/0"))
    signals.celeryd_after_setup.send(sender="w", instance=SimpleNamespace(app=other))
    assert redis.Transport.Channel is redis.Channel
    signals.celeryd_after_setup.send(sender="w", instance=SimpleNamespace(app=app))
    assert redis.Transport.Channel is LostChannel


def test_a_channel_of_somebody_elses_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    class Theirs(redis.Channel):
        pass

    monkeypatch.setattr(redis.Transport, "Channel", Theirs)
    outlive_lost_channels()
    assert redis.Transport.Channel is Theirs

"""Settings come from TENXGRAPH_*, are frozen, and say what is wrong with them."""

import pytest
from pydantic import ValidationError

from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.core.graph import StateGraph
from tenxgraph.core.state import AgentState
from tenxgraph.settings import Settings


def test_an_empty_environment_gives_the_defaults() -> None:
    settings = Settings.load()

    assert settings.redis_url is None
    assert settings.key_prefix == "tg"
    assert settings.default_queue == "tenxgraph"
    assert (settings.lease_s, settings.heartbeat_s, settings.scan_s) == (15.0, 5.0, 1.0)
    assert (settings.max_deliveries, settings.recursion_limit) == (3, 25)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("redis_url", "redis://localhost:6379/3", "redis://localhost:6379/3"),
        ("redis_url", "unix:///run/valkey.sock", "unix:///run/valkey.sock"),
        ("broker_url", "amqp://localhost", "amqp://localhost"),
        ("key_prefix", "shop", "shop"),
        ("default_queue", "graphs", "graphs"),
        ("inline_state_bytes", "0", 0),
        ("lease_s", "7.5", 7.5),
        ("node_timeout_s", "3", 3.0),
        ("shutdown_grace_s", "0", 0.0),
        ("stream_max_len", "12", 12),
    ],
)
def test_a_variable_sets_its_field(monkeypatch: pytest.MonkeyPatch, name: str, text: str, value: object) -> None:
    monkeypatch.setenv(f"TENXGRAPH_{name.upper()}", text)

    assert getattr(Settings.load(), name) == value


def test_what_is_given_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENXGRAPH_LEASE_S", "20")

    assert Settings.load(lease_s=30).lease_s == 30.0


def test_an_empty_variable_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENXGRAPH_REDIS_URL", "")

    assert Settings.load().redis_url is None


def test_settings_cannot_be_changed() -> None:
    settings = Settings.load()

    with pytest.raises(ValidationError, match="frozen"):
        settings.lease_s = 1.0


def test_the_store_is_the_broker_unless_another_is_named() -> None:
    store, broker = "redis://localhost/1", "redis://localhost/2"

    assert Settings.load().effective_broker_url is None
    assert Settings.load(redis_url=store).effective_broker_url == store
    assert Settings.load(redis_url=store, broker_url=broker).effective_broker_url == broker


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("redis_url", "localhost:6379"),
        ("redis_url", "http://localhost"),
        ("redis_url", "redis://localhost:6379/0,"),
        ("redis_url", "rediss://localhost/mine"),
        ("broker_url", "localhost"),
        ("broker_url", "redis://localhost/-1"),
        ("key_prefix", "a{b}"),
        ("key_prefix", "two words"),
        ("default_queue", "*"),
        ("inline_state_bytes", "-1"),
        ("inline_state_bytes", "16KiB"),
        ("lease_s", "0"),
        ("lease_s", "inf"),
        ("node_timeout_s", "nan"),
        ("heartbeat_s", "-5"),
        ("max_deliveries", "0"),
        ("recursion_limit", "none"),
        ("stream_keep_s", "0"),
    ],
)
def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    monkeypatch.setenv(f"TENXGRAPH_{name.upper()}", text)

    with pytest.raises(InvalidInputError, match=f"Environment variable TENXGRAPH_{name.upper()}: ") as caught:
        Settings.load()
    assert caught.value.error_code == "INVALID_SETTINGS"


@pytest.mark.parametrize("url", ["redis://localhost", "redis://localhost/", "rediss://u:p@h:1/15?ssl_cert_reqs=none"])
def test_a_database_may_be_left_out(url: str) -> None:
    assert Settings.load(redis_url=url, broker_url=url).effective_broker_url == url


def test_a_url_that_a_graph_is_compiled_with_is_checked_too() -> None:
    app = StateGraph(AgentState).add_node("a", lambda state: None).set_entry_point("a").compile(redis_url="redis://h/a")
    with pytest.raises(InvalidInputError, match="redis_url: must end with the number of a database"):
        app.invoke({"messages": ["Hi"]})


def test_all_wrong_variables_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENXGRAPH_LEASE_S", "long")
    monkeypatch.setenv("TENXGRAPH_MAX_DELIVERIES", "0")

    with pytest.raises(InvalidInputError, match=r"TENXGRAPH_LEASE_S.*'long'.*TENXGRAPH_MAX_DELIVERIES.*'0'"):
        Settings.load()


def test_a_wrong_argument_is_not_blamed_on_the_environment() -> None:
    with pytest.raises(InvalidInputError, match=r"Setting lease_s: .*got -1"):
        Settings.load(lease_s=-1)


def test_an_unknown_argument_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="Setting leese_s: there is no such setting"):
        Settings.load(leese_s=1)


@pytest.mark.parametrize("heartbeat_s", [15, 16])
def test_a_heartbeat_as_long_as_the_lease_is_refused(heartbeat_s: float) -> None:
    with pytest.raises(InvalidInputError, match=r"heartbeat_s \(1[56]\) must be shorter than lease_s \(15\)"):
        Settings.load(heartbeat_s=heartbeat_s)


def test_a_scan_longer_than_the_lease_is_refused() -> None:
    assert Settings.load(scan_s=15).scan_s == 15.0
    with pytest.raises(InvalidInputError, match=r"scan_s \(16\) must be at most lease_s \(15\)"):
        Settings.load(scan_s=16)


def test_a_password_shows_up_neither_in_errors_nor_in_the_repr() -> None:
    url = "redis://:s3cret@localhost/0"

    assert "s3cret" not in repr(Settings.load(redis_url=url, broker_url=url))
    with pytest.raises(InvalidInputError) as caught:
        Settings.load(redis_url=url.replace("redis", "http"))
    assert "s3cret" not in repr(caught.value.to_dict())

"""A URL of sentinels is read, refused in a sentence, and turned into what redis-py and kombu want."""

import pytest
from kombu import Connection

from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.sentinel_url import SentinelUrl, parse_sentinel_url
from tenxgraph.settings import Settings
from tenxgraph.store.redis import redis_store
from tenxgraph_scheduler.broker import broker_url, make_celery
from tenxgraph_worker.embedded.check import shown

FULL = "sentinel://me:p%40ss@a:1,b/3?service=mymaster&sentinel_username=it&sentinel_password=s%26cret"


def test_a_url_of_sentinels_has_all_its_parts() -> None:
    assert parse_sentinel_url(FULL) == SentinelUrl(
        hosts=(("a", 1), ("b", 26379)),
        service="mymaster",
        database=3,
        username="me",
        password="p@ss",
        sentinel_username="it",
        sentinel_password="s&cret",
    )


@pytest.mark.parametrize("end", ["", "/", "/0"])
def test_the_least_url_of_sentinels_is_one_host_and_a_service(end: str) -> None:
    assert parse_sentinel_url(f"sentinel://a{end}?service=m") == SentinelUrl((("a", 26379),), "m")


def test_an_address_of_version_6_stands_in_brackets() -> None:
    named = parse_sentinel_url("sentinel://[::1]:5,b:6?service=m")

    assert named.hosts == (("::1", 5), ("b", 6))
    assert named.urls() == ["sentinel://[::1]:5/0", "sentinel://b:6/0"]


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("sentinel://a:26379/0", "names no service"),
        ("sentinel://a:26379/0?service=", "names no service"),
        ("sentinel:///0?service=m", "names no host"),
        ("sentinel://me:s3cret@/0?service=m", "names no host"),
        ("sentinel://a,,b/0?service=m", "names no host, or an empty one"),
        ("sentinel://:26379/0?service=m", "a port stands without a host"),
        ("sentinel://a:s3cret/0?service=m", "something that is no port"),
        ("sentinel://a:26379;sentinel://b:26379?service=m", "something that is no port"),
        ("sentinel://[a/0?service=m", "cannot be read as a URL"),
        ("sentinel://a/main?service=m", "no number of a database"),
        ("sentinel://a?service=m&sentinel_pasword=s3cret", "there is no option 'sentinel_pasword'"),
    ],
)
@pytest.mark.parametrize("name", ["redis_url", "broker_url"])
def test_a_wrong_url_of_sentinels_is_named_with_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, name: str, url: str, what: str
) -> None:
    monkeypatch.setenv(f"TENXGRAPH_{name.upper()}", url)

    with pytest.raises(InvalidInputError, match=f"TENXGRAPH_{name.upper()}: must be sentinel://.*{what}") as caught:
        Settings.load()
    assert "s3cret" not in str(caught.value.to_dict())


def test_a_wrong_url_that_is_passed_is_refused_too() -> None:
    with pytest.raises(InvalidInputError, match="names no service"):
        redis_store("sentinel://a/0", Settings())


def test_no_password_is_shown() -> None:
    assert shown(FULL) == ("sentinel://me:***@a:1,b/3?service=mymaster&sentinel_username=it&sentinel_password=***")
    assert "p@ss" not in repr(parse_sentinel_url(FULL))
    assert "s&cret" not in repr(parse_sentinel_url(FULL))


def test_kombu_gets_every_sentinel_with_the_primarys_login_and_the_service() -> None:
    settings = Settings(redis_url=FULL)
    app = make_celery(settings, broker_url(settings))

    assert app.conf.broker_url == "sentinel://me:p%40ss@a:1/3;sentinel://me:p%40ss@b:26379/3"
    options = app.conf.broker_transport_options
    assert options["master_name"] == "mymaster"
    of_a_sentinel = options["sentinel_kwargs"]
    assert (of_a_sentinel["username"], of_a_sentinel["password"]) == ("it", "s&cret")
    assert of_a_sentinel["socket_timeout"] == of_a_sentinel["socket_connect_timeout"] == 5
    connection: Connection = app.connection_for_read()
    assert (connection.userid, connection.password, connection.virtual_host) == ("me", "p@ss", "3")
    assert "ss@" not in connection.as_uri()


def test_a_plain_broker_has_no_options_of_sentinels() -> None:
    settings = Settings(redis_url="redis://localhost/0")

    assert "master_name" not in make_celery(settings, broker_url(settings)).conf.broker_transport_options

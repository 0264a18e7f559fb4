"""The form of a URL that names Redis through its sentinels."""

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from tenxgraph.core.exceptions import InvalidInputError

SCHEME: Final = "sentinel"
FORM: Final = "sentinel://[USER:PASSWORD@]HOST:26379,HOST:26379/DB?service=NAME"

_PORT: Final = 26379
_OPTIONS: Final = frozenset({"service", "sentinel_username", "sentinel_password"})


@dataclass(frozen=True, slots=True)
class SentinelUrl:
    """Who to ask for a primary, and how to log in at it.

    Attributes:
        hosts: The sentinels: a host and a port each.
        service: What the sentinels call the primary.
        username: For the primary, as ``password`` is; the sentinels' own are ``sentinel_username`` and
            ``sentinel_password``.
    """

    hosts: tuple[tuple[str, int], ...]
    service: str
    database: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)

    @property
    def sentinel_login(self) -> dict[str, str]:
        """The arguments with which a Redis client logs in at a sentinel."""
        login = {"username": self.sentinel_username, "password": self.sentinel_password}
        return {name: value for name, value in login.items() if value is not None}

    def urls(self) -> list[str]:
        """Return one URL for each sentinel, each with the primary's login and database."""
        words = [None if word is None else quote(word, safe="") for word in (self.username, self.password)]
        login = "" if words == [None, None] else f"{words[0] or ''}:{words[1] or ''}@"
        places = [(f"[{host}]" if ":" in host else host, port) for host, port in self.hosts]
        return [f"{SCHEME}://{login}{host}:{port}/{self.database}" for host, port in places]


def names_sentinels(url: str) -> bool:
    """Tell whether a URL has the scheme ``sentinel``."""
    return url.partition("://")[0].lower() == SCHEME


def parse_sentinel_url(url: str) -> SentinelUrl:
    """Read a URL of the form `FORM`. The port and the database may be left out.

    Raises:
        InvalidInputError: ``SENTINEL_URL``; it says what is missing, and shows nothing of the URL.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _wrong("it cannot be read as a URL") from None
    login, _, places = parts.netloc.rpartition("@")
    username, _, password = login.partition(":")
    options = _options(parts)
    return SentinelUrl(
        hosts=tuple(_place(place) for place in places.split(",")),
        service=options["service"],
        database=_database(parts.path),
        username=unquote(username) or None,
        password=unquote(password) or None,
        sentinel_username=options.get("sentinel_username"),
        sentinel_password=options.get("sentinel_password"),
    )


def _options(parts: SplitResult) -> dict[str, str]:
    options = dict(parse_qsl(parts.query))
    if unknown := sorted(options.keys() - _OPTIONS):
        raise _wrong(f"there is no option {unknown[0]!r}, only {', '.join(sorted(_OPTIONS))}")
    if "service" not in options:
        raise _wrong("it names no service: add ?service=, the name under which the sentinels watch the primary")
    return options


def _place(place: str) -> tuple[str, int]:
    if not place:
        raise _wrong("it names no host, or an empty one between commas")
    try:
        parts = urlsplit(f"//{place}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _wrong("a host is followed by something that is no port") from None
    if host is None:
        raise _wrong("a port stands without a host")
    return host, _PORT if port is None else port


def _database(path: str) -> int:
    number = path.removeprefix("/")
    if number and not (number.isascii() and number.isdigit()):
        raise _wrong("what follows the hosts is no number of a database")
    return int(number or 0)


def _wrong(what: str) -> InvalidInputError:
    return InvalidInputError(f"must be {FORM}; {what}", error_code="SENTINEL_URL")

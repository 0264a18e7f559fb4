"""Scripts and commands on one Redis client, and what its errors mean."""

import hashlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any

import redis
from redis.exceptions import (
    BusyLoadingError,
    ConnectionError,  # noqa: A004 - redis-py's own name
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    TimeoutError,  # noqa: A004 - redis-py's own name
)

from tenxgraph.core.exceptions import StorageError

Command = tuple[Any, ...]
"""A command and its arguments, as ``execute_command`` takes them."""

_PRELUDE = ("_record", "_thread", "_claim")
_MORE = {
    **dict.fromkeys(("admit", "recover"), ("_history", "_admission")),
    **dict.fromkeys(("advance", "edit", "fork"), ("_step",)),
}
"""What some scripts need besides."""

_OUTSIDE = frozenset(
    {"watch", "due", "settle_due", "register_run", "release_run", "list_thread", "read_hashes", "turn"}
)

_ADVICE: tuple[tuple[type[RedisError], str], ...] = (
    (BusyLoadingError, "is still loading its data; try again in a moment"),
    (ConnectionError, "is out of reach; check that it runs and that TENXGRAPH_REDIS_URL names it, then try again"),
    (TimeoutError, "did not answer in time; try again, it is safe: what was asked may have happened already"),
    (OutOfMemoryError, "is out of memory; raise maxmemory or delete threads, then try again"),
    (ReadOnlyError, "is a read-only replica; point TENXGRAPH_REDIS_URL to the primary, then try again"),
    (RedisError, "refused; it must be Redis 7, Valkey 8 or newer, be writable, and hold no other data under our keys"),
)


@cache
def _source(name: str) -> str:
    folder = files("tenxgraph.store") / "lua"
    parts = (name,) if name in _OUTSIDE else (*_PRELUDE, *_MORE.get(name, ()), name)
    return "\n".join((folder / f"{part}.lua").read_text() for part in parts)


def _place(client: "redis.Redis") -> str:
    if service := getattr(client.connection_pool, "service_name", None):
        return f"{service} behind its sentinels"
    kwargs = client.connection_pool.connection_kwargs
    return str(kwargs.get("path") or f"{kwargs.get('host', 'localhost')}:{kwargs.get('port', 6379)}")


@contextmanager
def storage_errors(place: str) -> Generator[None, None, None]:
    """Turn redis-py's errors into a StorageError that says what to do next."""
    try:
        yield
    except RedisError as error:
        raise storage_error(place, error) from error


def storage_error(place: str, error: RedisError) -> StorageError:
    """Return what an error of redis-py means, with what to do next."""
    advice = next(text for kind, text in _ADVICE if isinstance(error, kind))
    made = StorageError(f"The store at {place} {advice} ({type(error).__name__}: {error}).", context={"store": place})
    made.__cause__ = error
    return made


def _literal(value: int | str) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


class Scripts:
    """The store's scripts on a client: sent by digest, as text only where the server does not know it.

    Args:
        constants: What the scripts of a thread read under these names: numbers, and texts without quotes.
    """

    def __init__(self, client: "redis.Redis", constants: Mapping[str, int | str]) -> None:
        self.client: redis.Redis = client
        self.place: str = _place(client)
        self._execute: Callable[..., Any] = client.execute_command
        self._constants = "".join(f"local {name} = {_literal(value)}\n" for name, value in constants.items())
        self._digests: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    def script(self, name: str, keys: Sequence[str], *args: str | bytes | int) -> Command:
        """Return the command that runs a script."""
        digest = self._digests.get(name)
        if digest is None:
            text = self._constants + _source(name)
            digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
            self._texts[digest] = text
            self._digests[name] = digest
        return ("EVALSHA", digest, len(keys), *keys, *args)

    def run(self, *commands: Command) -> list[Any]:
        """Send commands in one trip and return their replies.

        Raises:
            StorageError: The server is away or refuses; what was asked may have happened.
        """
        replies = self.run_each(*commands)
        for reply in replies:
            if isinstance(reply, StorageError):
                raise reply
        return replies

    def run_each(self, *commands: Command) -> list[Any]:
        """Send commands in one trip and return for each its reply, or the StorageError that it met alone.

        Raises:
            StorageError: The server is away; what was asked may have happened.
        """
        with storage_errors(self.place):
            replies = self._send(commands)
            missing = [at for at, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
            if missing:
                again = [commands[at] for at in missing]
                self._load(again)
                for at, reply in zip(missing, self._send(again), strict=True):
                    replies[at] = reply
        return [storage_error(self.place, reply) if isinstance(reply, RedisError) else reply for reply in replies]

    def _send(self, commands: Sequence[Command]) -> list[Any]:
        if len(commands) == 1:
            try:
                return [self._execute(*commands[0])]
            except NoScriptError as missing:
                return [missing]
        with self.client.pipeline(transaction=False) as pipe:
            queue: Callable[..., Any] = pipe.execute_command
            for command in commands:
                queue(*command)
            return pipe.execute(raise_on_error=False)

    def _load(self, commands: Sequence[Command]) -> None:
        for _, digest, *_ in commands:
            self._execute("SCRIPT LOAD", self._texts[digest])

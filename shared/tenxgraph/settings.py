"""What can be set from outside: read once, by the factories, never at import."""

from typing import Annotated, Any, ClassVar, Final, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.sentinel_url import names_sentinels, parse_sentinel_url

ENV_PREFIX: Final = "TENXGRAPH_"
_STORE_SCHEMES: Final = ("redis", "rediss", "unix")


def _sentinel_url(url: str) -> str:
    try:
        parse_sentinel_url(url)
    except InvalidInputError as error:
        raise ValueError(error.message) from None
    return url


def _store_url(url: str) -> str:
    if names_sentinels(url):
        return _sentinel_url(url)
    if urlsplit(url).scheme not in _STORE_SCHEMES:
        raise ValueError("must be a URL like redis://host:6379/0, rediss://…, unix:///path/to/socket or sentinel://…")
    return _redis_url(url)


def _redis_url(url: str) -> str:
    """The store would take database 0 for one that is no number, and the broker none."""
    parts = urlsplit(url)
    database = parts.path.removeprefix("/")
    if parts.scheme in ("redis", "rediss") and database and not (database.isascii() and database.isdigit()):
        raise ValueError(f"must end with the number of a database, like redis://host:6379/0, not with {database!r}")
    return url


def _broker_url(url: str) -> str:
    if names_sentinels(url):
        return _sentinel_url(url)
    if not urlsplit(url).scheme:
        raise ValueError("must be a URL that Celery takes as a broker, like redis://host:6379/0")
    return _redis_url(url)


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Settings(BaseSettings):
    """The settings of a process, frozen. Each is read from ``TENXGRAPH_<NAME>`` unless it is given.

    Durations are seconds, sizes are bytes. Call `Settings.load` for errors that name the variable.

    Attributes:
        redis_url: The store. None: graphs run in process and keep their state in memory.
        broker_url: Celery's broker. None: the store.
        key_prefix: First part of every key in the store, so that several installations can share a server.
        default_queue: Queue of a task whose node names none.
        inline_state_bytes: A step's messages carry the state while tasks × state stays within this size; a larger
            state travels by reference.
        inline_media_bytes: Images and files of messages stay inline up to this size; a larger one is kept in the store,
            once a thread, and messages refer to it.
        lease_s: How long the store believes an attempt alive after the last sign of life. The longest time that a
            killed worker holds up a run.
        heartbeat_s: Time between two renewals of a lease; shorter than ``lease_s``.
        scan_s: Time between two looks of the scheduler for what is due; at most ``lease_s``.
        max_deliveries: Attempts at a task that keeps killing its worker, before the run is dead.
        max_lost_leases: Leases of a task that may run out while its worker lives, before the run is dead.
        node_timeout_s: Time limit of an attempt at a node that sets none of its own.
        shutdown_grace_s: How long a worker that is told to end lets its attempts finish.
        sticky_budget_s: How long a worker goes on with the steps of one run where they are sticky, before others of its
            queue have their turn.
        recursion_limit: Steps that a run may take if its config says nothing.
        checkpoints_keep_last: Checkpoints of a thread that are kept; older ones are dropped. 0: all.
        checkpoints_keep_s: Age at which a checkpoint is dropped. 0: none.
        thread_keep_s: How long a thread is kept after the last thing that happened on it; then it is deleted. One with
            a run that is active, queued, delayed or waits for a person stays. 0: for ever.
        stream_keep_s: How long the events of a finished run can still be read.
        stream_max_len: Events kept for a run; the oldest go first.
    """

    model_config: ClassVar[SettingsConfigDict] = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_ignore_empty=True, frozen=True, extra="forbid"
    )

    redis_url: Annotated[str, AfterValidator(_store_url)] | None = Field(default=None, repr=False)
    broker_url: Annotated[str, AfterValidator(_broker_url)] | None = Field(default=None, repr=False)
    key_prefix: str = Field(default="tg", pattern=r"^[A-Za-z0-9_.:-]+$")
    default_queue: str = Field(default="tenxgraph", pattern=r"^[A-Za-z0-9_.:-]+$")
    inline_state_bytes: int = Field(default=16384, ge=0)
    inline_media_bytes: int = Field(default=65_536, ge=0)
    lease_s: Seconds = 15.0
    heartbeat_s: Seconds = 5.0
    scan_s: Seconds = 1.0
    max_deliveries: int = Field(default=3, ge=1)
    max_lost_leases: int = Field(default=10, ge=1)
    node_timeout_s: Seconds = 600.0
    shutdown_grace_s: float = Field(default=30.0, ge=0, allow_inf_nan=False)
    sticky_budget_s: Seconds = 10.0
    recursion_limit: int = Field(default=25, ge=1)
    checkpoints_keep_last: int = Field(default=0, ge=0)
    checkpoints_keep_s: float = Field(default=0, ge=0, allow_inf_nan=False)
    thread_keep_s: float = Field(default=30 * 86_400, ge=0, allow_inf_nan=False)
    stream_keep_s: int = Field(default=86_400, ge=1)
    stream_max_len: int = Field(default=10_000, ge=1)

    @classmethod
    def load(cls, **given: Any) -> Self:
        """Read the environment once; what is given wins over it.

        Raises:
            InvalidInputError: ``INVALID_SETTINGS``; the message names each wrong variable and what it must be.
        """
        try:
            return cls(**given)
        except ValidationError as error:
            faults = [_sentence(fault, given) for fault in error.errors(include_url=False)]
        raise InvalidInputError(" ".join(faults), error_code="INVALID_SETTINGS", context={"faults": faults})

    @property
    def effective_broker_url(self) -> str | None:
        """The broker's URL: ``broker_url``, else the store's."""
        return self.broker_url or self.redis_url

    @model_validator(mode="after")
    def _times_fit(self) -> Self:
        if self.heartbeat_s >= self.lease_s:
            raise ValueError(
                f"heartbeat_s ({self.heartbeat_s:g}) must be shorter than lease_s ({self.lease_s:g}): "
                "else every lease ends before it is renewed; lower one or raise the other."
            )
        if self.scan_s > self.lease_s:
            raise ValueError(
                f"scan_s ({self.scan_s:g}) must be at most lease_s ({self.lease_s:g}): "
                "else a lost task waits longer than its lease; lower one or raise the other."
            )
        return self


def _sentence(fault: ErrorDetails, given: dict[str, Any]) -> str:
    reason = fault["msg"].removeprefix("Value error, ")
    if not fault["loc"]:
        return f"Settings: {reason}"
    field = str(fault["loc"][0]).lower().removeprefix(ENV_PREFIX.lower())
    place = f"Setting {field}" if field in given else f"Environment variable {ENV_PREFIX}{field.upper()}"
    if field not in Settings.model_fields:
        return f"{place}: there is no such setting; see docs/reference/settings.md."
    return f"{place}: {reason}{_got(field, fault['input'])}."


def _got(field: str, value: object) -> str:
    """Show the value, but never a URL: it may hold a password."""
    return "" if field.endswith("_url") else f", got {value!r}"

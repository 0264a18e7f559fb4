"""What a task's journal promises: an effect is reserved, made, done; and a result that is there is given back."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol


@dataclass(frozen=True, slots=True)
class EffectKey:
    """Names an effect.

    Attributes:
        name: In the thread; see :func:`effect_name`.
        title: As errors say it: ``effect('pay')``.
        at_most_once: Whether not to make again what was begun before, whatever became of it.
    """

    name: str
    title: str
    at_most_once: bool = False


class Journal(Protocol):
    """The journal of a thread, as one attempt writes it. Results are opaque."""

    def once(self, key: EffectKey, make: Callable[[], bytes]) -> bytes:
        """Return the recorded result of an effect; make it, and record it, if there is none.

        While somebody else makes it, wait for that. If ``make`` raises, it is not done, and who asks next makes it.

        Args:
            key: Names the effect.
            make: Makes it and encodes the result.

        Raises:
            EffectLostError: It is to be made at most once, was begun, and has no result.
            AttemptOver: This attempt may begin nothing any more.
        """
        ...

    async def aonce(self, key: EffectKey, make: Callable[[], Awaitable[bytes]]) -> bytes:
        """Like :meth:`once`; other tasks of the event loop go on meanwhile."""
        ...


class AttemptOver(BaseException):  # it is no error of the code that it ends, and no `except Exception` may swallow it
    """Ends user code whose attempt was fenced, or that lost its store: what it did next would not be known of.

    Attributes:
        error: Why the store did not answer; None when the attempt was fenced.
    """

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__(str(error or "the attempt was fenced"))
        self.error = error


def effect_name(*parts: str | int | None) -> str:
    """Join what names an effect to one text, which no other parts give."""
    return json.dumps(parts, separators=(",", ":"))


def idempotency_key(*parts: str | int) -> str:
    """Return 32 hexadecimal digits that stand for ``parts``: safe in a header, the same everywhere."""
    return sha256(effect_name(*parts).encode()).hexdigest()[:32]

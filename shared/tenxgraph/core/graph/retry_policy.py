"""When a failed attempt is tried again, and after how long."""

import math
from dataclasses import dataclass
from hashlib import sha256

from tenxgraph.core.exceptions import GraphError


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how patiently a node is tried again after it raised.

    Args:
        max_attempts: Attempts in all, the first one included.
        initial_s: Pause after the first failed attempt, in seconds.
        factor: Each further pause is this many times the last one.
        max_s: No pause is longer, in seconds.
        jitter: Shorten each pause by up to half, so that tasks which failed together do not return together.
        retry_on: The exception class or classes worth another attempt.

    Raises:
        GraphError: ``INVALID_RETRY`` naming the value that makes no sense.
    """

    max_attempts: int = 3
    initial_s: float = 0.5
    factor: float = 2.0
    max_s: float = 60.0
    jitter: bool = True
    retry_on: type[Exception] | tuple[type[Exception], ...] = Exception

    def __post_init__(self) -> None:
        if type(self.max_attempts) is not int or self.max_attempts < 1:
            raise _invalid("max_attempts", self.max_attempts, "a whole number, 1 or more")
        for name, least in (("initial_s", 0.0), ("factor", 1.0), ("max_s", 0.0)):
            value = getattr(self, name)
            if not _is_number(value) or value < least:
                raise _invalid(name, value, f"a finite number, {least:g} or more")
        if type(self.jitter) is not bool:
            raise _invalid("jitter", self.jitter, "True or False")
        if not self.exceptions or not all(_is_exception(item) for item in self.exceptions):
            raise _invalid("retry_on", self.retry_on, "an Exception class or a tuple of them")

    @property
    def exceptions(self) -> tuple[type[Exception], ...]:
        """``retry_on`` as a tuple."""
        return self.retry_on if isinstance(self.retry_on, tuple) else (self.retry_on,)

    def retries(self, error: BaseException, attempt: int) -> bool:
        """Say whether another attempt follows after attempt number ``attempt`` (from 1) raised ``error``."""
        return attempt < self.max_attempts and isinstance(error, self.exceptions)

    def delay_s(self, attempt: int, seed: str) -> float:
        """Return the pause after failed attempt number ``attempt`` (from 1), in seconds.

        Args:
            attempt: The attempt that failed.
            seed: Any text that is the same whoever computes the pause, as the task's id.
        """
        pause_s = min(self._growing_s(attempt), self.max_s)
        return pause_s * (1.0 - _fraction(f"{seed}:{attempt}") / 2) if self.jitter else pause_s

    def _growing_s(self, attempt: int) -> float:
        try:
            return self.initial_s * self.factor ** (attempt - 1)
        except OverflowError:
            return self.max_s if self.initial_s else 0.0


def _fraction(seed: str) -> float:
    return int.from_bytes(sha256(seed.encode()).digest()[:6], "big") / 2**48


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_exception(item: object) -> bool:
    return isinstance(item, type) and issubclass(item, Exception)


def _invalid(name: str, value: object, wanted: str) -> GraphError:
    return GraphError(
        f"RetryPolicy.{name} must be {wanted}, not {value!r}.",
        error_code="INVALID_RETRY",
        context={"parameter": name, "value": repr(value)},
    )

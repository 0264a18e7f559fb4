"""End an attempt so that its task waits and holds no worker; the next attempt goes on from a note."""

from collections.abc import Mapping
from typing import Any


class RetryLater(BaseException):  # like a question it is no error, and no `except Exception` may swallow it
    """Leaves the node; the task is tried again after a while, whatever the node's own retry policy says.

    Attributes:
        delay_s: How long it waits.
        reason: One word, shown as the run's reason.
        message: What it waits for, for people.
        note: JSON-able; the next attempt finds it in its task's ``note``.
    """

    def __init__(self, delay_s: float, reason: str, message: str, note: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.delay_s = delay_s
        self.reason = reason
        self.message = message
        self.note = note

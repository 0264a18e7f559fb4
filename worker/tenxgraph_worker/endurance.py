"""How long an attempt with a result in hand waits for a store that is away."""

import os
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from tenxgraph.engine.patience import insist

T = TypeVar("T")

_LIMIT_S = 3600.0
"""A store that refuses one call for an hour will not take it."""


class Endurance:
    """Repeats calls of the store until it answers, the worker has ended, or an hour is over.

    Args:
        shutdown_grace_s: How long to go on once the worker was told to end.
        parent: Of a prefork child: it is not told of a shutdown, but sees that its parent is gone.
    """

    def __init__(self, shutdown_grace_s: float, parent: int | None = None) -> None:
        self._shutdown_grace_s = shutdown_grace_s
        self._ends_s = float("inf")
        self._parent = parent

    def note_shutdown(self) -> None:
        """The worker was told to end."""
        self._ends_s = min(self._ends_s, time.monotonic() + self._shutdown_grace_s)

    def __call__(self, call: Callable[[], T], /) -> T:
        """See :class:`~tenxgraph.engine.patience.Insist`."""
        return insist(call, partial(self._pause, time.monotonic() + _LIMIT_S))

    def _pause(self, limit_s: float, pause_s: float) -> bool:
        time.sleep(pause_s)
        is_orphan = self._parent is not None and os.getppid() != self._parent
        return time.monotonic() < min(limit_s, self._ends_s) and not is_orphan

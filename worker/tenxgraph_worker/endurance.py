"""How long an attempt with a result in hand waits for a store that is away."""

import os
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from tenxgraph.engine.patience import insist
from tenxgraph_worker.shutdown import Shutdown

T = TypeVar("T")

_LIMIT_S = 3600.0
"""A store that refuses one call for an hour will not take it."""


class Endurance:
    """Repeats calls of the store until it answers, the worker has ended, or an hour is over.

    Args:
        shutdown: Of the worker.
        parent: Of a prefork child: if it is killed, nobody tells the child, but that its parent is gone it can see.
    """

    def __init__(self, shutdown: Shutdown, parent: int | None = None) -> None:
        self._shutdown = shutdown
        self._parent = parent

    def __call__(self, call: Callable[[], T], /) -> T:
        """See :class:`~tenxgraph.engine.patience.Insist`."""
        return insist(call, partial(self._pause, time.monotonic() + _LIMIT_S))

    def _pause(self, limit_s: float, pause_s: float) -> bool:
        time.sleep(pause_s)
        is_orphan = self._parent is not None and os.getppid() != self._parent
        return time.monotonic() < limit_s and self._shutdown.left_s > 0 and not is_orphan

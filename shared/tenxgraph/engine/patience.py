"""Outlive a store that is away: every call of the port may be repeated with the same arguments."""

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from tenxgraph.core.exceptions import StorageError

_logger = logging.getLogger(__name__)

T = TypeVar("T")

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0


class Insist(Protocol):
    """Makes a call of the store, more than once if need be."""

    def __call__(self, call: Callable[[], T], /) -> T:
        """Return what the call returned at last."""
        ...


def once(call: Callable[[], T], /) -> T:
    """Make a call and let its error through."""
    return call()


def insist(call: Callable[[], T], pause: Callable[[float], bool]) -> T:
    """Repeat a call until the store answers.

    Args:
        call: One call of the store.
        pause: Waits for so many seconds; False to give up and let the error through.
    """
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return call()
        except StorageError as error:
            _note(error, pause_s)
            if not pause(pause_s):
                raise
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


async def ainsist(call: Callable[[], Awaitable[T]], pause: Callable[[float], Awaitable[bool]]) -> T:
    """Like :func:`insist`."""
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return await call()
        except StorageError as error:
            _note(error, pause_s)
            if not await pause(pause_s):
                raise
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


def _note(error: StorageError, pause_s: float) -> None:
    level = logging.WARNING if pause_s == _FIRST_PAUSE_S else logging.DEBUG
    _logger.log(level, "%s Trying again.", error.message)

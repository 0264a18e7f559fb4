"""Locks on files: given up by the system when their holder ends, however it ends."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL_S = 0.02


class FileLock:
    """A lock on a file that several may share; not inherited by programs that are started."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def try_shared(self) -> bool:
        """Take it with others, unless somebody has it alone."""
        return self._try(fcntl.LOCK_SH)

    def try_alone(self) -> bool:
        """Take it alone, unless anybody has it."""
        return self._try(fcntl.LOCK_EX)

    def _try(self, how: int) -> bool:
        try:
            fcntl.flock(self._fd, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Give it up; it can be taken again."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give it up for good."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Poll until the condition holds; False when time is over."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


@contextmanager
def held_alone(path: Path, timeout_s: float) -> Iterator[bool]:
    """Hold a lock alone for the block; yields False when it was not to be had in time."""
    lock = FileLock(path)
    try:
        yield until(lock.try_alone, timeout_s)
    finally:
        lock.close()


def is_held(path: Path) -> bool:
    """Tell whether anybody holds the lock."""
    lock = FileLock(path)
    try:
        return not lock.try_alone()
    finally:
        lock.close()

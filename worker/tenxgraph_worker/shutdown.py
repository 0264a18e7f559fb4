"""That the worker was told to end, and until when: known to its main process and to all its children."""

import mmap
import struct
import time

_NEVER_S = 0.0


class Shutdown:
    """A moment in memory that processes forked later share. A signal handler may write it.

    Args:
        grace_s: How long attempts may go on once the worker was told to end.
    """

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._shared = mmap.mmap(-1, struct.calcsize("d"))

    def begin(self) -> None:
        """The worker was told to end."""
        if not self.has_begun:
            struct.pack_into("d", self._shared, 0, time.monotonic() + self._grace_s)

    @property
    def has_begun(self) -> bool:
        """Whether no new attempt should begin."""
        return self._ends_s() != _NEVER_S

    @property
    def left_s(self) -> float:
        """How long attempts may still go on; less than 0 when their time is over."""
        return self._ends_s() - time.monotonic() if self.has_begun else float("inf")

    def _ends_s(self) -> float:
        # The monotonic clock is one for all processes of a machine.
        ends_s: float = struct.unpack_from("d", self._shared, 0)[0]
        return ends_s

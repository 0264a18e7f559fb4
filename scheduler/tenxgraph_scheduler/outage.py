"""Whether leases may be believed to have run out."""

import logging
import time
from collections.abc import Callable

_logger = logging.getLogger(__name__)


class Outage:
    """Remembers that the store was away, for one lease: until then living workers may not have been able to renew.

    Signs are an error, a server that was started anew, and a store's clock that jumped. A scheduler that starts knows
    nothing of what was before: that counts too.

    Args:
        lease_s: How long leases are forgiven after a sign.
        jump_ms: By how much the store's clock may differ from ours between two looks.
        monotonic_s: This process's clock.
    """

    def __init__(self, lease_s: float, jump_ms: float, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._lease_s = lease_s
        self._jump_ms = jump_ms
        self._monotonic_s = monotonic_s
        self._until_s = 0.0
        self._server_id: str | None = None
        self._offset_ms = 0.0
        self.note("the scheduler starts")

    @property
    def is_recent(self) -> bool:
        """Whether a lease that ran out proves nothing."""
        return self._monotonic_s() < self._until_s

    def note(self, sign: str) -> None:
        """See a sign."""
        if not self.is_recent:
            _logger.info("leases are forgiven for %g s: %s", self._lease_s, sign)
        self._until_s = self._monotonic_s() + self._lease_s

    def look(self, server_id: str, now_ms: int) -> None:
        """Compare the server and its clock with the last look."""
        offset_ms = now_ms - self._monotonic_s() * 1000
        if self._server_id is None:
            self._server_id, self._offset_ms = server_id, offset_ms
        if server_id != self._server_id:
            self.note("the store's server was started anew")
        if abs(offset_ms - self._offset_ms) > self._jump_ms:
            self.note("the store's clock jumped")
        self._server_id, self._offset_ms = server_id, offset_ms

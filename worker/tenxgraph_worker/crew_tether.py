"""Ends the processes of somebody who was killed. Started as a file, without site packages: it has to be small.

Its standard input is a pipe that only the owner holds: ``+PID`` and ``-PID`` lines say which process groups are his.
When the pipe ends, the owner is gone, however he went.
"""

import os
import signal
import sys
import time

_POLL_S = 0.05


def main(grace_s: float) -> None:
    """Listen until the owner is gone, then end what he left behind."""
    groups: set[int] = set()
    for line in sys.stdin:
        change = groups.add if line[0] == "+" else groups.discard
        change(int(line[1:]))
    _signal(groups, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while (groups := {group for group in groups if _lives(group)}) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    _signal(groups, signal.SIGKILL)


def _signal(groups: set[int], number: signal.Signals) -> None:
    for group in groups:
        try:
            os.killpg(group, number)
        except (ProcessLookupError, PermissionError):
            continue


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main(float(sys.argv[1]))

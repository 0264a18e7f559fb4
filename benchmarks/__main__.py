"""All comparisons one after the other, as one table; ``quick`` for those that show a loss soonest: W1, W5 and W3."""

import sys
from collections.abc import Callable, Iterable
from functools import partial

from benchmarks import backlog, chain, fan_out, long_thread, round_trip, scale_out, waiting_threads
from benchmarks.duel import Row, tell

_QUICK: tuple[Callable[[], Iterable[Row]], ...] = (
    partial(chain.measure, runs=3, many=False),
    partial(round_trip.measure, calls=20),
    partial(long_thread.measure, 3),
)
_ALL: tuple[Callable[[], Iterable[Row]], ...] = (
    chain.measure,
    long_thread.measure,
    fan_out.measure,
    round_trip.measure,
    scale_out.measure,
    backlog.measure,
)


def main(*words: str) -> int:
    """Measure, print, and return 1 if a goal was missed."""
    chosen = _QUICK if "quick" in words else _ALL
    missed = tell(row for measure in chosen for row in measure())
    return missed if "quick" in words else missed | waiting_threads.main()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

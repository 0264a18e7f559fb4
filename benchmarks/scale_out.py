"""W7: waiting nodes on one, two and four worker processes: how the rate grows."""

import sys
from collections.abc import Iterable
from contextlib import closing

from benchmarks.crews import own_crew
from benchmarks.duel import Row, alone, tell, took_s
from benchmarks.graphs import WAITS, talk, waiting

THREADS, SLOTS = 400, 25
WORKERS = (1, 2, 4)


def steps_per_s(workers: int, rounds: int) -> list[float]:
    """Return the steps a second of many threads at once on so many workers, by round."""
    with (
        own_crew("benchmarks.graphs:waiting", workers=workers, pool="threads", concurrency=SLOTS) as crew,
        closing(waiting.compile(redis_url=crew.redis_url)) as app,
    ):

        def all_at_once() -> None:
            for handle in [talk(app) for _ in range(THREADS)]:
                handle.result(120)

        return [THREADS * WAITS / took_s(all_at_once) for _ in range(rounds + 1)][1:]


def measure(rounds: int = 2) -> Iterable[Row]:
    """Yield a row for each number of workers; the ratio is to one worker."""
    base: list[float] = []
    for workers in WORKERS:
        rates = steps_per_s(workers, rounds)
        base = base or rates
        what = f"W7 {THREADS} waiting threads on {workers} × {SLOTS} slots / on 1 × {SLOTS}"
        yield alone(what, "steps/s", rates, [rate / one for rate, one in zip(rates, base, strict=True)], None)


if __name__ == "__main__":
    sys.exit(tell(measure(*map(int, sys.argv[1:2]))))

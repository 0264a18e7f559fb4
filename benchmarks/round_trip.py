"""W5: from submit to result of a graph of one step, against one Celery task whose end the client waits for by BRPOP."""

import statistics
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial

from benchmarks.celery_peer import own_celery
from benchmarks.crews import own_crew
from benchmarks.duel import Row, compare, take_turns, tell, took_s
from benchmarks.graphs import idle, talk

LIMIT = 1.1


def median_ms(what: Callable[[], object], calls: int) -> float:
    """Return the median of some calls in a row, in milliseconds."""
    return statistics.median(took_s(what) for _ in range(calls)) * 1000


def measure(rounds: int = 5, *, calls: int = 40) -> Iterable[Row]:
    """Yield the row."""
    with (
        own_crew("benchmarks.graphs:idle", pool="prefork", concurrency=2) as crew,
        own_celery(str(crew.redis_url)) as celery,
        closing(idle.compile(redis_url=crew.redis_url)) as app,
    ):
        sides = {
            "ours": partial(median_ms, lambda: talk(app).result(60), calls),
            "celery": partial(median_ms, lambda: celery.do(celery.tasks.hop, 0, 1), calls),
        }
        took = take_turns(sides, rounds)
        yield compare("W5 submit → result, p50 / Celery task, BRPOP", "ms", took["ours"], took["celery"], LIMIT)


if __name__ == "__main__":
    sys.exit(tell(measure(*map(int, sys.argv[1:2]))))

"""W4: one node, 100 branches by `Send`, one join, against as many Celery tasks with a counter, and against a chord."""

import sys
from collections.abc import Iterable
from contextlib import closing
from functools import partial

from benchmarks.celery_peer import CeleryPeer, own_celery
from benchmarks.crews import own_crew
from benchmarks.duel import Row, alone, compare, take_turns, tell, took_s
from benchmarks.graphs import fan, talk
from tenxgraph.core.graph import CompiledGraph
from tenxgraph.core.state import AgentState

WIDTH, WIDE = 100, 2000
LIMIT, CHORD_LIMIT, LINEAR = 0.9, 1.0, 1.3


def fan_ms(app: CompiledGraph[AgentState], width: int) -> float:
    """Return the time from the submit to the result, in milliseconds."""
    return took_s(lambda: talk(app, str(width)).result(120)) * 1000


def celery_ms(celery: CeleryPeer, task: str, width: int) -> float:
    """Return the same of the peer."""
    return took_s(lambda: celery.do(getattr(celery.tasks, task), width)) * 1000


def measure(rounds: int = 7) -> Iterable[Row]:
    """Yield the rows against the counter, against the chord, and of twenty times the width against the width."""
    with (
        own_crew("benchmarks.graphs:fan", pool="prefork", concurrency=2) as crew,
        own_celery(str(crew.redis_url)) as celery,
        closing(fan.compile(redis_url=crew.redis_url)) as app,
    ):
        sides = {
            "ours": partial(fan_ms, app, WIDTH),
            "counter": partial(celery_ms, celery, "fan", WIDTH),
            "chord": partial(celery_ms, celery, "fan_chord", WIDTH),
        }
        took = take_turns(sides, rounds)
        yield compare(f"W4 fan-out {WIDTH} + join / Celery, counter", "ms", took["ours"], took["counter"], LIMIT)
        yield compare(f"W4 fan-out {WIDTH} + join / Celery, chord", "ms", took["ours"], took["chord"], CHORD_LIMIT)
        wide = take_turns({"wide": partial(fan_ms, app, WIDE), "narrow": sides["ours"]}, max(2, rounds // 3))
        growth = [many / few / (WIDE / WIDTH) for many, few in zip(wide["wide"], wide["narrow"], strict=True)]
        yield alone(f"W4 a branch of {WIDE:,} / of {WIDTH}", "ms", wide["wide"], growth, LINEAR)


if __name__ == "__main__":
    sys.exit(tell(measure(*map(int, sys.argv[1:2]))))

"""W1 and W2: chains of no-op steps that each add a message of some 200 bytes, against a task that enqueues itself."""

import sys
from collections.abc import Iterable
from contextlib import closing
from functools import partial

from benchmarks.celery_peer import CeleryPeer, own_celery
from benchmarks.crews import own_crew
from benchmarks.duel import Row, compare, take_turns, tell, took_s
from benchmarks.graphs import MODES, chain_of, talk
from tenxgraph.core.graph import CompiledGraph
from tenxgraph.core.state import AgentState

STEPS = 20
MANY_THREADS, MANY_STEPS = 200, 10
W1_LIMIT = {"task": 0.9, "sticky": 0.2}
W2_LIMIT = {"task": 1.1, "sticky": 4.0}


def one_by_one_ms(app: CompiledGraph[AgentState], mode: str, runs: int) -> float:
    """Return the time of a step of runs that begin one after another, in milliseconds."""
    return took_s(lambda: [talk(app, **MODES[mode]).result(60) for _ in range(runs)]) * 1000 / (runs * STEPS)


def at_once_per_s(app: CompiledGraph[AgentState], mode: str) -> float:
    """Return the steps a second of many runs that begin at once."""

    def all_at_once() -> None:
        for handle in [talk(app, **MODES[mode]) for _ in range(MANY_THREADS)]:
            handle.result(60)

    return MANY_THREADS * MANY_STEPS / took_s(all_at_once)


def hop_ms(celery: CeleryPeer, runs: int) -> float:
    """Return the same of the peer."""

    def hop() -> None:
        for _ in range(runs):
            celery.do(celery.tasks.hop, 0, STEPS)

    return took_s(hop) * 1000 / (runs * STEPS)


def hops_per_s(celery: CeleryPeer) -> float:
    """Return the same of the peer."""
    return MANY_THREADS * MANY_STEPS / took_s(lambda: celery.do_all(MANY_THREADS, celery.tasks.hop, 0, MANY_STEPS))


def measure(rounds: int = 5, *, runs: int = 10, many: bool = True) -> Iterable[Row]:
    """Yield the rows of W1, then of W2."""
    graphs = ["benchmarks.graphs:chain_20", "benchmarks.graphs:chain_10"]
    with (
        own_crew(*graphs, pool="prefork", concurrency=2) as crew,
        own_celery(str(crew.redis_url)) as celery,
        closing(chain_of(STEPS).compile(redis_url=crew.redis_url)) as long,
        closing(chain_of(MANY_STEPS).compile(redis_url=crew.redis_url)) as short,
    ):
        ours = {mode: partial(one_by_one_ms, long, mode, runs) for mode in MODES}
        took = take_turns({**ours, "celery": partial(hop_ms, celery, runs)}, rounds)
        for mode in MODES:
            what = f"W1 chain of {STEPS}, {mode} / raw Celery, self-enqueue"
            yield compare(what, "ms/step", took[mode], took["celery"], W1_LIMIT[mode])
        if not many:
            return
        ours = {mode: partial(at_once_per_s, short, mode) for mode in MODES}
        took = take_turns({**ours, "celery": partial(hops_per_s, celery)}, rounds)
        for mode in MODES:
            what = f"W2 {MANY_THREADS} threads × {MANY_STEPS}, {mode} / raw Celery, self-enqueue"
            yield compare(what, "steps/s", took[mode], took["celery"], W2_LIMIT[mode], at_least=True)


if __name__ == "__main__":
    sys.exit(tell(measure(*map(int, sys.argv[1:2]))))

"""W3: what a step takes as its thread grows, on a worker that keeps threads and on one that sees the thread first.

The peer is a Celery task that keeps its history in a Redis list and reads it whole in each step.
"""

import sys
from collections.abc import Iterable
from contextlib import closing
from functools import partial
from uuid import uuid4

from benchmarks.celery_peer import CeleryPeer, own_celery
from benchmarks.crews import own_crew
from benchmarks.duel import Row, alone, compare, take_turns, tell, took_s
from benchmarks.graphs import chain_20, idle, said, talk
from tenxgraph.core.graph import CompiledGraph
from tenxgraph.core.state import AgentState

STEPS = 20
SHORT, LONG = 10, 10_000
RATIO_LIMIT, STEP_LIMIT_MS, FIRST_LIMIT_MS = 1.8, 5.0, 20.0


def grown(app: CompiledGraph[AgentState], messages: int) -> str:
    """Return a fresh thread of that length, which every process of the worker has seen."""
    thread = uuid4().hex
    config = {"thread_id": thread, "recursion_limit": 60}
    app.submit({"messages": [said(number) for number in range(messages)]}, config).result(120)
    one_run(app, thread)
    return thread


def one_run(app: CompiledGraph[AgentState], thread: str) -> None:
    """Go on with a thread to the end of one more run."""
    talk(app, thread_id=thread).result(120)


def step_ms(app: CompiledGraph[AgentState], thread: str) -> float:
    """Return the time of a step of one more run on a thread, in milliseconds."""
    return took_s(partial(one_run, app, thread)) * 1000 / STEPS


def celery_ms(celery: CeleryPeer, messages: int) -> float:
    """Return the same of the peer, on a fresh history."""
    run = uuid4().hex
    celery.fill(run, [said(number).model_dump_json() for number in range(messages)])

    def read() -> None:
        celery.tasks.read_on.apply_async((run, 0, STEPS))
        celery.wait(run)

    return took_s(read) * 1000 / STEPS


def warm(rounds: int) -> Iterable[Row]:
    """Yield the rows of a worker that keeps threads."""
    with (
        own_crew("benchmarks.graphs:chain_20", pool="prefork", concurrency=2) as crew,
        own_celery(str(crew.redis_url)) as celery,
        closing(chain_20.compile(redis_url=crew.redis_url)) as app,
    ):
        threads = {length: grown(app, length) for length in (SHORT, LONG)}
        sides = {str(length): partial(step_ms, app, thread) for length, thread in threads.items()}
        took = take_turns({**sides, "celery": partial(celery_ms, celery, LONG)}, rounds)
        short, long = took[str(SHORT)], took[str(LONG)]
        yield compare(f"W3 step at {LONG:,} messages / at {SHORT}", "ms", long, short, RATIO_LIMIT)
        yield alone(f"W3 step at {LONG:,} messages, in ms", "ms", long, long, STEP_LIMIT_MS)
        yield compare(f"W3 step at {LONG:,} / Celery, history in a list", "ms", long, took["celery"], None)


def first(rounds: int) -> Iterable[Row]:
    """Yield the row of threads that no process of the worker has seen: they grew on another worker."""
    with (
        own_crew("benchmarks.graphs:idle", workers=0) as crew,
        closing(idle.compile(redis_url=crew.redis_url)) as app,
    ):
        with own_crew("benchmarks.graphs:idle", redis_url=crew.redis_url, pool="solo"):
            threads = [grown(app, LONG) for _ in range(rounds)]
        with own_crew("benchmarks.graphs:idle", redis_url=crew.redis_url, pool="solo"):
            for _ in range(5):
                talk(app).result(120)
            took = [took_s(partial(one_run, app, each)) * 1000 for each in threads]
    yield alone("W3 run of one step, thread seen for the first time, in ms", "ms", took, took, FIRST_LIMIT_MS)


def measure(rounds: int = 5) -> Iterable[Row]:
    """Yield all rows."""
    yield from warm(rounds)
    yield from first(rounds)


if __name__ == "__main__":
    sys.exit(tell(measure(*map(int, sys.argv[1:2]))))

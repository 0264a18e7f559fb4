"""Many threads that mostly wait: 200 threads of 3 steps, each `asyncio.sleep(0.5)`, on two workers of pool `threads`.

Usage: python -m benchmarks.waiting_threads [rounds]

Prints for each round the makespan, from the first submit to the end of the last run, and then the median, what CPU a
step took and what the workers held in memory at most. A round before warms up. Ends with status 1 if the median is more
than 1.5 times the ideal, which is no more than the waiting itself.
"""

import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psutil

from benchmarks.crews import own_crew, pss_bytes, workers_of
from benchmarks.graphs import WAIT_S, WAITS, waiting
from tenxgraph.core.graph import CompiledGraph
from tenxgraph.core.state import AgentState, Message
from tenxgraph.settings import Settings
from tenxgraph.store.redis import redis_store
from tenxgraph_worker.crew import Crew

THREADS = 200
IDEAL_S = WAITS * WAIT_S
LIMIT = 1.5
PATIENCE_S = 60.0
PAUSE_S = 0.5
WATCH_S = 0.5


def makespan_s(app: CompiledGraph[AgentState], redis_url: str, **config: Any) -> float:
    """Return the time from the first submit to the end of the last run, both by the store's clock."""
    with closing(redis_store(redis_url, Settings.load())) as store:
        begin_ms = store.now_ms()
        handles = [app.submit({"messages": [Message.text_message("Go")]}, config) for _ in range(THREADS)]
        for handle in handles:
            handle.result(PATIENCE_S)
        runs = [store.run(handle.run_id) for handle in handles]
        return (max(run.ended_ms for run in runs if run is not None) - begin_ms) / 1000


def cpu_s(crew: Crew) -> float:
    """Return the CPU time that the workers have used since they started, in seconds."""
    times = [psutil.Process(worker.pid).cpu_times() for worker in workers_of(crew)]
    return sum(each.user + each.system for each in times)


@contextmanager
def peak_of(crew: Crew) -> Iterator[dict[str, float]]:
    """Watch what the workers hold together; once left, the dict has the peak in ``mb``."""
    peak, done = {"mb": 0.0}, threading.Event()

    def watch() -> None:
        while not done.wait(WATCH_S):
            peak["mb"] = max(peak["mb"], sum(map(pss_bytes, workers_of(crew))) / 1e6)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()


def main(rounds: int = 5) -> int:
    """Measure, print, judge."""
    options: dict[str, Any] = {"workers": 2, "pool": "threads", "concurrency": THREADS // 2}
    with (
        own_crew("benchmarks.graphs:waiting", **options) as crew,
        closing(waiting.compile(redis_url=crew.redis_url)) as app,
        peak_of(crew) as peak,
    ):
        assert crew.redis_url is not None
        makespan_s(app, crew.redis_url)
        before_s, took_s = cpu_s(crew), list[float]()
        for _ in range(rounds):
            took_s.append(makespan_s(app, crew.redis_url))
            print(f"{THREADS} threads x {WAITS} steps: {took_s[-1]:.2f} s, load {os.getloadavg()[0]:.1f}", flush=True)
            time.sleep(PAUSE_S)
        step_ms = (cpu_s(crew) - before_s) / (rounds * THREADS * WAITS) * 1000
    median_s = statistics.median(took_s)
    print(f"median {median_s:.2f} s, {median_s / IDEAL_S:.2f} x ideal ({IDEAL_S:g} s), at most {LIMIT:g}")
    print(f"both workers: {step_ms:.1f} ms of CPU a step, peak {peak['mb']:.0f} MB PSS")
    return int(median_s > LIMIT * IDEAL_S)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2])))

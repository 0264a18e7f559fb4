"""What tenxgraph weighs before it does anything: ``tenxgraph --help``, and an idle prefork worker with two children.

Usage: python -m benchmarks.weight

Ends with status 1 if the median of the command takes more than 0.6 s, or the worker holds more than 130 MB (PSS).
"""

import statistics
import subprocess
import sys
import time
from contextlib import closing

from benchmarks.crews import own_crew, pss_bytes, workers_of
from benchmarks.graphs import idle
from tenxgraph.core.state import Message

HELP_LIMIT_S = 0.6
WORKER_LIMIT_MB = 130.0
CALLS = 11
RUNS = 20


def help_times_s() -> list[float]:
    """Return how long each call takes, Python's own start included."""
    return [_help_time_s() for _ in range(CALLS)]


def _help_time_s() -> float:
    begin_s = time.perf_counter()
    subprocess.run([sys.executable, "-m", "tenxgraph_worker.cli", "--help"], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin_s


def worker_mb() -> tuple[float, float]:
    """Return what a worker and its two children hold: fresh, and idle again after both have run nodes."""
    with own_crew("benchmarks.graphs:idle", pool="prefork", concurrency=2) as crew:
        (worker,) = workers_of(crew)
        fresh = pss_bytes(worker)
        with closing(idle.compile(redis_url=crew.redis_url)) as app:
            for handle in [app.submit({"messages": [Message.text_message("Hello")]}) for _ in range(RUNS)]:
                handle.result(60)
        return fresh / 1e6, pss_bytes(worker) / 1e6


def main() -> int:
    """Measure, print, judge."""
    times_s = help_times_s()
    fresh_mb, used_mb = worker_mb()
    median_s = statistics.median(times_s)
    print(f"tenxgraph --help: median {median_s:.2f} s, fastest {min(times_s):.2f} s, at most {HELP_LIMIT_S:.1f} s")
    print(f"idle prefork worker, two children: {fresh_mb:.0f} MB PSS, at most {WORKER_LIMIT_MB:.0f} MB")
    print(f"the same after {RUNS} runs: {used_mb:.0f} MB PSS")
    return int(median_s > HELP_LIMIT_S or fresh_mb > WORKER_LIMIT_MB)


if __name__ == "__main__":
    sys.exit(main())

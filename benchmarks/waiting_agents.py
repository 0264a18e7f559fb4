"""200 agents that ask a model at once: each has its answer after 0.5 s, on one worker of pool `threads`.

Usage: python -m benchmarks.waiting_agents [rounds]

Prints for each round the makespan, from the first submit to the end of the last run, then the median and what CPU an
agent took. Two rounds before warm up. Ends with status 1 if the median is more than 1.4 times the ideal, which is no
more than the answer's own time.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from benchmarks.agent_graphs import MODEL_URL, agents
from benchmarks.crews import own_crew
from benchmarks.model_server import ANSWER_S
from benchmarks.waiting_threads import THREADS, cpu_s, makespan_s

LIMIT = 1.4
PAUSE_S = 0.5


@contextmanager
def model_server() -> Iterator[None]:
    """Run the server; its URL is in the environment."""
    command = [sys.executable, "-m", "benchmarks.model_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        os.environ[MODEL_URL] = server.stdout.readline().strip()
        try:
            yield
        finally:
            server.kill()


def main(rounds: int = 5) -> int:
    """Measure, print, judge."""
    options: dict[str, Any] = {"workers": 1, "pool": "threads", "concurrency": THREADS}
    os.environ.setdefault("OPENAI_API_KEY", "none")
    with (
        model_server(),
        own_crew("benchmarks.agent_graphs:agents", **options) as crew,
        closing(agents.compile(redis_url=crew.redis_url)) as app,
    ):
        assert crew.redis_url is not None
        for _ in range(2):
            makespan_s(app, crew.redis_url, stream_tokens=False)
        before_s, took_s = cpu_s(crew), list[float]()
        for _ in range(rounds):
            took_s.append(makespan_s(app, crew.redis_url, stream_tokens=False))
            print(f"{THREADS} agents: {took_s[-1]:.2f} s, load {os.getloadavg()[0]:.1f}", flush=True)
            time.sleep(PAUSE_S)
        agent_ms = (cpu_s(crew) - before_s) / (rounds * THREADS) * 1000
    median_s = statistics.median(took_s)
    print(f"median {median_s:.2f} s, {median_s / ANSWER_S:.2f} x ideal ({ANSWER_S:g} s), at most {LIMIT:g}")
    print(f"worker: {agent_ms:.1f} ms of CPU an agent")
    return int(median_s > LIMIT * ANSWER_S)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2])))

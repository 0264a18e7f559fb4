"""W8: 20,000 runs are queued before a worker is up: the rate of admission, bytes a queued run, the first result."""

import sys
from collections.abc import Iterable
from contextlib import closing
from typing import Any

import redis

from benchmarks.crews import own_crew
from benchmarks.duel import Row, alone, tell, took_s
from benchmarks.graphs import idle, talk
from tenxgraph.core.graph import RunHandle
from tenxgraph.core.state import AgentState

RUNS = 20_000
RUN_LIMIT_BYTES = 2048


def measure(runs: int = RUNS) -> Iterable[Row]:
    """Yield the rows."""
    with own_crew("benchmarks.graphs:idle", workers=0) as crew:
        client: Any = redis.Redis.from_url(str(crew.redis_url))
        with closing(idle.compile(redis_url=crew.redis_url)) as app, closing(client):
            talk(app)
            before = client.info("memory")["used_memory"]
            handles: list[RunHandle[AgentState]] = []
            took = took_s(lambda: handles.extend(talk(app) for _ in range(runs)))
            per_run = (client.info("memory")["used_memory"] - before) / runs
            yield alone(f"W8 admission of {runs:,} runs", "runs/s", [runs / took], [1.0], None)
            yield alone("W8 a queued run, in bytes", "bytes", [per_run], [per_run], RUN_LIMIT_BYTES)
            with own_crew("benchmarks.graphs:idle", redis_url=crew.redis_url, pool="prefork", concurrency=2):
                first = took_s(lambda: handles[0].result(120)) * 1000
            yield alone("W8 a ready worker's first result behind that backlog", "ms", [first], [1.0], None)


if __name__ == "__main__":
    sys.exit(tell(measure(*map(int, sys.argv[1:2]))))

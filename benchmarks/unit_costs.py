"""What one step, branch or thread asks of the store's server, as threads, fan-outs and their number grow.

Usage: python -m benchmarks.unit_costs

Counts by the server's own INFO: calls (those that scripts make are not counted), CPU of the server's main thread, bytes
that come in, memory. What an idle crew asks in the same time is taken off. Not a comparison: there is no goal to miss.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import redis

from benchmarks.crews import own_crew
from benchmarks.graphs import fan, idle, said, talk, talking
from tenxgraph.core.graph import CompiledGraph
from tenxgraph.core.state import AgentState

STEPS = 50
LENGTHS = (10, 1_000, 10_000)
WIDTHS = (10, 100, 1_000)
RUNS = 300
IDLE_S = 5.0
PATIENCE_S = 300.0
Counts = dict[str, float]


@dataclass
class Meter:
    """Reads what a server has done since it started."""

    client: Any
    idle_per_s: Counts

    def counts(self) -> Counts:
        """Return calls, CPU in microseconds, bytes in, and memory in bytes."""
        cpu, stats, memory = (self.client.info(section) for section in ("cpu", "stats", "memory"))
        return {
            "calls": stats["total_commands_processed"],
            "CPU µs": 1e6 * (cpu["used_cpu_user_main_thread"] + cpu["used_cpu_sys_main_thread"]),
            "bytes in": stats["total_net_input_bytes"],
            "bytes kept": memory["used_memory"],
        }

    def rest(self) -> None:
        """Note what is asked while nothing runs."""
        before = self.counts()
        time.sleep(IDLE_S)
        self.idle_per_s = {name: (count - before[name]) / IDLE_S for name, count in self.counts().items()}

    def of(self, act: Callable[[], object]) -> Counts:
        """Return what an act asked for, without what an idle crew asks meanwhile."""
        before, began_s = self.counts(), time.monotonic()
        act()
        took_s = time.monotonic() - began_s
        return {name: count - before[name] - self.idle_per_s[name] * took_s for name, count in self.counts().items()}


def told(what: str, counts: Counts, units: int) -> str:
    """Return a line of a table."""
    return f"| {what} | " + " | ".join(f"{count / units:,.0f}" for count in counts.values()) + " |"


def run(app: CompiledGraph[AgentState], thread_id: str, length: int, steps: int) -> None:
    """Give a thread messages, and let it speak so often."""
    config = {"thread_id": thread_id, "recursion_limit": steps + 10, "length": steps}
    app.submit({"messages": [said(number) for number in range(length)]}, config).result(PATIENCE_S)


def measure(url: str) -> Iterator[str]:
    """Yield the lines."""
    with closing(redis.Redis.from_url(url)) as client:
        meter = Meter(client, {})
        with closing(talking.compile(redis_url=url)) as app:
            run(app, "first", 1, 5)
            meter.rest()
            yield f"idle, each second: {told('', meter.idle_per_s, 1)}"
            for length in LENGTHS:
                thread_id = uuid4().hex
                run(app, thread_id, length, 1)
                counts = meter.of(lambda thread_id=thread_id: run(app, thread_id, 1, STEPS))  # type: ignore[misc]
                yield told(f"a step, of {STEPS} in a row, at {length:,} messages", counts, STEPS)
        with closing(fan.compile(redis_url=url)) as app:
            for width in WIDTHS:
                counts = meter.of(lambda width=width: talk(app, str(width)).result(PATIENCE_S))  # type: ignore[misc]
                yield told(f"a branch, of {width:,} that join", counts, width)
        with closing(idle.compile(redis_url=url)) as app:
            counts = meter.of(lambda: [handle.result(PATIENCE_S) for handle in [talk(app) for _ in range(RUNS)]])
            yield told("a run of one node on a thread of its own, with its result", counts, RUNS)


def main() -> int:
    """Measure and print."""
    graphs = (f"benchmarks.graphs:{name}" for name in ("talking", "fan", "idle"))
    with own_crew(*graphs, pool="threads", concurrency=4) as crew:
        for line in measure(str(crew.redis_url)):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

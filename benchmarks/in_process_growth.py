"""What a step costs as its thread grows: a no-op node at 10 and at 10,000 messages, in process.

Usage: python -m benchmarks.in_process_growth [steps]

Prints the median time of a step for both, in microseconds, and their ratio. Ends with status 1 if the longer thread's
step takes more than twice as long.
"""

import statistics
import sys
import time
from itertools import pairwise
from typing import Any

from benchmarks.graphs import said
from tenxgraph.core.graph import CompiledGraph, StateGraph
from tenxgraph.core.state import AgentState

LIMIT = 2.0
ROUNDS = 5


class Counting(AgentState):
    """A state whose conversation is long and whose steps change nothing."""


def _looping(ticks: list[float]) -> CompiledGraph[Counting]:
    """Return a graph that notes the time each time its node runs."""

    def no_op(_state: Counting) -> None:
        ticks.append(time.perf_counter())

    def again(_state: Counting, config: dict[str, Any]) -> str:
        return "no_op" if len(ticks) <= config["length"] else "__end__"

    graph = StateGraph(Counting).add_node("no_op", no_op).set_entry_point("no_op")
    return graph.add_conditional_edges("no_op", again, ["no_op", "__end__"]).compile()


def median_step_s(messages: int, steps: int) -> float:
    """Return the median time between two runs of the node, in seconds."""
    ticks: list[float] = []
    app = _looping(ticks)
    given = {"messages": [said(number) for number in range(messages)]}
    app.invoke(given, {"thread_id": "T", "recursion_limit": steps + 10, "length": steps})
    return statistics.median(after - before for before, after in pairwise(ticks[1:]))


def main(steps: int = 60) -> int:
    """Measure, print, judge; the best of a few rounds, for others use the machine too."""
    short_s, long_s = (min(median_step_s(messages, steps) for _ in range(ROUNDS)) for messages in (10, 10_000))
    ratio = long_s / short_s
    print(f"a step at     10 messages: {short_s * 1e6:8.0f} us")
    print(f"a step at 10,000 messages: {long_s * 1e6:8.0f} us")
    print(f"ratio {ratio:.2f}, at most {LIMIT:.2f}: {'fine' if ratio <= LIMIT else 'TOO SLOW'}")
    return int(ratio > LIMIT)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2])))

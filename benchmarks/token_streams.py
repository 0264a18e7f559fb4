"""What 100 runs cost that each tell 100 tokens a second, and how late a client has them.

Usage: python -m benchmarks.token_streams [runs] [seconds]

One worker of pool `threads`; a client follows one of the runs. Prints what a token costs in commands (those of scripts
are counted too), bytes and CPU, and how old it is when the client has it.
"""

import os
import statistics
import sys
import time
from contextlib import closing
from typing import Any

import redis

from benchmarks.agent_graphs import TOKENS_PER_S, talkers
from benchmarks.crews import own_crew
from benchmarks.waiting_threads import cpu_s
from tenxgraph.core.state import Message


def main(runs: int = 100, seconds: int = 5) -> int:
    """Measure and print."""
    options: dict[str, Any] = {"workers": 1, "pool": "threads", "concurrency": runs}
    with (
        own_crew("benchmarks.agent_graphs:talkers", **options) as crew,
        closing(talkers.compile(redis_url=crew.redis_url)) as app,
        redis.Redis.from_url(str(crew.redis_url), protocol=2) as client,
    ):
        hello = {"messages": [Message.text_message("Go")]}
        app.submit(hello, {"tokens": 10}).result(60)
        config = {"tokens": seconds * TOKENS_PER_S}
        handles = [app.submit(hello, config) for _ in range(runs)]
        before, before_s, begin_s = client.info(), cpu_s(crew), time.monotonic()
        ages_ms = [
            (time.time() - (chunk.message.timestamp or 0)) * 1000
            for chunk in handles[-1].stream(response_granularity="low")
            if chunk.event == "token" and chunk.message
        ]
        for handle in handles:
            handle.result(60)
        after, worker_s, took_s = client.info(), cpu_s(crew) - before_s, time.monotonic() - begin_s
    grown = {name: after[name] - before[name] for name in ("total_commands_processed", "total_net_input_bytes")}
    redis_s = sum(after[name] - before[name] for name in ("used_cpu_user", "used_cpu_sys"))
    tokens = runs * seconds * TOKENS_PER_S
    oldest_ms = sorted(ages_ms)[int(len(ages_ms) * 0.99)]
    print(f"{runs} runs x {seconds} s: {tokens} tokens in {took_s:.1f} s, load {os.getloadavg()[0]:.1f}")
    print("a token: " + ", ".join(f"{value / tokens:.1f} {name}" for name, value in grown.items()))
    print(f"a token: {redis_s / tokens * 1e6:.0f} us of CPU in Redis, {worker_s / tokens * 1e6:.0f} us in the worker")
    print(f"a token is {statistics.median(ages_ms):.0f} ms old when the client has it, p99 {oldest_ms:.0f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))

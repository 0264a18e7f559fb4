"""What a step sends to Redis as its thread grows: a node that adds one message, at 10 and at 10,000 messages.

Usage: python -m benchmarks.bytes_per_step

Counts by the server's own `total_net_input_bytes`, on one worker of pool `solo` and with all that a run sends besides:
its admission, the messages to the broker and their acknowledgement. What an idle crew sends in the same time is
measured before and taken off. Measured with the default settings, where messages carry a small state, and with every
state by reference, the harder case for the ratio. Ends with status 1 if one ratio is more than 1.2.
"""

import os
import sys
import time
from contextlib import closing
from typing import Any
from uuid import uuid4

import redis

from benchmarks.crews import own_crew
from benchmarks.graphs import said, talking
from tenxgraph.core.graph import CompiledGraph
from tenxgraph.core.state import AgentState, Message
from tenxgraph.settings import ENV_PREFIX

LIMIT = 1.2
STEPS = 20
ROUNDS = 3
IDLE_S = 5.0
LENGTHS = (10, 10_000)
PATIENCE_S = 120.0
INLINE = f"{ENV_PREFIX}INLINE_STATE_BYTES"


class Meter:
    """Reads what a server was sent.

    Args:
        url: Of the server.
    """

    def __init__(self, url: str) -> None:
        self._client: Any = redis.Redis.from_url(url)
        self.idle_bytes_s = 0.0

    def bytes_in(self) -> int:
        """Return the bytes sent to the server since it started; this question is among them."""
        return int(self._client.info("stats")["total_net_input_bytes"])

    def rest(self) -> None:
        """Note what is sent while nothing runs."""
        before = self.bytes_in()
        time.sleep(IDLE_S)
        self.idle_bytes_s = (self.bytes_in() - before) / IDLE_S

    def close(self) -> None:
        self._client.close()


def run(app: CompiledGraph[AgentState], thread_id: str, messages: list[Message], steps: int) -> None:
    """Run a number of steps on a thread, and wait for the end."""
    config = {"thread_id": thread_id, "recursion_limit": steps + 10, "length": steps}
    app.submit({"messages": messages}, config).result(PATIENCE_S)


def bytes_per_step(app: CompiledGraph[AgentState], meter: Meter, length: int) -> float:
    """Return what a step sends on a fresh thread that was given so many messages, in bytes."""
    thread_id = uuid4().hex
    run(app, thread_id, [said(number) for number in range(length)], 1)
    before, begin_s = meter.bytes_in(), time.monotonic()
    run(app, thread_id, [said(0)], STEPS)
    took_s = time.monotonic() - begin_s
    return (meter.bytes_in() - before - meter.idle_bytes_s * took_s) / STEPS


def measure() -> tuple[float, ...]:
    """Return what a step sends at each of the lengths; the least of a few rounds."""
    with own_crew("benchmarks.graphs:talking", pool="solo") as crew:
        assert crew.redis_url is not None
        with closing(talking.compile(redis_url=crew.redis_url)) as app, closing(Meter(crew.redis_url)) as meter:
            run(app, "first", [said(0)], 1)
            meter.rest()
            return tuple(min(bytes_per_step(app, meter, length) for _ in range(ROUNDS)) for length in LENGTHS)


def judge(how: str) -> bool:
    """Measure, print, and return whether the ratio is fine."""
    short, long = measure()
    at = ", ".join(f"{size:,.0f} bytes at {length:,}" for length, size in zip(LENGTHS, (short, long), strict=True))
    print(f"{how}: {at} messages; ratio {long / short:.2f}, at most {LIMIT:.1f}", flush=True)
    return long <= LIMIT * short


def main() -> int:
    """Measure, print, judge."""
    fine = judge("small state in the message")
    os.environ[INLINE] = "0"
    return int(not judge("state by reference") or not fine)


if __name__ == "__main__":
    sys.exit(main())

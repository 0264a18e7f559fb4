"""A broker at its worst: between those who publish and the workers, every message is doubled, delayed and overtaken.

All publish to one queue and the workers consume another; this process carries the messages over. It works on the
broker's lists, so it spares nobody: client, workers and scheduler are all disturbed, however they publish.
"""

import heapq
import random
import time
import uuid
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import orjson
import redis

from tests.acceptance.workers import Deployment, Process

COPIES = 2
_PRIORITY_SUFFIXES = ("", "\x06\x163", "\x06\x166", "\x06\x169")
_LONGEST_S = 0.04
_LATE_S = 0.4
_LATE_SHARE = 0.1
_IDLE_S = 1.0

_CODE = "import sys; from tests.acceptance.shuffling import main; main(*sys.argv[1:])"


@dataclass
class Shuffler:
    """Carries messages over.

    Attributes:
        source: Queue that is published to.
        target: Queue that workers consume.
    """

    client: "redis.Redis"
    source: str
    target: str
    chance: random.Random
    _held: list[tuple[float, int, str, bytes]] = field(default_factory=list)
    _numbers: Any = field(default_factory=count)
    _newest: int = -1
    _largest: int = 0

    def carry_for_ever(self) -> None:
        """Take, hold and hand on."""
        sources = [self.source + suffix for suffix in _PRIORITY_SUFFIXES]
        while True:
            taken: Any = self.client.brpop(sources, timeout=self._wait_s())
            if taken is not None:
                self._take(taken[0].decode().removeprefix(self.source), taken[1])
            self._hand_on()

    def _wait_s(self) -> float:
        return max(0.001, self._held[0][0] - time.monotonic()) if self._held else _IDLE_S

    def _take(self, suffix: str, message: bytes) -> None:
        number = next(self._numbers)
        self._note("taken")
        self._measure(len(message))
        for _ in range(COPIES):
            longest_s = _LATE_S if self.chance.random() < _LATE_SHARE else _LONGEST_S
            due_s = time.monotonic() + self.chance.uniform(0, longest_s)
            heapq.heappush(self._held, (due_s, number, self.target + suffix, _copy(message)))

    def _hand_on(self) -> None:
        while self._held and self._held[0][0] <= time.monotonic():
            _, number, target, message = heapq.heappop(self._held)
            self.client.lpush(target, message)
            self._note("handed on")
            if number < self._newest:
                self._note("overtaken")
            self._newest = max(self._newest, number)

    def _measure(self, size_bytes: int) -> None:
        if size_bytes > self._largest:
            self._largest = size_bytes
            self.client.hset(_tally_key(self.source), "largest", str(size_bytes))

    def _note(self, what: str) -> None:
        self.client.hincrby(_tally_key(self.source), what, 1)


def _copy(message: bytes) -> bytes:
    """Return a message as a second publish of the same task would have made it: under a delivery tag of its own."""
    envelope = orjson.loads(message)
    envelope["properties"]["delivery_tag"] = str(uuid.uuid4())
    return orjson.dumps(envelope)


def _tally_key(source: str) -> str:
    return f"{source}:shuffled"


def served_queue(deployment: Deployment) -> str:
    """Return the queue that a disturbed installation's workers must consume."""
    return f"{deployment.queue}-shuffled"


def start_shuffler(deployment: Deployment, seed: int) -> Process:
    """Stand between everybody and the workers, which must consume :func:`served_queue`."""
    words = (deployment.url, deployment.queue, served_queue(deployment), str(seed))
    return deployment.start("shuffler", _CODE, *words)


def tally(deployment: Deployment) -> dict[str, int]:
    """Return how many messages were ``taken``, ``handed on``, ``overtaken`` by a later one; ``largest`` in bytes."""
    with redis.Redis.from_url(deployment.url, protocol=2) as client:
        noted: Any = client.hgetall(_tally_key(deployment.queue))
    return {name.decode(): int(number) for name, number in noted.items()}


def main(url: str, source: str, target: str, seed: str) -> None:
    """Carry until killed."""
    Shuffler(redis.Redis.from_url(url, protocol=2), source, target, random.Random(int(seed))).carry_for_ever()

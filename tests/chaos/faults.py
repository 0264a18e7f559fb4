"""Every few seconds something is killed, and as often something else breaks. Which, when and whom is the seed's."""

import random
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
import redis

from tests.chaos.fleet import Fleet, Member

_SUFFIXES: Final = ("", "\x06\x163", "\x06\x166", "\x06\x169")
"""kombu keeps a list for each step of priority."""

_TRIES: Final = 40
_LOOK_S: Final = 0.02
_HEAL_S: Final = 1.0


@dataclass(frozen=True)
class Fault:
    """What was done.

    Attributes:
        until_s: When its direct consequence was over: the server back, the worker going on.
        whom: ``name#life`` of a process, ``name#life/pid`` of one of its pool, or how much.
    """

    kind: str
    at_s: float
    until_s: float
    whom: str


@dataclass
class Faults:
    """Strikes until told to stop.

    Attributes:
        only: Kinds that hold this text; empty for all.
        pause_s: The least and the most time between two strikes.
        stop_s: How long a paused worker is stopped: past its lease.
    """

    fleet: Fleet
    seed: int
    pause_s: tuple[float, float] = (2.0, 5.0)
    stop_s: tuple[float, float] = (3.5, 6.0)
    only: str = ""
    done: list[Fault] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self._over = threading.Event()
        self._one_by_one = threading.Lock()
        kinds = [kind for kind in self._kinds() if self.only in kind]
        streams = [kind for kind in kinds if "killed" in kind], [kind for kind in kinds if "killed" not in kind]
        self._threads = [threading.Thread(target=self._strike_on, args=(stream,)) for stream in streams if stream]
        queue = self.fleet.settings["DEFAULT_QUEUE"]
        self._queues = [queue + suffix for suffix in _SUFFIXES]
        self._client = redis.Redis(port=self.fleet.server.port, socket_timeout=5, socket_connect_timeout=2)

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        heals_s = max((fault.until_s for fault in self.done), default=0) - time.time()
        time.sleep(max(0.0, heals_s) + _HEAL_S)  # who is stopped goes on

    def _strike_on(self, kinds: list[str]) -> None:
        chance, bag = random.Random(f"{self.seed} {kinds}"), list[str]()
        while not self._over.wait(chance.uniform(*self.pause_s)):
            if not bag:  # every kind has its turn before one comes again
                bag = chance.sample(kinds, len(kinds))
            with self._one_by_one, suppress(redis.RedisError):
                self._strike(bag.pop())

    def _strike(self, kind: str) -> None:
        at_s = time.time()
        what = self._kinds()[kind]()
        if what is not None:
            until_s, whom = what
            self.done.append(Fault(kind, at_s, until_s or time.time(), whom))

    def _kinds(self) -> dict[str, Callable[[], tuple[float, str] | None]]:
        return {
            "worker killed": lambda: self._kill(self.fleet.workers),
            "worker killed (2)": lambda: self._kill(self.fleet.workers),
            "scheduler killed": lambda: self._kill(self.fleet.scheduler_members),
            "server killed": self._restart_server,
            "pool process killed": self._kill_child,
            "worker paused": self._pause,
            "messages dropped": self._drop,
            "messages doubled": self._double,
            "connections cut": self._cut,
        }

    def _kill(self, members: list[Member]) -> tuple[float, str]:
        member = self.chance.choice(members)
        label = member.label
        self.fleet.kill(member)
        return 0.0, label

    def _kill_child(self) -> tuple[float, str] | None:
        member = self.fleet.workers[self.fleet.pools.index("prefork")]
        label, pid = member.label, self.fleet.kill_child(member, self.chance.randrange(100))
        return (0.0, f"{label}/{pid}") if pid else None

    def _restart_server(self) -> tuple[float, str]:
        self.fleet.restart_server()
        return 0.0, "redis"

    def _pause(self) -> tuple[float, str]:
        member, pause_s = self.chance.choice(self.fleet.workers), self.chance.uniform(*self.stop_s)
        self.fleet.pause(member, pause_s)
        return time.time() + pause_s, member.label

    # -- at the broker's own lists, behind everybody's back

    def _drop(self) -> tuple[float, str] | None:
        count = self._at_messages(lambda queue: self._client.lpop(queue, self.chance.choice([1, 3, 1000])))
        return (0.0, f"{count} messages") if count else None

    def _double(self) -> tuple[float, str] | None:
        def double(queue: str) -> Any:
            found: Any = self._client.lrange(queue, 0, 50)
            copies = [_copy(message) for message in found]
            if copies:
                self._client.lpush(queue, *copies)
            return copies

        count = self._at_messages(double)
        return (0.0, f"{count} messages") if count else None

    def _at_messages(self, act: Callable[[str], Any]) -> int:
        """Wait for a moment in which messages are queued, and act on them."""
        for _ in range(_TRIES):
            count = sum(len(act(queue) or ()) for queue in self._queues)
            if count:
                return count
            time.sleep(_LOOK_S)
        return 0

    def _cut(self) -> tuple[float, str]:
        tell: Callable[..., int] = self._client.execute_command
        count = sum(tell("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes") for kind in ("normal", "pubsub"))
        return 0.0, f"{count} connections"


def _copy(message: bytes) -> bytes:
    """Return a message as a second publish would have made it: under a delivery tag of its own."""
    envelope = orjson.loads(message)
    envelope["properties"]["delivery_tag"] = str(uuid.uuid4())
    return orjson.dumps(envelope)

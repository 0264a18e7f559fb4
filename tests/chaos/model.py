"""``python -m tests.chaos.model``: the model of the protocol, at length, on the memory store and on an embedded Valkey.

On the server the scripts are the real ones but for one thing: their clock can be turned, so that an hour costs nothing
and jumps back and forth are moves like others.
"""

import argparse
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import redis
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tenxgraph.store.redis import RedisStore
from tenxgraph.store.redis_scripts import Scripts
from tenxgraph.testing.store_contract import MemoryHarness, StoreHarness
from tenxgraph.testing.store_model import StoreMachine
from tests.servers import EmbeddedValkey, client_of, running

_PREFIXES = (f"model-{number}" for number in count())
_STEPS: Final = 60
_HOUR_MS: Final = 3_600_000
_ROUND: Final = 50
"""Stories between two looks at how many moves were made."""

_TURNED: Final = """
local function turned_clock()
  local clock = redis.call('TIME')
  local now = clock[1] * 1000000 + clock[2] + (redis.call('GET', 'turned:{clock}') or 0) * 1000
  return { math.floor(now / 1000000), now % 1000000 }
end
"""


class TurnableScripts(Scripts):
    """The scripts of a store, with a clock that can be turned."""

    def script(self, name: str, keys: Any, *args: Any) -> Any:
        """See :meth:`Scripts.script`."""
        is_new = name not in self._digests
        command = super().script(name, keys, *args)
        if is_new:
            self._turn(name)
            return super().script(name, keys, *args)
        return command

    def _turn(self, name: str) -> None:
        text = self._texts.pop(self._digests.pop(name))
        turned = _TURNED + text.replace("redis.call('TIME')", "turned_clock()")
        digest = str(self.client.script_load(turned))
        self._texts[digest], self._digests[name] = turned, digest


class TurnableStore(RedisStore):
    """A Redis store whose time is told by the scripts' clock."""

    def __init__(self, client: "redis.Redis", **options: Any) -> None:
        super().__init__(client, **options)
        turnable = TurnableScripts(client, {})
        turnable._constants = self._scripts._constants
        self._scripts = turnable

    def now_ms(self) -> int:
        """See :meth:`Store.now_ms`."""
        turned: Any = self._scripts.client.get("turned:{clock}")
        return super().now_ms() + int(turned or 0)


class TurnableHarness:
    """A store on a real server, and its time."""

    def __init__(self, client: "redis.Redis", *, watch_ms: int = 100) -> None:
        client.flushdb()  # the server is this run's own
        self.watch_ms = watch_ms
        self.store = TurnableStore(client, key_prefix=next(_PREFIXES), watch_ms=watch_ms)

    def sleep_ms(self, ms: int) -> None:
        """Turn the clock."""
        self.store._scripts.client.incrby("turned:{clock}", ms)


def counted(make: Callable[[], StoreHarness], moves: "Counted") -> "type[RuleBasedStateMachine]":
    """Return the machine on a store, that counts its moves."""

    class Counting(StoreMachine):
        def make_harness(self) -> StoreHarness:
            moves.made -= 1  # the look before the first move
            return make()

        @rule(hours=st.integers(-3, 3), ms=st.sampled_from([-80, -1, 0, 1, 80]))
        def the_clock_jumps(self, hours: int, ms: int) -> None:
            """Somebody sets the server's clock, or a replica with another one takes over."""
            self.moves.harness.sleep_ms(hours * _HOUR_MS + ms)

        def check_invariants(self, *args: Any, **kwargs: Any) -> None:
            moves.made += 1
            super().check_invariants(*args, **kwargs)

    return Counting


class Counted:
    """How many moves were made."""

    def __init__(self) -> None:
        self.made = 0


def run_model(make: Callable[[], StoreHarness], wanted: int, first_seed: int, limit_s: float) -> tuple[int, float]:
    """Let the machine make so many moves, or as many as the time allows.

    Returns:
        Moves and seconds.
    """
    moves, began_s = Counted(), time.monotonic()
    machine = counted(make, moves)
    for number in count():
        if moves.made >= wanted or time.monotonic() - began_s > limit_s:
            return moves.made, time.monotonic() - began_s
        stories = min(_ROUND, 1 + (wanted - moves.made) // _STEPS)
        run_state_machine_as_test(seed(first_seed + number)(machine), settings=_settings(stories))
    raise AssertionError("unreachable")


def _settings(stories: int) -> settings:
    return settings(
        max_examples=stories,
        stateful_step_count=_STEPS,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@contextmanager
def on_valkey(folder: Path) -> Iterator[Callable[[], StoreHarness]]:
    """Yield what makes empty stores on an embedded Valkey with a clock that can be turned."""
    with running(EmbeddedValkey(folder)) as server, client_of(server.port) as client:
        yield lambda: TurnableHarness(client)


def main() -> int:
    """Return 0 if no invariant broke; hypothesis shows the story of the one that did."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.model", description=__doc__)
    parser.add_argument("--memory", type=int, default=80_000, help="moves on the memory store")
    parser.add_argument("--valkey", type=int, default=20_000, help="moves on the embedded Valkey")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--limit-s", type=float, default=240, help="at most so long on each")
    options = parser.parse_args()
    _say(f"seed {options.seed}")
    made, took_s = run_model(MemoryHarness, options.memory, options.seed, options.limit_s)
    _say(f"memory store: {made} moves in {took_s:.0f} s")
    with tempfile.TemporaryDirectory() as folder, on_valkey(Path(folder)) as make:
        on_server, server_took_s = run_model(make, options.valkey, options.seed, options.limit_s)
    _say(f"embedded Valkey: {on_server} moves in {server_took_s:.0f} s")
    _say(f"{made + on_server} moves, no invariant broken")
    return 0 if made + on_server >= options.memory + options.valkey else 1


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

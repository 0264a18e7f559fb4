"""A run goes from one status to another only as the table says: every store refuses the rest, whoever asks."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.resources import files
from typing import Any

import fakeredis
import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenxgraph.core.exceptions import StorageError
from tenxgraph.core.graph.run_status import MOVES, RunStatus
from tenxgraph.store.base import Claim, TaskStatus
from tenxgraph.store.memory import MemoryStore
from tenxgraph.store.redis_scripts import storage_errors
from tenxgraph.testing.contract.harness import LONG_MS, StoreMoves
from tenxgraph.testing.store_contract import MemoryHarness
from tests.servers import RedisHarness, client_of, valkey_server  # noqa: F401  # fixtures come by import


class InMemory:
    """The memory store, and a hand in it."""

    def make(self) -> StoreMoves:
        moves = StoreMoves()
        moves.harness = MemoryHarness()
        return moves

    def force(self, moves: StoreMoves, status: RunStatus) -> None:
        assert isinstance(moves.store, MemoryStore)
        moves.store._threads["t1"].runs["r1"].status = status

    def move(self, moves: StoreMoves, to: RunStatus) -> None:
        assert isinstance(moves.store, MemoryStore)
        moves.store._threads["t1"].runs["r1"].move_to(to)


class InRedis:
    """The store in Redis, and a hand in it."""

    def __init__(self, client: "redis.Redis") -> None:
        self.client = client

    def make(self) -> StoreMoves:
        moves = StoreMoves()
        moves.harness = RedisHarness(self.client)
        return moves

    def _base(self, moves: StoreMoves) -> str:
        assert isinstance(moves.harness, RedisHarness)
        return moves.harness.store._keys.base("t1")

    def force(self, moves: StoreMoves, status: RunStatus) -> None:
        self.client.hset(f"{self._base(moves)}run:r1", "status", status)

    def move(self, moves: StoreMoves, to: RunStatus) -> None:
        assert isinstance(moves.harness, RedisHarness)
        lua = files("tenxgraph.store") / "lua"
        parts = [(lua / f"{name}.lua").read_text() for name in ("_record", "_thread")]
        driver = "set_status(run_of('r1'), ARGV[1])\nsave()"
        script = "\n".join([moves.harness.store._scripts._constants, *parts, driver])
        with storage_errors("here"):
            self.client.eval(script, 1, self._base(moves), to)


Hand = InMemory | InRedis


@pytest.fixture(params=["memory", "fakeredis", "valkey"])
def hand(request: pytest.FixtureRequest) -> Iterator[Hand]:
    if request.param == "memory":
        yield InMemory()
        return
    fake = request.param == "fakeredis"
    with fakeredis.FakeRedis() if fake else client_of(request.getfixturevalue("valkey_server").port) as client:
        yield InRedis(client)


@pytest.mark.parametrize("before", RunStatus)
def test_a_store_makes_the_moves_of_the_table_and_no_other(hand: Hand, before: RunStatus) -> None:
    moves = hand.make()
    moves.admit()
    for after in set(RunStatus) - {before}:
        hand.force(moves, before)
        if after in MOVES[before]:
            hand.move(moves, after)
            assert moves.status() is after
        else:
            with pytest.raises(StorageError, match=f"from {before} to {after}"):
                hand.move(moves, after)
            assert moves.status() is before


# -- through the port


def _queued(moves: StoreMoves) -> None:
    moves.admit()


def _ready(moves: StoreMoves) -> None:
    moves.begin("a", "b")


def _claimed(moves: StoreMoves) -> Claim:
    return moves.begin_and_claim("a")[0]


def _in_retry_wait(moves: StoreMoves) -> None:
    moves.retry_later(_claimed(moves))


def _paused(moves: StoreMoves) -> None:
    moves.pause("a")


def _asking(moves: StoreMoves) -> None:
    moves.ask(_claimed(moves), "i1")


def _ended(moves: StoreMoves) -> None:
    moves.finish(moves.start())


SCENES: list[Callable[[StoreMoves], Claim | None]] = [
    _queued, _ready, _claimed, _in_retry_wait, _paused, _asking, _ended,
]  # fmt: skip


def _claims(moves: StoreMoves, claim: Claim | None) -> Claim | None:
    for task in moves.store.tasks("r1"):
        if claim is None and task.status is TaskStatus.QUEUED:
            ref = next(d.ref for d in moves.admit().dispatch if d.ref.task == task.task)
            claimed = moves.try_claim(ref)
            return claimed if isinstance(claimed, Claim) else None
    return claim


def _with(call: Callable[[StoreMoves, Claim], object]) -> Callable[[StoreMoves, Claim | None], None]:
    def use(moves: StoreMoves, claim: Claim | None) -> None:
        if claim is not None:
            call(moves, claim)

    return use


CALLS: list[Callable[[StoreMoves, Any], object]] = [
    lambda moves, _: moves.stop(),
    lambda moves, _: moves.cancel(),
    lambda moves, _: moves.resume(),
    lambda moves, _: moves.resume({"i1": b"1"}),
    lambda moves, _: moves.admit("r2", strategy="interrupt"),
    lambda moves, _: moves.admit("r2", strategy="rollback"),
    lambda moves, _: moves.recover(),
    lambda moves, _: moves.admit(),
    _claims,
    _with(lambda moves, claim: moves.commit(claim)),
    _with(lambda moves, claim: moves.fail(claim)),
    _with(lambda moves, claim: moves.ask(claim, "i2")),
    _with(lambda moves, claim: moves.advance(claim, "c")),
    _with(lambda moves, claim: moves.finish(claim)),
    _with(lambda moves, claim: moves.finish(claim, RunStatus.FAILED)),
    _with(lambda moves, claim: moves.advance(claim, "c", status=RunStatus.WAITING, wait="before")),
    _with(lambda moves, claim: moves.store.hand_back(claim.ref, claim.token)),
    _with(lambda moves, claim: moves.store.renew(claim.ref, claim.token, lease_ms=LONG_MS)),
]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    scene=st.sampled_from(SCENES),
    forced=st.sampled_from([None, *RunStatus]),
    calls=st.lists(st.sampled_from(CALLS), min_size=1, max_size=4),
)
def test_no_call_moves_a_run_as_the_table_does_not(
    hand: Hand, scene: Callable[[StoreMoves], Claim | None], forced: RunStatus | None, calls: list[Any]
) -> None:
    moves = hand.make()
    claim = scene(moves)
    if forced is not None:
        hand.force(moves, forced)
    for call in calls:
        before = moves.status()
        with suppress(StorageError, StopIteration):
            claim = call(moves, claim) if call is _claims else (call(moves, claim), claim)[1]
        after = moves.status()
        assert after is before or after in MOVES[before], call


def test_both_stores_set_a_status_in_one_place() -> None:
    folder = files("tenxgraph.store")
    memory = [path.read_text() for path in folder.iterdir() if path.name.startswith("memory")]
    lua = [path.read_text() for path in (folder / "lua").iterdir()]
    assert sum(len(re.findall(r"(?:run|old|self)\.status = ", text)) for text in memory) == 1
    assert sum(len(re.findall(r"run(?:_of\(\w+\))?\.status(?:, [\w.]+)* = ", text)) for text in lua) == 1

"""A thread goes back to an older version by writing a new one: every version, old and new, still reads back equal."""

import random
from collections.abc import Callable, Iterator
from importlib.resources import files

import fakeredis
import pytest

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.image import Version
from tenxgraph.store.base import Refusal
from tenxgraph.store.memory import MemoryStore
from tenxgraph.testing.contract.harness import LONG_MS, StoreMoves
from tenxgraph.testing.contract.reading import Contents, contents, patched, random_patch
from tenxgraph.testing.store_contract import MemoryHarness
from tests.servers import RedisHarness, client_of, valkey_server  # noqa: F401  # fixtures come by import

Back = Callable[[StoreMoves, int, str], None]


def back_in_memory(moves: StoreMoves, number: int, nonce: str) -> None:
    assert isinstance(moves.store, MemoryStore)
    thread = moves.store._threads["t1"]
    thread.return_to(number, nonce, thread.runs["r1"], RunStatus.RUNNING, b"meta", 0)


def back_in_redis(moves: StoreMoves, number: int, nonce: str) -> None:
    assert isinstance(moves.harness, RedisHarness)
    scripts, base = moves.harness.store._scripts, moves.harness.store._keys.base("t1")
    lua = files("tenxgraph.store") / "lua"
    parts = [(lua / f"{name}.lua").read_text() for name in ("_record", "_thread", "_history")]
    driver = "return_to(ARGV[1], ARGV[2], 'r1', 1, 'running', 'meta')\nsave()"
    scripts.client.eval("\n".join([scripts._constants, *parts, driver]), 1, base, number, nonce)


@pytest.fixture(params=["memory", "fakeredis", "valkey"])
def moves_and_back(request: pytest.FixtureRequest) -> Iterator[tuple[StoreMoves, Back]]:
    moves = StoreMoves()
    if request.param == "memory":
        moves.harness = MemoryHarness()
        yield moves, back_in_memory
        return
    fake = request.param == "fakeredis"
    with fakeredis.FakeRedis() if fake else client_of(request.getfixturevalue("valkey_server").port) as client:
        moves.harness = RedisHarness(client)
        yield moves, back_in_redis


@pytest.mark.parametrize("seed", range(12))
def test_every_version_reads_back_equal_also_over_returns(seed: int, moves_and_back: tuple[StoreMoves, Back]) -> None:
    (moves, back), chance = moves_and_back, random.Random(seed)
    claim = moves.start("r1")
    states: list[Contents] = [({}, {})]
    for place in range(24):
        if place % 3 == 2:
            # An advance and a return do not share a script: the claimed step stays, the version moves under it.
            number = chance.randrange(len(states))
            back(moves, number, f"back {place}")
            states.append(states[number])
            continue
        patch = random_patch(chance)
        step = moves.next_step(claim, "a", patch=patch, base=moves.store.image("t1").version)
        message = moves.store.advance(claim.ref, claim.token, step).dispatch[0]
        known = chance.choice([None, claim.image, moves.store.image("t1", chance.randrange(len(states)))])
        again = moves.store.claim(message.ref, f"n{place}", worker="w", lease_ms=LONG_MS, known=known, events=b"")
        assert not isinstance(again, Refusal)
        claim = again
        states.append(patched(states[-1], patch))
        assert contents(claim.image) == states[-1]
    for number, state in enumerate(states):
        assert contents(moves.store.image("t1", number)) == state
    newest = moves.store.image("t1")
    assert contents(newest) == states[-1]
    for known in (None, *(moves.store.image("t1", number) for number in range(len(states)))):
        assert contents(moves.store.image("t1", None, known)) == states[-1]


def test_a_return_is_a_version_of_its_own_and_counts_on(moves_and_back: tuple[StoreMoves, Back]) -> None:
    moves, back = moves_and_back
    moves.begin_and_claim("a")
    back(moves, 0, "back")
    assert moves.thread().version == Version(2, "back")
    point = moves.store.checkpoint("t1")
    assert point is not None
    assert (point.version, point.run_id, point.status, point.meta) == (
        Version(2, "back"),
        "r1",
        RunStatus.RUNNING,
        b"meta",
    )

"""The store contract on every store there is."""

from collections.abc import Callable, Iterator

import fakeredis
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenxgraph.core.state.image import Patch
from tenxgraph.testing.store_contract import MemoryHarness, StoreContract, StoreHarness
from tests.servers import RedisHarness, client_of, redis_server, valkey_server  # noqa: F401  # fixtures come by import


class TestMemoryStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _harness(self) -> None:
        self.harness = MemoryHarness()


class TestRedisStoreOnFakeRedis(StoreContract):
    @pytest.fixture(autouse=True)
    def _harness(self) -> Iterator[None]:
        with fakeredis.FakeRedis() as client:
            self.harness = RedisHarness(client)
            yield


@pytest.mark.redis_server
class TestRedisStoreOnRedisServer(StoreContract):
    @pytest.fixture(autouse=True)
    def _harness(self, request: pytest.FixtureRequest) -> Iterator[None]:
        with client_of(request.getfixturevalue("redis_server").port) as client:
            self.harness = RedisHarness(client)
            yield


class TestRedisStoreOnValkey(StoreContract):
    @pytest.fixture(autouse=True)
    def _harness(self, request: pytest.FixtureRequest) -> Iterator[None]:
        with client_of(request.getfixturevalue("valkey_server").port) as client:
            self.harness = RedisHarness(client)
            yield


# -- the same rule for any patches

_names = st.sampled_from(["a", "b", "c"])
_items = st.lists(st.binary(max_size=8), max_size=4).map(tuple)


@st.composite
def patches(draw: st.DrawFn) -> Patch:
    """A patch that names each list at most once."""
    lists = draw(st.dictionaries(_names, st.tuples(st.booleans(), _items)))
    return Patch(
        draw(st.dictionaries(_names.map("v".__add__), st.binary(max_size=8))),
        {name: items for name, (is_append, items) in lists.items() if is_append and items},
        {name: items for name, (is_append, items) in lists.items() if not is_append},
    )


@pytest.fixture(
    params=["memory", "fakeredis", pytest.param("redis_server", marks=pytest.mark.redis_server), "valkey_server"]
)
def make_harness(request: pytest.FixtureRequest) -> Iterator[Callable[[], StoreHarness]]:
    """Makes empty stores, one for each example."""
    if request.param == "memory":
        yield MemoryHarness
        return
    fake = request.param == "fakeredis"
    with fakeredis.FakeRedis() if fake else client_of(request.getfixturevalue(request.param).port) as client:
        yield lambda: RedisHarness(client)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(patches(), max_size=8))
def test_every_version_reads_back_equal_after_any_patches(
    make_harness: Callable[[], StoreHarness], steps: list[Patch]
) -> None:
    contract = StoreContract()
    contract.harness = make_harness()
    contract.check_every_version(steps)

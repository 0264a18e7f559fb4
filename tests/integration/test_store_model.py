"""The Redis store under the random machine, on a server whose time passes by itself."""

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tenxgraph.store.base import RecoveryRules
from tenxgraph.testing.store_contract import StoreHarness
from tenxgraph.testing.store_model import StoreMachine
from tests.servers import RedisHarness, Server, client_of, valkey_server  # noqa: F401  # fixtures come by import

_SETTINGS = settings(
    max_examples=20, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def test_the_redis_store_keeps_the_invariants(valkey_server: Server) -> None:  # noqa: F811  # the fixture by its name
    with client_of(valkey_server.port) as client:

        class OnAServer(StoreMachine):
            times_ms = (1, 15, 80)
            rules_of_recovery = RecoveryRules(grace_ms=20, max_deliveries=2)

            def make_harness(self) -> StoreHarness:
                return RedisHarness(client)

        run_state_machine_as_test(OnAServer, settings=_SETTINGS)

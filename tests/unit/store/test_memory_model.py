"""The memory store under the random machine."""

from hypothesis import HealthCheck, settings

from tenxgraph.testing.store_model import StoreMachine

TestMemoryStore = StoreMachine.TestCase
TestMemoryStore.settings = settings(
    max_examples=400, stateful_step_count=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

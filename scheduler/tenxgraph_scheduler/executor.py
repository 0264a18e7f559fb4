"""The distributed executor: a graph's client on Redis and Celery. Workers elsewhere run its nodes."""

from functools import partial
from typing import TypeVar

from tenxgraph.core.graph.definition import GraphDefinition
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.engine.client import EngineClient
from tenxgraph.engine.runtime import Runtime
from tenxgraph.guard import refuse_beside_10xgraph
from tenxgraph.settings import Settings
from tenxgraph.store.base import Store
from tenxgraph.store.redis import redis_store
from tenxgraph_scheduler.broker import broker_url, make_celery, store_url
from tenxgraph_scheduler.clock import StoreClock
from tenxgraph_scheduler.dispatch import CeleryDispatcher

StateT = TypeVar("StateT", bound=AgentState)


class DistributedExecutor(EngineClient[StateT]):
    """Submits runs of a graph to a store that workers watch, and follows them there. It connects when first used.

    Args:
        definition: The graph.
        settings: Store, broker and defaults of runs.
        store: Where threads live; None for the Redis that is named.
        redis_url: The store's URL, instead of the configured one.

    Raises:
        InvalidInputError: ``NO_REDIS``; neither an argument nor a setting names a Redis.
        TenxGraphError: ``ENVIRONMENT``; 10xgraph is installed beside us.
    """

    def __init__(
        self,
        definition: GraphDefinition[StateT],
        *,
        settings: Settings,
        store: Store | None = None,
        redis_url: str | None = None,
    ) -> None:
        refuse_beside_10xgraph()
        url = redis_url or getattr(store, "redis_url", None)
        broker = broker_url(settings, url)
        if store is None:
            store = redis_store(store_url(settings, url), settings)
        self._dispatcher = CeleryDispatcher(
            partial(make_celery, settings, broker),
            settings,
            now_ms=StoreClock(store.now_ms).now_ms,
            store_url=getattr(store, "redis_url", None),
        )
        super().__init__(
            Runtime(definition, default_timeout_s=settings.node_timeout_s, default_queue=settings.default_queue),
            store,
            self._dispatcher,
            recursion_limit=settings.recursion_limit,
            does_io=True,
            prepare=self._dispatcher.prepare,
        )

    def close(self) -> None:
        """See :meth:`Executor.close`."""
        super().close()
        self._dispatcher.close()

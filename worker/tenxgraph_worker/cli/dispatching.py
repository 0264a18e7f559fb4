"""Put on the broker what a request of a person set going."""

from collections.abc import Sequence

from tenxgraph.settings import Settings
from tenxgraph.store.base import Dispatch, Store
from tenxgraph_scheduler.broker import broker_url, make_celery
from tenxgraph_scheduler.dispatch import CeleryDispatcher


def dispatch_all(dispatches: Sequence[Dispatch], store: Store, settings: Settings) -> None:
    """Send the tasks' messages; one that cannot be sent is left to the scheduler."""
    if not dispatches:
        return
    dispatcher = CeleryDispatcher(lambda: make_celery(settings, broker_url(settings)), settings, now_ms=store.now_ms)
    dispatcher(dispatches)
    dispatcher.close()

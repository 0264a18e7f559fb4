"""The Celery app of a worker that serves graphs and nothing else."""

from collections.abc import Iterable

from celery import Celery

from tenxgraph.guard import refuse_beside_10xgraph
from tenxgraph.settings import Settings
from tenxgraph_scheduler.broker import broker_url, make_celery
from tenxgraph_worker.graphs import GraphSource
from tenxgraph_worker.joining import join
from tenxgraph_worker.shutdown import Shutdown
from tenxgraph_worker.watching import watch_for_stalls


def make_app(settings: Settings, graphs: Iterable[GraphSource]) -> Celery:
    """Return a configured app with the one task that runs nodes.

    Args:
        settings: Store, broker and limits.
        graphs: Graphs, or where to import them from as ``MODULE:ATTR``.

    Raises:
        See :func:`tenxgraph_worker.joining.install`.
    """
    refuse_beside_10xgraph()
    app, shutdown = make_celery(settings, broker_url(settings)), Shutdown(settings.shutdown_grace_s)
    join(app, graphs, settings, shutdown)
    watch_for_stalls(app, settings, shutdown)
    return app

"""Joins a Celery app: it runs nodes of our graphs beside its own tasks."""

from collections.abc import Iterable
from typing import Any

from celery import Celery, signals

from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.guard import refuse_beside_10xgraph
from tenxgraph.settings import Settings
from tenxgraph_scheduler.broker import TASK_NAME, store_url
from tenxgraph_worker.graphs import GraphSet, GraphSource
from tenxgraph_worker.lost_channel import outlive_lost_channels
from tenxgraph_worker.node_process import NodeProcess, NodeProcesses
from tenxgraph_worker.shutdown import Shutdown
from tenxgraph_worker.step_task import register_step_task


def install(celery_app: Celery, graphs: Iterable[GraphSource], *, settings: Settings | None = None) -> GraphSet:
    """Let a Celery app's workers serve graphs. The app's own settings stay as they are.

    Its workers also consume the default queue and those that the graphs' nodes name, unless ``-Q`` says otherwise.
    Clients and the scheduler must name the app's broker in ``TENXGRAPH_BROKER_URL`` where it is not the store.

    Args:
        celery_app: Any app whose workers accept JSON.
        graphs: Graphs, or where to import them from as ``MODULE:ATTR``.
        settings: Read from the environment unless given.

    Returns:
        The graphs that are served.

    Raises:
        GraphError: A graph cannot be found, or two different ones have one name.
        InvalidInputError: No Redis is named, or the app accepts no JSON.
        TenxGraphError: ``ENVIRONMENT``; 10xgraph is installed beside us.
    """
    refuse_beside_10xgraph()
    settings = settings or Settings.load()
    return join(celery_app, graphs, settings, Shutdown(settings.shutdown_grace_s))


def join(celery_app: Celery, graphs: Iterable[GraphSource], settings: Settings, shutdown: Shutdown) -> GraphSet:
    """Do what :func:`install` says, and tell of the worker's end through ``shutdown``."""
    store_url(settings)
    _refuse_without_json(celery_app)
    served = GraphSet(graphs, settings)
    processes = NodeProcesses(lambda name: NodeProcess(celery_app, settings, served, name, shutdown))
    register_step_task(celery_app, processes, shutdown)
    _connect(celery_app, served, shutdown)
    return served


def _refuse_without_json(app: Celery) -> None:
    accepted = list(app.conf.accept_content or ())
    if not {"json", "application/json"}.intersection(accepted):
        raise InvalidInputError(
            f"Celery app {app.main!r} accepts {accepted} and no JSON, which messages of "
            "nodes are: add 'json' to its accept_content.",
            error_code="NO_JSON",
        )


def _connect(app: Celery, served: GraphSet, shutdown: Shutdown) -> None:
    def consume(instance: Any, **_: Any) -> None:
        if instance.app is not app:
            return
        outlive_lost_channels()
        queues: Any = app.amqp.queues
        # Only where -Q chose none: whoever names queues means those.
        if queues._consume_from is None:
            for name in served.queues:
                queues.select_add(name)

    def note_shutdown(**_: Any) -> None:
        shutdown.begin()

    uid = f"{TASK_NAME}:{id(app)}"
    signals.celeryd_after_setup.connect(consume, weak=False, dispatch_uid=uid)
    signals.worker_shutting_down.connect(note_shutdown, weak=False, dispatch_uid=uid)

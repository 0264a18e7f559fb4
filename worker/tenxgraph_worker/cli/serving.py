"""A Celery worker inside this process."""

import gc
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

from celery import signals

from tenxgraph.core.graph import CompiledGraph
from tenxgraph.settings import Settings
from tenxgraph_worker.app import make_app
from tenxgraph_worker.cli.kept_client import keep_clients
from tenxgraph_worker.cli.logs import set_up_logs
from tenxgraph_worker.crew_member import READY

_THREADS: Final = 32
"""Threads mostly wait: Celery's default, one for each core, would be a waste."""


def serve(
    graphs: Sequence[CompiledGraph[Any]],
    settings: Settings,
    *,
    pool: str,
    concurrency: int | None,
    queues: str | None,
    name: str | None,
    events: bool,
) -> None:
    """Run nodes until SIGTERM, which lets those at work finish.

    Raises:
        SystemExit: The worker could not go on; its supervisor should start it again.
        GraphError: There is no graph, or two different ones have one name.
    """
    keep_clients()
    app = make_app(settings, graphs)
    set_up_logs()
    shown = name or f"worker-{os.getpid()}"

    def tell_ready(**_: Any) -> None:
        print(f"{shown} {READY}", flush=True)

    workers: list[Any] = []

    def keep(instance: Any, **_: Any) -> None:
        workers.append(instance)

    signals.worker_ready.connect(tell_ready, weak=False)
    signals.celeryd_after_setup.connect(keep, weak=False)
    signals.celeryd_after_setup.connect(_freeze, weak=False)
    threads = _THREADS if pool == "threads" else None
    options = {
        "--pool": pool,
        "--concurrency": concurrency or threads,
        "--queues": queues,
        # %h is Celery's word for the machine; any other % would be one too.
        "--hostname": f"{shown.replace('%', '%%')}@%h",
        "--loglevel": "WARNING",
    }
    given = [f"{option}={value}" for option, value in options.items() if value is not None]
    # Workers have nothing to tell each other: the store knows all.
    flags = ["--without-mingle", "--without-gossip", *(["--task-events"] if events else [])]
    app.worker_main(["--quiet", "worker", *given, *flags])
    # Celery keeps to itself how it ended: after a broker's failover, say, it may not be able to go on.
    if code := next((worker.exitcode for worker in workers), 0):
        sys.exit(code)


def _freeze(**_: Any) -> None:
    """Keep the memory of what is loaded by now shared with prefork's children.

    A collection writes to each object that it looks at, and Celery makes one before each fork.
    """
    gc.collect()
    gc.freeze()

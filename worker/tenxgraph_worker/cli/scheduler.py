"""``tenxgraph scheduler``: the process that does what depends on time."""

from typing import TYPE_CHECKING

import typer

from tenxgraph_worker.cli.options import RedisUrl

if TYPE_CHECKING:
    import threading


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("scheduler")(scheduler)


def scheduler(redis_url: RedisUrl = None) -> None:
    """Look after what depends on time: lost tasks, retries, delays, limits. Any number may run; it knows no graph."""
    import threading

    from tenxgraph_scheduler.reconciler import make_reconciler
    from tenxgraph_worker.cli.connect import check_store, load_settings
    from tenxgraph_worker.cli.logs import set_up_logs
    from tenxgraph_worker.crew_member import READY

    settings = load_settings(redis_url)
    check_store(settings)
    set_up_logs()
    stop = threading.Event()
    _stop_on_signals(stop)
    reconciler = make_reconciler(settings)
    print(f"scheduler {READY}", flush=True)
    reconciler.run(stop)


def _stop_on_signals(stop: "threading.Event") -> None:
    import signal

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())

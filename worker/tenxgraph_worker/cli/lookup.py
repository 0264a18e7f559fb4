"""Find runs and threads by what people type."""

from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.store.base import RunView, Store, ThreadView

_THREADS = 200
"""No index of runs over all threads exists: that many threads are looked at for the newest runs."""


def find_run(store: Store, run_id: str) -> RunView:
    """Return a run.

    Raises:
        InvalidInputError: ``NO_RUN``.
    """
    run = store.run(run_id)
    if run is None:
        raise InvalidInputError(
            f"There is no run {run_id!r} in this store: 'tenxgraph runs ls' lists them.",
            error_code="NO_RUN",
            context={"run_id": run_id},
        )
    return run


def find_thread(store: Store, thread_id: str) -> ThreadView:
    """Return a thread.

    Raises:
        InvalidInputError: ``NO_THREAD``.
    """
    thread = store.thread(thread_id)
    if thread is None:
        raise InvalidInputError(
            f"There is no thread {thread_id!r} in this store: 'tenxgraph threads ls' lists them.",
            error_code="NO_THREAD",
            context={"thread_id": thread_id},
        )
    return thread


def list_runs(store: Store, *, thread: str | None, status: str | None, limit: int) -> list[RunView]:
    """Return runs, newest first: of one thread, or of the threads that changed last.

    Raises:
        InvalidInputError: There is no such thread or status.
    """
    if status is not None and status not in list(RunStatus):
        names = ", ".join(RunStatus)
        raise InvalidInputError(f"There is no status {status!r}: choose one of {names}.", error_code="USAGE")
    threads = [find_thread(store, thread)] if thread is not None else store.threads(limit=max(limit, _THREADS))
    runs = [run for view in threads for run in store.runs(view.thread_id) if status is None or run.status == status]
    return sorted(runs, key=lambda run: run.created_ms, reverse=True)[:limit]


def current_version(store: Store, graph: str) -> str:
    """Return the version of a graph that the newest run on it asked for; of the threads that changed last.

    Raises:
        InvalidInputError: No such thread.
    """
    for view in store.threads(limit=_THREADS):
        if view.graph == graph:
            return view.graph_version
    raise InvalidInputError(f"None of the {_THREADS} threads that changed last runs graph {graph!r}: name its version.")

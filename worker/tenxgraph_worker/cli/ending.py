"""Choose runs to end, end them, and list what waits for a person. Needs no code of the graph."""

import getpass
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any

from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.engine.ending import RunFilter, cancel_run, unfinished_runs
from tenxgraph.engine.results import open_interrupts
from tenxgraph.store.base import RunView, StopAnswer, Store, WaitKind
from tenxgraph.wire import Checkpointed
from tenxgraph_worker.cli.lookup import find_run

End = Callable[[Store, RunView], StopAnswer]


def stop_run(store: Store, run: RunView) -> StopAnswer:
    """Let the run's step in flight finish, then stop."""
    return store.stop(run.thread_id, run.run_id, events=b"")


def canceller(reason: str) -> End:
    """Return what cancels a run in the name of whoever sits at this terminal."""
    return partial(cancel_run, by=f"{_who()} (command line)", reason=reason or "from the command line")


def _who() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, as in containers
        return "somebody"


def choose(store: Store, run_id: str | None, which: RunFilter, limit: int) -> tuple[Sequence[RunView], bool]:
    """Return the run that is named, or those that are meant, and whether more than ``limit`` of these are.

    Raises:
        InvalidInputError: ``USAGE``: both a run and options, or neither. ``NO_RUN``.
    """
    if (run_id is None) == (which == RunFilter()):
        raise InvalidInputError(
            "Name a run, or choose many by --thread, --graph or --status; not both.", error_code="USAGE"
        )
    if run_id is not None:
        return [find_run(store, run_id)], False
    found = list(islice(unfinished_runs(store, which), limit + 1))
    return found[:limit], len(found) > limit


def questions(store: Store, which: RunFilter, limit: int) -> list[dict[str, Any]]:
    """Return a record for each question that waits, and for each pause; of the threads that changed last first."""
    return list(islice((row for run in unfinished_runs(store, which) for row in _rows(store, run)), limit))


def _rows(store: Store, run: RunView) -> list[dict[str, Any]]:
    of_run = {"run_id": run.run_id, "thread_id": run.thread_id, "graph": run.graph, "wait": run.wait}
    if run.wait == WaitKind.QUESTION:
        return [{**of_run, **asked} for asked in open_interrupts(run.interrupts)]
    point = store.checkpoint(run.thread_id, run.version)
    noted = Checkpointed.from_json(point.meta) if point is not None and point.meta else Checkpointed()
    nodes = noted.upcoming if run.wait == WaitKind.BEFORE else noted.ran
    nothing = {"id": "", "value": None, "reason": None, "response_schema": None}
    return [{**of_run, "node": ", ".join(nodes), **nothing}]

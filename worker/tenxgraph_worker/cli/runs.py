"""``tenxgraph runs``: look at runs, stop them, answer them, try them again."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tenxgraph_worker.cli.options import Json, Limit, RedisUrl, RunId, RunIdOrMany

if TYPE_CHECKING:
    from tenxgraph.engine.ending import RunFilter
    from tenxgraph.settings import Settings
    from tenxgraph.store.base import Dispatch, RunView, Store
    from tenxgraph_worker.cli.ending import End

_QUESTIONS = {
    "run_id": "run",
    "thread_id": "thread",
    "graph": "graph",
    "node": "node",
    "wait": "wait",
    "value": "value",
    "reason": "reason",
    "id": "interrupt",
}
_COLUMNS = {
    "run_id": "run",
    "thread_id": "thread",
    "graph": "graph",
    "status": "status",
    "step": "step",
    "reason": "reason",
    "created_at": "created",
}
Thread = Annotated[str | None, typer.Option("--thread", help="Only runs of this thread.")]
Status = Annotated[str | None, typer.Option("--status", help="Only runs with this status.")]
OfGraph = Annotated[str | None, typer.Option("--graph", help="Only runs of the graph of this name.")]
Many = Annotated[int, typer.Option("--limit", "-n", min=1, help="End at most so many.")]
Value = Annotated[str | None, typer.Option("--value", help="The answer, as an option.", show_default=False)]
Reason = Annotated[str, typer.Option("--reason", help="Kept with the run.")]
Answer = Annotated[
    str | None,
    typer.Argument(metavar="[ANSWER]", help="JSON, or a text; for a run that asked a question.", show_default=False),
]
Version = Annotated[
    str,
    typer.Option("--graph-version", help="For the new run: current (that of the graph's newest run), or a version."),
]
InterruptId = Annotated[str | None, typer.Option("--interrupt", help="Which question, if several wait.")]


def make_app() -> typer.Typer:
    """Return the noun with its verbs."""
    app = typer.Typer(name="runs", help="Look at runs, stop them, answer them.", no_args_is_help=True)
    verbs: dict[str, Callable[..., None]] = {
        "ls": ls,
        "show": show,
        "why": why,
        "stop": stop,
        "cancel": cancel,
        "waiting": waiting,
        "resume": resume,
        "retry": retry,
        "dead": dead,
        "replay": replay,
    }
    for name, verb in verbs.items():
        app.command(name)(verb)
    return app


def ls(
    thread: Thread = None, status: Status = None, limit: Limit = 20, redis_url: RedisUrl = None, as_json: Json = False
) -> None:
    """List runs, newest first: of one thread, or of the threads that changed last."""
    from tenxgraph_worker.cli.connect import open_store
    from tenxgraph_worker.cli.lookup import list_runs
    from tenxgraph_worker.cli.output import print_rows
    from tenxgraph_worker.cli.records import run_row

    rows = [run_row(run) for run in list_runs(open_store(redis_url), thread=thread, status=status, limit=limit)]
    print_rows(rows, _COLUMNS, as_json=as_json, empty="There is no such run.")


def show(run_id: RunId, redis_url: RedisUrl = None, as_json: Json = False) -> None:
    """Show all that the store knows of a run."""
    from tenxgraph_worker.cli.output import print_record
    from tenxgraph_worker.cli.records import run_record

    store, run = _find(run_id, redis_url)
    print_record(run_record(run, list(store.tasks(run_id))), as_json=as_json)


def why(run_id: RunId, redis_url: RedisUrl = None, as_json: Json = False) -> None:
    """Say why a run stands where it stands, and what would move it."""
    from tenxgraph.wire import Checkpointed
    from tenxgraph_worker.cli.output import print_json
    from tenxgraph_worker.cli.why import explain

    store, run = _find(run_id, redis_url)
    point = store.checkpoint(run.thread_id, run.version) if run.version else None
    noted = Checkpointed.from_json(point.meta) if point is not None and point.meta else Checkpointed()
    lines = explain(run, store.tasks(run_id), store.thread(run.thread_id), noted, store.now_ms())
    if as_json:
        print_json({"run_id": run_id, "status": str(run.status), "why": lines})
    else:
        print("\n".join((f"Run {run_id} is {run.status}.", *lines)))


def stop(
    run_id: RunIdOrMany = None,
    thread: Thread = None,
    graph: OfGraph = None,
    status: Status = None,
    limit: Many = 1000,
    redis_url: RedisUrl = None,
    as_json: Json = False,
) -> None:
    """Let the step in flight finish, then stop. It can be resumed. One run, or all that the options choose."""
    from tenxgraph.engine.ending import RunFilter
    from tenxgraph_worker.cli.ending import stop_run

    _end(run_id, RunFilter(thread, graph, status), limit, stop_run, redis_url, as_json=as_json)


def cancel(
    run_id: RunIdOrMany = None,
    reason: Reason = "",
    thread: Thread = None,
    graph: OfGraph = None,
    status: Status = None,
    limit: Many = 1000,
    redis_url: RedisUrl = None,
    as_json: Json = False,
) -> None:
    """End a run now; its step in flight writes nothing any more. One run, or all that the options choose."""
    from tenxgraph.engine.ending import RunFilter
    from tenxgraph_worker.cli.ending import canceller

    _end(run_id, RunFilter(thread, graph, status), limit, canceller(reason), redis_url, as_json=as_json)


def waiting(
    thread: Thread = None, graph: OfGraph = None, limit: Limit = 20, redis_url: RedisUrl = None, as_json: Json = False
) -> None:
    """List what waits for a person: a line a question or pause, over all threads."""
    from tenxgraph.engine.ending import RunFilter
    from tenxgraph_worker.cli.connect import open_store
    from tenxgraph_worker.cli.ending import questions
    from tenxgraph_worker.cli.output import print_rows

    rows = questions(open_store(redis_url), RunFilter(thread, graph, "waiting"), limit)
    print_rows(rows, _QUESTIONS, as_json=as_json, empty="Nothing waits for a person.")


def resume(
    run_id: RunId,
    answer: Answer = None,
    value: Value = None,
    interrupt: InterruptId = None,
    redis_url: RedisUrl = None,
    as_json: Json = False,
) -> None:
    """Answer a run that waits, or go on with one that failed or was stopped."""
    from tenxgraph.core.exceptions import InvalidInputError
    from tenxgraph_worker.cli.connect import load_settings
    from tenxgraph_worker.cli.resuming import resume_run

    store, run = _find(run_id, redis_url)
    settings = load_settings(redis_url)
    if answer is not None and value is not None:
        raise InvalidInputError("The answer stands twice: give it as an argument, or by --value.", error_code="USAGE")
    resumed_id, dispatch = resume_run(
        store, run, value if answer is None else answer, interrupt, settings.default_queue
    )
    _go_on(store, run, resumed_id, dispatch, settings, as_json=as_json)


def retry(run_id: RunId, graph_version: Version = "", redis_url: RedisUrl = None, as_json: Json = False) -> None:
    """Run again what failed of a run; what its other tasks made is kept and merged with it."""
    _retry(run_id, {"failed", "stopped", "dead"}, graph_version, redis_url, as_json=as_json)


def dead(thread: Thread = None, limit: Limit = 20, redis_url: RedisUrl = None, as_json: Json = False) -> None:
    """List dead runs: a task of theirs kept killing its worker."""
    ls(thread=thread, status="dead", limit=limit, redis_url=redis_url, as_json=as_json)


def replay(run_id: RunId, graph_version: Version = "", redis_url: RedisUrl = None, as_json: Json = False) -> None:
    """Try a dead run again, once the code that kept killing workers is mended."""
    _retry(run_id, {"dead"}, graph_version, redis_url, as_json=as_json)


def _retry(run_id: str, among: set[str], graph_version: str, redis_url: str | None, *, as_json: bool) -> None:
    from tenxgraph.core.graph.run_status import RunStatus
    from tenxgraph_worker.cli.connect import load_settings
    from tenxgraph_worker.cli.lookup import current_version
    from tenxgraph_worker.cli.resuming import retry_run

    store, run = _find(run_id, redis_url)
    settings = load_settings(redis_url)
    version = current_version(store, run.graph) if graph_version == "current" else graph_version
    new_id, dispatch = retry_run(store, run, set(map(RunStatus, among)), settings.default_queue, version)
    _go_on(store, run, new_id, dispatch, settings, as_json=as_json)


def _go_on(
    store: "Store", run: "RunView", new_id: str, dispatch: "Sequence[Dispatch]", settings: "Settings", *, as_json: bool
) -> None:
    from tenxgraph_worker.cli.dispatching import dispatch_all
    from tenxgraph_worker.cli.output import print_json

    dispatch_all(dispatch, store, settings)
    if as_json:
        print_json({"run_id": new_id, "thread_id": run.thread_id, "resumes": run.run_id})
    else:
        print(f"Run {new_id} goes on: tenxgraph runs show {new_id}")


def _find(run_id: str, redis_url: str | None) -> "tuple[Store, RunView]":
    from tenxgraph_worker.cli.connect import open_store
    from tenxgraph_worker.cli.lookup import find_run

    store = open_store(redis_url)
    return store, find_run(store, run_id)


def _end(
    run_id: str | None, which: "RunFilter", limit: int, end: "End", redis_url: str | None, *, as_json: bool
) -> None:
    from tenxgraph_worker.cli.connect import load_settings, open_store
    from tenxgraph_worker.cli.dispatching import dispatch_all
    from tenxgraph_worker.cli.ending import choose
    from tenxgraph_worker.cli.output import print_json

    store, settings = open_store(redis_url), load_settings(redis_url)
    chosen, more = choose(store, run_id, which, limit)
    rows = []
    for run in chosen:
        answer = end(store, run)
        dispatch_all(answer.dispatch, store, settings)
        rows.append({"run_id": run.run_id, "thread_id": run.thread_id, "status": str(answer.status or run.status)})
        if not as_json:
            print(f"Run {run.run_id} is {rows[-1]['status']}.")
    if as_json:
        print_json(rows[0] if run_id is not None else {"runs": rows, "more": more})
    elif run_id is None:
        print(f"{len(rows)} run{'s' if len(rows) != 1 else ''}{', and more are left: run it again' if more else ''}.")

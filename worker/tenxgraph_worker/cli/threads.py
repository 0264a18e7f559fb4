"""``tenxgraph threads``: look at threads, fork and remove them."""

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from tenxgraph_worker.cli.options import Json, Limit, RedisUrl, ThreadId

_COLUMNS = {
    "thread_id": "thread",
    "graph": "graph",
    "user_id": "user",
    "checkpoint": "checkpoint",
    "active_run": "active run",
    "changed_at": "changed",
}
_HISTORY = {
    "checkpoint": "checkpoint",
    "run_id": "run",
    "step": "step",
    "status": "status",
    "source": "source",
    "ran": "ran",
    "next": "next",
    "created_at": "created",
}
_MESSAGES = {"at": "at", "message_id": "message", "role": "role", "text": "text"}
ThreadIds = Annotated[list[str], typer.Argument(metavar="THREAD…", help="Ids of the threads.", show_default=False)]
Checkpoint = Annotated[int | None, typer.Option("--checkpoint", help="The state at this checkpoint, not now.")]
Offset = Annotated[
    int | None, typer.Option("--offset", help="How many to pass over; by default all but the last --limit.")
]
From = Annotated[int | None, typer.Option("--checkpoint", help="Where the fork begins; by default at the newest.")]
To = Annotated[str | None, typer.Option("--to", help="Id of the new thread; by default a generated one.")]
Force = Annotated[bool, typer.Option("--force", help="Cancel what runs, waits or is queued on it first.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def make_app() -> typer.Typer:
    """Return the noun with its verbs."""
    app = typer.Typer(name="threads", help="Look at threads, fork and remove them.", no_args_is_help=True)
    verbs: dict[str, Callable[..., None]] = {
        "ls": ls,
        "show": show,
        "history": history,
        "messages": messages,
        "fork": fork,
        "rm": rm,
    }
    for name, verb in verbs.items():
        app.command(name)(verb)
    return app


def ls(limit: Limit = 20, redis_url: RedisUrl = None, as_json: Json = False) -> None:
    """List threads by last change, newest first."""
    from tenxgraph_worker.cli.connect import open_store
    from tenxgraph_worker.cli.output import print_rows
    from tenxgraph_worker.cli.records import thread_row

    rows = [thread_row(thread) for thread in open_store(redis_url).threads(limit=limit)]
    print_rows(rows, _COLUMNS, as_json=as_json, empty="There is no thread.")


def show(thread_id: ThreadId, checkpoint: Checkpoint = None, redis_url: RedisUrl = None, as_json: Json = False) -> None:
    """Show a thread and its state."""
    from tenxgraph.core.exceptions import InvalidInputError
    from tenxgraph_worker.cli.connect import open_store
    from tenxgraph_worker.cli.lookup import find_thread
    from tenxgraph_worker.cli.output import print_record
    from tenxgraph_worker.cli.records import for_people, thread_record

    store = open_store(redis_url)
    thread = find_thread(store, thread_id)
    try:
        image = store.image(thread_id, checkpoint)
    except KeyError:
        raise InvalidInputError(
            f"Thread {thread_id!r} has no checkpoint {checkpoint}; the newest is {thread.version.number}.",
            error_code="NO_CHECKPOINT",
        ) from None
    record = thread_record(thread, image)
    print_record(record if as_json else for_people(record), as_json=as_json)


def history(thread_id: ThreadId, limit: Limit = 20, redis_url: RedisUrl = None, as_json: Json = False) -> None:
    """List a thread's checkpoints, newest first."""
    from tenxgraph_worker.cli.connect import open_store
    from tenxgraph_worker.cli.lookup import find_thread
    from tenxgraph_worker.cli.output import print_rows
    from tenxgraph_worker.cli.records import checkpoint_record

    store = open_store(redis_url)
    find_thread(store, thread_id)
    rows = [checkpoint_record(point) for point in store.checkpoints(thread_id, limit=limit)]
    print_rows(rows, _HISTORY, as_json=as_json, empty="The thread has no checkpoint yet.")


def messages(
    thread_id: ThreadId, limit: Limit = 20, offset: Offset = None, redis_url: RedisUrl = None, as_json: Json = False
) -> None:
    """List all messages a thread ever had, also those that are out of its context; the last ones by default."""
    from tenxgraph_worker.cli.connect import open_store
    from tenxgraph_worker.cli.lookup import find_thread
    from tenxgraph_worker.cli.output import print_rows
    from tenxgraph_worker.cli.records import message_record

    store = open_store(redis_url)
    find_thread(store, thread_id)
    items = store.log(thread_id, "context", offset=-limit if offset is None else offset, limit=limit)
    print_rows([message_record(item) for item in items], _MESSAGES, as_json=as_json, empty="There is no message.")


def fork(
    thread_id: ThreadId, checkpoint: From = None, to: To = None, redis_url: RedisUrl = None, as_json: Json = False
) -> None:
    """Begin a new thread with the state of another at a checkpoint. It runs when it is told to."""
    from tenxgraph.engine import threads
    from tenxgraph_worker.cli.connect import open_store
    from tenxgraph_worker.cli.lookup import find_thread
    from tenxgraph_worker.cli.output import print_json

    store = open_store(redis_url)
    forked = threads.fork(store, find_thread(store, thread_id), checkpoint, to)
    if as_json:
        print_json(forked)
    else:
        print(f"Forked to {forked['thread_id']}.")


def rm(
    thread_ids: ThreadIds, force: Force = False, yes: Yes = False, redis_url: RedisUrl = None, as_json: Json = False
) -> None:
    """Remove threads with all that belongs to them."""
    from tenxgraph.engine import threads as engine
    from tenxgraph_worker.cli.connect import open_store
    from tenxgraph_worker.cli.ending import canceller
    from tenxgraph_worker.cli.lookup import find_run, find_thread
    from tenxgraph_worker.cli.output import print_json

    store = open_store(redis_url)
    threads = [find_thread(store, thread_id) for thread_id in thread_ids]
    if not yes and sys.stdin.isatty():
        typer.confirm(f"Remove {', '.join(thread_ids)}, with all messages and runs?", abort=True)
    cancel = canceller("its thread was removed")
    for thread in threads:
        engine.delete(store, thread, lambda run_id: cancel(store, find_run(store, run_id)), force=force)
    if as_json:
        print_json({"removed": thread_ids})
    else:
        print(f"Removed {', '.join(thread_ids)}.")

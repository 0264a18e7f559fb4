"""What clients do with a whole thread: look back, fork it, change its state, delete it."""

import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from tenxgraph.core.exceptions import InvalidInputError, StaleStateError, ThreadBusyError
from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.engine.runtime import Runtime
from tenxgraph.engine.snapshots import known_checkpoint, named_config
from tenxgraph.engine.time_travel import checked_update, media_in, planned_edit, planned_fork
from tenxgraph.engine.user_call import drive
from tenxgraph.store.base import EditOutcome, Store, ThreadView

StateT = TypeVar("StateT", bound=AgentState)
ReadThread = Callable[[], ThreadView]

_TRIES = 5
"""How often an update is planned anew when the thread moves on meanwhile."""


def fork(store: Store, thread: ThreadView, checkpoint: Any, thread_id: str | None) -> dict[str, Any]:
    """Begin a thread at a checkpoint of another; return the config that names it."""
    if thread_id is not None and (not isinstance(thread_id, str) or not thread_id):
        raise InvalidInputError(
            f"thread_id is {thread_id!r}: the new thread's id must be a text, or None for a new one."
        )
    point = known_checkpoint(store, thread, checkpoint)
    target = thread_id or str(uuid.uuid4())
    try:
        image = store.image(thread.thread_id, point.version.number)
    except KeyError:
        raise InvalidInputError(
            f"Checkpoint {point.version.number} of thread {thread.thread_id!r} was dropped just now: take a newer one."
        ) from None
    kept = {name: store.media(thread.thread_id, name) for name in media_in(image)}
    media = {name: data for name, data in kept.items() if data is not None}
    new = planned_fork(thread, point, image, media, target)
    if not store.fork(new):
        raise InvalidInputError(
            f"Thread {target!r} exists already: fork to another thread_id, or leave it out for a new one.",
            context={"thread_id": target},
        )
    return named_config(target, thread.user_id)


def update_state(
    runtime: Runtime[Any],
    store: Store,
    read_thread: ReadThread,
    values: Any,
    as_node: str | None,
    checkpoint: int | None,
) -> dict[str, Any]:
    """Change a thread's state beside its runs; return the config that names the new checkpoint."""
    update = checked_update(runtime, values, as_node)
    for _ in range(_TRIES):
        thread = read_thread()
        if checkpoint not in (None, thread.version.number):
            raise _moved(thread, checkpoint)
        run = store.run(thread.active) if thread.active else None
        if run is not None and run.status is not RunStatus.WAITING:
            raise _busy(thread.thread_id, thread.active)
        image, point = store.image(thread.thread_id), store.checkpoint(thread.thread_id)
        if image.version != thread.version:
            continue
        edit = drive(planned_edit(runtime, thread, run, point, image, update, as_node))
        edited = store.edit(edit)
        if edited.outcome is EditOutcome.BUSY:
            raise _busy(thread.thread_id, edited.holder)
        if edited.outcome is EditOutcome.WRITTEN:
            return named_config(thread.thread_id, thread.user_id, thread.version.number + 1)
    raise StaleStateError(
        f"Thread {read_thread().thread_id!r} moved on {_TRIES} times while its update was made: read the state again, "
        "then update it."
    )


def delete(store: Store, thread: ThreadView, cancel: Callable[[str], object], *, force: bool) -> None:
    """Remove a thread with all that belongs to it; with ``force`` what runs on it is cancelled first."""
    current: ThreadView | None = thread
    for _ in range(_TRIES):
        if store.delete_thread(thread.thread_id) or (current := store.thread(thread.thread_id)) is None:
            return
        if not force:
            break
        for run_id in (*current.inbox, current.active):
            if run_id:
                cancel(run_id)
    assert current is not None
    raise _busy(
        thread.thread_id, current.active or next(iter(current.inbox), ""), "or delete it by force (force=True, --force)"
    )


def _moved(thread: ThreadView, checkpoint: int | None) -> StaleStateError:
    return StaleStateError(
        f"Thread {thread.thread_id!r} is at checkpoint {thread.version.number}, no longer at {checkpoint}: read the "
        "state again. To change an older state, fork() it and update the fork.",
        context={"thread_id": thread.thread_id, "checkpoint": thread.version.number},
    )


def _busy(thread_id: str, run_id: str, way_out: str = "or stop it first") -> ThreadBusyError:
    return ThreadBusyError(
        f"Run {run_id!r} is active on thread {thread_id!r}: wait for it, {way_out}. Nothing was changed.",
        context={"thread_id": thread_id, "run_id": run_id},
    )

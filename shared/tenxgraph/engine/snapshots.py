"""A thread's state at a checkpoint, as callers see it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, TypeVar

from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.graph.state_snapshot import StateSnapshot
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.engine.results import open_interrupts
from tenxgraph.engine.runtime import Runtime
from tenxgraph.engine.views import run_state
from tenxgraph.store.base import Checkpoint, RunView, Store, ThreadView, WaitKind
from tenxgraph.wire import Checkpointed

StateT = TypeVar("StateT", bound=AgentState)

_PAGE = 50
"""Checkpoints in one reply."""

ANONYMOUS: Final = "anonymous"
"""The user of a config that names none."""


def build_snapshot(
    runtime: Runtime[StateT], store: Store, thread: ThreadView, checkpoint: int | None
) -> StateSnapshot[StateT]:
    """Return the snapshot of a checkpoint, by default the newest.

    Raises:
        InvalidInputError: The thread has no such checkpoint.
    """
    is_fresh = checkpoint is None and thread.version.number == 0
    point = None if is_fresh else known_checkpoint(store, thread, checkpoint)
    return _snapshot_of(runtime, store, thread, point)


def snapshots_of(
    runtime: Runtime[StateT], store: Store, thread: ThreadView, limit: int | None, before: int | None
) -> Iterator[StateSnapshot[StateT]]:
    """Yield the snapshots of a thread as it stands, newest first; what is written meanwhile is left out.

    Raises:
        InvalidInputError: The thread was deleted meanwhile.
    """
    end = thread.version.number + 1
    before, left = end if before is None else min(before, end), end if limit is None else limit
    while page := store.checkpoints(thread.thread_id, limit=min(left, _PAGE), before=before):
        for point in page:
            yield _snapshot_of(runtime, store, thread, point)
        before, left = page[-1].version.number, left - len(page)


def _snapshot_of(
    runtime: Runtime[StateT], store: Store, thread: ThreadView, point: Checkpoint | None
) -> StateSnapshot[StateT]:
    newest = point is None or point.version.number == thread.version.number
    run = store.run(_run_id(thread, point, newest))
    try:
        return _snapshot(runtime, store, thread, point, run, newest)
    except KeyError:  # it is gone since its record was read
        if store.thread(thread.thread_id) is not None:
            raise _no_checkpoint(thread, point.version.number if point else 0) from None
        raise InvalidInputError(
            f"Thread {thread.thread_id!r} was deleted while its state was read.",
            context={"thread_id": thread.thread_id},
        ) from None


def _run_id(thread: ThreadView, point: Checkpoint | None, newest: bool) -> str:
    current = thread.active or thread.last
    return current if newest or point is None else point.run_id


def _snapshot(
    runtime: Runtime[StateT],
    store: Store,
    thread: ThreadView,
    point: Checkpoint | None,
    run: RunView | None,
    newest: bool,
) -> StateSnapshot[StateT]:
    noted = Checkpointed.from_json(point.meta) if point else Checkpointed()
    image = store.image(thread.thread_id, point.version.number if point else 0)
    held = newest and not thread.is_ready
    status = run.status if run and held else point.status if point else RunStatus.QUEUED
    over = held and status is RunStatus.COMPLETED
    return StateSnapshot(
        state=run_state(runtime, image, run if newest else _as_of(run, point), noted.ran),
        checkpoint=point.version.number if point else 0,
        step=point.step if point else 0,
        next=() if over else noted.upcoming,
        status=status,
        interrupts=open_interrupts(run.interrupts) if run and newest and status is RunStatus.WAITING else [],
        created_at=(point.created_ms if point else thread.created_ms) / 1000,
        run_id=point.run_id if point else "",
        source=noted.source or "run",
        config=named_config(thread.thread_id, thread.user_id, point.version.number if point else 0),
    )


def named_config(thread_id: str, user_id: str, checkpoint: int = 0) -> dict[str, Any]:
    """Return a config that names a thread, for its owner, and a checkpoint if it has one."""
    whose = {} if user_id == ANONYMOUS else {"user_id": user_id}
    return {"thread_id": thread_id, **whose, **({"checkpoint": checkpoint} if checkpoint else {})}


def known_checkpoint(store: Store, thread: ThreadView, checkpoint: Any) -> Checkpoint:
    """Return the record of a checkpoint that a caller named; None is the newest.

    Raises:
        InvalidInputError: The thread has no such checkpoint.
    """
    if checkpoint is not None and (not isinstance(checkpoint, int) or isinstance(checkpoint, bool)):
        raise InvalidInputError(f"checkpoint is {checkpoint!r}: it must be a whole number, or None for the newest.")
    point = store.checkpoint(thread.thread_id, checkpoint)
    if point is None:
        raise _no_checkpoint(thread, checkpoint)
    return point


def _no_checkpoint(thread: ThreadView, checkpoint: int | None) -> InvalidInputError:
    wanted = "yet" if checkpoint is None else repr(checkpoint)
    return InvalidInputError(
        f"Thread {thread.thread_id!r} has no checkpoint {wanted}; the newest is {thread.version.number}, "
        "get_state_history() lists those that are kept.",
        context={"thread_id": thread.thread_id, "checkpoint": checkpoint},
    )


def state_at(runtime: Runtime[StateT], store: Store, thread_id: str, number: int) -> StateT | None:
    """Return the state of a checkpoint with the notes about its run as they were then; None once it was dropped."""
    try:
        return _state_at(runtime, store, thread_id, number)
    except KeyError:
        return None


def _state_at(runtime: Runtime[StateT], store: Store, thread_id: str, number: int) -> StateT:
    point = store.checkpoint(thread_id, number)
    run = _as_of(store.run(point.run_id), point) if point else None
    ran = Checkpointed.from_json(point.meta).ran if point else ()
    return run_state(runtime, store.image(thread_id, number), run, ran)


def _as_of(run: RunView | None, point: Checkpoint | None) -> RunView | None:
    if run is None or point is None:
        return run
    # No checkpoint is written when a question begins to wait, so a pause it is.
    wait = WaitKind.BEFORE if Checkpointed.from_json(point.meta).upcoming else WaitKind.AFTER
    return replace(run, status=point.status, step=point.step, wait=wait, interrupts=(), error=b"")

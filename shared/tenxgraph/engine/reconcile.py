"""What depends on time, for the threads whose moment has come."""

import logging
from collections.abc import Callable, Sequence

from tenxgraph.engine.log import log_fields
from tenxgraph.settings import Settings
from tenxgraph.store.base import Dispatch, DueThread, Overdue, Recovery, RecoveryRules, RetentionRules, Store

_logger = logging.getLogger(__name__)

BATCH = 200
_FOR_EVER = RetentionRules()
_LEAST_LOOK_MS = 500

_PUT_OFF_MS = 1000
"""How long whoever took due threads has for them; then they are due again, also where he died."""


def _let_through(thread: DueThread, error: Exception) -> None:
    del thread
    raise error


def _unknown(overdue: Overdue) -> int | None:
    del overdue
    return None


def retention_rules(settings: Settings) -> RetentionRules:
    """Return how long the settings let what is past be kept."""
    return RetentionRules(
        keep_last=settings.checkpoints_keep_last,
        keep_ms=round(settings.checkpoints_keep_s * 1000),
        grace_ms=round(settings.lease_s * 1000),
        thread_keep_ms=round(settings.thread_keep_s * 1000),
    )


def reconcile(
    store: Store,
    rules: RecoveryRules,
    dispatch: Callable[[Sequence[Dispatch]], None],
    is_lost: Callable[[Overdue], bool],
    on_error: Callable[[DueThread, Exception], None] = _let_through,
    retention: RetentionRules = _FOR_EVER,
    lag_ms: Callable[[Overdue], int | None] = _unknown,
) -> int:
    """Look once at every due thread, at most :data:`BATCH` of them.

    Args:
        store: Where the threads live.
        rules: To judge by.
        dispatch: Puts messages where workers find them.
        is_lost: Whether the queue shows that an overdue task's message is gone.
        on_error: Told of what went wrong with one thread, so that the others get their turn; raises to end the look.
        retention: How long what is past is kept; without rules for ever.
        lag_ms: By how much a queue's head is older than a task that may stand in its backlog; None if that is unknown.

    Returns:
        How many threads were due.
    """
    due = store.due(BATCH, min(_PUT_OFF_MS, rules.grace_ms))
    for thread in due:
        try:
            recovery = _recover(store, thread, rules, dispatch)
            now_ms = store.now_ms() if recovery.overdue else 0
            lost, looks_ms = _judge(recovery.overdue, now_ms - 2 * rules.grace_ms, is_lost, lag_ms)
            dispatch([late.dispatch for late in lost if store.mark_resent(late)])
            moments_ms = [recovery.next_due_ms, *(now_ms + look_ms for look_ms in looks_ms)]
            if retention.drops_checkpoints or (retention.thread_keep_ms and recovery.next_due_ms is None):
                moments_ms.append(_retain(store, thread, retention))
            store.settle_due(thread, min((at_ms for at_ms in moments_ms if at_ms is not None), default=None))
        except Exception as error:  # noqa: BLE001 - one bad thread starves none
            on_error(thread, error)
    return len(due)


def _recover(
    store: Store, due: DueThread, rules: RecoveryRules, dispatch: Callable[[Sequence[Dispatch]], None]
) -> Recovery:
    recovery = store.recover(due.thread_id, rules)
    for ref in recovery.expired:
        _logger.warning("lease ran out: fenced", extra=log_fields(ref))
    dispatch(recovery.dispatch)
    return recovery


def _judge(
    overdue: Sequence[Overdue],
    long_ago_ms: int,
    is_lost: Callable[[Overdue], bool],
    lag_ms: Callable[[Overdue], int | None],
) -> tuple[list[Overdue], list[int]]:
    """Return what is lost, and in how many ms the rest is worth another look.

    A queue's head, as it moves on, passes a lost task: behind a short backlog, as a worker's death leaves it, that
    shows within moments. What was dispatched long ago waits in a long one, and is looked at once a grace.
    """
    lost: list[Overdue] = []
    looks_ms: list[int] = []
    for late in overdue:
        if is_lost(late):
            lost.append(late)
        elif late.dispatched_ms > long_ago_ms and (behind_ms := lag_ms(late)) is not None:
            looks_ms.append(max(behind_ms, _LEAST_LOOK_MS))
    return lost, looks_ms


def _retain(store: Store, due: DueThread, rules: RetentionRules) -> int | None:
    """Let go of what is past; return when something goes next."""
    retained = store.retain(due.thread_id, rules)
    if retained.is_over and store.delete_thread(due.thread_id, rested_ms=rules.thread_keep_ms):
        _logger.info("at rest for so long that it was deleted", extra={"thread_id": due.thread_id})
        return None
    return retained.next_due_ms

"""What depends on time, for the threads whose moment has come."""

import logging
from collections.abc import Callable, Sequence

from tenxgraph.engine.log import log_fields
from tenxgraph.settings import Settings
from tenxgraph.store.base import Dispatch, DueThread, Overdue, RecoveryRules, RetentionRules, Store

_logger = logging.getLogger(__name__)

BATCH = 200
_FOR_EVER = RetentionRules()


def _let_through(thread: DueThread, error: Exception) -> None:
    del thread
    raise error


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
) -> int:
    """Look once at every due thread, at most :data:`BATCH` of them.

    Args:
        store: Where the threads live.
        rules: To judge by.
        dispatch: Puts messages where workers find them.
        is_lost: Whether the queue shows that an overdue task's message is gone.
        on_error: Told of what went wrong with one thread, so that the others get their turn; raises to end the look.
        retention: How long what is past is kept; without rules for ever.

    Returns:
        How many threads were due.
    """
    due = store.due(BATCH)
    for thread in due:
        try:
            _reconcile_thread(store, thread, rules, dispatch, is_lost, retention)
        except Exception as error:  # noqa: BLE001 - one bad thread starves none
            on_error(thread, error)
    return len(due)


def _reconcile_thread(
    store: Store,
    due: DueThread,
    rules: RecoveryRules,
    dispatch: Callable[[Sequence[Dispatch]], None],
    is_lost: Callable[[Overdue], bool],
    retention: RetentionRules,
) -> None:
    # Score first, work after: whoever dies in between leaves a thread that is due again.
    store.settle_due(due, store.now_ms() + rules.grace_ms)
    recovery = store.recover(due.thread_id, rules)
    for ref in recovery.expired:
        _logger.warning("lease ran out: fenced", extra=log_fields(ref))
    dispatch(recovery.dispatch)
    resent = [overdue.dispatch for overdue in recovery.overdue if is_lost(overdue) and store.mark_resent(overdue)]
    dispatch(resent)
    if retention.is_for_ever:
        store.settle_due(due, recovery.next_due_ms)
        return
    retained = store.retain(due.thread_id, retention)
    if retained.is_over and store.delete_thread(due.thread_id, rested_ms=retention.thread_keep_ms):
        _logger.info("at rest for so long that it was deleted", extra={"thread_id": due.thread_id})
        return
    moments_ms = (recovery.next_due_ms, retained.next_due_ms)
    store.settle_due(due, min((at_ms for at_ms in moments_ms if at_ms is not None), default=None))

"""What depends on time, for the threads whose moment has come."""

import logging
from collections.abc import Callable, Sequence

from tenxgraph.engine.log import log_fields
from tenxgraph.store.base import Dispatch, DueThread, Overdue, RecoveryRules, Store

_logger = logging.getLogger(__name__)

BATCH = 200


def _let_through(thread: DueThread, error: Exception) -> None:
    del thread
    raise error


def reconcile(
    store: Store,
    rules: RecoveryRules,
    dispatch: Callable[[Sequence[Dispatch]], None],
    is_lost: Callable[[Overdue], bool],
    on_error: Callable[[DueThread, Exception], None] = _let_through,
) -> int:
    """Look once at every due thread, at most :data:`BATCH` of them.

    Args:
        store: Where the threads live.
        rules: To judge by.
        dispatch: Puts messages where workers find them.
        is_lost: Whether the queue shows that an overdue task's message is gone.
        on_error: Told of what went wrong with one thread, so that the others get their turn; raises to end the look.

    Returns:
        How many threads were due.
    """
    due = store.due(BATCH)
    for thread in due:
        try:
            _reconcile_thread(store, thread, rules, dispatch, is_lost)
        except Exception as error:  # noqa: BLE001 - one bad thread starves none
            on_error(thread, error)
    return len(due)


def _reconcile_thread(
    store: Store,
    due: DueThread,
    rules: RecoveryRules,
    dispatch: Callable[[Sequence[Dispatch]], None],
    is_lost: Callable[[Overdue], bool],
) -> None:
    # Score first, work after: whoever dies in between leaves a thread that is due again.
    store.settle_due(due, store.now_ms() + rules.grace_ms)
    recovery = store.recover(due.thread_id, rules)
    for ref in recovery.expired:
        _logger.warning("lease ran out: fenced", extra=log_fields(ref))
    dispatch(recovery.dispatch)
    resent = [overdue.dispatch for overdue in recovery.overdue if is_lost(overdue) and store.mark_resent(overdue)]
    dispatch(resent)
    store.settle_due(due, recovery.next_due_ms)

"""Fields of log lines."""

from typing import Any

from tenxgraph.store.base import TaskRef


def log_fields(ref: TaskRef) -> dict[str, Any]:
    """Return ``extra`` of a log line about one attempt."""
    return {
        "thread_id": ref.thread_id,
        "run_id": ref.run_id,
        "step": ref.step,
        "task": ref.task,
        "attempt": ref.attempt,
    }

"""A Celery app as somebody might have it: other queues, another serializer, results, early acknowledgement."""

import ast
import os
from typing import Any

from celery import Celery
from kombu.serialization import register

from tenxgraph_worker import install

SETTINGS = {
    "task_default_queue": f"theirs-{os.environ.get('TENXGRAPH_DEFAULT_QUEUE', 'none')}",
    "task_serializer": "spelled",
    "result_serializer": "spelled",
    "accept_content": ["spelled", "json"],
    "task_acks_late": False,
    "task_create_missing_queues": False,
    "task_routes": {"*": {"queue": f"theirs-{os.environ.get('TENXGRAPH_DEFAULT_QUEUE', 'none')}"}},
    "worker_prefetch_multiplier": 4,
    "broker_connection_retry_on_startup": True,
    "worker_cancel_long_running_tasks_on_connection_loss": False,
}


def read(text: bytes | str) -> Any:
    """Read a Python literal."""
    return ast.literal_eval(text.decode() if isinstance(text, bytes) else text)


def make() -> Celery:
    """Return the app before ours joins it."""
    register("spelled", repr, read, content_type="application/x-spelled", content_encoding="utf-8")
    url = os.environ.get("TENXGRAPH_REDIS_URL", "redis://127.0.0.1:1/0")
    made = Celery("theirs", broker=url, backend=url, set_as_current=False)
    made.conf.update(SETTINGS)

    @made.task(name="theirs.add", shared=False)
    def add(left: complex, right: complex) -> complex:
        return left + right

    return made


app = make()
if "TENXGRAPH_REDIS_URL" in os.environ:
    install(app, graphs=["tests.acceptance.graphs:chain", "tests.acceptance.graphs:pinned"])

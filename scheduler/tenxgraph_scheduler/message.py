"""How a dispatched task looks on the broker and in Flower."""

import secrets
from typing import Any
from urllib.parse import quote

from tenxgraph.core.state.image import StateImage
from tenxgraph.store.base import Dispatch
from tenxgraph.wire import TaskMessage

_ID_PARTS_CHARS = (24, 40, 24)
_SHOWN_CHARS = 200
TOP_PRIORITY = 9


def message_of(item: Dispatch, state: StateImage | None) -> TaskMessage:
    """Return what travels for a dispatch."""
    ref = item.ref
    naming = (ref.thread_id, ref.run_id, ref.step, ref.task, ref.attempt)
    return TaskMessage(item.graph, item.graph_version, *naming, item.node, state)


def task_id(item: Dispatch) -> str:
    """Return a fresh id for people to read: ``graph:thread:step:node:nonce``, shortened where names are long."""
    graph, thread, node = (
        quote(name, safe="", errors="surrogatepass")[:length]
        for name, length in zip((item.graph, item.ref.thread_id, item.node), _ID_PARTS_CHARS, strict=True)
    )
    return f"{graph}:{thread}:{item.ref.step}:{node}:{secrets.token_hex(4)}"


def shown_kwargs(item: Dispatch) -> str:
    """Return the arguments that Flower shows and searches, as the text of a dict."""
    ref = item.ref
    shown: dict[str, Any] = {
        "thread_id": ref.thread_id[:_SHOWN_CHARS],
        "run": ref.run_id[:_SHOWN_CHARS],
        "step": ref.step,
        "node": item.node[:_SHOWN_CHARS],
        "attempt": ref.attempt,
    }
    return repr(shown)


def shown_name(item: Dispatch) -> str:
    """Return the name that Flower shows instead of the task's own: never a thread id, it becomes a metric's label."""
    return f"{item.graph[:_SHOWN_CHARS]}/{item.node[:_SHOWN_CHARS]}"


def image_bytes(image: StateImage, limit_bytes: int) -> int:
    """Return the encoded size of a state; stops counting past the limit."""
    size_bytes = sum(map(len, image.values.values()))
    for log in image.lists.values():
        for item in log:
            size_bytes += len(item)
            if size_bytes > limit_bytes:
                return size_bytes
    return size_bytes

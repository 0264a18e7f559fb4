"""Stream chunks on their way into the store, and out of it."""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from tenxgraph.core.graph.ports import SubmittedRun
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.stream_chunk import StreamChunk, StreamEvent
from tenxgraph.store.base import RunView, StoredEvents

_LAST_NUMBER = 2**64 - 1


def chunk(event: str, *, message: bytes | None = None, **fields: Any) -> bytes:
    """One event as a JSON line; ``message`` is JSON already."""
    kept = {name: value for name, value in fields.items() if value is not None}
    if message is not None:
        kept["message"] = orjson.Fragment(message)
    return orjson.dumps({"event": event, **kept})


def lines(chunks: Iterable[bytes]) -> bytes:
    """Chunks as the store takes them."""
    return b"\n".join(filter(None, chunks))


def read_chunks(
    stored: StoredEvents, *, thread_id: str, run_id: str, state_type: type[AgentState]
) -> Iterator[StreamChunk]:
    """Read one append back. The id of a chunk is ``<id of the append>.<position in it>``."""
    for position, line in enumerate(stored.body.split(b"\n")):
        read = StreamChunk.model_validate_json(line, context={"state_type": state_type})
        read.id = f"{stored.id}.{position}"
        read.thread_id, read.run_id, read.timestamp = thread_id, run_id, stored.at_ms / 1000
        yield read


def run_end(run: RunView) -> StreamChunk:
    """The end of a run whose events are gone; its id is behind all that the store gave."""
    return StreamChunk(
        id=f"{run.ended_ms}-{_LAST_NUMBER}.0",
        event=StreamEvent.RUN_END,
        run_id=run.run_id,
        thread_id=run.thread_id,
        step=run.step,
        data={"status": str(run.status)},
        timestamp=run.ended_ms / 1000,
    )


def events_gone(run: SubmittedRun, after: str, before: str) -> StreamChunk:
    """The error that tells a follower what it cannot get; its id is just before that of the next event.

    Args:
        run: The run that is followed.
        after: Id of the last event that the follower has.
        before: Id of the next append that is kept.
    """
    message = (
        f"Events of run {run.run_id!r} on thread {run.thread_id!r} between {after} and {before} are kept no more: "
        "what became of them is in the thread's state and messages. Follow closer, or raise "
        "TENXGRAPH_STREAM_MAX_LEN or TENXGRAPH_STREAM_KEEP_S."
    )
    return StreamChunk(
        id=f"{before}.-1",
        event=StreamEvent.ERROR,
        run_id=run.run_id,
        thread_id=run.thread_id,
        data={"error": "StaleStateError", "code": "EVENTS_GONE", "message": message, "after": after, "before": before},
    )


def just_before(chunk_id: str) -> str:
    """Return the store's id behind which the append of this chunk is read again; ``""`` is the beginning."""
    stored = chunk_id.rpartition(".")[0]
    if not stored:
        return ""
    at, _, number = stored.partition("-")
    return f"{at}-{int(number) - 1}" if int(number) else f"{int(at) - 1}-{_LAST_NUMBER}"


def order(chunk_id: str) -> tuple[int, int, int]:
    """Return a key by which chunks of one run sort as they happened."""
    stored, _, position = chunk_id.rpartition(".")
    at, _, number = stored.partition("-")
    return (int(at), int(number), int(position)) if stored else (-1, 0, 0)

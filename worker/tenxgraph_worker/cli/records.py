"""The store's views as JSON-able records with stable keys; none of them needs the code of a graph."""

import json
from typing import Any

from tenxgraph.core.state.blocks import TextBlock, ToolCallBlock, ToolResultBlock
from tenxgraph.core.state.image import StateImage
from tenxgraph.core.state.message import Message
from tenxgraph.engine.results import open_interrupts
from tenxgraph.store.base import Checkpoint, RunView, TaskView, ThreadView
from tenxgraph.wire import Arrival, Checkpointed, Failure, Frontier, RunConfig
from tenxgraph_worker.cli.output import iso_time

Record = dict[str, Any]
_TOLD = (TextBlock, ToolCallBlock, ToolResultBlock)


def run_row(run: RunView) -> Record:
    """A run in a list."""
    return {
        "run_id": run.run_id,
        "thread_id": run.thread_id,
        "graph": run.graph,
        "status": str(run.status),
        "reason": run.reason,
        "step": run.step,
        "created_at": iso_time(run.created_ms),
        "started_at": iso_time(run.started_ms),
        "ended_at": iso_time(run.ended_ms),
    }


def run_record(run: RunView, tasks: list[TaskView]) -> Record:
    """All that the store knows of a run."""
    return {
        **run_row(run),
        "user_id": run.user_id,
        "graph_version": run.graph_version,
        "checkpoint": run.version,
        "continues": run.continues,
        "wait": run.wait,
        "interrupts": open_interrupts(run.interrupts),
        "error": failure(run.error),
        "traceback": traceback(run.error),
        "tasks": [task_record(task) for task in tasks],
        "waiting_nodes": [item.node for item in Frontier.from_json(run.plan).waiting],
        "config": config(run.request),
    }


def message_record(item: bytes) -> Record:
    """A message of a thread's log, with its text in one line and what it calls."""
    message = Message.model_validate_json(item)
    calls = [f"→ {block.name}({block.args})" for block in message.content if isinstance(block, ToolCallBlock)]
    others = [f"<{block.type}>" for block in message.content if not isinstance(block, _TOLD)]
    text = " ".join(part for part in (message.text(), *calls, *others) if part)
    at_ms = 0 if message.timestamp is None else round(message.timestamp * 1000)
    return {**json.loads(item), "at": iso_time(at_ms), "text": text}


def task_record(task: TaskView) -> Record:
    """A task of a run's current step."""
    return {
        "task": task.task,
        "node": task.node,
        "call": call_of(task),
        "status": str(task.status),
        "attempt": task.attempt,
        "deaths": task.deaths,
        "worker": task.worker,
        "queue": task.queue,
        "until": iso_time(task.until_ms),
        "error": failure(task.error),
    }


def call_of(task: TaskView) -> str | None:
    """The id of the one tool call that a task makes, if it is there for one."""
    return Arrival.from_json(task.body).call if task.body else None


def traceback(raw: bytes) -> list[str]:
    """The lines of the last frames of user code, innermost last; none where no code raised."""
    return Failure.from_json(raw).traceback.splitlines() if raw else []


def failure(raw: bytes) -> Record | None:
    """Why something failed, in which node and at which attempt."""
    if not raw:
        return None
    read = Failure.from_json(raw)
    return {
        "error": read.error,
        "code": read.code,
        "message": read.message,
        "node": read.node,
        "attempt": read.attempt,
        "cause": read.cause,
    }


def config(request: bytes) -> Record:
    """The config of a run, as its caller gave it."""
    read = RunConfig.from_json(request)
    return {
        **read.extra,
        "recursion_limit": read.recursion_limit,
        "timeout_s": read.timeout_s,
        "multitask_strategy": read.multitask_strategy,
        "priority": read.priority,
        "start_after_s": read.start_after_s,
    }


def thread_row(thread: ThreadView) -> Record:
    """A thread in a list."""
    return {
        "thread_id": thread.thread_id,
        "graph": thread.graph,
        "user_id": thread.user_id,
        "checkpoint": thread.version.number,
        "active_run": thread.active,
        "last_run": thread.last,
        "queued_runs": len(thread.inbox),
        "created_at": iso_time(thread.created_ms),
        "changed_at": iso_time(thread.changed_ms),
    }


def thread_record(thread: ThreadView, image: StateImage) -> Record:
    """A thread with its state."""
    return {
        **thread_row(thread),
        "graph_version": thread.graph_version,
        "continuable_run": thread.continuable,
        "inbox": list(thread.inbox),
        "state": state(image),
    }


def state(image: StateImage) -> Record:
    """The fields that were ever written, as JSON; what a fresh thread begins with stands in the graph."""
    values = {name: _json(value) for name, value in image.values.items()}
    lists = {name: [_json(item) for item in items] for name, items in image.lists.items()}
    return {**values, **lists}


def for_people(record: Record) -> Record:
    """Return a thread's record with a line for each message of its context."""
    fields = dict(record["state"])
    if isinstance(fields.get("context"), list):
        fields["context"] = [_spoken(message) for message in fields["context"]]
    return {**{name: value for name, value in record.items() if name != "state"}, **fields}


def _spoken(message: Record) -> str:
    texts = (block.get("text") or block.get("output") or f"<{block['type']}>" for block in message["content"])
    return f"{message['role']}: {' '.join(map(str, texts))}"


def checkpoint_record(point: Checkpoint) -> Record:
    """A version of a thread's state: which nodes ran, run next, and wait."""
    noted = Checkpointed.from_json(point.meta) if point.meta else Checkpointed()
    return {
        "checkpoint": point.version.number,
        "run_id": point.run_id,
        "step": point.step,
        "status": str(point.status),
        "source": noted.source or "run",
        "ran": list(noted.ran),
        "next": list(noted.upcoming),
        "waiting": list(noted.waiting),
        "created_at": iso_time(point.created_ms),
    }


def _json(raw: bytes) -> Any:
    return json.loads(raw)

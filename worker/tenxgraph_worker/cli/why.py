"""Why a run stands where it stands, in sentences."""

from collections.abc import Sequence

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.engine.failures import WAITS
from tenxgraph.engine.results import open_interrupts
from tenxgraph.store.base import RunView, TaskStatus, TaskView, ThreadView, WaitKind
from tenxgraph.wire import Checkpointed, Failure, Frontier
from tenxgraph_worker.cli.records import call_of

_REASONS = {
    "waiting_for_version": "no worker has this version of the graph: start one with that code.",
    "suspect": "a worker died while a task of it ran there; such tasks run one at a time in each worker process.",
    "rate_limit": "it waits for its turn to call a model; all workers together keep to the agent's rate_limit.",
    "retry_wait": "a task waits for its next attempt, see below.",
    "no_worker": "no worker runs this graph: start one, tenxgraph worker MODULE:ATTR.",
}


def explain(
    run: RunView, tasks: Sequence[TaskView], thread: ThreadView | None, noted: Checkpointed, now_ms: int
) -> list[str]:
    """Say what the run does or waits for, and what would move it.

    Args:
        run: The run.
        tasks: Of its current step.
        thread: Its thread.
        noted: What its newest checkpoint says.
        now_ms: The store's clock.
    """
    said = _SAYS.get(run.status, _ended)
    lines = said(run, thread, noted)
    if run.status in (RunStatus.RUNNING, RunStatus.STOPPING, RunStatus.CANCELLING):
        lines += [_task(task, now_ms) for task in tasks]
        held = [item.node for item in Frontier.from_json(run.plan).waiting]
        lines += [f"A join holds back {', '.join(held)} until the other branches are there."] if held else []
    return lines


def _queued(run: RunView, thread: ThreadView | None, _: Checkpointed) -> list[str]:
    if thread is not None and thread.active == run.run_id:
        start = f"start one, tenxgraph worker MODULE:ATTR, that has graph {run.graph!r}"
        return [_reason(run)] if run.reason else [f"No worker has taken it yet: if none is free, {start}."]
    if thread is not None and thread.active:
        place = thread.inbox.index(run.run_id) + 1 if run.run_id in thread.inbox else 1
        return [f"It is number {place} in the queue behind run {thread.active} on the same thread."]
    return ["It waits for its moment to start (start_after_s)."]


def _running(run: RunView, _: ThreadView | None, noted: Checkpointed) -> list[str]:
    del noted
    return [f"It is in step {run.step}.", *([_reason(run)] if run.reason else [])]


def _stopping(run: RunView, *_: object) -> list[str]:
    return [f"It was told to stop and lets step {run.step} finish."]


def _cancelling(run: RunView, *_: object) -> list[str]:
    return [f"It is being cancelled in step {run.step}."]


def _waiting(run: RunView, _: ThreadView | None, noted: Checkpointed) -> list[str]:
    if run.wait == WaitKind.QUESTION:
        return [_question(run, asked) for asked in open_interrupts(run.interrupts)]
    nodes = noted.upcoming if run.wait == WaitKind.BEFORE else noted.ran
    return [f"It is paused {run.wait} {', '.join(nodes) or 'a node'}: tenxgraph runs resume {run.run_id}"]


def _question(run: RunView, asked: dict[str, object]) -> str:
    return (
        f"Node {asked['node']!r} asks {asked['value']!r}: "
        f"tenxgraph runs resume {run.run_id} ANSWER --interrupt {asked['id']}"
    )


def _ended(run: RunView, *_: object) -> list[str]:
    cause = f": {Failure.from_json(run.error).message}" if run.error else f": {run.reason}" if run.reason else "."
    lines = [f"It ended as {run.status}{cause}"]
    if run.status is RunStatus.DEAD:
        lines.append(f"Once the node is mended: tenxgraph runs replay {run.run_id}")
    elif run.status is RunStatus.FAILED:
        lines.append(f"To run again what failed: tenxgraph runs retry {run.run_id}")
    elif run.status is RunStatus.STOPPED and not run.reason.startswith("superseded by "):
        lines.append(f"To go on where it was: tenxgraph runs resume {run.run_id}")
    return lines


def _reason(run: RunView) -> str:
    return f"{run.reason}: {_REASONS.get(run.reason, 'see the tasks below.')}"


_SAYS = {
    RunStatus.QUEUED: _queued,
    RunStatus.RUNNING: _running,
    RunStatus.STOPPING: _stopping,
    RunStatus.CANCELLING: _cancelling,
    RunStatus.WAITING: _waiting,
}


def _said(failure: Failure) -> str:
    return f" {failure.message}" if failure.code == WAITS else f" It failed with: {failure.message}"


def _task(task: TaskView, now_ms: int) -> str:
    call = call_of(task)
    place = task.node if call is None else f"{task.node}, call {call}"
    name = f"Task {task.task} ({place}), attempt {task.attempt},"
    left_s = (task.until_ms - now_ms) / 1000
    error = _said(Failure.from_json(task.error)) if task.error else ""
    if task.status is TaskStatus.QUEUED:
        return f"{name} is in queue {task.queue or 'tenxgraph'} and no worker has taken it.{error}"
    if task.status is TaskStatus.CLAIMED:
        state = f"for {left_s:.0f} s more" if left_s > 0 else "until now: the scheduler gives it to another soon"
        return f"{name} runs on {task.worker}; its lease holds {state}."
    if task.status is TaskStatus.RETRY_WAIT:
        return f"{name} waits {max(left_s, 0):.0f} s for the next.{error}"
    return f"{name} is {task.status}.{error}"

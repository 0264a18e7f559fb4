"""What depends on time, for one thread in memory."""

import json
from dataclasses import dataclass, field
from typing import Final

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.store.base import Overdue, Recovery, RecoveryRules, TaskRef, TaskStatus
from tenxgraph.store.memory_multitask import take_in, verdict_on
from tenxgraph.store.memory_thread import Run, Task, Thread

_DIED: Final = "mend it, then replay the run"
_LOST: Final = "its worker lived and was not heard; see that the node lets heartbeats through, then replay the run"


@dataclass(slots=True)
class _Findings:
    moments_ms: list[int] = field(default_factory=list[int])
    again: list[str] = field(default_factory=list[str])
    overdue: list[Overdue] = field(default_factory=list[Overdue])
    expired: list[TaskRef] = field(default_factory=list[TaskRef])


def recover_thread(thread: Thread, rules: RecoveryRules, now_ms: int) -> Recovery:
    """Start delayed runs, time out, retry, fence dead attempts; say when to look again."""
    before = thread.active
    _start_delayed(thread, now_ms)
    found = _Findings(list(thread.delayed.values()))
    run = thread.active_run
    if run is not None and run.status is not RunStatus.WAITING:
        _look_at(thread, run, rules, now_ms, found)
    elif run is not None and run.deadline_ms:
        _time_out(thread, run, now_ms, found)
    return _recovery(thread, before, rules, found, now_ms)


def _recovery(thread: Thread, before: str, rules: RecoveryRules, found: _Findings, now_ms: int) -> Recovery:
    changed = thread.active != before
    if changed and (run := thread.active_run):
        found.moments_ms.append(min(now_ms + rules.grace_ms, run.deadline_ms or now_ms + rules.grace_ms))
    dispatch = thread.dispatch() if changed else thread.dispatch(iter(found.again))
    overdue = () if changed else tuple(found.overdue)
    return Recovery(dispatch, overdue, min(found.moments_ms, default=None), tuple(found.expired))


def _start_delayed(thread: Thread, now_ms: int) -> None:
    for run_id in sorted(thread.delayed, key=thread.delayed.__getitem__):
        if thread.delayed[run_id] <= now_ms:
            del thread.delayed[run_id]
            run = thread.runs[run_id]
            take_in(thread, run, verdict_on(thread, run.new, late=True), now_ms)


def _time_out(thread: Thread, run: Run, now_ms: int, found: _Findings) -> bool:
    if not run.deadline_ms:
        return False
    if run.deadline_ms <= now_ms:
        thread.end(run, RunStatus.TIMED_OUT, now_ms)
        return True
    found.moments_ms.append(run.deadline_ms)
    return False


def _look_at(thread: Thread, run: Run, rules: RecoveryRules, now_ms: int, found: _Findings) -> None:
    if _time_out(thread, run, now_ms, found):
        return
    for name, task in list(run.tasks.items()):
        if thread.active != run.new.run_id:
            return
        if task.status is TaskStatus.RETRY_WAIT:
            _retry(task, name, now_ms, found)
        elif task.status is TaskStatus.CLAIMED:
            _fence(thread, run, task, rules, now_ms, found)
        elif task.status is TaskStatus.QUEUED:
            _suspect(thread, run, task, rules, now_ms, found)
    if thread.active == run.new.run_id:
        found.moments_ms += [now_ms + rules.grace_ms for name in found.again]


def _retry(task: Task, name: str, now_ms: int, found: _Findings) -> None:
    if task.until_ms <= now_ms:
        task.queue(now_ms)
        found.again.append(name)
    else:
        found.moments_ms.append(task.until_ms)


def _fence(thread: Thread, run: Run, task: Task, rules: RecoveryRules, now_ms: int, found: _Findings) -> None:
    if task.until_ms > now_ms or rules.forgive_leases:
        found.moments_ms.append(max(task.until_ms, now_ms + 1))
        return
    name = task.spec.task
    found.expired.append(TaskRef(thread.thread_id, run.new.run_id, run.step, name, task.attempt))
    is_death = not task.leaving
    if is_death:
        run.died.add((name, task.token))
        task.deaths, task.lost = task.deaths + 1, task.lost + 1
    thread.discard(run, task, now_ms)
    if is_death and task.deaths >= rules.max_deliveries:
        _end_as_dead(thread, run, task, ("NODE_DIED", f"died with its worker {task.deaths} times", _DIED), now_ms)
        return
    if is_death and task.lost >= rules.max_lost_leases:  # whoever lives, and was not heard, would do so for ever
        _end_as_dead(thread, run, task, ("LEASE_LOST", f"lost its lease {task.lost} times", _LOST), now_ms)
        return
    thread.try_again(run, task, now_ms)
    if task.status is TaskStatus.QUEUED:
        found.again.append(name)


def _end_as_dead(thread: Thread, run: Run, task: Task, why: tuple[str, str, str], now_ms: int) -> None:
    node, attempt, (code, what, advice) = task.spec.node, task.attempt, why
    message = f"node '{node}' {what}, last on {task.worker}: {advice}"
    run.reason = f"{node} {what}"
    failure = {"error": "NodeError", "code": code, "message": message, "node": node, "attempt": attempt}
    event = {"event": "error", "step": run.step, "node": node, "attempt": attempt, "data": failure}
    thread.add_events(run, now_ms, json.dumps(event).encode())
    task.park()
    thread.end(run, RunStatus.DEAD, now_ms, json.dumps(failure).encode())


def _suspect(thread: Thread, run: Run, task: Task, rules: RecoveryRules, now_ms: int, found: _Findings) -> None:
    suspect_at_ms = task.dispatched_ms + (rules.grace_ms << max(0, min(task.resends - 1, 10)))
    if suspect_at_ms <= now_ms:
        found.overdue.append(Overdue(thread.dispatch_of(run, task.spec.task), task.dispatched_ms))
        found.moments_ms.append(now_ms + rules.grace_ms)
    else:
        found.moments_ms.append(suspect_at_ms)

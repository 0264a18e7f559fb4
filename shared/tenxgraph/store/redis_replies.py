"""What the scripts and hashes of a thread say, as records."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.image import ItemLog, Origin, StateImage, Version
from tenxgraph.store.base import (
    Admission,
    AdmissionOutcome,
    Checkpoint,
    Claim,
    Dispatch,
    Interrupt,
    Overdue,
    Recovery,
    Reservation,
    ReservationOutcome,
    ResumeView,
    RunView,
    StoredEvents,
    TaskRef,
    TaskSpec,
    TaskStatus,
    TaskView,
    ThreadView,
)

Fields = Mapping[bytes, bytes]
LoadItems = Callable[[str, Origin, int, int], Sequence[bytes]]
"""(list field, origin of its generation, first, end) → the items."""


def text(raw: bytes | None) -> str:
    """Read a text; nothing is the empty one."""
    return (raw or b"").decode()


def number(raw: bytes | int | None) -> int:
    """Read a number; nothing is 0."""
    return int(raw or 0)


def fields(flat: Sequence[bytes] | Fields) -> Fields:
    """Read a hash: as a mapping, or as field, value, field, value."""
    return flat if isinstance(flat, Mapping) else dict(_by(2, flat))


def pairs(flat: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Read first, second, first, second."""
    return _by(2, flat)


def _by(size: int, flat: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    return zip(*[iter(flat)] * size, strict=True)


def reservation(reply: Sequence[bytes]) -> Reservation:
    """Read how an effect stands."""
    outcome, result, until_ms = reply
    return Reservation(ReservationOutcome(text(outcome)), result, number(until_ms))


def dispatches(thread_id: str, flat: Sequence[bytes]) -> tuple[Dispatch, ...]:
    """Read messages of the active run's tasks."""
    if not flat:
        return ()
    run_id, step, graph, graph_version, version, nonce = flat[:6]
    return tuple(
        Dispatch(
            TaskRef(thread_id, text(run_id), number(step), text(task), number(attempt)),
            text(node),
            text(queue),
            number(priority),
            text(graph),
            text(graph_version),
            Version(number(version), text(nonce)),
        )
        for task, attempt, node, queue, priority in _by(5, flat[6:])
    )


def spec(flat: Sequence[bytes]) -> TaskSpec:
    """Read a planned task."""
    task, node, queue, priority, body = flat
    return TaskSpec(text(task), text(node), text(queue), number(priority), body)


def interrupts(flat: Sequence[bytes] | Fields) -> tuple[Interrupt, ...]:
    """Read a run's questions, in plan order."""
    hash_ = fields(flat)
    ids = [name[: -len(b":at")] for name in hash_ if name.endswith(b":at")]
    ids.sort(key=lambda asked: number(hash_[asked + b":at"]))
    return tuple(_interrupt(hash_, asked) for asked in ids)


def _interrupt(hash_: Fields, asked: bytes) -> Interrupt:
    answer = hash_.get(asked + b":answer")
    body = hash_.get(asked + b":body", b"")
    return Interrupt(text(asked), text(hash_.get(asked + b":task")), body, answer[1:] if answer else None)


def run_view(thread_id: str, run_id: str, run: Fields, asked: Sequence[bytes] | Fields) -> RunView:
    """Read a run."""
    return RunView(
        thread_id=thread_id,
        run_id=run_id,
        graph=text(run.get(b"graph")),
        graph_version=text(run.get(b"graph_version")),
        user_id=text(run.get(b"user_id")),
        status=RunStatus(text(run[b"status"])),
        reason=text(run.get(b"reason")),
        step=number(run.get(b"step")),
        first_step=number(run.get(b"first_step")),
        version=number(run.get(b"version")),
        origin=text(run.get(b"origin")) or run_id,
        journal=text(run.get(b"journal")),
        continues=text(run.get(b"continues")),
        request=run.get(b"request", b""),
        input=run.get(b"input", b""),
        plan=run.get(b"plan", b""),
        error=run.get(b"error", b""),
        wait=text(run.get(b"wait")),
        interrupts=interrupts(asked),
        created_ms=number(run.get(b"created_ms")),
        started_ms=number(run.get(b"started_ms")),
        ended_ms=number(run.get(b"ended_ms")),
    )


def task_views(tasks: Fields) -> list[TaskView]:
    """Read the tasks of a step, in plan order."""
    return [_task_view(tasks, task) for task in tasks.get(b"order", b"").split(b"\n") if task]


def _task_view(tasks: Fields, task: bytes) -> TaskView:
    def of(attribute: bytes) -> bytes:
        return tasks.get(task + b":" + attribute, b"")

    return TaskView(
        task=text(task),
        node=text(of(b"node")),
        queue=text(of(b"queue")),
        status=TaskStatus(text(of(b"status"))),
        attempt=number(of(b"attempt")),
        deaths=number(of(b"deaths")),
        worker=text(of(b"worker")),
        until_ms=number(of(b"until")),
        error=of(b"error"),
        body=of(b"body"),
    )


def thread_view(thread_id: str, thread: Fields, inbox: Sequence[bytes], delayed: Sequence[bytes]) -> ThreadView:
    """Read a thread."""
    return ThreadView(
        thread_id=thread_id,
        graph=text(thread.get(b"graph")),
        graph_version=text(thread.get(b"graph_version")),
        user_id=text(thread.get(b"user_id")),
        version=Version(number(thread.get(b"version")), text(thread.get(b"nonce"))),
        active=text(thread.get(b"active")),
        continuable=text(thread.get(b"continuable")),
        last=text(thread.get(b"last")),
        inbox=tuple(map(text, (*inbox, *delayed))),
        created_ms=number(thread.get(b"created_ms")),
        changed_ms=number(thread.get(b"changed_ms")),
        is_ready=b"ready" in thread,
    )


def image(reply: Sequence[Any], known: StateImage | None, load: LoadItems) -> StateImage:
    """Build the state from what the caller has and what the script says beyond it.

    Raises:
        KeyError: The thread was deleted while its lists were read.
    """
    had = known or StateImage()
    if len(reply) == 2:
        return had
    version, nonce, on_top, values, lists = reply
    base = had if on_top else StateImage()
    logs = {text(row[0]): _log(base.lists.get(text(row[0])), row, load) for row in _by(6, lists)}
    changed = {text(name): value for name, value in fields(values).items()}
    return StateImage(Version(number(version), text(nonce)), {**base.values, **changed}, logs)


def _log(had: ItemLog | None, row: Sequence[Any], load: LoadItems) -> ItemLog:
    name, gen, length, start, items, cut = row
    origin = Origin.from_text(text(cut), number(gen))
    if len(items) < length - start:
        items = load(text(name), origin, start, length)
    return had.view(start).append(items) if had is not None and start else ItemLog(items, number(gen), origin)


def claim(ref: TaskRef, reply: Sequence[Any], known: StateImage | None, load: LoadItems) -> Claim:
    """Read a claim, of the task that ``ref`` names or of the advance that follows its commit."""
    token, attempt, planned, alone, run, asked, state, error, first_ms, specs, updates, deaths = reply
    task = spec(planned)
    order = [spec(flat) for flat in specs]
    committed = {text(name): update for name, update in fields(updates).items()}
    return Claim(
        ref=TaskRef(ref.thread_id, ref.run_id, ref.step, task.task, number(attempt)),
        token=text(token),
        spec=task,
        alone=bool(alone),
        run=run_view(ref.thread_id, ref.run_id, fields(run), asked),
        image=image(state, known, load),
        specs=tuple(order),
        updates={node.task: committed[node.task] for node in order if node.task in committed},
        error=error,
        first_started_ms=number(first_ms),
        deaths=number(deaths),
    )


def admission(thread_id: str, reply: Sequence[Any]) -> Admission:
    """Read what became of a request to run."""
    raw, who, *rest = reply
    outcome = AdmissionOutcome(text(raw))
    holder = thread_id if outcome is AdmissionOutcome.RUN_ID_TAKEN else text(who)
    ready, after, *_ = (*rest, b"") if rest else ((), b"")
    return Admission(outcome, dispatches(thread_id, ready), holder, text(after))


def resumption(reply: Sequence[bytes] | None) -> ResumeView | None:
    """Read what a resume was given to."""
    return ResumeView(*map(text, reply)) if reply else None


def recovery(thread_id: str, reply: Sequence[Any]) -> Recovery:
    """Read what time did to a thread."""
    ready, late, late_ms, next_due, fenced = reply
    run_id, step = text(fenced[0]), number(fenced[1])
    return Recovery(
        dispatch=dispatches(thread_id, ready),
        overdue=tuple(map(Overdue, dispatches(thread_id, late), map(number, late_ms))),
        next_due_ms=number(next_due) if next_due else None,
        expired=tuple(TaskRef(thread_id, run_id, step, text(t), number(a)) for t, a in _by(2, fenced[2:])),
    )


def checkpoint(entry_id: bytes, entry: Fields) -> Checkpoint:
    """Read the record of a version from its entry."""
    return Checkpoint(
        version=Version(int(entry_id.partition(b"-")[0]), text(entry[b"nonce"])),
        run_id=text(entry[b"run"]),
        step=number(entry[b"step"]),
        status=RunStatus(text(entry[b"status"])),
        meta=entry[b"meta"],
        created_ms=number(entry[b"at"]),
        tasks=tuple(map(spec, _by(5, tuple(_unpacked(entry.get(b"tasks", b"")))))),
        plan=entry.get(b"plan", b""),
        wait=text(entry.get(b"wait")),
    )


def _unpacked(raw: bytes) -> Iterator[bytes]:
    """Read parts that stand each behind its length."""
    while raw:
        size, _, rest = raw.partition(b":")
        yield rest[: int(size)]
        raw = rest[int(size) :]


def events(entries: Sequence[tuple[bytes, Fields]]) -> list[StoredEvents]:
    """Read entries of a run's stream."""
    return [StoredEvents(text(at), int(at.partition(b"-")[0]), entry[b"body"]) for at, entry in entries]

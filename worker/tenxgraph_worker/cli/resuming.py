"""Set a run going again: answer it, end its pause, or continue it where it ended. Needs no code of the graph."""

import hashlib
import json
import uuid
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from pydantic_core import to_json

from tenxgraph.core.exceptions import InterruptConflictError, InvalidInputError, ThreadBusyError
from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.codec import EncodedUpdate
from tenxgraph.engine.answers import match_answers
from tenxgraph.engine.chunks import chunk
from tenxgraph.engine.step import PLAN_ADVANCE, PLAN_RESUME, PLAN_START
from tenxgraph.store.base import (
    PLAN,
    AdmissionOutcome,
    Dispatch,
    InputKind,
    NewRun,
    Resume,
    RunView,
    Store,
    TaskSpec,
    WaitKind,
)
from tenxgraph.wire import RunConfig, TaskUpdate


def resume_run(
    store: Store, run: RunView, answer: str | None, interrupt: str | None, queue: str
) -> tuple[str, Sequence[Dispatch]]:
    """Set a run going again.

    Args:
        store: Where it lives.
        run: As it stands.
        answer: JSON, or a text; for a run that asked.
        interrupt: Id of the question, if several wait.
        queue: For the plan tasks of a continuing run.

    Returns:
        Id of the run that goes on, a new one unless it waited; and what to dispatch.

    Raises:
        InvalidInputError: The run takes no answer, or needs one.
        InterruptConflictError: Somebody else was first.
        ThreadBusyError: Another run is active on the thread.
    """
    if run.status is RunStatus.WAITING:
        return run.run_id, _answer(store, run, answer, interrupt)
    if answer is not None or interrupt is not None:
        raise InvalidInputError(f"Run {run.run_id!r} is {run.status}: it asks nothing, so leave the answer out.")
    return _continue(store, run, queue, run.graph_version)


def retry_run(
    store: Store, run: RunView, among: Collection[RunStatus], queue: str, graph_version: str = ""
) -> tuple[str, Sequence[Dispatch]]:
    """Run again what failed or died of a run, by a run of its own.

    Args:
        store: Where it lives.
        run: As it stands.
        among: What it must have ended as.
        queue: For the plan tasks of the new run.
        graph_version: That the new run asks for; "" for the one of the run.

    Returns:
        Id of the new run, and what to dispatch.

    Raises:
        InvalidInputError: The run did not end like that, or nothing of it is left.
        ThreadBusyError: Another run is active on the thread.
    """
    if run.status not in among:
        wanted = " or ".join(sorted(among))
        raise InvalidInputError(
            f"Run {run.run_id!r} is {run.status}, not {wanted}: "
            f"'tenxgraph runs why {run.run_id}' says what would move it."
        )
    return _continue(store, run, queue, graph_version or run.graph_version)


def _answer(store: Store, run: RunView, answer: str | None, interrupt: str | None) -> Sequence[Dispatch]:
    answers = _answers(run, answer, interrupt)
    encoded = {name: to_json(value) for name, value in answers.items()}
    resumed = store.resume(Resume(run.thread_id, run.run_id, uuid.uuid4().hex, encoded))
    if not resumed.accepted:
        raise InterruptConflictError(
            f"Run {run.run_id!r} does not wait for this any more: somebody else answered it.",
            context={"run_id": run.run_id},
        )
    return resumed.dispatch


def _answers(run: RunView, answer: str | None, interrupt: str | None) -> dict[str, Any]:
    if run.wait != WaitKind.QUESTION:
        if answer is not None or interrupt is not None:
            raise InvalidInputError(f"Run {run.run_id!r} is paused and asks nothing: leave the answer out.")
        return {}
    if answer is None:
        raise InvalidInputError(
            f"Run {run.run_id!r} waits for an answer: tenxgraph runs resume {run.run_id} ANSWER; "
            f"'tenxgraph runs why {run.run_id}' shows the question."
        )
    value = as_value(answer)
    if interrupt is None:
        return match_answers(run, value)
    waiting = [asked.id for asked in run.interrupts if asked.answer is None]
    if interrupt not in waiting:
        raise InvalidInputError(
            f"Run {run.run_id!r} does not ask {interrupt!r}: it asks {', '.join(map(repr, waiting)) or 'nothing'}."
        )
    return match_answers(run, {interrupt: value})


def as_value(text: str) -> Any:
    """Read JSON; what is none is a text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _continue(store: Store, run: RunView, queue: str, graph_version: str) -> tuple[str, Sequence[Dispatch]]:
    thread = store.thread(run.thread_id)
    if thread is None or (not thread.active and thread.continuable != run.run_id):
        raise _nothing_left(run)
    new = replace(_continuing(run, queue), graph_version=graph_version)
    admission = store.admit(new)
    if admission.outcome in (AdmissionOutcome.BUSY, AdmissionOutcome.WAITING, AdmissionOutcome.QUEUED):
        raise ThreadBusyError(
            f"Run {admission.holder or 'before it'!r} is active on thread {run.thread_id!r}: wait for it, or cancel it."
        )
    if admission.outcome is not AdmissionOutcome.STARTED:
        raise _nothing_left(run)
    return new.run_id, admission.dispatch


def _nothing_left(run: RunView) -> InvalidInputError:
    return InvalidInputError(
        f"Run {run.run_id!r} is {run.status} and nothing of it is left to continue on thread {run.thread_id!r}: "
        "send a new message."
    )


def _continuing(run: RunView, queue: str) -> NewRun:
    config = replace(RunConfig.from_json(run.request), run_id=str(uuid.uuid4()), start_after_s=0.0)
    priority = config.priority or 0
    start, resume, advance = (
        TaskSpec(PLAN, kind, queue=queue, priority=priority) for kind in (PLAN_START, PLAN_RESUME, PLAN_ADVANCE)
    )
    return NewRun(
        thread_id=run.thread_id,
        run_id=config.run_id,
        graph=run.graph,
        graph_version=run.graph_version,
        user_id=run.user_id,
        kind=InputKind.CONTINUE,
        digest=hashlib.sha256(f"{run.thread_id}\0{run.run_id}".encode("utf-8", "surrogatepass")).hexdigest(),
        request=config.to_json(),
        input=TaskUpdate(EncodedUpdate({})).to_json(),
        start=start,
        resume=resume,
        advance=advance,
        strategy="reject",
        timeout_ms=round(config.timeout_s * 1000),
        events=chunk("run_start", data={"graph": run.graph}),
    )

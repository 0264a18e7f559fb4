"""What a run does about the run that has the thread, in memory: the moves of ``lua/_admission.lua``."""

from tenxgraph.core.graph.multitask import VERDICTS, MultitaskStrategy, Occupancy, ThreadInput, Verdict
from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.store.base import NewRun, WaitKind
from tenxgraph.store.memory_thread import Run, Thread

_BUSY = {RunStatus.QUEUED: Occupancy.QUEUED, RunStatus.RUNNING: Occupancy.RUNNING}


def occupancy_of(thread: Thread) -> Occupancy:
    """Return what an input finds on the thread."""
    run = thread.active_run
    if run is None:
        return Occupancy.CONTINUABLE if thread.continuable or thread.ready else Occupancy.FREE
    if run.status is RunStatus.WAITING:
        return Occupancy.QUESTION if run.wait == WaitKind.QUESTION else Occupancy.PAUSE
    return _BUSY.get(run.status, Occupancy.STOPPING)


def verdict_on(thread: Thread, new: NewRun, *, late: bool = False) -> Verdict:
    """Return what is done about a run that comes now."""
    given = ThreadInput(f"late_{new.kind}" if late else new.kind)
    return VERDICTS[given, occupancy_of(thread), MultitaskStrategy(new.strategy)]


def take_in(thread: Thread, run: Run, verdict: Verdict, now_ms: int) -> None:
    """Do what the verdict says."""
    if verdict in (Verdict.START, Verdict.FAIL):
        thread.start(run, now_ms)
    elif verdict is Verdict.QUEUE:
        thread.inbox.append(run.new.run_id)
    elif verdict is Verdict.REJECT:
        run.reason = f"rejected: run {thread.active} was active"
        thread.end_waiting(run, RunStatus.CANCELLED, now_ms)
    else:
        _supersede(thread, run, verdict, now_ms)


def _supersede(thread: Thread, run: Run, verdict: Verdict, now_ms: int) -> None:
    """Whatever came before makes room: the queue at once, the active run as the verdict says."""
    by, old = run.new.run_id, thread.runs[thread.active]
    for waiting in list(thread.inbox):
        thread.runs[waiting].reason = f"superseded by {by}"
        thread.end_waiting(thread.runs[waiting], RunStatus.CANCELLED, now_ms)
    thread.inbox.append(by)
    if verdict is Verdict.UNDO:
        _undo(thread, old, run, now_ms)
    elif verdict is Verdict.REPLACE:
        old.reason = f"superseded by {by}"
        thread.end(old, RunStatus.CANCELLED, now_ms)
    else:
        old.superseded = by
        if not old.stop:
            thread.stop(old, now_ms)


def _undo(thread: Thread, old: Run, run: Run, now_ms: int) -> None:
    """All that the run changed is changed back, by a version that is newer than any."""
    if thread.version.number != old.base:
        thread.return_to(old.base, run.new.nonce, old, RunStatus.CANCELLED, b"", now_ms)
    old.reason = f"rolled back by {run.new.run_id}"
    thread.end(old, RunStatus.CANCELLED, now_ms)

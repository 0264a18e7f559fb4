"""The store port: what a run asks of the place where threads live.

A store holds records and moves them under its own rules: who may write (token), on top of what (version), once (ids
that the caller made before the first try). It never looks into what it stores: specs, updates, plans, errors and
events are bytes to it. Every method is one atomic effect and may be repeated after a lost reply with the same
arguments; the repeat has the same answer. Times are the store's own, in milliseconds since the epoch.

Events are JSON lines: chunks parted by a newline; b"" appends nothing. Whenever a run ends or begins to wait, the store
itself appends ``{"event":"run_end","step":…,"data":{"status":…}}``. The one error that no worker can write is the
store's own too: of a run whose task kept killing its worker, ``{"error":…,"code":…,"message":…,"node":…,"attempt":…}``.
"""

# Over 300 lines of code: the port and the records that it speaks in are one contract, and are read as one.

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Protocol

from tenxgraph.core.exceptions import StorageError
from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.image import Patch, StateImage, Version

PLAN = "plan"


class TaskStatus(StrEnum):
    """Where a task of the current step stands."""

    QUEUED = "queued"
    CLAIMED = "claimed"
    RETRY_WAIT = "retry_wait"
    WAITING = "waiting"
    PARKED = "parked"
    COMMITTED = "committed"
    FAILED = "failed"

    @property
    def is_settled(self) -> bool:
        """True when the task needs no worker any more in this step, as things stand."""
        return self in (TaskStatus.WAITING, TaskStatus.PARKED, TaskStatus.COMMITTED, TaskStatus.FAILED)


class InputKind(StrEnum):
    """What a caller hands to a thread."""

    MESSAGE = "message"
    CONTINUE = "continue"


class WaitKind(StrEnum):
    """Why a run waits for a person."""

    BEFORE = "before"
    AFTER = "after"
    QUESTION = "question"


@dataclass(frozen=True, slots=True)
class TaskRef:
    """One attempt at one task: what a message on the broker names.

    Attributes:
        task: Position in the step's plan as text ("0", "1", …), or ``plan``.
        attempt: From 1.
    """

    thread_id: str
    run_id: str
    step: int
    task: str
    attempt: int


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A planned task.

    Attributes:
        node: The node's name; for a plan task what it does (start, resume, advance).
        queue: Queue of the broker, "" for the default.
        priority: 0 to 9, higher first.
        body: Opaque; what the task needs beyond the state.
    """

    task: str
    node: str
    queue: str = ""
    priority: int = 0
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A task whose message must reach the broker."""

    ref: TaskRef
    node: str
    queue: str
    priority: int
    graph: str
    graph_version: str
    version: Version


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """A dispatch's message, ready for a store that is the broker too.

    Attributes:
        key: Of the list that its queue is.
        payload: As the broker's clients read it.
    """

    key: str
    payload: str


@dataclass(frozen=True, slots=True)
class NewRun:
    """What admission needs to know of a run.

    Attributes:
        digest: Of thread, input and config: tells a repeat from another run under the same id.
        request: Opaque; the config, kept with the run.
        input: Opaque; what the start plan task merges. The run's first advance uses it up.
        start: The plan task that begins a run with a message.
        resume: The plan task that takes a paused or stopped run up again.
        advance: The plan task that merges a step's updates and routes.
        events: Written when the run starts.
        checkpoint: Version that the thread goes back to first, 0 for none: what it was goes on from there, under a
            journal of its own. Such a run waits for nobody: a thread with an active run is BUSY. Without effect where
            the thread stands there, and has something to continue, or begins with a message.
        meta: Opaque; kept with the checkpoint of the version that going back writes.
        delay_ms: Do not start before this long from now.
        timeout_ms: Time out this long after the start; 0 for never.
        messages: That of ``start``, or none; see :class:`Advance`.
        nonce: Made by the caller; names the version that undoes another run, or goes back, should this one do so.
    """

    thread_id: str
    run_id: str
    graph: str
    graph_version: str
    user_id: str
    kind: InputKind
    digest: str
    request: bytes
    input: bytes
    start: TaskSpec
    resume: TaskSpec
    advance: TaskSpec
    strategy: str = "enqueue"
    delay_ms: int = 0
    timeout_ms: int = 0
    events: bytes = b""
    messages: tuple[QueueMessage, ...] = ()
    nonce: str = field(default_factory=partial(secrets.token_hex, 8))
    checkpoint: int = 0
    meta: bytes = b""


class AdmissionOutcome(StrEnum):
    """What became of a request to run."""

    STARTED = "started"
    QUEUED = "queued"
    KNOWN = "known"
    RUN_ID_TAKEN = "run_id_taken"
    OTHER_OWNER = "other_owner"
    OTHER_GRAPH = "other_graph"
    BUSY = "busy"
    WAITING = "waiting"
    NOTHING_TO_CONTINUE = "nothing_to_continue"
    NO_CHECKPOINT = "no_checkpoint"


@dataclass(frozen=True, slots=True)
class Admission:
    """Answer of :meth:`Store.admit`.

    Attributes:
        holder: The name that stands in the way (owner, graph, run id), or "". When KNOWN: the run that took this call
            for an answer, if one did.
        after: With such a holder: id of its last event before the answer.
    """

    outcome: AdmissionOutcome
    dispatch: tuple[Dispatch, ...] = ()
    holder: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Interrupt:
    """A question that a task asked.

    Attributes:
        body: Opaque; value, reason, schema.
        answer: Opaque; None while it waits.
    """

    id: str
    task: str
    body: bytes
    answer: bytes | None = None


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as the store has it.

    Attributes:
        version: Of the state after the run's last advance.
        first_step: The run's step when it started; more than 0 when it continues another.
        origin: The run that this one continues at the end of the chain, else its own id.
        plan: Opaque; the frontier of the step.
        journal: The run that went back to a checkpoint last, or "": effects of before count no more.
        interrupts: In plan order of their tasks, never in the order of asking; those of one task as it asked them.
    """

    thread_id: str
    run_id: str
    graph: str
    graph_version: str
    user_id: str
    status: RunStatus
    reason: str
    step: int
    first_step: int
    version: int
    origin: str
    continues: str
    request: bytes
    input: bytes
    plan: bytes
    error: bytes
    wait: str
    interrupts: tuple[Interrupt, ...]
    created_ms: int
    started_ms: int
    ended_ms: int
    journal: str = ""


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task of a run's current step as the store has it; ``body`` as it was planned."""

    task: str
    node: str
    queue: str
    status: TaskStatus
    attempt: int
    deaths: int
    worker: str
    until_ms: int
    error: bytes
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class ThreadView:
    """A thread as the store has it.

    Attributes:
        active: Run that owns the thread, or "". So are ``continuable`` and ``last`` run ids.
        is_ready: Whether a continuation goes on from the newest checkpoint, which no run holds.
    """

    thread_id: str
    graph: str
    graph_version: str
    user_id: str
    version: Version
    active: str
    continuable: str
    last: str
    inbox: tuple[str, ...]
    created_ms: int
    changed_ms: int
    is_ready: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """A task is ours, under ``token``, while the lease is renewed.

    Attributes:
        spec: What was planned.
        alone: True when the step has no other task: its update may go straight into the advance.
        updates: For a plan task that advances: task → update, of all committed tasks.
        specs: For a plan task: the step's node tasks in plan order.
        image: The state before the step.
        error: Opaque; of the task's last failed attempt.
        first_started_ms: When the task was first claimed.
        deaths: How many attempts died with their process. A task with one is a suspect.
    """

    ref: TaskRef
    token: str
    spec: TaskSpec
    alone: bool
    run: RunView
    image: StateImage
    specs: tuple[TaskSpec, ...] = ()
    updates: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    error: bytes = b""
    first_started_ms: int = 0
    deaths: int = 0


@dataclass(frozen=True, slots=True)
class Refusal:
    """The store does not confirm the message: drop it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Renewal:
    """``alive`` is False when the attempt was fenced; ``stop`` is "", "stop" or "cancel"."""

    alive: bool
    stop: str = ""


@dataclass(frozen=True, slots=True)
class Committed:
    """Answer of :meth:`Store.commit`.

    Attributes:
        accepted: False when the attempt was fenced.
        plan: When this commit was the step's last: the claim of its advance, under the same token.
    """

    accepted: bool
    plan: Claim | None = None
    dispatch: tuple[Dispatch, ...] = ()


@dataclass(frozen=True, slots=True)
class NextClaim:
    """Who goes on with the only task that an advance plans, without a message.

    Attributes:
        nonce: Becomes the token of the claim.
        image: The state that the advance makes, as its caller has it.
        events: As of :meth:`Store.claim`.
    """

    nonce: str
    worker: str
    lease_ms: int
    image: StateImage
    events: bytes = b""


@dataclass(frozen=True, slots=True)
class Advance:
    """All that one step changes, written at once.

    Attributes:
        base: Version that the patch was made from; another one is refused.
        nonce: Names the version that this writes; made by the caller.
        step: The run's step from here on.
        status: RUNNING with tasks; WAITING; or the run's end.
        tasks: Next tasks in plan order; parked instead of dispatched when ``status`` is not RUNNING.
        plan: Opaque frontier.
        wait: A :class:`WaitKind` when ``status`` is WAITING.
        meta: Opaque; kept with the checkpoint (who ran, what comes next).
        events: JSON lines of stream chunks.
        messages: Those of ``tasks``, in their order, or none. A store that is the broker too puts them on their queues
            in the same write, if it is these tasks that are dispatched; then its answer asks for no dispatch.
        claim: Take the one task of ``tasks`` in the same write, if the run goes on with it; no messages go with it.
    """

    base: Version
    nonce: str
    patch: Patch
    step: int
    status: RunStatus
    tasks: tuple[TaskSpec, ...] = ()
    plan: bytes = b""
    reason: str = ""
    wait: str = ""
    error: bytes = b""
    meta: bytes = b""
    events: bytes = b""
    messages: tuple[QueueMessage, ...] = ()
    claim: NextClaim | None = None


@dataclass(frozen=True, slots=True)
class Advanced:
    """Answer of :meth:`Store.advance`; not accepted when fenced or the version moved.

    Attributes:
        claim: Of the next task, where the advance asked for it and the run went on.
    """

    accepted: bool
    version: Version = Version.ZERO
    status: RunStatus = RunStatus.RUNNING
    dispatch: tuple[Dispatch, ...] = ()
    claim: Claim | None = None


@dataclass(frozen=True, slots=True)
class Settlement:
    """How an attempt ended without an update.

    Attributes:
        status: RETRY_WAIT, FAILED or WAITING.
        delay_ms: For RETRY_WAIT.
        error: Opaque; for RETRY_WAIT and FAILED.
        interrupts: For WAITING.
        events: Of the attempt.
    """

    status: TaskStatus
    delay_ms: int = 0
    reason: str = ""
    error: bytes = b""
    interrupts: tuple[Interrupt, ...] = ()
    events: bytes = b""


@dataclass(frozen=True, slots=True)
class Settled:
    """Answer of :meth:`Store.settle`."""

    accepted: bool
    dispatch: tuple[Dispatch, ...] = ()


@dataclass(frozen=True, slots=True)
class Emission:
    """Events that a living attempt tells of before it ends.

    Attributes:
        number: From 1, one more with each emission of the attempt: a repeat under it appends nothing.
    """

    ref: TaskRef
    token: str
    number: int
    events: bytes


class ReservationOutcome(StrEnum):
    """How an effect stands for who wants to make it."""

    GRANTED = "granted"
    DONE = "done"
    HELD = "held"
    LOST = "lost"
    FENCED = "fenced"


@dataclass(frozen=True, slots=True)
class Reservation:
    """Answer of :meth:`Store.reserve`.

    Attributes:
        result: Opaque; of an effect that is DONE.
        until_ms: End of the lease of a reservation that is GRANTED or HELD.
    """

    outcome: ReservationOutcome
    result: bytes = b""
    until_ms: int = 0


@dataclass(frozen=True, slots=True)
class Resume:
    """Answers to a waiting run.

    Attributes:
        resume_id: Made by the caller; a repeat is recognised by it.
        answers: Interrupt id → opaque answer; empty when the run was paused before or after a node.
        input: Opaque; becomes the run's input when it was paused.
        events: Written with it.
        digest: Tells a repeat from another call under the same id; without a colon.
    """

    thread_id: str
    run_id: str
    resume_id: str
    answers: Mapping[str, bytes]
    input: bytes = b""
    events: bytes = b""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Resumed:
    """Answer of :meth:`Store.resume`.

    Attributes:
        accepted: False when nothing waits, or not that.
        missing: The ids that do not wait.
        after: Id of the run's last event before the resume: follow from here.
    """

    accepted: bool
    missing: tuple[str, ...] = ()
    after: str = ""
    dispatch: tuple[Dispatch, ...] = ()


@dataclass(frozen=True, slots=True)
class ResumeView:
    """A resume that was accepted: the run that took it, the caller's digest, the run's last event before it or ""."""

    run_id: str
    digest: str
    after: str


@dataclass(frozen=True, slots=True)
class StopAnswer:
    """``status`` is the run's status after the request; None when there is no such run."""

    status: RunStatus | None
    dispatch: tuple[Dispatch, ...] = ()


@dataclass(frozen=True, slots=True)
class RecoveryRules:
    """Numbers that the reconciler judges by.

    Attributes:
        grace_ms: How long a dispatched task may stay unclaimed before it is suspected lost; doubles with each resend
            after the first.
        max_deliveries: Attempts that may die with their process before the run is dead.
        forgive_leases: True right after an outage: leases that ran out are left alone.
        max_lost_leases: Leases of a task that may run out, also with a process that lived, before the run is dead.
    """

    grace_ms: int
    max_deliveries: int
    forgive_leases: bool = False
    max_lost_leases: int = 10


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """How long what is past is kept.

    Attributes:
        keep_last: Checkpoints of a thread; 0 for all.
        keep_ms: Age of a checkpoint; 0 for any.
        grace_ms: Age up to which a checkpoint stays in any case, so that who waits for a result gets it.
        thread_keep_ms: Rest of a thread, after which it is deleted; 0 for none.
    """

    keep_last: int = 0
    keep_ms: int = 0
    grace_ms: int = 0
    thread_keep_ms: int = 0

    @property
    def is_for_ever(self) -> bool:
        """Whether nothing ever goes."""
        return not (self.drops_checkpoints or self.thread_keep_ms)

    @property
    def drops_checkpoints(self) -> bool:
        """Whether checkpoints go before their thread does: also while it works."""
        return bool(self.keep_last or self.keep_ms)


@dataclass(frozen=True, slots=True)
class Retention:
    """Answer of :meth:`Store.retain`.

    Attributes:
        dropped: Checkpoints that went.
        next_due_ms: When something goes next; None for never.
        is_over: The thread was at rest for so long that it is to be deleted.
    """

    dropped: int = 0
    next_due_ms: int | None = None
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class Overdue:
    """A dispatched task that nobody claimed within its grace."""

    dispatch: Dispatch
    dispatched_ms: int


@dataclass(frozen=True, slots=True)
class Recovery:
    """Answer of :meth:`Store.recover`.

    Attributes:
        dispatch: Messages to put on the broker now.
        overdue: Tasks to send again if their queue shows that the message is gone.
        next_due_ms: When this thread needs the scheduler next; None for never.
        expired: Attempts whose lease ran out and that were fenced.
    """

    dispatch: tuple[Dispatch, ...] = ()
    overdue: tuple[Overdue, ...] = ()
    next_due_ms: int | None = None
    expired: tuple[TaskRef, ...] = ()


@dataclass(frozen=True, slots=True)
class DueThread:
    """A thread whose moment has come; ``touch`` counts the calls that lowered it."""

    thread_id: str
    touch: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The record of a version.

    Attributes:
        run_id: Who wrote it; "" for none.
        step: Step of that run from here on.
        tasks: What runs next from here, in plan order.
        plan: Opaque frontier.
        wait: A :class:`WaitKind` where a run pauses here.
    """

    version: Version
    run_id: str
    step: int
    status: RunStatus
    meta: bytes
    created_ms: int
    tasks: tuple[TaskSpec, ...] = ()
    plan: bytes = b""
    wait: str = ""


@dataclass(frozen=True, slots=True)
class NewThread:
    """A thread that begins with a state and what comes next from there, and without a run.

    Attributes:
        nonce: Names its version 1; made by the caller.
        patch: The whole state.
        media: Id → data that the state refers to.
        step: As in :class:`Checkpoint`, with all above. Unless it is COMPLETED, a continuation goes on from here.
    """

    thread_id: str
    graph: str
    graph_version: str
    user_id: str
    nonce: str
    patch: Patch
    step: int
    status: RunStatus
    meta: bytes
    tasks: tuple[TaskSpec, ...] = ()
    plan: bytes = b""
    wait: str = ""
    media: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of a thread's state beside its runs.

    Attributes:
        run_id: The run that waits on the thread, or "" for none.
        base: Version that the patch was made from; another one is refused.
        nonce: Names the version that this writes; made by the caller.
        replans: Whether what comes next takes the place of what the thread held: a waiting run's step, a failed or
            stopped run's, that of an earlier edit. Else it is the same, kept with the checkpoint.
        status: Of the checkpoint. Unless it is COMPLETED, and nobody waits, a continuation goes on from here.
    """

    thread_id: str
    run_id: str
    base: Version
    nonce: str
    patch: Patch
    step: int
    status: RunStatus
    meta: bytes
    tasks: tuple[TaskSpec, ...] = ()
    plan: bytes = b""
    wait: str = ""
    replans: bool = False


class EditOutcome(StrEnum):
    """What became of an edit."""

    WRITTEN = "written"
    STALE = "stale"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class Edited:
    """Answer of :meth:`Store.edit`; ``holder`` is the run that is BUSY on the thread, or ""."""

    outcome: EditOutcome
    holder: str = ""


@dataclass(frozen=True, slots=True)
class StoredEvents:
    """One append to a run's event stream: ``id`` by the store, ``body`` JSON lines of chunks."""

    id: str
    at_ms: int
    body: bytes


class Store(Protocol):
    """The port.

    Whoever calls ``renew``, ``commit``, ``advance``, ``settle``, ``emit``, ``reserve`` or ``hand_back`` under the token
    of an attempt whose lease ran out is alive: the death that was counted for it is taken back.

    Raises StorageError when the place is away or refuses writes; then the effect may have happened.
    """

    def admit(self, run: NewRun) -> Admission:
        """Take a run in: start it, queue it, refuse it, or let it take the place of the active one and those queued.

        Its strategy decides, by the table of :mod:`tenxgraph.core.graph.multitask`; that of a delayed run when its
        moment has come. Repeats are known by ``run_id``.

        So are those of a call that became an answer: its ``run_id`` is then the id of a resume.
        """
        ...

    def claim(
        self,
        ref: TaskRef,
        nonce: str,
        *,
        worker: str,
        lease_ms: int,
        known: StateImage | None,
        events: bytes,
        suspect_pause_ms: int = 0,
    ) -> Claim | Refusal:
        """Take a task under ``nonce`` as its token. ``known`` is what the caller has of the state.

        A caller that holds a suspect says how long another one shall wait instead: ``suspect_pause_ms``, doubled each
        time up to sixteen times as long.
        """
        ...

    def renew(self, ref: TaskRef, token: str, *, lease_ms: int, leaving: bool = False) -> Renewal:
        """Lengthen a lease and learn of a stop.

        A worker that is ``leaving`` was told to end: should it be killed before it has, that counts as no death.
        """
        ...

    def commit(self, ref: TaskRef, token: str, update: bytes, *, lease_ms: int, events: bytes) -> Committed:
        """Hand in a task's update. The one that empties the set of missing tasks takes the advance."""
        ...

    def advance(self, ref: TaskRef, token: str, advance: Advance) -> Advanced:
        """Write a step: state, checkpoint, events and next tasks, or the run's end and the next run's start.

        The run's input, updates and interrupts are used up by it.
        """
        ...

    def settle(self, ref: TaskRef, token: str, settlement: Settlement) -> Settled:
        """End an attempt that has no update: a retry later, a failure, a question."""
        ...

    def give_back(self, ref: TaskRef, *, reason: str, pause_ms: int) -> bool:
        """A worker cannot run this task: dispatch it again after a pause that doubles each time."""
        ...

    def hand_back(self, ref: TaskRef, token: str) -> Settled:
        """End an attempt that its worker gives up in order: no death, and the next attempt is ready at once."""
        ...

    def emit(self, emissions: Sequence[Emission]) -> Sequence[bool | StorageError]:
        """Append events of living attempts, in one trip.

        Returns:
            For each emission: False when its attempt was fenced, or the error that concerns it alone.
        """
        ...

    def reserve(
        self, ref: TaskRef, token: str, key: str, nonce: str, *, lease_ms: int, at_most_once: bool
    ) -> Reservation:
        """Take an effect in hand, or learn how it stands. The claim's lease is lengthened to the reservation's.

        Whoever asks first is GRANTED it under ``nonce`` and makes it; for others it is HELD while that lease lasts and
        is not given up. After that the next who asks is GRANTED it; but with ``at_most_once`` it is LOST in the run
        that reserved it, and only a run that continues that one begins anew. FENCED attempts reserve nothing.

        Args:
            ref: The attempt that asks.
            token: Its claim's.
            key: Names the effect in the thread.
            nonce: Made by the caller for this one try; a repeat under it is GRANTED again, however late.
            lease_ms: Of the reservation, which whoever makes the effect renews; 0 for one that cannot be waited for.
            at_most_once: Whether a reservation that nobody renews any more may have happened for good.
        """
        ...

    def renew_effect(self, thread_id: str, key: str, nonce: str, *, lease_ms: int) -> bool:
        """Lengthen a reservation, also after its attempt was fenced. False when it is another's, given up or done."""
        ...

    def release_effect(self, thread_id: str, key: str, nonce: str) -> bool:
        """Give a reservation up: the call ended without a result. Nobody waits for it any more."""
        ...

    def record(self, thread_id: str, key: str, nonce: str, result: bytes) -> bool:
        """Note that an effect is done; the first wins, also after its attempt was fenced or its run cancelled.

        Returns:
            Whether ``result`` is the one that is kept. False when another was first, or ``nonce`` never reserved it.
        """
        ...

    def turn(self, what: str, nonce: str, *, limit: int, period_ms: int) -> int:
        """Take a place in the line for something that all workers together may do ``limit`` times in any period.

        Returns:
            In how many milliseconds it is the turn of ``nonce``, 0 from that moment on. A place is given once; whoever
            asks again under the nonce within a minute after its turn has it still.
        """
        ...

    def put_media(self, ref: TaskRef, token: str, media_id: str, data: bytes) -> bool:
        """Keep data with the thread under an id that follows from it, once; False when the attempt was fenced."""
        ...

    def media(self, thread_id: str, media_id: str) -> bytes | None:
        """The data that a thread keeps under an id; None when it keeps none."""
        ...

    def resume(self, resume: Resume) -> Resumed:
        """Answer a waiting run, once."""
        ...

    def resumed(self, thread_id: str, resume_id: str) -> ResumeView | None:
        """What an accepted resume was given to."""
        ...

    def stop(self, thread_id: str, run_id: str, *, events: bytes) -> StopAnswer:
        """Ask the run to end after the step in flight; end it at once when none is."""
        ...

    def cancel(self, thread_id: str, run_id: str, *, reason: str, error: bytes, events: bytes) -> StopAnswer:
        """End the run now and fence the step in flight."""
        ...

    def fork(self, thread: NewThread) -> bool:
        """Begin a thread from a state. False when there is one of that id; a repeat under the nonce is True again."""
        ...

    def edit(self, edit: Edit) -> Edited:
        """Write a version beside the thread's runs, while none is at work: on top of ``base``, or not at all."""
        ...

    def due(self, limit: int, put_off_ms: int = 0) -> Sequence[DueThread]:
        """Threads whose moment has come, oldest first; put off, so that meanwhile nobody else is told of them."""
        ...

    def recover(self, thread_id: str, rules: RecoveryRules) -> Recovery:
        """Do for one thread what depends on time."""
        ...

    def retain(self, thread_id: str, rules: RetentionRules) -> Retention:
        """Drop checkpoints, at most some hundreds at once, and lists that none points at any more.

        The newest stays, and where a run began that lives or can be continued.
        """
        ...

    def mark_resent(self, overdue: Overdue) -> bool:
        """Record that an overdue task is sent again; False when somebody else did, or it was claimed."""
        ...

    def settle_due(self, due: DueThread, next_due_ms: int | None) -> None:
        """Re-score or remove a due thread, unless it was touched since."""
        ...

    def next_due_ms(self) -> int | None:
        """The earliest moment at which any thread is due."""
        ...

    def now_ms(self) -> int:
        """The store's clock."""
        ...

    def thread(self, thread_id: str) -> ThreadView | None:
        """A thread's record."""
        ...

    def run(self, run_id: str) -> RunView | None:
        """A run's record."""
        ...

    def tasks(self, run_id: str) -> Sequence[TaskView]:
        """Tasks of the run's current step, in plan order."""
        ...

    def threads(self, *, limit: int, offset: int = 0) -> Sequence[ThreadView]:
        """Threads by last change, newest first."""
        ...

    def runs(self, thread_id: str) -> Sequence[RunView]:
        """The thread's runs, oldest first."""
        ...

    def image(self, thread_id: str, version: int | None = None, known: StateImage | None = None) -> StateImage:
        """The state at a version (the newest without). KeyError when there is none."""
        ...

    def log(self, thread_id: str, name: str, *, offset: int, limit: int, home: int | None = None) -> Sequence[bytes]:
        """All that was ever written to a list, oldest first, whatever was cut out of it.

        Args:
            thread_id: A thread that is not there has no items.
            name: Of the list field.
            home: Only what lies in the list of this generation.
            offset: How many to pass over; below 0 counted from the end.
            limit: How many to return at most.
        """
        ...

    def checkpoint(self, thread_id: str, version: int | None = None) -> Checkpoint | None:
        """The record of a version (the newest without)."""
        ...

    def checkpoints(self, thread_id: str, *, limit: int, before: int | None = None) -> Sequence[Checkpoint]:
        """Records of versions, newest first."""
        ...

    def events(self, thread_id: str, run_id: str, after: str, *, timeout_s: float) -> Sequence[StoredEvents]:
        """Events after an id ("" for all); waits up to ``timeout_s`` for the first."""
        ...

    async def aevents(self, thread_id: str, run_id: str, after: str, *, timeout_s: float) -> Sequence[StoredEvents]:
        """The same without holding a thread."""
        ...

    def keeps_event(self, thread_id: str, run_id: str, event_id: str) -> bool:
        """Whether an append to a run's stream is still there: of many, and with time, the oldest go."""
        ...

    def delete_thread(self, thread_id: str, *, rested_ms: int = 0) -> bool:
        """Remove all that belongs to a thread; False while a run is active or waits, or nothing is there.

        With ``rested_ms`` only if nothing happened on it for so long.
        """
        ...

    def close(self) -> None:
        """Give connections back. The store may be used again afterwards."""
        ...

"""A store driven at random through its port, and the invariants of the execution protocol checked after each move.

Needs hypothesis. Derive from :class:`StoreMachine` where your store has another harness::

    class MyMachine(StoreMachine):
        def make_harness(self):
            return MyHarness()


    TestMyStore = MyMachine.TestCase
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.image import Patch
from tenxgraph.store.base import (
    PLAN,
    Admission,
    AdmissionOutcome,
    Claim,
    Dispatch,
    DueThread,
    InputKind,
    RecoveryRules,
    Refusal,
    RunView,
    Settled,
    TaskStatus,
    WaitKind,
)
from tenxgraph.testing.contract.harness import MemoryHarness, StoreHarness, StoreMoves

_T = TypeVar("_T")
_any = st.integers(0, 1_000)
_rarely = st.one_of(*[st.none()] * 4, st.integers(0, 1_000))
_repeat = st.booleans()
_ENDINGS = (
    (RunStatus.COMPLETED, "", 0),
    (RunStatus.FAILED, "", 1),
    (RunStatus.WAITING, WaitKind.BEFORE, 2),
    (RunStatus.WAITING, WaitKind.AFTER, 0),
    *[(RunStatus.RUNNING, "", width) for width in (1, 2, 3, 2, 1)],
)


@dataclass(slots=True)
class Attempt:
    """A claim that a worker holds, or still believes to hold."""

    claim: Claim
    is_over: bool = False


class StoreMachine(RuleBasedStateMachine):
    """Clients, workers and schedulers without manners.

    Messages are lost, doubled and late; replies are lost and calls repeated, at once or much later; workers go on after
    they were fenced. At the end everything is drained by what the store says is due, and every run must end.
    """

    thread_ids = ("t1", "t2")
    times_ms = (1, 40, 10_000)
    rules_of_recovery = RecoveryRules(grace_ms=1_000, max_deliveries=2)

    def __init__(self) -> None:
        super().__init__()
        self.moves = StoreMoves()
        self.moves.harness = self.make_harness()
        self.store = self.moves.store
        self.messages: list[Dispatch] = []
        self.attempts: list[Attempt] = []
        self.run_ids: list[str] = []
        self.accepted: list[Callable[[], Any]] = []
        self.seen_due: list[tuple[DueThread, int | None]] = []
        self.ended: dict[str, tuple[object, ...]] = {}
        self.updates: dict[tuple[str, int], dict[str, bytes]] = defaultdict(dict)
        self.logs: dict[str, list[bytes]] = defaultdict(list)
        self.answers: dict[str, bytes] = {}
        self.numbers = count()

    def make_harness(self) -> StoreHarness:
        """Return an empty store and its time."""
        return MemoryHarness()

    # -- what the model knows

    def view(self, run_id: str) -> RunView:
        """Return a run's record."""
        return self.moves.view(run_id)

    def unique(self) -> bytes:
        """Return what nothing else in this story is."""
        return b"u%d" % next(self.numbers)

    def lives(self, attempt: Attempt) -> bool:
        """Tell whether the attempt may still write."""
        return not attempt.is_over and not self.view(attempt.claim.ref.run_id).status.is_terminal

    def picture(self) -> list[object]:
        """Return all that a write could change."""
        return [
            (view, self.store.tasks(view.run_id), self.moves.bodies(view.run_id, thread_id), self.store.thread(thread_id))
            for thread_id in self.thread_ids
            for view in self.store.runs(thread_id)
        ]

    def once(self, call: Callable[[], _T], *, repeat: bool, keep: bool = True) -> _T:
        """Make a call; as if the reply was lost, make it again: the same answer, and nothing changes."""
        answer = call()
        if repeat:
            before = self.picture()
            again = call()
            assert again == known(answer), (answer, again)
            assert self.picture() == before
        if keep and is_success(answer):
            self.accepted.append(call)
        self.messages.extend(getattr(answer, "dispatch", ()))
        return answer

    def refused(self, call: Callable[[], Any]) -> None:
        """Make a call that the store must refuse, leaving all as it is."""
        before = self.picture()
        answer = call()
        assert not is_success(answer), answer
        assert self.picture() == before

    @staticmethod
    def pick(items: Sequence[_T], number: int) -> _T:
        """Choose one, of the newer ones more often."""
        newest = items[-6:] if number % 4 else items
        return newest[number % len(newest)]

    def pick_attempt(self, number: int) -> Attempt:
        """Choose one, of those that live more often."""
        living = [attempt for attempt in self.attempts if self.lives(attempt)]
        return self.pick(living if living and number % 5 else self.attempts, number)

    def pick_waiting(self, number: int) -> RunView:
        """Choose a run, of those that ask or wait more often."""
        views = [self.view(run_id) for run_id in self.run_ids]
        waiting = [view for view in views if view.interrupts or view.status is RunStatus.WAITING]
        return self.pick(waiting if waiting and number % 5 else views, number)

    # -- clients

    @initialize(width=st.integers(0, 3), steps=st.integers(0, 2), questions=st.integers(0, 2))
    def begin(self, width: int, steps: int, questions: int) -> None:
        """Most stories begin in the middle of a run, some with a question."""
        if width == 0:
            return
        self.take_in("t1", "r0")
        for number in range(steps + 1):
            self.deliver(self.messages[-1], self.times_ms[2], repeat=False)
            self.write(self.attempts[-1], (RunStatus.RUNNING, "", 1 if number < steps else width), repeat=False)
        if questions:
            self.deliver(self.messages[-1], self.times_ms[2], repeat=False)
            ids = [f"r0/{steps + 1}/{width - 1}/{number}" for number in range(questions)]
            held = self.attempts[-1]
            self.end(held, lambda: self.moves.ask(held.claim, *ids), repeat=False)

    def take_in(self, thread_id: str, run_id: str, *, repeat: bool = False, **changes: Any) -> Admission:
        """Submit a run."""
        answer = self.once(lambda: self.moves.admit(run_id, thread_id, **changes), repeat=repeat)
        if answer.outcome in (AdmissionOutcome.STARTED, AdmissionOutcome.QUEUED):
            self.run_ids.append(run_id)
        return answer

    @rule(
        thread=_any, kind=st.sampled_from(InputKind), reject=st.booleans(), when=st.integers(0, 5), limit=st.integers(0, 5)
    )
    def admit(self, thread: int, kind: InputKind, reject: bool, when: int, limit: int) -> None:
        """Somebody submits a run."""
        thread_id, run_id = self.pick(self.thread_ids, thread), f"r{len(self.run_ids)}"
        changes: dict[str, Any] = {"kind": kind, "strategy": "reject" if reject else "enqueue"}
        changes["delay_ms"] = self.times_ms[1] if when == 0 else 0
        changes["timeout_ms"] = self.times_ms[2] if limit == 0 else 0
        free = not self.store.thread(thread_id) or not self.moves.thread(thread_id).active
        answer = self.take_in(thread_id, run_id, repeat=limit % 2 == 0, **changes)
        if kind is InputKind.MESSAGE and free:
            assert (answer.outcome is AdmissionOutcome.QUEUED) == (when == 0), answer

    @precondition(lambda self: self.run_ids)
    @rule(run=_rarely, repeat=_repeat)
    def stop(self, run: int | None, repeat: bool) -> None:
        """Somebody stops a run."""
        if run is None:
            return
        view = self.view(self.pick(self.run_ids, run))
        answer = self.once(lambda: self.moves.stop(view.run_id, view.thread_id), repeat=repeat)
        assert answer.status in (RunStatus.STOPPING, RunStatus.STOPPED) or answer.status is view.status

    @precondition(lambda self: self.run_ids)
    @rule(run=_rarely, repeat=_repeat)
    def cancel(self, run: int | None, repeat: bool) -> None:
        """Somebody cancels a run."""
        if run is None:
            return
        view = self.view(self.pick(self.run_ids, run))
        answer = self.once(lambda: self.moves.cancel(view.run_id, view.thread_id), repeat=repeat)
        assert answer.status is (view.status if view.status.is_terminal else RunStatus.CANCELLED)

    @precondition(lambda self: self.run_ids)
    @rule(run=_any, some=_any, repeat=_repeat)
    def resume(self, run: int, some: int, repeat: bool) -> None:
        """Somebody answers, or goes on after a pause."""
        view = self.pick_waiting(run)
        ids = [asked.id for asked in view.interrupts if asked.answer is None]
        answers = {i: self.unique() for position, i in enumerate(ids) if (some + position) % 3}
        there = {"resume_id": self.unique().decode(), "run_id": view.run_id, "thread_id": view.thread_id}
        may = view.status is RunStatus.WAITING and (bool(answers) or view.wait != WaitKind.QUESTION)
        may = may or (view.status in (RunStatus.RUNNING, RunStatus.QUEUED) and bool(answers))
        answer = self.once(lambda: self.moves.resume(answers, input=b"more", **there), repeat=repeat)
        assert answer.accepted is may, (view, answers, answer)
        if answer.accepted:
            assert not answers.keys() & self.answers.keys()
            self.answers.update(answers)

    @precondition(lambda self: self.answers and self.run_ids)
    @rule(run=_any, which=_any)
    def answer_again(self, run: int, which: int) -> None:
        """Somebody else answers what was answered."""
        view = self.view(self.pick(self.run_ids, run))
        taken = {self.pick(list(self.answers), which): b"other"}
        self.refused(lambda: self.moves.resume(taken, run_id=view.run_id, thread_id=view.thread_id))

    # -- workers

    @precondition(lambda self: self.messages)
    @rule(message=_any, lease=st.sampled_from([1, 2, 2, 2]), repeat=_repeat)
    def claim(self, message: int, lease: int, repeat: bool) -> None:
        """A message reaches a worker, perhaps not for the first time."""
        self.deliver(self.pick(self.messages, message), self.times_ms[lease], repeat=repeat)

    @precondition(lambda self: self.messages)
    @rule(newest=st.integers(1, 4), repeat=_repeat)
    def claim_newest(self, newest: int, repeat: bool) -> None:
        """The newest messages reach workers."""
        for message in self.messages[-newest:]:
            self.deliver(message, self.times_ms[2], repeat=repeat)

    def deliver(self, message: Dispatch, lease_ms: int, *, repeat: bool) -> None:
        """A worker claims what a message names; it gets it if it is there to be had."""
        ref, nonce = message.ref, self.unique().decode()
        view = self.view(ref.run_id)
        tasks = {task.task: task for task in self.store.tasks(ref.run_id)} if view.step == ref.step else {}
        task = tasks.get(ref.task)
        active = self.moves.thread(ref.thread_id).active == ref.run_id
        free = active and task is not None and (task.status, task.attempt) == (TaskStatus.QUEUED, ref.attempt)
        answer = self.once(
            lambda: self.moves.try_claim(ref, nonce=nonce, lease_ms=lease_ms), repeat=repeat, keep=False
        )
        assert isinstance(answer, Claim) is free, (answer, task)
        if isinstance(answer, Claim):
            self.hold(answer)

    def hold(self, claim: Claim) -> None:
        """A worker got a task: it brings the updates and answers that are there."""
        self.attempts.append(Attempt(claim))
        if claim.spec.node == "advance":
            assert dict(claim.updates) == self.updates[claim.run.origin, claim.ref.step]
            assert list(claim.updates) == [spec.task for spec in claim.specs]
        for asked in claim.run.interrupts:
            assert asked.answer == self.answers.get(asked.id)

    @precondition(lambda self: self.attempts)
    @rule(attempt=_any, repeat=_repeat)
    def commit(self, attempt: int, repeat: bool) -> None:
        """A worker hands in an update, under a token that may be worth nothing any more."""
        self.hand_in(self.pick_attempt(attempt), repeat=repeat)

    @precondition(lambda self: self.attempts)
    @rule(repeat=_repeat, width=st.integers(1, 3))
    def finish_step(self, repeat: bool, width: int) -> None:
        """All workers that may commit or advance do so."""
        for held in [held for held in self.attempts if self.lives(held)]:
            if held.claim.ref.task != PLAN and not held.claim.alone:
                self.hand_in(held, repeat=repeat)
        for held in [held for held in self.attempts if self.lives(held)]:
            self.write(held, (RunStatus.RUNNING, "", width), repeat=repeat)

    def hand_in(self, held: Attempt, *, repeat: bool) -> None:
        """A worker hands in an update; it counts if the attempt lives."""
        ref, update = held.claim.ref, self.unique()
        if ref.task == PLAN:
            return
        if not self.lives(held):
            if self.updates[held.claim.run.origin, ref.step].get(ref.task) is None:
                self.refused(lambda: self.moves.commit(held.claim, update))
            return
        answer = self.once(lambda: self.moves.commit(held.claim, update), repeat=repeat)
        assert answer.accepted
        held.is_over = True
        self.updates[held.claim.run.origin, ref.step][ref.task] = update
        if answer.plan is not None:
            self.hold(answer.plan)

    @precondition(lambda self: self.attempts)
    @rule(attempt=_any, ending=st.sampled_from(_ENDINGS), repeat=_repeat)
    def advance(self, attempt: int, ending: tuple[RunStatus, str, int], repeat: bool) -> None:
        """A worker writes a step."""
        self.write(self.pick_attempt(attempt), ending, repeat=repeat)

    def write(self, held: Attempt, ending: tuple[RunStatus, str, int], *, repeat: bool) -> None:
        """A worker merges the updates in plan order and advances, if the attempt lives and may."""
        claim, (status, wait, width) = held.claim, ending
        own = [] if claim.ref.task == PLAN else [self.unique()]
        merged = own or [claim.updates[spec.task] for spec in claim.specs if spec.task in claim.updates]
        nodes = [f"n{number}" for number in range(width)]
        patch = Patch({}, {"log": tuple(merged)}) if merged else Patch()
        step = self.moves.next_step(claim, *nodes, status=status, wait=wait, patch=patch)
        if not self.lives(held) or not (claim.ref.task == PLAN or claim.alone):
            self.refused(lambda: self.store.advance(claim.ref, claim.token, step))
            return
        is_stopping = self.view(claim.ref.run_id).status is RunStatus.STOPPING
        answer = self.once(lambda: self.store.advance(claim.ref, claim.token, step), repeat=repeat)
        assert answer.accepted
        assert answer.version.number == claim.image.version.number + 1
        assert answer.status.is_terminal or not is_stopping
        assert not is_stopping or all(message.ref.run_id != claim.ref.run_id for message in answer.dispatch)
        held.is_over = True
        self.logs[claim.ref.thread_id] += merged

    @precondition(lambda self: self.attempts)
    @rule(attempt=_any, status=st.sampled_from([TaskStatus.RETRY_WAIT, TaskStatus.FAILED]), repeat=_repeat)
    def settle(self, attempt: int, status: TaskStatus, repeat: bool) -> None:
        """An attempt fails, for now or for good."""
        held = self.pick_attempt(attempt)
        delay_ms = self.times_ms[1]
        self.end(held, lambda: self.moves.settle(held.claim, status, delay_ms=delay_ms, error=b"boom"), repeat=repeat)

    @precondition(lambda self: self.attempts)
    @rule(attempt=_any, questions=st.integers(1, 2), repeat=_repeat)
    def ask(self, attempt: int, questions: int, repeat: bool) -> None:
        """A task asks what it does not know yet."""
        held = self.pick_attempt(attempt)
        claim = held.claim
        answered = {asked.id for asked in claim.run.interrupts if asked.answer is not None}
        ids = [f"{claim.run.origin}/{claim.ref.step}/{claim.ref.task}/{number}" for number in range(questions)]
        ids = [interrupt_id for interrupt_id in ids if interrupt_id not in answered]
        if ids and claim.ref.task != PLAN:
            self.end(held, lambda: self.moves.ask(claim, *ids), repeat=repeat)

    def end(self, held: Attempt, call: Callable[[], Settled], *, repeat: bool) -> None:
        """An attempt ends without an update, if it lives."""
        if self.lives(held):
            assert self.once(call, repeat=repeat).accepted
            held.is_over = True
        elif not held.is_over:
            self.refused(call)

    @precondition(lambda self: self.attempts)
    @rule(attempt=_any)
    def renew_and_emit(self, attempt: int) -> None:
        """A heartbeat."""
        held = self.pick_attempt(attempt)
        claim = held.claim
        lives = self.lives(held)
        renewal = self.store.renew(claim.ref, claim.token, lease_ms=self.times_ms[2])
        assert renewal.alive is lives
        assert not lives or (renewal.stop != "") is (self.view(claim.ref.run_id).status is RunStatus.STOPPING)
        assert self.store.emit(claim.ref, claim.token, b"told") is lives

    @precondition(lambda self: self.messages)
    @rule(message=_any)
    def give_back(self, message: int) -> None:
        """A worker that does not know the graph passes a task on."""
        self.store.give_back(self.pick(self.messages, message).ref, reason="unknown", pause_ms=self.times_ms[1])

    # -- time

    @rule(ms=st.sampled_from([0, 1, 2]))
    def time_passes(self, ms: int) -> None:
        """Time passes."""
        self.moves.harness.sleep_ms(self.times_ms[ms] + 1)

    @rule(thread=_any, forgive=st.booleans(), late=st.booleans())
    def recover(self, thread: int, forgive: bool, late: bool) -> None:
        """A scheduler looks after a thread; another may have been faster."""
        thread_id = self.pick(self.thread_ids, thread)
        due = [due for due in self.store.due(10) if due.thread_id == thread_id]
        recovery = self.look_after(thread_id, replace(self.rules_of_recovery, forgive_leases=forgive))
        if due and late:
            self.seen_due.append((due[0], recovery))
        elif due:
            self.store.settle_due(due[0], recovery)

    @precondition(lambda self: self.attempts)
    @rule(attempt=_any, claimed_again=st.booleans(), repeat=_repeat)
    def a_worker_freezes(self, attempt: int, claimed_again: bool, repeat: bool) -> None:
        """A worker freezes past its lease; perhaps another takes its task; then it goes on."""
        held = self.pick_attempt(attempt)
        if not self.lives(held):
            return
        ref = held.claim.ref
        until_ms = self.moves.task(ref.task, ref.run_id).until_ms
        self.moves.harness.sleep_ms(max(0, until_ms - self.store.now_ms()) + 1)
        self.look_after(ref.thread_id, self.rules_of_recovery)
        assert not self.lives(held)
        if claimed_again and self.messages:
            self.deliver(self.messages[-1], self.times_ms[2], repeat=repeat)
        self.hand_in(held, repeat=repeat)
        self.write(held, (RunStatus.RUNNING, "", 1), repeat=repeat)

    @precondition(lambda self: self.seen_due)
    @rule(which=_any)
    def settle_late(self, which: int) -> None:
        """A slow scheduler tells when it wants to look again."""
        self.store.settle_due(*self.seen_due.pop(which % len(self.seen_due)))

    def look_after(self, thread_id: str, rules: RecoveryRules) -> int | None:
        """Do one thread's work that depends on time."""
        recovery = self.store.recover(thread_id, rules)
        for attempt in self.attempts:
            if attempt.claim.ref in recovery.expired:
                assert not attempt.is_over
                attempt.is_over = True
        self.messages.extend(recovery.dispatch)
        for late in recovery.overdue:
            if self.store.mark_resent(late):
                assert not self.store.mark_resent(late)
                self.messages.append(late.dispatch)
        return recovery.next_due_ms

    @precondition(lambda self: self.accepted)
    @rule(which=_any)
    def repeat_much_later(self, which: int) -> None:
        """A call whose reply was lost long ago is made again: it succeeded, and nothing changes."""
        before = self.picture()
        assert is_success(self.pick(self.accepted, which)())
        assert self.picture() == before

    # -- what must always hold

    @invariant()
    def at_most_one_run_is_active_and_all_others_queue_or_ended(self) -> None:
        """Invariant 1."""
        for thread_id in self.thread_ids:
            thread = self.store.thread(thread_id)
            if thread is not None:
                going = sorted(view.run_id for view in self.store.runs(thread_id) if not view.status.is_terminal)
                assert going == sorted([*thread.inbox, *filter(None, [thread.active])])

    @invariant()
    def each_update_took_effect_once_and_in_plan_order(self) -> None:
        """Invariants 2 and 4: the state holds what was accepted, no more and no less."""
        for thread_id in self.thread_ids:
            if self.store.thread(thread_id) is not None:
                log = list(self.store.image(thread_id).lists.get("log", ()))
                assert log == self.logs[thread_id]
                assert len(set(log)) == len(log)

    @invariant()
    def an_end_is_final(self) -> None:
        """Invariants 7 and 9: nothing of an ended run is written any more."""
        for run_id in self.run_ids:
            view = self.view(run_id)
            if view.status.is_terminal:
                bare = replace(view, interrupts=())
                now = (bare, self.moves.bodies(run_id, view.thread_id))
                assert self.ended.setdefault(run_id, now) == now

    def teardown(self) -> None:
        """Invariant 9: all messages are lost, people answer, and every run ends by what is due alone."""
        for _ in range(300):
            for run_id in self.run_ids:
                self.answer_what_waits(self.view(run_id))
            going = [run_id for run_id in self.run_ids if not self.view(run_id).status.is_terminal]
            if not going:
                return
            self.follow_what_is_due(going)
        raise AssertionError(f"These runs do not end: {going}")

    def answer_what_waits(self, view: RunView) -> None:
        """Resume a waiting run."""
        if view.status is RunStatus.WAITING:
            answers = {asked.id: b"yes" for asked in view.interrupts if asked.answer is None}
            assert self.moves.resume(answers, run_id=view.run_id, thread_id=view.thread_id).accepted

    def follow_what_is_due(self, going: list[str]) -> None:
        """Wait for the next due threads and work off what they need."""
        next_due_ms = self.store.next_due_ms()
        assert next_due_ms is not None, f"Nobody looks after {going}."
        self.moves.harness.sleep_ms(max(0, next_due_ms - self.store.now_ms()))
        for due in self.store.due(10):
            self.messages.clear()
            self.store.settle_due(due, self.look_after(due.thread_id, self.rules_of_recovery))
            for message in self.messages:
                self.work(message)

    def work(self, message: Dispatch) -> None:
        """Bring a task, and the run where possible, to its end."""
        claim = self.moves.try_claim(message, lease_ms=self.times_ms[2])
        if isinstance(claim, Claim) and not (claim.alone or claim.ref.task == PLAN):
            claim = self.moves.commit(claim).plan or Refusal("others are missing")
        if isinstance(claim, Claim):
            assert self.moves.finish(claim).accepted


def known(answer: _T) -> _T:
    """Return what the repeat of a call answers."""
    if isinstance(answer, Admission) and answer.outcome in (AdmissionOutcome.STARTED, AdmissionOutcome.QUEUED):
        return replace(answer, outcome=AdmissionOutcome.KNOWN)
    return answer


def is_success(answer: object) -> bool:
    """Tell whether the store accepted a call."""
    if isinstance(answer, Admission):
        taken_in = (AdmissionOutcome.STARTED, AdmissionOutcome.QUEUED, AdmissionOutcome.KNOWN)
        return answer.outcome in taken_in
    return bool(getattr(answer, "accepted", getattr(answer, "status", False)))

"""What the random machine knows of the story so far, and its moves with what must come of them."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, ClassVar, TypeVar

from hypothesis.stateful import RuleBasedStateMachine

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.image import Patch
from tenxgraph.store.base import (
    PLAN,
    Admission,
    AdmissionOutcome,
    Claim,
    Dispatch,
    DueThread,
    RecoveryRules,
    Refusal,
    RunView,
    Settled,
    Store,
    TaskStatus,
)
from tenxgraph.testing.contract.harness import MemoryHarness, StoreHarness, StoreMoves

_T = TypeVar("_T")
Ending = tuple[RunStatus, str, int]
"""How an advance leaves the run: its status, what it waits for, how many tasks come next."""


@dataclass(slots=True)
class Attempt:
    """A claim that a worker holds, or still believes to hold.

    Attributes:
        until_ms: Before this moment of the store nobody may fence it for its lease.
    """

    claim: Claim
    is_over: bool = False
    until_ms: int = 0


class StoreStory(RuleBasedStateMachine):
    """The model.

    Attributes:
        times_ms: A moment, a short lease or delay, a long one.
        messages: Every message there ever was: deliveries are hints.
        accepted: Calls that succeeded and may be repeated.
        updates: (origin, step) → task → the update that was accepted.
        logs: Thread → all updates in the order in which they took effect, without those of runs that were undone.
        began: Run → how long that log was when the run started.
    """

    thread_ids: ClassVar[tuple[str, ...]] = ("t1", "t2")
    times_ms: ClassVar[tuple[int, ...]] = (1, 40, 10_000)
    rules_of_recovery: ClassVar[RecoveryRules] = RecoveryRules(grace_ms=1_000, max_deliveries=2)

    def __init__(self) -> None:
        super().__init__()
        self.moves: StoreMoves = StoreMoves()
        self.moves.harness = self.make_harness()
        self.store: Store = self.moves.store
        self.messages: list[Dispatch] = []
        self.attempts: list[Attempt] = []
        self.run_ids: list[str] = []
        self.accepted: list[Callable[[], Any]] = []
        self.seen_due: list[tuple[DueThread, int | None]] = []
        self.ended: dict[str, tuple[object, ...]] = {}
        self.updates: dict[tuple[str, int], dict[str, bytes]] = defaultdict(dict)
        self.logs: dict[str, list[bytes]] = defaultdict(list)
        self.began: dict[str, int] = {}
        self.undone: set[str] = set()
        self.answers: dict[str, bytes] = {}
        self.numbers: Iterator[int] = count()

    def make_harness(self) -> StoreHarness:
        """Return an empty store and its time."""
        return MemoryHarness()

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
            (
                view,
                # A refused attempt that was heard did not die: that alone a refusal changes.
                [replace(task, deaths=0) for task in self.store.tasks(view.run_id)],
                self.moves.bodies(view.run_id, thread_id),
                self.store.thread(thread_id),
            )
            for thread_id in self.thread_ids
            for view in self.store.runs(thread_id)
        ]

    def once(self, call: Callable[[], _T], *, repeat: bool, keep: bool = True) -> _T:
        """Make a call; as if the reply was lost, make it again: the same answer, and nothing changes."""
        answer = call()
        self.note_starts_and_undos()
        if repeat:
            before = self.picture()
            again = call()
            assert again == known(answer), (answer, again)
            assert self.picture() == before
        if keep and is_success(answer):
            self.accepted.append(call)
        self.messages.extend(getattr(answer, "dispatch", ()))
        return answer

    def note_starts_and_undos(self) -> None:
        """A rollback takes back what the run wrote since it started."""
        for thread_id in self.thread_ids:
            for view in self.store.runs(thread_id):
                if view.reason.startswith("rolled back by ") and view.run_id not in self.undone:
                    self.undone.add(view.run_id)
                    log = self.logs[thread_id]  # a run that started and went in one call wrote nothing
                    del log[self.began.get(view.run_id, len(log)) :]
            thread = self.store.thread(thread_id)
            if thread is not None and thread.active:
                self.began.setdefault(thread.active, len(self.logs[thread_id]))

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

    def take_in(self, thread_id: str, run_id: str, *, repeat: bool = False, **changes: Any) -> Admission:
        """Submit a run."""
        answer = self.once(lambda: self.moves.admit(run_id, thread_id, **changes), repeat=repeat)
        if answer.outcome in (AdmissionOutcome.STARTED, AdmissionOutcome.QUEUED):
            self.run_ids.append(run_id)
        return answer

    def deliver(self, message: Dispatch, lease_ms: int, *, repeat: bool) -> None:
        """A worker claims what a message names; it gets it if it is there to be had."""
        ref, nonce = message.ref, self.unique().decode()
        view = self.view(ref.run_id)
        tasks = {task.task: task for task in self.store.tasks(ref.run_id)} if view.step == ref.step else {}
        task = tasks.get(ref.task)
        active = self.moves.thread(ref.thread_id).active == ref.run_id
        free = active and task is not None and (task.status, task.attempt) == (TaskStatus.QUEUED, ref.attempt)
        until_ms = self.store.now_ms() + lease_ms
        answer = self.once(lambda: self.moves.try_claim(ref, nonce=nonce, lease_ms=lease_ms), repeat=repeat, keep=False)
        assert isinstance(answer, Claim) is free, (answer, task)
        if isinstance(answer, Claim):
            self.hold(answer)
            self.attempts[-1].until_ms = until_ms

    def hold(self, claim: Claim) -> None:
        """A worker got a task: it brings the updates and answers that are there."""
        self.attempts.append(Attempt(claim))
        if claim.spec.node == "advance":
            assert dict(claim.updates) == self.updates[claim.run.origin, claim.ref.step]
            assert list(claim.updates) == [spec.task for spec in claim.specs]
        for asked in claim.run.interrupts:
            assert asked.answer == self.answers.get(asked.id)

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

    def write(self, held: Attempt, ending: Ending, *, repeat: bool) -> None:
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
        self.logs[claim.ref.thread_id] += merged
        answer = self.once(lambda: self.store.advance(claim.ref, claim.token, step), repeat=repeat)
        assert answer.accepted
        assert answer.version.number == claim.image.version.number + 1
        assert answer.status.is_terminal or not is_stopping
        assert not is_stopping or all(message.ref.run_id != claim.ref.run_id for message in answer.dispatch)
        held.is_over = True

    def give_up(self, held: Attempt, *, repeat: bool) -> None:
        """A worker that must go hands an attempt back, if it lives."""
        claim = held.claim
        self.end(held, lambda: self.store.hand_back(claim.ref, claim.token), repeat=repeat)

    def end(self, held: Attempt, call: Callable[[], Settled], *, repeat: bool) -> None:
        """An attempt ends without an update, if it lives."""
        if self.lives(held):
            assert self.once(call, repeat=repeat).accepted
            held.is_over = True
        elif not held.is_over:
            self.refused(call)

    def look_after(self, thread_id: str, rules: RecoveryRules) -> int | None:
        """Do one thread's work that depends on time."""
        recovery = self.store.recover(thread_id, rules)
        self.note_starts_and_undos()
        for attempt in self.attempts:
            if attempt.claim.ref in recovery.expired:
                assert not attempt.is_over
                assert self.store.now_ms() >= attempt.until_ms, "fenced before its lease was over"
                attempt.is_over = True
        self.messages.extend(recovery.dispatch)
        for late in recovery.overdue:
            if self.store.mark_resent(late):
                assert not self.store.mark_resent(late)
                self.messages.append(late.dispatch)
        next_due_ms: int | None = recovery.next_due_ms
        return next_due_ms

    def teardown(self) -> None:
        """Invariant 9: all messages are lost, people answer, and every run ends by what is due alone."""
        for _ in range(300):
            for run_id in self.run_ids:
                self.answer_what_waits(self.view(run_id))
            if all(self.view(run_id).status.is_terminal for run_id in self.run_ids):
                return
            self.follow_what_is_due()
        raise AssertionError(f"Not all of these runs end: {self.run_ids}")

    def answer_what_waits(self, view: RunView) -> None:
        """Resume a waiting run."""
        if view.status is RunStatus.WAITING:
            answers = {asked.id: b"yes" for asked in view.interrupts if asked.answer is None}
            assert self.moves.resume(answers, run_id=view.run_id, thread_id=view.thread_id).accepted

    def follow_what_is_due(self) -> None:
        """Wait for the next due threads and work off what they need."""
        next_due_ms = self.store.next_due_ms()
        assert next_due_ms is not None, f"Nobody looks after these runs: {self.run_ids}"
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

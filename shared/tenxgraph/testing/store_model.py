"""A store driven at random through its port, and the invariants of the execution protocol checked after each move.

Needs hypothesis. Derive from :class:`StoreMachine` where your store has another harness::

    class MyMachine(StoreMachine):
        def make_harness(self):
            return MyHarness()


    TestMyStore = MyMachine.TestCase
"""

import functools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.store.base import PLAN, AdmissionOutcome, Claim, InputKind, TaskStatus, WaitKind
from tenxgraph.testing.store_story import Ending, StoreStory, is_success

_any = st.integers(0, 1_000)
_rarely = st.one_of(*[st.none()] * 4, st.integers(0, 1_000))
_repeat = st.booleans()
_ENDINGS: tuple[Ending, ...] = (
    (RunStatus.COMPLETED, "", 0),
    (RunStatus.FAILED, "", 1),
    (RunStatus.WAITING, WaitKind.BEFORE, 2),
    (RunStatus.WAITING, WaitKind.AFTER, 0),
    *[(RunStatus.RUNNING, "", width) for width in (1, 2, 3, 2, 1)],
)


def only_with(what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a rule do nothing while there is no ``what``.

    Not a precondition: on a real server time decides what there is, and hypothesis wants to draw the same each time.
    """

    def decorate(move: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(move)
        def move_or_not(self: "StoreMachine", **drawn: Any) -> None:
            if getattr(self, what):
                move(self, **drawn)

        return move_or_not

    return decorate


class StoreMachine(StoreStory):
    """Clients, workers and schedulers without manners.

    Messages are lost, doubled and late; replies are lost and calls repeated, at once or much later; workers go on after
    they were fenced. At the end everything is drained by what the store says is due, and every run must end.
    """

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

    @rule(
        thread=_any,
        kind=st.sampled_from(InputKind),
        strategy=st.sampled_from(["enqueue", "enqueue", "reject", "interrupt", "rollback"]),
        when=st.integers(0, 5),
        limit=st.integers(0, 5),
    )
    def admit(self, thread: int, kind: InputKind, strategy: str, when: int, limit: int) -> None:
        """Somebody submits a run."""
        thread_id, run_id = self.pick(self.thread_ids, thread), f"r{len(self.run_ids)}"
        changes: dict[str, Any] = {"kind": kind, "strategy": strategy}
        changes["delay_ms"] = self.times_ms[1] if when == 0 else 0
        changes["timeout_ms"] = self.times_ms[2] if limit == 0 else 0
        free = not self.store.thread(thread_id) or not self.moves.thread(thread_id).active
        answer = self.take_in(thread_id, run_id, repeat=limit % 2 == 0, **changes)
        if kind is InputKind.MESSAGE and free:
            assert (answer.outcome is AdmissionOutcome.QUEUED) == (when == 0), answer

    @rule(run=_rarely, repeat=_repeat)
    @only_with("run_ids")
    def stop(self, run: int | None, repeat: bool) -> None:
        """Somebody stops a run."""
        if run is None:
            return
        view = self.view(self.pick(self.run_ids, run))
        has_failed = any(task.status is TaskStatus.FAILED for task in self.store.tasks(view.run_id))
        ends = {RunStatus.STOPPING, RunStatus.STOPPED, view.status, RunStatus.FAILED if has_failed else view.status}
        answer = self.once(lambda: self.moves.stop(view.run_id, view.thread_id), repeat=repeat)
        assert answer.status in ends

    @rule(run=_rarely, repeat=_repeat)
    @only_with("run_ids")
    def cancel(self, run: int | None, repeat: bool) -> None:
        """Somebody cancels a run."""
        if run is None:
            return
        view = self.view(self.pick(self.run_ids, run))
        answer = self.once(lambda: self.moves.cancel(view.run_id, view.thread_id), repeat=repeat)
        assert answer.status is (view.status if view.status.is_terminal else RunStatus.CANCELLED)

    @rule(run=_any, some=_any, repeat=_repeat)
    @only_with("run_ids")
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

    @rule(run=_any, which=_any)
    @only_with("answers")
    def answer_again(self, run: int, which: int) -> None:
        """Somebody else answers what was answered."""
        view = self.view(self.pick(self.run_ids, run))
        taken = {self.pick(list(self.answers), which): b"other"}
        self.refused(lambda: self.moves.resume(taken, run_id=view.run_id, thread_id=view.thread_id))

    # -- workers

    @rule(message=_any, lease=st.sampled_from([1, 2, 2, 2]), repeat=_repeat)
    @only_with("messages")
    def claim(self, message: int, lease: int, repeat: bool) -> None:
        """A message reaches a worker, perhaps not for the first time."""
        self.deliver(self.pick(self.messages, message), self.times_ms[lease], repeat=repeat)

    @rule(newest=st.integers(1, 4), repeat=_repeat)
    @only_with("messages")
    def claim_newest(self, newest: int, repeat: bool) -> None:
        """The newest messages reach workers."""
        for message in self.messages[-newest:]:
            self.deliver(message, self.times_ms[2], repeat=repeat)

    @rule(attempt=_any, repeat=_repeat)
    @only_with("attempts")
    def commit(self, attempt: int, repeat: bool) -> None:
        """A worker hands in an update, under a token that may be worth nothing any more."""
        self.hand_in(self.pick_attempt(attempt), repeat=repeat)

    @rule(repeat=_repeat, width=st.integers(1, 3))
    @only_with("attempts")
    def finish_step(self, repeat: bool, width: int) -> None:
        """All workers that may commit or advance do so."""
        for held in [held for held in self.attempts if self.lives(held)]:
            if held.claim.ref.task != PLAN and not held.claim.alone:
                self.hand_in(held, repeat=repeat)
        for held in [held for held in self.attempts if self.lives(held)]:
            self.write(held, (RunStatus.RUNNING, "", width), repeat=repeat)

    @rule(attempt=_any, ending=st.sampled_from(_ENDINGS), repeat=_repeat)
    @only_with("attempts")
    def advance(self, attempt: int, ending: Ending, repeat: bool) -> None:
        """A worker writes a step."""
        self.write(self.pick_attempt(attempt), ending, repeat=repeat)

    @rule(attempt=_any, status=st.sampled_from([TaskStatus.RETRY_WAIT, TaskStatus.FAILED]), repeat=_repeat)
    @only_with("attempts")
    def settle(self, attempt: int, status: TaskStatus, repeat: bool) -> None:
        """An attempt fails, for now or for good."""
        held = self.pick_attempt(attempt)
        delay_ms = self.times_ms[1]
        self.end(held, lambda: self.moves.settle(held.claim, status, delay_ms=delay_ms, error=b"boom"), repeat=repeat)

    @rule(attempt=_any, questions=st.integers(1, 2), repeat=_repeat)
    @only_with("attempts")
    def ask(self, attempt: int, questions: int, repeat: bool) -> None:
        """A task asks what it does not know yet."""
        held = self.pick_attempt(attempt)
        claim = held.claim
        answered = {asked.id for asked in claim.run.interrupts if asked.answer is not None}
        ids = [f"{claim.run.origin}/{claim.ref.step}/{claim.ref.task}/{number}" for number in range(questions)]
        ids = [interrupt_id for interrupt_id in ids if interrupt_id not in answered]
        if ids and claim.ref.task != PLAN:
            self.end(held, lambda: self.moves.ask(claim, *ids), repeat=repeat)

    @rule(attempt=_any)
    @only_with("attempts")
    def renew_and_emit(self, attempt: int) -> None:
        """A heartbeat."""
        held = self.pick_attempt(attempt)
        claim = held.claim
        lives = self.lives(held)
        until_ms = self.store.now_ms() + self.times_ms[2]
        renewal = self.store.renew(claim.ref, claim.token, lease_ms=self.times_ms[2])
        assert renewal.alive is lives
        held.until_ms = until_ms if lives else held.until_ms
        assert not lives or (renewal.stop != "") is (self.view(claim.ref.run_id).status is RunStatus.STOPPING)
        assert self.moves.tell(claim, b"told") is lives

    @rule(attempt=_any, repeat=_repeat)
    @only_with("attempts")
    def hand_back(self, attempt: int, repeat: bool) -> None:
        """A worker is told to go."""
        self.give_up(self.pick_attempt(attempt), repeat=repeat)

    @rule(message=_any, repeat=_repeat)
    @only_with("messages")
    def claim_beside_a_suspect(self, message: int, repeat: bool) -> None:
        """A message reaches a worker that holds a suspect: it gets none beside it."""
        ref, nonce = self.pick(self.messages, message).ref, self.unique().decode()
        claim = partial(self.store.claim, ref, nonce, worker="w", lease_ms=self.times_ms[2], known=None, events=b"")
        answer = self.once(lambda: claim(suspect_pause_ms=self.times_ms[1]), repeat=repeat, keep=False)
        if isinstance(answer, Claim):
            assert answer.deaths == 0
            self.hold(answer)

    @rule(message=_any)
    @only_with("messages")
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

    @rule(attempt=_any, claimed_again=st.booleans(), repeat=_repeat)
    @only_with("attempts")
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

    @rule(which=_any)
    @only_with("seen_due")
    def settle_late(self, which: int) -> None:
        """A slow scheduler tells when it wants to look again."""
        self.store.settle_due(*self.seen_due.pop(which % len(self.seen_due)))

    @rule(which=_any)
    @only_with("accepted")
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

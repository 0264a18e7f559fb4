"""What depends on time: ``due``, ``settle_due``, ``recover``, ``mark_resent``."""
# ruff: noqa: D102  # the name of a test is its sentence

from dataclasses import replace

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.store.base import (
    AdmissionOutcome,
    Claim,
    DueThread,
    Overdue,
    RecoveryRules,
    Refusal,
    TaskRef,
    TaskStatus,
)
from tenxgraph.testing.contract.harness import LONG_MS, RULES, SHORT_MS, StoreMoves, at_once

_IMPATIENT = RecoveryRules(grace_ms=SHORT_MS, max_deliveries=3)


class LeaseContract(StoreMoves):
    """Attempts die, tasks that keep killing end the run."""

    def expire(self, of: TaskRef) -> TaskRef:
        """Claim a task, let its lease run out, return the next attempt."""
        claim = self.claim(of, lease_ms=SHORT_MS)
        recovery = self.recover_after(SHORT_MS * 2)
        assert recovery.expired == (claim.ref,)
        return recovery.dispatch[0].ref if recovery.dispatch else claim.ref

    def test_a_lease_that_ran_out_is_followed_by_the_next_attempt(self) -> None:
        (message,) = self.begin("a")
        late = self.claim(message, lease_ms=SHORT_MS)
        recovery = self.recover_after(SHORT_MS * 2)
        assert recovery.expired == (late.ref,)
        assert recovery.dispatch == (replace(message, ref=replace(message.ref, attempt=2)),)
        assert (self.task("0").status, self.task("0").attempt, self.task("0").deaths) == (TaskStatus.QUEUED, 2, 1)
        assert isinstance(self.try_claim(late.ref), Refusal)
        assert isinstance(self.try_claim(late.ref, nonce=late.token), Refusal)

    def test_a_fenced_attempt_is_told_in_the_events(self) -> None:
        (message,) = self.begin("a")
        self.claim(message, lease_ms=SHORT_MS)
        self.recover_after(SHORT_MS * 2)
        assert self.bodies() == [b'{"event":"attempt_discarded","step":1,"node":"a","task":"0","attempt":1}']

    def test_a_lease_that_lasts_is_left_alone_and_looked_at_when_it_ends(self) -> None:
        (message,) = self.begin("a")
        claim = self.claim(message)
        recovery = self.recover()
        assert (recovery.expired, recovery.dispatch) == ((), ())
        assert recovery.next_due_ms == self.task("0").until_ms
        assert self.store.renew(claim.ref, claim.token, lease_ms=LONG_MS).alive

    def test_only_the_attempt_that_died_is_fenced(self) -> None:
        messages = self.begin("a", "b")
        self.claim(messages[0], lease_ms=SHORT_MS)
        alive = self.claim(messages[1])
        assert [ref.task for ref in self.recover_after(SHORT_MS * 2).expired] == ["0"]
        assert self.commit(alive).accepted

    def test_leases_are_forgiven_after_an_outage(self) -> None:
        (message,) = self.begin("a")
        claim = self.claim(message, lease_ms=SHORT_MS)
        recovery = self.recover_after(SHORT_MS * 2, rules=replace(RULES, forgive_leases=True))
        assert (recovery.expired, recovery.dispatch) == ((), ())
        assert recovery.next_due_ms is not None
        assert self.commit(claim).accepted

    def test_a_task_that_keeps_killing_its_worker_ends_the_run_as_dead(self) -> None:
        ref = self.begin("a", "b")[0].ref
        for _ in range(2):
            ref = self.expire(ref)
        assert ref.attempt == 3
        self.claim(ref, lease_ms=SHORT_MS)
        recovery = self.recover_after(SHORT_MS * 2)
        assert (recovery.expired, recovery.dispatch) == ((ref,), ())
        assert self.status() is RunStatus.DEAD
        assert "a" in self.view().reason
        assert (self.thread().active, self.thread().continuable) == ("", "r1")

    def test_a_dead_run_keeps_its_siblings_updates_and_can_be_replayed(self) -> None:
        messages = self.begin("a", "b")
        self.commit(self.claim(messages[1]), b"of b")
        ref = messages[0].ref
        for _ in range(3):
            ref = self.expire(ref)
        assert self.task_statuses() == {"0": TaskStatus.PARKED, "1": TaskStatus.COMMITTED}
        (message,) = self.go_on("r2").dispatch
        assert (message.ref.task, self.task("0", "r2").deaths) == ("0", 0)
        plan = self.commit(self.claim(message), b"of a").plan
        assert plan is not None
        assert plan.updates == {"0": b"of a", "1": b"of b"}

    def test_a_death_frees_the_thread_for_the_next_run(self) -> None:
        (message,) = self.begin("a")
        self.admit("r2")
        self.claim(message, lease_ms=SHORT_MS)
        recovery = self.recover_after(SHORT_MS * 2, rules=replace(RULES, max_deliveries=1))
        assert [again.ref.run_id for again in recovery.dispatch] == ["r2"]
        assert recovery.next_due_ms is not None

    def test_a_living_sibling_of_a_dead_task_is_fenced(self) -> None:
        messages = self.begin("a", "b")
        self.claim(messages[0], lease_ms=SHORT_MS)
        sibling = self.claim(messages[1])
        self.recover_after(SHORT_MS * 2, rules=replace(RULES, max_deliveries=1))
        assert not self.commit(sibling).accepted
        assert self.status() is RunStatus.DEAD

    def test_retries_are_not_counted_as_deaths(self) -> None:
        ref = self.begin("a")[0].ref
        for _ in range(3):
            self.retry_later(self.claim(ref), 1)
            (message,) = self.recover_after(SHORT_MS).dispatch
            ref = message.ref
        assert self.expire(ref).attempt == 5
        assert self.task("0").deaths == 1

    def test_an_advance_that_keeps_killing_its_worker_ends_the_run_as_dead(self) -> None:
        claims = self.begin_and_claim("a", "b")
        self.commit(claims[0])
        self.commit(claims[1], lease_ms=SHORT_MS)
        self.recover_after(SHORT_MS * 2, rules=replace(RULES, max_deliveries=1))
        assert self.status() is RunStatus.DEAD
        (message,) = self.go_on("r2").dispatch
        assert self.claim(message).updates == {"0": b"update", "1": b"update"}

    def test_of_two_schedulers_one_fences(self) -> None:
        (message,) = self.begin("a")
        self.claim(message, lease_ms=SHORT_MS)
        self.harness.sleep_ms(SHORT_MS * 2)
        answers = at_once([self.recover] * 2)
        assert sorted(len(answer.expired) for answer in answers) == [0, 1]
        assert (self.task("0").attempt, self.task("0").deaths) == (2, 1)

    # -- time-outs

    def test_a_run_times_out(self) -> None:
        claim = self.start(timeout_ms=SHORT_MS)
        self.admit("r2")
        recovery = self.recover_after(SHORT_MS * 2)
        assert (self.status(), self.thread().continuable) == (RunStatus.TIMED_OUT, "")
        assert [message.ref.run_id for message in recovery.dispatch] == ["r2"]
        assert not self.advance(claim, "a").accepted
        assert self.bodies() == [b'{"event":"run_end","step":0,"data":{"status":"timed_out"}}']

    def test_a_run_with_a_timeout_is_due_when_it_is_over(self) -> None:
        timeout_ms = self.harness.watch_ms // 2
        self.start(timeout_ms=timeout_ms)
        next_due_ms = self.store.next_due_ms()
        assert next_due_ms is not None
        assert next_due_ms <= self.store.now_ms() + timeout_ms
        self.wait_for_due()
        self.recover()
        assert self.status() is RunStatus.TIMED_OUT

    def test_a_waiting_run_times_out(self) -> None:
        self.pause("a", timeout_ms=SHORT_MS)
        self.recover_after(SHORT_MS * 2)
        assert self.status() is RunStatus.TIMED_OUT
        assert not self.resume().accepted

    def test_a_timeout_counts_from_the_start(self) -> None:
        claim = self.start("r1")
        self.admit("r2", timeout_ms=SHORT_MS)
        self.recover_after(SHORT_MS * 2)
        self.finish(claim)
        self.recover()
        assert self.thread().active == "r2"
        self.recover_after(SHORT_MS * 2)
        assert self.status("r2") is RunStatus.TIMED_OUT

    def test_a_run_within_its_timeout_is_left_alone(self) -> None:
        claim = self.start(timeout_ms=LONG_MS)
        recovery = self.recover_after(SHORT_MS)
        assert recovery.next_due_ms is not None
        assert recovery.next_due_ms <= self.store.now_ms() + LONG_MS
        assert self.finish(claim).accepted


class ResendContract(StoreMoves):
    """A dispatched task that nobody claims may be lost."""

    def overdue(self, ms: int = SHORT_MS * 2) -> tuple[Overdue, ...]:
        """Return what a scheduler suspects, some time later."""
        return self.recover_after(ms, rules=_IMPATIENT).overdue

    def test_a_task_that_nobody_claims_is_suspected_after_its_grace(self) -> None:
        (message,) = self.begin("a")
        early = self.recover()
        assert early.overdue == ()
        assert early.next_due_ms is not None
        assert [late.dispatch for late in self.overdue()] == [message]

    def test_a_suspect_is_not_dispatched_by_the_store(self) -> None:
        self.begin("a")
        assert self.recover_after(SHORT_MS * 2, rules=_IMPATIENT).dispatch == ()

    def test_a_claimed_task_is_not_suspected(self) -> None:
        (message,) = self.begin("a")
        (late,) = self.overdue()
        self.claim(message)
        assert self.overdue() == ()
        assert not self.store.mark_resent(late)

    def test_a_run_that_nobody_starts_is_suspected(self) -> None:
        admission = self.admit()
        assert [late.dispatch for late in self.overdue()] == list(admission.dispatch)

    def test_of_two_schedulers_one_sends_again(self) -> None:
        self.begin("a")
        (late,) = self.overdue()
        assert self.store.mark_resent(late)
        assert not self.store.mark_resent(late)

    def test_of_concurrent_schedulers_one_sends_again(self) -> None:
        self.begin("a")
        (late,) = self.overdue()
        assert sum(at_once([lambda: self.store.mark_resent(late)] * 4)) == 1

    def test_a_second_loss_is_suspected_as_soon_as_the_first(self) -> None:
        self.begin("a")
        (late,) = self.overdue()
        self.store.mark_resent(late)
        sent_ms = self.store.now_ms()
        next_due_ms = self.recover(rules=_IMPATIENT).next_due_ms
        assert next_due_ms is not None
        assert next_due_ms <= sent_ms + 1 + SHORT_MS
        assert len(self.overdue()) == 1

    def test_the_grace_doubles_with_each_further_resend(self) -> None:
        self.begin("a")
        for _ in range(2):
            (late,) = self.overdue()
            self.store.mark_resent(late)
        now_ms = self.store.now_ms()
        next_due_ms = self.recover(rules=_IMPATIENT).next_due_ms
        assert next_due_ms is not None
        assert next_due_ms - now_ms > SHORT_MS
        assert len(self.overdue(SHORT_MS * 3)) == 1

    def test_a_task_that_went_on_is_not_sent_again(self) -> None:
        (message,) = self.begin("a")
        (late,) = self.overdue()
        self.retry_later(self.claim(message), 1)
        self.recover_after(SHORT_MS)
        assert not self.store.mark_resent(late)
        self.cancel()
        assert not self.store.mark_resent(late)

    def test_a_message_sent_twice_is_claimed_once(self) -> None:
        (message,) = self.begin("a")
        (late,) = self.overdue()
        self.store.mark_resent(late)
        assert isinstance(self.try_claim(late.dispatch), Claim)
        assert isinstance(self.try_claim(message), Refusal)


class DueContract(StoreMoves):
    """Which thread needs a scheduler, and when."""

    def test_threads_are_due_oldest_first_and_no_more_than_asked_for(self) -> None:
        for number in (3, 1, 2):
            self.admit(f"r{number}", f"t{number}", delay_ms=number * 100)
        self.harness.sleep_ms(400)
        assert [due.thread_id for due in self.store.due(10)] == ["t1", "t2", "t3"]
        assert [due.thread_id for due in self.store.due(2)] == ["t1", "t2"]

    def test_whoever_asks_has_the_threads_for_a_while(self) -> None:
        self.admit(delay_ms=1)
        self.wait_for_due()
        put_off_ms = 300
        before_ms = self.store.now_ms()
        (due,) = self.store.due(10, put_off_ms)
        next_due_ms = self.store.next_due_ms()
        assert (list(self.store.due(10)), next_due_ms is not None) == ([], True)
        assert next_due_ms is not None
        assert put_off_ms <= next_due_ms - before_ms < LONG_MS
        self.harness.sleep_ms(put_off_ms + 50)
        assert list(self.store.due(10, put_off_ms)) == [due]
        self.store.settle_due(due, None)
        assert self.store.next_due_ms() is None

    def test_a_thread_that_is_put_off_is_due_when_it_was_told(self) -> None:
        self.admit("r1", delay_ms=1)
        self.wait_for_due()
        (due,) = self.store.due(10, LONG_MS)
        self.admit("r2", delay_ms=1)
        assert self.wait_for_due().thread_id == due.thread_id

    def test_the_next_moment_is_known(self) -> None:
        assert self.store.next_due_ms() is None
        before_ms = self.store.now_ms()
        self.admit("r1", "t1", delay_ms=LONG_MS)
        self.admit("r2", "t2", delay_ms=LONG_MS // 2)
        next_due_ms = self.store.next_due_ms()
        assert next_due_ms is not None
        assert LONG_MS // 2 <= next_due_ms - before_ms < LONG_MS

    def test_a_settled_thread_is_due_no_more(self) -> None:
        self.admit(delay_ms=1)
        due = self.wait_for_due()
        self.store.settle_due(due, None)
        self.store.settle_due(due, None)
        assert (list(self.store.due(10)), self.store.next_due_ms()) == ([], None)

    def test_a_settled_thread_is_due_again_when_it_was_told(self) -> None:
        self.admit(delay_ms=1)
        due = self.wait_for_due()
        later_ms = self.store.now_ms() + LONG_MS
        self.store.settle_due(due, later_ms)
        assert (list(self.store.due(10)), self.store.next_due_ms()) == ([], later_ms)

    def test_a_thread_that_was_touched_since_stays_due(self) -> None:
        self.admit("r1", delay_ms=1)
        due = self.wait_for_due()
        self.admit("r2")
        self.store.settle_due(due, None)
        assert [still.thread_id for still in self.store.due(10)] == ["t1"]

    def test_a_slow_scheduler_cannot_remove_an_entry_that_came_after_a_removal(self) -> None:
        self.admit("r1", delay_ms=1)
        due = self.wait_for_due()
        self.store.settle_due(due, None)
        self.admit("r2")
        self.store.settle_due(due, None)
        assert self.store.next_due_ms() is not None

    def test_a_slow_scheduler_cannot_remove_the_entry_of_a_thread_made_anew(self) -> None:
        self.finish(self.start("r1"))
        due = self.wait_for_due()
        assert self.store.delete_thread("t1")
        self.admit("r2")
        self.store.settle_due(due, None)
        assert self.store.next_due_ms() is not None

    def test_an_entry_is_only_lowered_by_a_touch(self) -> None:
        self.admit("r1", delay_ms=1)
        self.wait_for_due()
        self.admit("r2", delay_ms=LONG_MS)
        assert [still.thread_id for still in self.store.due(10)] == ["t1"]

    def test_a_thread_at_rest_needs_no_scheduler(self) -> None:
        self.finish(self.start())
        assert self.recover().next_due_ms is None
        self.pause("a", run_id="r2", thread_id="t2")
        assert self.recover("t2").next_due_ms is None

    def test_an_unknown_thread_needs_no_scheduler(self) -> None:
        recovery = self.recover("nowhere")
        assert (recovery.dispatch, recovery.next_due_ms) == ((), None)
        self.store.settle_due(DueThread("nowhere", 1), None)
        assert self.store.next_due_ms() is None

    def test_a_run_reaches_its_end_by_what_is_due_alone(self) -> None:
        self.admit()
        self.admit("r2")
        for _ in range(200):
            self.harness.sleep_ms(SHORT_MS)
            self.follow_what_is_due()
            if self.store.next_due_ms() is None:
                break
        assert (self.status("r1"), self.status("r2")) == (RunStatus.COMPLETED, RunStatus.COMPLETED)
        assert self.admit("r3").outcome is AdmissionOutcome.STARTED

    def follow_what_is_due(self) -> None:
        """Do what schedulers and workers do with threads that are due, were every message lost once."""
        for due in self.store.due(10):
            recovery = self.recover(due.thread_id, _IMPATIENT)
            for late in recovery.overdue:
                if self.store.mark_resent(late):
                    self.finish(self.claim(late.dispatch))
            self.store.settle_due(due, recovery.next_due_ms)

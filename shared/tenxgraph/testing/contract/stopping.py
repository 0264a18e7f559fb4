"""Runs are ended from outside: ``stop`` and ``cancel``."""
# ruff: noqa: D102  # the name of a test is its sentence

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.image import Patch
from tenxgraph.store.base import AdmissionOutcome, Refusal, StopAnswer, TaskStatus, WaitKind
from tenxgraph.testing.contract.harness import LONG_MS, SHORT_MS, StoreMoves, node_specs


class StopContract(StoreMoves):
    """The step in flight commits, no further one is planned."""

    def test_a_stop_before_anything_was_claimed_ends_the_run_at_once(self) -> None:
        (message,) = self.begin("a")
        assert self.stop() == StopAnswer(RunStatus.STOPPED)
        assert isinstance(self.try_claim(message), Refusal)
        assert (self.thread().active, self.thread().continuable) == ("", "r1")
        assert self.task_statuses() == {"0": TaskStatus.PARKED}
        assert self.bodies() == [
            b'{"event":"stop"}',
            b'{"event":"run_end","step":1,"data":{"status":"stopped"}}',
        ]

    def test_a_stop_in_flight_lets_the_step_commit_and_parks_what_comes_next(self) -> None:
        (claim,) = self.begin_and_claim("a")
        assert self.stop() == StopAnswer(RunStatus.STOPPING)
        answer = self.advance(claim, "b", patch=Patch({"topic": b"1"}))
        assert (answer.accepted, answer.status, answer.dispatch) == (True, RunStatus.STOPPED, ())
        assert (self.status(), dict(self.store.image("t1").values)) == (RunStatus.STOPPED, {"topic": b"1"})
        assert (self.task_statuses(), self.view().step) == ({"0": TaskStatus.PARKED}, 2)

    def test_unclaimed_siblings_of_a_stopped_step_still_run(self) -> None:
        messages = self.begin("a", "b")
        claims = [self.claim(messages[0])]
        assert self.stop().status is RunStatus.STOPPING
        claims.append(self.claim(messages[1]))
        assert self.finish(self.commit_all(claims), RunStatus.RUNNING, tasks=node_specs(["c"])).accepted
        assert self.status() is RunStatus.STOPPED

    def test_a_committed_task_counts_as_in_flight(self) -> None:
        messages = self.begin("a", "b")
        self.commit(self.claim(messages[0]))
        assert self.stop().status is RunStatus.STOPPING

    def test_a_stop_parks_a_retry_that_waits_and_the_last_settled_task_closes_the_run(self) -> None:
        first, second = self.begin_and_claim("a", "b")
        self.retry_later(first)
        assert self.stop().status is RunStatus.STOPPING
        assert self.recover_after(SHORT_MS * 2).dispatch == ()
        assert self.commit(second).plan is None
        assert self.status() is RunStatus.STOPPED
        assert self.task_statuses() == {"0": TaskStatus.PARKED, "1": TaskStatus.COMMITTED}

    def test_a_retry_under_a_stop_is_parked(self) -> None:
        (claim,) = self.begin_and_claim("a")
        self.stop()
        self.retry_later(claim)
        assert (self.status(), self.task_statuses()) == (RunStatus.STOPPED, {"0": TaskStatus.PARKED})

    def test_an_attempt_that_expires_under_a_stop_is_parked(self) -> None:
        (message,) = self.begin("a")
        self.claim(message, lease_ms=SHORT_MS)
        self.stop()
        assert self.recover_after(SHORT_MS * 2).dispatch == ()
        assert (self.status(), self.task_statuses()) == (RunStatus.STOPPED, {"0": TaskStatus.PARKED})

    def test_a_stop_ends_a_run_whose_commits_and_retries_are_all_that_is_left(self) -> None:
        first, second = self.begin_and_claim("a", "b")
        self.commit(first)
        self.retry_later(second, LONG_MS)
        assert self.stop().status is RunStatus.STOPPED

    def test_a_stop_ends_a_run_whose_advance_waits_for_a_retry(self) -> None:
        plan = self.commit_all(self.begin_and_claim("a", "b"))
        self.retry_later(plan, LONG_MS)
        assert self.stop().status is RunStatus.STOPPED
        (message,) = self.go_on("r2").dispatch
        assert self.claim(message).updates == {"0": b"update of a", "1": b"update of b"}

    def test_a_start_or_an_advance_that_is_retried_under_a_stop_ends_the_run(self) -> None:
        plan = self.commit_all(self.begin_and_claim("a", "b"))
        self.stop()
        self.retry_later(plan, LONG_MS)
        start = self.start("r2", "t2")
        self.stop("r2", "t2")
        self.retry_later(start, LONG_MS)
        assert (self.status("r1"), self.status("r2")) == (RunStatus.STOPPED, RunStatus.STOPPED)

    def test_an_advance_whose_worker_died_under_a_stop_is_still_made(self) -> None:
        claims = self.begin_and_claim("a", "b")
        self.commit(claims[0])
        self.commit(claims[1], lease_ms=SHORT_MS)
        assert self.stop().status is RunStatus.STOPPING
        (message,) = self.recover_after(SHORT_MS * 2).dispatch
        self.advance(self.claim(message), "c", patch=Patch({"topic": b"1"}))
        assert (self.status(), dict(self.store.image("t1").values)) == (RunStatus.STOPPED, {"topic": b"1"})

    def test_a_failure_in_a_stopped_step_fails_the_run(self) -> None:
        (claim,) = self.begin_and_claim("a")
        self.stop()
        self.fail(claim, b"why")
        assert (self.status(), self.view().error) == (RunStatus.FAILED, b"why")

    def test_a_stop_ends_a_waiting_run(self) -> None:
        self.pause("a")
        assert self.stop() == StopAnswer(RunStatus.STOPPED)
        assert not self.resume().accepted

    def test_a_question_under_a_stop_waits_for_the_continuation(self) -> None:
        (claim,) = self.begin_and_claim("a")
        self.stop()
        self.ask(claim, "i1")
        assert self.status() is RunStatus.STOPPED
        assert not self.resume({"i1": b"1"}).accepted
        assert self.go_on("r2").outcome is AdmissionOutcome.STARTED
        assert (self.status("r2"), self.view("r2").interrupts[0].id) == (RunStatus.WAITING, "i1")
        assert self.resume({"i1": b"1"}, run_id="r2").accepted

    def test_a_stop_starts_the_next_queued_run_and_watches_it(self) -> None:
        claim = self.start("r1")
        self.admit("r2")
        self.advance(claim, "a", status=RunStatus.WAITING, wait=WaitKind.BEFORE)
        self.forget()
        assert [message.ref.run_id for message in self.stop("r1").dispatch] == ["r2"]
        self.wait_for_due()

    def test_a_queued_run_is_stopped_without_a_trace_in_the_active_one(self) -> None:
        claim = self.start("r1")
        self.admit("r2")
        self.admit("r3")
        assert self.stop("r2") == StopAnswer(RunStatus.STOPPED)
        assert self.thread().inbox == ("r3",)
        assert self.bodies("r2")[-1] == b'{"event":"run_end","step":0,"data":{"status":"stopped"}}'
        assert [message.ref.run_id for message in self.finish(claim).dispatch] == ["r3"]

    def test_a_delayed_run_is_stopped_before_it_starts(self) -> None:
        self.admit(delay_ms=SHORT_MS)
        assert self.stop().status is RunStatus.STOPPED
        assert self.recover_after(SHORT_MS * 2).dispatch == ()
        assert self.status() is RunStatus.STOPPED

    def test_a_repeated_stop_is_answered_the_same_and_told_once(self) -> None:
        (claim,) = self.begin_and_claim("a")
        assert self.stop() == self.stop()
        assert self.bodies() == [b'{"event":"stop"}']
        self.advance(claim, "b")
        assert self.stop() == StopAnswer(RunStatus.STOPPED)

    def test_a_stop_that_freed_the_thread_is_answered_the_same_again(self) -> None:
        self.begin("a", run_id="r1")
        self.admit("r2")
        answer = self.stop("r1")
        assert [message.ref.run_id for message in answer.dispatch] == ["r2"]
        assert self.stop("r1") == answer

    def test_an_unknown_run_is_not_stopped(self) -> None:
        assert self.stop() == StopAnswer(None)
        self.finish(self.start())
        assert self.stop() == StopAnswer(RunStatus.COMPLETED)
        assert self.stop("r1", "elsewhere") == StopAnswer(None)


class CancelContract(StoreMoves):
    """The step in flight is fenced, and nothing of the run is written any more."""

    def test_a_cancel_ends_the_run_at_once(self) -> None:
        self.begin_and_claim("a")
        assert self.cancel() == StopAnswer(RunStatus.CANCELLED)
        assert (self.status(), self.view().reason, self.view().error) == (RunStatus.CANCELLED, "enough", b"cancelled")
        assert (self.thread().active, self.thread().continuable) == ("", "")
        assert self.bodies() == [
            b'{"event":"cancel"}',
            b'{"event":"run_end","step":1,"data":{"status":"cancelled"}}',
        ]

    def test_nothing_of_a_cancelled_run_is_written(self) -> None:
        messages = self.begin("a", "b", "c")
        first, second = self.claim(messages[0]), self.claim(messages[1])
        self.commit(first)
        self.cancel()
        before = self.view(), self.bodies(), self.store.image("t1"), self.thread()
        assert not self.commit(second, events=b"late").accepted
        assert not self.retry_later(second).accepted
        assert not self.fail(second).accepted
        assert not self.ask(second, "i1").accepted
        assert not self.advance(second, "d").accepted
        assert not self.tell(second, b"late")
        assert not self.store.renew(second.ref, second.token, lease_ms=LONG_MS).alive
        assert not self.store.give_back(messages[2].ref, reason="x", pause_ms=1)
        assert isinstance(self.try_claim(messages[2], events=b"late"), Refusal)
        assert self.recover_after(SHORT_MS).dispatch == ()
        assert (self.view(), self.bodies(), self.store.image("t1"), self.thread()) == before

    def test_a_step_that_was_about_to_advance_is_fenced_by_a_cancel(self) -> None:
        plan = self.commit_all(self.begin_and_claim("a", "b"))
        self.cancel()
        assert not self.advance(plan, "c", patch=Patch({"topic": b"1"})).accepted
        assert self.store.image("t1").values == {}

    def test_a_cancelled_run_is_not_continued(self) -> None:
        self.begin("a")
        self.cancel()
        assert self.go_on("r2").outcome is AdmissionOutcome.NOTHING_TO_CONTINUE

    def test_a_cancel_starts_the_next_queued_run_and_watches_it(self) -> None:
        claim = self.start("r1")
        self.admit("r2")
        self.advance(claim, "a", status=RunStatus.WAITING, wait=WaitKind.BEFORE)
        self.forget()
        answer = self.cancel("r1")
        assert [message.ref.run_id for message in answer.dispatch] == ["r2"]
        assert self.cancel("r1") == answer
        self.wait_for_due()

    def test_a_queued_run_is_cancelled(self) -> None:
        claim = self.start("r1")
        self.admit("r2")
        assert self.cancel("r2") == StopAnswer(RunStatus.CANCELLED)
        assert self.view("r2").reason == "enough"
        assert self.finish(claim).dispatch == ()

    def test_a_stopping_run_is_cancelled(self) -> None:
        (claim,) = self.begin_and_claim("a")
        self.stop()
        assert self.cancel().status is RunStatus.CANCELLED
        assert not self.advance(claim, "b").accepted

    def test_a_repeated_cancel_is_answered_the_same_and_told_once(self) -> None:
        self.begin("a")
        assert self.cancel() == self.cancel()
        assert self.bodies().count(b'{"event":"cancel"}') == 1

    def test_an_ended_run_stays_as_it_ended(self) -> None:
        self.finish(self.start())
        assert self.cancel() == StopAnswer(RunStatus.COMPLETED)
        assert (self.status(), self.view().reason) == (RunStatus.COMPLETED, "")

    def test_an_unknown_run_is_not_cancelled(self) -> None:
        assert self.cancel() == StopAnswer(None)

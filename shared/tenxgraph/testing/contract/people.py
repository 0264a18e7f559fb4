"""People step in: ``resume``, ``stop``, ``cancel``, and runs that continue others."""
# ruff: noqa: D102  # the name of a test is its sentence

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.image import Patch
from tenxgraph.store.base import AdmissionOutcome, Refusal, Resumed, StopAnswer, TaskRef, TaskStatus, WaitKind
from tenxgraph.testing.contract.harness import LONG_MS, SHORT_MS, StoreMoves, at_once, node_specs, plan_spec


class ResumeContract(StoreMoves):
    """A wait is taken up once."""

    def test_a_pause_is_taken_up_by_a_plan_task_with_the_new_input(self) -> None:
        self.pause("a", "b", wait=WaitKind.BEFORE)
        answer = self.resume(input=b"more", events=b"resumed")
        assert (answer.accepted, answer.missing) == (True, ())
        assert [message.ref for message in answer.dispatch] == [TaskRef("t1", "r1", 1, "plan", 1)]
        plan = self.claim(answer.dispatch[0])
        assert (plan.spec, plan.run.input, plan.run.wait) == (plan_spec("resume"), b"more", WaitKind.BEFORE)
        assert plan.specs == node_specs(["a", "b"])
        assert self.bodies()[-1] == b"resumed"
        assert len(self.advance(plan, "a", "b", step=1).dispatch) == 2

    def test_the_answer_says_after_which_event_to_follow(self) -> None:
        self.pause("a")
        answer = self.resume(events=b"resumed", resume_id="one")
        fresh = self.store.events("t1", "r1", answer.after, timeout_s=0)
        assert [stored.body for stored in fresh] == [b"resumed"]
        assert self.resume(events=b"resumed", resume_id="one").after == answer.after

    def test_a_pause_after_the_last_node_completes_by_its_plan_task(self) -> None:
        self.pause(wait=WaitKind.AFTER)
        plan = self.claim(self.resume().dispatch[0])
        assert (plan.specs, plan.run.wait) == ((), WaitKind.AFTER)
        self.finish(plan)
        assert self.status() is RunStatus.COMPLETED

    def test_a_resume_is_accepted_once(self) -> None:
        self.pause("a")
        assert self.resume().accepted
        assert not self.resume().accepted

    def test_of_twenty_concurrent_resumes_one_wins(self) -> None:
        self.pause("a")
        answers = at_once([self.resume] * 20)
        assert sum(answer.accepted for answer in answers) == 1

    def test_of_twenty_concurrent_answers_one_wins(self) -> None:
        (claim,) = self.begin_and_claim("a")
        self.ask(claim, "i1")
        answers = at_once([lambda i=i: self.resume({"i1": b"%d" % i}) for i in range(20)])  # type: ignore[misc]  # i=i binds now
        assert sum(answer.accepted for answer in answers) == 1
        winner = next(i for i, answer in enumerate(answers) if answer.accepted)
        assert self.view().interrupts[0].answer == b"%d" % winner

    def test_a_repeated_resume_is_answered_the_same(self) -> None:
        self.pause("a")
        first = self.resume(resume_id="one", events=b"resumed")
        assert self.resume(resume_id="one", events=b"resumed") == first
        assert self.bodies().count(b"resumed") == 1

    def test_a_repeated_answer_is_answered_the_same(self) -> None:
        (claim,) = self.begin_and_claim("a")
        self.ask(claim, "i1")
        assert self.resume({"i1": b"1"}, "one") == self.resume({"i1": b"1"}, "one")
        assert self.task("0").attempt == 2

    def test_a_resume_repeated_after_the_run_went_on_succeeds_and_changes_nothing(self) -> None:
        (claim,) = self.begin_and_claim("a")
        self.ask(claim, "i1")
        again = self.claim(self.resume({"i1": b"1"}, "one").dispatch[0])
        self.finish(again)
        assert self.resume({"i1": b"1"}, "one").accepted
        assert self.status() is RunStatus.COMPLETED

    def test_unknown_ids_are_named_and_nothing_is_answered(self) -> None:
        (claim,) = self.begin_and_claim("a")
        self.ask(claim, "i1")
        answer = self.resume({"i1": b"1", "i9": b"9"})
        assert (answer.accepted, answer.missing) == (False, ("i9",))
        assert (self.status(), self.view().interrupts[0].answer) == (RunStatus.WAITING, None)

    def test_an_answered_id_no_longer_waits(self) -> None:
        (claim,) = self.begin_and_claim("a")
        self.ask(claim, "i1", "i2")
        self.resume({"i1": b"1"})
        answer = self.resume({"i1": b"other", "i2": b"2"})
        assert (answer.accepted, answer.missing) == (False, ("i1",))

    def test_a_question_is_not_resumed_without_answers(self) -> None:
        (claim,) = self.begin_and_claim("a")
        self.ask(claim, "i1")
        assert not self.resume(input=b"more").accepted
        assert self.status() is RunStatus.WAITING

    def test_a_pause_takes_no_answers(self) -> None:
        self.pause("a")
        assert self.resume({"i1": b"1"}) == Resumed(accepted=False, missing=("i1",))

    def test_a_run_that_does_not_wait_is_not_resumed(self) -> None:
        assert not self.resume().accepted
        claim = self.start()
        assert not self.resume().accepted
        self.finish(claim)
        assert not self.resume().accepted
        assert not self.resume({"i1": b"1"}).accepted

    def test_a_resumed_run_is_watched(self) -> None:
        self.pause("a")
        self.forget()
        self.resume()
        self.wait_for_due()

    def test_only_tasks_that_were_answered_are_dispatched(self) -> None:
        messages = self.begin("a", "b", "c")
        self.ask(self.claim(messages[0]), "i1")
        answer = self.resume({"i1": b"1"})
        assert [message.ref.task for message in answer.dispatch] == ["0"]


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
        assert not self.store.emit(second.ref, second.token, b"late")
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


class ContinueContract(StoreMoves):
    """A failed, stopped or dead run is taken up where it was, by a run of its own."""

    def fail_the_second_of_three(self) -> None:
        """Let a step end with two updates and a failure between them."""
        first, second, third = self.begin_and_claim("a", "b", "c")
        self.commit(third, b"of c")
        self.fail(second)
        self.commit(first, b"of a")

    def test_only_failed_tasks_run_again(self) -> None:
        self.fail_the_second_of_three()
        admission = self.go_on("r2")
        assert admission.outcome is AdmissionOutcome.STARTED
        assert [message.ref for message in admission.dispatch] == [TaskRef("t1", "r2", 1, "1", 1)]
        view = self.view("r2")
        assert (view.continues, view.origin, view.step, view.first_step) == ("r1", "r1", 1, 1)
        assert self.status("r1") is RunStatus.FAILED

    def test_committed_updates_reach_the_advance_in_plan_order(self) -> None:
        self.fail_the_second_of_three()
        (message,) = self.go_on("r2").dispatch
        claim = self.claim(message)
        assert not claim.alone
        plan = self.commit(claim, b"of b").plan
        assert plan is not None
        assert list(plan.updates.items()) == [("0", b"of a"), ("1", b"of b"), ("2", b"of c")]
        assert plan.specs == node_specs(["a", "b", "c"])
        self.finish(plan)
        assert self.status("r2") is RunStatus.COMPLETED

    def test_a_repeated_continuation_is_known(self) -> None:
        self.fail_the_second_of_three()
        first, second = self.go_on("r2"), self.go_on("r2")
        assert (second.outcome, second.dispatch) == (AdmissionOutcome.KNOWN, first.dispatch)

    def test_a_straggler_of_the_failed_run_cannot_write_into_its_continuation(self) -> None:
        first, second = self.begin_and_claim("a", "b")
        self.fail(first)
        self.commit(second)
        (message,) = self.go_on("r2").dispatch
        assert not self.commit(first, b"late").accepted
        claim = self.claim(message)
        assert not self.commit(first, b"late").accepted
        plan = self.commit(claim, b"of a").plan
        assert plan is not None
        assert plan.updates["0"] == b"of a"

    def test_a_continuation_may_be_continued_and_keeps_the_origin(self) -> None:
        self.fail(self.begin_and_claim("a")[0])
        self.fail(self.claim(self.go_on("r2").dispatch[0]))
        self.claim(self.go_on("r3").dispatch[0])
        assert (self.view("r3").continues, self.view("r3").origin) == ("r2", "r1")

    def test_a_stopped_run_goes_on_with_its_parked_tasks(self) -> None:
        (claim,) = self.begin_and_claim("a")
        self.stop()
        self.advance(claim, "b", "c", plan=b"frontier")
        dispatch = self.go_on("r2").dispatch
        assert [message.ref for message in dispatch] == [TaskRef("t1", "r2", 2, name, 1) for name in "01"]
        assert self.view("r2").plan == b"frontier"
        self.finish(self.commit_all([self.claim(message) for message in dispatch]))
        assert self.status("r2") is RunStatus.COMPLETED

    def test_a_run_stopped_before_its_start_is_started_by_the_continuation(self) -> None:
        self.admit("r1", input=b"hello")
        self.stop("r1")
        (message,) = self.go_on("r2").dispatch
        claim = self.claim(message)
        assert (claim.spec, claim.run.input) == (plan_spec("start"), b"hello")

    def test_a_run_stopped_where_nothing_was_planned_goes_on_by_a_plan_task(self) -> None:
        self.pause(wait=WaitKind.AFTER)
        self.stop()
        (message,) = self.go_on("r2").dispatch
        plan = self.claim(message)
        assert (plan.spec, plan.run.wait) == (plan_spec("resume"), WaitKind.AFTER)

    def test_a_failed_advance_is_made_again_alone(self) -> None:
        self.fail(self.commit_all(self.begin_and_claim("a", "b")))
        (message,) = self.go_on("r2").dispatch
        assert message.ref == TaskRef("t1", "r2", 1, "plan", 1)
        plan = self.claim(message)
        assert (plan.spec, plan.updates) == (plan_spec("advance"), {"0": b"update of a", "1": b"update of b"})

    def test_a_resume_that_failed_is_made_again_alone_with_its_input(self) -> None:
        self.pause("a", "b")
        self.fail(self.claim(self.resume(input=b"more").dispatch[0]))
        (message,) = self.go_on("r2").dispatch
        plan = self.claim(message)
        assert (plan.ref.task, plan.spec, plan.run.input) == ("plan", plan_spec("resume"), b"more")
        assert self.task_statuses("r2")["0"] is TaskStatus.PARKED

    def test_a_message_drops_what_the_failed_run_left(self) -> None:
        self.fail_the_second_of_three()
        claim = self.start("r2")
        assert (claim.specs, claim.updates) == ((), {})
        self.finish(claim)
        assert list(self.store.tasks("r1")) == []
        assert self.go_on("r3").outcome is AdmissionOutcome.NOTHING_TO_CONTINUE

    def test_a_queued_message_that_starts_after_the_failure_drops_it_too(self) -> None:
        (claim,) = self.begin_and_claim("a")
        self.admit("r2")
        self.fail(claim)
        self.finish(self.claim(TaskRef("t1", "r2", 0, "plan", 1)))
        assert self.go_on("r3").outcome is AdmissionOutcome.NOTHING_TO_CONTINUE

    def test_the_task_knows_why_it_failed_before(self) -> None:
        self.fail(self.begin_and_claim("a")[0], b"why")
        assert self.claim(self.go_on("r2").dispatch[0]).error == b"why"

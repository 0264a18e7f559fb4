"""People step in: ``resume``, and runs that continue others."""
# ruff: noqa: D102  # the name of a test is its sentence

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.store.base import AdmissionOutcome, InputKind, Resumed, ResumeView, TaskRef, TaskStatus, WaitKind
from tenxgraph.testing.contract.harness import StoreMoves, at_once, node_specs, plan_spec


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

    def test_questions_stand_in_plan_order_whoever_asked_first(self) -> None:
        claims = self.begin_and_claim("a", "b", "c")
        for number in (2, 0, 1):
            self.ask(claims[number], f"{number} x", f"{number} a")
        assert [asked.id for asked in self.view().interrupts] == ["0 x", "0 a", "1 x", "1 a", "2 x", "2 a"]

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

    # -- a call that became an answer

    def test_a_call_that_became_an_answer_is_known_at_the_admission(self) -> None:
        self.pause("a")
        answer = self.resume(resume_id="r2", events=b"resumed", digest="d")
        again = self.admit("r2", digest="d")
        assert (again.outcome, again.holder, again.after) == (AdmissionOutcome.KNOWN, "r1", answer.after)
        assert again.dispatch == answer.dispatch
        assert self.store.run("r2") is None

    def test_it_is_known_after_its_run_ended_and_while_another_is_active(self) -> None:
        self.pause("a")
        self.finish(self.claim(self.resume(resume_id="r2", digest="d").dispatch[0]))
        self.start("r3")
        for kind in InputKind:
            again = self.admit("r2", digest="d", kind=kind)
            assert (again.outcome, again.holder, again.dispatch) == (AdmissionOutcome.KNOWN, "r1", ())
        assert self.thread().inbox == ()

    def test_its_id_with_another_input_is_taken(self) -> None:
        self.pause("a")
        self.resume(resume_id="r2", digest="d")
        again = self.admit("r2", digest="other")
        assert (again.outcome, again.holder) == (AdmissionOutcome.RUN_ID_TAKEN, "t1")

    def test_what_a_resume_was_given_to_can_be_asked(self) -> None:
        assert self.store.resumed("t1", "x") is None
        self.pause("a")
        assert self.store.resumed("t1", "x") is None
        after = self.resume(resume_id="x", digest="d").after
        assert self.store.resumed("t1", "x") == ResumeView("r1", "d", after)
        assert self.store.resumed("t2", "x") is None

    def test_a_resume_that_was_refused_is_not_known(self) -> None:
        self.pause("a")
        self.resume({"i9": b"9"}, "x")
        assert self.store.resumed("t1", "x") is None

    def test_a_deleted_thread_knows_no_resume(self) -> None:
        self.pause("a")
        self.finish(self.claim(self.resume(resume_id="x").dispatch[0]))
        assert self.store.delete_thread("t1")
        assert self.store.resumed("t1", "x") is None
        assert self.admit("x").outcome is AdmissionOutcome.STARTED

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

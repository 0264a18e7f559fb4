"""An attempt ends without an update: ``settle``, and the answers to what it asked."""
# ruff: noqa: D102  # the name of a test is its sentence

from dataclasses import replace

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.store.base import Claim, Interrupt, Refusal, TaskRef, TaskStatus, WaitKind
from tenxgraph.testing.contract.harness import LONG_MS, RULES, SHORT_MS, StoreMoves


class SettleContract(StoreMoves):
    """Retries and failures."""

    def test_a_retry_waits_and_comes_as_the_next_attempt(self) -> None:
        (claim,) = self.begin_and_claim("a")
        answer = self.retry_later(claim)
        assert (answer.accepted, answer.dispatch) == (True, ())
        assert (self.task("0").status, self.view().reason) == (TaskStatus.RETRY_WAIT, "retry_wait")
        (message,) = self.recover_after(SHORT_MS * 2).dispatch
        assert message.ref == replace(claim.ref, attempt=2)
        again = self.claim(message)
        assert (again.error, again.first_started_ms) == (b"boom", claim.first_started_ms)

    def test_a_retry_is_not_dispatched_before_its_time(self) -> None:
        (claim,) = self.begin_and_claim("a")
        self.retry_later(claim, LONG_MS)
        assert self.recover().dispatch == ()
        assert isinstance(self.try_claim(replace(claim.ref, attempt=2)), Refusal)

    def test_a_retry_is_due_at_its_time(self) -> None:
        (claim,) = self.begin_and_claim("a")
        self.forget()
        self.retry_later(claim)
        self.wait_for_due()
        assert self.recover_after(SHORT_MS).dispatch != ()

    def test_a_retry_is_no_death(self) -> None:
        (claim,) = self.begin_and_claim("a")
        self.retry_later(claim)
        self.recover_after(SHORT_MS * 2)
        assert self.task("0").deaths == 0

    def test_a_repeated_settlement_is_answered_the_same_and_counts_once(self) -> None:
        first, second = self.begin_and_claim("a", "b")
        assert self.retry_later(first) == self.retry_later(first)
        assert self.task("0").attempt == 2
        assert self.fail(second) == self.fail(second)

    def test_a_settlement_that_ended_the_run_is_answered_the_same_again(self) -> None:
        (claim,) = self.begin_and_claim("a")
        self.admit("r2")
        answer = self.fail(claim)
        assert (answer.accepted, [message.ref.run_id for message in answer.dispatch]) == (True, ["r2"])
        assert self.fail(claim) == answer
        assert (self.status("r1"), self.thread().active) == (RunStatus.FAILED, "r2")

    def test_events_of_a_settlement_are_written_once(self) -> None:
        first, _ = self.begin_and_claim("a", "b")
        for _ in range(2):
            self.settle(first, TaskStatus.FAILED, error=b"boom", events=b"error")
        assert self.bodies() == [b"error"]

    def test_a_fenced_settlement_changes_nothing(self) -> None:
        (message,) = self.begin("a")
        late = self.claim(message, lease_ms=SHORT_MS)
        (again,) = self.recover_after(SHORT_MS * 2).dispatch
        assert not self.fail(late).accepted
        assert not self.retry_later(late).accepted
        assert not self.ask(late, "i1").accepted
        assert (self.status(), self.view().interrupts) == (RunStatus.RUNNING, ())
        assert self.commit(self.claim(again)).accepted

    def test_another_token_settles_nothing(self) -> None:
        (claim,) = self.begin_and_claim("a")
        assert not self.fail(replace(claim, token="other")).accepted
        assert (self.status(), self.task("0").status) == (RunStatus.RUNNING, TaskStatus.CLAIMED)
        assert self.commit(claim).accepted

    def test_a_committed_attempt_is_not_settled_otherwise(self) -> None:
        first, _ = self.begin_and_claim("a", "b")
        self.commit(first)
        assert not self.fail(first).accepted
        assert self.task("0").status is TaskStatus.COMMITTED

    # -- failures

    def test_a_failure_ends_the_run_with_its_error(self) -> None:
        (claim,) = self.begin_and_claim("a")
        assert self.fail(claim, b"why").accepted
        assert (self.status(), self.view().error) == (RunStatus.FAILED, b"why")
        assert (self.thread().active, self.thread().continuable) == ("", "r1")
        assert self.bodies() == [b'{"event":"run_end","step":1,"data":{"status":"failed"}}']

    def test_siblings_of_a_failure_settle_first_and_keep_their_updates(self) -> None:
        first, second = self.begin_and_claim("a", "b")
        self.fail(first, b"why")
        assert self.status() is RunStatus.RUNNING
        answer = self.commit(second)
        assert (answer.accepted, answer.plan) == (True, None)
        assert (self.status(), self.view().error) == (RunStatus.FAILED, b"why")
        assert self.task_statuses() == {"0": TaskStatus.FAILED, "1": TaskStatus.COMMITTED}

    def test_a_failure_waits_for_a_siblings_retry(self) -> None:
        first, second = self.begin_and_claim("a", "b")
        self.fail(first)
        self.retry_later(second)
        assert self.status() is RunStatus.RUNNING
        (message,) = self.recover_after(SHORT_MS * 2).dispatch
        self.commit(self.claim(message))
        assert self.status() is RunStatus.FAILED

    def test_a_failing_start_ends_the_run(self) -> None:
        assert self.fail(self.start(), b"why").accepted
        assert (self.status(), self.view().error) == (RunStatus.FAILED, b"why")

    def test_a_failing_advance_ends_the_run_and_keeps_the_updates(self) -> None:
        plan = self.commit_all(self.begin_and_claim("a", "b"))
        assert self.fail(plan, b"why").accepted
        assert (self.status(), self.view().error) == (RunStatus.FAILED, b"why")
        assert self.task_statuses() == {
            "0": TaskStatus.COMMITTED,
            "1": TaskStatus.COMMITTED,
            "plan": TaskStatus.FAILED,
        }

    def test_an_advance_may_be_retried(self) -> None:
        plan = self.commit_all(self.begin_and_claim("a", "b"))
        self.retry_later(plan)
        (message,) = self.recover_after(SHORT_MS * 2).dispatch
        assert message.ref == TaskRef("t1", "r1", 1, "plan", 2)
        assert self.claim(message).updates == {"0": b"update of a", "1": b"update of b"}


class QuestionContract(StoreMoves):
    """Questions wait for a person, and a task runs again with their answers."""

    def asked_twice(self) -> Claim:
        """Let one task ask two questions at once."""
        (claim,) = self.begin_and_claim("a")
        self.ask(claim, "i1", "i2")
        return claim

    def test_a_question_lets_the_run_wait(self) -> None:
        (claim,) = self.begin_and_claim("a")
        assert self.ask(claim, "i1").accepted
        assert (self.status(), self.view().wait) == (RunStatus.WAITING, WaitKind.QUESTION)
        assert self.view().interrupts == (Interrupt("i1", "0", b"what is i1?"),)
        assert self.bodies() == [b'{"event":"run_end","step":1,"data":{"status":"waiting"}}']
        assert self.recover().next_due_ms is None

    def test_a_repeated_question_is_asked_once(self) -> None:
        (claim,) = self.begin_and_claim("a")
        assert self.ask(claim, "i1") == self.ask(claim, "i1")
        assert len(self.view().interrupts) == len(self.bodies()) == 1

    def test_a_question_waits_until_the_siblings_settled(self) -> None:
        first, second = self.begin_and_claim("a", "b")
        self.ask(first, "i1")
        assert self.status() is RunStatus.RUNNING
        assert self.commit(second).plan is None
        assert self.status() is RunStatus.WAITING

    def test_an_answer_runs_the_task_again(self) -> None:
        (claim,) = self.begin_and_claim("a")
        self.ask(claim, "i1")
        answer = self.resume({"i1": b"42"})
        assert [message.ref for message in answer.dispatch] == [replace(claim.ref, attempt=2)]
        again = self.claim(answer.dispatch[0])
        assert again.run.interrupts == (Interrupt("i1", "0", b"what is i1?", b"42"),)
        assert self.status() is RunStatus.RUNNING

    def test_an_answer_is_kept_until_the_commit_that_used_it(self) -> None:
        first, second = self.begin_and_claim("a", "b")
        self.ask(first, "i1")
        (message,) = self.resume({"i1": b"42"}).dispatch
        self.retry_later(self.claim(message))
        (message,) = self.recover_after(SHORT_MS * 2).dispatch
        again = self.claim(message)
        assert [asked.answer for asked in again.run.interrupts] == [b"42"]
        self.commit(again)
        assert (self.view().interrupts, self.task("1").status) == ((), TaskStatus.CLAIMED)
        assert self.commit(second).plan is not None

    def test_an_answer_outlives_the_worker_that_took_it(self) -> None:
        (claim,) = self.begin_and_claim("a")
        self.ask(claim, "i1")
        self.claim(self.resume({"i1": b"42"}).dispatch[0], lease_ms=SHORT_MS)
        (message,) = self.recover_after(SHORT_MS * 2).dispatch
        assert [asked.answer for asked in self.claim(message).run.interrupts] == [b"42"]

    def test_two_questions_of_a_task_are_answered_at_once(self) -> None:
        claim = self.asked_twice()
        answer = self.resume({"i2": b"2", "i1": b"1"})
        assert [message.ref for message in answer.dispatch] == [replace(claim.ref, attempt=2)]

    def test_two_questions_of_a_task_are_answered_in_any_order(self) -> None:
        for first, second in (("i1", "i2"), ("i2", "i1")):
            thread_id = run_id = f"t-{first}"
            (claim,) = self.begin_and_claim("a", thread_id=thread_id, run_id=run_id)
            self.ask(claim, "i1", "i2")
            there = {"thread_id": thread_id, "run_id": run_id}
            again = self.claim(self.resume({first: b"1"}, **there).dispatch[0])
            self.ask(again, second)
            assert self.status(run_id) is RunStatus.WAITING
            last = self.claim(self.resume({second: b"2"}, **there).dispatch[0])
            assert {asked.id: asked.answer for asked in last.run.interrupts} == {first: b"1", second: b"2"}
            assert self.finish(last).accepted

    def test_a_question_answered_while_its_task_runs_again_runs_it_once_more_at_once(self) -> None:
        self.asked_twice()
        again = self.claim(self.resume({"i1": b"1"}).dispatch[0])
        answer = self.resume({"i2": b"2"})
        assert (answer.accepted, answer.dispatch) == (True, ())
        settled = self.ask(again, "i2")
        assert [message.ref.attempt for message in settled.dispatch] == [3]
        assert self.ask(again, "i2") == settled
        last = self.claim(settled.dispatch[0])
        assert [asked.answer for asked in last.run.interrupts] == [b"1", b"2"]

    def test_a_failure_keeps_a_siblings_question(self) -> None:
        first, second = self.begin_and_claim("a", "b")
        self.ask(first, "i1")
        self.fail(second)
        assert self.status() is RunStatus.FAILED
        (message,) = self.go_on("r2").dispatch
        assert message.ref.task == "1"
        self.commit(self.claim(message))
        assert self.status("r2") is RunStatus.WAITING
        answer = self.resume({"i1": b"42"}, run_id="r2")
        assert [message.ref.task for message in answer.dispatch] == ["0"]

    def test_a_question_waits_as_long_as_it_takes(self) -> None:
        (claim,) = self.begin_and_claim("a")
        self.ask(claim, "i1")
        assert self.recover_after(SHORT_MS, rules=replace(RULES, grace_ms=1)).dispatch == ()
        assert self.status() is RunStatus.WAITING

"""A task's attempt: claimed, renewed, handed in or given back."""
# ruff: noqa: D102  # the name of a test is its sentence

from dataclasses import replace
from itertools import pairwise

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.image import Version
from tenxgraph.store.base import Claim, Emission, Refusal, Renewal, TaskRef, TaskStatus
from tenxgraph.testing.contract.harness import LONG_MS, SHORT_MS, StoreMoves, at_once, node_specs, plan_spec


class ClaimContract(StoreMoves):
    """``claim``, ``renew`` and ``emit``."""

    def test_a_claim_brings_what_was_planned(self) -> None:
        (message,) = self.begin("a")
        claim = self.claim(message, nonce="nonce")
        assert (claim.ref, claim.token, claim.spec) == (message.ref, "nonce", node_specs(["a"])[0])
        assert (claim.run.run_id, claim.run.step, claim.run.status) == ("r1", 1, RunStatus.RUNNING)
        assert (claim.image, claim.error) == (self.store.image("t1"), b"")
        assert (claim.updates, claim.specs) == ({}, ())

    def test_a_claimed_start_brings_the_runs_input(self) -> None:
        claim = self.start(input=b"hello")
        assert (claim.spec, claim.run.input) == (plan_spec("start"), b"hello")
        assert claim.image.version == Version.ZERO

    def test_the_first_claim_makes_a_run_running(self) -> None:
        before_ms = self.store.now_ms()
        claim = self.start()
        assert self.status() is RunStatus.RUNNING
        assert before_ms <= self.view().started_ms <= self.store.now_ms()
        assert claim.first_started_ms == self.view().started_ms

    def test_a_claimed_task_shows_its_worker_and_lease(self) -> None:
        (message,) = self.begin("a")
        self.claim(message, worker="w7", lease_ms=LONG_MS)
        task = self.task("0")
        assert (task.status, task.worker, task.attempt, task.node) == (TaskStatus.CLAIMED, "w7", 1, "a")
        assert task.until_ms > self.store.now_ms()

    def test_only_a_step_of_one_task_is_alone(self) -> None:
        assert [claim.alone for claim in self.begin_and_claim("a", thread_id="t1", run_id="r1")] == [True]
        assert [claim.alone for claim in self.begin_and_claim("a", "b", thread_id="t2", run_id="r2")] == [False, False]

    def test_events_of_a_claim_are_written_once(self) -> None:
        (message,) = self.begin("a")
        for _ in range(2):
            self.try_claim(message, nonce="nonce", events=b"task_start")
        assert self.bodies() == [b"task_start"]

    def test_a_repeated_claim_is_answered_the_same(self) -> None:
        (message,) = self.begin("a")
        assert self.claim(message, nonce="nonce") == self.claim(message, nonce="nonce")

    def test_a_taken_task_is_refused(self) -> None:
        (message,) = self.begin("a")
        self.claim(message)
        assert isinstance(self.try_claim(message), Refusal)

    def test_of_concurrent_claims_one_wins(self) -> None:
        (message,) = self.begin("a")
        answers = at_once([lambda: self.try_claim(message)] * 8)
        assert sum(isinstance(answer, Claim) for answer in answers) == 1

    def test_a_message_that_the_store_does_not_confirm_is_refused(self) -> None:
        (message,) = self.begin("a")
        wrong: tuple[dict[str, str | int], ...] = (
            {"thread_id": "nowhere"}, {"run_id": "nobody"}, {"task": "7"}, {"task": "plan"}, {"step": 0}, {"step": 2},
            {"attempt": 0}, {"attempt": 2},
        )  # fmt: skip
        for change in wrong:
            assert isinstance(self.try_claim(replace(message.ref, **change)), Refusal), change  # type: ignore[arg-type]  # fields by name
        assert isinstance(self.try_claim(message), Claim)

    def test_a_task_of_a_queued_run_is_refused(self) -> None:
        self.admit("r1")
        self.admit("r2")
        assert isinstance(self.try_claim(TaskRef("t1", "r2", 0, "plan", 1)), Refusal)

    def test_a_settled_task_is_refused(self) -> None:
        first, _ = self.begin_and_claim("a", "b")
        self.commit(first)
        assert isinstance(self.try_claim(first.ref), Refusal)
        assert isinstance(self.try_claim(first.ref, nonce=first.token), Refusal)

    # -- renew

    def test_a_renewed_lease_lasts_longer(self) -> None:
        (message,) = self.begin("a")
        claim = self.claim(message, lease_ms=SHORT_MS)
        assert self.store.renew(claim.ref, claim.token, lease_ms=LONG_MS) == Renewal(alive=True)
        assert self.recover_after(SHORT_MS * 2).expired == ()
        assert self.commit(claim).accepted

    def test_a_lease_that_ran_out_is_renewed_while_nobody_fenced_it(self) -> None:
        (message,) = self.begin("a")
        claim = self.claim(message, lease_ms=SHORT_MS)
        self.harness.sleep_ms(SHORT_MS * 2)
        assert self.store.renew(claim.ref, claim.token, lease_ms=LONG_MS).alive
        assert self.recover().expired == ()

    def test_a_fenced_attempt_is_not_renewed(self) -> None:
        claim = self.expire_one()
        assert not self.store.renew(claim.ref, claim.token, lease_ms=LONG_MS).alive

    def test_a_settled_attempt_is_not_renewed(self) -> None:
        first, second = self.begin_and_claim("a", "b")
        self.commit(first)
        self.retry_later(second)
        for claim in (first, second):
            assert not self.store.renew(claim.ref, claim.token, lease_ms=LONG_MS).alive

    def test_another_token_does_not_renew(self) -> None:
        (claim,) = self.begin_and_claim("a")
        assert not self.store.renew(claim.ref, "another", lease_ms=LONG_MS).alive

    def test_a_renewal_tells_of_a_stop(self) -> None:
        (claim,) = self.begin_and_claim("a")
        self.stop()
        assert self.store.renew(claim.ref, claim.token, lease_ms=LONG_MS) == Renewal(alive=True, stop="stop")

    # -- emit

    def test_a_living_attempt_emits(self) -> None:
        (claim,) = self.begin_and_claim("a")
        assert self.tell(claim, b'{"event":"token"}')
        assert self.bodies() == [b'{"event":"token"}']

    def test_an_emission_whose_reply_was_lost_is_there_once(self) -> None:
        (claim,) = self.begin_and_claim("a")
        for number, body in ((1, b"first"), (1, b"first"), (2, b"second"), (1, b"first"), (2, b"second")):
            assert self.tell(claim, body, number)
        assert self.bodies() == [b"first", b"second"]

    def test_each_attempt_counts_its_own_emissions(self) -> None:
        (claim,) = self.begin_and_claim("a")
        self.tell(claim, b"of the first", 7)
        self.store.hand_back(claim.ref, claim.token)
        again = self.claim(replace(claim.ref, attempt=2))
        assert not self.tell(claim, b"late", 8)
        assert self.tell(again, b"of the second", 1)
        assert [body for body in self.bodies() if b"discarded" not in body] == [b"of the first", b"of the second"]

    def test_attempts_emit_in_one_trip_and_each_has_its_own_answer(self) -> None:
        first, second = self.begin_and_claim("a", "b")
        self.commit(first)
        (other,) = self.begin_and_claim("a", thread_id="t2", run_id="r2")
        told = [Emission(claim.ref, claim.token, 1, claim.ref.task.encode()) for claim in (first, second, other)]
        assert list(self.store.emit(told)) == [False, True, True]
        assert (self.bodies(), self.bodies("r2", "t2")) == ([b"1"], [b"0"])

    def test_an_attempt_that_is_over_emits_nothing(self) -> None:
        fenced = self.expire_one()
        first, second = self.begin_and_claim("a", "b", thread_id="t2", run_id="r2")
        self.commit(first)
        self.retry_later(second)
        for claim in (fenced, first, second):
            assert not self.tell(claim, b"late")
        assert b"late" not in self.bodies() + self.bodies("r2", "t2")

    def expire_one(self, *nodes: str) -> Claim:
        """Claim the first task of a step and let its lease run out."""
        message = self.begin(*(nodes or ("a",)))[0]
        claim = self.claim(message, lease_ms=SHORT_MS)
        assert self.recover_after(SHORT_MS * 2).expired == (claim.ref,)
        return claim


class CommitContract(StoreMoves):
    """``commit``: once, under the token, and the last one takes the advance."""

    def test_a_commit_that_is_not_the_last_waits_for_the_others(self) -> None:
        first, _ = self.begin_and_claim("a", "b")
        answer = self.commit(first)
        assert (answer.accepted, answer.plan, answer.dispatch) == (True, None, ())
        assert self.task_statuses() == {"0": TaskStatus.COMMITTED, "1": TaskStatus.CLAIMED}

    def test_a_commit_sends_no_sibling_again(self) -> None:
        messages = self.begin("a", "b", "c")
        assert self.commit(self.claim(messages[0])).dispatch == ()

    def test_the_last_commit_takes_the_advance(self) -> None:
        first, second = self.begin_and_claim("a", "b")
        self.commit(second, b"of b")
        plan = self.commit(first, b"of a").plan
        assert plan is not None
        assert (plan.token, plan.spec, plan.specs) == (first.token, plan_spec("advance"), node_specs(["a", "b"]))
        assert list(plan.updates.items()) == [("0", b"of a"), ("1", b"of b")]
        assert plan.image == self.store.image("t1")

    def test_of_concurrent_commits_one_takes_the_advance(self) -> None:
        claims = self.begin_and_claim(*"abcdefgh")
        answers = at_once([lambda c=claim: self.commit(c) for claim in claims])  # type: ignore[misc]  # c=claim binds now
        assert [answer.accepted for answer in answers] == [True] * 8
        assert sum(answer.plan is not None for answer in answers) == 1

    def test_a_double_commit_does_not_release_the_join(self) -> None:
        first, _ = self.begin_and_claim("a", "b")
        self.commit(first)
        assert self.commit(first).plan is None
        assert self.task_statuses() == {"0": TaskStatus.COMMITTED, "1": TaskStatus.CLAIMED}

    def test_a_repeated_commit_is_answered_the_same(self) -> None:
        first, second = self.begin_and_claim("a", "b")
        assert self.commit(first) == self.commit(first)
        assert self.commit(second) == self.commit(second)

    def test_of_two_updates_under_one_token_the_first_counts(self) -> None:
        first, second = self.begin_and_claim("a", "b")
        self.commit(first, b"first")
        self.commit(first, b"second")
        plan = self.commit(second, b"other").plan
        assert plan is not None
        assert plan.updates == {"0": b"first", "1": b"other"}

    def test_events_of_a_commit_are_written_once(self) -> None:
        first, _ = self.begin_and_claim("a", "b")
        for _ in range(2):
            self.commit(first, events=b"task_end")
        assert self.bodies() == [b"task_end"]

    def test_a_commit_repeated_after_the_step_still_counts_and_writes_nothing(self) -> None:
        first, second = self.begin_and_claim("a", "b")
        self.advance(self.commit_all([first, second]), "c")
        before = self.picture()
        assert self.commit(first, b"again", b"again").accepted
        assert self.picture() == before

    def test_a_commit_that_ended_the_run_is_answered_the_same_again(self) -> None:
        first, second = self.begin_and_claim("a", "b")
        self.admit("r2")
        self.fail(first)
        answer = self.commit(second)
        assert (answer.accepted, [message.ref.run_id for message in answer.dispatch]) == (True, ["r2"])
        assert self.commit(second) == answer

    def test_an_update_may_be_any_bytes(self) -> None:
        first, second = self.begin_and_claim("a", "b")
        self.commit(first, bytes(range(256)))
        plan = self.commit(second, b"").plan
        assert plan is not None
        assert plan.updates == {"0": bytes(range(256)), "1": b""}

    # -- fences

    def test_another_token_commits_nothing(self) -> None:
        first, second = self.begin_and_claim("a", "b")
        assert not self.commit(replace(first, token=second.token)).accepted
        assert not self.commit(replace(first, token="")).accepted
        assert self.task_statuses() == {"0": TaskStatus.CLAIMED, "1": TaskStatus.CLAIMED}

    def test_a_fenced_attempt_commits_nothing(self) -> None:
        messages = self.begin("a", "b")
        late = self.claim(messages[0], lease_ms=SHORT_MS)
        (again,) = self.recover_after(SHORT_MS * 2).dispatch
        assert not self.commit(late, b"late", b"late").accepted
        self.claim(again)
        assert not self.commit(late, b"late", b"late").accepted
        assert self.task_statuses() == {"0": TaskStatus.CLAIMED, "1": TaskStatus.QUEUED}
        assert b"late" not in self.bodies()

    def test_a_late_commit_that_nobody_fenced_counts(self) -> None:
        messages = self.begin("a", "b")
        late = self.claim(messages[0], lease_ms=SHORT_MS)
        self.harness.sleep_ms(SHORT_MS * 2)
        assert self.commit(late).accepted
        assert self.recover().expired == ()

    def test_an_attempt_that_was_settled_commits_nothing(self) -> None:
        first, second = self.begin_and_claim("a", "b")
        self.retry_later(first, LONG_MS)
        self.fail(second)
        assert not self.commit(first).accepted
        assert not self.commit(second).accepted
        assert self.task_statuses() == {"0": TaskStatus.RETRY_WAIT, "1": TaskStatus.FAILED}

    def picture(self) -> tuple[object, ...]:
        """Return all that a write could change."""
        return self.view(), self.store.tasks("r1"), self.bodies(), self.store.image("t1"), self.thread()


class GiveBackContract(StoreMoves):
    """``give_back``: a worker that cannot run a task passes it on."""

    def give_back(self, ref: TaskRef, pause_ms: int = SHORT_MS) -> bool:
        """Pass a task on."""
        return self.store.give_back(ref, reason="waiting_for_version", pause_ms=pause_ms)

    def test_a_task_given_back_comes_again_after_the_pause(self) -> None:
        (message,) = self.begin("a")
        assert self.give_back(message.ref)
        assert self.view().reason == "waiting_for_version"
        assert isinstance(self.try_claim(message), Refusal)
        recovery = self.recover_after(SHORT_MS * 2)
        assert recovery.dispatch == (message,)
        self.claim(message)
        assert self.view().reason == ""

    def test_the_pause_doubles_each_time(self) -> None:
        (message,) = self.begin("a")
        pauses_ms = []
        for _ in range(4):
            pauses_ms.append(self.pause_bounds_ms(lambda: self.give_back(message.ref, pause_ms=20)))
            self.wait_until_dispatched()
        for shorter_ms, longer_ms in pairwise(pauses_ms):
            assert longer_ms[0] <= 2 * shorter_ms[1], pauses_ms
            assert longer_ms[1] >= 2 * shorter_ms[0], pauses_ms

    def test_a_task_given_back_is_due_when_its_pause_is_over(self) -> None:
        (message,) = self.begin("a")
        self.forget()
        self.give_back(message.ref)
        self.wait_for_due()
        assert self.recover_after(SHORT_MS).dispatch == (message,)

    def test_giving_back_counts_as_no_death(self) -> None:
        (message,) = self.begin("a")
        self.give_back(message.ref)
        self.recover_after(SHORT_MS * 2)
        assert (self.task("0").deaths, self.task("0").attempt) == (0, 1)

    def test_a_claimed_task_is_not_given_back(self) -> None:
        (message,) = self.begin("a")
        claim = self.claim(message)
        assert not self.give_back(message.ref)
        assert self.commit(claim).accepted

    def test_a_message_that_the_store_does_not_confirm_gives_nothing_back(self) -> None:
        (message,) = self.begin("a")
        assert not self.give_back(replace(message.ref, attempt=2))
        assert not self.give_back(replace(message.ref, step=0))
        assert not self.give_back(replace(message.ref, run_id="nobody"))
        assert self.task_statuses() == {"0": TaskStatus.QUEUED}

    def test_a_run_that_is_stopping_does_not_wait_for_a_task_given_back(self) -> None:
        messages = self.begin("a", "b")
        self.commit(self.claim(messages[0]))
        self.stop()
        self.give_back(messages[1].ref, LONG_MS)
        assert self.status() is RunStatus.STOPPED
        assert self.task_statuses() == {"0": TaskStatus.COMMITTED, "1": TaskStatus.PARKED}

    def wait_until_dispatched(self) -> None:
        """Let the pause of the run's only task pass."""
        for _ in range(200):
            if self.recover_after(5).dispatch:
                return
        raise AssertionError("The task was not dispatched again.")

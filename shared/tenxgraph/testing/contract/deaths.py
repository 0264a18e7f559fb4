"""Which ends of an attempt count as deaths, and what becomes of a task that has one."""
# ruff: noqa: D102  # the name of a test is its sentence

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.store.base import Claim, Dispatch, InputKind, Refusal, TaskRef, TaskStatus
from tenxgraph.testing.contract.harness import LONG_MS, RULES, SHORT_MS, StoreMoves, at_once


class DeathContract(StoreMoves):
    """A lease that ran out counts as a death until its worker is heard again."""

    def die(self, of: Dispatch | TaskRef) -> Claim:
        """Claim a task and let its lease run out."""
        claim = self.claim(of, lease_ms=SHORT_MS)
        assert self.recover_after(SHORT_MS * 2).expired == (claim.ref,)
        return claim

    def deaths(self) -> int:
        """Return the deaths of the first task."""
        return self.task("0").deaths

    def test_a_worker_that_renews_after_it_was_fenced_did_not_die(self) -> None:
        (message,) = self.begin("a")
        late = self.die(message)
        assert self.deaths() == 1
        for _ in range(2):
            assert not self.store.renew(late.ref, late.token, lease_ms=LONG_MS).alive
            assert self.deaths() == 0

    def test_whoever_writes_under_a_fenced_token_did_not_die(self) -> None:
        (message,) = self.begin("a")
        writes: list[Callable[[Claim], object]] = [
            *(self.commit, self.fail, self.advance),
            lambda claim: self.tell(claim, b"late"),
            lambda claim: self.store.hand_back(claim.ref, claim.token),
        ]
        for attempt, write in enumerate(writes, 1):
            late = self.die(replace(message.ref, attempt=attempt))
            assert self.deaths() == 1, attempt
            assert not getattr(write(late), "accepted", False)
            assert self.deaths() == 0, attempt

    def test_a_death_is_taken_back_while_the_next_attempt_runs(self) -> None:
        (message,) = self.begin("a")
        late = self.die(message)
        again = self.claim(replace(late.ref, attempt=2))
        self.commit(late)
        assert (self.deaths(), self.task("0").status) == (0, TaskStatus.CLAIMED)
        assert self.commit(again).accepted

    def test_one_death_is_taken_back_once(self) -> None:
        (message,) = self.begin("a")
        first = self.die(message)
        self.die(replace(first.ref, attempt=2))
        for _ in range(3):
            self.commit(first)
        assert self.deaths() == 1

    def test_a_death_is_not_taken_back_from_a_later_step(self) -> None:
        (message,) = self.begin("a")
        late = self.die(message)
        (then,) = self.advance(self.claim(replace(late.ref, attempt=2)), "b").dispatch
        self.die(then)
        self.commit(late)
        assert self.deaths() == 1

    def test_another_token_takes_no_death_back(self) -> None:
        (message,) = self.begin("a")
        late = self.die(message)
        self.commit(replace(late, token="another"))
        assert self.deaths() == 1

    def test_a_worker_that_is_killed_while_it_leaves_counts_as_no_death(self) -> None:
        (message,) = self.begin("a")
        claim = self.claim(message)
        assert self.store.renew(claim.ref, claim.token, lease_ms=SHORT_MS, leaving=True).alive
        recovery = self.recover_after(SHORT_MS * 2, rules=replace(RULES, max_deliveries=1))
        assert (recovery.expired, self.deaths(), self.status()) == ((claim.ref,), 0, RunStatus.RUNNING)
        again = self.die(recovery.dispatch[0])
        assert (again.ref.attempt, self.deaths()) == (2, 1)

    def test_a_dead_run_stays_dead_whoever_is_heard(self) -> None:
        (message,) = self.begin("a")
        late = self.claim(message, lease_ms=SHORT_MS)
        self.recover_after(SHORT_MS * 2, rules=replace(RULES, max_deliveries=1))
        self.commit(late)
        assert self.status() is RunStatus.DEAD

    def test_a_dead_run_says_which_node_and_where_it_died(self) -> None:
        (message,) = self.begin('say "ä"')
        self.claim(message, lease_ms=SHORT_MS, worker="w7")
        self.recover_after(SHORT_MS * 2, rules=replace(RULES, max_deliveries=1))
        error = json.loads(self.view().error)
        assert (error["error"], error["code"], error["node"], error["attempt"]) == (
            *("NodeError", "NODE_DIED"),
            *('say "ä"', 1),
        )
        assert "died with its worker 1 times" in error["message"]
        assert "w7" in error["message"]
        (told,) = [event for event in map(json.loads, self.bodies()) if event["event"] == "error"]
        assert (told["node"], told["step"], told["data"]) == ('say "ä"', 1, error)

    def lose_lease_after_lease(self, of: TaskRef, times: int) -> None:
        """Let attempts run out of which each is heard again: twice is once too often."""
        for attempt in range(of.attempt, of.attempt + times):
            late = self.claim(replace(of, attempt=attempt), lease_ms=SHORT_MS, worker="w7")
            self.recover_after(SHORT_MS * 2, rules=replace(RULES, max_lost_leases=2))
            assert not self.store.renew(late.ref, late.token, lease_ms=LONG_MS).alive

    def test_a_task_that_loses_lease_after_lease_ends_the_run_though_its_workers_live(self) -> None:
        (message,) = self.begin("a")
        self.lose_lease_after_lease(message.ref, 1)
        assert (self.deaths(), self.status()) == (0, RunStatus.RUNNING)
        self.lose_lease_after_lease(replace(message.ref, attempt=2), 1)
        assert (self.status(), self.view().reason) == (RunStatus.DEAD, "a lost its lease 2 times")
        error = json.loads(self.view().error)
        assert (error["error"], error["code"], error["node"], error["attempt"]) == ("NodeError", "LEASE_LOST", "a", 2)
        assert "last on w7: its worker lived and was not heard" in error["message"]

    def test_lost_leases_are_counted_anew_in_the_next_step_and_in_a_replay(self) -> None:
        (message,) = self.begin("a")
        self.lose_lease_after_lease(message.ref, 1)
        (then,) = self.advance(self.claim(replace(message.ref, attempt=2)), "b").dispatch
        self.lose_lease_after_lease(then.ref, 1)
        assert self.status() is RunStatus.RUNNING
        self.lose_lease_after_lease(replace(then.ref, attempt=2), 1)
        assert self.status() is RunStatus.DEAD
        (again,) = self.admit("r2", kind=InputKind.CONTINUE).dispatch
        self.lose_lease_after_lease(again.ref, 1)
        assert self.status("r2") is RunStatus.RUNNING

    def test_a_lease_that_ends_while_its_worker_leaves_is_none_that_was_lost(self) -> None:
        (message,) = self.begin("a")
        claim = self.claim(message)
        assert self.store.renew(claim.ref, claim.token, lease_ms=SHORT_MS, leaving=True).alive
        self.recover_after(SHORT_MS * 2, rules=replace(RULES, max_lost_leases=1))
        assert self.status() is RunStatus.RUNNING


class SuspectContract(StoreMoves):
    """A task with a death is kept apart from others of its kind."""

    def suspect(self, *nodes: str, **changes: str) -> TaskRef:
        """Let the first attempt at a step's first task die; return its second."""
        message = self.begin(*(nodes or ("a",)), **changes)[0]
        self.claim(message, lease_ms=SHORT_MS)
        self.recover_after(SHORT_MS * 2, message.ref.thread_id)
        return replace(message.ref, attempt=2)

    def claim_beside_another(self, ref: TaskRef, pause_ms: int = SHORT_MS) -> Claim | Refusal:
        """Claim as a process that holds a suspect."""
        return self.store.claim(
            ref, "nonce", worker="w", lease_ms=LONG_MS, known=None, events=b"began", suspect_pause_ms=pause_ms
        )

    def test_a_claim_says_how_often_its_task_died(self) -> None:
        assert self.claim(self.suspect()).deaths == 1
        assert [claim.deaths for claim in self.begin_and_claim("a", run_id="r2", thread_id="t2")] == [0]

    def test_a_process_that_holds_a_suspect_gets_no_other(self) -> None:
        ref = self.suspect()
        assert isinstance(self.claim_beside_another(ref), Refusal)
        assert (self.task("0").status, self.task("0").attempt, self.task("0").deaths) == (TaskStatus.RETRY_WAIT, 2, 1)
        assert self.view().reason == "suspect"
        assert b"began" not in self.bodies()
        assert self.recover_after(SHORT_MS * 2).dispatch[0].ref == ref
        assert self.claim(ref).ref == ref
        assert self.view().reason == ""

    def test_a_process_that_holds_a_suspect_gets_what_is_none(self) -> None:
        (message,) = self.begin("a")
        assert isinstance(self.claim_beside_another(message.ref), Claim)

    def test_a_repeated_claim_beside_another_suspect_is_answered_the_same(self) -> None:
        ref = self.suspect()
        first = self.claim_beside_another(ref, LONG_MS)
        before = self.store.tasks("r1")
        assert self.claim_beside_another(ref, LONG_MS) == first
        assert self.store.tasks("r1") == before

    def test_a_suspect_that_was_put_aside_is_due_when_its_pause_is_over(self) -> None:
        ref = self.suspect()
        self.forget()
        self.claim_beside_another(ref)
        self.wait_for_due()

    def test_the_pause_of_a_suspect_doubles_up_to_a_point(self) -> None:
        ref = self.suspect()
        pauses_ms = []
        for _ in range(7):
            pauses_ms.append(self.pause_bounds_ms(lambda: self.claim_beside_another(ref, 8)))
            assert self.recover_after(pauses_ms[-1][1] + 2).dispatch
        assert all(shorter_ms[0] <= longer_ms[1] for shorter_ms, longer_ms in pairwise(pauses_ms))
        assert pauses_ms[-1][1] >= 4 * 8
        assert pauses_ms[-1][0] <= 16 * 8

    def test_a_run_that_is_stopping_does_not_wait_for_a_suspect(self) -> None:
        message, other = self.begin("a", "b")
        self.commit(self.claim(other))
        self.claim(message, lease_ms=SHORT_MS)
        self.recover_after(SHORT_MS * 2)
        self.stop()
        self.claim_beside_another(replace(message.ref, attempt=2), LONG_MS)
        assert self.status() is RunStatus.STOPPED
        assert self.task_statuses() == {"0": TaskStatus.PARKED, "1": TaskStatus.COMMITTED}


class HandBackContract(StoreMoves):
    """``hand_back``: a worker that must go gives up what it runs."""

    def test_an_attempt_that_is_handed_back_is_followed_by_the_next_at_once(self) -> None:
        (claim,) = self.begin_and_claim("a")
        answer = self.store.hand_back(claim.ref, claim.token)
        assert answer.accepted
        assert [message.ref for message in answer.dispatch] == [replace(claim.ref, attempt=2)]
        assert (self.task("0").status, self.task("0").deaths) == (TaskStatus.QUEUED, 0)
        assert self.commit(self.claim(answer.dispatch[0])).accepted

    def test_an_attempt_that_was_handed_back_is_fenced(self) -> None:
        claim, _ = self.begin_and_claim("a", "b")
        self.store.hand_back(claim.ref, claim.token)
        assert not self.commit(claim).accepted
        assert not self.fail(claim).accepted
        assert not self.store.renew(claim.ref, claim.token, lease_ms=LONG_MS).alive
        assert not self.tell(claim, b"late")
        assert self.bodies() == [b'{"event":"attempt_discarded","step":1,"node":"a","task":"0","attempt":1}']

    def test_handing_back_counts_as_no_death_however_often(self) -> None:
        (message,) = self.begin("a")
        for _ in range(5):
            claim = self.claim(message)
            (message,) = self.store.hand_back(claim.ref, claim.token).dispatch
        assert (self.task("0").attempt, self.task("0").deaths, self.status()) == (6, 0, RunStatus.RUNNING)

    def test_a_repeated_hand_back_is_answered_the_same(self) -> None:
        (claim,) = self.begin_and_claim("a")
        first = self.store.hand_back(claim.ref, claim.token)
        before = self.store.tasks("r1"), self.bodies()
        assert self.store.hand_back(claim.ref, claim.token) == first
        assert (self.store.tasks("r1"), self.bodies()) == before

    def test_only_the_holder_hands_back(self) -> None:
        first, second = self.begin_and_claim("a", "b")
        assert not self.store.hand_back(first.ref, second.token).accepted
        self.commit(first)
        assert not self.store.hand_back(first.ref, first.token).accepted
        assert self.task_statuses() == {"0": TaskStatus.COMMITTED, "1": TaskStatus.CLAIMED}

    def test_of_a_hand_back_and_a_commit_one_counts(self) -> None:
        for number in range(5):
            claim, _ = self.begin_and_claim("a", "b", run_id=f"r{number}", thread_id=f"t{number}")
            committed, handed_back = partial(self.commit, claim), partial(self.store.hand_back, claim.ref, claim.token)
            answers = at_once([lambda: committed().accepted, lambda: handed_back().accepted])  # noqa: B023  # called here
            assert sorted(answers) == [False, True]

    def test_a_run_that_is_stopping_parks_what_is_handed_back(self) -> None:
        (claim,) = self.begin_and_claim("a")
        self.stop()
        self.store.hand_back(claim.ref, claim.token)
        assert (self.status(), self.task_statuses()) == (RunStatus.STOPPED, {"0": TaskStatus.PARKED})

    def test_a_hand_back_that_ends_the_run_starts_the_next(self) -> None:
        (claim,) = self.begin_and_claim("a")
        self.admit("r2")
        self.stop()
        for _ in range(2):
            answer = self.store.hand_back(claim.ref, claim.token)
            assert [message.ref.run_id for message in answer.dispatch] == ["r2"]

    def test_an_advance_is_handed_back_too(self) -> None:
        plan = self.commit_all(self.begin_and_claim("a", "b"))
        (message,) = self.store.hand_back(plan.ref, plan.token).dispatch
        assert self.claim(message).updates == plan.updates

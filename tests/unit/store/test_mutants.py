"""The contract has teeth: stores that are broken on purpose fail the test that names the rule."""

import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tenxgraph.core.exceptions import StorageError
from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.store.base import (
    Admission,
    Advance,
    Advanced,
    Claim,
    Committed,
    DueThread,
    Emission,
    NewRun,
    Recovery,
    RecoveryRules,
    Refusal,
    Renewal,
    Reservation,
    Resume,
    Resumed,
    Settled,
    Settlement,
    StopAnswer,
    Store,
    TaskRef,
    TaskStatus,
)
from tenxgraph.store.memory import MemoryStore
from tenxgraph.store.memory_effects import Effect
from tenxgraph.store.memory_thread import Run, Task, Thread
from tenxgraph.testing.store_contract import MemoryHarness, StoreContract, StoreHarness
from tenxgraph.testing.store_model import StoreMachine

Mine = tuple[Thread, Run, Task]


class NoVersionCheck(MemoryStore):
    def advance(self, ref: TaskRef, token: str, advance: Advance) -> Advanced:
        newest = self._threads[ref.thread_id].version
        return super().advance(ref, token, replace(advance, base=newest))


class CounterInsteadOfSet(MemoryStore):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.counts: Counter[tuple[str, int]] = Counter()

    def commit(self, ref: TaskRef, token: str, update: bytes, **rest: Any) -> Committed:
        mine = self._mine(ref, token)
        answer = super().commit(ref, token, update, **rest)
        self.counts[ref.run_id, ref.step] += 1
        if mine is None or self.counts[ref.run_id, ref.step] < len(mine[1].node_tasks):
            return answer
        with self._changed:
            for task in mine[1].node_tasks.values():
                task.status = TaskStatus.COMMITTED
            self._settle_commit(*mine, update, b"", 1_000)
            return self._committed(ref, token)


class NoTokenCheck(MemoryStore):
    def _mine(self, ref: TaskRef, token: str) -> Mine | None:
        found = self._task(ref)
        return None if isinstance(found, Refusal) else found


class NoAttemptCheck(MemoryStore):
    def claim(self, ref: TaskRef, nonce: str, **rest: Any) -> Claim | Refusal:
        found = self._task(ref)
        if not isinstance(found, Refusal):
            ref = replace(ref, attempt=found[2].attempt)
        return super().claim(ref, nonce, **rest)


class EveryClaimWins(MemoryStore):
    def claim(self, ref: TaskRef, nonce: str, **rest: Any) -> Claim | Refusal:
        found = self._task(ref)
        if not isinstance(found, Refusal) and found[2].status is TaskStatus.CLAIMED:
            found[2].status = TaskStatus.QUEUED
        return super().claim(ref, nonce, **rest)


class LeaseJudgesTheCommit(MemoryStore):
    def commit(self, ref: TaskRef, token: str, update: bytes, **rest: Any) -> Committed:
        mine = self._mine(ref, token)
        if mine is not None and mine[2].until_ms < self.now_ms():
            return Committed(accepted=False)
        return super().commit(ref, token, update, **rest)


class MergesInFinishOrder(MemoryStore):
    def commit(self, ref: TaskRef, token: str, update: bytes, **rest: Any) -> Committed:
        answer = super().commit(ref, token, update, **rest)
        plan = answer.plan and replace(answer.plan, updates=dict(self._threads[ref.thread_id].runs[ref.run_id].updates))
        return replace(answer, plan=plan)


class ForgetsAdmissions(MemoryStore):
    def admit(self, run: NewRun) -> Admission:
        self._thread_of_run.pop(run.run_id, None)
        return super().admit(run)


class ForgetsClaims(MemoryStore):
    def claim(self, ref: TaskRef, nonce: str, **rest: Any) -> Claim | Refusal:
        found = self._task(ref)
        if not isinstance(found, Refusal) and found[2].token == nonce:
            return Refusal("taken")
        return super().claim(ref, nonce, **rest)


class ForgetsCommits(MemoryStore):
    def commit(self, ref: TaskRef, token: str, update: bytes, **rest: Any) -> Committed:
        mine = self._mine(ref, token)
        if mine is None or mine[2].status is not TaskStatus.CLAIMED:
            return Committed(accepted=False)
        return super().commit(ref, token, update, **rest)


class ForgetsAdvances(MemoryStore):
    def advance(self, ref: TaskRef, token: str, advance: Advance) -> Advanced:
        if self._mine(ref, token) is None:
            return Advanced(accepted=False)
        return super().advance(ref, token, advance)


class ForgetsSettlements(MemoryStore):
    def settle(self, ref: TaskRef, token: str, settlement: Settlement) -> Settled:
        mine = self._mine(ref, token)
        if mine is None or mine[2].status is not TaskStatus.CLAIMED:
            return Settled(accepted=False)
        return super().settle(ref, token, settlement)


class ForgetsEmissions(MemoryStore):
    def emit(self, emissions: Sequence[Emission]) -> Sequence[bool | StorageError]:
        for told in emissions:
            found = self._task(told.ref)
            if not isinstance(found, Refusal):
                found[2].emitted = 0
        return super().emit(emissions)


class ForgetsResumes(MemoryStore):
    def resume(self, resume: Resume) -> Resumed:
        for run in self._threads[resume.thread_id].runs.values():
            run.resumes.pop(resume.resume_id, None)
        return super().resume(resume)


class AnswersCountAgain(MemoryStore):
    def resume(self, resume: Resume) -> Resumed:
        asked = self._threads[resume.thread_id].runs[resume.run_id].interrupts
        for question in asked.keys() & resume.answers.keys():
            asked[question] = replace(asked[question], answer=None)
        return super().resume(resume)


class PausesEndAgain(MemoryStore):
    @staticmethod
    def _may_resume(run: Run, resume: Resume) -> bool:
        return True


class CancelFencesNothing(MemoryStore):
    def cancel(self, thread_id: str, run_id: str, *, reason: str, error: bytes, events: bytes) -> StopAnswer:
        thread, run = self._find(thread_id, run_id)
        if thread is None or run is None or run.status is not RunStatus.RUNNING:
            return super().cancel(thread_id, run_id, reason=reason, error=error, events=events)
        run.status, run.reason = RunStatus.CANCELLED, reason
        return StopAnswer(run.status)


class PlansAfterAStop(MemoryStore):
    def advance(self, ref: TaskRef, token: str, advance: Advance) -> Advanced:
        thread, run = self._find(ref.thread_id, ref.run_id)
        if thread is not None and run is not None:
            run.stop = ""
        return super().advance(ref, token, advance)


class StartsTheNewestFirst(MemoryStore):
    def admit(self, run: NewRun) -> Admission:
        answer = super().admit(run)
        self._threads[run.thread_id].inbox.rotate(1)
        return answer


class DeathsAreNotCounted(MemoryStore):
    def recover(self, thread_id: str, rules: RecoveryRules) -> Recovery:
        return super().recover(thread_id, replace(rules, max_deliveries=1_000))


class LeasesAreLostForEver(MemoryStore):
    def recover(self, thread_id: str, rules: RecoveryRules) -> Recovery:
        return super().recover(thread_id, replace(rules, max_lost_leases=1_000))


class TheFencedStayDead(MemoryStore):
    def _mine(self, ref: TaskRef, token: str) -> Mine | None:
        found = self._task(ref)
        return None if isinstance(found, Refusal) or found[2].token != token else found


class EveryDeathIsTakenBack(MemoryStore):
    def _mine(self, ref: TaskRef, token: str) -> Mine | None:
        mine = super()._mine(ref, token)
        found = self._task(ref)
        if mine is None and not isinstance(found, Refusal):
            found[2].deaths = 0
        return mine


class SuspectsGather(MemoryStore):
    def claim(self, ref: TaskRef, nonce: str, **rest: Any) -> Claim | Refusal:
        return super().claim(ref, nonce, **{**rest, "suspect_pause_ms": 0})


class HandingBackKills(MemoryStore):
    def _hand_back(self, thread: Thread, run: Run, task: Task) -> None:
        super()._hand_back(thread, run, task)
        task.deaths += 1


class NobodyLeaves(MemoryStore):
    def renew(self, ref: TaskRef, token: str, *, lease_ms: int, leaving: bool = False) -> Renewal:
        return super().renew(ref, token, lease_ms=lease_ms)


class AdmitsAnswersAsRuns(MemoryStore):
    def _known_answer(self, run: NewRun, thread: Thread | None) -> Admission | None:
        return None


class TouchesAreNotSeen(MemoryStore):
    def settle_due(self, due: DueThread, next_due_ms: int | None) -> None:
        _, touch = self._due.get(due.thread_id, (0, due.touch))
        super().settle_due(replace(due, touch=touch), next_due_ms)


class WatchesNobody(MemoryStore):
    def _watch_next(self, thread: Thread, now_ms: int) -> None:
        pass


class LosesWhatWasCommitted(MemoryStore):
    def admit(self, run: NewRun) -> Admission:
        thread = self._threads.get(run.thread_id)
        for old in thread.runs.values() if thread else ():
            old.updates = {}
        return super().admit(run)


class ForgetsReservations(MemoryStore):
    def reserve(self, ref: TaskRef, token: str, key: str, nonce: str, **rest: Any) -> Reservation:
        return super().reserve(ref, token, key, nonce + secrets.token_hex(4), **rest)


class FencedAttemptsReserve(MemoryStore):
    def reserve(self, ref: TaskRef, token: str, key: str, nonce: str, **rest: Any) -> Reservation:
        thread = self._threads[ref.thread_id]
        rest.pop("at_most_once")
        effect = thread.effects.setdefault(key, Effect())
        return effect.reserve(ref, nonce, now_ms=self.now_ms(), at_most_once=False, **rest)


class AnybodyRecords(MemoryStore):
    def record(self, thread_id: str, key: str, nonce: str, result: bytes) -> bool:
        thread = self._threads.setdefault(thread_id, Thread(thread_id, "", "", "", 0, 0))
        thread.effects.setdefault(key, Effect()).nonces.add(nonce)
        return super().record(thread_id, key, nonce, result)


class TheLastRecordWins(MemoryStore):
    def record(self, thread_id: str, key: str, nonce: str, result: bytes) -> bool:
        effect = self._effect(thread_id, key)
        if effect is not None and nonce in effect.nonces:
            effect.done_by = ""
        return super().record(thread_id, key, nonce, result)


class OnlyTheLivingRecord(MemoryStore):
    def record(self, thread_id: str, key: str, nonce: str, result: bytes) -> bool:
        thread = self._threads.get(thread_id)
        run = thread.active_run if thread else None
        is_alive = run is not None and any(task.status is TaskStatus.CLAIMED for task in run.tasks.values())
        return is_alive and super().record(thread_id, key, nonce, result)


@dataclass(frozen=True)
class Mutant:
    """A broken store, and the tests that must tell."""

    store: Callable[..., Store]
    caught_by: tuple[str, ...]


MUTANTS = (
    Mutant(NoVersionCheck, ("test_an_advance_on_another_version_writes_nothing",)),
    Mutant(CounterInsteadOfSet, ("test_a_double_commit_does_not_release_the_join",)),
    Mutant(
        NoTokenCheck,
        (
            "test_another_token_commits_nothing",
            "test_a_fenced_attempt_commits_nothing",
            "test_another_token_advances_nothing",
            "test_another_token_does_not_renew",
        ),
    ),
    Mutant(NoAttemptCheck, ("test_a_message_that_the_store_does_not_confirm_is_refused",)),
    Mutant(EveryClaimWins, ("test_a_taken_task_is_refused", "test_a_message_sent_twice_is_claimed_once")),
    Mutant(LeaseJudgesTheCommit, ("test_a_late_commit_that_nobody_fenced_counts",)),
    Mutant(MergesInFinishOrder, ("test_the_last_commit_takes_the_advance",)),
    Mutant(ForgetsAdmissions, ("test_a_repeated_admission_is_known_and_has_the_same_dispatch",)),
    Mutant(ForgetsClaims, ("test_a_repeated_claim_is_answered_the_same",)),
    Mutant(ForgetsCommits, ("test_a_repeated_commit_is_answered_the_same",)),
    Mutant(ForgetsAdvances, ("test_a_repeated_advance_is_answered_the_same_and_writes_once",)),
    Mutant(ForgetsSettlements, ("test_a_repeated_settlement_is_answered_the_same_and_counts_once",)),
    Mutant(ForgetsEmissions, ("test_an_emission_whose_reply_was_lost_is_there_once",)),
    Mutant(
        ForgetsResumes,
        ("test_a_repeated_resume_is_answered_the_same", "test_a_repeated_answer_is_answered_the_same"),
    ),
    Mutant(AnswersCountAgain, ("test_of_twenty_concurrent_answers_one_wins", "test_an_answered_id_no_longer_waits")),
    Mutant(PausesEndAgain, ("test_a_resume_is_accepted_once", "test_of_twenty_concurrent_resumes_one_wins")),
    Mutant(CancelFencesNothing, ("test_nothing_of_a_cancelled_run_is_written",)),
    Mutant(PlansAfterAStop, ("test_a_stop_in_flight_lets_the_step_commit_and_parks_what_comes_next",)),
    Mutant(StartsTheNewestFirst, ("test_queued_runs_start_in_the_order_of_their_admission",)),
    Mutant(DeathsAreNotCounted, ("test_a_task_that_keeps_killing_its_worker_ends_the_run_as_dead",)),
    Mutant(LeasesAreLostForEver, ("test_a_task_that_loses_lease_after_lease_ends_the_run_though_its_workers_live",)),
    Mutant(TheFencedStayDead, ("test_a_worker_that_renews_after_it_was_fenced_did_not_die",)),
    Mutant(
        EveryDeathIsTakenBack,
        ("test_another_token_takes_no_death_back", "test_one_death_is_taken_back_once"),
    ),
    Mutant(SuspectsGather, ("test_a_process_that_holds_a_suspect_gets_no_other",)),
    Mutant(HandingBackKills, ("test_handing_back_counts_as_no_death_however_often",)),
    Mutant(NobodyLeaves, ("test_a_worker_that_is_killed_while_it_leaves_counts_as_no_death",)),
    Mutant(
        AdmitsAnswersAsRuns,
        (
            "test_a_call_that_became_an_answer_is_known_at_the_admission",
            "test_its_id_with_another_input_is_taken",
        ),
    ),
    Mutant(TouchesAreNotSeen, ("test_a_thread_that_was_touched_since_stays_due",)),
    Mutant(
        WatchesNobody,
        (
            "test_a_stop_starts_the_next_queued_run_and_watches_it",
            "test_a_cancel_starts_the_next_queued_run_and_watches_it",
        ),
    ),
    Mutant(LosesWhatWasCommitted, ("test_committed_updates_reach_the_advance_in_plan_order",)),
    Mutant(ForgetsReservations, ("test_a_repeated_reservation_is_granted_again",)),
    Mutant(
        FencedAttemptsReserve,
        ("test_a_fenced_attempt_reserves_nothing", "test_a_cancelled_attempt_reserves_nothing"),
    ),
    Mutant(
        AnybodyRecords,
        (
            "test_what_was_never_reserved_is_not_recorded",
            "test_a_record_brings_no_deleted_thread_back_and_counts_in_none_of_its_name",
        ),
    ),
    Mutant(TheLastRecordWins, ("test_of_two_that_made_it_the_first_to_record_wins",)),
    Mutant(
        OnlyTheLivingRecord,
        (
            "test_a_fenced_attempt_records_what_it_had_reserved",
            "test_what_was_paid_is_known_to_be_paid_after_a_cancel",
        ),
    ),
)
CASES = [pytest.param(m.store, name, id=f"{m.store.__name__}-{name}") for m in MUTANTS for name in m.caught_by]


def run_one(name: str, make: Callable[..., Store]) -> None:
    contract = StoreContract()
    contract.harness = MemoryHarness(make)
    getattr(contract, name)()


@pytest.mark.parametrize(("mutant", "name"), CASES)
def test_a_broken_store_fails_the_test_that_names_the_rule(mutant: Callable[..., Store], name: str) -> None:
    run_one(name, MemoryStore)
    with pytest.raises(AssertionError):
        run_one(name, mutant)


@pytest.mark.parametrize(
    "mutant", [CounterInsteadOfSet, NoTokenCheck, EveryClaimWins, ForgetsAdvances, ForgetsAdmissions, AnswersCountAgain]
)
def test_the_random_machine_finds_a_broken_store(mutant: Callable[..., Store]) -> None:
    class OnAMutant(StoreMachine):
        def make_harness(self) -> StoreHarness:
            return MemoryHarness(mutant)

    once = settings(max_examples=400, stateful_step_count=50, deadline=None, database=None, phases=[Phase.generate])
    with pytest.raises((AssertionError, StorageError)):  # the store itself refuses a move that no table has
        run_state_machine_as_test(OnAMutant, settings=settings(once, derandomize=True))

"""What is done outside of the graph: ``reserve``, ``renew_effect``, ``release_effect`` and ``record``."""
# ruff: noqa: D102  # the name of a test is its sentence

import secrets

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.store.base import Claim, Reservation, ReservationOutcome, TaskRef, TaskStatus
from tenxgraph.testing.contract.harness import LONG_MS, SHORT_MS, StoreMoves, at_once

GRANTED, DONE, HELD = ReservationOutcome.GRANTED, ReservationOutcome.DONE, ReservationOutcome.HELD
LOST, FENCED = ReservationOutcome.LOST, ReservationOutcome.FENCED


class EffectMoves(StoreMoves):
    """The moves of those who make effects."""

    def reserve(
        self,
        claim: Claim,
        nonce: str = "",
        *,
        key: str = "pay",
        lease_ms: int = LONG_MS,
        at_most_once: bool = False,
        token: str | None = None,
    ) -> Reservation:
        """Ask for an effect."""
        return self.store.reserve(
            claim.ref,
            claim.token if token is None else token,
            key,
            nonce or secrets.token_hex(8),
            lease_ms=lease_ms,
            at_most_once=at_most_once,
        )

    def claim_one(self, **changes: str) -> Claim:
        """Begin a run of one node and claim it."""
        (claim,) = self.begin_and_claim("a", **changes)
        return claim

    def next_attempt(self, claim: Claim) -> Claim:
        """Let an attempt fail for now and claim the next one."""
        self.retry_later(claim, 1)
        self.recover_after(2, claim.ref.thread_id)
        return self.claim(self.dispatched(claim.ref.thread_id))

    def dispatched(self, thread_id: str) -> TaskRef:
        """Name the only task of a thread's step."""
        run_id = self.thread(thread_id).active
        view = self.view(run_id)
        return TaskRef(thread_id, run_id, view.step, "0", self.task("0", run_id).attempt)


class ReserveContract(EffectMoves):
    """Whoever asks first makes it."""

    def test_who_asks_first_makes_the_effect_and_others_wait(self) -> None:
        claim = self.claim_one()
        granted, held = self.reserve(claim, "one"), self.reserve(claim, "two")
        assert (granted.outcome, held.outcome) == (GRANTED, HELD)
        assert granted.until_ms == held.until_ms > self.store.now_ms()

    def test_of_concurrent_askers_one_makes_it(self) -> None:
        claim = self.claim_one()
        answers = at_once([lambda: self.reserve(claim).outcome] * 8)
        assert sorted(answers) == [GRANTED, *[HELD] * 7]

    def test_a_repeated_reservation_is_granted_again(self) -> None:
        claim = self.claim_one()
        for at_most_once in (False, True):
            assert self.reserve(claim, "one", lease_ms=SHORT_MS, at_most_once=at_most_once).outcome is GRANTED
        self.harness.sleep_ms(SHORT_MS * 2)
        assert self.reserve(claim, "one", at_most_once=True).outcome is GRANTED
        assert self.reserve(claim, "two").outcome is HELD

    def test_effects_have_names_of_their_own_in_threads_of_their_own(self) -> None:
        one, two = self.claim_one(), self.claim_one(thread_id="t2", run_id="r2")
        assert {self.reserve(one, key=key).outcome for key in ("pay", "pay:until", "päy", "")} == {GRANTED}
        assert self.reserve(two).outcome is GRANTED

    def test_a_reservation_lengthens_the_lease_of_its_attempt(self) -> None:
        (message,) = self.begin("a")
        claim = self.claim(message, lease_ms=SHORT_MS)
        self.reserve(claim, lease_ms=LONG_MS)
        assert self.recover_after(SHORT_MS * 2).expired == ()
        self.reserve(claim, key="other", lease_ms=0)
        assert self.recover().expired == ()

    def test_only_a_living_attempt_reserves(self) -> None:
        claim = self.claim_one()
        assert self.reserve(claim, token="another").outcome is FENCED
        assert self.settle(claim, TaskStatus.RETRY_WAIT, delay_ms=LONG_MS).accepted
        assert self.reserve(claim).outcome is FENCED

    def test_a_fenced_attempt_reserves_nothing(self) -> None:
        (message,) = self.begin("a")
        claim = self.claim(message, lease_ms=SHORT_MS)
        self.recover_after(SHORT_MS * 2)
        assert self.reserve(claim, "one").outcome is FENCED
        assert not self.store.record("t1", "pay", "one", b"late")
        assert self.reserve(self.claim(self.dispatched("t1"))).outcome is GRANTED

    def test_a_fenced_attempt_that_asks_for_an_effect_did_not_die(self) -> None:
        (message,) = self.begin("a")
        claim = self.claim(message, lease_ms=SHORT_MS)
        self.recover_after(SHORT_MS * 2)
        assert self.task("0").deaths == 1
        for _ in range(2):
            self.reserve(claim)
            assert self.task("0").deaths == 0

    def test_a_cancelled_attempt_reserves_nothing(self) -> None:
        claim = self.claim_one()
        self.cancel()
        assert self.reserve(claim).outcome is FENCED

    # -- what nobody finished

    def test_a_reservation_that_nobody_renews_is_granted_to_the_next(self) -> None:
        claim = self.claim_one()
        self.reserve(claim, "one", lease_ms=SHORT_MS)
        self.harness.sleep_ms(SHORT_MS * 2)
        assert self.reserve(claim, "two").outcome is GRANTED
        assert self.reserve(claim, "three").outcome is HELD

    def test_what_may_happen_once_is_lost_when_nobody_renews_it(self) -> None:
        claim = self.claim_one()
        self.reserve(claim, "one", lease_ms=SHORT_MS)
        assert self.reserve(claim, "two", at_most_once=True).outcome is HELD
        self.harness.sleep_ms(SHORT_MS * 2)
        for _ in range(2):
            assert self.reserve(claim, "two", at_most_once=True).outcome is LOST

    def test_a_reservation_without_a_lease_is_lost_to_the_next_attempt(self) -> None:
        claim = self.claim_one()
        assert self.reserve(claim, lease_ms=0, at_most_once=True).outcome is GRANTED
        assert self.reserve(self.next_attempt(claim), lease_ms=0, at_most_once=True).outcome is LOST

    def test_a_run_that_continues_begins_anew_what_was_lost(self) -> None:
        claim = self.claim_one()
        self.reserve(claim, lease_ms=0, at_most_once=True)
        self.fail(claim)
        again = self.claim(self.go_on("r2").dispatch[0])
        assert self.reserve(again, lease_ms=0, at_most_once=True).outcome is GRANTED
        assert self.reserve(again, lease_ms=0, at_most_once=True).outcome is LOST


class RenewEffectContract(EffectMoves):
    """As long as an effect is made, nobody else makes it."""

    def test_a_renewed_reservation_lasts_longer(self) -> None:
        claim = self.claim_one()
        self.reserve(claim, "one", lease_ms=SHORT_MS)
        assert self.store.renew_effect("t1", "pay", "one", lease_ms=LONG_MS)
        self.harness.sleep_ms(SHORT_MS * 2)
        assert self.reserve(claim, "two").outcome is HELD

    def test_a_reservation_that_ran_out_is_renewed_while_nobody_took_it(self) -> None:
        claim = self.claim_one()
        self.reserve(claim, "one", lease_ms=0)
        self.harness.sleep_ms(1)
        assert self.store.renew_effect("t1", "pay", "one", lease_ms=LONG_MS)
        assert self.reserve(claim, "two").outcome is HELD

    def test_a_fenced_attempt_goes_on_renewing_what_it_makes(self) -> None:
        (message,) = self.begin("a")
        claim = self.claim(message)
        self.reserve(claim, "one", lease_ms=SHORT_MS)
        self.retry_later(claim, 1)
        assert self.store.renew_effect("t1", "pay", "one", lease_ms=LONG_MS)
        self.recover_after(SHORT_MS * 2)
        assert self.reserve(self.claim(self.dispatched("t1"))).outcome is HELD

    def test_what_is_another_s_or_done_or_unknown_is_not_renewed(self) -> None:
        claim = self.claim_one()
        self.reserve(claim, "one", lease_ms=0)
        self.harness.sleep_ms(1)
        self.reserve(claim, "two")
        assert not self.store.renew_effect("t1", "pay", "one", lease_ms=LONG_MS)
        assert not self.store.renew_effect("t1", "other", "two", lease_ms=LONG_MS)
        assert not self.store.renew_effect("t9", "pay", "two", lease_ms=LONG_MS)
        self.store.record("t1", "pay", "two", b"paid")
        assert not self.store.renew_effect("t1", "pay", "two", lease_ms=LONG_MS)

    def test_a_released_reservation_is_granted_to_the_next_at_once(self) -> None:
        claim = self.claim_one()
        self.reserve(claim, "one")
        for _ in range(2):
            assert self.store.release_effect("t1", "pay", "one")
        assert not self.store.renew_effect("t1", "pay", "one", lease_ms=LONG_MS)
        assert self.reserve(claim, "two").outcome is GRANTED

    def test_what_may_happen_once_is_lost_when_it_is_released(self) -> None:
        claim = self.claim_one()
        self.reserve(claim, "one", at_most_once=True)
        self.store.release_effect("t1", "pay", "one")
        assert self.reserve(claim, "two", at_most_once=True).outcome is LOST

    def test_what_is_another_s_or_done_or_unknown_is_not_released(self) -> None:
        claim = self.claim_one()
        self.reserve(claim, "one")
        assert not self.store.release_effect("t1", "pay", "two")
        assert not self.store.release_effect("t9", "pay", "one")
        self.store.record("t1", "pay", "one", b"paid")
        assert not self.store.release_effect("t1", "pay", "one")
        assert self.reserve(claim, "two") == Reservation(DONE, b"paid")


class RecordContract(EffectMoves):
    """What is done is known to be done."""

    def test_a_recorded_result_is_given_to_whoever_asks_later(self) -> None:
        claim = self.claim_one()
        self.reserve(claim, "one")
        assert self.store.record("t1", "pay", "one", b"paid")
        for nonce in ("one", "two"):
            assert self.reserve(claim, nonce, at_most_once=True) == Reservation(DONE, b"paid")
        assert self.reserve(self.next_attempt(claim)) == Reservation(DONE, b"paid")

    def test_a_result_outlives_its_run(self) -> None:
        claim = self.claim_one()
        self.reserve(claim, "one")
        self.store.record("t1", "pay", "one", b"paid")
        self.finish(claim)
        (again,) = self.begin_and_claim("a", run_id="r2")
        assert self.reserve(again) == Reservation(DONE, b"paid")

    def test_a_result_may_be_any_bytes(self) -> None:
        claim = self.claim_one()
        for number, result in enumerate((b"", b"\x00\xff\n", b"=", b"x" * 100_000)):
            self.reserve(claim, "one", key=f"e{number}")
            assert self.store.record("t1", f"e{number}", "one", result)
            assert self.reserve(claim, key=f"e{number}") == Reservation(DONE, result)

    def test_a_repeated_record_is_answered_the_same_and_the_first_counts(self) -> None:
        claim = self.claim_one()
        self.reserve(claim, "one")
        for result in (b"first", b"second"):
            assert self.store.record("t1", "pay", "one", result)
        assert self.reserve(claim).result == b"first"

    def test_of_two_that_made_it_the_first_to_record_wins(self) -> None:
        claim = self.claim_one()
        for nonce in ("one", "two"):
            self.reserve(claim, nonce, lease_ms=0)
            self.harness.sleep_ms(1)
        assert self.store.record("t1", "pay", "one", b"of one")
        assert not self.store.record("t1", "pay", "two", b"of two")
        assert self.reserve(claim).result == b"of one"

    def test_a_fenced_attempt_records_what_it_had_reserved(self) -> None:
        (message,) = self.begin("a")
        claim = self.claim(message, lease_ms=SHORT_MS)
        self.reserve(claim, "one", lease_ms=SHORT_MS)
        self.recover_after(SHORT_MS * 2)
        assert self.store.record("t1", "pay", "one", b"paid")
        assert self.reserve(self.claim(self.dispatched("t1"))) == Reservation(DONE, b"paid")

    def test_what_was_paid_is_known_to_be_paid_after_a_cancel(self) -> None:
        claim = self.claim_one()
        self.reserve(claim, "one")
        self.cancel()
        assert self.store.record("t1", "pay", "one", b"paid")
        (again,) = self.begin_and_claim("a", run_id="r2")
        assert self.reserve(again) == Reservation(DONE, b"paid")
        assert self.status() is RunStatus.CANCELLED

    def test_what_was_never_reserved_is_not_recorded(self) -> None:
        claim = self.claim_one()
        self.reserve(claim, "one")
        assert not self.store.record("t1", "pay", "on", b"x")
        assert not self.store.record("t1", "other", "one", b"x")
        assert not self.store.record("t9", "pay", "one", b"x")
        assert self.store.thread("t9") is None
        assert self.reserve(claim).outcome is HELD

    def test_a_record_brings_no_deleted_thread_back_and_counts_in_none_of_its_name(self) -> None:
        claim = self.claim_one()
        self.reserve(claim, "one")
        self.cancel()
        assert self.store.delete_thread("t1")
        assert not self.store.record("t1", "pay", "one", b"late")
        assert not self.store.renew_effect("t1", "pay", "one", lease_ms=LONG_MS)
        assert not self.store.release_effect("t1", "pay", "one")
        assert self.store.thread("t1") is None
        again = self.claim_one()
        assert self.reserve(again, "two").outcome is GRANTED
        assert not self.store.record("t1", "pay", "one", b"late")

    def test_a_deleted_thread_takes_its_results_along(self) -> None:
        claim = self.claim_one()
        self.reserve(claim, "one")
        self.store.record("t1", "pay", "one", b"paid")
        self.finish(claim)
        assert self.store.delete_thread("t1")
        assert self.reserve(self.claim_one()).outcome is GRANTED


class MediaContract(EffectMoves):
    """Data that messages refer to."""

    def test_data_is_kept_under_its_id_once(self) -> None:
        claim = self.claim_one()
        every = bytes(range(256))
        assert self.store.put_media(claim.ref, claim.token, "sha256:a", every)
        assert self.store.put_media(claim.ref, claim.token, "sha256:a", every)
        assert self.store.put_media(claim.ref, claim.token, "sha256:b", b"")
        assert self.store.media("t1", "sha256:a") == every
        assert self.store.media("t1", "sha256:b") == b""

    def test_what_is_not_kept_is_told_apart(self) -> None:
        claim = self.claim_one()
        self.store.put_media(claim.ref, claim.token, "sha256:a", b"data")
        assert self.store.media("t1", "sha256:c") is None
        assert self.store.media("t2", "sha256:a") is None

    def test_a_fenced_attempt_keeps_nothing(self) -> None:
        claim = self.claim_one()
        assert not self.store.put_media(claim.ref, "another token", "sha256:a", b"data")
        self.next_attempt(claim)
        assert not self.store.put_media(claim.ref, claim.token, "sha256:a", b"data")
        assert self.store.media("t1", "sha256:a") is None

    def test_it_goes_with_its_thread(self) -> None:
        claim = self.claim_one()
        self.store.put_media(claim.ref, claim.token, "sha256:a", b"data")
        self.advance(claim, status=RunStatus.COMPLETED)
        assert self.store.delete_thread("t1")
        assert self.store.media("t1", "sha256:a") is None
        assert not self.store.put_media(claim.ref, claim.token, "sha256:a", b"data")
        assert self.store.media("t1", "sha256:a") is None

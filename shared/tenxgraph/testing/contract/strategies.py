"""A thread has one active run, and each run says what it does about it: the table of multitask.py, row by row."""
# ruff: noqa: D102  # the name of a test is its sentence

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from tenxgraph.core.graph.multitask import VERDICTS, MultitaskStrategy, Occupancy, ThreadInput, Verdict
from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.image import Patch
from tenxgraph.store.base import (
    Admission,
    AdmissionOutcome,
    Claim,
    Dispatch,
    InputKind,
    Interrupt,
    RecoveryRules,
    Reservation,
    ReservationOutcome,
    Resume,
    Resumed,
    TaskRef,
    TaskStatus,
)
from tenxgraph.testing.contract.harness import LONG_MS, RULES, SHORT_MS, StoreMoves, at_once
from tenxgraph.testing.contract.reading import contents

_REFUSED = {
    Verdict.ANSWER: AdmissionOutcome.WAITING,
    Verdict.UNANSWERED: AdmissionOutcome.WAITING,
    Verdict.BUSY: AdmissionOutcome.BUSY,
    Verdict.NOTHING: AdmissionOutcome.NOTHING_TO_CONTINUE,
}
_BEFORE = ({"topic": b"old"}, {"context": [b"0"]})
_SAID = Patch({"topic": b"new", "mood": b"good"}, {"context": (b"1",), "notes": (b"n",)})


@dataclass(frozen=True)
class Scene:
    """A thread that an input finds: ``r1`` has it, ``q1`` is queued behind, ``r0`` wrote before.

    Attributes:
        t: Thread id, and the prefix of its run ids.
        claim: A claim of ``r1`` that is held.
    """

    t: str
    claim: Claim | None = None

    def __call__(self, run: str) -> str:
        return f"{self.t}-{run}"


class StrategyContract(StoreMoves):
    """``enqueue``, ``reject``, ``interrupt``, ``rollback``."""

    # -- scenes

    def _before(self, t: str) -> None:
        self.finish(self.start(f"{t}-r0", t), patch=Patch({"topic": b"old"}, {"context": (b"0",)}))

    def _free(self, t: str) -> Scene:
        self._before(t)
        return Scene(t)

    def _continuable(self, t: str) -> Scene:
        self._before(t)
        self.fail(self.start(f"{t}-rf", t))
        return Scene(t)

    def _begun(self, t: str, *nodes: str) -> Scene:
        """A run whose start has written something, and one behind it; the tasks of its step are ready."""
        self._before(t)
        claim = self.start(f"{t}-r1", t)
        self.admit(f"{t}-q1", t)
        self.advance(claim, *nodes, patch=_SAID)
        return Scene(t)

    def _claimed(self, t: str, *nodes: str) -> Scene:
        scene = self._begun(t, *(nodes or ("a",)))
        return replace(scene, claim=self.claim(self._ref(scene, "0")))

    def _ref(self, scene: Scene, task: str) -> TaskRef:
        view = self.view(scene("r1"))
        return TaskRef(scene.t, view.run_id, view.step, task, self.task(task, view.run_id).attempt)

    def _queued(self, t: str) -> Scene:
        self._before(t)
        self.admit(f"{t}-r1", t)
        self.admit(f"{t}-q1", t)
        return Scene(t)

    def _ready(self, t: str) -> Scene:
        return self._begun(t, "a")

    def _in_retry_wait(self, t: str) -> Scene:
        scene = self._claimed(t)
        assert scene.claim is not None
        self.retry_later(scene.claim, LONG_MS)
        return Scene(t)

    def _half_done(self, t: str) -> Scene:
        scene = self._claimed(t, "a", "b")
        assert scene.claim is not None
        self.commit(scene.claim)
        return replace(scene, claim=self.claim(self._ref(scene, "1")))

    def _stopping(self, t: str) -> Scene:
        scene = self._claimed(t)
        self.stop(scene("r1"), t)
        return scene

    def _paused(self, t: str) -> Scene:
        self._before(t)
        claim = self.start(f"{t}-r1", t)
        self.admit(f"{t}-q1", t)
        self.advance(claim, "a", patch=_SAID, status=RunStatus.WAITING, wait="before")
        return Scene(t)

    def _asking(self, t: str) -> Scene:
        scene = self._claimed(t)
        assert scene.claim is not None
        asked = (Interrupt(f"{t}-i1", "0", b"what?"),)
        self.settle(scene.claim, TaskStatus.WAITING, interrupts=asked)
        return Scene(t)

    def _scenes(self) -> Iterator[tuple[Occupancy, Callable[[str], Scene]]]:
        yield Occupancy.FREE, self._free
        yield Occupancy.CONTINUABLE, self._continuable
        yield Occupancy.QUEUED, self._queued
        for running in (self._claimed, self._ready, self._in_retry_wait, self._half_done):
            yield Occupancy.RUNNING, running
        yield Occupancy.STOPPING, self._stopping
        yield Occupancy.PAUSE, self._paused
        yield Occupancy.QUESTION, self._asking

    # -- the rows

    def check_rows_of(self, given: ThreadInput) -> None:
        """Bring the input to every scene under every strategy; what comes of it must be the table's verdict."""
        for place, (occupancy, make) in enumerate(self._scenes()):
            for strategy in MultitaskStrategy:
                scene = make(f"t{place}{strategy}")
                verdict = VERDICTS[given, occupancy, strategy]
                before = self._picture(scene)
                answer = self._bring(scene, given, strategy)
                row = (given, occupancy, strategy, verdict, answer)
                if isinstance(answer, Resumed):
                    assert answer.accepted is (verdict is Verdict.ANSWER), row
                elif verdict in _REFUSED:
                    assert answer.outcome is _REFUSED[verdict], row
                    assert self.store.run(scene("r2")) is None, row
                    assert self._picture(scene) == before, row
                else:
                    self._check_taken_in(scene, verdict, answer)

    def _bring(self, scene: Scene, given: ThreadInput, strategy: str) -> Admission | Resumed:
        if given is ThreadInput.RESUME:
            view = self.store.run(scene("r1"))
            asks = view is not None and bool(view.interrupts)
            answers = {f"{scene.t}-i1": b"yes"} if asks else {}
            return self.store.resume(Resume(scene.t, scene("r1"), f"{scene.t}-resume", answers))
        kind = InputKind(given.removeprefix("late_"))
        late = given.startswith("late_")
        answer = self.admit(scene("r2"), scene.t, kind=kind, strategy=strategy, delay_ms=2 if late else 0)
        if late:
            assert answer == Admission(AdmissionOutcome.QUEUED)
            self.recover_after(4, scene.t)
        return answer

    def _picture(self, scene: Scene) -> object:
        views = self.store.runs(scene.t)
        told = [self.bodies(view.run_id, scene.t) for view in views]
        return views, told, self.thread(scene.t), self.store.image(scene.t)

    def _check_taken_in(self, scene: Scene, verdict: Verdict, answer: Admission) -> None:
        new = self.view(scene("r2"))
        is_late = answer.outcome is AdmissionOutcome.QUEUED and verdict is not Verdict.QUEUE
        if verdict is Verdict.START:
            assert self.thread(scene.t).active == new.run_id
            assert answer.outcome is AdmissionOutcome.STARTED or is_late
        elif verdict is Verdict.QUEUE:
            assert self.thread(scene.t).inbox == (scene("q1"), new.run_id)
            assert new.status is RunStatus.QUEUED
        elif verdict is Verdict.REJECT:
            assert (new.status, new.reason) == (RunStatus.CANCELLED, f"rejected: run {scene('r1')} was active")
            assert self.thread(scene.t).inbox == (scene("q1"),)
        elif verdict is Verdict.FAIL:
            assert (new.status, new.reason) == (RunStatus.FAILED, "nothing to continue")
        else:
            self._check_superseded(scene, verdict)

    def _check_superseded(self, scene: Scene, verdict: Verdict) -> None:
        by = scene("r2")
        queued, old = self.view(scene("q1")), self.view(scene("r1"))
        assert (queued.status, queued.reason) == (RunStatus.CANCELLED, f"superseded by {by}")
        if verdict is Verdict.STOP and scene.claim is not None:
            assert (old.status, self.thread(scene.t).inbox) == (RunStatus.STOPPING, (by,))
            assert [message.ref.run_id for message in self._finish_step(scene.claim)] == [by]
            old = self.view(scene("r1"))
        ends = {
            Verdict.STOP: (RunStatus.STOPPED, f"superseded by {by}"),
            Verdict.REPLACE: (RunStatus.CANCELLED, f"superseded by {by}"),
            Verdict.UNDO: (RunStatus.CANCELLED, f"rolled back by {by}"),
        }
        assert (old.status, old.reason) == ends[verdict]
        assert (self.thread(scene.t).active, self.thread(scene.t).inbox) == (by, ())
        assert self.thread(scene.t).version.number >= old.version
        kept = contents(self.store.image(scene.t))
        has_written = old.version > 1
        assert (kept == _BEFORE) is (verdict is Verdict.UNDO or not has_written)
        if scene.claim is not None:
            assert not self.commit(scene.claim, b"late", b"late").accepted or verdict is Verdict.STOP
        assert self.claim(TaskRef(scene.t, by, 0, "plan", 1)).run.status is RunStatus.RUNNING

    def _finish_step(self, claim: Claim) -> tuple[Dispatch, ...]:
        if claim.alone:
            return self.advance(claim, "b", patch=Patch({"topic": b"newer"})).dispatch
        plan = self.commit(claim).plan
        assert plan is not None
        return self.advance(plan, "c", patch=Patch({"topic": b"newer"})).dispatch

    def test_a_message_meets_every_occupancy_as_the_table_says(self) -> None:
        self.check_rows_of(ThreadInput.MESSAGE)

    def test_a_continuation_meets_every_occupancy_as_the_table_says(self) -> None:
        self.check_rows_of(ThreadInput.CONTINUE)

    def test_an_answer_meets_every_occupancy_as_the_table_says(self) -> None:
        self.check_rows_of(ThreadInput.RESUME)

    def test_a_delayed_message_is_judged_by_the_table_when_its_moment_has_come(self) -> None:
        self.check_rows_of(ThreadInput.LATE_MESSAGE)

    def test_a_delayed_continuation_is_judged_by_the_table_when_its_moment_has_come(self) -> None:
        self.check_rows_of(ThreadInput.LATE_CONTINUE)

    # -- what else must hold

    def test_a_rollback_is_a_new_version_with_the_old_contents(self) -> None:
        scene = self._claimed("t1")
        before = self.thread().version
        self.admit("r2", strategy="rollback", nonce="undo")
        after = self.thread().version
        assert (after.number, after.nonce) == (before.number + 1, "undo")
        assert contents(self.store.image("t1")) == _BEFORE
        assert contents(self.store.image("t1", before.number))[0]["mood"] == b"good"
        point = self.store.checkpoint("t1")
        assert point is not None
        assert (point.run_id, point.status, point.meta) == (scene("r1"), RunStatus.CANCELLED, b"")

    def test_a_run_that_wrote_nothing_is_rolled_back_without_a_version(self) -> None:
        self._queued("t1")
        before = self.thread().version
        self.admit("r2", strategy="rollback")
        assert self.thread().version == before

    def test_what_a_new_run_writes_after_a_rollback_reads_back_equal(self) -> None:
        self._claimed("t1")
        (message,) = self.admit("r2", strategy="rollback").dispatch
        self.finish(self.claim(message), patch=Patch({"mood": b"calm"}, {"context": (b"2",), "notes": (b"m",)}))
        now = ({"topic": b"old", "mood": b"calm"}, {"context": [b"0", b"2"], "notes": [b"m"]})
        assert contents(self.store.image("t1")) == now
        assert contents(self.store.image("t1", self.thread().version.number)) == now
        assert contents(self.store.image("t1", 2))[1]["notes"] == [b"n"]

    def test_nothing_of_a_run_that_was_rolled_back_is_written(self) -> None:
        claim = self._claimed("t1").claim
        assert claim is not None
        self.admit("r2", strategy="rollback")
        before = self.view("t1-r1"), self.bodies("t1-r1"), self.thread(), self.store.image("t1")
        assert not self.commit(claim, events=b"late").accepted
        assert not self.advance(claim, "b", patch=_SAID).accepted
        assert not self.fail(claim).accepted
        assert not self.store.renew(claim.ref, claim.token, lease_ms=LONG_MS).alive
        assert (self.view("t1-r1"), self.bodies("t1-r1"), self.thread(), self.store.image("t1")) == before
        assert before[1][-1] == b'{"event":"run_end","step":1,"data":{"status":"cancelled"}}'

    def _reserve(self, claim: Claim) -> Reservation:
        nonce = f"by {claim.ref.run_id}"
        return self.store.reserve(claim.ref, claim.token, "pay", nonce, lease_ms=LONG_MS, at_most_once=True)

    def test_an_effect_of_a_run_that_was_rolled_back_stays_paid(self) -> None:
        claim = self._claimed("t1").claim
        assert claim is not None
        assert self._reserve(claim).outcome is ReservationOutcome.GRANTED
        (message,) = self.admit("r2", strategy="rollback").dispatch
        assert self.store.record("t1", "pay", "by t1-r1", b"paid")
        again = self._reserve(self.claim(message))
        assert (again.outcome, again.result) == (ReservationOutcome.DONE, b"paid")

    def test_a_repeat_of_an_admission_supersedes_once(self) -> None:
        for strategy in ("interrupt", "rollback"):
            scene = self._ready(strategy)
            first = self.admit(scene("r2"), scene.t, strategy=strategy)
            before = self._picture(scene)
            second = self.admit(scene("r2"), scene.t, strategy=strategy)
            assert (second.outcome, second.dispatch) == (AdmissionOutcome.KNOWN, first.dispatch)
            assert self._picture(scene) == before

    def test_the_newest_of_two_that_supersede_a_stopping_run_comes_next(self) -> None:
        claim = self._claimed("t1").claim
        assert claim is not None
        self.admit("r2", strategy="interrupt")
        self.admit("r3", strategy="interrupt")
        assert (self.status("r2"), self.view("r2").reason) == (RunStatus.CANCELLED, "superseded by r3")
        assert [message.ref.run_id for message in self.advance(claim, "b").dispatch] == ["r3"]
        assert self.view("t1-r1").reason == "superseded by r3"

    def test_a_rollback_also_undoes_a_run_that_stops_for_another(self) -> None:
        claim = self._claimed("t1").claim
        assert claim is not None
        self.admit("r2", strategy="interrupt")
        assert self.admit("r3", strategy="rollback").outcome is AdmissionOutcome.STARTED
        assert (self.view("r2").reason, self.view("t1-r1").reason) == ("superseded by r3", "rolled back by r3")
        assert not self.advance(claim, "b").accepted
        assert contents(self.store.image("t1")) == _BEFORE

    def test_a_superseding_run_starts_when_the_old_owner_died(self) -> None:
        self._begun("t1", "a")
        self.claim(TaskRef("t1", "t1-r1", 1, "0", 1), lease_ms=SHORT_MS)
        assert self.admit("r2", strategy="interrupt").outcome is AdmissionOutcome.QUEUED
        recovery = self.recover_after(SHORT_MS * 2, rules=RecoveryRules(LONG_MS, RULES.max_deliveries))
        assert [message.ref.run_id for message in recovery.dispatch] == ["r2"]
        assert (self.status("t1-r1"), self.thread().active) == (RunStatus.STOPPED, "r2")

    def test_a_superseding_run_starts_when_the_old_one_fails_in_its_last_step(self) -> None:
        claim = self._claimed("t1").claim
        assert claim is not None
        self.admit("r2", strategy="interrupt")
        assert [message.ref.run_id for message in self.fail(claim).dispatch] == ["r2"]
        assert (self.status("t1-r1"), self.view("t1-r1").reason) == (RunStatus.FAILED, "")

    def test_a_continuation_that_is_rolled_back_leaves_what_it_continued(self) -> None:
        self.fail(self.claim(self.begin("a")[0]))
        claim = self.claim(self.go_on("r2").dispatch[0])
        self.advance(claim, "b", patch=_SAID)
        self.admit("r3", strategy="rollback")
        assert contents(self.store.image("t1")) == ({}, {})
        assert (self.status("r1"), self.status("r2")) == (RunStatus.FAILED, RunStatus.CANCELLED)

    def test_a_superseding_run_is_watched(self) -> None:
        self._paused("t1")
        self.forget()
        self.admit("r2", strategy="interrupt")
        self.wait_for_due()

    def test_of_concurrent_runs_that_supersede_one_is_left(self) -> None:
        for strategy in ("interrupt", "rollback"):
            admits = [partial(self.admit, f"{strategy}{i}", strategy, strategy=strategy) for i in range(8)]
            at_once(admits)
            ends = [self.status(f"{strategy}{i}") for i in range(8)]
            assert sorted(ends) == [RunStatus.CANCELLED] * 7 + [RunStatus.QUEUED]
            left = self.thread(strategy)
            assert (left.active, left.inbox) == (f"{strategy}{ends.index(RunStatus.QUEUED)}", ())

    def test_a_run_id_is_taken_in_once_under_any_strategy_from_twenty_at_once(self) -> None:
        for strategy in MultitaskStrategy:
            scene = self._claimed(strategy)
            answers = at_once([partial(self.admit, scene("r2"), scene.t, strategy=strategy)] * 20)
            outcomes = {answer.outcome for answer in answers}
            if strategy is MultitaskStrategy.REJECT:
                assert outcomes == {AdmissionOutcome.BUSY}
                continue
            assert [answer.outcome for answer in answers].count(AdmissionOutcome.KNOWN) == 19
            assert len([view for view in self.store.runs(scene.t) if view.run_id == scene("r2")]) == 1

    def test_a_run_id_is_free_again_once_its_thread_is_deleted(self) -> None:
        for strategy in MultitaskStrategy:
            self.finish(self.start("again", strategy, strategy=strategy))
            assert self.admit("again", strategy, strategy=strategy).outcome is AdmissionOutcome.KNOWN
            assert self.store.delete_thread(strategy)
            self.finish(self.start("again", strategy, strategy=strategy))
            assert self.store.delete_thread(strategy)

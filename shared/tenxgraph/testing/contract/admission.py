"""Runs come in."""
# ruff: noqa: D102  # the name of a test is its sentence

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.image import Version
from tenxgraph.store.base import AdmissionOutcome, Dispatch, InputKind, TaskRef, TaskSpec, TaskStatus
from tenxgraph.testing.contract.harness import LONG_MS, SHORT_MS, StoreMoves, a_run, at_once


class AdmissionContract(StoreMoves):
    """``admit``: start, queue, repeat, refuse, delay, continue."""

    def test_a_message_on_a_fresh_thread_starts_a_run(self) -> None:
        admission = self.admit()
        assert admission.outcome is AdmissionOutcome.STARTED
        assert admission.dispatch[0].ref == TaskRef("t1", "r1", 0, "plan", 1)
        assert (self.thread().active, self.status()) == ("r1", RunStatus.QUEUED)

    def test_the_dispatch_says_where_the_message_goes(self) -> None:
        admission = self.admit(start=TaskSpec("plan", "start", queue="slow", priority=7))
        ref = TaskRef("t1", "r1", 0, "plan", 1)
        assert admission.dispatch == (Dispatch(ref, "start", "slow", 7, "graph", "v1", Version.ZERO),)

    def test_an_admitted_run_keeps_its_request_and_input(self) -> None:
        self.admit(request=b'{"a": []}', input=bytes(range(256)))
        view = self.view()
        assert (view.request, view.input) == (b'{"a": []}', bytes(range(256)))
        assert (view.thread_id, view.graph, view.graph_version, view.user_id) == ("t1", "graph", "v1", "anna")
        assert (view.step, view.first_step, view.version, view.origin, view.continues) == (0, 0, 0, "r1", "")

    def test_the_events_of_an_admission_are_written_when_the_run_starts(self) -> None:
        self.admit("r1", events=b"first")
        self.admit("r2", events=b"second")
        assert (self.bodies("r1"), self.bodies("r2")) == ([b"first"], [])
        self.cancel("r1")
        assert self.bodies("r2") == [b"second"]

    def test_any_thread_id_is_allowed(self) -> None:
        for number, thread_id in enumerate(("a}b{", "ä {x}:y", "%7B", "a b/c", "*")):
            claim = self.start(f"r{number}", thread_id)
            self.finish(claim)
            view = self.view(f"r{number}")
            assert (view.thread_id, view.status) == (thread_id, RunStatus.COMPLETED)
        assert len(self.store.threads(limit=10)) == 5

    # -- one active run

    def test_a_second_message_waits_behind_the_active_run(self) -> None:
        self.admit("r1")
        admission = self.admit("r2")
        assert (admission.outcome, admission.dispatch) == (AdmissionOutcome.QUEUED, ())
        assert (self.thread().active, self.thread().inbox) == ("r1", ("r2",))
        assert self.status("r2") is RunStatus.QUEUED

    def test_of_concurrent_admissions_one_run_is_active(self) -> None:
        answers = at_once([lambda i=i: self.admit(f"r{i}") for i in range(8)])  # type: ignore[misc]  # i=i binds now
        outcomes = [answer.outcome for answer in answers]
        assert outcomes.count(AdmissionOutcome.STARTED) == 1
        assert outcomes.count(AdmissionOutcome.QUEUED) == 7
        assert len(self.thread().inbox) == 7

    def test_reject_refuses_a_busy_thread_and_names_the_run(self) -> None:
        self.admit("r1")
        admission = self.admit("r2", strategy="reject")
        assert (admission.outcome, admission.holder) == (AdmissionOutcome.BUSY, "r1")
        assert self.store.run("r2") is None

    def test_reject_takes_a_free_thread(self) -> None:
        self.finish(self.start("r1"))
        assert self.admit("r2", strategy="reject").outcome is AdmissionOutcome.STARTED

    def test_a_message_to_a_waiting_thread_is_told_so(self) -> None:
        self.pause("a")
        admission = self.admit("r2")
        assert (admission.outcome, admission.holder) == (AdmissionOutcome.WAITING, "r1")
        assert self.store.run("r2") is None

    def test_another_users_thread_is_refused_naming_the_owner(self) -> None:
        self.admit("r1")
        admission = self.admit("r2", user_id="bert")
        assert (admission.outcome, admission.holder) == (AdmissionOutcome.OTHER_OWNER, "anna")
        assert self.store.run("r2") is None

    def test_a_thread_of_another_graph_is_refused_naming_it(self) -> None:
        self.admit("r1")
        admission = self.admit("r2", graph="other")
        assert (admission.outcome, admission.holder) == (AdmissionOutcome.OTHER_GRAPH, "graph")

    # -- repeats

    def test_a_repeated_admission_is_known_and_has_the_same_dispatch(self) -> None:
        first, second = self.admit(), self.admit()
        assert (second.outcome, second.dispatch) == (AdmissionOutcome.KNOWN, first.dispatch)
        assert len(self.store.runs("t1")) == 1

    def test_concurrent_admissions_of_one_run_start_it_once(self) -> None:
        outcomes = [answer.outcome for answer in at_once([self.admit] * 8)]
        assert sorted(outcomes) == [AdmissionOutcome.KNOWN] * 7 + [AdmissionOutcome.STARTED]
        assert self.thread().inbox == ()

    def test_a_repeated_admission_of_a_queued_run_dispatches_nothing(self) -> None:
        self.admit("r1")
        self.admit("r2")
        second = self.admit("r2")
        assert (second.outcome, second.dispatch) == (AdmissionOutcome.KNOWN, ())
        assert self.thread().inbox == ("r2",)

    def test_a_repeated_admission_of_an_ended_run_runs_nothing(self) -> None:
        self.finish(self.start())
        second = self.admit()
        assert (second.outcome, second.dispatch) == (AdmissionOutcome.KNOWN, ())
        assert (self.status(), self.thread().active) == (RunStatus.COMPLETED, "")

    def test_a_repeat_is_known_even_where_a_new_run_would_be_refused(self) -> None:
        self.pause("a", strategy="reject")
        assert self.admit(strategy="reject").outcome is AdmissionOutcome.KNOWN

    def test_a_run_id_with_another_input_is_taken(self) -> None:
        self.admit()
        second = self.admit(digest="another")
        assert (second.outcome, second.holder, second.dispatch) == (AdmissionOutcome.RUN_ID_TAKEN, "t1", ())

    def test_a_run_id_of_another_thread_is_taken(self) -> None:
        self.admit("r1", "t1")
        second = self.admit("r1", "t2", digest=a_run("r1").digest)
        assert (second.outcome, second.holder) == (AdmissionOutcome.RUN_ID_TAKEN, "t1")
        assert self.store.thread("t2") is None

    # -- continue

    def test_a_fresh_thread_has_nothing_to_continue(self) -> None:
        assert self.go_on("r1").outcome is AdmissionOutcome.NOTHING_TO_CONTINUE
        assert self.store.thread("t1") is None

    def test_a_completed_run_has_nothing_to_continue(self) -> None:
        self.finish(self.start())
        assert self.go_on("r2").outcome is AdmissionOutcome.NOTHING_TO_CONTINUE

    def test_an_active_run_is_not_continued(self) -> None:
        self.start()
        admission = self.go_on("r2")
        assert (admission.outcome, admission.holder) == (AdmissionOutcome.BUSY, "r1")

    def test_a_waiting_run_is_resumed_rather_than_continued(self) -> None:
        self.pause("a")
        assert self.go_on("r2").outcome is AdmissionOutcome.WAITING

    # -- later

    def test_a_delayed_run_starts_when_its_time_has_come(self) -> None:
        assert self.admit(delay_ms=SHORT_MS).outcome is AdmissionOutcome.QUEUED
        assert (self.thread().active, self.thread().inbox) == ("", ("r1",))
        due = self.wait_for_due()
        recovery = self.recover(due.thread_id)
        assert [message.ref for message in recovery.dispatch] == [TaskRef("t1", "r1", 0, "plan", 1)]
        assert self.thread().active == "r1"

    def test_a_delayed_run_is_left_alone_before_its_time(self) -> None:
        self.admit(delay_ms=LONG_MS)
        recovery = self.recover()
        assert recovery.dispatch == ()
        assert recovery.next_due_ms is not None
        assert recovery.next_due_ms > self.store.now_ms()
        assert self.store.due(10) == []

    def test_delayed_runs_start_in_the_order_of_their_times(self) -> None:
        self.admit("late", delay_ms=SHORT_MS * 2)
        self.admit("soon", delay_ms=SHORT_MS)
        self.recover_after(SHORT_MS * 3)
        assert (self.thread().active, self.thread().inbox) == ("soon", ("late",))

    def test_a_delayed_run_queues_behind_the_active_one(self) -> None:
        self.start("r1")
        self.admit("r2", delay_ms=SHORT_MS)
        assert self.recover_after(SHORT_MS * 2).dispatch == ()
        assert (self.thread().active, self.thread().inbox) == ("r1", ("r2",))

    def test_a_delay_does_not_hold_up_other_runs(self) -> None:
        self.admit("r1", delay_ms=LONG_MS)
        assert self.admit("r2").outcome is AdmissionOutcome.STARTED

    def test_a_delayed_run_may_wait_for_a_thread_that_waits_for_a_person(self) -> None:
        self.pause("a")
        assert self.admit("r2", delay_ms=SHORT_MS).outcome is AdmissionOutcome.QUEUED
        self.recover_after(SHORT_MS * 2)
        assert self.stop("r1").dispatch[0].ref.run_id == "r2"

    def test_a_delayed_continuation_that_finds_nothing_left_fails_visibly(self) -> None:
        self.fail(self.start("r1"))
        self.go_on("r2", delay_ms=SHORT_MS)
        self.finish(self.start("r3"))
        self.admit("r4", delay_ms=SHORT_MS)
        recovery = self.recover_after(SHORT_MS * 3)
        assert self.status("r2") is RunStatus.FAILED
        assert [message.ref.run_id for message in recovery.dispatch] == ["r4"]

    def test_a_delayed_continuation_continues(self) -> None:
        self.fail(self.start("r1"))
        assert self.admit("r2", kind=InputKind.CONTINUE, delay_ms=SHORT_MS).outcome is AdmissionOutcome.QUEUED
        recovery = self.recover_after(SHORT_MS * 2)
        assert [message.ref for message in recovery.dispatch] == [TaskRef("t1", "r2", 0, "plan", 1)]
        assert self.task_statuses("r2") == {"plan": TaskStatus.QUEUED}

    def test_an_admitted_run_is_watched(self) -> None:
        self.admit()
        assert self.wait_for_due().thread_id == "t1"

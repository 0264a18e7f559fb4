"""Versions that no step writes: forks and edits, and runs that go on from a checkpoint."""
# ruff: noqa: D102  # the name of a test is its sentence

from dataclasses import replace
from typing import Any

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.image import Patch, Version
from tenxgraph.store.base import AdmissionOutcome, Checkpoint, Claim, Edit, Edited, EditOutcome, NewThread, TaskStatus
from tenxgraph.testing.contract.harness import StoreMoves, at_once, node_specs
from tenxgraph.testing.contract.reading import contents

_PATCH = Patch({"topic": b"1"}, {"context": (b"1", b"2")})


def a_fork(thread_id: str = "t2", **changes: Any) -> NewThread:
    """Return a thread that begins before a node."""
    fork = NewThread(thread_id, "graph", "v1", "anna", "fork", _PATCH, 3, RunStatus.STOPPED, b"meta")
    return replace(fork, **{"tasks": node_specs(["b", "c"]), "plan": b"plan", **changes})


class CheckpointContract(StoreMoves):
    """What a checkpoint says of what comes next."""

    def newest(self, thread_id: str = "t1") -> Checkpoint:
        """Return the newest checkpoint."""
        point = self.store.checkpoint(thread_id)
        assert point is not None
        return point

    def test_a_checkpoint_keeps_what_comes_next(self) -> None:
        self.advance(self.start(), "a", "b", plan=b"12:pl\nan")
        point = self.newest()
        assert (point.tasks, point.plan, point.wait) == (node_specs(["a", "b"]), b"12:pl\nan", "")

    def test_a_checkpoint_keeps_why_its_run_pauses(self) -> None:
        self.pause("a")
        assert (self.newest().tasks, self.newest().wait) == (node_specs(["a"]), "before")

    def test_at_a_runs_end_nothing_comes_next(self) -> None:
        self.finish(self.start())
        assert self.newest().tasks == ()


class ForkContract(CheckpointContract):
    """Threads that begin with a state."""

    def test_a_fork_has_the_state_and_what_comes_next(self) -> None:
        assert self.store.fork(a_fork())
        assert contents(self.store.image("t2")) == ({"topic": b"1"}, {"context": [b"1", b"2"]})
        point, thread = self.newest("t2"), self.thread("t2")
        assert (point.version, point.run_id, point.step, point.tasks) == (
            Version(1, "fork"),
            "",
            3,
            node_specs(["b", "c"]),
        )
        assert (thread.graph, thread.user_id, thread.active, thread.is_ready) == ("graph", "anna", "", True)
        assert [view.thread_id for view in self.store.threads(limit=9)] == ["t2"]

    def test_a_thread_that_is_there_is_not_forked_over(self) -> None:
        self.finish(self.start(thread_id="t2"), patch=Patch({"topic": b"old"}))
        assert not self.store.fork(a_fork())
        assert contents(self.store.image("t2")) == ({"topic": b"old"}, {})

    def test_a_repeated_fork_has_the_same_answer_also_when_the_thread_went_on(self) -> None:
        assert self.store.fork(a_fork())
        self.go_on("r2", "t2")
        assert self.store.fork(a_fork())
        assert not self.store.fork(a_fork(nonce="another"))

    def test_of_two_forks_to_one_thread_one_wins(self) -> None:
        forks = [a_fork(nonce=f"fork {number}") for number in range(4)]
        answers = at_once([lambda fork=fork: self.store.fork(fork) for fork in forks])  # type: ignore[misc]
        assert sorted(answers) == [False, False, False, True]

    def test_a_continuation_runs_what_comes_next_in_a_fork(self) -> None:
        self.store.fork(a_fork())
        started = self.go_on("r2", "t2")
        assert started.outcome is AdmissionOutcome.STARTED
        assert [(sent.node, sent.ref.step, sent.ref.attempt) for sent in started.dispatch] == [("b", 3, 1), ("c", 3, 1)]
        claim = self.claim(started.dispatch[0])
        assert (claim.run.plan, claim.run.first_step, claim.run.origin, claim.spec.body) == (
            b"plan",
            3,
            "r2",
            b"body of b",
        )
        assert contents(claim.image) == ({"topic": b"1"}, {"context": [b"1", b"2"]})
        assert not self.thread("t2").is_ready

    def test_a_continuation_of_a_fork_without_tasks_chooses_its_routes(self) -> None:
        self.store.fork(a_fork(tasks=(), wait="after"))
        assert [sent.node for sent in self.go_on("r2", "t2").dispatch] == ["resume"]

    def test_a_message_drops_what_comes_next_in_a_fork(self) -> None:
        self.store.fork(a_fork())
        self.finish(self.start("r2", "t2"))
        assert self.go_on("r3", "t2").outcome is AdmissionOutcome.NOTHING_TO_CONTINUE

    def test_a_finished_fork_has_nothing_to_continue(self) -> None:
        self.store.fork(a_fork(status=RunStatus.COMPLETED, tasks=()))
        assert self.go_on("r2", "t2").outcome is AdmissionOutcome.NOTHING_TO_CONTINUE
        assert not self.thread("t2").is_ready

    def test_a_fork_that_nobody_ran_is_deleted_whole(self) -> None:
        self.store.fork(a_fork())
        assert self.store.delete_thread("t2")
        assert (self.store.thread("t2"), self.store.threads(limit=9)) == (None, [])


class EditContract(CheckpointContract):
    """Changes of a state beside its runs."""

    def edit(self, run_id: str = "", nonce: str = "edit", patch: Patch = _PATCH, **changes: Any) -> Edited:
        """Change the state of ``t1``."""
        base = changes.pop("base", None) or self.thread().version
        edit = Edit("t1", run_id, base, nonce, patch, 1, RunStatus.STOPPED, b"by anna")
        return self.store.edit(replace(edit, **changes))

    def failed(self) -> Claim:
        """Let the only task of a step fail."""
        claim = self.begin_and_claim("a")[0]
        self.fail(claim)
        return claim

    def test_an_edit_of_a_finished_thread_is_a_version_of_its_own(self) -> None:
        self.finish(self.start(), patch=Patch({"topic": b"0", "left": b"1"}))
        assert self.edit() == Edited(EditOutcome.WRITTEN)
        point = self.newest()
        assert (point.version, point.run_id, point.meta) == (Version(2, "edit"), "", b"by anna")
        assert contents(self.store.image("t1")) == ({"topic": b"1", "left": b"1"}, {"context": [b"1", b"2"]})
        assert contents(self.store.image("t1", 1)) == ({"topic": b"0", "left": b"1"}, {})
        assert self.view().version == 1

    def test_an_edit_on_another_version_writes_nothing(self) -> None:
        self.finish(self.start())
        for base in (Version.ZERO, Version(1, "of another"), Version(2, self.thread().version.nonce)):
            assert self.edit(base=base) == Edited(EditOutcome.STALE)
        assert self.thread().version.number == 1

    def test_of_edits_at_once_one_is_written(self) -> None:
        self.finish(self.start())
        base = self.thread().version
        calls = [lambda number=number: self.edit(nonce=f"edit {number}", base=base) for number in range(4)]
        outcomes = sorted(edited.outcome for edited in at_once(calls))
        assert outcomes == [EditOutcome.STALE] * 3 + [EditOutcome.WRITTEN]
        assert self.thread().version.number == 2

    def test_a_repeated_edit_is_written_once(self) -> None:
        self.finish(self.start())
        base = self.thread().version
        assert [self.edit(base=base).outcome for _ in range(2)] == [EditOutcome.WRITTEN] * 2
        assert self.thread().version == Version(2, "edit")

    def test_while_a_run_is_at_work_nothing_is_edited(self) -> None:
        claim = self.begin_and_claim("a")[0]
        assert self.edit() == Edited(EditOutcome.BUSY, "r1")
        assert self.edit("r1") == Edited(EditOutcome.BUSY, "r1")
        assert self.finish(claim).accepted

    def test_a_waiting_run_is_edited_by_its_name_only(self) -> None:
        self.pause("a")
        assert self.edit() == Edited(EditOutcome.STALE)
        assert self.edit("r1") == Edited(EditOutcome.WRITTEN)
        assert (self.view().version, self.status()) == (2, RunStatus.WAITING)

    def test_a_waiting_run_goes_on_with_the_state_that_was_edited(self) -> None:
        self.pause("a")
        self.edit("r1", tasks=node_specs(["a"]))
        claim = self.claim(self.resume().dispatch[0])
        assert contents(claim.image) == ({"topic": b"1"}, {"context": [b"1", b"2"]})
        assert [spec.node for spec in claim.specs] == ["a"]

    def test_a_question_goes_on_waiting_through_an_edit(self) -> None:
        one, other = self.begin_and_claim("a", "b")
        self.commit(other, b"done")
        self.ask(one, "q")
        self.edit("r1")
        again = self.claim(self.resume({"q": b"yes"}).dispatch[0])
        plan = self.commit(again).plan
        assert plan is not None
        assert (plan.updates, plan.image.version) == ({"0": b"update", "1": b"done"}, Version(2, "edit"))

    def test_an_edit_that_replans_gives_up_what_waited(self) -> None:
        self.ask(self.begin_and_claim("a")[0], "q")
        self.edit("r1", replans=True, step=2, plan=b"new", wait="before", tasks=node_specs(["b"]))
        view = self.view()
        assert (view.interrupts, view.step, view.plan, view.wait) == ((), 2, b"new", "before")
        assert self.task_statuses() == {"0": TaskStatus.PARKED}
        claim = self.claim(self.resume().dispatch[0])
        assert [spec.node for spec in claim.specs] == ["b"]

    def test_a_failed_run_is_continued_on_the_state_that_was_edited(self) -> None:
        self.failed()
        self.edit()
        again = self.claim(self.go_on("r2").dispatch[0])
        assert (again.spec.node, again.image.version, again.run.continues) == ("a", Version(2, "edit"), "r1")

    def test_an_edit_that_replans_drops_what_a_failed_run_left(self) -> None:
        self.failed()
        self.edit(replans=True, step=2, tasks=node_specs(["b"]))
        assert (self.thread().continuable, self.thread().is_ready, self.task_statuses()) == ("", True, {})
        again = self.go_on("r2")
        assert [(sent.node, sent.ref.step) for sent in again.dispatch] == [("b", 2)]

    def test_an_edit_may_leave_nothing_to_continue(self) -> None:
        self.failed()
        self.edit(replans=True, status=RunStatus.COMPLETED)
        assert self.go_on("r2").outcome is AdmissionOutcome.NOTHING_TO_CONTINUE

    def test_what_an_edit_planned_stays_through_the_next_one(self) -> None:
        self.finish(self.start())
        self.edit(replans=True, tasks=node_specs(["b"]))
        self.edit(nonce="again", tasks=node_specs(["b"]))
        assert [sent.node for sent in self.go_on("r2").dispatch] == ["b"]

    def test_a_thread_that_is_gone_is_not_edited(self) -> None:
        self.finish(self.start())
        base = self.thread().version
        self.store.delete_thread("t1")
        assert self.edit(base=base) == Edited(EditOutcome.STALE)
        assert self.store.thread("t1") is None

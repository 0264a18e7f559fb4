"""A step is written: ``advance``."""
# ruff: noqa: D102  # the name of a test is its sentence

from dataclasses import replace
from typing import Any

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.image import Patch, StateImage, Version
from tenxgraph.store.base import Advance, Advanced, Claim, NextClaim, Refusal, TaskRef, TaskStatus, WaitKind
from tenxgraph.testing.contract.harness import LONG_MS, SHORT_MS, StoreMoves, at_once, node_specs, plan_spec


class AdvanceContract(StoreMoves):
    """What one step changes is written at once, by one, on top of what it was made from."""

    def test_an_advance_writes_state_plan_and_events_and_dispatches(self) -> None:
        claim = self.start()
        patch = Patch({"topic": b'"x"'}, {"context": (b"1", b"2")})
        step = self.next_step(claim, "a", "b", patch=patch, plan=b"frontier", meta=b"meta", events=b"state")
        answer = self.store.advance(claim.ref, claim.token, step)
        version = Version(1, step.nonce)
        assert (answer.accepted, answer.version, answer.status) == (True, version, RunStatus.RUNNING)
        assert [message.ref for message in answer.dispatch] == [TaskRef("t1", "r1", 1, name, 1) for name in "01"]
        assert [(message.node, message.version) for message in answer.dispatch] == [("a", version), ("b", version)]
        view = self.view()
        assert (view.step, view.version, view.plan, view.status) == (1, 1, b"frontier", RunStatus.RUNNING)
        assert (self.thread().version, self.bodies()) == (version, [b"state"])

    def test_an_advance_writes_state_and_checkpoint_under_its_version(self) -> None:
        claim = self.start()
        step = self.next_step(claim, "a", patch=Patch({"topic": b'"x"'}, {"context": (b"1", b"2")}), meta=b"meta")
        self.store.advance(claim.ref, claim.token, step)
        image, checkpoint = self.store.image("t1"), self.store.checkpoint("t1")
        assert (image.version, dict(image.values)) == (Version(1, step.nonce), {"topic": b'"x"'})
        assert {name: list(items) for name, items in image.lists.items()} == {"context": [b"1", b"2"]}
        assert checkpoint is not None
        assert (checkpoint.version, checkpoint.run_id, checkpoint.step) == (image.version, "r1", 1)
        assert (checkpoint.status, checkpoint.meta) == (RunStatus.RUNNING, b"meta")

    def test_a_step_of_one_task_advances_without_a_commit(self) -> None:
        (claim,) = self.begin_and_claim("a")
        answer = self.advance(claim, "b")
        assert (answer.accepted, [message.node for message in answer.dispatch]) == (True, ["b"])
        assert self.task_statuses() == {"0": TaskStatus.QUEUED}

    def test_a_step_of_several_tasks_advances_under_the_plan_task(self) -> None:
        plan = self.commit_all(self.begin_and_claim("a", "b"))
        answer = self.advance(plan, "c")
        assert (answer.accepted, [message.ref.step for message in answer.dispatch]) == (True, [2])
        assert self.view().version == 2

    def test_a_task_with_siblings_may_not_advance_by_itself(self) -> None:
        first, second = self.begin_and_claim("a", "b")
        assert not self.advance(first, "c").accepted
        self.commit(first)
        assert not self.advance(second, "c").accepted
        assert self.view().step == 1

    def test_an_advance_on_another_version_writes_nothing(self) -> None:
        (claim,) = self.begin_and_claim("a")
        base = claim.image.version
        for moved in (Version.ZERO, Version(base.number, "other"), Version(base.number + 1, base.nonce)):
            answer = self.advance(claim, "b", base=moved, patch=Patch({"topic": b"1"}), events=b"late")
            assert answer == Advanced(accepted=False)
        assert (self.view().step, self.thread().version, self.bodies()) == (1, base, [])
        assert self.store.image("t1").values == {}

    def test_a_repeated_advance_is_answered_the_same_and_writes_once(self) -> None:
        claim = self.start()
        step = self.next_step(claim, "a", "b", patch=Patch({}, {"context": (b"1",)}), events=b"state")
        first, second = (self.store.advance(claim.ref, claim.token, step) for _ in range(2))
        assert first == second
        assert list(self.store.image("t1").lists["context"]) == [b"1"]
        assert (self.bodies(), len(self.store.checkpoints("t1", limit=10))) == ([b"state"], 1)

    def _going_on(self, claim: Claim, *nodes: str, **changes: Any) -> Advance:
        step = self.next_step(claim, *nodes, events=b"state", **changes)
        image = StateImage(Version(step.base.number + 1, step.nonce))
        return replace(step, claim=NextClaim("next", "w2", LONG_MS, image, b"started"))

    def test_an_advance_takes_the_only_next_task_where_it_is_asked_to(self) -> None:
        claim = self.start()
        step = self._going_on(claim, "a")
        answer = self.store.advance(claim.ref, claim.token, step)
        taken = answer.claim
        assert taken is not None
        assert (answer.accepted, answer.dispatch) == (True, ())
        assert (taken.ref, taken.token, taken.alone) == (TaskRef("t1", "r1", 1, "0", 1), "next", True)
        assert (taken.spec, taken.run.step, taken.run.status) == (step.tasks[0], 1, RunStatus.RUNNING)
        assert taken.image.version == Version(1, step.nonce)
        assert taken.first_started_ms > 0
        (task,) = self.store.tasks("r1")
        assert (task.status, task.worker) == (TaskStatus.CLAIMED, "w2")
        assert self.bodies() == [b"state", b"started"]
        assert isinstance(self.store.claim(taken.ref, "n", worker="w", lease_ms=1, known=None, events=b""), Refusal)

    def test_a_task_so_taken_is_committed_or_advanced_like_any_other(self) -> None:
        claim = self.start()
        taken = self.store.advance(claim.ref, claim.token, self._going_on(claim, "a")).claim
        assert taken is not None
        again = self.store.advance(taken.ref, taken.token, self._going_on(taken, "b", nonce="v2")).claim
        assert again is not None
        assert (again.ref.step, again.spec.node) == (2, "b")
        plan = self.commit(again).plan
        assert plan is not None
        assert self.advance(plan, "c").accepted

    def test_a_repeated_advance_has_the_claim_again(self) -> None:
        claim = self.start()
        step = self._going_on(claim, "a")
        first, second = (self.store.advance(claim.ref, claim.token, step) for _ in range(2))
        assert first == second
        assert first.claim is not None
        assert self.bodies() == [b"state", b"started"]

    def test_an_advance_that_does_not_go_on_takes_nothing(self) -> None:
        for number, status in enumerate((RunStatus.WAITING, RunStatus.COMPLETED, RunStatus.FAILED)):
            claim = self.start(f"r{number}", f"t{number}")
            step = replace(self._going_on(claim, "a"), status=status, wait=WaitKind.BEFORE)
            answer = self.store.advance(claim.ref, claim.token, step)
            assert (answer.status, answer.claim) == (status, None)

    def test_a_stopped_run_takes_nothing_and_the_next_run_is_dispatched(self) -> None:
        claim = self.start()
        self.admit("r2")
        self.store.stop("t1", "r1", events=b"")
        answer = self.store.advance(claim.ref, claim.token, self._going_on(claim, "a"))
        assert (answer.status, answer.claim) == (RunStatus.STOPPED, None)
        assert [message.ref.run_id for message in answer.dispatch] == ["r2"]

    def test_a_step_of_several_tasks_is_dispatched_though_one_was_asked_for(self) -> None:
        claim = self.start()
        answer = self.store.advance(claim.ref, claim.token, self._going_on(claim, "a", "b"))
        assert (answer.claim, [message.node for message in answer.dispatch]) == (None, ["a", "b"])

    def test_a_fenced_advance_takes_nothing(self) -> None:
        claim = self.start()
        assert self.store.advance(claim.ref, "another", self._going_on(claim, "a")) == Advanced(accepted=False)
        assert self.view().step == 0

    def test_an_advance_repeated_after_the_thread_went_on_succeeds_and_writes_nothing(self) -> None:
        claim = self.start()
        step = self.next_step(claim, "a")
        first = self.store.advance(claim.ref, claim.token, step)
        self.advance(self.claim(first.dispatch[0]), "b")
        again = self.store.advance(claim.ref, claim.token, step)
        assert (again.accepted, again.version) == (True, first.version)
        assert (self.view().step, self.thread().version.number) == (2, 2)

    def test_a_repeated_last_advance_is_answered_the_same(self) -> None:
        claim = self.start("r1")
        self.admit("r2")
        step = self.next_step(claim, status=RunStatus.COMPLETED)
        first, second = (self.store.advance(claim.ref, claim.token, step) for _ in range(2))
        assert first == second
        assert [message.ref.run_id for message in first.dispatch] == ["r2"]

    def test_of_concurrent_repeats_of_an_advance_one_writes(self) -> None:
        claim = self.start()
        step = self.next_step(claim, "a", patch=Patch({}, {"context": (b"1",)}))
        answers = at_once([lambda: self.store.advance(claim.ref, claim.token, step)] * 6)
        assert all(answer == answers[0] and answer.accepted for answer in answers)
        assert list(self.store.image("t1").lists["context"]) == [b"1"]

    def test_an_advance_uses_up_the_runs_input(self) -> None:
        claim = self.start(input=b"hello")
        self.advance(claim, "a")
        assert (self.view().input, self.view().request) == (b"", b"request of r1")

    # -- fences

    def test_a_fenced_advance_writes_nothing(self) -> None:
        (message,) = self.begin("a")
        late = self.claim(message, lease_ms=SHORT_MS)
        self.recover_after(SHORT_MS * 2)
        assert not self.advance(late, "b", patch=Patch({"topic": b"1"}), events=b"late").accepted
        assert (self.view().step, self.store.image("t1").values) == (1, {})
        assert b"late" not in self.bodies()

    def test_another_token_advances_nothing(self) -> None:
        (claim,) = self.begin_and_claim("a")
        assert not self.advance(replace(claim, token="another"), "b").accepted
        assert not self.advance(replace(claim, token=""), "b").accepted
        assert self.view().step == 1

    def test_an_advance_whose_worker_died_is_taken_up_from_the_stored_updates(self) -> None:
        claims = self.begin_and_claim("a", "b")
        self.commit(claims[1], b"of b")
        dead = self.commit(claims[0], b"of a", lease_ms=SHORT_MS).plan
        assert dead is not None
        (message,) = self.recover_after(SHORT_MS * 2).dispatch
        assert message.ref == replace(dead.ref, attempt=2)
        plan = self.claim(message)
        assert (plan.updates, plan.specs) == ({"0": b"of a", "1": b"of b"}, node_specs(["a", "b"]))
        assert not self.advance(dead, "c").accepted
        assert self.advance(plan, "c").accepted

    # -- ends and waits

    def test_a_completed_run_frees_the_thread(self) -> None:
        claim = self.start()
        before_ms = self.store.now_ms()
        answer = self.finish(claim)
        assert (answer.accepted, answer.status, answer.dispatch) == (True, RunStatus.COMPLETED, ())
        assert before_ms <= self.view().ended_ms <= self.store.now_ms()
        assert (self.thread().active, self.thread().last, self.thread().continuable) == ("", "r1", "")
        assert list(self.store.tasks("r1")) == []

    def test_queued_runs_start_in_the_order_of_their_admission(self) -> None:
        claim = self.start("r1")
        for run_id in ("r2", "r3", "r4"):
            self.admit(run_id)
        order = []
        while answer := self.finish(claim).dispatch:
            order.append(answer[0].ref.run_id)
            claim = self.claim(answer[0])
        assert order == ["r2", "r3", "r4"]

    def test_a_queued_run_starts_at_step_0_on_the_state_that_the_last_one_left(self) -> None:
        claim = self.start("r1")
        self.admit("r2")
        (message,) = self.finish(claim, patch=Patch({"topic": b"1"})).dispatch
        assert message.ref == TaskRef("t1", "r2", 0, "plan", 1)
        second = self.claim(message)
        assert (second.spec, dict(second.image.values)) == (plan_spec("start"), {"topic": b"1"})
        assert (second.run.step, second.run.version) == (0, 1)

    def test_a_failed_advance_ends_the_run_and_keeps_what_was_planned(self) -> None:
        claim = self.start()
        answer = self.finish(claim, RunStatus.FAILED, tasks=node_specs(["a"]), error=b"recursion")
        assert (answer.status, self.status(), self.view().error) == (RunStatus.FAILED, RunStatus.FAILED, b"recursion")
        assert (self.task_statuses(), self.thread().continuable) == ({"0": TaskStatus.PARKED}, "r1")

    def test_a_paused_run_parks_its_tasks(self) -> None:
        answer = self.pause("a", "b", wait=WaitKind.BEFORE)
        assert (answer.status, answer.dispatch) == (RunStatus.WAITING, ())
        assert (self.status(), self.view().wait) == (RunStatus.WAITING, WaitKind.BEFORE)
        assert self.task_statuses() == {"0": TaskStatus.PARKED, "1": TaskStatus.PARKED}
        assert isinstance(self.try_claim(TaskRef("t1", "r1", 1, "0", 1)), Refusal)

    def test_a_paused_run_keeps_the_thread(self) -> None:
        claim = self.start("r1")
        self.admit("r2")
        assert self.advance(claim, "a", status=RunStatus.WAITING, wait=WaitKind.BEFORE).dispatch == ()
        assert (self.thread().active, self.thread().inbox) == ("r1", ("r2",))

    def test_an_end_and_a_wait_are_told_in_the_events(self) -> None:
        self.pause("a")
        assert self.bodies() == [b'{"event":"run_end","step":1,"data":{"status":"waiting"}}']
        self.finish(self.start("r2", "t2"), events=b"state", step=3)
        assert self.bodies("r2", "t2") == [b"state", b'{"event":"run_end","step":3,"data":{"status":"completed"}}']

    def test_the_checkpoint_of_a_last_step_says_how_the_run_ended(self) -> None:
        self.finish(self.start())
        checkpoint = self.store.checkpoint("t1")
        assert checkpoint is not None
        assert checkpoint.status is RunStatus.COMPLETED

    def test_an_ended_run_writes_no_more(self) -> None:
        (claim,) = self.begin_and_claim("a")
        self.finish(claim)
        before = self.bodies()
        assert not self.advance(claim, "b").accepted
        assert not self.tell(claim, b"late")
        assert not self.fail(claim).accepted
        assert isinstance(self.try_claim(claim.ref), Refusal)
        assert (self.status(), self.bodies()) == (RunStatus.COMPLETED, before)

    def test_a_plan_may_be_wide(self) -> None:
        nodes = [f"n{i}" for i in range(1_200)]
        answer = self.advance(self.start(), *nodes)
        assert [message.node for message in answer.dispatch] == nodes
        assert [view.node for view in self.store.tasks("r1")] == nodes
        assert self.claim(answer.dispatch[-1], lease_ms=LONG_MS).spec.node == "n1199"

"""What can be read: state at every version, checkpoints, events, listings; and deletion."""
# ruff: noqa: D102  # the name of a test is its sentence

import asyncio
import random
import threading
import time
from collections.abc import Mapping, Sequence

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.image import Patch, StateImage, Version
from tenxgraph.store.base import AdmissionOutcome, Refusal, TaskRef, TaskStatus
from tenxgraph.testing.contract.harness import LONG_MS, SHORT_MS, StoreMoves

Contents = tuple[Mapping[str, bytes], Mapping[str, Sequence[bytes]]]


def contents(image: StateImage) -> Contents:
    """Return values and lists of a state."""
    return dict(image.values), {name: list(items) for name, items in image.lists.items()}


def patched(before: Contents, patch: Patch) -> Contents:
    """Return what a state holds after a patch, the slow way."""
    values, lists = before
    appended = {name: [*lists.get(name, ()), *items] for name, items in patch.appends.items()}
    rewritten = {name: list(items) for name, items in patch.rewrites.items()}
    return {**values, **patch.values}, {**lists, **appended, **rewritten}


def random_patch(chance: random.Random) -> Patch:
    """Return a patch of a few fields."""
    item = iter(chance.randbytes(chance.randrange(6)) for _ in range(100))
    fields = chance.sample(["a", "b", "c", "d"], chance.randrange(1, 5))
    patch = Patch({}, {}, {})
    for name in fields:
        kind = chance.choice(["values", "appends", "appends", "rewrites"])
        if kind == "values":
            patch.values["v" + name] = next(item)
        else:
            getattr(patch, kind)["l" + name] = tuple(next(item) for _ in range(chance.randrange(1, 4)))
    return patch


class StateContract(StoreMoves):
    """State at any version."""

    def check_every_version(self, patches: Sequence[Patch], thread_id: str = "t1") -> None:
        """Write the patches one after the other; each version must read back equal, whatever the reader knows."""
        claim = self.start(f"run on {thread_id}", thread_id)
        expected: list[Contents] = [({}, {})]
        for patch in patches:
            answer = self.advance(claim, "a", patch=patch)
            claim = self.claim(answer.dispatch[0])
            expected.append(patched(expected[-1], patch))
            assert contents(claim.image) == expected[-1]
        images = [self.store.image(thread_id, number) for number in range(len(expected))]
        for number, image in enumerate(images):
            assert (image.version.number, contents(image)) == (number, expected[number])
            for known in (images[0], images[number // 2], images[-1]):
                assert self.store.image(thread_id, number, known) == image

    def test_every_version_reads_back_equal(self) -> None:
        for seed in range(5):
            chance = random.Random(seed)
            self.check_every_version([random_patch(chance) for _ in range(12)], f"thread {seed}")

    def test_a_rewrite_leaves_older_versions_as_they_were(self) -> None:
        self.check_every_version(
            [
                Patch({}, {"context": (b"1", b"2")}),
                Patch({}, {"context": (b"3",)}),
                Patch({}, {}, {"context": (b"2",)}),
                Patch({}, {"context": (b"4",)}),
                Patch({}, {}, {"context": ()}),
                Patch({}, {"context": (b"5",)}),
            ]
        )

    def test_a_cut_list_reads_back_equal_at_every_version(self) -> None:
        for seed in range(8):
            chance, thread_id = random.Random(seed), f"thread {seed}"
            claim = self.start(f"run on {thread_id}", thread_id)
            states: list[list[bytes]] = [[]]
            written: list[bytes] = []
            for place in range(14):
                items = tuple(b"%d.%d" % (place, at) for at in range(chance.randrange(4)))
                known = claim.image.lists.get("context")
                if known is None or chance.random() < 0.5:
                    patch, after = Patch({}, {"context": items}), [*states[-1], *items]
                else:
                    whole = [*known, *items]
                    left = chance.sample(range(len(whole)), chance.randrange(len(whole) + 1))
                    patch = Patch(cuts={"context": known.cut_to(left, items)})
                    after = [whole[at] for at in left]
                written += items
                message = self.advance(claim, "a", patch=patch).dispatch[0]
                known_image = chance.choice(
                    [None, claim.image, self.store.image(thread_id, chance.randrange(place + 1))]
                )
                again = self.store.claim(
                    message.ref, f"n{place}", worker="w", lease_ms=LONG_MS, known=known_image, events=b""
                )
                assert not isinstance(again, Refusal)
                claim = again
                states.append(after)
                assert list(claim.image.lists["context"]) == after
            for number, state in enumerate(states):
                assert list(self.store.image(thread_id, number).lists.get("context", ())) == state
            assert list(self.store.log(thread_id, "context", offset=0, limit=100)) == written

    def test_a_cut_writes_what_is_new_alone(self) -> None:
        items = tuple(b"%d" % number for number in range(2_500))
        claim = self.start()
        claim = self.claim(self.advance(claim, "a", patch=Patch({}, {"context": items})).dispatch[0])
        cut = claim.image.lists["context"].cut_to([0, *range(600, 2_500)], (b"new",))
        assert Patch(cuts={"context": cut}).byte_size == len(b"new")
        self.advance(claim, "b", patch=Patch(cuts={"context": cut}))
        assert list(self.store.image("t1").lists["context"]) == [b"0", *items[600:]]
        assert list(self.store.image("t1", 1).lists["context"]) == list(items)

    def test_the_log_of_a_list_holds_all_that_was_written(self) -> None:
        claim = self.start()
        claim = self.claim(self.advance(claim, "a", patch=Patch({}, {"context": (b"1", b"2")})).dispatch[0])
        cut = claim.image.lists["context"].cut_to([1], ())
        claim = self.claim(self.advance(claim, "b", patch=Patch(cuts={"context": cut})).dispatch[0])
        claim = self.claim(self.advance(claim, "c", patch=Patch({}, {"context": (b"3", b"4")})).dispatch[0])
        self.advance(claim, "d", patch=Patch({}, {"other": (b"x",)}, {"context": (b"5",)}))
        read = self.store.log
        assert list(read("t1", "context", offset=0, limit=10)) == [b"1", b"2", b"3", b"4", b"5"]
        assert list(read("t1", "context", offset=1, limit=2)) == [b"2", b"3"]
        assert list(read("t1", "context", offset=-3, limit=2)) == [b"3", b"4"]
        assert list(read("t1", "context", offset=-9, limit=1)) == [b"1"]
        assert list(read("t1", "context", offset=1, limit=9, home=1)) == [b"2", b"3", b"4"]
        assert list(read("t1", "context", offset=5, limit=9)) == []
        assert list(read("nowhere", "context", offset=0, limit=9)) == []

    def test_a_list_may_be_emptied(self) -> None:
        claim = self.start()
        claim = self.claim(self.advance(claim, "a", patch=Patch({}, {"context": (b"1",)})).dispatch[0])
        claim = self.claim(self.advance(claim, "a", patch=Patch({}, {}, {"context": ()})).dispatch[0])
        assert [len(items) for items in claim.image.lists.values()] == [0]

    def test_long_lists_read_back_whole(self) -> None:
        items = tuple(b"%d" % number for number in range(2_500))
        self.check_every_version([Patch({}, {"context": items}), Patch({}, {}, {"context": items[::-1]})])

    def test_many_fields_read_back_whole(self) -> None:
        self.check_every_version([Patch({f"field {number}": b"%d" % number for number in range(1_200)})])

    def test_any_bytes_read_back_equal(self) -> None:
        every = bytes(range(256))
        self.check_every_version([Patch({"ä b": every, "empty": b""}, {"{x}:y": (every, b"", b"\r\n")})])

    def test_the_newest_version_is_read_without_a_number(self) -> None:
        claim = self.start()
        assert self.store.image("t1").version == Version.ZERO
        step = self.next_step(claim, "a", patch=Patch({"topic": b"1"}))
        self.store.advance(claim.ref, claim.token, step)
        assert self.store.image("t1").version == Version(1, step.nonce)

    def test_what_was_read_does_not_change(self) -> None:
        claim = self.start()
        claim = self.claim(self.advance(claim, "a", patch=Patch({}, {"context": (b"1",)})).dispatch[0])
        before = self.store.image("t1")
        self.advance(claim, "b", patch=Patch({}, {"context": (b"2",)}))
        assert contents(before) == ({}, {"context": [b"1"]})

    def test_a_claim_with_what_the_worker_knows_brings_the_same_state(self) -> None:
        claim = self.start()
        claim = self.claim(self.advance(claim, "a", patch=Patch({"v": b"1"}, {"context": (b"1",)})).dispatch[0])
        message = self.advance(claim, "b", patch=Patch({}, {"context": (b"2",)})).dispatch[0]
        second = self.store.claim(message.ref, "n", worker="w", lease_ms=LONG_MS, known=claim.image, events=b"")
        assert not isinstance(second, Refusal)
        assert contents(second.image) == ({"v": b"1"}, {"context": [b"1", b"2"]})
        assert second.image == self.store.image("t1")

    def test_what_a_worker_knows_of_another_thread_does_not_get_in(self) -> None:
        other = self.begin_and_claim("a", run_id="r2", thread_id="t2")[0]
        self.advance(other, "b", patch=Patch({"secret": b"1"}, {"context": (b"x",)}))
        claim = self.start()
        message = self.advance(claim, "a", patch=Patch({}, {"context": (b"1",)})).dispatch[0]
        known = self.store.image("t2")
        mine = self.store.claim(message.ref, "n", worker="w", lease_ms=LONG_MS, known=known, events=b"")
        assert not isinstance(mine, Refusal)
        assert contents(mine.image) == ({}, {"context": [b"1"]})
        assert contents(self.store.image("t1", 1, known)) == ({}, {"context": [b"1"]})

    def test_there_is_no_state_of_what_never_was(self) -> None:
        self.start()
        for thread_id, number in (("nowhere", None), ("nowhere", 0), ("t1", 1), ("t1", -1)):
            try:
                image = self.store.image(thread_id, number)
            except KeyError:
                continue
            raise AssertionError(f"{thread_id} at {number} has the state {image}")

    # -- checkpoints

    def test_checkpoints_are_listed_newest_first(self) -> None:
        claim = self.start()
        for number in range(4):
            claim = self.claim(self.advance(claim, "a", meta=b"%d" % number).dispatch[0])
        numbers = [[point.version.number for point in points] for points in (
            self.store.checkpoints("t1", limit=10),
            self.store.checkpoints("t1", limit=2),
            self.store.checkpoints("t1", limit=2, before=3),
            self.store.checkpoints("t1", limit=2, before=1),
            self.store.checkpoints("nowhere", limit=2),
        )]  # fmt: skip
        assert numbers == [[4, 3, 2, 1], [4, 3], [2, 1], [], []]

    def test_a_checkpoint_is_found_by_its_version(self) -> None:
        claim = self.start()
        for number in range(3):
            claim = self.claim(self.advance(claim, "a", meta=b"%d" % number).dispatch[0])
        second, newest = self.store.checkpoint("t1", 2), self.store.checkpoint("t1")
        assert second is not None
        assert newest is not None
        assert (second.version.number, second.step, second.meta, second.run_id) == (2, 2, b"1", "r1")
        assert newest.version == self.thread().version
        assert second.created_ms <= newest.created_ms <= self.store.now_ms()
        assert self.store.checkpoint("t1", 4) is None
        assert self.store.checkpoint("nowhere") is None

    def test_versions_grow_over_the_runs_of_a_thread(self) -> None:
        for run_id in ("r1", "r2", "r3"):
            self.finish(self.start(run_id))
        points = self.store.checkpoints("t1", limit=10)
        assert [(point.version.number, point.run_id) for point in points] == [(3, "r3"), (2, "r2"), (1, "r1")]


class EventContract(StoreMoves):
    """A run's events: in order, from an id on, and waited for."""

    def emit(self, *bodies: bytes) -> None:
        """Start a run and let its start task tell something."""
        claim = self.start()
        for number, body in enumerate(bodies, 1):
            self.tell(claim, body, number)

    def test_events_are_read_in_the_order_of_their_writing(self) -> None:
        before_ms = self.store.now_ms()
        self.emit(b"1", b"2", b"3")
        stored = self.store.events("t1", "r1", "", timeout_s=0)
        assert [event.body for event in stored] == [b"1", b"2", b"3"]
        assert len({event.id for event in stored}) == 3
        assert all(before_ms <= event.at_ms <= self.store.now_ms() for event in stored)

    def test_a_follower_goes_on_after_any_id(self) -> None:
        self.emit(*(b"%d" % number for number in range(25)))
        stored = list(self.store.events("t1", "r1", "", timeout_s=0))
        for position, event in enumerate(stored):
            assert list(self.store.events("t1", "r1", event.id, timeout_s=0)) == stored[position + 1 :]

    def test_empty_events_are_not_written(self) -> None:
        self.emit(b"", b"1", b"")
        assert self.bodies() == [b"1"]

    def test_each_run_has_its_own_events(self) -> None:
        self.admit("r1", events=b"of r1")
        self.cancel("r1")
        self.admit("r2", events=b"of r2")
        assert self.bodies("r2") == [b"of r2"]
        assert b"of r2" not in self.bodies("r1")

    def test_there_are_no_events_of_what_never_was(self) -> None:
        assert self.bodies("nobody") == []
        self.admit()
        assert self.bodies("nobody") == []

    def test_a_follower_gives_up_after_its_timeout(self) -> None:
        self.admit()
        started_s = time.monotonic()
        assert list(self.store.events("t1", "r1", "", timeout_s=0.05)) == []
        assert 0.04 <= time.monotonic() - started_s < 5

    def test_a_follower_is_woken_by_the_next_event(self) -> None:
        claim = self.start()
        found: list[bytes] = []

        def follow() -> None:
            found.extend(stored.body for stored in self.store.events("t1", "r1", "", timeout_s=10))

        follower = threading.Thread(target=follow)
        follower.start()
        self.tell(claim, b"woken")
        follower.join(5)
        assert found == [b"woken"]

    def test_a_follower_on_a_loop_is_woken_by_the_next_event(self) -> None:
        claim = self.start()

        async def follow_and_emit() -> list[bytes]:
            follower = asyncio.create_task(self.store.aevents("t1", "r1", "", timeout_s=10))
            await asyncio.sleep(0)
            await asyncio.to_thread(self.tell, claim, b"woken")
            return [stored.body for stored in await asyncio.wait_for(follower, 5)]

        assert asyncio.run(follow_and_emit()) == [b"woken"]

    def test_a_follower_on_a_loop_reads_what_is_there_and_gives_up_after_its_timeout(self) -> None:
        self.emit(b"1", b"2")

        async def follow(after: str, timeout_s: float) -> list[bytes]:
            return [stored.body for stored in await self.store.aevents("t1", "r1", after, timeout_s=timeout_s)]

        last_id = self.store.events("t1", "r1", "", timeout_s=0)[-1].id
        assert asyncio.run(follow("", 10)) == [b"1", b"2"]
        assert asyncio.run(follow(last_id, 0.05)) == []

    def test_an_event_is_kept_under_its_own_id_alone(self) -> None:
        self.emit(b"1", b"2")
        first, second = self.store.events("t1", "r1", "", timeout_s=0)
        assert self.store.keeps_event("t1", "r1", first.id)
        assert self.store.keeps_event("t1", "r1", second.id)
        for thread_id, run_id, event_id in (("t1", "r1", "1-1"), ("t1", "r2", first.id), ("t2", "r1", first.id)):
            assert not self.store.keeps_event(thread_id, run_id, event_id)

    def test_events_outlive_the_end_of_their_run(self) -> None:
        self.finish(self.start(), events=b"last")
        assert self.bodies()[0] == b"last"


class ViewContract(StoreMoves):
    """Threads, runs and tasks as they are shown."""

    def test_what_never_was_is_not_shown(self) -> None:
        assert self.store.thread("nowhere") is None
        assert self.store.run("nobody") is None
        assert list(self.store.tasks("nobody")) == []
        assert list(self.store.runs("nowhere")) == []
        assert list(self.store.threads(limit=10)) == []

    def test_a_thread_shows_owner_graph_and_times(self) -> None:
        before_ms = self.store.now_ms()
        self.admit()
        thread = self.thread()
        assert (thread.thread_id, thread.user_id, thread.graph, thread.graph_version) == ("t1", "anna", "graph", "v1")
        assert before_ms <= thread.created_ms <= thread.changed_ms <= self.store.now_ms()

    def test_a_thread_takes_the_graph_version_of_its_newest_run(self) -> None:
        self.finish(self.start("r1"))
        self.admit("r2", graph_version="v2")
        assert (self.thread().graph_version, self.view("r1").graph_version) == ("v2", "v1")

    def test_runs_are_listed_oldest_first(self) -> None:
        for run_id in ("r3", "r1", "r2"):
            self.admit(run_id)
        assert [view.run_id for view in self.store.runs("t1")] == ["r3", "r1", "r2"]

    def test_tasks_are_listed_in_plan_order(self) -> None:
        self.begin(*"abcdefghijkl")
        assert [view.task for view in self.store.tasks("r1")] == [str(number) for number in range(12)]
        assert {view.status for view in self.store.tasks("r1")} == {TaskStatus.QUEUED}
        assert [view.body for view in self.store.tasks("r1")] == [f"body of {node}".encode() for node in "abcdefghijkl"]

    def test_threads_are_listed_by_their_last_change(self) -> None:
        claims = {}
        for number in (1, 2, 3):
            claims[number] = self.start(f"r{number}", f"t{number}")
            self.harness.sleep_ms(2)
        self.advance(claims[1], "a")
        listed = [view.thread_id for view in self.store.threads(limit=10)]
        assert listed == ["t1", "t3", "t2"]
        assert [view.thread_id for view in self.store.threads(limit=1, offset=1)] == ["t3"]

    def test_the_last_run_is_remembered(self) -> None:
        self.finish(self.start("r1"))
        self.start("r2")
        assert (self.thread().last, self.thread().active) == ("r1", "r2")

    def test_a_store_can_be_used_after_it_was_closed(self) -> None:
        claim = self.start()
        self.store.close()
        assert self.finish(claim).accepted


class DeleteContract(StoreMoves):
    """``delete_thread`` leaves nothing, and nothing comes back."""

    def test_a_deleted_thread_is_gone(self) -> None:
        self.finish(self.start(), patch=Patch({"topic": b"1"}), events=b"state")
        assert self.store.delete_thread("t1")
        assert self.store.thread("t1") is None
        assert self.store.run("r1") is None
        assert (list(self.store.runs("t1")), list(self.store.threads(limit=10))) == ([], [])
        assert self.store.checkpoint("t1") is None
        assert self.bodies() == []
        assert (list(self.store.due(10)), self.store.next_due_ms()) == ([], None)
        assert not self.store.delete_thread("t1")

    def test_a_thread_with_a_run_is_not_deleted(self) -> None:
        claim = self.start("r1")
        assert not self.store.delete_thread("t1")
        self.advance(claim, "a", status=RunStatus.WAITING, wait="before")
        assert not self.store.delete_thread("t1")
        assert self.status() is RunStatus.WAITING

    def test_a_thread_with_a_run_to_come_is_not_deleted(self) -> None:
        self.admit(delay_ms=LONG_MS)
        assert not self.store.delete_thread("t1")
        self.cancel()
        assert self.store.delete_thread("t1")

    def test_a_straggler_cannot_bring_a_deleted_thread_back(self) -> None:
        (message,) = self.begin("a")
        claim = self.claim(message, lease_ms=SHORT_MS)
        self.cancel()
        assert self.store.delete_thread("t1")
        assert not self.commit(claim, events=b"late").accepted
        assert not self.advance(claim, "b").accepted
        assert not self.fail(claim).accepted
        assert not self.tell(claim, b"late")
        assert not self.store.renew(claim.ref, claim.token, lease_ms=LONG_MS).alive
        assert not self.store.give_back(message.ref, reason="x", pause_ms=1)
        assert isinstance(self.try_claim(message), Refusal)
        assert not self.resume().accepted
        assert (self.stop().status, self.cancel().status) == (None, None)
        assert self.recover().dispatch == ()
        assert self.store.thread("t1") is None
        assert self.bodies() == []

    def test_a_deleted_thread_may_begin_anew_under_the_same_names(self) -> None:
        self.finish(self.start(), patch=Patch({"topic": b"1"}, {"context": (b"1",)}))
        self.store.delete_thread("t1")
        admission = self.admit(user_id="bert", graph="other")
        assert admission.outcome is AdmissionOutcome.STARTED
        claim = self.claim(TaskRef("t1", "r1", 0, "plan", 1))
        assert (claim.image.values, claim.image.lists) == ({}, {})

    def test_other_threads_stay(self) -> None:
        self.finish(self.start("r1", "t1"))
        self.finish(self.start("r2", "t2"), patch=Patch({"topic": b"2"}))
        self.store.delete_thread("t1")
        assert self.status("r2") is RunStatus.COMPLETED
        assert contents(self.store.image("t2")) == ({"topic": b"2"}, {})

"""What is past goes: old checkpoints, lists that none points at, threads at rest."""
# ruff: noqa: D102  # the name of a test is its sentence

import random
from collections.abc import Sequence

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.image import Patch
from tenxgraph.store.base import Retention, RetentionRules
from tenxgraph.testing.contract.harness import LONG_MS, SHORT_MS, StoreMoves
from tenxgraph.testing.contract.reading import Contents, contents, patched, random_patch

LAST_3 = RetentionRules(keep_last=3)


class RetentionContract(StoreMoves):
    """Checkpoints that are dropped leave the kept ones as they were."""

    def write(self, patches: Sequence[Patch], *, retain_every: int = 0) -> list[Contents]:
        """Let a run write the patches and end; return what each version holds."""
        claim = self.start()
        states: list[Contents] = [({}, {})]
        for number, patch in enumerate(patches, 1):
            states.append(patched(states[-1], patch))
            if number == len(patches):
                self.finish(claim, patch=patch)
                return states
            claim = self.claim(self.advance(claim, "a", patch=patch).dispatch[0])
            if retain_every and number % retain_every == 0:
                self.store.retain("t1", LAST_3)
        return states

    def kept(self) -> list[int]:
        """Return the numbers that are left, oldest first."""
        return [point.version.number for point in self.store.checkpoints("t1", limit=10_000)][::-1]

    def check(self, states: Sequence[Contents]) -> None:
        """Whatever is kept reads back equal; what is not, is gone."""
        kept = self.kept()
        for number, state in enumerate(states):
            if number in (0, *kept):
                assert contents(self.store.image("t1", number)) == state, number
                continue
            try:
                self.store.image("t1", number)
            except KeyError:
                continue
            raise AssertionError(f"version {number} is there, but {kept} are kept")
        assert contents(self.store.image("t1")) == states[-1]

    def test_the_last_ones_are_kept(self) -> None:
        states = self.write([Patch({"topic": b"%d" % n}, {"context": (b"%d" % n,)}) for n in range(1, 9)])
        assert self.store.retain("t1", LAST_3) == Retention(5)
        assert self.kept() == [6, 7, 8]
        self.check(states)

    def test_every_version_that_is_kept_reads_back_equal(self) -> None:
        chance = random.Random(7)
        states = self.write([random_patch(chance) for _ in range(30)], retain_every=4)
        self.store.retain("t1", LAST_3)
        assert self.kept() == [28, 29, 30]
        self.check(states)

    def test_without_rules_everything_is_kept(self) -> None:
        states = self.write([Patch({"topic": b"1"})] * 4)
        assert self.store.retain("t1", RetentionRules()) == Retention()
        self.check(states)

    def test_where_a_run_began_is_kept_while_it_lives(self) -> None:
        self.write([Patch({"topic": b"%d" % n, "only": b"1"} if n == 1 else {"topic": b"%d" % n}) for n in range(1, 5)])
        claim = self.start("r2")
        for number in range(5, 9):
            claim = self.claim(self.advance(claim, "a", patch=Patch({"topic": b"%d" % number})).dispatch[0])
        assert self.store.retain("t1", LAST_3).dropped == 4
        assert self.kept() == [4, 6, 7, 8]
        assert contents(self.store.image("t1", 4)) == ({"topic": b"4", "only": b"1"}, {})
        assert contents(self.store.image("t1", 6)) == ({"topic": b"6", "only": b"1"}, {})
        self.finish(claim)
        self.store.retain("t1", LAST_3)
        assert self.kept() == [7, 8, 9]
        assert contents(self.store.image("t1", 8)) == ({"topic": b"8", "only": b"1"}, {})

    def test_where_a_run_began_is_kept_while_it_can_be_continued(self) -> None:
        self.write([Patch({"topic": b"1"})] * 2)
        claim = self.start("r2")
        for _ in range(4):
            claim = self.claim(self.advance(claim, "a").dispatch[0])
        self.fail(claim)
        self.store.retain("t1", LAST_3)
        assert self.kept() == [2, 4, 5, 6]

    def test_what_is_older_goes(self) -> None:
        claim = self.start()
        claim = self.claim(self.advance(claim, "a", patch=Patch({"topic": b"1"})).dispatch[0])
        self.harness.sleep_ms(SHORT_MS)
        self.finish(claim)
        rules = RetentionRules(keep_ms=LONG_MS)
        retention = self.store.retain("t1", rules)
        oldest = self.store.checkpoint("t1", 1)
        assert oldest is not None
        assert retention == Retention(0, oldest.created_ms + LONG_MS)
        assert self.store.retain("t1", RetentionRules(keep_ms=SHORT_MS)).dropped == 1
        assert self.kept() == [2]

    def test_nothing_goes_before_its_grace_is_over(self) -> None:
        self.write([Patch({"topic": b"1"})] * 5)
        rules = RetentionRules(keep_last=1, grace_ms=LONG_MS)
        oldest = self.store.checkpoint("t1", 1)
        assert oldest is not None
        assert self.store.retain("t1", rules) == Retention(0, oldest.created_ms + LONG_MS)
        assert self.kept() == [1, 2, 3, 4, 5]

    def test_many_checkpoints_go_in_the_end(self) -> None:
        states = self.write([Patch({f"v{n % 7}": b"%d" % n}) for n in range(1_100)])
        for _ in range(9):
            if self.store.retain("t1", LAST_3).next_due_ms is None:
                break
        assert self.kept() == [1_098, 1_099, 1_100]
        self.check(states)

    def test_a_thread_that_rested_for_long_is_over(self) -> None:
        rules = RetentionRules(thread_keep_ms=LONG_MS)
        self.write([Patch()])
        ended_ms = self.view().ended_ms
        assert self.store.retain("t1", rules) == Retention(0, ended_ms + LONG_MS)
        self.harness.sleep_ms(SHORT_MS)
        assert self.store.retain("t1", RetentionRules(thread_keep_ms=SHORT_MS)).is_over

    def test_a_thread_with_a_run_is_never_over(self) -> None:
        rules = RetentionRules(thread_keep_ms=SHORT_MS)
        self.pause("a")
        self.admit("later", "t2", delay_ms=LONG_MS)
        self.harness.sleep_ms(2 * SHORT_MS)
        assert self.store.retain("t1", rules) == self.store.retain("t2", rules) == Retention()
        assert self.store.retain("nowhere", rules) == Retention()

    def test_a_thread_that_was_used_again_is_not_deleted_for_its_rest(self) -> None:
        self.write([Patch()])
        assert not self.store.delete_thread("t1", rested_ms=LONG_MS)
        self.harness.sleep_ms(2 * SHORT_MS)
        assert self.store.delete_thread("t1", rested_ms=SHORT_MS)

    def test_a_run_that_ends_keeps_its_thread_awake(self) -> None:
        self.begin("a")
        self.harness.sleep_ms(2 * SHORT_MS)
        self.cancel()
        assert self.status() is RunStatus.CANCELLED
        assert not self.store.delete_thread("t1", rested_ms=2 * SHORT_MS)

    def test_a_thread_with_dropped_checkpoints_is_deleted_whole(self) -> None:
        self.write([Patch({"topic": b"%d" % n}, {}, {"context": (b"%d" % n,)}) for n in range(9)])
        self.store.retain("t1", LAST_3)
        assert self.store.delete_thread("t1")

"""Both stores against one that keeps every state whole: steps, cuts, edits, returns, rollbacks, and what is dropped."""

import random
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

import fakeredis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.image import Patch, StateImage
from tenxgraph.store.base import Admission, Claim, Edit, InputKind, RetentionRules
from tenxgraph.testing.contract.harness import StoreHarness, StoreMoves
from tenxgraph.testing.contract.reading import Contents, contents, patched, random_patch
from tenxgraph.testing.store_contract import MemoryHarness
from tests.servers import RedisHarness

Ops = Sequence[tuple[str, int]]


class Told(StoreMoves):
    """One store and what it should hold."""

    def __init__(self, harness: StoreHarness) -> None:
        self.harness = harness
        self.states: dict[int, Contents] = {0: ({}, {})}
        self.names = (f"r{number}" for number in count(1))
        self.run_id, self.base = "", 0
        self.claimed: Claim | None = None
        self.can_continue = False

    @property
    def newest(self) -> int:
        """The newest version."""
        return max(self.states)

    @property
    def kept(self) -> list[int]:
        """Versions that are left, newest first."""
        return [point.version.number for point in self.store.checkpoints("t1", limit=1000)]

    def take(self, admission: Admission) -> None:
        """Claim what an admission began."""
        self.claimed, self.can_continue = self.claim(admission.dispatch[0]), False
        assert contents(self.claimed.image) == self.states[self.newest]

    def begin_run(self, **changes: Any) -> None:
        """Begin a run; note where."""
        self.run_id, self.base = next(self.names), self.newest
        checkpoint = changes.get("checkpoint", 0)
        if checkpoint not in (0, self.newest):
            self.states[self.newest + 1] = self.states[checkpoint]
        self.take(self.admit(self.run_id, **changes))

    def step(self, chance: random.Random) -> None:
        """Write a step, of a new run if there is none."""
        if self.claimed is None:
            self.begin_run()
        assert self.claimed is not None
        patch = self.patch(chance, self.claimed.image)
        advanced = self.advance(self.claimed, "a", patch=patch)
        self.claimed = self.claim(advanced.dispatch[0])
        assert contents(self.claimed.image) == self.states[self.newest]

    def patch(self, chance: random.Random, image: StateImage) -> Patch:
        """Make a patch, sometimes with a cut; note what it leads to."""
        patch, left = random_patch(chance), self.states[self.newest]
        for name, log in image.lists.items():
            if name in patch.appends or name in patch.rewrites or chance.random() < 0.6:
                continue
            stays = sorted(chance.sample(range(len(log)), chance.randrange(len(log) + 1)))
            new = [b"new %d" % number for number in range(chance.randrange(3))]
            patch.cuts[name] = log.cut_to([*stays, *range(len(log), len(log) + len(new))], new)
            whole = list(log)
            left = (left[0], {**left[1], name: [*(whole[at] for at in stays), *new]})
        self.states[self.newest + 1] = patched(left, patch)
        return patch

    def end(self, chance: random.Random) -> None:
        """End the run, well or not."""
        if self.claimed is None:
            return
        if chance.random() < 0.5:
            self.fail(self.claimed)
            self.can_continue = True
        else:
            self.finish(self.claimed, patch=self.patch(chance, self.claimed.image))
        self.claimed = None

    def go_on_run(self, chance: random.Random) -> None:
        """Continue what failed."""
        del chance
        if self.claimed is None and self.can_continue:
            self.begin_run(kind=InputKind.CONTINUE)

    def roll_back(self, chance: random.Random) -> None:
        """Let a run take the place of the active one, and undo it."""
        del chance
        if self.claimed is None:
            return
        if self.base != self.newest:
            self.states[self.newest + 1] = self.states[self.base]
        self.run_id, self.base = next(self.names), self.newest
        self.take(self.admit(self.run_id, strategy="rollback"))

    def go_back(self, chance: random.Random) -> None:
        """Begin a run at an older checkpoint, once nothing is active."""
        if self.claimed is not None:
            self.end(chance)
        if self.kept:
            kind = chance.choice([InputKind.MESSAGE, InputKind.CONTINUE])
            self.begin_run(kind=kind, checkpoint=chance.choice(self.kept))

    def edit(self, chance: random.Random) -> None:
        """Change the state beside the runs."""
        if self.claimed is not None or not self.kept:
            return
        image = self.store.image("t1")
        patch = self.patch(chance, image)
        nonce = f"edit {self.newest}"
        edit = Edit("t1", "", image.version, nonce, patch, 1, RunStatus.STOPPED, b"")
        assert [self.store.edit(edit).outcome for _ in range(2)] == ["written"] * 2

    def retain(self, chance: random.Random) -> None:
        """Drop what is old."""
        self.store.retain("t1", RetentionRules(keep_last=chance.randrange(1, 6)))

    def check(self) -> None:
        """Whatever is kept reads as it was, whatever the reader knows."""
        images = {number: self.store.image("t1", number) for number in self.kept}
        for number, image in images.items():
            assert contents(image) == self.states[number], number
        for known in (None, *images.values()):
            if images:
                assert contents(self.store.image("t1", None, known)) == self.states[self.newest]


_MOVES: Mapping[str, int] = {"step": 6, "end": 3, "go_on_run": 1, "roll_back": 1, "go_back": 3, "edit": 1, "retain": 2}
_NAMES = [name for name, times in _MOVES.items() for _ in range(times)]


def play(told: Told, ops: Ops) -> list[list[int]]:
    """Make the moves; return what was kept after each."""
    kept: list[list[int]] = []
    for name, seed in ops:
        getattr(told, name)(random.Random(seed))
        kept.append(told.kept)
    told.check()
    return kept


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(_NAMES), st.integers(0, 10**6)), min_size=15, max_size=30))
def test_what_is_kept_reads_as_it_was_and_both_stores_keep_the_same(ops: Ops) -> None:
    with fakeredis.FakeRedis() as client:
        harnesses = partial(MemoryHarness), partial(RedisHarness, client)
        in_memory, in_redis = (play(Told(make()), ops) for make in harnesses)
    assert in_memory == in_redis

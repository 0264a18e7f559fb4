"""The model in short, with a clock that is turned. At length: ``make model``."""

from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tenxgraph.store.base import Claim, Refusal, TaskRef
from tenxgraph.store.memory import MemoryStore
from tenxgraph.testing.store_contract import MemoryHarness
from tests.chaos.model import Counted, counted, on_valkey, run_model

_LIMIT_S = 60


def test_the_memory_store_keeps_the_invariants_while_its_clock_jumps() -> None:
    moves, _ = run_model(MemoryHarness, 3_000, 1, _LIMIT_S)
    assert moves >= 3_000


def test_the_scripts_keep_the_invariants_on_a_real_server_while_its_clock_jumps(tmp_path: Path) -> None:
    with on_valkey(tmp_path) as make:
        moves, _ = run_model(make, 1_500, 1, _LIMIT_S)
    assert moves >= 1_500


def test_the_turned_clock_is_the_stores_and_the_scripts(tmp_path: Path) -> None:
    with on_valkey(tmp_path) as make:
        harness = make()
        before_ms = harness.store.now_ms()
        harness.sleep_ms(3_600_000)
        assert 0 <= harness.store.now_ms() - before_ms - 3_600_000 < 10_000


class WorkersClock(MemoryStore):
    """Lets a lease end by the clock of the worker that claims."""

    def claim(self, ref: TaskRef, nonce: str, **rest: object) -> Claim | Refusal:
        answer = super().claim(ref, nonce, **rest)  # type: ignore[arg-type]
        found = self._task(ref)
        if isinstance(answer, Claim) and not isinstance(found, Refusal):
            found[2].until_ms = 1_800_000_000_000
        return answer


def test_a_lease_by_the_workers_clock_is_found() -> None:
    machine = counted(lambda: MemoryHarness(WorkersClock), Counted())
    once = settings(max_examples=200, deadline=None, database=None, phases=[Phase.generate], derandomize=True)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=once)

"""The measure of how long a killed worker holds up its work, on ledgers and events made by hand."""

from typing import Any

import pytest

from tests.chaos.faults import Fault
from tests.chaos.recovery import NEVER, Start, history_of, recoveries, starts_of
from tests.chaos.report import Report, share
from tests.chaos.run import LEASE_S, RECOVERY_S, too_late

_Event = tuple[float, dict[str, Any]]


def _step(at_s: float) -> _Event:
    return at_s, {"event": "step_start", "step": 1}


def _claim(at_s: float, attempt: int = 1, task: str = "0") -> _Event:
    return at_s, {"event": "task_start", "step": 1, "task": task, "attempt": attempt}


def _commit(at_s: float, attempt: int = 1, task: str = "0") -> _Event:
    return at_s, {"event": "task_end", "step": 1, "task": task, "attempt": attempt}


def _fenced(at_s: float, attempt: int = 1) -> _Event:
    return at_s, {"event": "attempt_discarded", "step": 0, "node": "n", "task": "0", "attempt": attempt}


def _advance(at_s: float) -> _Event:
    return at_s, {"event": "step_end", "step": 1}


def _run_end(at_s: float) -> _Event:
    return at_s, {"event": "run_end", "data": {"status": "cancelled"}}


def _start(worker: str, at_s: float, attempt: int = 1, pid: str = "7") -> Start:
    return Start("r", 1, "0", "n", attempt, worker, pid, at_s)


def _kill(whom: str, at_s: float) -> Fault:
    return Fault("worker killed", at_s - 0.01, at_s, whom)


def _took(starts: list[Start], events: list[_Event], *faults: Fault) -> list[tuple[str, float]]:
    found = recoveries(starts, [history_of("r", events)], faults, LEASE_S)
    return [(recovery.kill.whom, round(recovery.took_s, 6)) for recovery in found]


def test_it_counts_from_the_kill_to_the_next_claim() -> None:
    events = [_step(8.9), _claim(9.0), _fenced(13.0), _claim(13.5, 2), _commit(14.0, 2)]
    assert _took([_start("w0#1", 9.0), _start("w1#1", 13.5, 2)], events, _kill("w0#1", 10.0)) == [("w0#1", 3.5)]


def test_whoever_took_over_and_is_killed_too_has_a_recovery_of_its_own() -> None:
    events = [_claim(9.0), _fenced(13.0), _claim(13.5, 2), _fenced(18.0, 2), _claim(19.0, 3), _commit(19.1, 3)]
    starts = [_start("w0#1", 9.0), _start("w1#1", 13.5, 2), _start("w0#2", 19.0, 3)]
    assert _took(starts, events, _kill("w0#1", 10.0), _kill("w1#1", 14.0)) == [("w0#1", 3.5), ("w1#1", 5.0)]


def test_the_clock_starts_when_the_store_is_back() -> None:
    events = [_claim(9.0), _fenced(17.0), _claim(17.5, 2)]
    away, later = Fault("server killed", 12.0, 13.5, "redis"), Fault("server killed", 18.0, 19.0, "redis")
    assert _took([_start("w0#1", 9.0)], events, _kill("w0#1", 10.0), away, later) == [("w0#1", 4.0)]


def test_what_was_late_before_a_restart_stays_late() -> None:
    starts, held = [_start("w0#1", 9.0)], [_claim(9.0), _fenced(61.0), _claim(62.0, 2)]
    assert _took(starts, held, _kill("w0#1", 10.0), Fault("server killed", 58.0, 60.0, "redis")) == [("w0#1", 48.0)]
    wait = [_step(9.9), _claim(62.0)]
    assert _took([], wait, _kill("w0#1", 10.0), Fault("messages dropped", 60.0, 60.0, "1")) == [("w0#1", 50.0)]
    assert _took([], wait, _kill("w0#1", 10.0), _kill("w1#1", 60.0)) == [("w0#1", 50.0)]


@pytest.mark.parametrize("kind", ["worker paused", "connections cut", "scheduler killed", "messages dropped"])
def test_nothing_else_starts_the_clock_of_an_attempt(kind: str) -> None:
    events = [_claim(9.0), _fenced(17.0), _claim(17.5, 2)]
    meanwhile = Fault(kind, 12.0, 13.5, "w1#1")
    assert _took([_start("w0#1", 9.0)], events, _kill("w0#1", 10.0), meanwhile) == [("w0#1", 7.5)]


@pytest.mark.parametrize(
    "over", [_commit(9.5), _fenced(9.5), (9.5, {"event": "interrupt", "step": 1, "task": "0", "attempt": 1})]
)
def test_what_was_over_at_the_kill_needed_no_recovery(over: _Event) -> None:
    assert _took([_start("w0#1", 9.0)], [_claim(9.0), over, _claim(10.5, 2)], _kill("w0#1", 10.0)) == []


def test_a_commit_on_its_way_while_its_process_dies_is_the_end_of_it() -> None:
    events = [_claim(9.0), _commit(10.01), _advance(10.01), _run_end(30.0)]
    assert _took([_start("w0#1", 9.0)], events, _kill("w0#1", 10.0)) == [("w0#1", 0.01)]


def test_a_run_that_ends_needs_its_tasks_no_more() -> None:
    assert _took([_start("w0#1", 9.0)], [_claim(9.0), _run_end(12.0)], _kill("w0#1", 10.0)) == [("w0#1", 2.0)]


def test_what_nobody_takes_up_is_never_recovered() -> None:
    assert _took([_start("w0#1", 9.0)], [_claim(9.0), _fenced(13.0)], _kill("w0#1", 10.0)) == [("w0#1", NEVER)]


def test_one_process_of_a_pool_is_not_its_siblings() -> None:
    starts = [_start("w1#1", 9.0, pid="7")]
    events = [_claim(9.0), _claim(13.0, 2)]
    assert _took(starts, events, Fault("pool process killed", 10.0, 10.0, "w1#1/8")) == []
    assert _took(starts, events, Fault("pool process killed", 10.0, 10.0, "w1#1/7")) == [("w1#1/7", 3.0)]


def test_another_worker_or_life_is_nobody_s_killer() -> None:
    events = [_claim(9.0), _commit(12.0)]
    assert _took([_start("w0#1", 9.0)], events, _kill("w0#2", 10.0), _kill("w1#1", 10.0)) == []


def test_a_message_that_died_with_its_taker_counts_for_the_first_kill_of_its_wait() -> None:
    events = [_step(8.9), _claim(14.9)]
    assert _took([], events, _kill("w0#1", 9.9), _kill("w1#1", 10.9)) == [("w0#1", 4.0)]
    assert _took([], events, _kill("w0#1", 9.9), Fault("messages dropped", 10.9, 10.9, "1")) == [("w0#1", 4.0)]
    assert _took([], events, Fault("messages dropped", 10.9, 10.9, "1")) == []
    assert _took([], [_step(8.9), _claim(11.8)], _kill("w0#1", 9.9)) == []


def test_a_claim_whose_node_never_began_counts() -> None:
    assert _took([], [_step(8.9), _claim(9.0), _fenced(13.0), _claim(13.5, 2)], _kill("w0#1", 9.5)) == [("w0#1", 4.0)]


def test_an_advance_that_died_with_its_worker_counts() -> None:
    both = [_claim(8.0), _claim(8.0, 1, "1"), _commit(8.5), _commit(9.0, 1, "1")]
    starts = [_start("w0#1", 8.0)]
    assert _took(starts, [*both, _advance(13.5)], _kill("w0#1", 9.5)) == [("w0#1", 4.0)]
    assert _took(starts, [*both, _advance(9.1)], _kill("w0#1", 9.5)) == []


def test_a_sibling_that_takes_its_time_is_no_advance_that_waits() -> None:
    events = [_claim(8.0), _claim(8.0, 1, "1"), _commit(8.5), _commit(13.0, 1, "1"), _advance(13.1)]
    sibling = Start("r", 1, "1", "n", 1, "w1#1", "7", 8.0)
    assert _took([_start("w0#1", 8.0), sibling], events, _kill("w0#1", 9.0)) == []


def test_the_bound_is_held_against_all() -> None:
    report = Report(1, recoveries=recoveries([_start("w0#1", 9.0)], [history_of("r", [_claim(9.0)])], [], LEASE_S))
    assert too_late(report) == []
    for end_s, is_late in ((10.0 + RECOVERY_S, False), (10.01 + RECOVERY_S, True)):
        history = history_of("r", [_claim(9.0), _claim(end_s, 2)])
        report.recoveries = recoveries([_start("w0#1", 9.0)], [history], [_kill("w0#1", 10.0)], LEASE_S)
        assert bool(too_late(report)) is is_late


def test_what_else_broke_is_told_and_excuses_nothing() -> None:
    faults = [_kill("w0#1", 10.0), Fault("worker paused", 12.0, 18.0, "w1#1")]
    history = history_of("r", [_claim(9.0), _claim(10.01 + RECOVERY_S, 2)])
    report = Report(1, faults=faults, recoveries=recoveries([_start("w0#1", 9.0)], [history], faults, LEASE_S))
    assert len(too_late(report)) == 1
    assert "worker paused w1#1 +2.0 s" in str(report)
    assert "none of them where nothing else broke" in str(report)


def test_a_share_is_the_least_value_that_covers_it() -> None:
    assert (share([3.0, 1.0, 2.0], 0.5), share([3.0, 1.0, 2.0], 0.99), share([5.0], 0.5)) == (2.0, 3.0, 5.0)


def test_the_last_line_of_a_ledger_may_be_cut() -> None:
    assert starts_of(["r 1 0 n 1 w0#1 7 9.0", "r 1 0 n 2 w0"]) == [_start("w0#1", 9.0)]

"""A short chaos run, and how long a killed worker holds up its tasks. The long run: ``make chaos``."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenxgraph.core.graph import CompiledGraph
from tenxgraph.core.state import Message
from tests.chaos.faults import Fault
from tests.chaos.fleet import Fleet
from tests.chaos.graphs import GRAPHS
from tests.chaos.report import Start, recoveries, share
from tests.chaos.run import RECOVERY_S, SETTINGS, Plan, environment, run_chaos
from tests.chaos.stories import STORIES, story_of

pytestmark = pytest.mark.timeout(240)

_SEED = 4
_KILLS = 4
_LOOK_S = 0.02


def test_nothing_is_lost_and_nothing_twice_while_everything_breaks(tmp_path: Path) -> None:
    report = run_chaos(Plan(threads=40, in_flight=12, chaos_s=20, seed=_SEED), tmp_path)
    assert not report.violations, str(report)
    assert len(report.faults) >= 3, str(report)
    assert sum(report.stories.values()) >= 40
    assert report.tasks > 800


# -- how long a kill holds up a task


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Two workers whose nodes take their time, and one scheduler."""
    with environment(SETTINGS, tmp_path):
        settings = dict(SETTINGS)
        with Fleet(tmp_path, settings, pools=("threads", "threads"), schedulers=1, work_s=0.4, long_s=0.4) as started:
            yield started


def test_a_killed_worker_holds_up_its_tasks_for_lease_and_scan_and_two_seconds_at_most(fleet: Fleet) -> None:
    app: CompiledGraph[Any] = GRAPHS["plain"].compile(redis_url=fleet.url)
    took_s = [_recovery_s(fleet, app, f"t{number}") for number in range(_KILLS)]
    assert max(took_s) <= RECOVERY_S, took_s


def _recovery_s(fleet: Fleet, app: "CompiledGraph[Any]", thread_id: str) -> float:
    """Kill the worker that holds a task of a run; return how long it took until the task was done elsewhere."""
    handle = app.submit({"messages": [Message.text_message("go")]}, {"thread_id": thread_id})
    run, victim = handle.run_id, ""
    while not victim:
        victim = next((name for name, task in _begun(fleet, run) if task == "1/0/first"), "")
        time.sleep(_LOOK_S)
    member = next(member for member in fleet.workers if member.label == victim)
    fleet.kill(member)
    killed_s = time.monotonic()
    while not any("special" in task for _, task in _begun(fleet, run)):
        assert time.monotonic() < killed_s + 60, f"the task was never done: {_begun(fleet, run)}\n{fleet.logs()}"
        time.sleep(_LOOK_S)
    took_s = time.monotonic() - killed_s
    handle.result(timeout_s=60)
    return took_s


def _begun(fleet: Fleet, run: str) -> list[tuple[str, str]]:
    lines = [line.split() for line in fleet.ledger_path.read_text().splitlines()]
    return [(worker, f"{step}/{task}/{node}") for name, step, task, node, _, worker, _ in lines if name == run]


# -- the measure itself


def test_the_stories_come_in_their_shares() -> None:
    names = [story_of(number) for number in range(200)]
    assert {name: names.count(name) for name in STORIES} == {name: 2 * story.share for name, story in STORIES.items()}


def _start(worker: str, attempt: int, at_s: float) -> Start:
    return Start("r", 1, "0", "n", attempt, worker, at_s)


def test_a_recovery_counts_from_the_kill_to_the_commit_by_another() -> None:
    kill = Fault("worker killed", 10.0, 10.0, "w0#1")
    starts = [_start("w0#1", 1, 9.0), _start("w1#1", 2, 13.5)]
    ended = {("r", 1, "0"): (2, 14.0)}
    assert recoveries(starts, ended, [kill]) == ([4.0], [4.0])


def test_a_recovery_that_something_else_held_up_is_told_apart() -> None:
    faults = [Fault("worker killed", 10.0, 10.0, "w0#1"), Fault("server killed", 12.0, 12.5, "redis")]
    ended = {("r", 1, "0"): (2, 18.0)}
    assert recoveries([_start("w0#1", 1, 9.0)], ended, faults) == ([8.0], [])


def test_what_was_committed_before_the_kill_needed_no_recovery() -> None:
    kill = Fault("worker killed", 10.0, 10.0, "w0#1")
    assert recoveries([_start("w0#1", 1, 9.0)], {("r", 1, "0"): (1, 9.5)}, [kill]) == ([], [])


def test_a_share_is_the_least_value_that_covers_it() -> None:
    assert (share([3.0, 1.0, 2.0], 0.5), share([3.0, 1.0, 2.0], 0.99), share([5.0], 0.5)) == (2.0, 3.0, 5.0)

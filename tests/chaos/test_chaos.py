"""A short chaos run, and how long a killed worker holds up its tasks. The long run: ``make chaos``."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenxgraph.core.graph import CompiledGraph
from tenxgraph.core.state import Message
from tests.chaos.fleet import Fleet
from tests.chaos.graphs import GRAPHS
from tests.chaos.recovery import starts_of
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
    starts = starts_of(fleet.ledger_path.read_text().splitlines())
    return [(start.worker, f"{start.step}/{start.task}/{start.node}") for start in starts if start.run == run]


def test_the_stories_come_in_their_shares() -> None:
    names = [story_of(number) for number in range(200)]
    assert {name: names.count(name) for name in STORIES} == {name: 2 * story.share for name, story in STORIES.items()}

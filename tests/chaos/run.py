"""One chaos run: clients tell their stories while all around them breaks; then all is compared with the oracle."""

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson
import redis

from tenxgraph.core.graph import RunStatus
from tenxgraph.settings import Settings
from tenxgraph.store.redis import RedisStore, redis_store
from tests.chaos.faults import Faults
from tests.chaos.fleet import Fleet
from tests.chaos.recovery import History, history_of, recoveries, starts_of
from tests.chaos.report import Report, share
from tests.chaos.standing import differences
from tests.chaos.stories import STORIES, story_of
from tests.chaos.teller import Teller, insist

LEASE_S: Final = 3.0
SCAN_S: Final = 0.5
RECOVERY_S: Final = LEASE_S + SCAN_S + 2
SETTINGS: Final = {
    "LEASE_S": str(LEASE_S),
    "HEARTBEAT_S": "1",
    "SCAN_S": str(SCAN_S),
    "MAX_DELIVERIES": "50",
    "MAX_LOST_LEASES": "50",
    "KEY_PREFIX": "chaos",
    "DEFAULT_QUEUE": "chaos-queue",
}
_EMPTY_S: Final = 20.0


@dataclass
class Plan:
    """How much of it.

    Attributes:
        threads: At least this many.
        in_flight: How many clients at once.
        chaos_s: New threads are begun until so much time has passed, and there are enough.
        patience_s: A run that takes longer is stuck.
        only: Faults whose kind holds this text; empty for all.
        steps: How steps travel, ``task`` or ``sticky``.
    """

    threads: int = 500
    in_flight: int = 24
    chaos_s: float = 0.0
    patience_s: float = 90.0
    seed: int = 0
    only: str = ""
    steps: str = "task"


@dataclass
class _Ended:
    """What a thread's events say: (run, step, task) → its commit and questions; who had what when."""

    commits: dict[tuple[str, int, str], int] = field(default_factory=dict)
    asked: dict[tuple[str, str], tuple[str, int, str]] = field(default_factory=dict)
    histories: list[History] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def run_chaos(plan: Plan, folder: Path, say: Callable[[str], None] = lambda _line: None, **fleet: Any) -> Report:
    """Run it and return what came of it."""
    with environment(SETTINGS, folder), Fleet(folder, dict(SETTINGS), **fleet) as started:
        return _Chaos(plan, started, say).run()


@contextmanager
def environment(settings: Mapping[str, str], folder: Path) -> Iterator[None]:
    """Clients read the same settings; the oracle's nodes note their starts elsewhere."""
    own = {f"TENXGRAPH_{name}": value for name, value in settings.items()}
    own |= {"LEDGER": str(folder / "oracle-ledger"), "CHAOS_WORK_S": "0", "CHAOS_LONG_S": "0"}
    before = {name: os.environ.get(name) for name in own}
    os.environ.update(own)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


class _Chaos:
    def __init__(self, plan: Plan, fleet: Fleet, say: Callable[[str], None]) -> None:
        self._plan, self._fleet, self._say = plan, fleet, say
        self._report = Report(plan.seed)
        self._faults = Faults(fleet, plan.seed, only=plan.only)
        self._store: RedisStore = redis_store(fleet.url, Settings.load())
        self._apps = {name: story.compile(redis_url=fleet.url, steps=plan.steps) for name, story in STORIES.items()}
        self._oracles = {name: story.compile_oracle() for name, story in STORIES.items()}
        self._tellers: dict[str, Teller] = {}
        self._commits: dict[tuple[str, int, str], int] = {}
        self._histories: list[History] = []

    def run(self) -> Report:
        began_s = time.monotonic()
        self._faults.start()
        try:
            self._tell_all(began_s)
        finally:
            self._faults.stop()
        self._say(f"all told after {time.monotonic() - began_s:.0f} s; comparing")
        self._check_all()
        self._check_that_nothing_is_left()
        self._sum_up()
        self._report.took_s = time.monotonic() - began_s
        return self._report

    def _violation(self, thread_id: str, what: object) -> None:
        self._report.violations.append(f"{thread_id} ({story_of(_number(thread_id))}): {what}")

    # -- the clients

    def _tell_all(self, began_s: float) -> None:
        with ThreadPoolExecutor(self._plan.in_flight) as pool:
            for _ in range(self._plan.in_flight):
                pool.submit(self._tell_on, began_s)

    def _tell_on(self, began_s: float) -> None:
        while len(self._tellers) < self._plan.threads or time.monotonic() - began_s < self._plan.chaos_s:
            self._tell(self._next_thread())

    def _next_thread(self) -> str:
        thread_id = f"t{len(self._tellers)}"
        name = story_of(_number(thread_id))
        chance = random.Random(f"{self._plan.seed} {thread_id}")
        teller = Teller(self._apps[name], thread_id, self._plan.patience_s, chance=chance)
        # Two threads of the pool may draw the same number: the first has it.
        return thread_id if self._tellers.setdefault(thread_id, teller) is teller else self._next_thread()

    def _tell(self, thread_id: str) -> None:
        try:
            STORIES[story_of(_number(thread_id))].tell(self._tellers[thread_id])
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not be
            self._violation(thread_id, f"{type(error).__name__}: {error}; {self._stand(thread_id)}")
        done = len(self._tellers)
        if done % 50 == 0:
            self._say(f"{done} threads, {len(self._faults.done)} faults, {len(self._report.violations)} violations")

    def _stand(self, thread_id: str) -> str:
        try:
            runs = insist(lambda: self._store.runs(thread_id))
            tasks = insist(lambda: self._store.tasks(runs[-1].run_id)) if runs else []
        except Exception as error:  # noqa: BLE001 - it only adds to what is told
            return f"nothing can be read: {error}"
        return f"{runs[-1:]} {tasks}"

    # -- what must hold

    def _check_all(self) -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(self._check, list(self._tellers)))

    def _check(self, thread_id: str) -> None:
        try:
            for fault in self._faults_of(thread_id):
                self._violation(thread_id, fault)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not be
            self._violation(thread_id, f"cannot be checked: {type(error).__name__}: {error}")

    def _faults_of(self, thread_id: str) -> Iterator[str]:
        teller, name = self._tellers[thread_id], story_of(_number(thread_id))
        runs = self._store.runs(thread_id)
        stands = {run.run_id: run.status for run in runs}
        if stands != teller.runs:
            yield f"the runs are {stands}, not {teller.runs}"
        ended = self._ended(thread_id, stands)
        yield from ended.faults
        self._commits |= ended.commits
        self._histories += ended.histories
        yield from _asked_and_answered(ended, teller)
        versions = [point.version.number for point in self._store.checkpoints(thread_id, limit=1000)]
        if versions != list(range(len(versions), 0, -1)):
            yield f"the versions are {versions}"
        state = teller.state()
        yield from differences(STORIES[name], self._oracles[name], teller, runs, state)
        marks = state.marks
        told = {_key(mark) for mark in marks}
        committed = set(ended.commits)
        if len(told) != len(marks) or told - committed:
            yield f"merged: {Counter(map(_key, marks)).most_common(3)}; committed: {sorted(committed)}"

    def _ended(self, thread_id: str, runs: Mapping[str, RunStatus]) -> _Ended:
        """Read all events of a thread: what ended, once, and how each run did."""
        found = _Ended()
        for run_id, status in runs.items():
            events = list(self._events(thread_id, run_id))
            found.histories.append(history_of(run_id, events))
            for _, event in events:
                if event["event"] == "task_end":
                    _note_end(found, run_id, event)
                elif event["event"] == "interrupt":
                    _note_question(found, run_id, event)
            last = events[-1][1] if events else {}
            if (last.get("event"), last.get("data", {}).get("status")) != ("run_end", status):
                found.faults.append(f"the events of {run_id}, which is {status}, end with {last}")
        return found

    def _events(self, thread_id: str, run_id: str) -> Iterator[tuple[float, dict[str, Any]]]:
        after = ""
        while batch := self._store.events(thread_id, run_id, after, timeout_s=0):
            for stored in batch:
                for line in stored.body.splitlines():
                    yield stored.at_ms / 1000, orjson.loads(line)
            after = batch[-1].id

    # -- the end

    def _check_that_nothing_is_left(self) -> None:
        for thread_id in self._tellers:
            if not insist(lambda thread_id=thread_id: self._store.delete_thread(thread_id)):  # type: ignore[misc]
                self._violation(thread_id, f"cannot be deleted: {self._stand(thread_id)}")
        deadline_s = time.monotonic() + _EMPTY_S
        while (left := self._keys()) and time.monotonic() < deadline_s:
            time.sleep(0.1)
        if left:
            self._report.violations.append(f"{len(left)} keys are left: {left[:10]}")

    def _keys(self) -> list[str]:
        with redis.Redis(port=self._fleet.server.port, decode_responses=True) as client:
            return sorted(client.scan_iter(f"{SETTINGS['KEY_PREFIX']}:*", count=1000))

    def _sum_up(self) -> None:
        starts = starts_of(self._fleet.ledger_path.read_text().splitlines())
        report, faults = self._report, self._faults.done
        report.recoveries = recoveries(starts, self._histories, faults, LEASE_S)
        report.stories = Counter(story_of(_number(thread_id)) for thread_id in self._tellers)
        report.runs = sum(len(teller.runs) for teller in self._tellers.values())
        report.tasks, report.starts = len(self._commits), len(starts)
        report.faults, report.own_deaths = faults, self._fleet.own_deaths
        report.violations += too_late(report)
        never_begun = set(self._commits) - {start.key for start in starts}
        if never_begun:
            report.violations.append(f"committed, but never begun: {sorted(never_begun)[:5]}")


def too_late(report: Report) -> list[str]:
    """Hold what kills held up against the bound: all kills, whatever else happened meanwhile."""
    took_s = [found.took_s for found in report.recoveries]
    p99_s = share(took_s, 0.99) if took_s else 0.0
    bound = f"more than lease + scan + 2 s = {RECOVERY_S:g} s"
    return (
        [f"what killed workers held came to others within {p99_s:.2f} s (p99), {bound}"] if p99_s > RECOVERY_S else []
    )


def _number(thread_id: str) -> int:
    return int(thread_id[1:])


def _key(mark: str) -> tuple[str, int, str]:
    run, step, task, _ = mark.split("/", 3)
    return run, int(step), task


def _note_question(found: _Ended, run_id: str, event: dict[str, Any]) -> None:
    """What goes on after a stop asks again, the same question; no run asks one twice."""
    key, question = (run_id.removesuffix("-again"), event["step"], event["task"]), event["data"]["id"]
    if (run_id, question) in found.asked:
        found.faults.append(f"{run_id} asked {question} twice")
    found.asked[run_id, question] = key


def _note_end(found: _Ended, run_id: str, event: dict[str, Any]) -> None:
    key = (run_id.removesuffix("-again"), event["step"], event["task"])
    if key in found.commits:
        found.faults.append(f"{key} was committed twice: attempts {found.commits[key]} and {event['attempt']}")
    found.commits[key] = event["attempt"]


def _asked_and_answered(ended: _Ended, teller: Teller) -> Iterator[str]:
    """A task that was answered has run once, and once for each of its answers; what was killed besides left nothing."""
    for key in ended.commits:
        run, step, task = key
        answers = [question for question in teller.answers if question.startswith(f"{run}:{step}.{task}:")]
        asked = {question for (_, question), by in ended.asked.items() if by == key}
        if asked != set(answers):
            yield f"{key} has answers to {answers}; it asked {asked}"

"""How long a killed worker holds up what it had.

Each kill counts, also one that hits whoever had taken over, and is measured to the next claim by another attempt: what
becomes of that one is for the next kill. While the store itself is away nobody can recover anything: a restart parts
the time into stretches, and the longest of them counts, so that what was late before it stays late.

Two things that a killed worker had are seen. An attempt: its node has noted the process that ran it. And what nothing
names a process for: a message taken from the queue and not claimed, a claim whose node did not begin, an advance about
to be written. Such work is had by nobody for a lease and longer; a wait of that length counts for the first kill in it,
whoever was killed. A later kill, or a message dropped on purpose, may have struck the same work again: it parts the
time as a restart does.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.chaos.faults import Fault
from tests.chaos.graphs import AGAIN

NEVER: Final = float("inf")
_KILLS: Final = ("worker killed", "worker killed (2)", "pool process killed")
_STRIKES: Final = (*_KILLS, "scheduler killed", "worker paused", "messages dropped")
_ENDS: Final = ("task_end", "task_retry", "interrupt", "attempt_discarded")
_BEGINS: Final = ("run_start", "step_start")


@dataclass(frozen=True)
class Start:
    """A node's start, as it noted it itself."""

    run: str
    step: int
    task: str
    node: str
    attempt: int
    worker: str
    pid: str
    at_s: float

    @property
    def key(self) -> tuple[str, int, str]:
        """Step and task are counted on in the run that goes on."""
        return self.run.removesuffix(AGAIN), self.step, self.task

    @property
    def name(self) -> tuple[str, int, str, int]:
        return self.run, self.step, self.task, self.attempt


def starts_of(lines: Iterable[str]) -> list[Start]:
    """Read the ledger; its last line may have been cut by a kill."""
    words = [line.split() for line in lines]
    return [
        Start(run, int(step), task, node, int(attempt), worker, pid, float(at_s))
        for run, step, task, node, attempt, worker, pid, at_s in (line for line in words if len(line) == 8)
    ]


@dataclass
class Attempt:
    """An attempt and its moments, as far as there were such.

    Attributes:
        done_s: Committed, failed or asking, or its run at its end.
        fenced_s: Ended without its worker's word.
        next_s: The next attempt was claimed.
    """

    run: str
    step: int
    task: str
    number: int
    claimed_s: float
    done_s: float = NEVER
    fenced_s: float = NEVER
    next_s: float = NEVER

    @property
    def name(self) -> tuple[str, int, str, int]:
        return self.run, self.step, self.task, self.number

    def is_held_at(self, moment_s: float) -> bool:
        return self.claimed_s <= moment_s < min(self.done_s, self.fenced_s, self.next_s)

    @property
    def recovered_s(self) -> float:
        return min(self.next_s, self.done_s)


@dataclass
class History:
    """What the events of a run say of its work.

    Attributes:
        waits: Stretches in which work was there and nobody had it: from, until, what.
    """

    attempts: list[Attempt] = field(default_factory=list)
    waits: list[tuple[float, float, str]] = field(default_factory=list)


def history_of(run: str, events: Iterable[tuple[float, dict[str, Any]]]) -> History:
    """Read the events of a run, each with its moment in seconds, in order."""
    reader = _Reader(run)
    for at_s, event in events:
        reader.read(at_s, event)
    return reader.found


class _Reader:
    def __init__(self, run: str) -> None:
        self._run = run
        self._step = 0
        self._asked_s = self._planned_s = NEVER
        self._ready_s: dict[str, float] = {}
        self._present: dict[str, Attempt] = {}
        self.found = History()

    def read(self, at_s: float, event: dict[str, Any]) -> None:
        kind, task = event["event"], str(event.get("task"))
        if kind == "task_start":
            self._claim(at_s, event["step"], task, event["attempt"])
        elif kind in _ENDS and task in self._present:
            self._end(at_s, event, task)
        elif kind in _BEGINS:
            self._begin(at_s, kind)
        elif kind == "step_end":
            self._wait_over(self._planned_s, at_s, "the advance")
            self._planned_s = NEVER
        elif kind == "run_end":
            self._run_ends(at_s)

    def _claim(self, at_s: float, step: int, task: str, number: int) -> None:
        before = self._present.get(task)
        if before is not None:
            before.next_s = at_s
        since_s = self._asked_s if before is None else self._ready_s.get(task, NEVER)
        self._wait_over(since_s, at_s, f"{step}/{task}")
        self._ready_s[task] = NEVER
        self._present[task] = Attempt(self._run, step, task, number, at_s)
        self.found.attempts.append(self._present[task])

    def _end(self, at_s: float, event: dict[str, Any], task: str) -> None:
        attempt = self._present[task]
        is_discarded = event["event"] == "attempt_discarded"
        if not is_discarded:
            attempt.done_s = min(attempt.done_s, at_s)
        else:
            attempt.fenced_s = at_s
        if event["event"] == "task_end":
            self._planned_s = at_s  # of the last commit
        elif event["event"] == "task_retry" or is_discarded:
            self._ready_s[task] = at_s

    def _begin(self, at_s: float, kind: str) -> None:
        self._wait_over(self._planned_s, at_s, "the plan")
        self._asked_s = at_s
        self._planned_s = at_s if kind == "run_start" else NEVER
        if kind == "step_start":
            self._present.clear()
            self._ready_s.clear()

    def _run_ends(self, at_s: float) -> None:
        """No more is to be done: whoever held something needs no recovery from here."""
        for attempt in self.found.attempts:
            attempt.done_s = min(attempt.done_s, at_s)
        self._wait_over(self._planned_s, at_s, "the advance")
        self._asked_s = self._planned_s = NEVER
        self._present.clear()
        self._ready_s.clear()

    def _wait_over(self, since_s: float, at_s: float, what: str) -> None:
        if since_s < at_s:
            self.found.waits.append((since_s, at_s, f"{self._run}/{what}"))


_Break = tuple[float, float]
"""From when until when nothing could be taken up; the same moment twice where work may have been struck again."""


@dataclass(frozen=True)
class Recovery:
    """What a kill held up, and for how long."""

    kill: Fault
    what: str
    took_s: float

    def others(self, faults: Iterable[Fault]) -> list[Fault]:
        """Return what else broke until then."""
        since_s = self.kill.until_s
        until_s = since_s + self.took_s
        return [fault for fault in faults if fault != self.kill and since_s < fault.until_s and fault.at_s < until_s]

    def is_struck_again(self, faults: Iterable[Fault]) -> bool:
        """Tell whether what else broke may have hit the very message, claim or scheduler that was to recover it."""
        return any(fault.kind in _STRIKES for fault in self.others(faults))


def recoveries(
    starts: Sequence[Start], histories: Sequence[History], faults: Sequence[Fault], lease_s: float
) -> list[Recovery]:
    """Return what each kill of a worker, or of a process of its pool, held up.

    Args:
        starts: All of them.
        histories: Of all runs.
        faults: All of them.
        lease_s: A wait that is shorter proves nothing.
    """
    kills = [fault for fault in faults if fault.kind in _KILLS]
    away = [(fault.at_s, fault.until_s) for fault in faults if fault.kind == "server killed"]
    struck = [(fault.until_s, fault.until_s) for fault in faults if fault in kills or fault.kind == "messages dropped"]
    noted = {start.name: start for start in starts}
    attempts = [attempt for history in histories for attempt in history.attempts]
    begun = [(attempt, noted[attempt.name]) for attempt in attempts if attempt.name in noted]
    waits = [wait for history in histories for wait in history.waits]
    waits += [_never_begun(attempt) for attempt in attempts if attempt.name not in noted]
    held = [_after_its_kill(attempt, start, kills, away) for attempt, start in begun]
    waited = [_after_a_kill(wait, kills, [*away, *struck]) for wait in waits if wait[1] - wait[0] >= lease_s]
    return [found for found in (*held, *waited) if found is not None]


def _never_begun(attempt: Attempt) -> tuple[float, float, str]:
    return attempt.claimed_s, attempt.recovered_s, f"{_named(attempt)}, claimed and never begun"


def _named(attempt: Attempt) -> str:
    return f"{attempt.run}/{attempt.step}/{attempt.task}, attempt {attempt.number}"


def _after_its_kill(
    attempt: Attempt, start: Start, kills: Sequence[Fault], breaks: Sequence[_Break]
) -> Recovery | None:
    """The first kill is the one: nobody dies twice."""
    for kill in kills:
        is_its = kill.whom in (start.worker, f"{start.worker}/{start.pid}")
        if is_its and start.at_s <= kill.until_s and attempt.is_held_at(kill.until_s):
            return Recovery(kill, _named(attempt), _longest_stretch(kill.until_s, attempt.recovered_s, breaks))
    return None


def _after_a_kill(wait: tuple[float, float, str], kills: Sequence[Fault], breaks: Sequence[_Break]) -> Recovery | None:
    since_s, until_s, what = wait
    within = [kill for kill in kills if since_s <= kill.until_s < until_s]
    return Recovery(within[0], what, _longest_stretch(within[0].until_s, until_s, breaks)) if within else None


def _longest_stretch(since_s: float, until_s: float, breaks: Sequence[_Break]) -> float:
    longest_s = 0.0
    for begin_s, end_s in sorted(breaks):
        if begin_s < until_s and end_s > since_s:
            longest_s = max(longest_s, begin_s - since_s)
            since_s = end_s
    return max(longest_s, until_s - since_s)

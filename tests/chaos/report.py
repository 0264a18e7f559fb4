"""What a chaos run showed: numbers, and whatever was not as it must be."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.chaos.faults import Fault


@dataclass
class Start:
    """A node's start, as it noted it itself."""

    run: str
    step: int
    task: str
    node: str
    attempt: int
    worker: str
    at_s: float

    @property
    def key(self) -> tuple[str, int, str]:
        return self.run, self.step, self.task


def starts_of(lines: Iterable[str]) -> list[Start]:
    """Read the ledger; its last line may have been cut by a kill."""
    words = [line.split() for line in lines]
    return [
        Start(run, int(step), task, node, int(attempt), worker, float(at_s))
        for run, step, task, node, attempt, worker, at_s in (line for line in words if len(line) == 7)
    ]


def recoveries(
    starts: Sequence[Start],
    ended: dict[tuple[str, int, str], tuple[int, float]],
    faults: Sequence[Fault],
) -> tuple[list[float], list[float]]:
    """Return seconds from the kill of a worker to the commit of each task that it held.

    Args:
        starts: All of them.
        ended: Task → the attempt that was committed, and when.
        faults: All of them.

    Returns:
        All, and those in which nothing else befell the store or whoever had the task next.
    """
    every: list[float] = []
    alone: list[float] = []
    for kill in (fault for fault in faults if fault.kind.startswith("worker killed")):
        for start in starts:
            attempt, end_s = ended.get(start.key, (0, 0.0))
            if start.worker != kill.whom or start.at_s > kill.at_s or end_s < kill.at_s or attempt == start.attempt:
                continue
            every.append(end_s - kill.at_s)
            if not _is_disturbed(kill, end_s, faults):
                alone.append(end_s - kill.at_s)
    return every, alone


def _is_disturbed(kill: Fault, end_s: float, faults: Sequence[Fault]) -> bool:
    """A lease counts from its last renewal: what befell the store shortly before the kill counts too."""
    harmless = ("scheduler killed", "messages doubled", "connections cut")
    return any(
        fault is not kill and fault.kind not in harmless and fault.at_s < end_s and fault.until_s + 4 > kill.at_s
        for fault in faults
    )


def share(values: Sequence[float], part: float) -> float:
    """Return the least value that at least this part of them does not exceed; nan without any."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)] if ordered else math.nan


def told(values: Sequence[float]) -> str:
    """Return p50, p99 and the most of some seconds."""
    p50, p99, most = (share(values, part) for part in (0.5, 0.99, 1.0))
    return f"p50 {p50:.2f} s, p99 {p99:.2f} s, max {most:.2f} s of {len(values)}" if values else "none"


@dataclass
class Report:
    """The outcome.

    Attributes:
        violations: One sentence each; none if all is well.
        recovery_s: All recoveries after the kill of a worker.
        undisturbed_s: Those during which nothing else befell store and workers.
        steps_s: From the start of each step to its end.
    """

    seed: int
    took_s: float = 0.0
    stories: "Counter[str]" = field(default_factory=Counter)
    runs: int = 0
    tasks: int = 0
    starts: int = 0
    faults: Sequence[Fault] = ()
    own_deaths: "Counter[str]" = field(default_factory=Counter)
    recovery_s: list[float] = field(default_factory=list)
    undisturbed_s: list[float] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = Counter(fault.kind.removesuffix(" (2)") for fault in self.faults)
        lines = [
            f"seed {self.seed}, {self.took_s:.0f} s",
            f"threads {sum(self.stories.values())}: {_counted(self.stories)}",
            f"runs {self.runs}, tasks {self.tasks}, attempts {self.starts} ({self.starts - self.tasks} repeated)",
            f"faults {len(self.faults)}: {_counted(kinds)}",
            f"ended by themselves: {_counted(self.own_deaths) or 'none'}",
            f"recovery after the kill of a worker: {told(self.recovery_s)}",
            f"  of these, nothing else befell:     {told(self.undisturbed_s)}",
            f"violations {len(self.violations)}",
            *(f"  {violation}" for violation in self.violations[:50]),
        ]
        return "\n".join(lines)


def _counted(counter: "Counter[str]") -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counter.items()))

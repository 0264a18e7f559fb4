"""What a chaos run showed: numbers, and whatever was not as it must be."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.chaos.faults import Fault
from tests.chaos.recovery import Recovery

_SLOWEST: Final = 5


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
        recoveries: What each kill of a worker held up.
    """

    seed: int
    took_s: float = 0.0
    stories: "Counter[str]" = field(default_factory=Counter)
    runs: int = 0
    tasks: int = 0
    starts: int = 0
    faults: Sequence[Fault] = ()
    own_deaths: "Counter[str]" = field(default_factory=Counter)
    recoveries: list[Recovery] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = Counter(fault.kind.removesuffix(" (2)") for fault in self.faults)
        lines = [
            f"seed {self.seed}, {self.took_s:.0f} s",
            f"threads {sum(self.stories.values())}: {_counted(self.stories)}",
            f"runs {self.runs}, tasks {self.tasks}, attempts {self.starts} ({self.starts - self.tasks} repeated)",
            f"faults {len(self.faults)}: {_counted(kinds)}",
            f"ended by themselves: {_counted(self.own_deaths) or 'none'}",
            "from the kill of a worker, or from the store's return after it, until another had what it held:",
            f"  {told([found.took_s for found in self.recoveries])} by {self._kills()} kills",
            f"  {told(self._undisturbed_s())} of them where nothing else broke that could hold it up",
            *(
                f"  {found.took_s:.2f} s {found.what} ({found.kill.whom}){self._after(found)}"
                for found in self._slowest()
            ),
            f"violations {len(self.violations)}",
            *(f"  {violation}" for violation in self.violations[:50]),
        ]
        return "\n".join(lines)

    def _after(self, found: Recovery) -> str:
        """What else broke until then: it may explain what took long; it excuses nothing."""
        since_s, others = found.kill.until_s, found.others(self.faults)
        told = [f"{fault.kind} {fault.whom} {fault.at_s - since_s:+.1f} s" for fault in others]
        return f"; {', '.join(told)}" if told else ""

    def _undisturbed_s(self) -> list[float]:
        return [found.took_s for found in self.recoveries if not found.is_struck_again(self.faults)]

    def _kills(self) -> int:
        return len({found.kill for found in self.recoveries})

    def _slowest(self) -> list[Recovery]:
        return sorted(self.recoveries, key=lambda found: -found.took_s)[:_SLOWEST]


def _counted(counter: "Counter[str]") -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counter.items()))

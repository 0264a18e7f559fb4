"""Two sides measured in one run, in turns, and what their ratio is."""

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """What one comparison showed.

    Attributes:
        what: The workload and the sides.
        ours: Median, in ``unit``.
        peer: Median of the peer's; None where there is none.
        ratio: Median of the rounds' ratios; or whatever the goal is about.
        spread: Least and greatest of those.
        limit: The goal.
        at_least: Whether the goal is a least one.
    """

    what: str
    unit: str
    ours: float
    peer: float | None
    ratio: float
    spread: tuple[float, float]
    limit: float | None = None
    at_least: bool = False

    @property
    def holds(self) -> bool:
        """Whether the goal is met."""
        if self.limit is None:
            return True
        return self.ratio >= self.limit if self.at_least else self.ratio <= self.limit

    def __str__(self) -> str:
        return "| " + " | ".join(self.cells()) + " |"

    def cells(self) -> Sequence[str]:
        """Return the row of the table in docs/benchmarks.md."""
        peer = "–" if self.peer is None else f"{self.peer:.3g}"
        sign = "≥" if self.at_least else "≤"
        goal = "–" if self.limit is None else f"{sign} {self.limit:g}"
        verdict = "" if self.limit is None else "holds" if self.holds else "loses"
        low, high = self.spread
        return (
            self.what,
            f"{self.ours:.3g} {self.unit}",
            peer,
            f"{self.ratio:.2f} ({low:.2f}–{high:.2f})",
            goal,
            verdict,
        )


HEAD = "| workload | ours | peer | ratio (spread) | goal | |\n|---|--:|--:|--:|--:|---|"


def took_s(what: Callable[[], object]) -> float:
    """Return how long a call took, in seconds."""
    begin_s = time.perf_counter()
    what()
    return time.perf_counter() - begin_s


def take_turns(sides: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Measure each side in each round, the first one of a round being another each time.

    Returns:
        Side → its values by round, after one round that warms up.
    """
    names = list(sides)
    for name in names:
        sides[name]()
    values: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        for position in range(len(names)):
            name = names[(number + position) % len(names)]
            values[name].append(sides[name]())
    return values


def compare(
    what: str, unit: str, ours: Sequence[float], peer: Sequence[float], limit: float | None, *, at_least: bool = False
) -> Row:
    """Return the row of two sides that were measured in the same rounds."""
    ratios = [mine / other for mine, other in zip(ours, peer, strict=True)]
    medians = statistics.median(ours), statistics.median(peer)
    spread = min(ratios), max(ratios)
    return Row(what, unit, *medians, statistics.median(ratios), spread, limit, at_least)


def alone(what: str, unit: str, ours: Sequence[float], judged: Sequence[float], limit: float | None) -> Row:
    """Return the row of one side; ``judged`` is what the goal is about: ratios, or the figures themselves."""
    spread = min(judged), max(judged)
    return Row(what, unit, statistics.median(ours), None, statistics.median(judged), spread, limit)


def tell(rows: Iterable[Row]) -> int:
    """Print each row as it comes; return 1 if a goal was missed, else 0."""
    print(HEAD, flush=True)
    missed = 0
    for row in rows:
        print(row, flush=True)
        missed |= not row.holds
    return int(missed)

"""The fault kit: run a graph of yours while everything around it breaks, and compare with the undisturbed run.

    from tenxgraph.testing import run_under_faults

    print(run_under_faults(graph, {"messages": [Message.text_message("Hi")]}))

Client, workers, scheduler, queue and clock are simulated in one thread, on the same engine that real workers run: a
graph of ten nodes goes through hundreds of faults in a second or two. Nodes run for real, more than once where a fault
asks for that; what they do to the outside world they do each time.
"""

import difflib
import logging
import pprint
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from tenxgraph.core.graph.compiled_graph import CompiledGraph
from tenxgraph.core.graph.definition import GraphDefinition
from tenxgraph.core.graph.state_graph import StateGraph
from tenxgraph.testing.crash import End
from tenxgraph.testing.faults_crew import HAND_IN, THREAD_ID, Manners, Strike, Trouble, TroubledCrew

_CHANCES: Final = 5
"""How many seeds each fault of the queue is tried with."""

_AWAY_CALLS: Final = 4
_SHOWN_LINES: Final = 60


class KillPoint(StrEnum):
    """Where a process is killed."""

    AFTER_ADMISSION = "after admission"
    """The client: the run is in the store, its first message is not sent."""
    BEFORE_CLAIM = "before claim"
    """The worker: it has the message, and nothing else."""
    AFTER_CLAIM = "after claim"
    """The worker: its node has not begun."""
    BEFORE_COMMIT = "before commit"
    """The worker: its node has run, and nothing of it is stored."""
    AFTER_COMMIT = "after commit"
    """The worker: its update is stored beside those of its siblings, and not merged."""
    AFTER_ADVANCE = "after advance"
    """The worker: the step is merged, the next one's messages are not sent."""
    AFTER_DISPATCH = "after dispatch"
    """The sender of a message, before it can note that it did."""


_POINTS: Final[Mapping[KillPoint, tuple[tuple[str, ...], str]]] = {
    KillPoint.AFTER_ADMISSION: (("admit",), "after"),
    KillPoint.BEFORE_CLAIM: (("claim",), "before"),
    KillPoint.AFTER_CLAIM: (("claim",), "after"),
    KillPoint.BEFORE_COMMIT: (HAND_IN, "before"),
    KillPoint.AFTER_COMMIT: (("commit",), "after"),
    KillPoint.AFTER_ADVANCE: (("advance",), "after"),
    KillPoint.AFTER_DISPATCH: (("dispatch",), "after"),
}


@dataclass(frozen=True, slots=True)
class Kill:
    """A process is killed at the ``nth`` time, from 0, that one comes to a point."""

    at: KillPoint | str
    nth: int = 0

    def strikes(self) -> Iterator[Strike]:
        """What it does to effects."""
        effects, how = _POINTS[KillPoint(self.at)]
        yield Strike(effects, how, self.nth)


@dataclass(frozen=True, slots=True)
class LoseReply:
    """The store did as asked, and its reply is lost: the ``nth`` time, from 0.

    Attributes:
        of: A method of the store, such as ``claim`` or ``commit``; empty for any that writes.
        is_repeated: Whether the caller asks again at once, as real workers do, or breaks off.
    """

    of: str = ""
    nth: int = 0
    is_repeated: bool = True

    def strikes(self) -> Iterator[Strike]:
        """What it does to effects."""
        yield Strike((self.of,) if self.of else (), "no reply", self.nth)


@dataclass(frozen=True, slots=True)
class PauseWorker:
    """A worker stands still, its result in hand and past its lease, until another did the task; then it goes on."""

    nth: int = 0

    def strikes(self) -> Iterator[Strike]:
        """What it does to effects."""
        yield Strike(HAND_IN, "pause", self.nth)


@dataclass(frozen=True, slots=True)
class RestartStore:
    """The store is killed at its ``nth`` write, from 0, answers some calls with an error, and is back with its data."""

    nth: int = 0
    calls: int = _AWAY_CALLS

    def strikes(self) -> Iterator[Strike]:
        """What it does to effects."""
        yield Strike((), "away", self.nth, self.calls)


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Every message is delivered so many times."""

    copies: int = 2


@dataclass(frozen=True, slots=True)
class Drop:
    """The queue loses these messages, counted from 0 in the order of their sending."""

    numbers: Sequence[int]


@dataclass(frozen=True, slots=True)
class Delay:
    """A share of the messages comes late: some after the scheduler sent them again."""

    share: float = 0.5
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Reorder:
    """Messages come in any order."""

    seed: int = 0


Striking = Kill | LoseReply | PauseWorker | RestartStore
Fault = Striking | Duplicate | Drop | Delay | Reorder


@dataclass(frozen=True, slots=True)
class FaultReport:
    """What a graph went through; every end was the same.

    Attributes:
        rounds: Kind of fault → how often the inputs were run with it.
        starts: Node → how often it began in the undisturbed run, and at most in any other.
    """

    rounds: Mapping[str, int] = field(default_factory=dict[str, int])
    starts: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.rounds.items())
        begun = ", ".join(f"{node} {most} for {least}" for node, (least, most) in self.starts.items() if most > least)
        rounds = sum(self.rounds.values())
        return f"{rounds} rounds with the same end: {kinds}. Most starts of a node: {begun or 'as ever'}."


def run_under_faults(
    graph: StateGraph[Any] | CompiledGraph[Any],
    inputs: Any,
    faults: Sequence[Fault | Sequence[Fault]] | None = None,
    *,
    config: Mapping[str, Any] | None = None,
) -> FaultReport:
    """Run a graph once undisturbed and once with each fault; every end must be the same.

    Compared are the status of each run, the state at each checkpoint without times, and which nodes each step merged.
    So the graph must be deterministic: what it draws, reads from a clock or from outside must be the same each time.

    Args:
        graph: A builder or a compiled graph.
        inputs: One input of ``invoke``, or a list of them for one thread, each given when the last run has settled. One
            may be a function from the open questions, id → value, to the input.
        faults: One round for each; a sequence among them is one round with several at once. None: every fault at every
            place where it can strike.
        config: For each call, without ``thread_id`` and ``run_id``.

    Raises:
        AssertionError: An end differs, or a run does not end; names the fault and shows the first differences.
        InvalidInputError: The graph does not take an input.
    """
    given: list[Any] = inputs if isinstance(inputs, list) else [inputs]
    with _quiet():
        trial = _Trial(_definition(graph), given, config or {})
        rounds = list(trial.every_fault()) if faults is None else [_as_round(fault) for fault in faults]
        for together in rounds:
            trial.must_end_the_same(together)
    kinds = Counter(" + ".join(type(fault).__name__ for fault in together) for together in rounds)
    starts = {node: (count, max(count, trial.most[node])) for node, count in trial.usual.items()}
    return FaultReport(kinds, starts)


@contextmanager
def _quiet() -> Generator[None, None, None]:
    """Hundreds of rounds would tell hundreds of times what they do on purpose."""
    logger = logging.getLogger("tenxgraph")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def _definition(graph: StateGraph[Any] | CompiledGraph[Any]) -> GraphDefinition[Any]:
    return graph.define() if isinstance(graph, StateGraph) else graph.definition


def _as_round(fault: Fault | Sequence[Fault]) -> tuple[Fault, ...]:
    return tuple(fault) if isinstance(fault, Sequence) else (fault,)


class _Trial:
    def __init__(self, definition: GraphDefinition[Any], inputs: Sequence[Any], config: Mapping[str, Any]) -> None:
        self._definition, self._inputs, self._config = definition, inputs, config
        crew = self._crew(())
        crew.tell(inputs, config)
        self._effects, self._moves = list(crew.faults.effects), crew.moves
        self._end = crew.end(THREAD_ID)
        self.usual, self.most = crew.starts_of_nodes(), crew.starts_of_nodes()
        self.must_end_the_same(())

    def every_fault(self) -> Iterator[tuple[Fault, ...]]:
        """One fault at a time, wherever it can strike."""
        counts = Counter(self._effects)
        for point, (effects, _) in _POINTS.items():
            yield from ((Kill(point, nth),) for nth in range(sum(counts[effect] for effect in effects)))
        for nth in range(len(self._effects)):
            yield (LoseReply(nth=nth),)
            yield (LoseReply(nth=nth, is_repeated=False),)
            yield (RestartStore(nth),)
        yield from ((PauseWorker(nth),) for nth in range(sum(counts[effect] for effect in HAND_IN)))
        yield from ((Drop([number]),) for number in range(counts["dispatch"]))
        yield (Drop(range(counts["dispatch"])),)
        yield from ((Duplicate(copies),) for copies in (2, 3))
        for seed in range(_CHANCES):
            yield (Reorder(seed),)
            yield (Delay(seed=seed),)
            yield Reorder(seed), Duplicate(), Delay(seed=seed)

    def must_end_the_same(self, faults: tuple[Fault, ...]) -> None:
        crew = self._crew(faults)
        try:
            crew.tell(self._inputs, self._config)
        except AssertionError as error:
            raise AssertionError(f"{_told(faults)}: {error}") from error
        if len(faults) == 1 and _trouble_of(crew).missed:
            there = ", ".join(f"{count} {name}" for name, count in Counter(crew.faults.effects).items())
            raise AssertionError(f"{_told(faults)} never came to pass: this graph makes no more than {there}.")
        end = crew.end(THREAD_ID)
        if end != self._end:
            raise AssertionError(f"{_told(faults)}: the end differs.\n{_difference(self._end, end)}")
        for node, count in crew.starts_of_nodes().items():
            self.most[node] = max(self.most[node], count)

    def _crew(self, faults: tuple[Fault, ...]) -> TroubledCrew:
        strikes = [strike for fault in faults if isinstance(fault, Striking) for strike in fault.strikes()]
        insists = all(fault.is_repeated for fault in faults if isinstance(fault, LoseReply))
        moves = getattr(self, "_moves", None)
        manners = _manners(faults)
        return TroubledCrew(self._definition, Trouble(strikes=strikes), manners, moves=moves, insists=insists)


def _trouble_of(crew: TroubledCrew) -> Trouble:
    assert isinstance(crew.faults, Trouble)
    return crew.faults


def _manners(faults: tuple[Fault, ...]) -> Manners:
    manners = Manners()
    for fault in faults:
        match fault:
            case Duplicate(copies):
                manners = replace(manners, copies=copies)
            case Drop(numbers):
                manners = replace(manners, dropped=manners.dropped | set(numbers))
            case Delay(share, seed):
                manners = replace(manners, delayed=share, seed=seed)
            case Reorder(seed):
                manners = replace(manners, is_shuffled=True, seed=seed)
            case _:
                pass
    return manners


def _told(faults: tuple[Fault, ...]) -> str:
    return " + ".join(map(repr, faults)) or "The same again, undisturbed (is the graph deterministic?)"


def _difference(one: End, other: End) -> str:
    left, right = (pprint.pformat(end, width=110).splitlines() for end in (one, other))
    lines = list(difflib.unified_diff(left, right, "undisturbed", "with the fault", lineterm="", n=2))
    return "\n".join(lines[:_SHOWN_LINES]) or "They look alike and differ in the types of their values."

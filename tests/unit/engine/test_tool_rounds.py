"""Whatever dies in a round of tools, at each effect of a whole run: what was recorded is not done again (case O)."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tenxgraph.core.graph import StateGraph
from tenxgraph.core.state import Message
from tenxgraph.testing.crash import Crew, End, Faults, Strike
from tests.graphs.calls import ROUNDS, calls, loop

HELLO: Final = {"messages": [Message.text_message("Hi", message_id="said")]}
SHORT: Final = [calls("mark", "find", "mark"), calls("find"), "done"]
CALLS: Final = {
    len(SHORT): Counter(["mark 0", "find 1", "mark 2", "find 0"]),
    len(ROUNDS): Counter({"find 1": 3, "find 0": 2, "find 2": 1, "find 3": 1, "mark 0": 2, "mark 2": 1, "mark 7": 1}),
}
"""How often the rounds call each tool with each argument."""

SAMPLE: Final = 10
"""Strikes at a loop of six rounds, of each kind."""

Build = Callable[[], StateGraph[Any]]
both_ways = pytest.mark.parametrize("distribute", [False, True], ids=["one task", "a task each"])


class Loop:
    """One run of an agent's rounds on a crew, and the ledger that its tools wrote."""

    def __init__(self, build: Build, ledger: Path, faults: Faults | None = None, **options: Any) -> None:
        graph = build()
        graph.name = "loop"
        self.crew = Crew(graph.define(), faults, **options)
        ledger.write_text("")
        self.crew.call(HELLO, {"thread_id": "T", "run_id": "R", "ledger": str(ledger)})
        self.made = Counter(ledger.read_text().splitlines())

    @property
    def end(self) -> End:
        return self.crew.end("T")


def _must_run_each_once(build: Build, ledger: Path, undisturbed: Loop, strike: Strike, number: int) -> None:
    effect = undisturbed.crew.faults.effects[number]
    struck = Loop(build, ledger, Faults({number: strike}))
    assert struck.end == undisturbed.end, f"{strike} at effect {number}, {effect}"
    assert struck.made >= undisturbed.made
    # Only who dies between the call and the record of its result leaves nobody who knows of it.
    allowed = 1 if effect == "record" and strike is Strike.BEFORE else 0
    again = struck.made - undisturbed.made
    assert sum(again.values()) <= allowed, f"{strike} at effect {number}, {effect}: {again} ran again"


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@both_ways
@pytest.mark.parametrize("strike", Strike)
def test_each_tool_runs_once_whatever_effect_of_a_run_was_struck(
    strike: Strike, distribute: bool, ledger: Path
) -> None:
    build = loop(distribute, SHORT)
    undisturbed = Loop(build, ledger)
    assert undisturbed.made == CALLS[len(SHORT)]
    assert undisturbed.crew.faults.effects.count("record") == 4
    for number in range(len(undisturbed.crew.faults.effects)):
        _must_run_each_once(build, ledger, undisturbed, strike, number)


@both_ways
@pytest.mark.parametrize("strike", Strike)
def test_each_tool_of_six_rounds_runs_once(strike: Strike, distribute: bool, ledger: Path) -> None:
    build = loop(distribute)
    undisturbed = Loop(build, ledger)
    assert undisturbed.made == CALLS[len(ROUNDS)]
    for number in random.Random(6).sample(range(len(undisturbed.crew.faults.effects)), SAMPLE):
        _must_run_each_once(build, ledger, undisturbed, strike, number)


@both_ways
def test_each_tool_runs_once_when_each_message_comes_twice(distribute: bool, ledger: Path) -> None:
    build = loop(distribute)
    undisturbed, doubled = Loop(build, ledger), Loop(build, ledger, copies=2)
    assert doubled.end == undisturbed.end
    assert doubled.made == CALLS[len(ROUNDS)]


def test_in_one_task_or_many_the_rounds_say_the_same(ledger: Path) -> None:
    one, many = _told(Loop(loop(False), ledger).end), _told(Loop(loop(True), ledger).end)
    assert one == many
    assert [role for role, _ in one] == ["user", *_roles(1, 3, 2, 2, 4, 1), "assistant"]


def _roles(*calls_of_rounds: int) -> list[str]:
    return [role for count in calls_of_rounds for role in ("assistant", *["tool"] * count)]


def _told(end: End) -> list[Any]:
    return [(message["role"], message["content"]) for message in end.states[-1]["context"]]

"""The fault kit that users get: it passes what holds, and finds what does not."""

from collections import Counter
from typing import Any

import pytest

from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.core.graph import StateGraph
from tenxgraph.core.state import Message
from tenxgraph.testing import (
    Delay,
    Drop,
    Duplicate,
    Kill,
    KillPoint,
    LoseReply,
    PauseWorker,
    Reorder,
    RestartStore,
    run_under_faults,
)
from tests.acceptance.graphs import Notes
from tests.graphs.suite import CASES
from tests.unit.engine.test_mutants import MUTANTS, mutate

HELLO = {"messages": [Message.text_message("hello", message_id="m1")]}


@pytest.mark.parametrize("name", ["linear", "send_and_join", "uneven_branches", "retry_then_success", "async_and_sync"])
def test_every_fault_everywhere_changes_no_end(name: str) -> None:
    report = run_under_faults(CASES[name].compile(), HELLO)
    kinds = {"Kill", "LoseReply", "PauseWorker", "RestartStore", "Drop", "Duplicate", "Reorder", "Delay"}
    assert kinds <= report.rounds.keys()
    assert sum(report.rounds.values()) > 50
    assert all(most <= usual + 1 for usual, most in report.starts.values())
    assert "same end" in str(report)


def test_several_inputs_are_given_on_one_thread_and_may_depend_on_the_questions() -> None:
    def answer(waiting: dict[str, Any]) -> Any:
        assert sorted(waiting.values()) == ["1?", "2?", "3?"]
        return {"resume": dict.fromkeys(waiting, "so")}

    report = run_under_faults(CASES["three_questions_at_once"].compile(), [HELLO, answer])
    assert report.starts["calm"] == (1, 2)


@pytest.mark.parametrize("point", list(KillPoint))
def test_each_kill_point_strikes_where_its_name_says(point: KillPoint) -> None:
    report = run_under_faults(CASES["send_and_join"].compile(), HELLO, [Kill(point)])
    begun_again = {node for node, (usual, most) in report.starts.items() if most > usual}
    # The start takes its first node in the write that plans it: whoever dies behind that has begun it.
    dies_with_a_node_begun = point in (KillPoint.AFTER_CLAIM, KillPoint.BEFORE_COMMIT, KillPoint.AFTER_ADVANCE)
    assert report.rounds == {"Kill": 1}
    assert not begun_again or dies_with_a_node_begun


def test_faults_together_are_one_round() -> None:
    together = (Kill(KillPoint.AFTER_COMMIT), Reorder(3), Duplicate(3), Delay(0.3, seed=3), Drop([1]))
    report = run_under_faults(CASES["send_and_join"].compile(), HELLO, [together, PauseWorker(2), RestartStore(4, 9)])
    assert sorted(report.rounds.values()) == [1, 1, 1]


def test_a_fault_that_never_strikes_proves_nothing() -> None:
    with pytest.raises(AssertionError, match=r"never came to pass: this graph makes no more than .*claim"):
        run_under_faults(CASES["linear"].compile(), HELLO, [LoseReply("claim", nth=99)])


def test_a_kill_point_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a valid KillPoint"):
        run_under_faults(CASES["linear"].compile(), HELLO, [Kill("before lunch")])


def test_an_input_that_the_graph_refuses_is_the_users_to_mend() -> None:
    with pytest.raises(InvalidInputError, match="begin with one"):
        run_under_faults(CASES["linear"].compile(), {"messages": []})


def _counting(counts: "Counter[str]") -> StateGraph[Notes]:
    def first(state: Notes) -> dict[str, Any]:
        counts["first"] += 1
        return {"notes": ["first"]}

    def second(state: Notes) -> dict[str, Any]:
        return {"total": counts["first"]}

    graph = StateGraph(Notes, name="counting").add_node("first", first).add_node("second", second)
    return graph.set_entry_point("first").add_edge("first", "second")


def test_a_graph_that_differs_by_itself_is_told_so() -> None:
    with pytest.raises(AssertionError, match=r"is the graph deterministic(.|\n)*'total': 2"):
        run_under_faults(_counting(Counter()), HELLO)


@pytest.mark.parametrize("mutant", ["merge in arrival order", "the scheduler looks away"])
def test_a_broken_runtime_is_found(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app, faults = CASES["uneven_branches"].compile(), [Reorder(seed) for seed in range(4)] + [Drop([1])]
    run_under_faults(app, HELLO, faults)
    owner, name, old, new, _ = MUTANTS[mutant]
    mutate(monkeypatch, owner, name, old, new)
    with pytest.raises(AssertionError, match=r"the end differs|stuck"):
        run_under_faults(app, HELLO, faults)

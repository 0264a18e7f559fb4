"""Faults put into the engine on purpose: each is caught by a test that this module names."""

import inspect
import textwrap
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

from tenxgraph.core.graph import merge, planner
from tenxgraph.core.graph.run_status import RunStatus
from tenxgraph.core.state.image import Patch, Version
from tenxgraph.engine import step
from tenxgraph.store.base import Advance, Claim, TaskRef
from tenxgraph.store.memory import MemoryStore
from tenxgraph.testing.crash import Crew, Strike
from tests.graphs.suite import CASES
from tests.integration import test_graphs_in_process as behaviour
from tests.unit.engine import test_attempt as attempt
from tests.unit.engine import test_crash as crash

SAID = {"messages": crash.SAID}


def mutate(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, old: str, new: str) -> None:
    """Rewrite a function of the engine for one test."""
    original = inspect.getattr_static(owner, name)
    function: FunctionType = getattr(original, "__func__", original)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(old) == 1, f"{name} has changed: write the mutant anew"
    scope: dict[str, Any] = {}
    exec(source.replace(old, new), function.__globals__, scope)
    monkeypatch.setattr(owner, name, scope[name])


def test_a_message_with_an_id_that_is_there_is_kept_once() -> None:
    case = CASES["same_id_twice"]
    behaviour.test_a_graph_does_what_its_case_says(case)


def test_branches_join_once_per_round() -> None:
    behaviour.test_case_g_a_join_behind_branches_of_different_length_runs_once_also_with_a_skipped_parent()


def test_branches_merge_in_plan_order() -> None:
    behaviour.test_case_d_sixteen_branches_append_in_plan_order_whatever_finishes_first()


def test_an_advance_from_another_version_is_refused() -> None:
    crew = Crew(CASES["linear"].build().define())
    crew._client.submit(SAID, {"thread_id": "T", "run_id": "R"})
    claim = crew.store.claim(
        TaskRef("T", "R", 0, "plan", 1), "nonce", worker="w", lease_ms=1000, known=None, events=b""
    )
    assert isinstance(claim, Claim)
    for base in (Version(1, ""), Version(0, "other")):
        stale = Advance(base, "n", Patch(), 1, RunStatus.COMPLETED)
        assert not crew.store.advance(claim.ref, claim.token, stale).accepted
    assert crew.store.checkpoints("T", limit=9) == []


def test_a_join_waits_for_the_set_of_the_missing() -> None:
    crash.test_messages_delivered_twice_and_shuffled_change_nothing(crash.STORIES[2], 1)


def test_a_fenced_worker_commits_nothing() -> None:
    attempt.test_a_worker_that_was_taken_for_dead_is_fenced_while_another_holds_its_task()


def test_a_step_is_written_once_whatever_dies() -> None:
    for strike in Strike:
        crash.test_one_effect_struck_and_the_end_is_the_same(crash.STORIES[2], strike, False)


def test_a_repeated_call_gets_the_same_answer() -> None:
    crash.test_a_lost_reply_is_asked_for_again_and_nothing_runs_twice(crash.STORIES[0])


ARRIVAL = "specs=tuple([nodes[name].spec for name in [*run.updates, *(n for n in nodes if n not in run.updates)]])"
Mutant = tuple[Any, str, str, str, Callable[[], None]]
MUTANTS: dict[str, Mutant] = {
    "merge in arrival order": (
        MemoryStore,
        "_claimed",
        "specs=tuple(t.spec for t in nodes.values())",
        ARRIVAL,
        test_branches_merge_in_plan_order,
    ),
    "no dedupe": (
        merge,
        "_appended",
        "if key and (key in seen or before.contains(key, key_of)):",
        "if False:",
        test_a_message_with_an_id_that_is_there_is_kept_once,
    ),
    "no dedupe within a step": (
        merge,
        "_appended",
        "key in seen or ",
        "",
        test_a_message_with_an_id_that_is_there_is_kept_once,
    ),
    "no version check": (
        MemoryStore,
        "advance",
        " or thread.version != advance.base",
        "",
        test_an_advance_from_another_version_is_refused,
    ),
    "join per arrival": (
        planner,
        "_merge",
        "or (item.joins and item.node in joined)",
        "",
        test_branches_join_once_per_round,
    ),
    "no waiting at a join": (
        step,
        "plan_next",
        "waits = item.joins and held & topology.bit(item.node)",
        "waits = False",
        test_branches_join_once_per_round,
    ),
    "a task is claimed twice": (
        MemoryStore,
        "claim",
        "task.attempt != ref.attempt or task.status is not TaskStatus.QUEUED",
        "task.attempt != ref.attempt",
        test_a_join_waits_for_the_set_of_the_missing,
    ),
    "no token check": (
        MemoryStore,
        "_mine",
        " if task.token == token else None",
        "",
        test_a_fenced_worker_commits_nothing,
    ),
    "the scheduler looks away": (
        MemoryStore,
        "recover",
        "if thread is None:",
        "if True:",
        test_a_step_is_written_once_whatever_dies,
    ),
    "a repeated advance is not known": (
        MemoryStore,
        "advance",
        "if thread.has(written):",
        "if False:",
        test_a_repeated_call_gets_the_same_answer,
    ),
    "a repeated claim is not known": (
        MemoryStore,
        "claim",
        "task.token == nonce",
        "False",
        test_a_repeated_call_gets_the_same_answer,
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_caught(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, old, new, test = MUTANTS[mutant]
    test()
    mutate(monkeypatch, owner, name, old, new)
    with pytest.raises(AssertionError):
        test()

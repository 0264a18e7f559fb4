"""Whatever dies, wherever: the end is the same. Style rule: every effect joins this test."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import pytest

from tenxgraph.core.graph.definition import GraphDefinition
from tenxgraph.core.state import Message
from tenxgraph.testing.crash import Crew, Died, End, Faults, Strike
from tests.graphs.suite import CASES

SAID = [Message.text_message("Hi", message_id="said")]


@dataclass(frozen=True, slots=True)
class Story:
    """A graph of the suite, and what is called on it under fixed ids; ``behind`` counts runs that queue up."""

    case: str
    then: tuple[Callable[[Mapping[Any, str]], Any], ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    log: tuple[str, ...] = ()
    behind: int = 0

    def definition(self) -> GraphDefinition[Any]:
        case = CASES[self.case]
        graph = case.build()
        graph.name = case.name
        return graph.define(**case.pauses)

    def told_by(self, crew: Crew) -> End:
        crew.submit({"messages": SAID}, {**self.config, "thread_id": "T", "run_id": "R0"})
        for number in range(self.behind):
            crew.submit({"messages": SAID}, {"thread_id": "T", "run_id": f"behind {number}"})
        crew.see_through("T")
        for number, answer in enumerate(self.then, start=1):
            waiting = {asked.body: asked.id for asked in crew.store.runs("T")[-1].interrupts}
            crew.call(answer(waiting), {"thread_id": "T", "run_id": f"R{number}"})
        return crew.end("T")


def _yes(waiting: Mapping[Any, str]) -> Any:
    return {"resume": True}


def _each(waiting: Mapping[Any, str]) -> Any:
    return {"resume": dict.fromkeys(waiting.values(), "so")}


def _nothing(waiting: Mapping[Any, str]) -> Any:
    return None


STORIES = [
    Story("linear"),
    Story("loop"),
    Story("send_and_join"),
    Story("uneven_branches"),
    Story("retry_then_success", log=("at last", "b")),
    Story("question", (_yes,)),
    Story("three_questions_at_once", (_each,), log=("1? so", "calm", "2? so", "3? so", "join")),
    Story("interrupt_after_and_before", (_nothing, _nothing)),
    Story("one_of_three_raises_then_continue", (_nothing,), {"broken": True}),
    Story("router_raises_then_continue", (_nothing,), {"broken": True}),
    Story("fan_out_2", config={"start_after_s": 25}),
    Story("implicit_end", log=("only",) * 3, behind=2),
    Story("async_and_sync"),
    Story("on_error", config={"broken": True}, log=("rescue", "after")),
]
every_story = pytest.mark.parametrize("story", STORIES, ids=lambda story: story.case)


def _undisturbed(story: Story) -> tuple[Crew, End]:
    crew = Crew(story.definition())
    return crew, story.told_by(crew)


@every_story
def test_the_stories_end_as_their_cases_say(story: Story) -> None:
    crew, end = _undisturbed(story)
    assert list(end.status.values())[-1] == "completed"
    assert end.states[-1]["log"] == list(story.log or CASES[story.case].final["log"])
    assert crew.starts("T") >= 2


@every_story
@pytest.mark.parametrize("late", [False, True], ids=["acknowledged on receipt", "acknowledged late"])
@pytest.mark.parametrize("strike", Strike)
def test_one_effect_struck_and_the_end_is_the_same(story: Story, strike: Strike, late: bool) -> None:
    crew, expected = _undisturbed(story)
    assert len(crew.faults.effects) >= 8
    for number, effect in enumerate(crew.faults.effects):
        struck = Crew(story.definition(), Faults({number: strike}), late=late)
        assert story.told_by(struck) == expected, f"{strike} at effect {number}, {effect}"
        assert struck.starts("T") <= crew.starts("T") + 1, f"{effect} {number}: a committed node ran again"
        assert struck.moves <= crew.moves + 12


@every_story
def test_a_lost_reply_is_asked_for_again_and_nothing_runs_twice(story: Story) -> None:
    crew, expected = _undisturbed(story)
    for number, effect in enumerate(crew.faults.effects):
        struck = Crew(story.definition(), Faults({number: Strike.NO_REPLY}), insists=True)
        assert story.told_by(struck) == expected, f"effect {number}, {effect}"
        assert struck.starts("T") == crew.starts("T")
        if effect in ("claim", "commit", "advance", "settle"):
            assert struck.looks == crew.looks, f"effect {number}, {effect}: nobody but the scheduler went on"


@pytest.mark.parametrize("story", [STORIES[2], STORIES[5]], ids=lambda story: story.case)
def test_two_effects_struck_and_the_end_is_the_same(story: Story) -> None:
    crew, expected = _undisturbed(story)
    chosen = random.Random(2)
    pairs = list(combinations(range(len(crew.faults.effects) + 6), 2))
    for first, second in chosen.sample(pairs, 200):
        plan = {first: chosen.choice(list(Strike)), second: chosen.choice(list(Strike))}
        struck = Crew(story.definition(), Faults(plan), late=chosen.random() < 0.5)
        assert story.told_by(struck) == expected, plan


@every_story
@pytest.mark.parametrize("seed", range(5))
def test_messages_delivered_twice_and_shuffled_change_nothing(story: Story, seed: int) -> None:
    crew, expected = _undisturbed(story)
    doubled = Crew(story.definition(), order=random.Random(seed), copies=2)
    assert story.told_by(doubled) == expected
    assert doubled.starts("T") == crew.starts("T")


@every_story
def test_a_message_that_the_broker_loses_is_sent_again(story: Story) -> None:
    crew, expected = _undisturbed(story)
    sent = crew.faults.effects.count("dispatch")
    for number in range(sent):
        robbed = Crew(story.definition(), lost=[number])
        assert story.told_by(robbed) == expected, f"message {number}"
        assert robbed.starts("T") == crew.starts("T")


@every_story
def test_a_broker_that_is_emptied_loses_nothing_for_good(story: Story) -> None:
    crew, expected = _undisturbed(story)
    robbed = Crew(story.definition(), lost=range(crew.faults.effects.count("dispatch")))
    assert story.told_by(robbed) == expected


class _Killer(Faults):
    """Ends the process at every effect of one name behind the first."""

    def perform(self, name: str, effect: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.effects.append(name)
        if name == "advance" and self.effects.count(name) > 1:
            raise Died(name)
        return effect(*args, **kwargs)


def test_a_task_that_keeps_killing_its_worker_is_tried_three_times_and_then_the_run_is_dead() -> None:
    story = Story("linear")
    struck = Crew(story.definition(), _Killer(), late=True)
    assert story.told_by(struck).status == {"R0": "dead"}
    assert struck.starts("T") <= 3
    assert "died with its worker 3 times" in struck.store.runs("T")[-1].reason

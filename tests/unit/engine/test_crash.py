"""Whatever dies, wherever: the end is the same. Style rule: every effect joins this test."""

import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Final

import pytest

from tenxgraph.core.exceptions import InvalidInputError, StaleStateError
from tenxgraph.core.graph.definition import GraphDefinition
from tenxgraph.core.state import Message
from tenxgraph.engine.client import EngineClient
from tenxgraph.store.base import RetentionRules, Store
from tenxgraph.testing.crash import READS, Crew, Died, End, Faults, Strike
from tests.graphs.suite import CASES
from tests.thorough import EVERY

SAID = [Message.text_message("Hi", message_id="said")]


@dataclass(frozen=True, slots=True)
class Story:
    """A graph of the suite, and what is called on it under fixed ids.

    Attributes:
        then: Inputs of further calls, made of what waits: value → id.
        log: The state's ``log`` at the end, where it is not that of the case.
        behind: How many runs queue up behind the first.
        delay_leases: How long the first run waits for its moment.
        asks: What people ask for when the first run was submitted.
        later: What is done to the thread, and to its fork F, when all those have ended.
        befalls: What befalls the crew in any case.
    """

    case: str
    then: tuple[Callable[[Mapping[Any, str]], Any], ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    log: tuple[str, ...] = ()
    behind: int = 0
    delay_leases: float = 0
    asks: tuple[Callable[[EngineClient[Any]], object], ...] = ()
    later: tuple[Callable[[Crew], object], ...] = ()
    befalls: Mapping[str, Any] = field(default_factory=dict[str, Any])
    name: str = ""

    def __str__(self) -> str:
        return self.name or self.case

    def definition(self) -> GraphDefinition[Any]:
        case = CASES[self.case]
        graph = case.build()
        graph.name = case.name
        return graph.define(**case.pauses)

    def crew(self, faults: Faults | None = None, **options: Any) -> Crew:
        return Crew(self.definition(), faults, **{**self.befalls, **options})

    def told_by(self, crew: Crew) -> End:
        crew.submit({"messages": SAID}, {**self._config(crew), "thread_id": "T", "run_id": "R0"})
        for request in self.asks:
            crew.ask(request)
        for number in range(self.behind):
            crew.submit({"messages": SAID}, {"thread_id": "T", "run_id": f"behind {number}"})
        crew.see_through("T")
        for number, answer in enumerate(self.then, start=1):
            waiting = {asked.body: asked.id for asked in crew.store.runs("T")[-1].interrupts}
            crew.call(answer(waiting), {"thread_id": "T", "run_id": f"R{number}"})
        for act in self.later:
            act(crew)
        ends = [crew.end(name) for name in ("F", "T") if crew.store.thread(name)]
        status = {run: status for end in ends for run, status in end.status.items()}
        ledger, states = ([each for end in ends for each in getattr(end, name)] for name in ("ledger", "states"))
        return End(status, ledger, states)

    def _config(self, crew: Crew) -> Mapping[str, Any]:
        delay_s = self.delay_leases * crew.lease_ms / 1000
        return {**self.config, "start_after_s": delay_s} if delay_s else self.config


def _yes(waiting: Mapping[Any, str]) -> Any:
    return {"resume": True}


def _each(waiting: Mapping[Any, str]) -> Any:
    return {"resume": dict.fromkeys(waiting.values(), "so")}


def _nothing(waiting: Mapping[Any, str]) -> Any:
    return None


def _again(waiting: Mapping[Any, str]) -> Any:
    return {"messages": SAID}


def _stop(client: EngineClient[Any]) -> object:
    return client.stop_run("R0")


def delete_thread(client: EngineClient[Any]) -> object:
    return client.store.delete_thread("T")


def _edit(crew: Crew) -> None:
    """Under the version that was read: it is written once, or refused as stale because it was."""
    thread = crew.store.thread("T")
    assert thread is not None
    config = {"thread_id": "T", "checkpoint": thread.version.number}
    with suppress(StaleStateError):
        crew.ask(lambda client: client.update_state(config, {"log": ["by hand"]}, "a"))


def _fork(crew: Crew) -> None:
    with suppress(InvalidInputError):  # there is one: it was made, and the word of it was lost
        crew.ask(lambda client: client.fork({"thread_id": "T"}, None, "F"))
    crew.call(None, {"thread_id": "F", "run_id": "of the fork"})


def _go_back(crew: Crew) -> None:
    crew.call(None, {"thread_id": "T", "run_id": "back", "checkpoint": 2})


def _fold(crew: Crew) -> None:
    crew.ask(lambda client: client.store.retain("T", RetentionRules(keep_last=3)))


BESIDE: Final = Story("linear", later=(_edit, _fork, _go_back, _fold), log=("a", "b", "c"), name="beside its runs")


def _cancel(client: EngineClient[Any]) -> object:
    return client.cancel_run("R0", "enough", "")


_STORIES = [
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
    Story("fan_out_2", delay_leases=2.5),
    Story("implicit_end", log=("only",) * 3, behind=2),
    Story("async_and_sync"),
    Story("on_error", config={"broken": True}, log=("rescue", "after")),
    Story("linear", (_nothing,), asks=(_stop,), name="stopped at once, then continued"),
    Story("linear", (_again,), asks=(_cancel,), name="cancelled at once, then a message"),
    Story("linear", befalls={"strangers": [0, 2]}, name="two workers did not know the graph"),
    Story("linear", befalls={"lost": [1, 3]}, name="two messages lost"),
    Story("emits_and_looks_for_a_stop"),
    Story("effects"),
    Story("large_media"),
    Story("distributed_calls_are_one_arrival"),
    BESIDE,
    Story("distributed_questions", (_each,), log=("beside", "mark 0", "1: so", "2: so", "after")),
]
STORIES = [
    *_STORIES,
    *(
        replace(story, config={**story.config, "steps": "sticky"}, name=f"{story}, sticky")
        for story in (_STORIES if EVERY else _STORIES[::3])
    ),
]
OF_THE_HEARTBEAT: Final = "renew"
"""In a worker the heartbeat asks, which outlives an error; in the crew the node itself does."""

OF_OTHER_TESTS: Final = frozenset({"delete_thread", "hand_back", "renew_effect", "turn"})
"""Deletion has its own below; on the others, the heartbeat's and a turn at a model, no result depends."""

every_story = pytest.mark.parametrize("story", STORIES, ids=str)


def _undisturbed(story: Story) -> tuple[Crew, End]:
    crew = story.crew()
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
    assert len(crew.faults.effects) >= (5 if "steps" in story.config else 8)
    for number, effect in enumerate(crew.faults.effects):
        if strike is Strike.NO_REPLY and effect == OF_THE_HEARTBEAT:
            continue
        struck = story.crew(Faults({number: strike}), late=late)
        assert story.told_by(struck) == expected, f"{strike} at effect {number}, {effect}"
        assert struck.starts("T") <= crew.starts("T") + 1, f"{effect} {number}: a committed node ran again"
        assert struck.moves <= crew.moves + 12


@every_story
def test_a_lost_reply_is_asked_for_again_and_nothing_runs_twice(story: Story) -> None:
    crew, expected = _undisturbed(story)
    for number, effect in enumerate(crew.faults.effects):
        if effect == OF_THE_HEARTBEAT:
            continue
        struck = story.crew(Faults({number: Strike.NO_REPLY}), insists=True)
        assert story.told_by(struck) == expected, f"effect {number}, {effect}"
        assert struck.starts("T") == crew.starts("T")
        if effect in ("claim", "commit", "advance", "settle"):
            assert struck.looks == crew.looks, f"effect {number}, {effect}: nobody but the scheduler went on"


@pytest.mark.parametrize("story", [STORIES[2], STORIES[5]], ids=str)
def test_two_effects_struck_and_the_end_is_the_same(story: Story) -> None:
    crew, expected = _undisturbed(story)
    chosen = random.Random(2)
    pairs = list(combinations(range(len(crew.faults.effects) + 6), 2))
    for first, second in chosen.sample(pairs, 200):
        plan = {first: chosen.choice(list(Strike)), second: chosen.choice(list(Strike))}
        struck = story.crew(Faults(plan), late=chosen.random() < 0.5)
        assert story.told_by(struck) == expected, plan


@every_story
@pytest.mark.parametrize("seed", range(5))
def test_messages_delivered_twice_and_shuffled_change_nothing(story: Story, seed: int) -> None:
    crew, expected = _undisturbed(story)
    doubled = story.crew(order=random.Random(seed), copies=2)
    assert story.told_by(doubled) == expected
    assert doubled.starts("T") == crew.starts("T")


@every_story
def test_a_message_that_the_broker_loses_is_sent_again(story: Story) -> None:
    crew, expected = _undisturbed(story)
    sent = crew.faults.effects.count("dispatch")
    for number in range(sent):
        robbed = story.crew(lost=[number])
        assert story.told_by(robbed) == expected, f"message {number}"
        assert robbed.starts("T") == crew.starts("T")


@every_story
def test_a_broker_that_is_emptied_loses_nothing_for_good(story: Story) -> None:
    crew, expected = _undisturbed(story)
    robbed = story.crew(lost=range(crew.faults.effects.count("dispatch")))
    assert story.told_by(robbed) == expected


def _after_moves(moves: int, faults: Faults | None = None) -> Crew:
    crew = Crew(STORIES[0].definition(), faults)
    crew.submit({"messages": SAID}, {"thread_id": "T", "run_id": "R0"})
    for _ in range(moves):
        crew.move("T")
    return crew


@pytest.mark.parametrize("moves", [0, 1, 2])
@pytest.mark.parametrize("strike", Strike)
def test_a_stop_in_mid_run_and_one_effect_struck(strike: Strike, moves: int) -> None:
    _, expected = _undisturbed(STORIES[0])
    for number in range(30):
        crew = _after_moves(moves, Faults({number: strike}))
        crew.ask(_stop)
        crew.see_through("T")
        assert [str(run.status) for run in crew.store.runs("T")] == ["stopped"], f"{strike} at effect {number}"
        crew.call(None, {"thread_id": "T", "run_id": "R1"})
        assert crew.end("T").states[-1]["log"] == expected.states[-1]["log"]


@pytest.mark.parametrize("moves", [0, 1, 2])
@pytest.mark.parametrize("strike", Strike)
def test_a_cancel_in_mid_run_and_one_effect_struck(strike: Strike, moves: int) -> None:
    for number in range(30):
        crew = _after_moves(moves, Faults({number: strike}))
        crew.ask(_cancel)
        acknowledged = crew.end("T")
        crew.see_through("T")
        assert crew.end("T") == acknowledged, f"{strike} at effect {number}: written after the cancel"
        assert acknowledged.status == {"R0": "cancelled"}
        crew.call({"messages": SAID}, {"thread_id": "T", "run_id": "R1"})
        assert crew.end("T").status["R1"] == "completed"


@pytest.mark.parametrize("strike", Strike)
def test_a_deletion_struck_leaves_nothing(strike: Strike) -> None:
    crew, _ = _undisturbed(STORIES[0])
    struck = STORIES[0].crew(Faults({len(crew.faults.effects): strike}))
    STORIES[0].told_by(struck)
    struck.ask(delete_thread)
    assert struck.faults.effects.count("delete_thread") == 2
    store = struck.store
    assert (store.thread("T"), store.run("R0"), list(store.threads(limit=9)), list(store.due(9))) == (
        None,
        None,
        [],
        [],
    )


def test_every_effect_joins_this_test() -> None:
    methods = {name for name in vars(Store) if not name.startswith("_")}
    struck = {effect for story in STORIES for effect in _undisturbed(story)[0].faults.effects}
    assert methods - READS - OF_OTHER_TESTS <= struck
    assert "dispatch" in struck


class _Killer(Faults):
    """Ends the process at every effect of one name behind the first."""

    def perform(self, name: str, effect: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.effects.append(name)
        if name == "advance" and self.effects.count(name) > 1:
            raise Died(name)
        return effect(*args, **kwargs)


def test_a_task_that_keeps_killing_its_worker_is_tried_three_times_and_then_the_run_is_dead() -> None:
    story = Story("linear")
    struck = story.crew(_Killer(), late=True)
    assert story.told_by(struck).status == {"R0": "dead"}
    assert struck.starts("T") <= 3
    assert "died with its worker 3 times" in struck.store.runs("T")[-1].reason

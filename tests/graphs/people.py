"""Graphs that wait for a person: pauses before and after nodes, questions, messages in between."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from tenxgraph.core.exceptions import InterruptConflictError, InvalidInputError
from tenxgraph.core.graph import RunStatus, StateGraph
from tenxgraph.testing.oracle import CaseCall, GraphCase
from tenxgraph.utils import interrupt
from tenxgraph.utils.constants import START
from tests.graphs.tools import Last, Log, answer, ask, chain, go_on, graph, say, write_down

WAITING = RunStatus.WAITING


def _linear() -> StateGraph[Log]:
    return chain(graph("a", "b", "c"), "a", "b", "c")


def _approve(state: Log, config: Mapping[str, Any]) -> dict[str, Any]:
    write_down(config, "asks")
    given = interrupt({"pay": 100}, reason="approval", response_schema={"type": "boolean"})
    write_down(config, "has its answer")
    return {"log": [f"approved: {given}"]}


def _approval() -> StateGraph[Log]:
    return chain(graph("a", "b", approve=_approve), "a", "approve", "b")


async def _two_questions(state: Log) -> str:
    name = interrupt("name?")
    return f"{name} is {interrupt(f'age of {name}?')}"


def _interview() -> StateGraph[Log]:
    return graph(interview=_two_questions).set_entry_point("interview")


def _asks(question: str) -> Callable[[Log], dict[str, Any]]:
    def asked(state: Log) -> dict[str, Any]:
        return {"log": [f"{question} {interrupt(question)}"]}

    return asked


def _three_questions() -> StateGraph[Log]:
    built = graph("calm", "join", one=_asks("1?"), two=_asks("2?"), three=_asks("3?"))
    for name in ("one", "calm", "two", "three"):
        built.add_edge(START, name).add_edge(name, "join")
    return built


def by_id(*questions: str) -> Callable[[Last], Any]:
    """Return what answers the questions with their own text, by id."""

    def give(last: Last) -> Any:
        assert last is not None
        ids = {asked["value"]: asked["id"] for asked in last["interrupts"]}
        return {"resume": {ids[question]: f"to {question}" for question in questions}}

    return give


def _swallows(state: Log) -> dict[str, Any]:
    try:
        given = interrupt("sure?")
    except Exception:  # noqa: BLE001 - what the case is about
        return {"log": ["swallowed"]}
    return {"log": [f"given {given}"]}


def _stubborn() -> StateGraph[Log]:
    return graph(stubborn=_swallows).set_entry_point("stubborn")


def _by_count(state: Log) -> Literal["few", "many"]:
    return "many" if len(state.context) > 1 else "few"


def _route_after() -> StateGraph[Log]:
    return graph("look", "few", "many").add_edge(START, "look").add_conditional_edges("look", _by_count)


def _with_message(last: Last) -> Any:
    return {"resume": True, **say("and this")(last)}


PAUSED = ["user: Hi", "user: Wait"]

CASES = [
    GraphCase(
        "interrupt_before",
        _linear,
        [ask(status=WAITING), CaseCall(go_on)],
        [["a"], ["b"], ["c"]],
        {"log": ["a", "b", "c"]},
        {"interrupt_before": ["b"]},
    ),
    GraphCase(
        "interrupt_before_the_first",
        _linear,
        [ask(status=WAITING), CaseCall(answer(True))],
        [["a"], ["b"], ["c"]],
        {"log": ["a", "b", "c"]},
        {"interrupt_before": ["a"]},
    ),
    GraphCase(
        "interrupt_after",
        _linear,
        [ask(status=WAITING), CaseCall(answer("fine"))],
        [["a"], ["b"], ["c"]],
        {"log": ["a", "b", "c"]},
        {"interrupt_after": ["b"]},
    ),
    GraphCase(
        "interrupt_after_the_last",
        _linear,
        [ask(status=WAITING), CaseCall(go_on)],
        [["a"], ["b"], ["c"]],
        {"log": ["a", "b", "c"]},
        {"interrupt_after": ["c"]},
    ),
    GraphCase(
        "interrupt_after_and_before",
        _linear,
        [ask(status=WAITING), CaseCall(go_on, status=WAITING), CaseCall(go_on)],
        [["a"], ["b"], ["c"]],
        {"log": ["a", "b", "c"]},
        {"interrupt_after": ["a"], "interrupt_before": ["b"]},
    ),
    GraphCase(
        "message_while_paused_changes_the_route",
        _route_after,
        [ask(status=WAITING), ask("Wait")],
        [["look"], ["many"]],
        {"log": ["look", "many"], "context": PAUSED},
        {"interrupt_after": ["look"]},
    ),
    GraphCase(
        "message_while_paused_before",
        _linear,
        [ask(status=WAITING), CaseCall(say("Wait", count=4))],
        [["a"], ["b"], ["c"]],
        {"log": ["a", "b", "c"], "context": PAUSED, "count": 4},
        {"interrupt_before": ["c"]},
    ),
    GraphCase(
        "question",
        _approval,
        [
            ask(status=WAITING),
            CaseCall(answer("maybe"), raises=InvalidInputError, match="does not fit its schema"),
            CaseCall(answer(True)),
            CaseCall(answer(True), raises=InterruptConflictError, match="Nothing waits"),
        ],
        [["a"], ["approve"], ["b"]],
        {"log": ["a", "approved: True", "b"]},
    ),
    GraphCase(
        "message_while_a_question_waits",
        _approval,
        [
            ask(status=WAITING),
            ask("Wait", raises=InvalidInputError, match=r'waits for an answer .*\{"resume": answer\}'),
            CaseCall(go_on, raises=InvalidInputError, match="waits for an answer"),
            CaseCall(_with_message, raises=InvalidInputError, match="goes alone"),
            CaseCall(answer(False)),
        ],
        [["a"], ["approve"], ["b"]],
        {"log": ["a", "approved: False", "b"], "context": ["user: Hi"]},
    ),
    GraphCase(
        "two_questions_of_one_node",
        _interview,
        [ask(status=WAITING), CaseCall(answer("Ann"), status=WAITING), CaseCall(answer(40))],
        [["interview"]],
        {"context": ["user: Hi", "assistant: Ann is 40"]},
    ),
    GraphCase(
        "three_questions_at_once",
        _three_questions,
        [
            ask(status=WAITING),
            CaseCall(answer("all"), raises=InvalidInputError, match="waits for 3 answers, so name which"),
            CaseCall(by_id("3?", "1?", "2?")),
        ],
        [["one", "calm", "two", "three"], ["join"]],
        {"log": ["1? to 1?", "calm", "2? to 2?", "3? to 3?", "join"]},
    ),
    GraphCase(
        "three_questions_in_turn",
        _three_questions,
        [
            ask(status=WAITING),
            CaseCall(by_id("2?"), status=WAITING),
            CaseCall(by_id("3?"), status=WAITING),
            CaseCall(answer("the last")),
        ],
        [["one", "calm", "two", "three"], ["join"]],
        {"log": ["1? the last", "calm", "2? to 2?", "3? to 3?", "join"]},
    ),
    GraphCase(
        "an_except_does_not_swallow_a_question",
        _stubborn,
        [ask(status=WAITING), CaseCall(answer("yes"))],
        [["stubborn"]],
        {"log": ["given yes"]},
    ),
    GraphCase(
        "answer_to_nothing",
        _linear,
        [ask(), CaseCall(answer("yes"), raises=InterruptConflictError, match="Nothing waits")],
        [["a"], ["b"], ["c"]],
        {"log": ["a", "b", "c"]},
    ),
]

"""Stories in which several clients meet on one thread, or a person ends what waits."""

import random
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from tenxgraph.core.exceptions import InterruptConflictError, ThreadBusyError
from tenxgraph.core.graph import RunHandle, RunStatus
from tenxgraph.core.graph.multitask import MultitaskStrategy
from tenxgraph.core.state import StreamEvent
from tenxgraph.store.base import RunView
from tests.chaos.graphs import NEXT, QUESTIONS
from tests.chaos.teller import Check, Story, Teller, insist, together

_LOOK_S: Final = 0.05
_CLIENTS: Final = ("a", "b", "c")

# -- two starts


def _two_starts(strategy: MultitaskStrategy, teller: Teller) -> None:
    """At one instant, or the second while the first runs."""
    late_s = teller.chance.choice([0.0, 0.0, teller.chance.uniform(0, 1.5)])

    def start(also: str, pause_s: float) -> bool:
        time.sleep(pause_s)
        try:
            handle = teller.begin(also=also, multitask_strategy=strategy)
        except ThreadBusyError:
            return False
        teller.ended(handle)
        return True

    taken = together([partial(start, "-a", 0.0), partial(start, "-b", late_s)])
    assert any(taken), "both were refused"
    assert all(taken) or strategy is MultitaskStrategy.REJECT, "one was refused"


_ENDS: Final = {
    MultitaskStrategy.ENQUEUE: set[tuple[RunStatus, str]](),
    MultitaskStrategy.REJECT: set[tuple[RunStatus, str]](),
    MultitaskStrategy.INTERRUPT: {(RunStatus.STOPPED, "superseded by {}"), (RunStatus.CANCELLED, "superseded by {}")},
    MultitaskStrategy.ROLLBACK: {(RunStatus.CANCELLED, "rolled back by {}")},
}


def _first_ends_by_the_strategy(strategy: MultitaskStrategy) -> Check:
    def check(teller: Teller, runs: Sequence[RunView]) -> Iterator[str]:
        del teller
        last = runs[-1]
        right = {(status, reason.format(last.run_id)) for status, reason in _ENDS[strategy]}
        for run in runs:
            stands = (run.status, run.reason)
            if stands != (RunStatus.COMPLETED, "") and (run is last or stands not in right):
                yield f"{run.run_id} ended as {stands}; the last one was {last.run_id}"

    return check


# -- answers


def _many_answer(teller: Teller) -> None:
    """Three calls for one question, and one of them made twice: one is taken."""
    handle = teller.begin()
    (asked,) = teller.waits(handle)

    def answer(name: str) -> str:
        try:
            teller.answer(name, f"answer-{name}")
        except InterruptConflictError:
            return ""
        return name

    took = [name for name in together([partial(answer, name) for name in (*_CLIENTS, _CLIENTS[-1])]) if name]
    assert took in (["a"], ["b"], ["c", "c"]), f"taken: {took}"
    teller.answers[asked["id"]] = took[0]
    assert teller.ended(handle) is RunStatus.COMPLETED


def _in_any_order(teller: Teller) -> None:
    """Three clients answer whatever waits, each in an order of its own."""
    handle = teller.begin()
    teller.waits(handle)
    orders = [random.Random(f"{name} {teller.chance.random()}") for name in _CLIENTS]
    took = together(
        [partial(_answer_on, teller, handle, name, order) for name, order in zip(_CLIENTS, orders, strict=True)]
    )
    teller.answers = {question: value for answers in took for question, value in answers.items()}
    assert len(teller.answers) == sum(map(len, took)), f"a question was answered twice: {took}"
    assert len(teller.answers) == sum(QUESTIONS.values()), f"not all was answered: {took}"
    assert teller.ended(handle) is RunStatus.COMPLETED


def _answer_on(teller: Teller, handle: "RunHandle[Any]", name: str, order: random.Random) -> dict[str, str]:
    took: dict[str, str] = {}
    deadline_s = time.monotonic() + teller.patience_s
    while not insist(handle.status).is_terminal:
        assert time.monotonic() < deadline_s, f"stuck after {took}"
        asked = insist(lambda: teller.app.get_state({"thread_id": teller.thread_id})).interrupts
        if not asked:
            time.sleep(_LOOK_S)
            continue
        question = order.choice(asked)["id"]
        value = f"{name}{len(took)}"
        try:
            teller.answer({question: value}, f"{name}-{question}")
        except InterruptConflictError:
            continue  # another client was faster
        took[question] = value
    return took


# -- what waits is ended


def _cancelled_at_its_question(teller: Teller) -> None:
    handle = teller.begin()
    teller.waits(handle)
    assert teller.cancel(handle) is RunStatus.CANCELLED
    _next_that_asks(teller)


def _stopped_at_its_question(teller: Teller) -> None:
    handle = teller.begin()
    (asked,) = teller.waits(handle)
    assert insist(handle.stop) is RunStatus.STOPPED
    assert teller.ended(handle) is RunStatus.STOPPED
    if teller.chance.random() < 1 / 2:
        _next_that_asks(teller)
        return
    again = teller.go_on()
    assert [question["id"] for question in teller.waits(again)] == [asked["id"]]
    _answer(teller, again, asked)


def _next_that_asks(teller: Teller) -> None:
    after = teller.begin(also=NEXT)
    (asked,) = teller.waits(after)
    _answer(teller, after, asked)


def _answer(teller: Teller, handle: "RunHandle[Any]", asked: dict[str, Any]) -> None:
    teller.answers[asked["id"]] = "late"
    teller.answer({asked["id"]: "late"})
    assert teller.ended(handle) is RunStatus.COMPLETED


def _cancelled_in_its_retry_wait(teller: Teller) -> None:
    handle = teller.begin()
    for chunk in handle.stream(response_granularity="partial"):
        if chunk.event is StreamEvent.TASK_RETRY:
            break
    assert teller.cancel(handle) is RunStatus.CANCELLED
    assert teller.ended(teller.begin(also=NEXT)) is RunStatus.COMPLETED


# -- many at once


def _all_ended(teller: Teller) -> None:
    """Four in line; then all of the thread are cancelled, or stopped, by one call."""
    handles = [teller.begin(also=f"-{number}") for number in range(4)]
    teller.let_it_run()
    if teller.chance.random() < 1 / 2:
        ended = RunStatus.CANCELLED
        insist(lambda: teller.app.cancel_runs("chaos", thread_id=teller.thread_id))
        before = teller.state().marks
        assert all(insist(handle.status).is_terminal for handle in handles), "cancelled, and not ended"
    else:
        ended = RunStatus.STOPPED
        insist(lambda: teller.app.stop_runs(thread_id=teller.thread_id))
        before = None
    ends = [teller.ended(handle) for handle in handles]
    assert set(ends) <= {RunStatus.COMPLETED, ended}, ends
    assert before is None or teller.state().marks == before, "something was merged after all were cancelled"


MEETINGS: Final = {
    **{
        f"two starts, {strategy}": Story(
            "plain", partial(_two_starts, strategy), 4, check=_first_ends_by_the_strategy(strategy)
        )
        for strategy in MultitaskStrategy
    },
    "a question, many answers": Story("asking", _many_answer, 3),
    "three ask, three answer": Story("survey", _in_any_order, 3),
    "a question, cancelled": Story("asking", _cancelled_at_its_question, 2),
    "a question, stopped": Story("asking", _stopped_at_its_question, 2),
    "a retry wait, cancelled": Story("patient", _cancelled_in_its_retry_wait, 3, alone="plain"),
    "all of a thread ended": Story("plain", _all_ended, 3),
}

"""A follower misses no end: whenever it comes, and whatever the store still has."""

import asyncio
from typing import Any

import pytest

from tenxgraph.core.graph import RetryPolicy, StateGraph
from tenxgraph.core.state import Message, StreamChunk, TextBlock
from tenxgraph.store.memory import MemoryStore
from tenxgraph.utils import START, emit, interrupt

HELLO = {"messages": [Message.text_message("Hi", message_id="m1")]}


def _tells(state: Any) -> str:
    for number in range(5):
        emit(number)
    return "done"


def _asks(state: Any) -> str:
    return str(interrupt("Go on?"))


def app_of(node: Any, store: Any = None) -> Any:
    return StateGraph(name="told").add_node("node", node).add_edge(START, "node").compile(checkpointer=store)


def brief(chunks: list[StreamChunk]) -> list[tuple[str, str]]:
    return [(chunk.id, chunk.event) for chunk in chunks]


def test_a_stream_goes_on_after_any_event_without_gap_or_double() -> None:
    app = app_of(_tells)
    run = app.submit(HELLO)
    whole = brief(list(run.stream()))
    assert len({chunk_id for chunk_id, _ in whole}) == len(whole)
    assert (whole[0][1], whole[-1][1]) == ("run_start", "run_end")
    for position, (chunk_id, _) in enumerate(whole):
        assert brief(list(run.stream(after=chunk_id))) == whole[position + 1 :]


def test_every_event_of_a_task_has_its_attempt() -> None:
    of_tasks = ("task_start", "custom", "task_end")
    chunks = [chunk for chunk in app_of(_tells).submit(HELLO).stream() if chunk.event in of_tasks]
    assert [(chunk.event, chunk.node, chunk.step, chunk.task, chunk.attempt) for chunk in chunks] == [
        (event, "node", 1, "0", 1) for event in ("task_start", *["custom"] * 5, "task_end")
    ]


def _forget_events(store: MemoryStore, thread_id: str, run_id: str) -> None:
    store._threads[thread_id].runs[run_id].events.clear()


def test_the_end_is_told_when_the_events_are_kept_no_more() -> None:
    store = MemoryStore()
    app = app_of(_tells, store)
    run = app.submit(HELLO, {"thread_id": "T"})
    last_seen = list(run.stream())[2].id
    _forget_events(store, "T", run.run_id)

    (late,) = run.stream()
    assert (late.event, late.data) == ("run_end", {"status": "completed"})
    gone, end = run.stream(after=last_seen)
    assert (gone.event, gone.data["code"], gone.data["after"]) == ("error", "EVENTS_GONE", last_seen)
    assert brief([end]) == [(late.id, "run_end")]
    assert list(run.stream(after=gone.id)) == [late]
    assert list(run.stream(after=late.id)) == []

    async def follow() -> list[StreamChunk]:
        return [chunk async for chunk in run.astream(response_granularity="low")]

    assert brief(asyncio.run(follow())) == [(late.id, "run_end")]


class EndsBetween(MemoryStore):
    """Its next read was too early: the run ends right after it."""

    is_early = False

    def events(self, *args: Any, timeout_s: float) -> Any:
        was_early, self.is_early = self.is_early, False
        return [] if was_early else super().events(*args, timeout_s=timeout_s)


def test_what_a_run_did_between_the_last_read_and_the_look_at_its_status_is_read() -> None:
    store = EndsBetween()
    app = app_of(_tells, store)
    run = app.submit(HELLO)
    run.result()
    store.is_early = True
    events = [chunk.event for chunk in run.stream()]
    assert (events.count("custom"), events.count("run_end"), events[-1]) == (5, 1, "run_end")


@pytest.mark.parametrize("granularity", ["low", "full"])
def test_a_waiting_run_ends_its_stream_and_goes_on_in_the_next(granularity: str) -> None:
    app = app_of(_asks)
    asked = list(app.stream(HELLO, {"thread_id": "T"}, granularity))
    assert (asked[-1].event, asked[-1].data) == ("run_end", {"status": "waiting"})
    answered = list(app.stream({"resume": "yes"}, {"thread_id": "T"}, granularity))
    assert answered[-1].data == {"status": "completed"}
    assert not {chunk.id for chunk in asked} & {chunk.id for chunk in answered}
    assert [chunk.message.text() for chunk in answered if chunk.message] == ["yes"]


def _streams(state: Any) -> Message:
    for word in ("two ", "words"):
        emit(Message(message_id="M", role="assistant", content=[TextBlock(text=word)], delta=True))
    return Message.text_message("two words", "assistant", "M")


def test_a_delta_is_told_as_a_token_and_never_stored() -> None:
    app = app_of(_streams)
    chunks = list(app.stream(HELLO, {"thread_id": "T"}))
    assert [chunk.event for chunk in chunks] == ["token", "token", "message", "run_end"]
    tokens = [chunk.message for chunk in chunks if chunk.event == "token"]
    assert [(token.message_id, token.role, token.text(), token.delta) for token in tokens if token] == [
        ("M", "assistant", "two ", True),
        ("M", "assistant", "words", True),
    ]
    assert [message.text() for message in app.get_state({"thread_id": "T"}).state.context] == ["Hi", "two words"]


def test_an_attempt_that_failed_is_discarded_before_the_next_begins() -> None:
    tries: list[int] = []

    def fails_once(state: Any) -> str:
        tries.append(1)
        emit(len(tries))
        if len(tries) == 1:
            raise RuntimeError("no")
        return "done"

    graph = StateGraph(name="told").add_node("node", fails_once, retry=RetryPolicy(initial_s=0))
    chunks = list(graph.add_edge(START, "node").compile().stream(HELLO, response_granularity="partial"))
    of_task = [(chunk.event, chunk.node, chunk.task, chunk.attempt) for chunk in chunks if chunk.task is not None]
    assert of_task == [
        (event, "node", "0", attempt)
        for event, attempt in (
            ("task_start", 1), ("custom", 1), ("attempt_discarded", 1), ("task_retry", 1),
            ("task_start", 2), ("custom", 2), ("task_end", 2),
        )
    ]  # fmt: skip

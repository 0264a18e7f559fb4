"""Case J: what a run tells reaches clients in other processes, without gap and double, and its end always."""

import asyncio
import itertools
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest

from tenxgraph.core.graph import RunHandle
from tenxgraph.core.state import Message, StreamChunk
from tests.acceptance import case_graphs
from tests.acceptance.workers import Deployment, wait_until

pytestmark = pytest.mark.timeout(180)

HELLO: Final = {"messages": [Message.text_message("Hi", message_id="m1")]}
DROPS: Final = 10


def _ids(chunks: Sequence[StreamChunk]) -> list[str]:
    return [chunk.id for chunk in chunks]


def _handle(name: str, run_id: str) -> RunHandle[Any]:
    """A client of its own, as another process would be."""
    return getattr(case_graphs, name).compile().get_run(run_id)  # type: ignore[no-any-return]


def _follow_with_drops(name: str, run_id: str) -> Iterator[StreamChunk]:
    """Follow a run, and lose the connection after each tenth of its tokens."""
    last, tokens = None, 0
    for drop in range(1, DROPS + 2):
        for chunk in _handle(name, run_id).stream(after=last):
            last, tokens = chunk.id, tokens + (chunk.event == "token")
            yield chunk
            if tokens >= drop * case_graphs.TOKENS / (DROPS + 1) and drop <= DROPS:
                break


def _check(chunks: Sequence[StreamChunk]) -> None:
    assert len(set(_ids(chunks))) == len(chunks)
    of_attempts = {1: range(5), 2: range(case_graphs.TOKENS)}
    for attempt, numbers in of_attempts.items():
        told = [chunk for chunk in chunks if chunk.event == "token" and chunk.attempt == attempt]
        assert [int(chunk.message.text()) for chunk in told if chunk.message] == list(numbers)
    order = [key for key, _ in itertools.groupby((chunk.event, chunk.attempt) for chunk in chunks if chunk.attempt)]
    assert order == [
        ("task_start", 1), ("token", 1), ("attempt_discarded", 1), ("task_retry", 1),
        ("task_start", 2), ("token", 2), ("task_end", 2),
    ]  # fmt: skip
    assert sum(chunk.event == "run_end" for chunk in chunks) == 1
    assert (chunks[-1].event, chunks[-1].data) == ("run_end", {"status": "completed"})


@pytest.mark.parametrize(("name", "pool"), [("telling", "threads"), ("telling", "prefork"), ("atelling", "threads")])
def test_case_j_10000_tokens_ten_drops_and_a_discarded_attempt(deployment: Deployment, name: str, pool: str) -> None:
    deployment.start_scheduler()
    deployment.start_worker(f"tests.acceptance.case_graphs:{name}", pool=pool)
    run = getattr(case_graphs, name).compile().submit(HELLO, {"fails": True})
    slow: list[StreamChunk] = []
    may_go_on = threading.Event()

    def follow_slowly() -> None:
        for chunk in _handle(name, run.run_id).stream():
            slow.append(chunk)
            may_go_on.wait()

    slow_client = threading.Thread(target=follow_slowly)
    slow_client.start()
    wait_until(lambda: bool(slow), "the slow client has its first event")

    chunks = list(_follow_with_drops(name, run.run_id))

    _check(chunks)
    may_go_on.set()
    slow_client.join(60)
    assert _ids(slow) == _ids(chunks)
    late = list(_handle(name, run.run_id).stream())
    assert _ids(late) == _ids(chunks)
    assert run.result(timeout_s=10)["messages"][-1].text() == "".join(
        chunk.message.text() for chunk in late if chunk.event == "token" and chunk.attempt == 2 and chunk.message
    )

    async def follow() -> list[StreamChunk]:
        handle = _handle(name, run.run_id)
        return [chunk async for chunk in handle.astream(after=chunks[5].id)]

    assert _ids(asyncio.run(follow())) == _ids(chunks)[6:]


def test_who_joins_after_the_events_are_gone_is_told_the_end(deployment: Deployment) -> None:
    deployment.settings["STREAM_KEEP_S"] = "4"  # longer than a loaded machine takes to read them once
    deployment.start_worker("tests.acceptance.case_graphs:telling")
    run = case_graphs.telling.compile().submit(HELLO, {"fails": False})
    chunks = list(run.stream())
    (text,) = [chunk.message.text() for chunk in chunks if chunk.event == "message" and chunk.message]
    assert text.endswith(f" {case_graphs.TOKENS - 1} ")

    def follow() -> list[StreamChunk]:
        return list(_handle("telling", run.run_id).stream())

    wait_until(lambda: len(follow()) == 1, "the events are gone")
    (end,) = follow()
    assert (end.event, end.data) == ("run_end", {"status": "completed"})
    assert end.id not in _ids(chunks)


def _place(chunk: StreamChunk) -> str:
    return chunk.id.rpartition(".")[0]


def test_who_follows_too_slowly_is_told_what_is_gone_and_gets_the_rest(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment.settings["STREAM_MAX_LEN"] = "100"
    for name, value in deployment.environment.items():
        monkeypatch.setenv(name, value)
    run = case_graphs.many_parts.compile().submit(HELLO, {"quick": True})
    slow = run.stream()
    first = next(slow)

    async def follow() -> list[StreamChunk]:
        seen: list[StreamChunk] = []
        async for chunk in run.astream():
            seen.append(chunk)
            if len(seen) == 1:
                await asyncio.to_thread(deployment.start_worker, "tests.acceptance.case_graphs:many_parts")
                await run.aresult(60)
        return seen

    afirst, *aslow = asyncio.run(follow())
    assert afirst == first
    late = _ids(list(run.stream()))
    assert 100 <= len(late) < case_graphs.BRANCHES * 2
    for place, (gone, *rest) in (
        (_place(first), list(slow)),
        (_place(first), aslow),
        (first.id, list(run.stream(after=first.id))),
    ):
        assert (gone.event, gone.data["code"], gone.data["after"]) == ("error", "EVENTS_GONE", place)
        assert place in gone.data["message"]
        assert _ids(rest) == late
        assert (rest[-1].event, rest[-1].data) == ("run_end", {"status": "completed"})
        assert _ids(list(run.stream(after=gone.id))) == late
    assert _ids(list(run.stream(after=late[3]))) == late[4:]

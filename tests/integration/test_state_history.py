"""The history of a thread: a snapshot for each checkpoint, newest first, as ``get_state`` gives it; in both stores."""

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import fakeredis
import pytest

from tenxgraph.core.exceptions import InvalidInputError, NodeError, ThreadOwnerError
from tenxgraph.core.graph import CompiledGraph, RunStatus, StateGraph
from tenxgraph.core.state import Message
from tenxgraph.executor import InProcessExecutor
from tenxgraph.settings import Settings
from tenxgraph.store.base import Store
from tenxgraph.store.memory import MemoryStore
from tenxgraph.store.redis import RedisStore
from tests.graphs.tools import Log, chain, graph
from tests.servers import client_of, valkey_server  # noqa: F401  # fixtures come by import

Build = Callable[[StateGraph[Log]], tuple[CompiledGraph[Log], Store]]
T = {"thread_id": "T"}
HI = {"messages": [Message.text_message("Hi")]}


@pytest.fixture(params=["memory", "fakeredis", "valkey"])
def build(request: pytest.FixtureRequest) -> Iterator[Build]:
    fake = request.param != "valkey"
    with fakeredis.FakeRedis() if fake else client_of(request.getfixturevalue("valkey_server").port) as client:
        store: Store = MemoryStore() if request.param == "memory" else RedisStore(client, key_prefix=uuid.uuid4().hex)

        def compiled(built: StateGraph[Log]) -> tuple[CompiledGraph[Log], Store]:
            app = built.compile()
            app._executor = InProcessExecutor(app.definition, settings=Settings.load(), store=store)
            return app, store

        yield compiled


def test_a_history_has_each_checkpoint_newest_first_as_get_state_has_it(build: Build) -> None:
    app, _ = build(chain(graph("a", "b"), "a", "b"))
    first, second = (app.invoke(HI, T)["run_id"] for _ in range(2))
    history = list(app.get_state_history(T))
    assert [(point.checkpoint, point.run_id, point.next, point.state.log) for point in history] == [
        (6, second, (), ["a", "b", "a", "b"]),
        (5, second, ("b",), ["a", "b", "a"]),
        (4, second, ("a",), ["a", "b"]),
        (3, first, (), ["a", "b"]),
        (2, first, ("b",), ["a"]),
        (1, first, ("a",), []),
    ]
    for point in history:
        assert app.get_state(T, point.checkpoint) == point


def test_a_history_is_read_in_parts(build: Build) -> None:
    app, _ = build(chain(graph("a", "b"), "a", "b"))
    app.invoke(HI, T)

    def numbers(**which: int) -> list[int]:
        return [point.checkpoint for point in app.get_state_history(T, **which)]

    assert [numbers(limit=2), numbers(before=3), numbers(limit=1, before=3), numbers(before=1)] == [
        [3, 2],
        [2, 1],
        [2],
        [],
    ]
    assert numbers(limit=9, before=9) == [3, 2, 1]


def test_a_history_is_longer_than_a_page(build: Build) -> None:
    app, _ = build(chain(graph("a"), "a"))
    for _ in range(60):
        app.invoke(HI, T)
    numbers = [point.checkpoint for point in app.get_state_history(T)]
    assert numbers == list(range(120, 0, -1))
    assert [point.checkpoint for point in app.get_state_history(T, limit=70)] == numbers[:70]


def test_a_history_tells_what_a_run_was_and_the_newest_what_it_is(build: Build) -> None:
    def fail(state: Log) -> None:
        raise RuntimeError("it broke")

    app, _ = build(chain(graph("a", fail=fail), "a", "fail"))
    with pytest.raises(NodeError, match="it broke"):
        app.invoke(HI, T)
    newest, older = app.get_state_history(T)
    assert (newest.status, newest.next, newest.state.log) == (RunStatus.FAILED, ("fail",), ["a"])
    assert (older.status, older.next, older.state.log) == (RunStatus.RUNNING, ("a",), [])


def test_a_history_is_that_of_the_moment_when_it_was_asked_for(build: Build) -> None:
    app, _ = build(chain(graph("a"), "a"))
    app.invoke(HI, T)
    history = app.get_state_history(T)
    app.invoke(HI, T)
    assert [point.checkpoint for point in history] == [2, 1]


def test_a_history_shows_what_a_rollback_undid(build: Build) -> None:
    begun, go = threading.Event(), threading.Event()

    def slow(state: Log) -> dict[str, Any]:
        begun.set()
        assert go.wait(30)
        return {"log": ["slow"]}

    app, _ = build(chain(graph("a", slow=slow), "a", "slow"))
    go.set()
    app.invoke(HI, T)
    begun.clear()
    go.clear()
    old = app.submit(HI, T)
    assert begun.wait(30)
    new = app.submit(HI, {**T, "multitask_strategy": "rollback"})
    go.set()
    new.result(30)
    undone = next(point for point in app.get_state_history(T) if point.run_id == old.run_id)
    before = [point for point in app.get_state_history(T) if point.run_id == old.run_id][1:]
    assert (undone.status, undone.next, undone.state.log) == (RunStatus.CANCELLED, (), ["a", "slow"])
    assert [point.state.log for point in before] == [["a", "slow", "a"], ["a", "slow"]]


def test_async_code_reads_a_history_too(build: Build) -> None:
    app, _ = build(chain(graph("a"), "a"))
    app.invoke(HI, T)

    async def read() -> list[int]:
        return [point.checkpoint async for point in app.aget_state_history(T, limit=2)]

    assert asyncio.run(read()) == [2, 1]


def test_a_history_that_makes_no_sense_is_refused_when_it_is_asked_for(build: Build) -> None:
    app, _ = build(chain(graph("a"), "a"))
    app.invoke(HI, T)
    with pytest.raises(InvalidInputError, match="limit"):
        app.get_state_history(T, limit=0)
    with pytest.raises(InvalidInputError, match="before"):
        app.get_state_history(T, before="3")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="There is no thread 'nowhere'"):
        app.get_state_history({"thread_id": "nowhere"})
    with pytest.raises(ThreadOwnerError):
        app.get_state_history({**T, "user_id": "eve"})


def test_a_history_of_a_thread_that_is_deleted_meanwhile_says_so(build: Build) -> None:
    app, store = build(chain(graph("a"), "a"))
    app.invoke(HI, T)
    history = app.get_state_history(T)
    next(history)
    assert store.delete_thread("T")
    with pytest.raises(InvalidInputError, match="'T' was deleted"):
        list(history)

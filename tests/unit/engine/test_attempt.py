"""What one attempt makes of a node: retries, exits, commands, what nodes see."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tenxgraph.core.exceptions import NodeError
from tenxgraph.core.graph import RetryPolicy, StateGraph
from tenxgraph.core.state import Message
from tenxgraph.testing.crash import Crew, Died
from tenxgraph.utils import interrupt
from tenxgraph.utils.constants import START
from tenxgraph.utils.task_context import current_task
from tests.graphs.tools import Log, graph, say

TWICE = RetryPolicy(max_attempts=2, initial_s=0.01, jitter=False)


def _alone(node: Callable[..., Any], **policies: Any) -> StateGraph[Log]:
    return graph().add_node("node", node, **policies).set_entry_point("node")


def _crew(node: Callable[..., Any], **policies: Any) -> Crew:
    return Crew(_alone(node, **policies).define())


SAID = {"messages": [Message.text_message("Hi")]}
CONFIG = {"thread_id": "T", "run_id": "R"}


def test_an_attempt_that_died_uses_up_no_retry() -> None:
    def node(state: Log) -> str:
        match current_task("node").attempt:
            case 1 | 2:
                raise Died("in the node")
            case 3:
                raise ValueError("once")
            case _:
                return "done"

    crew = _crew(node, retry=TWICE)
    crew.call(SAID, CONFIG)
    assert crew.end("T").status == {"R": "completed"}


def test_an_attempt_that_asked_a_person_uses_up_no_retry() -> None:
    seen: list[int] = []

    def node(state: Log) -> str:
        interrupt("1?")
        interrupt("2?")
        seen.append(current_task("node").attempt)
        if len(seen) == 1:
            raise ValueError("once")
        return "done"

    app = _alone(node, retry=TWICE).compile()
    for given in (SAID, {"resume": 1}, {"resume": 2}):
        app.invoke(given, {"thread_id": "T"})
    assert app.get_state({"thread_id": "T"}).state.context[-1].text() == "done"
    assert seen == [3, 4]


def test_retries_are_used_up_by_failures_and_fresh_for_the_run_that_continues() -> None:
    tries: list[int] = []

    def node(state: Log) -> None:
        tries.append(current_task("node").attempt)
        raise ValueError("always")

    app = _alone(node, retry=TWICE).compile()
    for given in (SAID, None):
        with pytest.raises(NodeError, match="always"):
            app.invoke(given, {"thread_id": "T"})
    assert tries == [1, 2, 1, 2]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), StopIteration("x"), TimeoutError("own")])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_whatever_a_node_raises_fails_its_run_and_nothing_else(error: BaseException, is_async: bool) -> None:
    def node(state: Log) -> None:
        raise error

    async def node_async(state: Log) -> None:
        raise error

    app = _alone(node_async if is_async else node).compile()
    for _ in range(2):
        with pytest.raises(NodeError) as caught:
            app.invoke(say()(None), {"thread_id": "T"})
        assert not isinstance(caught.value, TimeoutError)
        assert type(error).__name__ in str(caught.value)


def test_the_error_of_a_node_is_the_cause_of_what_the_caller_gets() -> None:
    raised = ValueError("the very one")

    def node(state: Log) -> None:
        raise raised

    with pytest.raises(NodeError, match=r"node 'node' failed: ValueError: the very one") as caught:
        _alone(node).compile().invoke(SAID)
    assert caught.value.__cause__ is raised
    assert (caught.value.node, caught.value.attempt) == ("node", 1)


def test_a_message_without_an_id_gets_the_same_one_in_every_attempt() -> None:
    ids: list[Any] = []

    def node(state: Log) -> list[Message]:
        ids.append([Message.text_message(text, role="assistant").message_id for text in "ab"])
        if len(ids) == 1:
            raise Died("after making them")
        return []

    crew = _crew(node)
    crew.call(SAID, CONFIG)
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 2


def test_a_config_key_of_the_runtime_is_seen_by_nodes_too() -> None:
    seen: list[Mapping[str, Any]] = []

    def node(state: Log, config: Mapping[str, Any]) -> None:
        seen.append(dict(config))

    given = {"thread_id": "T", "run_id": "R", "timeout_s": 50, "priority": 3, "own": {"a": [1]}}
    before = dict(given)
    _alone(node).compile().invoke(SAID, given)
    assert given == before
    own = {"user_id": "anonymous", "recursion_limit": 25, "idempotency_key": seen[0]["idempotency_key"]}
    assert seen == [{**given, **own}]


def test_a_node_that_changes_its_config_changes_nobody_elses() -> None:
    seen: list[Any] = []

    def node(state: Log, config: dict[str, Any]) -> None:
        seen.append(config["own"].pop())

    built = graph().add_node("a", node).add_node("b", node).add_edge(START, "a").add_edge("a", "b")
    own = [1, 2]
    built.compile().invoke(SAID, {"own": own})
    assert (seen, own) == ([2, 2], [1, 2])


def test_a_fenced_attempt_writes_nothing() -> None:
    """A worker that was thought dead comes back in the middle of its node, after another attempt took the task."""
    crew: Crew
    attempts: list[int] = []

    def node(state: Log) -> str:
        attempts.append(current_task("node").attempt)
        if len(attempts) == 1:
            crew.harness.sleep_ms(60_000)
            for _ in range(4):
                crew._reconcile()
                while crew._broker:
                    crew._deliver()
        return f"attempt {attempts[-1]}"

    crew = _crew(node)
    crew.call(SAID, CONFIG)
    assert attempts == [1, 2]
    texts = [message["content"][0]["text"] for message in crew.end("T").states[-1]["context"]]
    assert texts == ["Hi", "attempt 2"]
    assert len(crew.end("T").ledger) == 2


def test_a_worker_that_was_taken_for_dead_is_fenced_while_another_holds_its_task() -> None:
    crew: Crew
    attempts: list[int] = []

    def node(state: Log) -> str:
        attempts.append(current_task("node").attempt)
        if len(attempts) == 1:
            crew._reconcile()
            other = crew._broker.pop().ref
            crew.store.claim(other, "another", worker="other", lease_ms=1, known=None, events=b"")
        return f"attempt {attempts[-1]}"

    crew = _crew(node)
    crew.call(SAID, CONFIG)
    assert attempts == [1, 3]
    assert [message["content"][0]["text"] for message in crew.end("T").states[-1]["context"]] == ["Hi", "attempt 3"]


def test_a_failure_that_nobody_foresaw_in_the_engine_does_not_leave_the_caller_waiting_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = _alone(lambda state: "fine").compile()

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr("tenxgraph.engine.step._planned_step", broken)
    with pytest.raises(NodeError, match="a bug of ours"):
        app.submit(SAID).result(timeout_s=10)

"""The agent's answer piece by piece, over HTTP: the same message in the end, whatever happens on the way."""

import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from tenxgraph.core.exceptions import NodeError
from tenxgraph.core.graph import Agent, RetryPolicy, StateGraph
from tenxgraph.core.state import Message, StreamChunk
from tenxgraph.prebuilt import ReactAgent
from tenxgraph.testing import TestAgent
from tenxgraph.utils.constants import START
from tests.unit.tools.openai_server import Answer, completion, openai_server

QUICK = RetryPolicy(max_attempts=3, initial_s=0, jitter=False)
SAID = "It rains in Oslo, as ever."


def get_weather(city: str) -> str:
    """Tell the weather."""
    return f"Rain in {city}"


def app_of(url: str, **options: Any) -> Any:
    return StateGraph().add_node("MAIN", Agent("m", base_url=url, **options)).add_edge(START, "MAIN").compile()


def hello() -> dict[str, Any]:
    return {"messages": [Message.text_message("Weather in Oslo?", message_id="asked")]}


def tokens(chunks: Sequence[StreamChunk]) -> list[Message]:
    return [chunk.message for chunk in chunks if chunk.event == "token" and chunk.message is not None]


def bare(message: Message) -> dict[str, Any]:
    return message.model_dump(exclude={"message_id", "timestamp"})


def test_a_tool_loop_streamed_and_invoked_gives_the_same_messages() -> None:
    calls = [("c1", "get_weather", '{"city": "Oslo"}'), ("c2", "get_weather", '{"city": "Bergen"}')]
    answers = [completion("Let me look.", calls=calls, reasoning="two cities"), completion(SAID)]
    with openai_server(*answers, *answers) as server:
        app = ReactAgent("m", [get_weather], base_url=server.url).compile()
        invoked = app.invoke(hello(), {"thread_id": "invoked"})
        chunks = list(app.stream(hello(), {"thread_id": "streamed"}))

    assert [body.get("stream", False) for body in server.asked] == [False, False, True, True]
    streamed = app.get_state({"thread_id": "streamed"}).state.context
    assert list(map(bare, streamed)) == list(map(bare, invoked["messages"]))
    assert streamed[1].usages == invoked["messages"][1].usages != None  # noqa: E711 - both are there
    first, last = streamed[1], streamed[-1]
    told = tokens(chunks)
    assert {token.message_id for token in told} == {first.message_id, last.message_id}
    of_first = [token for token in told if token.message_id == first.message_id]
    assert "".join(token.text() for token in of_first) == "Let me look."
    assert "".join(token.reasoning or "" for token in of_first) == first.reasoning == "two cities"
    pieces = [piece for token in of_first for piece in token.tools_calls or ()]
    assert [piece["id"] for piece in pieces if "id" in piece] == ["c1", "c2"]
    arguments = ["".join(p["function"]["arguments"] for p in pieces if p["index"] == index) for index in (0, 1)]
    assert arguments == [call[2] for call in calls]
    assert [token.text() for token in told if token.message_id == last.message_id] == [
        "It ", "rains ", "in ", "Oslo, ", "as ", "ever."
    ]  # fmt: skip
    assert all(token.delta for token in told)


def test_nobody_streams_who_does_not_want_tokens() -> None:
    with openai_server(completion(SAID)) as server:
        app = app_of(server.url)
        assert tokens(list(app.stream(hello(), {"stream_tokens": False}))) == []
        assert len(tokens(list(app.submit(hello()).stream()))) == 6
        app.invoke(hello(), {"stream_tokens": True})
    assert [body.get("stream", False) for body in server.asked] == [False, True, True]


def test_a_stream_that_is_cut_is_discarded_and_asked_again_in_a_new_attempt() -> None:
    with openai_server(Answer(completion(SAID), cut_after=4), completion(SAID)) as server:
        chunks = list(app_of(server.url, retry=QUICK).stream(hello(), {"thread_id": "T"}))
    told = [(chunk.event, chunk.attempt) for chunk in chunks if chunk.attempt is not None]
    assert told == [*[("token", 1)] * 3, ("attempt_discarded", 1), *[("token", 2)] * 6]
    ended = chunks[-2].message
    assert ended is not None
    assert ended.text() == SAID
    assert {token.message_id for token in tokens(chunks)} == {ended.message_id}
    assert len(server.asked) == 2


def test_a_stream_that_is_cut_before_its_first_word_is_asked_again_in_place() -> None:
    with openai_server(Answer(completion(SAID), cut_after=0), completion(SAID)) as server:
        chunks = list(app_of(server.url, retry=QUICK).stream(hello()))
    assert {chunk.attempt for chunk in chunks if chunk.event == "token"} == {1}
    assert len(server.asked) == 2


def test_a_stream_that_is_always_cut_goes_to_the_next_model_and_then_fails() -> None:
    twice = RetryPolicy(max_attempts=2, initial_s=0)
    with openai_server(Answer(completion(SAID), cut_after=4)) as server:
        run = app_of(server.url, retry=twice, fallback_models=["n"]).submit(hello())
        with pytest.raises(NodeError, match="'MAIN' failed"):
            run.result(timeout_s=30)
    assert [body["model"] for body in server.asked] == ["m", "m", "n", "n"]


@pytest.mark.parametrize(
    "bad",
    [
        Answer("{broken", headers={"Content-Type": "application/json"}),
        Answer(completion(SAID), cut_after=20),
        Answer({"error": {"message": "slow down"}}, 429),
        Answer({"error": {"message": "slow down"}}, 429, {"Retry-After": "1"}),
        Answer({"error": {"message": "down"}}, 503),
    ],
    ids=["broken JSON", "cut", "429", "429 for a second", "503"],
)
def test_a_bad_answer_is_asked_again_without_a_policy_of_ones_own(bad: Answer) -> None:
    with openai_server(bad, completion(SAID)) as server:
        began_s = time.monotonic()
        assert app_of(server.url).invoke(hello())["messages"][-1].text() == SAID
    assert len(server.asked) == 2
    assert "Retry-After" not in bad.headers or time.monotonic() - began_s >= 1


def test_broken_json_in_the_arguments_of_a_call_is_told_to_the_model() -> None:
    with openai_server(completion(calls=[("c1", "get_weather", '{"city": ')]), completion("Sorry.")) as server:
        app = ReactAgent("m", [get_weather], base_url=server.url).compile()
        assert list(app.stream(hello()))[-2].message.text() == "Sorry."  # type: ignore[union-attr]
    (result,) = [message for message in server.asked[1]["messages"] if message["role"] == "tool"]
    assert result["tool_call_id"] == "c1"


def test_a_long_retry_after_is_waited_for_without_a_worker() -> None:
    busy = Answer({"error": {"message": "slow down"}}, 429, {"Retry-After": "3"})
    with openai_server(busy, completion(SAID)) as server:
        run = app_of(server.url).submit(hello(), {"thread_id": "T"})
        chunks = list(run.stream(response_granularity="partial"))
    retry = next(chunk for chunk in chunks if chunk.event == "task_retry")
    assert (retry.data["reason"], retry.data["delay_s"] >= 3, "slow down" in retry.data["message"]) == (
        "retry_wait", True, True
    )  # fmt: skip
    assert [chunk.attempt for chunk in chunks if chunk.event == "task_start"] == [1, 2]
    assert server.asked_at_s[1] - server.asked_at_s[0] >= 3


def test_a_model_that_stays_busy_is_given_up_after_all_its_tries() -> None:
    busy = Answer({"error": {"message": "slow down"}}, 429, {"Retry-After": "3"})
    with openai_server(busy) as server, pytest.raises(NodeError, match="slow down"):
        app_of(server.url, max_retries=1).submit(hello()).result(timeout_s=30)
    assert len(server.asked) == 2


def test_all_runs_together_keep_to_the_rate_of_a_model() -> None:
    with openai_server(completion(SAID)) as server:
        app_of(server.url).invoke(hello())  # the first call imports; that is no wait of a rate's
        server.asked_at_s.clear()
        app = app_of(server.url, rate_limit="3/2s")
        runs = [app.submit(hello()) for _ in range(8)]
        reasons: set[str] = set()

        def watch() -> None:
            while any(not run.status().is_terminal for run in runs):
                reasons.update(app._executor.store.run(run.run_id).reason for run in runs)
                time.sleep(0.01)

        watcher = threading.Thread(target=watch)
        watcher.start()
        for run in runs:
            run.result(timeout_s=30)
        watcher.join()
    at_s = sorted(server.asked_at_s)
    assert len(at_s) == 8
    assert all(later - earlier > 1.7 for earlier, later in zip(at_s, at_s[3:], strict=False))
    assert at_s[-1] - at_s[0] < 10
    assert "rate_limit" in reasons


@pytest.mark.parametrize("text", ["", "60", "0/s", "5/fortnight", "1/0s", 5])
def test_a_rate_that_is_none_is_refused_by_name(text: Any) -> None:
    with pytest.raises(Exception, match=r"Agent: rate_limit must be a text such as '60/min'"):
        Agent("m", rate_limit=text)


def test_a_scripted_agent_streams_its_text_in_pieces_too() -> None:
    graph = StateGraph().add_node("MAIN", TestAgent(["  It rains.\n\nAs ever. ", [("get_weather", {"city": "Oslo"})]]))
    app = graph.add_edge(START, "MAIN").compile()
    chunks = list(app.stream(hello(), {"thread_id": "T"}))
    told = tokens(chunks)
    assert [token.text() for token in told] == ["  It", " rains.", "\n\nAs", " ever. "]
    assert {token.message_id for token in told} == {app.get_state({"thread_id": "T"}).state.context[-1].message_id}
    assert tokens(list(app.stream(hello() | {"messages": [Message.text_message("And?")]}, {"thread_id": "T"}))) == []
    assert app.invoke(hello(), {"thread_id": "U"})["messages"][-1].text() == "  It rains.\n\nAs ever. "

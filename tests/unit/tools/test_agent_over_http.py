"""The agent against an OpenAI-compatible server of our own."""

import json
from typing import Any

import pytest

from tenxgraph.core.exceptions import NodeError
from tenxgraph.core.graph import Agent, RetryPolicy, StateGraph
from tenxgraph.core.state import Message, TokenUsages, ToolResult
from tenxgraph.prebuilt import ReactAgent
from tenxgraph.utils.constants import START
from tests.unit.tools.openai_server import completion, openai_server


def get_weather(city: str) -> ToolResult:
    """Tell the weather.

    Args:
        city: The place.
    """
    return ToolResult({"city": city, "rain": True})


def hello(app: Any) -> dict[str, Any]:
    found: dict[str, Any] = app.invoke({"messages": [Message.text_message("Weather in Oslo?")]})
    return found


def test_a_tool_loop_over_http_with_usage() -> None:
    first = completion(calls=[("c1", "get_weather", '{"city": "Oslo"}'), ("c2", "get_weather", '{"town": "Oslo"}')])
    with openai_server(first, completion("It rains.")) as server:
        found = hello(ReactAgent("qwen3:8b", [get_weather], "Be brief.", base_url=server.url, temperature=0).compile())

    assert [message.role for message in found["messages"]] == ["user", "assistant", "tool", "tool", "assistant"]
    assert found["messages"][-1].text() == "It rains."
    assert found["token_usage"] == TokenUsages(
        completion_tokens=14, prompt_tokens=22, total_tokens=36, reasoning_tokens=10, cache_read_input_tokens=8
    )
    one, two = server.asked
    assert (one["path"], one["model"], one["temperature"]) == ("/v1/chat/completions", "qwen3:8b", 0)
    assert one["messages"][0] == {"role": "system", "content": "Be brief."}
    offered = one["tools"][0]["function"]
    assert (offered["name"], offered["description"]) == ("get_weather", "Tell the weather.")
    assert offered["parameters"]["properties"]["city"]["description"] == "The place."
    answers = [message for message in two["messages"] if message["role"] == "tool"]
    assert [message["tool_call_id"] for message in answers] == ["c1", "c2"]
    assert json.loads(answers[0]["content"]) == {"city": "Oslo", "rain": True}
    assert "city: Field required" in answers[1]["content"]


def test_429_is_asked_again_and_another_refusal_names_the_node() -> None:
    busy = (429, {"error": {"message": "slow down"}})
    retry = RetryPolicy(max_attempts=2, initial_s=0)
    with openai_server(busy, completion("fine")) as server:
        agent = Agent("m", base_url=server.url, retry=retry, max_retries=0)
        app = StateGraph().add_node("MAIN", agent).add_edge(START, "MAIN").compile()
        assert hello(app)["messages"][-1].text() == "fine"
        assert len(server.asked) == 2

    with openai_server((400, {"error": {"message": "too long"}})) as server:
        agent = Agent("m", base_url=server.url, retry=retry)
        app = StateGraph().add_node("MAIN", agent).add_edge(START, "MAIN").compile()
        with pytest.raises(NodeError, match=r"'MAIN' failed.*too long"):
            hello(app)
        assert len(server.asked) == 1


def test_a_model_that_is_away_is_replaced_by_the_next() -> None:
    with openai_server((500, {"error": {"message": "broken"}}), completion("from the second")) as server:
        agent = Agent("first", base_url=server.url, fallback_models=["second"], max_retries=0)
        app = StateGraph().add_node("MAIN", agent).add_edge(START, "MAIN").compile()
        assert hello(app)["messages"][-1].text() == "from the second"

    assert [asked["model"] for asked in server.asked] == ["first", "second"]

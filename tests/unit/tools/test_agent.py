"""What a model is asked, and what becomes of its answer: real conversions, models of pydantic-ai's own."""

import asyncio
import base64
import json
import logging
import subprocess
import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai.exceptions import ModelHTTPError, UserError
from pydantic_ai.messages import (
    BinaryContent,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UploadedFile,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.usage import RequestUsage

from tenxgraph.core.exceptions import GraphError, NodeError
from tenxgraph.core.graph import Agent, RetryPolicy, StateGraph, ToolNode
from tenxgraph.core.graph.model_request import to_request
from tenxgraph.core.state import (
    AgentState,
    AudioBlock,
    DataBlock,
    DocumentBlock,
    ErrorBlock,
    ImageBlock,
    MediaRef,
    Message,
    MessageContextManager,
    ReasoningBlock,
    SummaryContextManager,
    TextBlock,
    TokenUsages,
    ToolCallBlock,
    ToolResultBlock,
)
from tenxgraph.utils.constants import START


class Trip(AgentState):
    city: str = "Oslo"
    price: Decimal = Decimal("1.50")


class Weather(BaseModel):
    """The weather of a place."""

    city: str
    degrees: float


def get_weather(city: str) -> str:
    """Tell the weather.

    Args:
        city: The place.
    """
    return f"Rain in {city}"


class Script:
    """Answers in order, and keeps what it was asked."""

    def __init__(self, *answers: ModelResponse | Exception | str, profile: ModelProfile | None = None) -> None:
        self.answers = list(answers)
        self.asked: list[list[ModelMessage]] = []
        self.info: list[AgentInfo] = []
        self.model = FunctionModel(self._answer, model_name="scripted", profile=profile)

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.asked.append(messages)
        self.info.append(info)
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return ModelResponse(parts=[TextPart(answer)]) if isinstance(answer, str) else answer


def user(text: str) -> Message:
    return Message.text_message(text)


def ask(agent: Agent, *messages: Message, state: type[AgentState] = AgentState, **fields: Any) -> Message:
    given = asyncio.run(agent(state(context=list(messages) or [user("hi")], **fields), {}))
    assert isinstance(given, list)
    return given[0]


def http_error(status: int) -> ModelHTTPError:
    return ModelHTTPError(status, "scripted")


# -- what is sent


def test_a_conversation_is_sent_with_its_system_prompt() -> None:
    script = Script("hello")

    answer = ask(Agent(script.model, "Be brief."), user("hi"), Message.text_message("yes?", "assistant"), user("bye"))

    assert answer.text() == "hello"
    assert answer.role == "assistant"
    assert [type(message) for message in script.asked[0]] == [ModelRequest, ModelResponse, ModelRequest]
    assert script.info[0].instructions == "Be brief."


def test_fields_of_the_state_are_filled_into_the_system_prompt() -> None:
    script = Script("ok")

    ask(Agent(script.model, "In {city} for {price:.1f}: {{json}} {context_summary}!"), state=Trip)

    assert script.info[0].instructions == "In Oslo for 1.5: {json} !"


@pytest.mark.parametrize(
    ("prompt", "said"),
    [("{town}", "{town} names no field.*city"), ("{", "Single '{'"), ("{}", "[{]0[}] names"), ("{city.x}", "'x'")],
)
def test_a_wrong_field_in_the_system_prompt_is_named(prompt: str, said: str) -> None:
    with pytest.raises(GraphError, match=said) as caught:
        ask(Agent(Script("ok").model, prompt), state=Trip)

    assert caught.value.error_code == "SYSTEM_PROMPT"


def test_tools_are_offered_with_their_schemas() -> None:
    script = Script("ok")
    ask(Agent(script.model, tool_node=ToolNode([get_weather])))

    offered = script.info[0].function_tools[0]
    assert (offered.name, offered.description) == ("get_weather", "Tell the weather.")
    assert offered.parameters_json_schema["properties"] == {"city": {"type": "string", "description": "The place."}}


def test_settings_reach_the_model() -> None:
    script = Script("ok")
    ask(Agent(script.model, temperature=0.5, max_tokens=9))

    assert script.info[0].model_settings == {"temperature": 0.5, "max_tokens": 9}


def test_a_setting_that_no_model_has_is_named() -> None:
    with pytest.raises(GraphError, match="temprature"):
        ask(Agent(Script("ok").model, temprature=0))


PIXEL = base64.b64encode(b"pixel").decode()


def test_blocks_become_what_providers_take() -> None:
    media = MediaRef(url="https://example.com/a.png", mime_type="image/png")
    message = Message(
        role="user",
        content=[
            TextBlock(text="look"),
            ImageBlock(media=media),
            ImageBlock(media=MediaRef(kind="data", data_base64=PIXEL, mime_type="image/jpeg")),
            ImageBlock(media=MediaRef(url=f"data:image/gif;base64,{PIXEL}")),
            AudioBlock(media=MediaRef(kind="data", data_base64=PIXEL)),
            DocumentBlock(media=MediaRef(kind="file_id", file_id="f1")),
            DataBlock(mime_type="text/csv", data_base64=PIXEL),
            ErrorBlock(message="lost"),
        ],
    )

    sent = to_request([message], None, "openai")[0].parts[0]

    assert isinstance(sent, UserPromptPart)
    assert not isinstance(sent.content, str)
    text, url, jpeg, gif, audio, file, csv, error = sent.content
    assert (text, error) == ("look", "Error: lost")
    assert isinstance(url, ImageUrl)
    assert url.url == "https://example.com/a.png"
    kinds = [item.media_type for item in (jpeg, gif, audio, csv) if isinstance(item, BinaryContent)]
    assert kinds == ["image/jpeg", "image/gif", "audio/wav", "text/csv"]
    assert isinstance(jpeg, BinaryContent)
    assert jpeg.data == b"pixel"
    assert isinstance(file, UploadedFile)
    assert (file.file_id, file.provider_name) == ("f1", "openai")


def calling(*ids: str) -> Message:
    return Message(
        role="assistant", content=[ToolCallBlock(id=each, name="get_weather", args={"city": each}) for each in ids]
    )


def result(call_id: str, output: Any, *, failed: bool = False) -> Message:
    block = ToolResultBlock(call_id=call_id, output=output, is_error=failed, status="failed" if failed else "completed")
    return Message.tool_message([block])


def returns(message: ModelMessage) -> list[tuple[Any, ...]]:
    return [
        (part.tool_name, part.tool_call_id, part.content, part.outcome)
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]


def test_calls_and_their_results_are_sent_as_such() -> None:
    context = [user("hi"), calling("a", "b"), result("b", {"rain": True}), result("a", "no such city", failed=True)]

    _, call, answers = to_request(context, None, "x")

    assert [(part.tool_name, part.args) for part in call.parts if isinstance(part, ToolCallPart)] == [
        ("get_weather", {"city": "a"}),
        ("get_weather", {"city": "b"}),
    ]
    assert returns(answers) == [
        ("get_weather", "b", {"rain": True}, "success"),
        ("get_weather", "a", "no such city", "failed"),
    ]


def test_calls_given_as_tools_calls_only_are_sent_too() -> None:
    raw = {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "x"}'}}
    context = [Message(role="assistant", content=[], tools_calls=[raw]), result("a", "rain")]

    call, answers = to_request(context, None, "x")

    assert [part.args for part in call.parts if isinstance(part, ToolCallPart)] == [{"city": "x"}]
    assert returns(answers) == [("get_weather", "a", "rain", "success")]


def test_a_call_without_result_gets_one_that_says_so() -> None:
    """Else a thread whose run was cancelled between call and result is refused by every provider."""
    request = to_request([calling("a", "b"), result("a", "rain"), user("never mind")], None, "x")[1]

    assert [found[1:] for found in returns(request)] == [
        ("a", "rain", "success"),
        ("b", "The call was given up before it had a result.", "failed"),
    ]
    assert isinstance(request.parts[-1], UserPromptPart)


def test_a_result_without_call_is_not_sent() -> None:
    sent = to_request([user("hi"), result("gone", "rain")], None, "x")

    assert [part.part_kind for message in sent for part in message.parts] == ["user-prompt"]


def test_system_messages_of_the_context_are_sent_where_they_stand() -> None:
    sent = to_request([Message.text_message("rule", "system"), user("hi")], "prompt", "x")

    assert [type(part) for part in sent[0].parts] == [SystemPromptPart, UserPromptPart]
    assert isinstance(sent[0], ModelRequest)
    assert sent[0].instructions == "prompt"


def test_nothing_stands_between_a_call_and_its_result() -> None:
    request = to_request([calling("a"), Message.text_message("rule", "system"), result("a", "rain")], None, "x")[1]

    assert [part.part_kind for part in request.parts] == ["tool-return", "system-prompt"]


def test_an_empty_context_is_sent_as_the_prompt_alone() -> None:
    assert [message.instructions for message in to_request([], "prompt", "x") if isinstance(message, ModelRequest)] == [
        "prompt"
    ]


# -- what comes back


def test_a_call_is_in_tools_calls_and_a_block() -> None:
    parts: list[ModelResponsePart] = [TextPart("let me see"), ToolCallPart("get_weather", '{"city": "Oslo"}', "c1")]
    answer = ask(Agent(Script(ModelResponse(parts=parts)).model, tool_node=ToolNode([get_weather])))

    assert answer.content == [
        TextBlock(text="let me see"),
        ToolCallBlock(id="c1", name="get_weather", args={"city": "Oslo"}),
    ]
    assert answer.tools_calls == [
        {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}
    ]


@pytest.mark.parametrize("args", [None, "", {}, "{}"])
def test_a_call_without_arguments_is_a_call(args: Any) -> None:
    answer = ask(Agent(Script(ModelResponse(parts=[ToolCallPart("now", args, "c1")])).model))

    assert answer.content == [ToolCallBlock(id="c1", name="now", args={})]
    assert [call["function"]["arguments"] for call in answer.tools_calls or ()] == ["{}"]


def test_usage_and_reasoning_are_kept() -> None:
    usage = RequestUsage(
        input_tokens=10, output_tokens=5, cache_read_tokens=3, cache_write_tokens=2, details={"reasoning_tokens": 4}
    )
    response = ModelResponse(parts=[ThinkingPart("hm"), TextPart("ok")], usage=usage)

    answer = ask(Agent(Script(response).model))

    assert answer.usages == TokenUsages(
        completion_tokens=5,
        prompt_tokens=10,
        total_tokens=15,
        reasoning_tokens=4,
        cache_creation_input_tokens=2,
        cache_read_input_tokens=3,
    )
    assert (answer.reasoning, answer.text()) == ("hm", "ok")
    assert answer.content[0] == ReasoningBlock(summary="hm")


def test_an_image_is_a_block_and_goes_back_as_it_came() -> None:
    response = ModelResponse(parts=[FilePart(BinaryContent(b"png", media_type="image/png"))])
    answer = ask(Agent(Script(response).model))

    assert isinstance(answer.content[0], ImageBlock)
    sent = to_request([answer], None, "x")[0].parts[0]
    assert isinstance(sent, FilePart)
    assert sent.content.data == b"png"


def test_signatures_and_ids_go_back_with_the_next_request() -> None:
    parts: list[ModelResponsePart] = [
        ThinkingPart("hm", signature="sig", id="rs_1", provider_name="google"),
        ToolCallPart("get_weather", {"city": "x"}, "c1", provider_name="google", provider_details={"thought": "abc"}),
    ]
    answer = ask(Agent(Script(ModelResponse(parts=parts, provider_name="google")).model))
    stored = Message.model_validate_json(answer.model_dump_json())

    response = to_request([stored, result("c1", "rain")], None, "google")[0]

    assert isinstance(response, ModelResponse)
    assert response.provider_name == "google"
    thinking, call = response.parts
    assert isinstance(thinking, ThinkingPart)
    assert (thinking.content, thinking.signature, thinking.id) == ("hm", "sig", "rs_1")
    assert isinstance(call, ToolCallPart)
    assert call.provider_details == {"thought": "abc"}


def test_reasoning_that_only_its_provider_can_read_goes_back_too() -> None:
    parts: list[ModelResponsePart] = [ThinkingPart("", signature="sealed", provider_name="openai"), TextPart("ok")]
    answer = ask(Agent(Script(ModelResponse(parts=parts)).model))

    thinking = to_request([answer], None, "openai")[0].parts[0]
    assert isinstance(thinking, ThinkingPart)
    assert thinking.signature == "sealed"
    assert answer.reasoning is None


def test_the_whole_answer_is_kept_where_asked_for() -> None:
    script = Script("ok")

    assert ask(Agent(script.model)).raw is None
    raw = ask(Agent(script.model, keep_raw=True)).raw
    assert raw is not None
    assert raw["parts"][0]["content"] == "ok"
    assert json.loads(json.dumps(raw)) == raw


def test_arguments_that_are_no_json_reach_the_model_as_a_failed_result() -> None:
    broken = ModelResponse(parts=[ToolCallPart("get_weather", '{"city": ', "c1")])
    node = ToolNode([get_weather])
    answer = ask(Agent(Script(broken).model, tool_node=node))

    update = asyncio.run(node(AgentState(context=[answer]), {}))

    assert update is not None
    block = update["context"][0].content[0]
    assert block.is_error
    assert "'{\"city\": '" in block.output


# -- structured output


NATIVE = ModelProfile(supports_json_schema_output=True, default_structured_output_mode="native")


def test_structured_output_by_a_tool_is_parsed() -> None:
    script = Script(ModelResponse(parts=[ToolCallPart("final_result", {"city": "Oslo", "degrees": 3}, "c1")]))

    answer = ask(Agent(script.model, output_schema=Weather, tool_node=ToolNode([get_weather])))

    assert answer.parsed_content == Weather(city="Oslo", degrees=3)
    assert json.loads(answer.text()) == {"city": "Oslo", "degrees": 3.0}
    assert answer.tools_calls is None
    assert [each.name for each in script.info[0].output_tools] == ["final_result"]


def test_structured_output_as_json_is_parsed() -> None:
    script = Script('{"city": "Oslo", "degrees": 3}', profile=NATIVE)

    assert ask(Agent(script.model, output_schema=Weather)).parsed_content == Weather(city="Oslo", degrees=3)
    output = script.info[0].model_request_parameters.output_object
    assert output is not None
    assert output.json_schema["required"] == ["city", "degrees"]


def test_a_model_may_call_tools_before_its_structured_answer() -> None:
    script = Script(ModelResponse(parts=[ToolCallPart("get_weather", {"city": "Oslo"}, "c1")]))
    answer = ask(Agent(script.model, output_schema=Weather, tool_node=ToolNode([get_weather])))

    assert answer.parsed_content is None
    assert len(answer.tools_calls or ()) == 1


def test_output_that_does_not_fit_is_an_error_and_may_be_asked_for_again() -> None:
    bad, good = '{"city": "Oslo"}', '{"city": "Oslo", "degrees": 1}'
    with pytest.raises(NodeError, match=r"does not fit Weather: degrees: Field required") as caught:
        ask(Agent(Script(bad, profile=NATIVE).model, output_schema=Weather))
    assert caught.value.error_code == "INVALID_OUTPUT"

    retry = RetryPolicy(max_attempts=2, initial_s=0)
    answer = ask(Agent(Script(bad, good, profile=NATIVE).model, output_schema=Weather, retry=retry))
    assert answer.parsed_content == Weather(city="Oslo", degrees=1)


# -- failures


def test_the_next_model_is_asked_when_one_fails() -> None:
    first, second, third = Script(http_error(503)), Script(http_error(404)), Script("third")

    answer = ask(Agent(first.model, fallback_models=[second.model, third.model]))

    assert answer.text() == "third"
    assert len(first.asked) == len(second.asked) == 1


def test_when_all_models_fail_the_last_error_names_the_others() -> None:
    agent = Agent(Script(http_error(503)).model, fallback_models=[Script(http_error(404)).model])
    with pytest.raises(ModelHTTPError) as caught:
        ask(agent)

    assert caught.value.status_code == 404
    assert "503" in caught.value.__notes__[0]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_failure_that_passes_is_tried_again(status: int) -> None:
    script = Script(http_error(status), http_error(status), "ok")

    assert ask(Agent(script.model, retry=RetryPolicy(max_attempts=3, initial_s=0))).text() == "ok"
    assert len(script.asked) == 3


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_question_that_was_refused_is_not_asked_again(status: int) -> None:
    script = Script(http_error(status), "ok")
    with pytest.raises(ModelHTTPError):
        ask(Agent(script.model, retry=RetryPolicy(max_attempts=3, initial_s=0)))

    assert len(script.asked) == 1


def test_a_mistake_of_ours_is_not_hidden_by_a_fallback() -> None:
    with pytest.raises(GraphError, match="not like this"):
        ask(Agent(Script(UserError("not like this")).model, fallback_models=[Script("ok").model]))


def test_an_unknown_model_says_what_to_write() -> None:
    with pytest.raises(GraphError, match=r"Model 'llama'.*provider:name.*base_url") as caught:
        ask(Agent("llama"))

    assert caught.value.error_code == "MODEL"


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("model", ""),
        ("model", 3),
        ("system_prompt", ["be brief"]),
        ("tool_node", "TOOL"),
        ("output_schema", dict),
        ("retry", 3),
        ("fallback_models", [None]),
    ],
)
def test_an_argument_that_makes_no_sense_is_refused_at_once(argument: str, value: Any) -> None:
    with pytest.raises(GraphError, match=f"Agent: {argument} must be") as caught:
        Agent(**{"model": "gpt-5", argument: value})

    assert caught.value.error_code == "INVALID_AGENT"


@pytest.mark.parametrize(
    ("model", "missing", "extra"),
    [
        ("gpt-5", "pydantic_ai", "openai"),
        ("claude-opus-5", "pydantic_ai", "anthropic"),
        ("gemini-2.5-flash", "pydantic_ai", "google"),
        ("groq:llama", "pydantic_ai", "llm"),
        ("gpt-5", "openai", "openai"),
    ],
)
def test_constructing_needs_no_package_and_calling_says_what_to_install(model: str, missing: str, extra: str) -> None:
    code = f"""
import asyncio, sys
from tenxgraph.core.graph import Agent
from tenxgraph.core.state import AgentState, Message
assert "pydantic_ai" not in sys.modules
sys.modules[{missing!r}] = None
agent = Agent({model!r})
try:
    asyncio.run(agent(AgentState(context=[Message.text_message("hi")]), {{}}))
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.startswith("GraphError [MISSING_EXTRA]")
    assert f"pip install 'tenxgraph[{extra}]'" in done.stdout


def test_the_test_model_of_pydantic_ai_is_a_model_too() -> None:
    assert ask(Agent(TestModel(custom_output_text="fine"))).text() == "fine"


# -- context managers


def agent_app(model: Any, manager: Any, state: type[AgentState] = AgentState) -> Any:
    graph = StateGraph(state, context_manager=manager)
    graph.add_node("MAIN", Agent(model, "Sum: {context_summary}", trim_context=True))
    return graph.add_edge(START, "MAIN").compile()


def prompts(messages: Sequence[ModelMessage]) -> list[Any]:
    return [part.content for message in messages for part in message.parts if isinstance(part, UserPromptPart)]


def talk(app: Any, turns: int) -> None:
    for turn in range(turns):
        app.invoke({"messages": [user(f"turn {turn}")]}, config={"thread_id": "t"})


def test_eleven_turns_through_a_manager_of_ten_send_the_first_and_the_last_ten() -> None:
    script = Script("ok")
    app = agent_app(script.model, MessageContextManager(10))

    talk(app, 12)

    assert prompts(script.asked[9]) == [f"turn {turn}" for turn in range(10)]
    assert prompts(script.asked[10]) == [f"turn {turn}" for turn in range(11)]
    assert prompts(script.asked[11]) == ["turn 0", *(f"turn {turn}" for turn in range(2, 12))]


def test_a_new_summary_is_sent_and_stored() -> None:
    script = Script("ok")
    manager = SummaryContextManager(2, summarize=lambda old, so_far: f"{so_far or ''}[{len(old)}]")
    app = agent_app(script.model, manager)

    talk(app, 3)

    assert prompts(script.asked[2]) == ["turn 1", "turn 2"]
    assert script.info[2].instructions == "Sum: [2]"
    assert app.get_state({"thread_id": "t"}).state.context_summary == "[2]"


def test_a_summary_reaches_the_model_though_the_prompt_does_not_name_it() -> None:
    script = Script("ok")
    ask(Agent(script.model, "Be brief."), context_summary="They met.")

    assert script.info[0].instructions == "Be brief.\n\nWhat was said before, in short:\nThey met."


def test_without_a_manager_everything_is_sent_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    script = Script("ok")
    with caplog.at_level(logging.WARNING, logger="tenxgraph"):
        talk(agent_app(script.model, None), 12)

    assert len(prompts(script.asked[11])) == 12
    assert "no context manager" in caplog.text


def test_without_the_flag_a_manager_does_not_act() -> None:
    script = Script("ok")
    graph = StateGraph(AgentState, context_manager=MessageContextManager(1))
    app = graph.add_node("MAIN", Agent(script.model)).add_edge(START, "MAIN").compile()

    talk(app, 3)

    assert len(prompts(script.asked[2])) == 3


def test_an_answer_is_stored_and_read_back_equal() -> None:
    script = Script(ModelResponse(parts=[ToolCallPart("final_result", {"city": "Oslo", "degrees": 3}, "c1")]))
    graph = StateGraph()
    graph.add_node("MAIN", Agent(script.model, output_schema=Weather, keep_raw=True)).add_edge(START, "MAIN")

    found = graph.compile().invoke({"messages": [user("hi")]})

    assert found["messages"][-1].parsed_content == {"city": "Oslo", "degrees": 3.0}
    assert found["token_usage"].total_tokens > 0

"""The ready-made loop of model and tools, and the scripted agent that stands in for a model."""

import operator
from collections.abc import Mapping
from typing import Annotated, Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tenxgraph.core.exceptions import GraphError, NodeError
from tenxgraph.core.graph import StateGraph
from tenxgraph.core.state import AgentState, Message, MessageContextManager, ToolCallBlock, ToolResult
from tenxgraph.prebuilt import ReactAgent
from tenxgraph.testing import TestAgent
from tenxgraph.utils.constants import START
from tests.unit.tools.graphs import results

CONFIG: Mapping[str, Any] = {"thread_id": "t"}


class Count(AgentState):
    total: Annotated[int, operator.add] = 0


def add(n: int) -> ToolResult:
    """Add to the total."""
    if n == 3:
        raise ValueError("three is not for sale")
    return ToolResult(f"added {n}", state={"total": n})


def hi() -> dict[str, Any]:
    return {"messages": [Message.text_message("hi")]}


def test_six_rounds_of_tools_each_seen_by_the_model_in_the_next_prompt() -> None:
    prompts: list[list[Any]] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        prompts.append([part.content for part in messages[-1].parts if isinstance(part, ToolReturnPart)])
        if len(prompts) == 7:
            return ModelResponse(parts=[TextPart("done")])
        assert [tool.name for tool in info.function_tools] == ["add"]
        call = len(prompts)
        return ModelResponse(
            parts=[ToolCallPart("add", {"n": call}, f"a{call}"), ToolCallPart("add", {"n": 10}, f"b{call}")]
        )

    app = ReactAgent(FunctionModel(answer), [add], state=Count).compile()
    found = app.invoke(hi(), config=CONFIG, response_granularity="full")

    assert found["messages"][-1].text() == "done"
    assert found["state"].total == 60 + 1 + 2 + 4 + 5 + 6
    assert prompts[0] == []
    assert prompts[1] == ["added 1", "added 10"]
    assert prompts[3] == ["Tool 'add' failed: ValueError: three is not for sale", "added 10"]
    assert len(results(found["state"].context)) == 12
    assert [message.role for message in found["state"].context[:4]] == ["user", "assistant", "tool", "tool"]


def test_the_loop_streams_what_invoke_returns() -> None:
    script = [[("add", {"n": 1})], [("add", {"n": 2}), ("add", {"n": 4})], "done"]
    invoked = ReactAgent(TestAgent(script), [add], state=Count).compile().invoke(hi(), config=CONFIG)
    chunks = list(ReactAgent(TestAgent(script), [add], state=Count).compile().stream(hi(), config=CONFIG))

    def plain(message: Message) -> Any:
        return message.role, message.content

    streamed = [chunk.message for chunk in chunks if chunk.event == "message" and chunk.message is not None]
    assert [plain(message) for message in streamed] == [plain(message) for message in invoked["messages"][1:]]


def test_a_second_turn_goes_on_in_the_script() -> None:
    app = ReactAgent(TestAgent([[("add", {"n": 1})], "one", [("add", {"n": 2})], "two"]), [add], state=Count).compile()

    assert app.invoke(hi(), config=CONFIG)["messages"][-1].text() == "one"
    assert app.invoke(hi(), config=CONFIG)["messages"][-1].text() == "two"
    assert app.get_state(CONFIG).state.total == 3


def test_a_context_manager_turns_trimming_on() -> None:
    seen: list[int] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(sum(isinstance(part, UserPromptPart) for message in messages for part in message.parts))
        return ModelResponse(parts=[TextPart("ok")])

    app = ReactAgent(FunctionModel(answer), [add], context_manager=MessageContextManager(1)).compile()
    for _ in range(4):
        app.invoke(hi(), config=CONFIG)

    assert seen == [1, 2, 2, 2]


def test_options_that_a_node_of_ones_own_cannot_take_are_refused() -> None:
    with pytest.raises(GraphError, match="takes no temperature"):
        ReactAgent(TestAgent(["x"]), [add], temperature=1)


def test_the_graph_can_be_drawn_and_extended() -> None:
    agent = ReactAgent(TestAgent(["x"]), [add], name="shop")

    assert agent.compile().name == "shop"
    assert list(agent.compile().definition.nodes) == ["MAIN", "TOOL"]


# -- the scripted agent


def scripted(*responses: Any) -> Any:
    return StateGraph().add_node("MAIN", TestAgent(responses)).add_edge(START, "MAIN").compile()


def test_a_response_is_a_text_a_message_or_calls() -> None:
    message = Message.text_message("whole", role="assistant", message_id="m1")
    calls = [("add", {"n": 1}), {"name": "add", "args": {"n": 2}, "id": "x"}, ToolCallBlock(id="y", name="add")]
    app = scripted("text", message, calls)

    text, whole, asking = (app.invoke(hi(), config=CONFIG)["messages"][-1] for _ in range(3))

    assert (text.role, text.text()) == ("assistant", "text")
    assert (whole.message_id, whole.text()) == ("m1", "whole")
    assert [(block.id, block.args) for block in asking.content] == [("call_2_0", {"n": 1}), ("x", {"n": 2}), ("y", {})]
    assert [call["id"] for call in asking.tools_calls] == ["call_2_0", "x", "y"]


def test_a_message_without_an_id_may_be_said_twice() -> None:
    again = Message.text_message("again", role="assistant")
    app = scripted(again, again)
    for _ in range(2):
        app.invoke(hi(), config=CONFIG)

    assert [message.text() for message in app.get_state(CONFIG).state.context] == ["hi", "again", "hi", "again"]


def test_a_script_that_ends_says_so() -> None:
    app = scripted("only")
    app.invoke(hi(), config=CONFIG)

    with pytest.raises(NodeError, match="TestAgent has 1 responses") as caught:
        app.invoke(hi(), config=CONFIG)
    assert caught.value.error_code == "TEST_AGENT"


@pytest.mark.parametrize("response", [3, [], [3], [("add",)], [{"args": {}}]])
def test_a_response_that_is_none_is_refused_at_once(response: Any) -> None:
    with pytest.raises(GraphError, match="TestAgent: response 1 has"):
        TestAgent(["fine", response])

"""What a context manager takes out of a conversation is out of ``context`` too, and stays in the thread's log."""

from collections.abc import Callable, Iterator
from typing import Any

import fakeredis
import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tenxgraph.core.exceptions import InvalidInputError, NodeError, ThreadOwnerError
from tenxgraph.core.graph import Agent, CompiledGraph, StateGraph, ToolNode
from tenxgraph.core.state import (
    AgentState,
    BaseContextManager,
    Message,
    MessageContextManager,
    SummaryContextManager,
    ToolResultBlock,
)
from tenxgraph.executor import InProcessExecutor
from tenxgraph.settings import Settings
from tenxgraph.store.base import Store
from tenxgraph.store.memory import MemoryStore
from tenxgraph.store.redis import RedisStore
from tenxgraph.utils.constants import END, START

Build = Callable[[StateGraph[Any]], CompiledGraph[Any]]
THREAD = {"thread_id": "t"}


@pytest.fixture(params=["memory", "redis"])
def build(request: pytest.FixtureRequest) -> Iterator[Build]:
    with fakeredis.FakeRedis() as client:
        store: Store = MemoryStore() if request.param == "memory" else RedisStore(client)

        def compiled(graph: StateGraph[Any]) -> CompiledGraph[Any]:
            app = graph.compile()
            app._executor = InProcessExecutor(app.definition, settings=Settings.load(), store=store)
            return app

        yield compiled


def answering(seen: list[list[str]], *, fails_at: int = -1) -> FunctionModel:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        prompts = [part for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
        seen.append([str(part.content) for part in prompts])
        if len(seen) == fails_at:
            raise ValueError("the model is away")
        return ModelResponse(parts=[TextPart(f"answer to {seen[-1][-1]}")])

    return FunctionModel(answer)


def agent_graph(model: FunctionModel, manager: BaseContextManager) -> StateGraph[Any]:
    graph: StateGraph[Any] = StateGraph(AgentState, context_manager=manager)
    graph.add_node("MAIN", Agent(model, trim_context=True))
    return graph.add_edge(START, "MAIN").add_edge("MAIN", END)


def say(app: CompiledGraph[Any], text: str) -> dict[str, Any]:
    return app.invoke({"messages": [Message.text_message(text)]}, THREAD)


def texts(messages: list[Message]) -> list[str]:
    return [message.text() for message in messages]


def test_eleven_turns_leave_the_first_message_and_ten_turns_in_context_and_all_in_the_log(build: Build) -> None:
    seen: list[list[str]] = []
    app = build(agent_graph(answering(seen), MessageContextManager(10)))
    for turn in range(11):
        result = say(app, f"{turn}")
        assert texts(result["messages"]) == [f"{turn}", f"answer to {turn}"]

    first, *others = [text for turn in range(11) for text in (f"{turn}", f"answer to {turn}")]
    assert seen[10] == [f"{turn}" for turn in range(11)]
    assert texts(app.get_state(THREAD).state.context) == [first, *others[1:]]
    assert texts(app.messages(THREAD)) == [first, *others]
    assert texts(app.messages(THREAD, offset=-3, limit=2)) == ["answer to 9", "10"]
    assert texts(app.messages(THREAD, offset=1, limit=2)) == ["answer to 0", "1"]
    before = app.get_state(THREAD, checkpoint=app.get_state(THREAD).checkpoint - 1).state
    assert texts(before.context) == [first, *others[:-1]]


def test_what_was_taken_out_does_not_come_in_again_by_being_returned(build: Build) -> None:
    def repeat(state: AgentState) -> AgentState:
        return state

    graph = agent_graph(answering([]), MessageContextManager(1))
    graph.add_node("REPEAT", repeat).add_edge(START, "REPEAT")
    app = build(graph)
    for turn in range(4):
        say(app, f"{turn}")

    assert texts(app.get_state(THREAD).state.context) == ["0", "3", "answer to 3"]
    assert len(app.messages(THREAD)) == 8


def test_a_manager_of_ones_own_may_put_a_message_in_the_place_of_others(build: Build) -> None:
    class Note(BaseContextManager):
        def trim_context(self, state: Any) -> Any:
            if len(state.context) < 4:
                return state
            note = Message.text_message(f"[{len(state.context) - 1} before]", role="system")
            return state.model_copy(update={"context": [note, state.context[-1]], "context_summary": "noted"})

    app = build(agent_graph(answering([]), Note()))
    *_, result = [say(app, f"{turn}") for turn in range(4)]

    assert texts(app.get_state(THREAD).state.context) == ["[3 before]", "3", "answer to 3"]
    assert app.get_state(THREAD).state.context_summary == "noted"
    assert "3" in texts(result["messages"])
    assert [text for text in texts(app.messages(THREAD)) if not text.startswith("[")] == [
        text for turn in range(4) for text in (f"{turn}", f"answer to {turn}")
    ]


def test_a_summary_takes_the_place_of_what_it_sums_up(build: Build) -> None:
    manager = SummaryContextManager(
        2, summarize=lambda old, so_far: f"{so_far or ''}[{' '.join(map(Message.text, old))}]"
    )
    app = build(agent_graph(answering([]), manager))
    for turn in range(4):
        say(app, f"{turn}")

    state = app.get_state(THREAD).state
    assert state.context_summary == "[0 answer to 0][1 answer to 1]"
    assert texts(state.context) == ["2", "answer to 2", "3", "answer to 3"]
    assert len(app.messages(THREAD)) == 8


def test_a_summary_that_fails_leaves_everything_as_it_was(build: Build) -> None:
    def away(old: Any, so_far: Any) -> str:
        raise ValueError("the model is away")

    seen: list[list[str]] = []
    app = build(agent_graph(answering(seen), SummaryContextManager(1, summarize=away)))
    for turn in range(3):
        say(app, f"{turn}")

    state = app.get_state(THREAD).state
    assert seen[-1] == ["0", "1", "2"]
    assert state.context_summary is None
    assert texts(state.context) == texts(app.messages(THREAD))
    assert len(state.context) == 6


def test_a_model_that_fails_after_trimming_leaves_everything_as_it_was(build: Build) -> None:
    app = build(agent_graph(answering([], fails_at=2), MessageContextManager(1)))
    say(app, "0")
    with pytest.raises(NodeError, match="away"):
        say(app, "1")

    assert texts(app.get_state(THREAD).state.context) == ["0", "answer to 0", "1"]
    app.invoke(None, THREAD)
    assert texts(app.get_state(THREAD).state.context) == ["0", "1", "answer to 1"]


def test_two_agents_side_by_side_leave_what_the_first_of_them_left(build: Build) -> None:
    manager = SummaryContextManager(1, summarize=lambda old, so_far: f"{so_far or ''}[{len(old)}]")
    graph = agent_graph(answering([]), manager)
    graph.add_node("SECOND", Agent(answering([]), trim_context=True)).add_edge(START, "SECOND")
    app = build(graph)
    for turn in range(3):
        say(app, f"{turn}")

    state = app.get_state(THREAD).state
    assert state.context_summary == "[3][3]"
    assert texts(state.context) == ["2", "answer to 2", "answer to 2"]


@pytest.mark.parametrize("turns", range(1, 6))
def test_tool_sequences_stay_whole_at_every_cut(turns: int, build: Build) -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1].parts[-1]
        if isinstance(last, UserPromptPart):
            return ModelResponse(parts=[ToolCallPart("add", {"a": 1, "b": 2}, f"c{last.content}")])
        return ModelResponse(parts=[TextPart("done")])

    def route(state: AgentState) -> str:
        return "TOOLS" if state.context[-1].tools_calls else END

    tools = ToolNode([add])
    graph: StateGraph[Any] = StateGraph(AgentState, context_manager=MessageContextManager(turns))
    graph.add_node("MAIN", Agent(FunctionModel(answer), tool_node=tools, trim_context=True)).add_node("TOOLS", tools)
    graph.add_edge(START, "MAIN").add_conditional_edges("MAIN", route, {"TOOLS": "TOOLS", END: END})
    app = build(graph.add_edge("TOOLS", "MAIN"))
    for turn in range(7):
        say(app, f"{turn}")
        context = app.get_state(THREAD).state.context
        called = {call["id"] for message in context for call in message.tools_calls or ()}
        answered = {
            block.call_id for message in context for block in message.content if isinstance(block, ToolResultBlock)
        }
        assert called == answered
        assert len(called) == min(turn + 1, turns)
    assert len(app.messages(THREAD)) == 28


def test_the_log_is_its_owners_alone_and_says_what_is_wrong(build: Build) -> None:
    app = build(agent_graph(answering([]), MessageContextManager()))
    say(app, "0")

    with pytest.raises(ThreadOwnerError):
        app.messages({**THREAD, "user_id": "eve"})
    with pytest.raises(InvalidInputError, match="no thread 'nowhere'"):
        app.messages({"thread_id": "nowhere"})
    with pytest.raises(InvalidInputError, match="limit is 0"):
        app.messages(THREAD, limit=0)
    with pytest.raises(InvalidInputError, match="offset is 'x'"):
        app.messages(THREAD, offset="x")  # type: ignore[arg-type]

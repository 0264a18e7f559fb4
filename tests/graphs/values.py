"""Graphs whose point is what they write: reducers, return types, messages, types of fields."""

import operator
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from tenxgraph.core.graph import StateGraph
from tenxgraph.core.state import (
    AgentState,
    ImageBlock,
    Message,
    TextBlock,
    TokenUsages,
    ToolCallBlock,
    ToolResultBlock,
    append_items,
    replace_messages,
    replace_value,
)
from tenxgraph.testing.oracle import CaseCall, GraphCase
from tenxgraph.utils import Command, load_media
from tenxgraph.utils.constants import START
from tests.graphs.tools import Last, Log, ask, chain, graph, note, say


def side_by_side(state: Any, **nodes: Callable[..., Any]) -> StateGraph[Any]:
    """Return a graph whose nodes all run in its first step."""
    built: StateGraph[Any] = StateGraph(state)
    for name, node in nodes.items():
        built.add_node(name, node).add_edge(START, name)
    return built


def one_after_another(state: Any, **nodes: Callable[..., Any]) -> StateGraph[Any]:
    """Return a graph whose nodes run in turn."""
    built: StateGraph[Any] = StateGraph(state)
    for name, node in nodes.items():
        built.add_node(name, node)
    return chain(built, *nodes)


def gives(value: Any) -> Callable[[AgentState], Any]:
    """Return a node that returns ``value``."""

    def give(state: AgentState) -> Any:
        return value

    return give


class Finding(BaseModel):
    """An item with an id."""

    id: str
    text: str


def merged(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    """Merge two dicts, adding what both have."""
    return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}


class Reduced(AgentState):
    """One field per reducer."""

    total: Annotated[int, operator.add] = 0
    words: Annotated[list[str], operator.add] = []
    votes: Annotated[dict[str, int], merged] = {}
    findings: Annotated[list[Finding], append_items] = Field(default_factory=list[Finding])
    newest: Annotated[str, replace_value] = ""
    plain: str = ""


FIRST, SECOND, THIRD = (Finding(id=name, text=f"finding {name}") for name in "abc")


def _reducers() -> StateGraph[Any]:
    return side_by_side(
        Reduced,
        one=gives({"total": 1, "words": ["one"], "votes": {"x": 1}, "findings": [FIRST, SECOND], "newest": "one"}),
        two=gives({"total": 2, "words": ["two"], "votes": {"x": 1, "y": 5}, "findings": [SECOND, THIRD]}),
        three=gives({"total": 4, "words": ["three"], "newest": "three", "plain": "written once"}),
    )


class Rewritten(AgentState):
    """A history that a node may overwrite."""

    context: Annotated[list[Message], replace_messages] = Field(default_factory=list[Message])


def _shorten(state: Rewritten) -> list[Message]:
    return [*state.context[-1:], Message.text_message("short", role="assistant")]


def _replace() -> StateGraph[Any]:
    return one_after_another(Rewritten, once=_shorten, twice=_shorten)


def _text_list(state: Log) -> list[Message]:
    return [Message.text_message("first", role="assistant"), Message.text_message("second", role="assistant")]


def _one_message(state: Log) -> Message:
    return Message.text_message("one", role="assistant")


def _messages_key(state: Log) -> dict[str, Any]:
    return {"messages": [Message.text_message("by key", role="assistant")], "count": 1}


def _command(state: Log) -> Command[Literal["whole_state"]]:
    return Command(update="by command", goto="whole_state")


def _whole_state(state: Log) -> Log:
    state.count += 10
    state.log.append("changed in place and returned")
    state.context.append(Message.text_message("appended", role="assistant"))
    return state


def _returns() -> StateGraph[Any]:
    return one_after_another(
        Log,
        list_of_messages=_text_list,
        one_message=_one_message,
        text=gives("text"),
        fields=gives({"log": ["fields"]}),
        messages_key=_messages_key,
        nothing=gives(None),
        command=_command,
        whole_state=_whole_state,
        command_of_state=lambda state: Command(update=state.model_copy(update={"item": "set"})),
    )


def _spoil(state: Log) -> None:
    state.count = 99
    state.log.append("not to be seen")
    state.context.clear()
    state.complete()


def _fresh_state(state: Log) -> Log:
    return Log(log=["from a fresh state"])


def _in_place() -> StateGraph[Any]:
    return one_after_another(Log, spoils=_spoil, fresh=_fresh_state, after=note("after"))


SAME = Message.text_message("told once", role="assistant", message_id="same")


def _repeats(state: AgentState) -> list[Message]:
    return [SAME, SAME, SAME.model_copy(update={"content": [TextBlock(text="never")]})]


def _delta(state: AgentState) -> list[Message]:
    return [Message(role="assistant", content=[TextBlock(text="half")], delta=True)]


def _same_id() -> StateGraph[Any]:
    return (
        side_by_side(AgentState, left=_repeats, right=_repeats, half=_delta)
        .add_node("again", _repeats)
        .add_edge("left", "again")
    )


def _model(state: AgentState) -> list[Message]:
    usages = TokenUsages(completion_tokens=2, prompt_tokens=3, total_tokens=5)
    call = ToolCallBlock(id="c1", name="look", args={"deep": {"n": 2**70, "t": "\x00😀"}})
    return [Message(role="assistant", content=[TextBlock(text="I look."), call], usages=usages, metadata={"n": 1})]


def _tool(state: AgentState) -> Message:
    assert isinstance(state.context[-1].content[-1], ToolCallBlock)
    return Message.tool_message([ToolResultBlock(call_id="c1", output={"found": [1, None]}, status="completed")])


def _talk() -> StateGraph[Any]:
    return one_after_another(AgentState, model=_model, tool=_tool, model_again=_model)


class Colour(Enum):
    """An enumeration."""

    RED = "red"
    BLUE = "blue"


class Inner(BaseModel):
    """A nested model."""

    when: datetime
    price: Decimal
    parts: tuple[int, str]


class Typed(AgentState):
    """Fields of many types."""

    when: datetime = datetime(2020, 1, 1, tzinfo=UTC)
    day: date = date(2020, 1, 1)
    span: timedelta = timedelta(0)
    price: Decimal = Decimal(0)
    tags: set[str] = set()
    frozen: frozenset[int] = frozenset()
    pair: tuple[int, str] = (0, "")
    many: tuple[float, ...] = ()
    colour: Colour = Colour.RED
    raw: bytes = b""
    by_number: dict[int, str] = {}
    ident: UUID = UUID(int=0)
    inner: Inner | None = None
    nested: dict[str, list[Inner]] = {}
    wide: int = 0
    maybe: int | None = 1


WHEN = datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=UTC)
INNER = Inner(when=WHEN, price=Decimal("1.10"), parts=(1, "é"))
TYPED: dict[str, Any] = {
    "when": WHEN,
    "day": date(2026, 2, 3),
    "span": timedelta(days=-1, microseconds=5),
    "price": Decimal("19.990"),
    "tags": {"a", "b", "\x00"},
    "frozen": frozenset({3, 1}),
    "pair": (7, "seven"),
    "many": (0.1, 1e300),
    "colour": Colour.BLUE,
    "raw": b"\x00\xff\xfe",
    "by_number": {1: "one", -2: "minus two"},
    "ident": UUID(int=2**128 - 1),
    "inner": INNER,
    "nested": {"some": [INNER, INNER]},
    "wide": 2**100,
    "maybe": None,
}


def _check_types(state: Typed) -> dict[str, Any]:
    wrong = [name for name, value in TYPED.items() if getattr(state, name) != value]
    types = [name for name, value in TYPED.items() if type(getattr(state, name)) is not type(value)]
    return {"context_summary": f"unequal: {wrong}, of another type: {types}"}


def _typed() -> StateGraph[Any]:
    return one_after_another(Typed, write=gives(TYPED), check=_check_types)


def _initial() -> StateGraph[Any]:
    started = Log(log=["from the instance"], count=5, context=[Message.text_message("Be kind.", "system", "rules")])
    return chain(StateGraph(started).add_node("a", note("a")), "a")


def _a_state(last: Last) -> Any:
    return Log(context=[Message.text_message("In a state")], count=3)


def _see_input(state: Log) -> dict[str, Any]:
    return {"log": [f"count={state.count} item={state.item!r} messages={len(state.context)}"]}


def _inputs() -> StateGraph[Any]:
    return one_after_another(Log, see=_see_input)


def _a_dict(last: Last) -> Any:
    content = [{"type": "text", "text": "A dict"}]
    return {"messages": [{"role": "user", "content": content}], "state": {"log": ["by input"]}}


TWO = ["user: Hi", "assistant: told once"]


def _draw(state: Log) -> dict[str, Any]:
    picture = Message.image_message(image_base64=b64encode(bytes(90_000)).decode(), role="assistant")
    return {"log": ["drawn"], "messages": [picture]}


def _look(state: Log) -> dict[str, Any]:
    (block,) = state.context[-1].content
    assert isinstance(block, ImageBlock)
    return {"log": [f"{len(load_media(block.media))} bytes"]}


def _drawing() -> StateGraph[Log]:
    """A picture that is too large to be carried along."""
    return chain(graph(draw=_draw, look=_look), "draw", "look")


CASES = [
    GraphCase(
        "reducers",
        _reducers,
        [ask()],
        [["one", "two", "three"]],
        {
            "total": 7,
            "words": ["one", "two", "three"],
            "votes": {"x": 2, "y": 5},
            "findings": [FIRST, SECOND, THIRD],
            "newest": "three",
            "plain": "written once",
        },
    ),
    GraphCase("replace_messages", _replace, [ask()], [["once"], ["twice"]], {"context": ["assistant: short"] * 2}),
    GraphCase(
        "return_types",
        _returns,
        [ask()],
        [
            ["list_of_messages"],
            ["one_message"],
            ["text"],
            ["fields"],
            ["messages_key"],
            ["nothing"],
            ["command"],
            ["whole_state"],
            ["command_of_state"],
        ],
        {
            "context": [
                "user: Hi",
                *(
                    f"assistant: {text}"
                    for text in ("first", "second", "one", "text", "by key", "by command", "appended")
                ),
            ],
            "count": 11,
            "log": ["fields", "changed in place and returned"],
            "item": "set",
        },
    ),
    GraphCase(
        "changes_in_place",
        _in_place,
        [ask()],
        [["spoils"], ["fresh"], ["after"]],
        {"count": 0, "log": ["from a fresh state", "after"], "context": ["user: Hi"]},
    ),
    GraphCase("same_id_twice", _same_id, [ask()], [["left", "right", "half"], ["again"]], {"context": TWO}),
    GraphCase(
        "blocks_and_usage",
        _talk,
        [ask()],
        [["model"], ["tool"], ["model_again"]],
        {"context": ["user: Hi", "assistant: I look.", 'tool: {"found":[1,null]}', "assistant: I look."]},
    ),
    GraphCase(
        "types_of_fields",
        _typed,
        [ask()],
        [["write"], ["check"]],
        {**TYPED, "context_summary": "unequal: [], of another type: []"},
    ),
    GraphCase(
        "initial_values",
        _initial,
        [ask(), ask("Again")],
        [["a"], ["a"]],
        {
            "log": ["from the instance", "a", "a"],
            "count": 5,
            "context": ["system: Be kind.", "user: Hi", "user: Again"],
        },
    ),
    GraphCase(
        "large_media",
        _drawing,
        [ask()],
        [["draw"], ["look"]],
        {"log": ["drawn", "90000 bytes"]},
    ),
    GraphCase(
        "inputs",
        _inputs,
        [CaseCall(say("Hi", item="x")), CaseCall(_a_state), CaseCall(_a_dict)],
        [["see"]] * 3,
        {
            "log": [
                "count=0 item='x' messages=1",
                "count=3 item='x' messages=2",
                "by input",
                "count=3 item='x' messages=3",
            ],
            "context": ["user: Hi", "user: In a state", "user: A dict"],
        },
    ),
]

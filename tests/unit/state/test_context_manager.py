"""Context managers: what stays, what is summed up, and that nothing is split or changed in place."""

import asyncio
import sys
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenxgraph.core.exceptions import GraphError, InvalidInputError
from tenxgraph.core.state import (
    AgentState,
    BaseContextManager,
    Message,
    MessageContextManager,
    SummaryContextManager,
    ToolCallBlock,
    ToolResultBlock,
)
from tenxgraph.core.state.model_summary import provider_name


class MyState(AgentState):
    note: str = ""


def conversation(shape: str) -> MyState:
    """Build a context of u(ser), a(ssistant), s(ystem), c(all) and r(esult) messages, ids by position.

    Results answer the latest call.
    """
    context, call = [], ""
    for at, kind in enumerate(shape):
        if kind == "c":
            call = f"call{at}"
            message = Message(role="assistant", content=[ToolCallBlock(id=call, name="f")], message_id=f"c{at}")
        elif kind == "r":
            message = Message.tool_message([ToolResultBlock(call_id=call, output=1)], message_id=f"r{at}")
        else:
            role: Any = {"u": "user", "a": "assistant", "s": "system"}[kind]
            message = Message.text_message(f"{kind}{at}", role=role, message_id=f"{kind}{at}")
        context.append(message)
    return MyState(context=context, note="kept")


def ids(state: AgentState) -> str:
    return " ".join(str(message.message_id) for message in state.context)


def in_words(messages: Sequence[Message], summary: str | None) -> str:
    return f"{summary}|{' '.join(str(m.message_id) for m in messages)}"


@pytest.mark.parametrize(
    ("shape", "turns", "kept"),
    [
        ("uauaua", 1, "u0 u4 a5"),
        ("uauaua", 2, "u0 u2 a3 u4 a5"),
        ("auaua", 1, "a0 u3 a4"),
        ("uasauaua", 1, "u0 s2 u6 a7"),
        ("uuucru", 1, "u0 u5"),
        ("uacrua", 1, "u0 u4 a5"),
        ("uacura", 1, "u0 c2 u3 r4 a5"),
        ("crauaua", 1, "c0 r1 u5 a6"),
    ],
    ids=[
        "one turn",
        "two turns",
        "first is an answer",
        "system stays",
        "old calls go",
        "calls go whole",
        "a call whose result stays, stays",
        "the first message's results stay",
    ],
)
def test_the_first_message_system_messages_and_last_turns_stay(shape: str, turns: int, kept: str) -> None:
    state = conversation(shape)
    before = deepcopy(state)
    trimmed = MessageContextManager(max_messages=turns).trim_context(state)
    assert ids(trimmed) == kept
    assert (type(trimmed), trimmed.note) == (MyState, "kept")
    assert state == before
    assert asyncio.run(MessageContextManager(turns).atrim_context(state)) == trimmed


@pytest.mark.parametrize("shape", ["", "u", "uaua", "aaaa", "scrcrcr"])
def test_a_short_conversation_stays_as_it_is(shape: str) -> None:
    state = conversation(shape)
    assert MessageContextManager(2).trim_context(state) is state


def test_ten_turns_stay_by_default() -> None:
    assert MessageContextManager().trim_context(conversation("ua" * 12)).context[1].message_id == "u4"


@given(st.text("uascr", max_size=30), st.integers(1, 4))
def test_trimming_never_splits_a_tool_sequence(shape: str, turns: int) -> None:
    state = conversation(shape)
    kept = set(ids(MessageContextManager(turns).trim_context(state)).split())
    members: dict[str, set[str]] = {}
    for message in state.context:
        for block in message.content:
            if isinstance(block, ToolCallBlock | ToolResultBlock):
                call = block.id if isinstance(block, ToolCallBlock) else block.call_id
                members.setdefault(call, set()).add(str(message.message_id))
    members.pop("", None)
    assert all(group <= kept or not group & kept for group in members.values())
    assert {str(m.message_id) for m in state.context if m.role == "system"} <= kept
    assert {str(m.message_id) for m in state.context[:1]} <= kept
    assert sum(name.startswith("u") for name in kept) >= min(turns, shape.count("u"))


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "3"])
def test_the_count_is_a_whole_number_from_one(count: Any) -> None:
    for build in (MessageContextManager, lambda n: SummaryContextManager(n, summarize=in_words)):
        with pytest.raises(InvalidInputError, match="max_messages"):
            build(count)


def test_a_manager_of_your_own_needs_only_the_sync_method() -> None:
    class Last(BaseContextManager):
        def trim_context(self, state: Any) -> Any:
            return state.model_copy(update={"context": state.context[-1:]})

    assert ids(asyncio.run(Last().atrim_context(conversation("uau")))) == "u2"


async def later(messages: Sequence[Message], summary: str | None) -> str:
    await asyncio.sleep(0)
    return in_words(messages, summary)


def as_object(messages: Sequence[Message], summary: str | None) -> Any:
    return later(messages, summary)


@pytest.mark.parametrize("summarize", [in_words, later, as_object])
def test_older_turns_are_summed_up_and_recent_ones_stay_verbatim(summarize: Any) -> None:
    state = conversation("suacruaua")
    state.context_summary = "before"
    copy = deepcopy(state)
    manager = SummaryContextManager(max_messages=2, summarize=summarize)

    async def in_a_loop() -> tuple[MyState, MyState]:
        return await manager.atrim_context(state), manager.trim_context(state)

    for trimmed in (manager.trim_context(state), *asyncio.run(in_a_loop())):
        assert trimmed.context_summary == "before|u1 a2 c3 r4"
        assert ids(trimmed) == "s0 u5 a6 u7 a8"
        assert trimmed.context[1:] == state.context[5:]
        assert trimmed.note == "kept"
    assert state == copy


def test_nobody_is_asked_while_the_conversation_is_short() -> None:
    def never(messages: Sequence[Message], summary: str | None) -> str:
        raise AssertionError("asked")

    state = conversation("uaua")
    assert SummaryContextManager(2, summarize=never).trim_context(state) is state


def fails(messages: Sequence[Message], summary: str | None) -> str:
    raise RuntimeError("provider away")


@pytest.mark.parametrize("summarize", [fails, lambda m, s: "", lambda m, s: "  ", lambda m, s: None, lambda m, s: 3])
def test_a_summary_that_fails_leaves_everything_as_it_was(summarize: Any, caplog: pytest.LogCaptureFixture) -> None:
    state = conversation("uauaua")
    state.context_summary = "before"
    before = deepcopy(state)
    assert SummaryContextManager(1, summarize=summarize).trim_context(state) == before
    assert state == before
    assert "stays as it is" in caplog.text


@pytest.mark.parametrize("who", [{}, {"summarize": in_words, "model": "gpt-5"}])
def test_a_summary_manager_wants_exactly_one_author(who: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="exactly one"):
        SummaryContextManager(**who)


def test_a_model_writes_the_summary() -> None:
    trimmed = SummaryContextManager(1, model="test").trim_context(conversation("uauaua"))
    assert trimmed.context_summary
    assert ids(trimmed) == "u4 a5"


def test_a_model_without_the_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = SummaryContextManager(1, model="test")
    monkeypatch.setitem(sys.modules, "pydantic_ai.direct", None)
    state = conversation("uauaua")
    with pytest.raises(GraphError, match=r"tenxgraph\[llm\]"):
        manager.trim_context(state)
    assert state == conversation("uauaua").model_copy(update={"context": state.context})


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("gemini-2.5-flash", "google:gemini-2.5-flash"),
        ("gpt-5", "openai:gpt-5"),
        ("o3-mini", "openai:o3-mini"),
        ("claude-opus-4", "anthropic:claude-opus-4"),
        ("groq:gpt-oss", "groq:gpt-oss"),
        ("test", "test"),
    ],
)
def test_short_model_names_find_their_provider(short: str, full: str) -> None:
    assert provider_name(short) == full

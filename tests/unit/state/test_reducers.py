"""Reducers: what they merge, and that they change nothing they are given."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tenxgraph.core.state import (
    Message,
    RemoteToolCallBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    add_messages,
    append_items,
    remove_tool_messages,
    replace_messages,
    replace_value,
)
from tenxgraph.core.state.reducers import new_messages
from tests.strategies import messages


def text(name: str, role: Any = "user", **fields: Any) -> Message:
    return Message(message_id=name, role=role, content=[TextBlock(text=name)], **fields)


def calls(name: str, *ids: str) -> Message:
    return Message(message_id=name, role="assistant", content=[ToolCallBlock(id=one, name="f") for one in ids])


def results(name: str, *ids: str) -> Message:
    return Message.tool_message([ToolResultBlock(call_id=one, output=1) for one in ids], message_id=name)


def names(found: list[Message]) -> str:
    return " ".join(str(message.message_id) for message in found)


def test_messages_are_appended_in_order() -> None:
    assert names(add_messages([text("a")], [text("b"), text("c")])) == "a b c"


def test_an_id_already_there_is_skipped_and_the_first_wins() -> None:
    kept = add_messages([text("a", role="system")], [text("a", role="user"), text("b")])
    assert [(m.message_id, m.role) for m in kept] == [("a", "system"), ("b", "user")]


def test_an_id_twice_in_a_batch_is_kept_once_and_the_first_wins() -> None:
    kept = add_messages([], [text("a", role="system"), text("a", role="user")])
    assert [m.role for m in kept] == ["system"]


def test_deltas_are_never_stored_and_take_no_id() -> None:
    assert names(add_messages([], [text("a", delta=True), text("b"), text("a")])) == "b a"


def test_a_number_and_its_digits_are_two_ids() -> None:
    one, other = (Message(message_id=key, role="user", content=[]) for key in (1, "1"))
    assert len(add_messages([one], [other])) == 2


@given(st.lists(messages(), max_size=5), st.lists(messages(), max_size=5))
def test_add_messages_keeps_left_and_adds_only_new_ids(left: list[Message], right: list[Message]) -> None:
    before = deepcopy((left, right))
    merged = add_messages(left, right)
    assert (left, right) == before
    assert merged[: len(left)] == left
    added = [m.message_id for m in merged[len(left) :]]
    assert added == list(dict.fromkeys(added))
    assert set(added) == {m.message_id for m in right if not m.delta} - {m.message_id for m in left}
    assert merged == [*left, *new_messages({m.message_id for m in left}, right)]
    assert add_messages(merged, right) == merged


class Finding(BaseModel):
    id: str | None
    note: str = ""


def test_items_are_appended_once_by_their_id() -> None:
    left = [Finding(id="a", note="first")]
    right = [Finding(id="a", note="second"), Finding(id="b"), Finding(id="b", note="again")]
    assert append_items(left, right) == [Finding(id="a", note="first"), Finding(id="b")]


def test_items_may_be_dicts_with_an_id() -> None:
    assert append_items([{"id": 1}], [{"id": 1, "x": 2}, {"id": 2}]) == [{"id": 1}, {"id": 2}]


def test_items_without_id_are_always_appended() -> None:
    assert append_items([3, 3], [3]) == [3, 3, 3]
    assert len(append_items([Finding(id=None)], [Finding(id=None)])) == 2


def test_replacing_takes_the_right_side() -> None:
    right = [text("b")]
    assert replace_messages([text("a")], right) == right
    assert replace_messages([text("a")], right) is not right
    assert replace_value({"old": 1}, None) is None


@pytest.mark.parametrize("reducer", [add_messages, append_items, replace_messages])
def test_a_reducer_returns_a_new_list_even_when_nothing_is_new(reducer: Callable[[Any, Any], Any]) -> None:
    left = [text("a")]
    reducer(left, [text("b")]).append(text("c"))
    assert names(left) == "a"


HI, END = text("hi"), text("end", role="assistant")


@pytest.mark.parametrize(
    ("given_messages", "left_over"),
    [
        ([HI, calls("c", "1"), results("r", "1"), END], "hi end"),
        ([HI, calls("c", "1", "2"), results("r", "1", "2"), END], "hi end"),
        ([HI, calls("c", "1", "2"), results("r", "2"), results("s", "1"), END], "hi end"),
        ([calls("c", "1"), results("r", "1"), calls("d", "2"), results("s", "2"), END], "end"),
        ([calls("c", "1"), results("r", "1"), calls("d", "1"), results("s", "1"), END], "end"),
        ([calls("c", "1"), results("r", "1"), END, HI, calls("d", "2"), results("s", "2"), END], "end hi end"),
    ],
    ids=["one call", "two calls", "results apart", "chained", "chained with the same id", "two turns"],
)
def test_complete_tool_sequences_go(given_messages: list[Message], left_over: str) -> None:
    before = deepcopy(given_messages)
    assert names(remove_tool_messages(given_messages)) == left_over
    assert given_messages == before


@pytest.mark.parametrize(
    "given_messages",
    [
        [HI, calls("c", "1")],
        [HI, calls("c", "1"), END],
        [HI, calls("c", "1"), results("r", "1")],
        [HI, calls("c", "1", "2"), results("r", "1"), END],
        [calls("c", "1"), results("r", "1"), calls("d", "2"), END],
        [calls("c", "1"), results("r", "1"), calls("d", "1"), END],
        [calls("c", "1"), results("r", "2"), END],
        [calls("c", "1"), HI, results("r", "1"), END],
        [results("r", "1"), END],
        [HI, END],
        [],
    ],
    ids=[
        "no result",
        "no result but an answer",
        "no answer yet",
        "one result missing",
        "chained, the last without result",
        "chained, an old result of the same id",
        "a result of another call",
        "the user in between",
        "a result without call",
        "no tools",
        "empty",
    ],
)
def test_what_is_not_complete_stays_untouched(given_messages: list[Message]) -> None:
    assert remove_tool_messages(given_messages) == given_messages


def test_calls_count_in_every_form() -> None:
    raw = Message(message_id="c", role="assistant", content=[], tools_calls=[{"id": "1", "function": {"name": "f"}}])
    remote = Message(message_id="c", role="assistant", content=[RemoteToolCallBlock(id="1", name="f")])
    for asking in (raw, remote):
        assert names(remove_tool_messages([asking, results("r", "1"), END])) == "end"
        assert names(remove_tool_messages([asking, END])) == "c end"


def test_a_call_without_id_can_not_be_complete() -> None:
    asking = Message(message_id="c", role="assistant", content=[], tools_calls=[{"function": {"name": "f"}}])
    assert names(remove_tool_messages([asking, results("r", "1"), END])) == "c r end"

"""What a node may return, and how the rest is refused."""

from typing import Any

import pytest

from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.core.graph.node_return import NodeReturn, normalise
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.message import Message
from tenxgraph.core.state.tool_result import ToolResult
from tenxgraph.utils.command import Command, Send

MESSAGE = Message.text_message("hi")


def test_nothing_changes_nothing() -> None:
    assert normalise(None) == NodeReturn(fields={}, state=None, targets=None)


def test_messages_in_any_form_go_to_context() -> None:
    assert normalise([MESSAGE]).fields == {"context": [MESSAGE]}
    assert normalise((MESSAGE, MESSAGE)).fields == {"context": [MESSAGE, MESSAGE]}
    assert normalise(MESSAGE).fields == {"context": [MESSAGE]}
    assert normalise([]).fields == {"context": []}


def test_text_becomes_what_the_assistant_says() -> None:
    (message,) = normalise("hello").fields["context"]
    assert (message.role, message.text()) == ("assistant", "hello")


def test_a_dict_is_taken_field_by_field_and_copied() -> None:
    fields = {"city": "Rome", "messages": [MESSAGE]}
    found = normalise(fields)
    assert found.fields == fields
    assert found.fields is not fields


def test_a_state_is_left_to_be_compared() -> None:
    state = AgentState()
    found = normalise(state)
    assert found.state is state
    assert found.fields == {}


@pytest.mark.parametrize("update", [None, "text", MESSAGE, [MESSAGE], {"city": "Rome"}, AgentState()])
def test_a_command_updates_as_its_update_would_and_says_where_to_go(update: Any) -> None:
    found = normalise(Command(update=update, goto="next"))
    alone = normalise(update)
    assert found.targets == ("next",)
    assert (found.fields.keys(), found.state) == (alone.fields.keys(), alone.state)


def test_a_command_without_goto_goes_nowhere_of_its_own() -> None:
    assert normalise(Command(update="x")).targets == ()
    assert normalise("x").targets is None


def test_a_command_may_send() -> None:
    send = Send("worker", {"n": 1})
    assert normalise(Command(goto=[send, "end"])).targets == (send, "end")


@pytest.mark.parametrize("value", [3, 2.5, b"x", object(), {MESSAGE.text}, ToolResult("x"), True, Send("n", {})])
def test_anything_else_is_refused_with_its_type_and_what_is_allowed(value: Any) -> None:
    with pytest.raises(
        InvalidInputError, match=f"gave a {type(value).__name__}: return a list of Message, one Message"
    ):
        normalise(value)


def test_a_list_is_refused_with_the_position_of_what_is_no_message() -> None:
    with pytest.raises(InvalidInputError, match="A node gave a list whose item 1 is a str"):
        normalise([MESSAGE, "text"])
    with pytest.raises(InvalidInputError, match=r"Command\.update gave a list whose item 0 is a dict"):
        normalise(Command(update=[{"role": "user"}]))


def test_a_key_that_names_no_field_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="the key 1, which names no field"):
        normalise({1: 2})


def test_a_command_in_a_command_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"Command\.update gave a Command"):
        normalise(Command(update=Command()))

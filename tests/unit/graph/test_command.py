"""Command and Send."""

from typing import Any, Literal

import pytest

from tenxgraph.core.exceptions import GraphError
from tenxgraph.utils.command import Command, Send
from tenxgraph.utils.constants import END

SEND = Send("work", {"part": 1})


@pytest.mark.parametrize(
    ("goto", "targets"),
    [((), ()), ([], ()), ("a", ("a",)), (END, (END,)), (SEND, (SEND,)), (["a", SEND], ("a", SEND)), (("b",), ("b",))],
)
def test_goto_takes_a_name_a_send_or_several(goto: Any, targets: tuple[object, ...]) -> None:
    assert Command(goto=goto).targets == targets


@pytest.mark.parametrize("goto", [None, 3, "", ["a", None], {"a"}, [["a"]]])
def test_a_goto_that_is_no_target_is_refused(goto: Any) -> None:
    with pytest.raises(GraphError) as caught:
        Command(goto=goto)
    assert caught.value.error_code == "INVALID_GOTO"


def test_a_command_may_be_made_with_its_targets_declared() -> None:
    assert Command[Literal["a"]](update={"x": 1}, goto="a") == Command({"x": 1}, "a")


def test_a_send_keeps_its_fields_whatever_the_caller_does_to_them() -> None:
    fields = {"part": 1}
    send = Send("work", fields)
    fields["part"] = 2
    assert send.fields == {"part": 1}


@pytest.mark.parametrize(("node", "fields"), [("", {}), (3, {}), ("a", None), ("a", [("x", 1)]), ("a", {1: 2})])
def test_a_send_without_a_node_or_fields_is_refused(node: Any, fields: Any) -> None:
    with pytest.raises(GraphError) as caught:
        Send(node, fields)
    assert caught.value.error_code == "INVALID_SEND"


def test_neither_can_be_changed() -> None:
    with pytest.raises(AttributeError):
        SEND.node = "other"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        Command().goto = "a"  # type: ignore[misc]

"""The state, what its methods note, tool results and stream chunks."""

import threading
from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, ValidationError

from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.core.state import (
    AgentState,
    ExecMeta,
    ExecutionState,
    ExecutionStatus,
    Message,
    StopRequestStatus,
    StreamChunk,
    StreamEvent,
    ToolResult,
)
from tenxgraph.core.state.reducers import add_messages
from tenxgraph.utils import START
from tests.strategies import json_values, messages, texts


class Color(Enum):
    RED = "r"


class Point(BaseModel):
    x: int


class Rich(AgentState):
    at: datetime = datetime(2026, 1, 2, tzinfo=UTC)
    price: Decimal = Decimal("1.10")
    tags: set[str] = Field(default_factory=lambda: {"a"})
    pair: tuple[int, str] = (1, "a")
    color: Color = Color.RED
    blob: bytes = b"\xff\x00"
    by_number: dict[int, Point] = Field(default_factory=lambda: {2**70: Point(x=1)})
    session_data: dict = {}  # type: ignore[type-arg]  # as the page writes it
    ratio: float = float("inf")


def test_a_fresh_state_is_empty_and_at_start() -> None:
    state = AgentState()
    assert (state.context, state.context_summary) == ([], None)
    assert state.execution_meta == ExecutionState(current_node=START)
    assert ExecMeta is ExecutionState


def test_states_share_nothing() -> None:
    first, second = Rich(), Rich()
    first.session_data["k"] = 1
    first.context.append(Message.text_message("a"))
    first.advance_step()
    assert second == Rich()


def test_the_context_field_carries_its_reducer() -> None:
    assert AgentState.model_fields["context"].metadata == [add_messages]


@given(st.lists(messages(), max_size=3), st.none() | texts(), json_values())
def test_a_state_reads_back_equal_from_json(context: list[Message], summary: str | None, data: Any) -> None:
    state = Rich(context=context, context_summary=summary)
    state.set_interrupt("N", "why", ExecutionStatus.INTERRUPTED, data)
    assert Rich.model_validate_json(state.model_dump_json()) == state


def test_states_of_two_classes_or_values_differ() -> None:
    assert AgentState() != Rich()
    assert Rich(price=Decimal(1)) != Rich()
    assert AgentState() != object()


def test_a_wrong_type_is_refused_with_its_field() -> None:
    with pytest.raises(ValidationError, match="price"):
        Rich(price="cheap")  # type: ignore[arg-type]


@pytest.mark.parametrize("status", ["INTERRUPTED", "INTERRUPTED_BEFORE", "INTERRUPTED_AFTER"])
def test_an_interrupt_is_noted_and_cleared(status: str) -> None:
    state = AgentState()
    assert state.is_running()
    state.set_interrupt("ASK", "approval", ExecutionStatus[status], {"question": "ok?"})
    meta = state.execution_meta
    assert (meta.interrupted_node, meta.interrupt_node) == ("ASK", "ASK")
    assert (meta.interrupt_reason, meta.interrupt_data) == ("approval", {"question": "ok?"})
    assert state.is_interrupted()
    assert not state.is_running()
    state.clear_interrupt()
    assert (meta.interrupt_node, meta.interrupt_reason, meta.interrupt_data) == (None, None, None)
    assert state.is_running()


def test_a_status_may_be_given_as_its_text() -> None:
    state = AgentState()
    state.set_interrupt("N", "r", "interrupted_before")
    assert state.execution_meta.status is ExecutionStatus.INTERRUPTED_BEFORE
    with pytest.raises(ValueError, match="sleeping"):
        state.set_interrupt("N", "r", "sleeping")


def test_clearing_does_not_revive_a_run_that_ended() -> None:
    state = AgentState()
    state.complete()
    state.clear_interrupt()
    assert state.execution_meta.status is ExecutionStatus.COMPLETED


def test_progress_is_noted() -> None:
    state = AgentState()
    state.advance_step()
    state.advance_step()
    state.set_current_node("NEXT")
    assert (state.execution_meta.step, state.execution_meta.current_node) == (2, "NEXT")
    state.complete()
    assert (state.execution_meta.status, state.is_running()) == (ExecutionStatus.COMPLETED, False)


def test_an_error_is_noted_with_its_message() -> None:
    state = AgentState()
    state.error("boom")
    assert state.execution_meta.status is ExecutionStatus.ERROR
    assert state.execution_meta.internal_data == {"error": "boom"}


@pytest.mark.parametrize("stop", list(StopRequestStatus))
def test_a_stop_is_seen_in_the_notes(stop: StopRequestStatus) -> None:
    state = AgentState(execution_meta=ExecMeta(stop_current_execution=stop))
    assert state.is_stopped_requested() is (stop is not StopRequestStatus.NONE)


class Probe:
    """Asks something that cannot be copied."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.stopped = False

    def ask(self) -> bool:
        with self.lock:
            return self.stopped


@pytest.mark.parametrize(
    "copied",
    [lambda s: s, deepcopy, lambda s: s.model_copy(), lambda s: s.model_copy(deep=True)],
    ids=["itself", "deepcopy", "model_copy", "deep model_copy"],
)
def test_a_probe_makes_the_stop_visible_in_mid_node_also_in_copies(copied: Callable[[Rich], Rich]) -> None:
    probe, state = Probe(), Rich()
    state._stop_probe = probe.ask
    node_state = copied(state)
    assert node_state == Rich()
    assert not node_state.is_stopped_requested()
    probe.stopped = True
    assert node_state.is_stopped_requested()
    assert "stop_probe" not in node_state.model_dump_json()


def test_a_deep_copy_shares_no_data() -> None:
    state = Rich(context=[Message.text_message("a")])
    copy = state.model_copy(deep=True)
    copy.context[0].metadata["k"] = copy.session_data["k"] = 1
    assert (state.context[0].metadata, state.session_data) == ({}, {})


def test_a_tool_result_carries_message_and_state() -> None:
    update = {"selected_city": "Bern"}
    result = ToolResult(message="done", state=update, is_error=True)
    assert (result.message, result.content, result.state, result.is_error) == ("done", "done", update, True)
    assert result.state is not update
    assert (ToolResult().message, ToolResult().state, ToolResult().is_error) == (None, None, False)


def test_content_is_another_name_of_the_message() -> None:
    assert ToolResult(content="done", state={}) == ToolResult("done", {})
    with pytest.raises(InvalidInputError, match="give one"):
        ToolResult("a", content="b")


@pytest.mark.parametrize("field", ["context", "execution_meta"])
def test_a_tool_may_not_name_what_is_not_its_own(field: str) -> None:
    with pytest.raises(InvalidInputError, match=f"'{field}'"):
        ToolResult("a", {"other": 1, field: None})


def test_a_tool_may_set_the_summary() -> None:
    assert ToolResult("a", {"context_summary": "s"}).state == {"context_summary": "s"}


def test_a_tools_state_is_a_dict() -> None:
    with pytest.raises(InvalidInputError, match="list"):
        ToolResult("a", ["context"])  # type: ignore[arg-type]


def test_a_chunk_keeps_the_fields_of_state_and_message_subclasses() -> None:
    class Marked(Message):
        mark: int = 7

    chunk = StreamChunk(event=StreamEvent.STATE, state=Rich(), message=Marked.text_message("a"))
    written = chunk.model_dump_json()
    assert '"mark":7' in written
    back = StreamChunk.model_validate_json(written, context={"state_type": Rich})
    assert type(back.state) is Rich
    assert back.state == chunk.state


def test_a_chunk_of_an_unknown_state_class_loses_nothing() -> None:
    back: Any = StreamChunk.model_validate_json(StreamChunk(event=StreamEvent.STATE, state=Rich()).model_dump_json())
    state: Any = back.state
    assert (state.price, state.pair) == ("1.10", [1, "a"])
    assert isinstance(state, AgentState)
    assert StreamChunk.model_validate_json(back.model_dump_json()) == back


@given(st.none() | messages(), json_values())
def test_a_chunk_reads_back_equal_from_json(message: Message | None, data: Any) -> None:
    chunk = StreamChunk(id="5-0", event=StreamEvent.CUSTOM, step=1, node="N", task=0, attempt=1, data=data)
    chunk.message = message
    assert repr(StreamChunk.model_validate_json(chunk.model_dump_json())) == repr(chunk)


def test_the_events_are_those_of_the_contract() -> None:
    assert ", ".join(StreamEvent) == (
        "run_start, step_start, task_start, message, token, custom, state, interrupt, "
        "task_retry, attempt_discarded, task_end, step_end, error, run_end"
    )

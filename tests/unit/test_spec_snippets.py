"""Code written from the specification's pages runs unchanged: what needs a graph."""

import ast
import asyncio
import inspect
from types import CodeType
from typing import Any, Final

import pytest

from tenxgraph.core import graph as public_graph
from tenxgraph.core import state as public_state
from tenxgraph.core.graph import StateGraph
from tenxgraph.core.state import AgentState, Message
from tests.spec_pages import SPEC_FOLDER, Snippet, snippets

WORDS: Final = ("StateGraph", "core.graph", "core import Agent", "app.", "await ")
SNIPPETS: Final = [snippet for snippet in snippets() if any(word in snippet.code for word in WORDS)]

pytestmark = pytest.mark.skipif(not SPEC_FOLDER.is_dir(), reason="the pages are not beside this checkout")


class MyState(AgentState):
    """As on the page."""

    user_id: str = ""
    session_data: dict[str, Any] = {}
    selected_city: str = ""


class OrderState(AgentState):
    """As on the page."""

    order_id: str | None = None
    cart: list[dict[str, Any]] = []
    confirmed: bool = False
    discount_code: str | None = None


def process_order(state: OrderState, config: dict[str, Any]) -> dict[str, Any]:
    """Confirm the order."""
    return {"context": [Message.text_message("Order placed!", role="assistant")], "confirmed": True}


def around() -> dict[str, Any]:
    """Return what the prose around a snippet has already introduced."""
    names = {name: getattr(public_state, name) for name in public_state.__all__}
    app = StateGraph(OrderState).add_node("process_order", process_order).set_entry_point("process_order").compile()
    return {**names, "StateGraph": public_graph.StateGraph, "MyState": MyState, "OrderState": OrderState, "app": app}


def run(snippet: Snippet) -> dict[str, Any]:
    """Run a snippet as in a notebook, where ``await`` stands at the top."""
    scope = around()
    code: CodeType = compile(
        snippet.code,
        f"{snippet.page}:{snippet.number}",
        "exec",
        flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
        dont_inherit=True,
    )
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(code, scope))
    else:
        exec(code, scope)
    return scope


def holding(words: str) -> Snippet:
    """Return the one snippet that holds these words."""
    (found,) = [snippet for snippet in SNIPPETS if words in snippet.code]
    return found


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda s: f"{s.page}-{s.number}")
def test_a_snippet_that_needs_a_graph_runs(snippet: Snippet) -> None:
    run(snippet)


def test_the_pages_have_the_snippets_that_this_module_is_about() -> None:
    assert len(SNIPPETS) >= 6


def test_the_custom_field_is_merged_and_read_as_the_page_says() -> None:
    scope = run(holding("Selected city"))
    result = scope["result"]
    assert [message.text() for message in result["messages"]] == ["Hi", "Selected city: Paris"]
    assert scope["app"].get_state({"thread_id": "demo"}).state.selected_city == "Paris"


def test_the_same_thread_goes_on_where_the_page_ended() -> None:
    scope = run(holding("Selected city"))
    again = scope["app"].invoke({"messages": [Message.text_message("Again")]}, config={"thread_id": "demo"})
    assert [message.text() for message in again["messages"]] == ["Again", "Selected city: Paris"]
    assert len(scope["app"].get_state({"thread_id": "demo"}).state.context) == 4


def test_the_full_result_holds_the_users_own_state(capsys: pytest.CaptureFixture[str]) -> None:
    state = run(holding("ResponseGranularity.FULL"))["state"]
    assert isinstance(state, OrderState)
    assert (state.confirmed, state.order_id) == (True, None)
    assert capsys.readouterr().out == "True None\n"


def test_the_other_granularities_hold_what_the_contract_lists() -> None:
    app, said = around()["app"], {"messages": [Message.text_message("Hi")]}
    always = {"messages", "token_usage", "status", "run_id", "thread_id", "interrupts"}
    assert set(app.invoke(said)) == always
    assert set(app.invoke(said, None, "partial")) == always | {"context", "summary"}
    assert set(app.invoke(said, None, "full")) == always | {"state"}

"""The support agent in one process: the conversation of its page, and money that is paid once."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from examples.support.graph import build
from examples.support.play import play
from examples.support.script import CUSTOMER
from examples.support.shop import Order, create_shop, find_order, list_refunds, pay_refund
from examples.support.tools import Approval
from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.core.graph import CompiledGraph, RunStatus
from tenxgraph.core.state import Message, ToolResultBlock
from tenxgraph.store.memory import MemoryStore

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "run-a-support-agent.md"
PAID = [(1042, "desk lamp", 3990)]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.sqlite"
    create_shop(path)
    return path


@pytest.fixture
def app() -> Iterator[CompiledGraph[Any]]:
    compiled = build().compile(checkpointer=MemoryStore())
    yield compiled
    compiled.close()


def transcript(page: Path) -> str:
    return page.read_text(encoding="utf-8").split("```text\n")[1].split("```")[0]


def approve(_: Mapping[str, Any]) -> dict[str, Any]:
    return {"approved": True}


def order_of(shop: Path) -> Order:
    return find_order(shop, 1042)


def test_the_conversation_is_the_one_of_its_page(app: CompiledGraph[Any], shop: Path) -> None:
    assert list(play(app, CUSTOMER, shop, approve)) == transcript(PAGE).splitlines()
    assert list_refunds(shop) == PAID


def test_nothing_is_paid_when_the_person_declines(app: CompiledGraph[Any], shop: Path) -> None:
    lines = list(play(app, CUSTOMER, shop, lambda _: {"approved": False, "note": "the lamp was fine"}))

    assert "result     The refund was declined: the lamp was fine. Nothing was paid." in lines
    assert list_refunds(shop) == []


def test_nothing_is_paid_before_the_answer_nor_by_one_that_does_not_fit(app: CompiledGraph[Any], shop: Path) -> None:
    thread = {"thread_id": "anna"}
    said = [{"messages": [Message.text_message(turn)], "state": {"database": str(shop)}} for turn in CUSTOMER[:2]]
    _, result = [app.invoke(turn, thread) for turn in said]

    assert result["status"] is RunStatus.WAITING
    assert result["interrupts"][0]["response_schema"] == Approval.model_json_schema()
    with pytest.raises(InvalidInputError):
        app.invoke({"resume": {"approved": "perhaps"}}, thread)
    assert list_refunds(shop) == []

    app.invoke({"resume": {"approved": True}}, thread)
    assert list_refunds(shop) == PAID


def test_the_same_key_pays_once_and_another_one_not_at_all(shop: Path) -> None:
    lamp = order_of(shop).item("desk lamp")
    assert pay_refund(shop, "a", 1042, lamp, "broken") == pay_refund(shop, "a", 1042, lamp, "broken")
    pay_refund(shop, "b", 1042, lamp, "broken")

    assert list_refunds(shop) == PAID
    assert order_of(shop).item("desk lamp").refund_key == "a"


def test_what_is_not_there_is_a_failed_result(app: CompiledGraph[Any], shop: Path) -> None:
    with pytest.raises(LookupError, match="has no 'sofa'; it has desk lamp, light bulb"):
        order_of(shop).item("sofa")
    list(play(app, CUSTOMER, shop, approve))

    thread = app._executor.store.threads(limit=1)[0].thread_id  # type: ignore[attr-defined]
    blocks = [block for message in app.messages({"thread_id": thread}) for block in message.content]
    failed = [block.output for block in blocks if isinstance(block, ToolResultBlock) and block.is_error]
    assert failed == ["There is no order 7."]

"""Only type-checked (mypy --strict and pyright): an effect has the type of its function's result."""

from typing_extensions import assert_type

from tenxgraph.core.state import AgentState
from tenxgraph.utils import effect


def pay(amount: int, *, currency: str = "EUR") -> dict[str, int]:
    return {currency: amount}


async def pay_async(amount: int) -> str:
    return str(amount)


async def node(state: AgentState) -> None:
    assert_type(effect("pay", pay, 5, currency="USD"), dict[str, int])
    assert_type(effect("pay", pay, 5, at_most_once=True), dict[str, int])
    assert_type(await effect("later", pay_async, 5), str)

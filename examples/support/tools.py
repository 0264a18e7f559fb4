"""What the agent can do: look an order up, and refund an item once a person has approved."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from examples.support.shop import find_order, pay_refund
from examples.support.state import SupportState
from tenxgraph.core.state import ToolResult
from tenxgraph.utils import effect, interrupt


class Approval(BaseModel):
    """What the person answers."""

    approved: bool
    note: str = ""


def euros(cents: int) -> str:
    """Return an amount as people write it."""
    return f"{cents / 100:.2f} EUR"


def look_up_order(order_id: int, state: SupportState) -> str | ToolResult:  # noqa: D417 - a model sees its own alone
    """Look an order up: when it was sent, what is in it, what was refunded.

    Args:
        order_id: Number of the order.
    """
    try:
        order = find_order(Path(state.database), order_id)
    except LookupError as error:
        return ToolResult(str(error), is_error=True)
    items = "; ".join(
        f"{item.name} at {euros(item.cents)}{', refunded' if item.refund_key else ''}" for item in order.items
    )
    return f"Order {order.id} of {order.customer}, sent on {order.sent_on}: {items}."


def refund_item(  # noqa: D417 - a model sees its own alone
    order_id: int, item: str, reason: str, state: SupportState, config: Mapping[str, Any], tool_call_id: str
) -> str | ToolResult:
    """Refund an item of an order. A person approves it first.

    Args:
        order_id: Number of the order.
        item: Name of the item, as the order has it.
        reason: Why the customer gets the money back.
    """
    database = Path(state.database)
    try:
        found = find_order(database, order_id).item(item)
    except LookupError as error:
        return ToolResult(str(error), is_error=True)
    key = f"{config['idempotency_key']}:{tool_call_id}"
    if found.refund_key not in (None, key):
        return f"The {item} of order {order_id} was refunded before; nothing was paid."
    asked = {"order": order_id, "item": item, "amount": euros(found.cents), "reason": reason}
    answer = Approval.model_validate(interrupt(asked, reason="refund", response_schema=Approval))
    if not answer.approved:
        return f"The refund was declined: {answer.note or 'no reason given'}. Nothing was paid."
    # The effect is not made again once it is recorded. Should the worker die between the payment and the record, the
    # key tells the shop that it is the same refund.
    receipt = effect("refund", pay_refund, database, key, order_id, found, reason)
    return f"{euros(found.cents)} for the {item} of order {order_id} were paid back, receipt {receipt}."

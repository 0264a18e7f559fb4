"""Play a conversation and tell it, line by line."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from examples.support.shop import create_shop, list_refunds
from examples.support.state import SupportState
from examples.support.tools import euros
from tenxgraph.core.graph import CompiledGraph, RunStatus
from tenxgraph.core.state import Message, TextBlock, ToolCallBlock, ToolResultBlock

Decide = Callable[[Mapping[str, Any]], dict[str, Any]]
"""What is asked → the person's answer."""


def play(app: CompiledGraph[SupportState], turns: Sequence[str], database: Path, decide: Decide) -> Iterator[str]:
    """Let the customer speak, and yield what happens.

    Args:
        app: The graph, in process or on workers.
        turns: What the customer says.
        database: Of the shop; it is made where there is none. Workers must see it under the same path.
        decide: Answers for the person who approves.

    Raises:
        NodeError: A node failed.
    """
    create_shop(database)
    thread: str | None = None
    for turn in turns:
        said = {"messages": [Message.text_message(turn)], "state": {"database": str(database.absolute())}}
        result = app.invoke(said, {"thread_id": thread} if thread else None)
        thread = str(result["thread_id"])
        told: set[str | int] = set()
        yield from _told(result, told)
        while result["status"] is RunStatus.WAITING:
            (question,) = result["interrupts"]
            yield f"approval?  {', '.join(f'{name}: {value}' for name, value in question['value'].items())}"
            answer = decide(question["value"])
            yield f"person     {'approved' if answer['approved'] else 'declined'}"
            result = app.invoke({"resume": answer}, {"thread_id": thread})
            yield from _told(result, told)
        yield ""
    paid = [f"{item} of order {order}, {euros(cents)}" for order, item, cents in list_refunds(database)]
    yield f"Refunds in the database: {'; '.join(paid) or 'none'}."


def _told(result: Mapping[str, Any], told: set[str | int]) -> Iterator[str]:
    for message in result["messages"]:
        if message.message_id not in told:
            told.add(message.message_id)
            yield from _lines(message)


def _lines(message: Message) -> Iterator[str]:
    who = {"user": "customer", "assistant": "agent"}.get(message.role, message.role)
    for block in message.content:
        if isinstance(block, TextBlock) and block.text:
            yield f"{who:<10} {block.text}"
        elif isinstance(block, ToolCallBlock):
            yield f"{'calls':<10} {block.name}({', '.join(f'{name}={value!r}' for name, value in block.args.items())})"
        elif isinstance(block, ToolResultBlock):
            yield f"{'error' if block.is_error else 'result':<10} {block.output}"

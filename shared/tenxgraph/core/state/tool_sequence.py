"""Tool calls and their results in a list of messages: what belongs together."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tenxgraph.core.state.blocks import RemoteToolCallBlock, ToolCallBlock, ToolResultBlock
from tenxgraph.core.state.message import Message


def has_calls(message: Message) -> bool:
    """Tell whether an assistant message asks for tools."""
    return message.role == "assistant" and (bool(message.tools_calls) or any(_block_calls(message)))


def call_ids(message: Message) -> set[Any]:
    """Return the ids of the calls in a message; ``None`` stands for a call without id."""
    return {*_block_calls(message), *(call.get("id") for call in message.tools_calls or ())}


def result_ids(message: Message) -> list[str]:
    """Return the ids of the calls that a message answers."""
    return [block.call_id for block in message.content if isinstance(block, ToolResultBlock)]


def _block_calls(message: Message) -> Iterator[str]:
    return (block.id for block in message.content if isinstance(block, ToolCallBlock | RemoteToolCallBlock))


def complete_sequences(messages: Sequence[Message]) -> Iterator[range]:
    """Yield the positions of each complete tool sequence: calls and results, chained ones as one.

    A sequence is complete when every call has its result and an assistant message without calls follows.
    """
    start = 0
    while start < len(messages):
        if not has_calls(messages[start]):
            start += 1
            continue
        stop = _chain_end(messages, start)
        if _answered(messages[start:stop]) and stop < len(messages) and messages[stop].role == "assistant":
            yield range(start, stop)
        start = stop


def _chain_end(messages: Sequence[Message], start: int) -> int:
    for at in range(start, len(messages)):
        if messages[at].role != "tool" and not has_calls(messages[at]):
            return at
    return len(messages)


def _answered(chain: Sequence[Message]) -> bool:
    # Some providers count their call ids anew in each turn: a result answers a call before it, once.
    waiting: Counter[Any] = Counter()
    for message in chain:
        if message.role == "assistant":
            waiting.update(call_ids(message))
        else:
            waiting -= Counter(result_ids(message))
    return not waiting


def calls_answered_by(messages: Sequence[Message]) -> dict[int, int]:
    """Map the position of each tool result to that of the nearest message before it that asked for it."""
    asked: dict[Any, int] = {}
    answers: dict[int, int] = {}
    for at, message in enumerate(messages):
        if has_calls(message):
            asked.update(dict.fromkeys(call_ids(message), at))
        for call_id in result_ids(message):
            if call_id in asked:
                answers[at] = asked[call_id]
    return answers

"""The tool calls in a message, in whichever of the two forms it has them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tenxgraph.core.state.blocks import RemoteToolCallBlock, ToolCallBlock
from tenxgraph.core.state.message import Message
from tenxgraph.core.state.tool_sequence import result_ids

UNREADABLE: Final = "INVALID_JSON"
"""The one argument of a call whose arguments were no JSON object: their text. Named as pydantic-ai names it."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that a model asked for.

    Attributes:
        id: What its result refers to.
        name: Of the tool; empty if the model named none.
        args: The arguments, not yet validated.
        fault: Why it cannot be made; None if it can be read.
    """

    id: str
    name: str
    args: Mapping[str, Any]
    fault: str | None = None


def read_calls(message: Message) -> list[ToolCall]:
    """Return the calls in an assistant message: its blocks, else its ``tools_calls``.

    Calls of tools that run at the provider (``RemoteToolCallBlock``) are left out.
    """
    if message.role != "assistant":
        return []
    blocks = [block for block in message.content if isinstance(block, ToolCallBlock)]
    if blocks:
        return [_from_block(block) for block in blocks]
    remote = {block.id for block in message.content if isinstance(block, RemoteToolCallBlock)}
    calls = [_from_dict(call, position) for position, call in enumerate(message.tools_calls or ())]
    return [call for call in calls if call.id not in remote]


def open_calls(context: Sequence[Message]) -> tuple[Message | None, list[ToolCall]]:
    """Return the last assistant message and those of its calls that have no result yet."""
    answered: set[str] = set()
    for message in reversed(context):
        if message.role == "assistant":
            return message, [call for call in _distinct(read_calls(message)) if call.id not in answered]
        answered.update(result_ids(message))
    return None, []


def _distinct(calls: list[ToolCall]) -> Iterator[ToolCall]:
    # Two results for one id would be refused by providers: a repeated call is made once.
    seen: dict[str, ToolCall] = {}
    for call in calls:
        if seen.setdefault(call.id, call) is call:
            yield call


def _from_block(block: ToolCallBlock) -> ToolCall:
    if set(block.args) == {UNREADABLE}:
        return _unreadable(block.id, block.name, block.args[UNREADABLE])
    return ToolCall(block.id, block.name, block.args)


def _from_dict(call: Mapping[str, Any], position: int) -> ToolCall:
    function = call.get("function")
    inner: Mapping[str, Any] = function if isinstance(function, Mapping) else call
    call_id = str(call.get("id") or f"call_{position}")
    name = inner.get("name")
    if not isinstance(name, str) or not name:
        return ToolCall(call_id, "", {}, "The call names no tool.")
    args = inner.get("arguments", inner.get("args"))
    return _with_args(call_id, name, args)


def _with_args(call_id: str, name: str, args: Any) -> ToolCall:
    if args is None or args == "":
        return ToolCall(call_id, name, {})
    try:
        found = json.loads(args) if isinstance(args, str | bytes) else args
    except ValueError:
        return _unreadable(call_id, name, args)
    return ToolCall(call_id, name, found) if isinstance(found, Mapping) else _unreadable(call_id, name, args)


def _unreadable(call_id: str, name: str, args: Any) -> ToolCall:
    fault = f"The arguments of {name!r} are no JSON object: {str(args)[:200]!r}. Send one object with its arguments."
    return ToolCall(call_id, name, {UNREADABLE: args if isinstance(args, str) else repr(args)}, fault)

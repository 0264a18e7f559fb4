"""A node that answers from a script, in the place of an ``Agent``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.blocks import ContentBlock, TextBlock, ToolCallBlock
from tenxgraph.core.state.message import Message
from tenxgraph.utils.emit import emit
from tenxgraph.utils.ids import generate_id
from tenxgraph.utils.task_context import find_task

Response: TypeAlias = str | Message | Sequence[Any]
"""A text, a message, or its calls: a block, ``{"name": …, "args": {…}, "id": …}``, or ``(name, args)`` each."""


class TestAgent:
    """Gives the scripted responses in order, to those who follow tokens word by word. Needs no model and no extra.

    Which one comes next follows from the number of assistant messages in ``context``: a node that runs again, in this
    process or another, gives the same answer.

    Args:
        responses: A text; a whole ``Message``; or a list of tool calls, each ``(name, args)``, a dict with ``name``,
            ``args`` and ``id``, or a ``ToolCallBlock``.

    Raises:
        GraphError: ``TEST_AGENT`` for a response that is none of these.
    """

    __test__ = False

    def __init__(self, responses: Sequence[Response]) -> None:
        self._responses = list(responses)
        for position, response in enumerate(self._responses):
            if not isinstance(response, str | Message):
                _calls(response, position)

    async def __call__(self, state: AgentState, config: Mapping[str, Any] | None = None) -> list[Message]:
        """Return the next response.

        Raises:
            GraphError: ``TEST_AGENT`` when the script has no more.
        """
        del config
        position = sum(message.role == "assistant" for message in state.context)
        if position >= len(self._responses):
            raise GraphError(
                f"TestAgent has {len(self._responses)} responses, and the context has {position} answers already: "
                "add a response.",
                error_code="TEST_AGENT",
            )
        message = _message(self._responses[position], position)
        task = find_task()
        if task is not None and task.follows_tokens:
            _tell(message)
        return [message]


def _tell(message: Message) -> None:
    for word in re.findall(r"\s*\S+\s*$|\s*\S+", message.text()):
        piece: list[ContentBlock] = [TextBlock(text=word)]
        emit(Message(message_id=message.message_id, role=message.role, content=piece, delta=True))


def _message(response: Response, position: int) -> Message:
    if isinstance(response, str):
        return Message.text_message(response, role="assistant")
    if isinstance(response, Message):
        given = "message_id" in response.model_fields_set
        return response.model_copy(deep=True, update={} if given else {"message_id": generate_id()})
    blocks = _calls(response, position)
    raw = [
        {"id": block.id, "type": "function", "function": {"name": block.name, "arguments": json.dumps(block.args)}}
        for block in blocks
    ]
    return Message(role="assistant", content=list(blocks), tools_calls=raw)


def _calls(response: Sequence[Any], position: int) -> list[ToolCallBlock]:
    if not isinstance(response, list | tuple) or not response:
        raise _wrong(response, position)
    return [_call(call, position, index) for index, call in enumerate(response)]


def _call(call: Any, position: int, index: int) -> ToolCallBlock:
    default_id = f"call_{position}_{index}"
    if isinstance(call, ToolCallBlock):
        return call
    if isinstance(call, tuple) and len(call) == 2 and isinstance(call[1], Mapping):
        return ToolCallBlock(id=default_id, name=call[0], args=dict(call[1]))
    if isinstance(call, Mapping) and isinstance(call.get("name"), str):
        return ToolCallBlock(id=call.get("id", default_id), name=call["name"], args=dict(call.get("args") or {}))
    raise _wrong(call, position)


def _wrong(given: Any, position: int) -> GraphError:
    return GraphError(
        f"TestAgent: response {position} has {given!r}; give a text, a Message, or a list of tool calls such as "
        "[('get_weather', {'city': 'Oslo'})].",
        error_code="TEST_AGENT",
    )

"""A model's answer while it comes, piece by piece. Imported when a model is called: it needs the ``llm`` extra."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pydantic_ai.messages import (
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import Model
from pydantic_ai.models.wrapper import WrapperModel

from tenxgraph.core.graph.model_response import OUTPUT_TOOL
from tenxgraph.core.state.blocks import TextBlock
from tenxgraph.core.state.message import Message

Tell = Callable[[Message], None]
"""Takes a delta."""


def can_stream(model: Model) -> bool:
    """Tell whether a model gives its answer in pieces; some of pydantic-ai's for tests do not."""
    while isinstance(model, WrapperModel):
        model = model.wrapped
    return getattr(model, "stream_function", True) is not None


class Pieces:
    """Turns the events of one answer into deltas of one message.

    Text is text, reasoning is ``reasoning``, and a piece of a tool call stands in ``tools_calls`` as providers write
    it: ``{"index": …, "id": …, "function": {"name": …, "arguments": …}}``, name and id with its first piece.
    """

    def __init__(self, message_id: str | int, tell: Tell) -> None:
        self._message_id = message_id
        self._tell = tell
        self._calls: dict[int, int] = {}
        self._hidden: set[int] = set()

    def take(self, event: ModelResponseStreamEvent) -> None:
        """Tell what an event adds."""
        if isinstance(event, PartStartEvent):
            self._begin(event.index, event.part)
        elif isinstance(event, PartDeltaEvent):
            self._go_on(event.index, event.delta)

    def _begin(self, index: int, part: Any) -> None:
        if isinstance(part, TextPart):
            self._say(part.content)
        elif isinstance(part, ThinkingPart):
            self._think(part.content)
        elif isinstance(part, ToolCallPart) and part.tool_name == OUTPUT_TOOL:
            self._hidden.add(index)  # the answer itself, which is told whole once it fits its schema
        elif isinstance(part, ToolCallPart):
            self._calls[index] = len(self._calls)
            self._call(index, part.args_as_json_str() if part.args else "", id=part.tool_call_id, name=part.tool_name)

    def _go_on(self, index: int, delta: Any) -> None:
        if isinstance(delta, TextPartDelta):
            self._say(delta.content_delta)
        elif isinstance(delta, ThinkingPartDelta):
            self._think(delta.content_delta)
        elif isinstance(delta, ToolCallPartDelta) and index in self._calls and isinstance(delta.args_delta, str):
            self._call(index, delta.args_delta)

    def _say(self, text: str) -> None:
        if text:
            self._send(content=[TextBlock(text=text)])

    def _think(self, text: str | None) -> None:
        if text:
            self._send(reasoning=text)

    def _call(self, index: int, arguments: str, *, id: str | None = None, name: str | None = None) -> None:
        piece: dict[str, Any] = {"index": self._calls[index], "function": {"arguments": arguments}}
        if id is not None:
            piece |= {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
        self._send(tools_calls=[piece])

    def _send(self, **fields: Any) -> None:
        self._tell(Message(**{**_DELTA, "message_id": self._message_id, **fields}))


_DELTA: Final[dict[str, Any]] = {"role": "assistant", "content": [], "delta": True}

"""A conversation as pydantic-ai sends it. Imported when a model is called: it needs the ``llm`` extra."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UploadedFile,
    UserContent,
    UserPromptPart,
    VideoUrl,
)

from tenxgraph.core.graph.model_response import MODEL, PARTS
from tenxgraph.core.graph.tool_calls import read_calls
from tenxgraph.core.state.blocks import (
    AudioBlock,
    ContentBlock,
    DataBlock,
    DocumentBlock,
    ErrorBlock,
    ImageBlock,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    VideoBlock,
)
from tenxgraph.core.state.media import MediaRef
from tenxgraph.core.state.message import Message

_NO_RESULT: Final = "The call was given up before it had a result."
_URLS: Final = {ImageBlock: ImageUrl, AudioBlock: AudioUrl, VideoBlock: VideoUrl, DocumentBlock: DocumentUrl}
_MIME_TYPES: Final = {
    ImageBlock: "image/png",
    AudioBlock: "audio/wav",
    VideoBlock: "video/mp4",
    DocumentBlock: "application/pdf",
}


def to_request(context: Sequence[Message], system: str | None, provider: str) -> list[ModelMessage]:
    """Return a conversation in pydantic-ai's messages.

    Every call gets a result and every result belongs to a call, whatever the conversation lacks: providers refuse
    anything else, and a thread whose run was cancelled between the two would be dead for good.

    Args:
        context: The conversation.
        system: What stands before it.
        provider: To whom it goes; files that lie there are named to it.
    """
    writer = _Writer(provider)
    for message in context:
        writer.add(message)
    return writer.finished(system)


class _Writer:
    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._done: list[ModelMessage] = []
        self._parts: list[ModelRequestPart] = []
        self._open: dict[str, str] = {}

    def add(self, message: Message) -> None:
        if message.role == "tool":
            self._parts += self._returns(message)
        elif message.role == "system":
            self._parts.append(SystemPromptPart(message.text()))
        elif message.role == "user":
            self._give_up_calls()
            self._parts += _user_part(message.content, self._provider)
        else:
            self._give_up_calls()
            self._flush()
            parts = _answer_parts(message)
            self._open = {part.tool_call_id: part.tool_name for part in parts if isinstance(part, ToolCallPart)}
            if parts:
                self._done.append(ModelResponse(parts=parts, provider_name=_noted(message).get("provider")))

    def finished(self, system: str | None) -> list[ModelMessage]:
        self._give_up_calls()
        self._flush()
        if system:
            requests = [message for message in self._done if isinstance(message, ModelRequest)]
            last = requests[-1] if requests else ModelRequest(parts=[])
            last.instructions = system
            if not requests:
                self._done.append(last)
        return self._done

    def _returns(self, message: Message) -> Iterator[ModelRequestPart]:
        others: list[ContentBlock] = []
        for block in message.content:
            if not isinstance(block, ToolResultBlock):
                others.append(block)
                continue
            name = self._open.pop(block.call_id, None)
            if name is not None:
                outcome: Any = "failed" if block.is_error or block.status == "failed" else "success"
                yield ToolReturnPart(name, block.output, block.call_id, outcome=outcome)
        yield from _user_part(others, self._provider)

    def _give_up_calls(self) -> None:
        for call_id, name in self._open.items():
            self._parts.append(ToolReturnPart(name, _NO_RESULT, call_id, outcome="failed"))
        self._open = {}

    def _flush(self) -> None:
        if self._parts:
            # Results before words: a provider takes nothing between a call and its result.
            self._parts.sort(key=lambda part: not isinstance(part, ToolReturnPart))
            self._done.append(ModelRequest(parts=self._parts))
            self._parts = []


def _user_part(blocks: Sequence[ContentBlock], provider: str) -> Iterator[ModelRequestPart]:
    content = [item for block in blocks for item in _user_content(block, provider)]
    if len(content) == 1 and isinstance(content[0], str):
        yield UserPromptPart(content[0])
    elif content:
        yield UserPromptPart(content)


def _user_content(block: ContentBlock, provider: str) -> Iterator[UserContent]:
    if isinstance(block, TextBlock):
        yield block.text
    elif isinstance(block, ErrorBlock):
        yield f"Error: {block.message}"
    elif isinstance(block, DataBlock):
        media = block.media or MediaRef(kind="data", data_base64=block.data_base64)
        yield from _file(media, DocumentUrl, block.mime_type, provider)
    elif isinstance(block, ImageBlock | AudioBlock | VideoBlock | DocumentBlock):
        yield from _file(block.media, _URLS[type(block)], _MIME_TYPES[type(block)], provider)


def _file(media: MediaRef, url_type: Any, mime_type: str, provider: str) -> Iterator[UserContent]:
    if media.data_base64 is not None:
        yield BinaryContent(base64.b64decode(media.data_base64), media_type=media.mime_type or mime_type)
    elif media.url is not None and media.url.startswith("data:"):
        yield BinaryContent.from_data_uri(media.url)
    elif media.url is not None:
        yield url_type(media.url, media_type=media.mime_type or mime_type)
    elif media.file_id is not None:
        yield UploadedFile(media.file_id, cast("Any", provider), media_type=media.mime_type or mime_type)


def _answer_parts(message: Message) -> list[ModelResponsePart]:
    parts = [part for block in message.content for part in _answer_part(block)]
    if not any(isinstance(block, ToolCallBlock) for block in message.content):
        parts += [ToolCallPart(call.name, dict(call.args), call.id) for call in read_calls(message)]
    notes = _noted(message).get(PARTS)
    if isinstance(notes, list) and len(notes) == len(parts):
        for part, note in zip(parts, notes, strict=True):
            _restore(part, note)
    return parts


def _answer_part(block: ContentBlock) -> Iterator[ModelResponsePart]:
    if isinstance(block, TextBlock):
        yield TextPart(block.text)
    elif isinstance(block, ReasoningBlock):
        yield ThinkingPart(block.summary)
    elif isinstance(block, ToolCallBlock):
        yield ToolCallPart(block.name, block.args, block.id)
    elif isinstance(block, ImageBlock) and block.media.data_base64 is not None:
        data = base64.b64decode(block.media.data_base64)
        yield FilePart(BinaryContent.narrow_type(BinaryContent(data, media_type=block.media.mime_type or "image/png")))


def _noted(message: Message) -> Mapping[str, Any]:
    noted = message.metadata.get(MODEL)
    return noted if isinstance(noted, Mapping) else {}


def _restore(part: ModelResponsePart, note: Mapping[str, Any]) -> None:
    for name, value in note.items():
        if hasattr(part, name):
            setattr(part, name, value)

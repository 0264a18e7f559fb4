"""Content blocks: what a message is made of, told apart by ``type``."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, Field

from tenxgraph.core.state.media import EXACT_JSON, AnnotationRef, MediaRef


class _Block(BaseModel):
    model_config = EXACT_JSON


class TextBlock(_Block):
    """Plain text, with the sources that it cites."""

    type: Literal["text"] = "text"
    text: str
    annotations: list[AnnotationRef] = Field(default_factory=list[AnnotationRef])


class ImageBlock(_Block):
    """An image; ``bbox`` marks a part of it, in the provider's units."""

    type: Literal["image"] = "image"
    media: MediaRef
    alt_text: str | None = None
    bbox: list[float] | None = None


class AudioBlock(_Block):
    """A sound; ``sample_rate`` in hertz."""

    type: Literal["audio"] = "audio"
    media: MediaRef
    transcript: str | None = None
    sample_rate: int | None = None
    channels: int | None = None


class VideoBlock(_Block):
    """A video and a picture that stands for it."""

    type: Literal["video"] = "video"
    media: MediaRef
    thumbnail: MediaRef | None = None


class DocumentBlock(_Block):
    """A document such as a PDF; ``pages`` names the pages that matter, from 1."""

    type: Literal["document"] = "document"
    media: MediaRef
    text: str | None = None
    pages: list[int] | None = None
    excerpt: str | None = None


class DataBlock(_Block):
    """Binary data of any kind, base64 or by reference."""

    type: Literal["data"] = "data"
    mime_type: str
    data_base64: str | None = None
    media: MediaRef | None = None


class ToolCallBlock(_Block):
    """A model asks for a tool: the answer is a ``ToolResultBlock`` with this ``id`` as ``call_id``."""

    type: Literal["tool_call"] = "tool_call"
    id: str
    name: str
    args: dict[str, Any] = Field(default_factory=dict)
    tool_type: str | None = None


class RemoteToolCallBlock(_Block):
    """A call of a tool that runs outside, at the provider or at the client."""

    type: Literal["remote_tool_call"] = "remote_tool_call"
    id: str
    name: str
    args: dict[str, Any] = Field(default_factory=dict)
    tool_type: str | None = "remote"


class ToolResultBlock(_Block):
    """What a tool call gave: any JSON value."""

    type: Literal["tool_result"] = "tool_result"
    call_id: str
    output: Any = None
    is_error: bool = False
    status: Literal["completed", "failed"] | None = None


class ReasoningBlock(_Block):
    """The reasoning of a model that shows it."""

    type: Literal["reasoning"] = "reasoning"
    summary: str
    details: list[str] | None = None


class AnnotationBlock(_Block):
    """Citations or notes; ``spans`` are [start, end) offsets into the message's text."""

    type: Literal["annotation"] = "annotation"
    kind: Literal["citation", "note"] = "citation"
    refs: list[AnnotationRef] = Field(default_factory=list[AnnotationRef])
    spans: list[tuple[int, int]] | None = None


class ErrorBlock(_Block):
    """An error that is part of the conversation."""

    type: Literal["error"] = "error"
    message: str
    code: str | None = None
    data: dict[str, Any] | None = None


ContentBlock: TypeAlias = Annotated[
    TextBlock
    | ImageBlock
    | AudioBlock
    | VideoBlock
    | DocumentBlock
    | DataBlock
    | ToolCallBlock
    | RemoteToolCallBlock
    | ToolResultBlock
    | ReasoningBlock
    | AnnotationBlock
    | ErrorBlock,
    Field(discriminator="type"),
]
"""Any block; an unknown ``type`` is refused by name."""

MediaBlock: TypeAlias = ImageBlock | AudioBlock | VideoBlock | DocumentBlock

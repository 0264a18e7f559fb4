"""Messages: one turn of a conversation each, made of typed blocks."""

import base64
import hashlib
import mimetypes
import time
from collections.abc import Sequence
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, TypeAlias, TypedDict

from pydantic import BaseModel, BeforeValidator, Field
from pydantic_core import PydanticCustomError, to_json

from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.core.state.blocks import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaBlock,
    TextBlock,
    ToolResultBlock,
    VideoBlock,
)
from tenxgraph.core.state.media import EXACT_JSON, MediaRef
from tenxgraph.utils.ids import accepts_id, generate_id

Role: TypeAlias = Literal["user", "assistant", "system", "tool"]
MediaKind: TypeAlias = Literal["image", "audio", "video", "document"]

if TYPE_CHECKING:
    ParsedContent: TypeAlias = dict[str, Any] | BaseModel | None
else:
    # The data of a root model need not be an object: a union with dict would refuse on reading what was written.
    ParsedContent = Any

_MEDIA_BLOCKS: Final[dict[str, type[MediaBlock]]] = {
    "image": ImageBlock,
    "audio": AudioBlock,
    "video": VideoBlock,
    "document": DocumentBlock,
}


def _as_list(value: Any) -> Any:
    if isinstance(value, str | bytes | bytearray):
        raise PydanticCustomError(
            "content_text", "content is a list of blocks: use Message.text_message(...) for plain text"
        )
    return list(value) if isinstance(value, Sequence) else value


def _as_seconds(value: Any) -> Any:
    return value.timestamp() if isinstance(value, datetime) else value


class TokenUsages(BaseModel):
    """What a model's answer cost, in tokens, as the provider counted."""

    model_config = EXACT_JSON

    completion_tokens: int
    prompt_tokens: int
    total_tokens: int
    reasoning_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    image_tokens: int | None = 0
    audio_tokens: int | None = 0


class _GivenId(TypedDict, total=False):
    message_id: str | int


def _given(message_id: str | int | None) -> _GivenId:
    # An id that nobody gave stays out of model_fields_set.
    if message_id is None or not accepts_id(message_id):
        return {}
    return {"message_id": message_id}


class Message(BaseModel):
    """One turn of a conversation.

    Attributes:
        message_id: Unique in the thread; made by ``generate_id`` unless given.
        role: Who speaks: ``user``, ``assistant``, ``system`` or ``tool``.
        content: The blocks; any sequence is accepted and kept as a list.
        delta: A part of a message that is still streamed; never stored.
        tools_calls: The model's calls as the provider writes them; they are ``ToolCallBlock`` in ``content`` too.
        reasoning: Reasoning text, where the provider returns it.
        timestamp: Unix time in seconds, set at creation.
        metadata: Anything JSON-able.
        usages: Token counts, where the provider returned them.
        raw: The provider's own answer, where it is kept.
        parsed_content: The answer against an output schema; a model is stored with its data and read back as a dict.
    """

    model_config = EXACT_JSON

    # The id stays first and the role second: stored messages are told apart by this prefix without decoding them.
    message_id: str | int = Field(default_factory=generate_id)
    role: Role
    content: Annotated[list[ContentBlock], BeforeValidator(_as_list)]
    delta: bool = False
    tools_calls: list[dict[str, Any]] | None = None
    reasoning: str | None = None
    timestamp: Annotated[float | None, BeforeValidator(_as_seconds)] = Field(default_factory=time.time)
    metadata: dict[str, Any] = Field(default_factory=dict)
    usages: TokenUsages | None = None
    raw: dict[str, Any] | None = None
    parsed_content: ParsedContent = None

    @classmethod
    def text_message(cls, content: str, role: Role = "user", message_id: str | int | None = None) -> Self:
        """Make a message of one text block."""
        return cls(role=role, content=[TextBlock(text=content)], **_given(message_id))

    @classmethod
    def tool_message(
        cls,
        content: Sequence[ContentBlock],
        message_id: str | int | None = None,
        meta: dict[str, Any] | None = None,
    ) -> Self:
        """Make a message of tool results; ``meta`` becomes its metadata."""
        return cls(role="tool", content=list(_as_list(content)), metadata=dict(meta or {}), **_given(message_id))

    @classmethod
    def image_message(
        cls,
        *,
        image_url: str | None = None,
        image_base64: str | None = None,
        mime_type: str = "image/png",
        text: str | None = None,
        role: Role = "user",
        message_id: str | int | None = None,
    ) -> Self:
        """Make a message of one image, with ``text`` before it if given.

        Raises:
            InvalidInputError: Neither or both of ``image_url`` and ``image_base64`` are given (a ``ValueError``).
        """
        if (image_url is None) == (image_base64 is None):
            raise InvalidInputError("image_message takes either image_url or image_base64: give exactly one")
        kind: Literal["url", "data"] = "url" if image_base64 is None else "data"
        media = MediaRef(kind=kind, url=image_url, data_base64=image_base64, mime_type=mime_type)
        return cls._of_media(ImageBlock(media=media), text, role, message_id)

    @classmethod
    def multimodal_message(
        cls, content_blocks: Sequence[ContentBlock], role: Role = "user", message_id: str | int | None = None
    ) -> Self:
        """Make a message of any blocks."""
        return cls(role=role, content=list(_as_list(content_blocks)), **_given(message_id))

    @classmethod
    def from_file(
        cls,
        file_path: str | PathLike[str],
        mime_type: str | None = None,
        text: str | None = None,
        role: Role = "user",
        message_id: str | int | None = None,
    ) -> Self:
        """Make a message that carries a file: an image, audio, video or document block, by the file's type.

        Args:
            file_path: The file; it is read whole and carried as base64.
            mime_type: Its type; guessed from the name if not given.
            text: Text to put before it.
            role: Who speaks.
            message_id: An explicit id.

        Raises:
            OSError: The file cannot be read.
        """
        path = Path(file_path)
        data = path.read_bytes()
        found = mime_type or _guessed_type(path.name)
        media = MediaRef(
            kind="data",
            data_base64=base64.b64encode(data).decode("ascii"),
            mime_type=found,
            size_bytes=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
            filename=path.name,
        )
        block_type = _MEDIA_BLOCKS.get(found.partition("/")[0].lower(), DocumentBlock)
        return cls._of_media(block_type(media=media), text, role, message_id)

    @classmethod
    def _of_media(cls, block: MediaBlock, text: str | None, role: Role, message_id: str | int | None) -> Self:
        before: list[ContentBlock] = [] if text is None else [TextBlock(text=text)]
        return cls(role=role, content=[*before, block], **_given(message_id))

    def attach_media(self, media: MediaRef, as_type: MediaKind) -> None:
        """Append a block of ``media``.

        Raises:
            InvalidInputError: ``as_type`` is none of image, audio, video and document (a ``ValueError``).
        """
        block_type = _MEDIA_BLOCKS.get(as_type)
        if block_type is None:
            raise InvalidInputError(f"media cannot be attached as {as_type!r}: use one of {', '.join(_MEDIA_BLOCKS)}")
        self.content.append(block_type(media=media))

    def text(self) -> str:
        """Return the text of text blocks and the output of tool results, joined without separator.

        An output that is no string is written as JSON; ``None`` adds nothing.
        """
        return "".join(_text_of(block) for block in self.content)


def _guessed_type(filename: str) -> str:
    kind, packing = mimetypes.guess_type(filename)
    # Of report.csv.gz it says text/csv and gzip: what is carried are the packed bytes.
    return (kind if packing is None else f"application/{packing}") or "application/octet-stream"


def _text_of(block: ContentBlock) -> str:
    if isinstance(block, TextBlock):
        return block.text
    if not isinstance(block, ToolResultBlock) or block.output is None:
        return ""
    if isinstance(block.output, str):
        return block.output
    return to_json(block.output, bytes_mode="base64", inf_nan_mode="constants", fallback=str).decode()

"""Hypothesis strategies for messages, blocks and JSON values, with what breaks weak encoders in them."""

from functools import cache
from typing import Any, Final

from hypothesis import strategies as st
from pydantic import BaseModel

from tenxgraph.core.state import (
    AnnotationBlock,
    AnnotationRef,
    AudioBlock,
    ContentBlock,
    DataBlock,
    DocumentBlock,
    ErrorBlock,
    ImageBlock,
    MediaRef,
    Message,
    ReasoningBlock,
    RemoteToolCallBlock,
    TextBlock,
    TokenUsages,
    ToolCallBlock,
    ToolResultBlock,
    VideoBlock,
)

WIDE: Final = 2**200


@cache
def texts() -> st.SearchStrategy[str]:
    """Any text that UTF-8 can hold, NUL, quotes and astral characters among it."""
    odd = st.sampled_from(["", "\0", "\x00\x1f\x7f", "\U0001f9ea\U0010ffff", '"\\/', "\u2028\u2029", "\ufeff", "null"])
    return odd | st.text(max_size=20)


@cache
def wide_ints() -> st.SearchStrategy[int]:
    """Integers far beyond 64 bits."""
    edges = st.sampled_from([2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 2**70, -(2**96), WIDE])
    return edges | st.integers(-WIDE, WIDE)


@cache
def floats(*, finite: bool = True) -> st.SearchStrategy[float]:
    """Floats; with ``finite=False`` also infinities, and NaN, which equals nothing."""
    return st.floats(allow_nan=not finite, allow_infinity=not finite)


@cache
def json_values(*, finite: bool = True) -> st.SearchStrategy[Any]:
    """Nested JSON values."""
    leaves = st.none() | st.booleans() | wide_ints() | floats(finite=finite) | texts()
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(), inner, max_size=3),
        max_leaves=5,
    )


@cache
def json_objects(*, finite: bool = True) -> st.SearchStrategy[dict[str, Any]]:
    """JSON objects."""
    return st.dictionaries(texts(), json_values(finite=finite), max_size=3)


def _optional(model: type[BaseModel], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Build ``model`` with its required fields and any of the others."""
    required = {name for name, info in model.model_fields.items() if info.is_required()}
    return st.fixed_dictionaries(
        {name: value for name, value in fields.items() if name in required},
        optional={name: value for name, value in fields.items() if name not in required},
    ).map(lambda values: model(**values))


@cache
def media_refs() -> st.SearchStrategy[MediaRef]:
    """Media references of every kind."""
    return _optional(
        MediaRef,
        kind=st.sampled_from(["url", "file_id", "data"]),
        url=texts(),
        file_id=texts(),
        data_base64=texts(),
        mime_type=texts(),
        size_bytes=wide_ints(),
        sha256=texts(),
        filename=texts(),
        width=wide_ints(),
        height=wide_ints(),
        duration_ms=wide_ints(),
        page=wide_ints(),
    )


@cache
def annotation_refs() -> st.SearchStrategy[AnnotationRef]:
    """Annotation references."""
    return _optional(AnnotationRef, url=texts(), file_id=texts(), page=wide_ints(), index=wide_ints(), title=texts())


@cache
def blocks(*, finite: bool = True) -> st.SearchStrategy[ContentBlock]:
    """Content blocks of all twelve types."""
    return st.one_of(*_media_blocks(), *_text_blocks(finite), *_tool_blocks(finite))


def _media_blocks() -> list[st.SearchStrategy[Any]]:
    ref = media_refs()
    pages = st.lists(wide_ints(), max_size=3)
    return [
        _optional(ImageBlock, media=ref, alt_text=texts(), bbox=st.lists(floats(), max_size=4)),
        _optional(AudioBlock, media=ref, transcript=texts(), sample_rate=wide_ints(), channels=wide_ints()),
        _optional(VideoBlock, media=ref, thumbnail=ref),
        _optional(DocumentBlock, media=ref, text=texts(), pages=pages, excerpt=texts()),
        _optional(DataBlock, mime_type=texts(), data_base64=texts(), media=ref),
    ]


def _text_blocks(finite: bool) -> list[st.SearchStrategy[Any]]:
    refs = st.lists(annotation_refs(), max_size=2)
    spans = st.lists(st.tuples(wide_ints(), wide_ints()), max_size=2)
    return [
        _optional(TextBlock, text=texts(), annotations=refs),
        _optional(ReasoningBlock, summary=texts(), details=st.lists(texts(), max_size=3)),
        _optional(AnnotationBlock, kind=st.sampled_from(["citation", "note"]), refs=refs, spans=spans),
        _optional(ErrorBlock, message=texts(), code=texts(), data=json_objects(finite=finite)),
    ]


def _tool_blocks(finite: bool) -> list[st.SearchStrategy[Any]]:
    call = {"id": texts(), "name": texts(), "args": json_objects(finite=finite), "tool_type": texts()}
    return [
        _optional(ToolCallBlock, **call),
        _optional(RemoteToolCallBlock, **call),
        _optional(
            ToolResultBlock,
            call_id=texts(),
            output=json_values(finite=finite),
            is_error=st.booleans(),
            status=st.sampled_from(["completed", "failed"]),
        ),
    ]


@cache
def usages() -> st.SearchStrategy[TokenUsages]:
    """Token counts."""
    return _optional(TokenUsages, **{name: wide_ints() for name in TokenUsages.model_fields})


@cache
def message_ids() -> st.SearchStrategy[str | int]:
    """Ids of both types, as wide as they come."""
    return texts() | wide_ints()


@cache
def messages(*, finite: bool = True) -> st.SearchStrategy[Message]:
    """Messages with any of their fields set."""
    objects = json_objects(finite=finite)
    return _optional(
        Message,
        message_id=message_ids(),
        role=st.sampled_from(["user", "assistant", "system", "tool"]),
        content=st.lists(blocks(finite=finite), max_size=3),
        delta=st.booleans(),
        tools_calls=st.lists(objects, max_size=2),
        reasoning=texts(),
        timestamp=floats(),
        metadata=objects,
        usages=usages(),
        raw=objects,
        parsed_content=objects,
    )

"""Messages and blocks: what users build, and that JSON gives it back equal."""

import base64
import hashlib
import json
import time
from collections import UserList
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from pydantic import BaseModel, RootModel, TypeAdapter, ValidationError

from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.core.state import (
    AnnotationBlock,
    AudioBlock,
    ContentBlock,
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
from tests.strategies import blocks, json_values, messages

BLOCK: TypeAdapter[Any] = TypeAdapter(ContentBlock)
TYPES = [
    *("text", "image", "audio", "video", "document", "data"),
    *("tool_call", "remote_tool_call", "tool_result", "reasoning", "annotation", "error"),
]


@given(messages())
def test_a_message_reads_back_equal_from_json(message: Message) -> None:
    back = Message.model_validate_json(message.model_dump_json())
    assert back == message
    assert repr(back) == repr(message), "1 == 1.0 == True would hide a change of type"


@given(messages(finite=False))
def test_a_message_with_nan_and_infinities_reads_back_the_same(message: Message) -> None:
    back = Message.model_validate_json(message.model_dump_json())
    assert repr(back) == repr(message)


@given(blocks())
def test_every_block_reads_back_as_its_own_type(block: Any) -> None:
    back = BLOCK.validate_json(block.model_dump_json())
    assert type(back) is type(block)
    assert repr(back) == repr(block)


@given(json_values())
def test_a_tool_output_of_any_json_reads_back_equal(value: Any) -> None:
    block = ToolResultBlock(call_id="c", output=value)
    assert repr(ToolResultBlock.model_validate_json(block.model_dump_json())) == repr(block)


@given(messages())
def test_the_id_is_the_first_thing_in_the_json_and_the_role_the_second(message: Message) -> None:
    written = message.model_dump_json()
    key = json.dumps(message.message_id, ensure_ascii=False)
    assert list(json.loads(written))[:2] == ["message_id", "role"]
    assert written.startswith('{"message_id":')
    if isinstance(message.message_id, int):
        assert written.startswith(f'{{"message_id":{key},"role":"{message.role}"')


def test_the_twelve_types_are_told_apart_by_name() -> None:
    members = get_args(get_args(ContentBlock)[0])
    assert [member.model_fields["type"].default for member in members] == TYPES


def test_an_unknown_block_type_is_refused_by_name() -> None:
    with pytest.raises(ValidationError, match="'hologram'"):
        Message.model_validate({"role": "user", "content": [{"type": "hologram"}]})


def test_blocks_have_the_documented_defaults() -> None:
    assert TextBlock(text="a").annotations == []
    assert ToolCallBlock(id="1", name="f").args == {}
    assert RemoteToolCallBlock(id="1", name="f").tool_type == "remote"
    assert AnnotationBlock().kind == "citation"
    assert AnnotationBlock().refs == []
    assert MediaRef().kind == "url"
    assert TokenUsages(completion_tokens=1, prompt_tokens=2, total_tokens=3).image_tokens == 0


def test_a_message_has_the_documented_defaults() -> None:
    before = time.time()
    message = Message(role="user", content=[])
    assert message.timestamp is not None
    assert before <= message.timestamp <= time.time()
    assert message.model_dump(exclude={"message_id", "timestamp"}) == {
        "role": "user",
        "content": [],
        "delta": False,
        "tools_calls": None,
        "reasoning": None,
        "metadata": {},
        "usages": None,
        "raw": None,
        "parsed_content": None,
    }


def test_two_messages_without_ids_differ_and_share_nothing() -> None:
    first, second = Message.text_message("a"), Message.text_message("a")
    first.metadata["k"] = 1
    assert first.message_id != second.message_id
    assert second.metadata == {}


@pytest.mark.parametrize("kind", [list, tuple, UserList])
def test_any_sequence_of_blocks_is_stored_as_a_list(kind: Any) -> None:
    given_blocks = kind([TextBlock(text="a")])
    for message in (Message(role="user", content=given_blocks), Message.multimodal_message(given_blocks)):
        assert type(message.content) is list
        assert message.content is not given_blocks
        assert message.text() == "a"


@pytest.mark.parametrize("text", ["Hello", b"Hello", ""])
def test_a_bare_string_as_content_is_refused_with_the_way_out(text: Any) -> None:
    for build in (Message.multimodal_message, Message.tool_message, lambda c: Message(role="user", content=c)):
        with pytest.raises(ValueError, match=r"Message\.text_message"):
            build(text)


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(ValidationError, match="role"):
        Message.text_message("a", role="robot")  # type: ignore[arg-type]


def test_a_text_message_holds_one_text_block() -> None:
    message = Message.text_message("Hello!", role="assistant", message_id="m1")
    assert (message.message_id, message.role, message.content) == ("m1", "assistant", [TextBlock(text="Hello!")])


def test_a_subclass_builds_itself() -> None:
    class Marked(Message):
        mark: int = 0

    assert type(Marked.text_message("a")) is Marked


def test_a_tool_message_takes_results_and_metadata() -> None:
    meta = {"took_ms": 3}
    message = Message.tool_message((ToolResultBlock(call_id="c", output="Sunny"),), message_id="t", meta=meta)
    assert (message.role, message.message_id, message.metadata) == ("tool", "t", meta)
    assert message.metadata is not meta
    assert message.text() == "Sunny"


def test_text_joins_text_and_tool_outputs_without_separator() -> None:
    content: list[ContentBlock] = [
        TextBlock(text="Hello!"),
        ReasoningBlock(summary="not text"),
        ToolResultBlock(call_id="1", output="Result."),
        ToolResultBlock(call_id="2", output={"n": [1, None, "ü"]}),
        ToolResultBlock(call_id="3", output=None),
        ToolResultBlock(call_id="4", output=2**200),
        ErrorBlock(message="not text either"),
    ]
    assert Message(role="tool", content=content).text() == f'Hello!Result.{{"n":[1,null,"ü"]}}{2**200}'


def test_text_writes_outputs_that_json_does_not_know() -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    blocks_ = [ToolResultBlock(call_id="c", output=value) for value in (at, b"\xff", float("nan"), 1j)]
    assert Message.tool_message(blocks_).text() == '"2026-01-02T00:00:00Z""_w=="NaN"1j"'


def test_an_image_message_points_at_a_url_or_carries_data() -> None:
    by_url = Message.image_message(image_url="https://example.com/a.png", text="What?", message_id="i")
    assert by_url.message_id == "i"
    assert by_url.content == [
        TextBlock(text="What?"),
        ImageBlock(media=MediaRef(url="https://example.com/a.png", mime_type="image/png")),
    ]
    carried = Message.image_message(image_base64="AAAA", mime_type="image/gif", role="assistant")
    assert carried.role == "assistant"
    assert carried.content == [ImageBlock(media=MediaRef(kind="data", data_base64="AAAA", mime_type="image/gif"))]


@pytest.mark.parametrize("sources", [{}, {"image_url": "u", "image_base64": "d"}])
def test_an_image_message_wants_exactly_one_source(sources: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="exactly one") as caught:
        Message.image_message(**sources)  # type: ignore[arg-type]
    assert isinstance(caught.value, InvalidInputError)


@pytest.mark.parametrize(
    ("name", "mime_type", "block_type"),
    [
        ("a.png", "image/png", ImageBlock),
        ("a.mp3", "audio/mpeg", AudioBlock),
        ("a.mp4", "video/mp4", VideoBlock),
        ("a.pdf", "application/pdf", DocumentBlock),
        ("a.zzunknown", "application/octet-stream", DocumentBlock),
    ],
)
def test_a_file_becomes_the_block_of_its_type(tmp_path: Path, name: str, mime_type: str, block_type: type) -> None:
    data = bytes(range(256))
    (tmp_path / name).write_bytes(data)
    message = Message.from_file(tmp_path / name, text="See:", message_id="f")
    text, block = message.content
    assert isinstance(block, ImageBlock | AudioBlock | VideoBlock | DocumentBlock)
    assert text == TextBlock(text="See:")
    assert type(block) is block_type
    assert block.media == MediaRef(
        kind="data",
        data_base64=base64.b64encode(data).decode(),
        mime_type=mime_type,
        size_bytes=256,
        sha256=hashlib.sha256(data).hexdigest(),
        filename=name,
    )


def test_a_given_type_is_not_guessed(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"")
    assert isinstance(Message.from_file(str(tmp_path / "a.bin"), mime_type="audio/ogg").content[0], AudioBlock)


def test_a_packed_file_is_named_by_its_packing_not_by_what_it_packs(tmp_path: Path) -> None:
    (tmp_path / "report.csv.gz").write_bytes(b"packed")
    block = Message.from_file(tmp_path / "report.csv.gz").content[0]
    assert isinstance(block, DocumentBlock)
    assert block.media.mime_type == "application/gzip"


def test_a_tool_result_may_have_no_output() -> None:
    assert Message.tool_message([ToolResultBlock(call_id="c")]).text() == ""


def test_media_is_attached_as_the_wanted_block() -> None:
    message, media = Message.text_message("look"), MediaRef(url="u")
    for kind in ("image", "audio", "video", "document"):
        message.attach_media(media, as_type=kind)
    assert [block.type for block in message.content] == ["text", "image", "audio", "video", "document"]
    with pytest.raises(ValueError, match="'smell'"):
        message.attach_media(media, as_type="smell")  # type: ignore[arg-type]


class Answer(BaseModel):
    city: str
    tags: set[str] = set()


class Capital(Answer):
    people: int = 0


@pytest.mark.parametrize(
    ("parsed", "read_back"),
    [
        (Capital(city="Bern", people=2**70), {"city": "Bern", "tags": [], "people": 2**70}),
        ({"answer": Capital(city="Bern")}, {"answer": {"city": "Bern", "tags": [], "people": 0}}),
        ({"city": "Bern"}, {"city": "Bern"}),
        (RootModel[list[int]]([1, 2]), [1, 2]),
        (None, None),
    ],
)
def test_parsed_content_is_stored_with_its_data(parsed: Any, read_back: Any) -> None:
    message = Message(role="assistant", content=[], parsed_content=parsed)
    assert message.parsed_content is parsed
    assert Message.model_validate_json(message.model_dump_json()).parsed_content == read_back


def test_a_datetime_as_timestamp_becomes_seconds() -> None:
    at: Any = datetime(2026, 1, 2, tzinfo=UTC)
    assert Message(role="user", content=[], timestamp=at).timestamp == at.timestamp()

"""Large media lie in the store, once a thread; messages name them by their content."""

import base64
from collections.abc import Iterator
from typing import Any

import fakeredis
import pytest
from pydantic_ai.messages import BinaryContent, ModelMessage, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tenxgraph.core.exceptions import GraphError, InvalidInputError, ThreadOwnerError
from tenxgraph.core.graph import Agent, CompiledGraph, StateGraph
from tenxgraph.core.state import (
    AgentState,
    ContentBlock,
    DataBlock,
    ImageBlock,
    MediaRef,
    Message,
    TextBlock,
    VideoBlock,
)
from tenxgraph.core.state.codec import EncodedUpdate
from tenxgraph.core.state.kept_media import media_id, move_media
from tenxgraph.executor import InProcessExecutor
from tenxgraph.settings import Settings
from tenxgraph.store.base import Store
from tenxgraph.store.memory import MemoryStore
from tenxgraph.store.redis import RedisStore
from tenxgraph.utils import load_media
from tenxgraph.utils.constants import END, START

LARGE = bytes(range(256)) * 300
SMALL = b"small"
THREAD = {"thread_id": "t"}


class Album(AgentState):
    cover: MediaRef | None = None
    sizes: list[int] = []


def inline(data: bytes, mime_type: str | None = "image/png") -> MediaRef:
    return MediaRef(kind="data", data_base64=base64.b64encode(data).decode(), mime_type=mime_type, filename="a.png")


def image(data: bytes) -> Message:
    return Message(role="user", content=[TextBlock(text="Look"), ImageBlock(media=inline(data))])


@pytest.fixture(params=["memory", "redis"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    with fakeredis.FakeRedis() as client:
        yield MemoryStore() if request.param == "memory" else RedisStore(client)


def compiled(store: Store, node: Any, *, thread_state: type[AgentState] = Album) -> CompiledGraph[Any]:
    app = StateGraph(thread_state).add_node("N", node).add_edge(START, "N").add_edge("N", END).compile()
    app._executor = InProcessExecutor(app.definition, settings=Settings.load(), store=store)
    return app


def test_a_large_image_of_the_input_is_kept_once_and_read_back(store: Store) -> None:
    def measure(state: Album) -> dict[str, Any]:
        block = state.context[-1].content[1]
        assert isinstance(block, ImageBlock)
        return {"sizes": [*state.sizes, len(load_media(block.media))]}

    app = compiled(store, measure)
    app.invoke({"messages": [image(LARGE)]}, THREAD)
    result = app.invoke({"messages": [image(LARGE)]}, THREAD, "full")

    media = result["messages"][0].content[1].media
    assert (media.kind, media.file_id, media.sha256) == ("file_id", media_id(LARGE), media_id(LARGE)[7:])
    assert (media.data_base64, media.size_bytes) == (None, len(LARGE))
    assert (media.mime_type, media.filename) == ("image/png", "a.png")
    assert result["state"].sizes == [len(LARGE)] * 2
    assert app.media(THREAD, media.file_id) == LARGE
    assert len(app.messages(THREAD)) == 2


def test_what_a_node_returns_is_kept_too_wherever_it_stands(store: Store) -> None:
    def make(state: Album) -> dict[str, Any]:
        url = f"data:image/gif;base64,{base64.b64encode(LARGE + b'4').decode()}"
        video = VideoBlock(media=inline(LARGE + b"1"), thumbnail=inline(LARGE + b"2"))
        blocks: list[ContentBlock] = [
            video,
            DataBlock(mime_type="text/csv", data_base64=base64.b64encode(LARGE + b"3").decode()),
            ImageBlock(media=MediaRef(url=url)),
            ImageBlock(media=inline(SMALL)),
            ImageBlock(media=MediaRef(url="https://example.org/" + "a" * 100_000)),
        ]
        message = Message(role="assistant", content=blocks)
        assert video.media.data_base64
        return {"messages": [message], "cover": inline(LARGE)}

    app = compiled(store, make)
    state = app.invoke({"messages": [Message.text_message("Make")]}, THREAD, "full")["state"]

    video, data, by_url, small, elsewhere = state.context[-1].content
    refs = [state.cover, video.media, video.thumbnail, data.media, by_url.media]
    assert [app.media(THREAD, ref.file_id) for ref in refs] == [LARGE + part for part in (b"", b"1", b"2", b"3", b"4")]
    assert (data.data_base64, data.media.mime_type, by_url.media.mime_type) == (None, "text/csv", "image/gif")
    assert (small.media.kind, elsewhere.media.kind) == ("data", "url")


def test_a_model_is_sent_the_data(store: Store) -> None:
    sent: list[bytes] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        parts = [part for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
        sent.extend(item.data for part in parts for item in part.content if isinstance(item, BinaryContent))
        return ModelResponse(parts=[TextPart("I see")])

    app = compiled(store, Agent(FunctionModel(answer)))
    app.invoke({"messages": [image(LARGE), image(SMALL)]}, THREAD)

    assert sent == [LARGE, SMALL]
    assert app.get_state(THREAD).state.context[0].content[1].media.kind == "file_id"


def test_a_deleted_thread_leaves_no_media(store: Store) -> None:
    app = compiled(store, lambda state: "fine")
    app.invoke({"messages": [image(LARGE)]}, THREAD)
    assert store.delete_thread("t")

    assert store.media("t", media_id(LARGE)) is None
    if isinstance(store, RedisStore):
        assert [key for key in store._scripts.client.keys("*") if b"{t}" in key] == []


def test_who_asks_for_what_is_not_there_is_told_so(store: Store) -> None:
    def ask(state: Album) -> str:
        for wrong in (
            "sha256:00",
            MediaRef(url="https://example.org/a.png"),
            MediaRef(kind="file_id", file_id="file-1"),
        ):
            with pytest.raises(InvalidInputError, match="NO_MEDIA"):
                load_media(wrong)
        return "told"

    app = compiled(store, ask)
    assert app.invoke({"messages": [image(LARGE)]}, THREAD)["messages"][-1].text() == "told"
    for wrong in ("sha256:00", "nonsense", "", None):
        with pytest.raises(InvalidInputError, match="keeps no media"):
            app.media(THREAD, wrong)  # type: ignore[arg-type]
    with pytest.raises(ThreadOwnerError):
        app.media({**THREAD, "user_id": "eve"}, media_id(LARGE))
    with pytest.raises(GraphError, match="NO_TASK"):
        load_media("sha256:00")


def test_what_only_looks_like_media_is_left_alone() -> None:
    text = "x" * 100_000
    kept: dict[str, bytes] = {}
    update = EncodedUpdate(
        {
            "value": b'{"kind":"data","data_base64":"%s"}' % text.encode(),
            "items": (image(LARGE).model_dump_json().replace(inline(LARGE).data_base64 or "", "!" * 100_000).encode(),),
            "large": b'{"number":123456789012345678901234567890,"text":"%s"}' % text.encode(),
        }
    )

    assert move_media(update, 65_536, kept.__setitem__) == update
    assert kept == {}


def test_the_size_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENXGRAPH_INLINE_MEDIA_BYTES", "4")
    app = compiled(MemoryStore(), lambda state: "fine")
    app.invoke({"messages": [image(SMALL)]}, THREAD)

    assert app.media(THREAD, media_id(SMALL)) == SMALL

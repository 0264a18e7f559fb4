"""Media that lie in the store: a message names them by their content, and carries their data no more."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.core.state.blocks import DataBlock
from tenxgraph.core.state.codec import Encoded, EncodedUpdate
from tenxgraph.core.state.media import MediaRef
from tenxgraph.core.state.message import Message

Keep = Callable[[str, bytes], object]
"""Takes data under its id."""

PREFIX: Final = "sha256:"
_DATA_URL: Final = "data:"
_REF_FIELDS: Final = frozenset(MediaRef.model_fields)


def media_id(data: bytes) -> str:
    """Return the id under which a store keeps data: ``sha256:`` and the digest in hex."""
    return PREFIX + hashlib.sha256(data).hexdigest()


def is_kept(media: MediaRef | None) -> bool:
    """Tell whether a reference names media in the store, and not a provider's file."""
    return media is not None and media.kind == "file_id" and (media.file_id or "").startswith(PREFIX)


def move_media(update: EncodedUpdate, limit: int, keep: Keep) -> EncodedUpdate:
    """Return an update with references in the place of inline data.

    Args:
        update: Of a task, or what came as input.
        limit: Data of more bytes go; what is smaller stays inline.
        keep: Is given the data first.
    """
    if all(len(each) <= limit for value in update.fields.values() for each in _parts(value)):
        return update  # nearly always, and found without a look inside
    return EncodedUpdate({name: _moved(value, limit, keep) for name, value in update.fields.items()})


def _parts(value: Encoded) -> tuple[bytes, ...]:
    return (value,) if isinstance(value, bytes) else value


def _moved(value: Encoded, limit: int, keep: Keep) -> Encoded:
    if isinstance(value, bytes):
        return _moved_document(value, limit, keep)
    return tuple([_moved_document(item, limit, keep) for item in value])


def _moved_document(document: bytes, limit: int, keep: Keep) -> bytes:
    if len(document) <= limit:
        return document
    data = from_json(document)
    found = [_move(each, limit, keep) for each in _dicts(data)]
    return to_json(data, inf_nan_mode="constants") if any(found) else document


def _dicts(data: Any) -> Iterator[dict[str, Any]]:
    if isinstance(data, dict):
        yield data
        data = list(data.values())
    if isinstance(data, list):
        for each in data:
            yield from _dicts(each)


def _move(data: dict[str, Any], limit: int, keep: Keep) -> bool:
    """Move what a reference or a data block of the JSON holds, if it holds that much."""
    is_reference = data.keys() >= _REF_FIELDS
    if not is_reference and not (data.get("type") == "data" and data.get("data_base64") and "mime_type" in data):
        return False
    content = _content(data, limit)
    if content is None:
        return False
    file_id = media_id(content)
    keep(file_id, content)
    sha256 = file_id.removeprefix(PREFIX)
    named: dict[str, Any] = {"kind": "file_id", "file_id": file_id, "size_bytes": len(content), "sha256": sha256}
    if is_reference:
        data.update(named, data_base64=None, url=None, mime_type=data["mime_type"] or _type_of(data["url"]))
    else:
        data.update(data_base64=None, media=MediaRef(mime_type=data["mime_type"], **named).model_dump(mode="json"))
    return True


def _content(data: dict[str, Any], limit: int) -> bytes | None:
    text = data["data_base64"]
    url = data.get("url")
    if text is None and isinstance(url, str) and url.startswith(_DATA_URL):
        head, _, body = url.partition(",")
        text = body if head.endswith(";base64") else None
    if not isinstance(text, str) or len(text) * 3 // 4 <= limit:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:  # what is no base64 is not ours to judge: it stays as it is
        return None


def _type_of(url: str | None) -> str | None:
    if url is None or not url.startswith(_DATA_URL):
        return None
    return url.removeprefix(_DATA_URL).partition(";")[0] or None


def with_data(messages: Sequence[Message], load: Callable[[str], bytes]) -> list[Message]:
    """Return messages that carry the data of kept media inline, for a model; the others are the same objects."""
    return [_with_data(message, load) if refers_to_kept(message) else message for message in messages]


def refers_to_kept(message: Message) -> bool:
    """Tell whether a message names media in the store."""
    return any(True for _ in _kept_in(message))


def _with_data(message: Message, load: Callable[[str], bytes]) -> Message:
    message = message.model_copy(deep=True)
    for media in list(_kept_in(message)):
        media.data_base64 = base64.b64encode(load(media.file_id or "")).decode("ascii")
        media.kind, media.file_id = "data", None
    return message


def _kept_in(message: Message) -> Iterator[MediaRef]:
    for block in message.content:
        for media in _refs(block):
            if is_kept(media):
                yield media


def _refs(block: BaseModel) -> Iterator[MediaRef]:
    for name in type(block).model_fields:
        value = getattr(block, name)
        if isinstance(value, MediaRef):
            yield value


def data_of(media: MediaRef | DataBlock | str, load: Callable[[str], bytes]) -> bytes:
    """Return the bytes of media that lie in the store or in the reference itself.

    Raises:
        InvalidInputError: They lie elsewhere.
    """
    if isinstance(media, str):
        return load(media)
    if media.data_base64 is not None:
        return base64.b64decode(media.data_base64)
    ref = media.media if isinstance(media, DataBlock) else media
    if ref is not None and ref.data_base64 is not None:
        return base64.b64decode(ref.data_base64)
    if ref is None or not is_kept(ref):
        place = "nowhere" if ref is None else repr(ref.url or ref.file_id)
        raise InvalidInputError(
            f"This store does not hold the data: the reference leads to {place}. Load it from there.",
            error_code="NO_MEDIA",
        )
    return load(ref.file_id or "")


def no_media(thread_id: str, file_id: object) -> InvalidInputError:
    """The error of who asks a thread for what it does not keep."""
    return InvalidInputError(
        f"Thread {thread_id!r} keeps no media {file_id!r}: take the file_id of a MediaRef of this thread, "
        f"which begins with {PREFIX!r}.",
        error_code="NO_MEDIA",
        context={"thread_id": thread_id, "file_id": file_id},
    )

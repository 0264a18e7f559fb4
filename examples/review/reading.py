"""Turn the bytes of a document into text."""

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 1024 * 1024

_CONTROL = bytes(set(range(32)) - set(b"\t\n\v\f\r\b\x1b"))
_MAX_CONTROL_SHARE = 0.02

_FENCE = re.compile(r"^(`{3,}|~{3,}).*?(?:^\1|\Z)", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_TABLE_ROW = re.compile(r"^[ \t]*\|.*$", re.MULTILINE)
_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)")
_HEADING = re.compile(r"^#{1,6}[ \t]+(.*)$", re.MULTILINE)
_ITEM = re.compile(r"^[ \t]*(?:[-*+]|\d+[.)])[ \t]+", re.MULTILINE)
_MARKS = re.compile(r"[*`]|^[ \t]*>[ \t]?", re.MULTILINE)


class NotTextError(Exception):
    """What was read is no text; the message says what it is."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text, and how its bytes were read where that was a guess."""

    text: str
    note: str = ""


def read_document(path: Path, name: str) -> Text:
    """Read a file.

    Args:
        path: Where it is.
        name: What it is called; the markup of ``.md`` files is taken off.

    Raises:
        NotTextError: It is empty, binary, or larger than ``MAX_BYTES``.
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise NotTextError(f"larger than {MAX_BYTES // 1024:,} KiB")
    text = decode(data)
    return Text(strip_markdown(text.text), text.note) if name.lower().endswith((".md", ".markdown")) else text


def decode(data: bytes) -> Text:
    """Decode UTF-8, UTF-16 with a byte order mark, or else Windows-1252.

    Raises:
        NotTextError: There is nothing, or nothing readable.
    """
    if not data.strip():
        raise NotTextError("empty")
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return _decoded(data.decode("utf-16", errors="replace"), "UTF-16")
    if b"\0" in data or len(data) - len(data.translate(None, _CONTROL)) > _MAX_CONTROL_SHARE * len(data):
        raise NotTextError("binary")
    try:
        return _decoded(data.removeprefix(BOM_UTF8).decode())
    except UnicodeDecodeError:
        return _decoded(data.decode("cp1252", errors="replace"), "not UTF-8, read as Windows-1252")


def _decoded(text: str, note: str = "") -> Text:
    return Text("\n".join(text.splitlines()), note)


def strip_markdown(text: str) -> str:
    """Leave the prose of a Markdown text: no code blocks, tables, comments, link targets and marks."""
    for pattern in (_FENCE, _COMMENT, _TABLE_ROW):
        text = pattern.sub("", text)
    text = _ITEM.sub("\n", _HEADING.sub(r"\n\1\n", text))
    return _MARKS.sub("", _LINK.sub(r"\1", text))

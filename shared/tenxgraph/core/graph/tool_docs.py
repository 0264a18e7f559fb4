"""What a tool's docstring says: about the tool, and about each argument. Google, NumPy and Sphinx styles."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Final

_ARGUMENTS: Final = frozenset({"args", "arguments", "parameters", "params", "keyword args", "keyword arguments"})
_SECTIONS: Final = _ARGUMENTS | {
    "attributes", "example", "examples", "note", "notes", "raises", "references", "returns", "return", "see also",
    "warning", "warnings", "yields", "yield",
}  # fmt: skip
_GOOGLE_ARGUMENT: Final = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_NUMPY_ARGUMENT: Final = re.compile(r"^\*{0,2}(\w+)\s*(?::.*)?$")
_SPHINX_FIELD: Final = re.compile(r"^:(\w+)(?:\s+([^:]*))?:\s*(.*)$")


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Return the description of a tool and the descriptions of its arguments by name."""
    lines = inspect.cleandoc(text or "").splitlines()
    head: list[str] = []
    arguments: dict[str, str] = {}
    for title, body in _sections(lines):
        if title is None:
            head += _without_fields(body, arguments)
        elif title in _ARGUMENTS:
            arguments.update(_described(body))
    return "\n".join(head).strip(), arguments


def _sections(lines: list[str]) -> Iterator[tuple[str | None, list[str]]]:
    title: str | None = None
    body: list[str] = []
    for line, following in zip_longest(lines, lines[1:], fillvalue=""):
        found = _title(line, following)
        if found is None:
            body.append(line)
            continue
        yield title, body
        title, body = found, []
    yield title, body


def _title(line: str, following: str) -> str | None:
    if line[:1].isspace():
        return None
    is_underlined = bool(following.strip()) and set(following.strip()) == {"-"}
    name = line.strip().removesuffix(":").lower()
    return name if name in _SECTIONS and (line.rstrip().endswith(":") or is_underlined) else None


def _described(body: list[str]) -> dict[str, str]:
    underlined = bool(body) and bool(body[0].strip()) and set(body[0].strip()) == {"-"}
    pattern = _NUMPY_ARGUMENT if underlined else _GOOGLE_ARGUMENT
    lines = inspect.cleandoc("\n".join(["", *body[underlined:]])).splitlines()
    found: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        match = None if line[:1].isspace() else pattern.match(line)
        if match is not None:
            name = match[1]
            found[name] = [match[2]] if pattern is _GOOGLE_ARGUMENT else []
        elif name:
            found[name].append(line.strip())
    return {name: " ".join(filter(None, parts)) for name, parts in found.items()}


def _without_fields(lines: list[str], arguments: dict[str, str]) -> list[str]:
    """Take Sphinx fields (``:param city: …``) out of the text and note the arguments."""
    kept: list[str] = []
    name: str | None = None
    in_field = False
    for line in lines:
        match = _SPHINX_FIELD.match(line)
        if match is not None:
            in_field = True
            name = (match[2] or "").split()[-1] if match[1] in ("param", "parameter", "arg") and match[2] else None
            if name is not None:
                arguments[name] = match[3]
        elif in_field and line[:1].isspace():
            if name is not None:
                arguments[name] = f"{arguments[name]} {line.strip()}"
        else:
            in_field = False
            kept.append(line)
    return kept

"""The pages of the specification, read from beside the checkout."""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

SPEC_FOLDER: Final = Path(__file__).resolve().parents[2] / "shared" / "spec"

_FENCE: Final = re.compile(
    r"^(?P<indent>[ \t]*)```(?:python|py)\b(?P<info>[^\n]*)\n(?P<code>.*?)^(?P=indent)```[ \t]*$",
    re.DOTALL | re.MULTILINE,
)
_TITLE: Final = re.compile(r"""title=["']([^"']+)["']""")


class Snippet(NamedTuple):
    """A fenced Python block: its page, its number there from 1, its code without indentation, its title if any."""

    page: str
    number: int
    code: str
    title: str | None


def pages() -> list[Path]:
    """Return the pages, sorted by name; empty where the folder is missing."""
    return sorted(SPEC_FOLDER.glob("*.txt"))


def snippets_of(page: str, text: str) -> Iterator[Snippet]:
    """Yield the fenced Python blocks of a text."""
    for number, match in enumerate(_FENCE.finditer(text), start=1):
        code = textwrap.dedent(match["code"])
        title = _TITLE.search(match["info"]) or _TITLE.search(code.partition("\n")[0])
        yield Snippet(page, number, code, title[1] if title else None)


def snippets() -> Iterator[Snippet]:
    """Yield the fenced Python blocks of all pages."""
    for path in pages():
        yield from snippets_of(path.name, path.read_text(encoding="utf-8"))

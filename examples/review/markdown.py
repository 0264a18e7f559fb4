"""Small pieces of Markdown."""

import re
from collections.abc import Iterable, Sequence

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~&])")


def on_one_line(text: str) -> str:
    """Return ``text`` with a space for each run of blanks and of what cannot be printed."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def escape(text: str) -> str:
    """Return ``text`` on one line, so that a reader of Markdown shows it as it is."""
    return _SPECIAL.sub(r"\\\1", on_one_line(text))


def shorten(text: str, limit: int) -> str:
    """Cut ``text`` after the last whole word within ``limit`` characters."""
    if len(text) <= limit:
        return text
    head = text[:limit].rsplit(" ", 1)[0]
    return f"{head.rstrip(' ,;:')} …"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> str:
    """Return a table; cells are Markdown already.

    Args:
        header: Titles of the columns.
        rows: Cells of each row.
        right: Columns to align at the right, counted from 0.
    """
    aligned = set(right)
    rule = ["--:" if at in aligned else "---" for at in range(len(header))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))

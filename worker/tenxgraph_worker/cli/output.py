"""What a command prints: JSON for programs, tables for people."""

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

_END_OF_TIME_MS = 10**14

Row = Mapping[str, Any]


def print_json(data: Any) -> None:
    """Print one JSON document."""
    print(json.dumps(data, default=str, ensure_ascii=False, indent=2))


def print_rows(rows: Sequence[Row], columns: Mapping[str, str], *, as_json: bool, empty: str) -> None:
    """Print records of one kind.

    Args:
        rows: JSON-able, all keys.
        columns: Key → heading, of what people see.
        as_json: Print a JSON list of the whole rows instead.
        empty: The sentence when there is none.
    """
    if as_json:
        print_json(rows)
    elif rows:
        _print_table(rows, columns)
    else:
        print(empty)


def _print_table(rows: Sequence[Row], columns: Mapping[str, str]) -> None:
    cells = [[as_text(row.get(key)) for key in columns] for row in rows]
    if not sys.stdout.isatty():
        # For the next program in a pipe: a line a record, a tab between fields.
        for line in ([*columns.values()], *cells):
            print("\t".join(" ".join(cell.split()) for cell in line))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns.values(), box=box.SIMPLE_HEAD, pad_edge=False)
    for line in cells:
        table.add_row(*map(Text, line))
    Console(highlight=False).print(table)


def print_record(record: Row, *, as_json: bool) -> None:
    """Print one record, a key a line; what is empty is left out for people."""
    if as_json:
        print_json(record)
        return
    shown = {key.replace("_", " "): value for key, value in record.items() if value not in (None, "", [], {})}
    width = max(map(len, shown), default=0)
    for key, value in shown.items():
        lines = value if isinstance(value, list) else [value]
        for at, line in enumerate(lines):
            print(f"{'' if at else key:{width}}  {as_text(line)}")


def as_text(value: Any) -> str:
    """Return a value as people read it."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, default=str, ensure_ascii=False)


def iso_time(ms: int) -> str | None:
    """Return a moment, given in milliseconds since the epoch, in ISO form; None for 0 and for the end of time."""
    if not 0 < ms < _END_OF_TIME_MS:
        return None
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")

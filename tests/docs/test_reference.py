"""The reference pages list what the code has, and links lead somewhere."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Final

import pytest
from pydantic_core import to_json

from tenxgraph.core import exceptions
from tenxgraph.core.graph import RunStatus
from tenxgraph.core.graph.multitask import VERDICTS, MultitaskStrategy, Occupancy, Verdict
from tenxgraph.core.graph.run_status import MOVES
from tenxgraph.core.state import StreamEvent
from tenxgraph.settings import ENV_PREFIX, Settings
from tenxgraph.utils.tool import ToolMark

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
REFERENCE: Final = ROOT / "docs" / "reference"
GLOSSARY: Final = (
    "thread", "run", "step", "task", "attempt", "claim", "lease", "commit", "advance", "dispatch", "version",
    "checkpoint", "interrupt", "stop", "cancel", "effect", "reservation", "journal", "idempotency key",
    "multitask strategy",
)  # fmt: skip


def rows(page: str) -> dict[str, str]:
    """Return the table rows of a reference page whose first cell is a single code word: that word to the row."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    return {match[1]: match[0] for match in re.finditer(r"^\| `(\w+)` \|.*$", text, re.MULTILINE)}


def test_the_settings_page_lists_every_variable_with_its_default() -> None:
    listed = rows("settings.md")

    assert set(listed) == {f"{ENV_PREFIX}{name.upper()}" for name in Settings.model_fields}
    for name, field in Settings.model_fields.items():
        default = "none" if field.default is None else to_json(field.default).decode().strip('"')
        assert f"| `{default}` |" in listed[f"{ENV_PREFIX}{name.upper()}"]


def test_the_errors_page_lists_every_error_with_its_code() -> None:
    errors = {
        name: value.default_code
        for name, value in vars(exceptions).items()
        if isinstance(value, type) and issubclass(value, exceptions.TenxGraphError)
    }
    listed = rows("errors.md")

    assert set(listed) == set(errors)
    assert all(f"`{code}`" in listed[name] for name, code in errors.items())


def test_the_statuses_page_lists_every_status_of_a_run() -> None:
    assert set(RunStatus) <= set(rows("statuses.md"))


def test_the_tools_page_lists_what_a_tool_is_marked_with_and_what_it_is_given() -> None:
    marks = {field.name for field in fields(ToolMark)}
    given = {"state", "config", "tool_call_id", "emit"}

    assert set(rows("tools.md")) == marks | given


def test_the_events_page_lists_every_event() -> None:
    assert set(rows("events.md")) == set(StreamEvent)


def cells(page: str, width: int) -> list[list[str]]:
    """Return the rows of a reference page's tables of that many cells that begin with a code word."""
    lines = (REFERENCE / page).read_text(encoding="utf-8").splitlines()
    found = [line[2:-2].split(" | ") for line in lines if line.startswith("| `")]
    return [[cell.replace("`", "") for cell in row] for row in found if len(row) == width]


def test_the_statuses_page_lists_every_move() -> None:
    listed = {before: set(after.split(", ")) for before, after in cells("statuses.md", 2)}

    assert listed == {str(before): set(map(str, after)) or {"nothing"} for before, after in MOVES.items()}


def test_the_multitask_page_has_the_table_of_the_code() -> None:
    table = {
        (given, occupancy, strategy): verdict
        for given, occupancy, *verdicts in cells("multitask.md", 2 + len(MultitaskStrategy))
        for strategy, verdict in zip(MultitaskStrategy, verdicts, strict=True)
    }

    assert table == VERDICTS


def test_the_multitask_page_explains_every_word_of_its_table() -> None:
    assert {*Verdict, *Occupancy} <= set(rows("multitask.md"))


@pytest.mark.parametrize("word", GLOSSARY)
def test_the_glossary_explains(word: str) -> None:
    assert f"\n## {word}\n" in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").lower()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))

    assert [target for target in targets if not (page.parent / target).exists()] == []

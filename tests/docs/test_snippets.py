"""Every Python block of the README and the documentation runs; the blocks of a page share their names."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
FENCE: Final = "```"


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def python_of(page: Path) -> str:
    """Return the page's Python blocks as one program, each on the lines that it has in the page."""
    lines, inside = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith(FENCE):
            inside = not inside and line == f"{FENCE}python"
            lines.append("")
        else:
            lines.append(line if inside else "")
    return "\n".join(lines)


PAGES: Final = [page for page in pages() if python_of(page).strip()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType(f"page_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(tmp_path)

    exec(compile(python_of(page), str(page), "exec"), vars(module))


def test_the_readme_shows_python() -> None:
    assert ROOT / "README.md" in PAGES

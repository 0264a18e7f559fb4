"""The reference page lists what the command has, and no more."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from tenxgraph_worker.cli.main import make_app

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")


def verbs(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """All that can be called, by its words."""
    below = getattr(command, "commands", {})
    if not below:
        yield name, command
    for word, child in below.items():
        yield from verbs(child, f"{name} {word}")


COMMANDS = dict(verbs(typer.main.get_command(make_app()), "tenxgraph"))


def test_every_command_is_listed() -> None:
    listed = re.findall(r"^\| `(tenxgraph [a-z ]*[a-z])", PAGE, re.MULTILINE)

    assert sorted(listed) == sorted(COMMANDS)


def test_every_option_is_listed() -> None:
    listed = set(re.findall(r"`(--?[a-zA-Z-]+)`", PAGE.split("## Options")[1].split("## Input")[0]))
    known = {word for command in COMMANDS.values() for option in command.params for word in option.opts}
    options = {word for word in known if word.startswith("-")} | {"--version", "--debug"}

    assert listed == options - {"--help"}

"""What people type as a graph's input."""

import json
from pathlib import Path
from typing import Any

from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.core.state import Message


def read_input(text: str) -> dict[str, Any]:
    """Return the input of a run.

    Args:
        text: A message; a JSON object with ``messages``, ``state`` or ``resume``; or ``@FILE`` with one of these.

    Raises:
        InvalidInputError: ``INPUT_FILE`` the file is not there; ``INPUT_JSON`` the JSON is broken.
    """
    place, content = ("the input", text) if not text.startswith("@") else _file(text[1:])
    if content.lstrip().startswith("{") or place.endswith(".json"):
        return _from_json(content, place)
    if not content.strip():
        raise InvalidInputError(f"There is nothing in {place}: give a message.", error_code="INPUT_EMPTY")
    return {"messages": [Message.text_message(content)]}


def _file(name: str) -> tuple[str, str]:
    path = Path(name)
    try:
        return f"file {name}", path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = "it is no text in UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise InvalidInputError(
            f"The input file {name!r} cannot be read ({reason}), looked for in {Path.cwd()}.",
            error_code="INPUT_FILE",
            context={"file": name},
        ) from error


def _from_json(content: str, place: str) -> dict[str, Any]:
    try:
        read = json.loads(content)
    except ValueError as error:
        raise InvalidInputError(f"The JSON in {place} is broken: {error}.", error_code="INPUT_JSON") from error
    if not isinstance(read, dict):
        raise InvalidInputError(
            f'The JSON in {place} is no object: write {{"messages": [...], "state": {{...}}}}.', error_code="INPUT_JSON"
        )
    if isinstance(read.get("messages"), list):
        read["messages"] = [Message.text_message(item) if isinstance(item, str) else item for item in read["messages"]]
    return read

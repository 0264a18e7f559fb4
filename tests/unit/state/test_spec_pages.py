"""Code written from the specification's pages runs unchanged: what needs no graph."""

import re
import subprocess
import sys
import typing
from typing import Any, Final

import pydantic
import pytest

from tenxgraph.core import state as public
from tests.spec_pages import SPEC_FOLDER, Snippet, snippets, snippets_of

NEEDS_A_GRAPH: Final = re.compile(r"StateGraph|core\.graph|core import Agent|\bapp\.|await ")
IMPORT: Final = re.compile(r"^from tenxgraph\.(?:core\.state|utils)\S* import (?:\([^)]*\)|[^\n(]+)$", re.MULTILINE)

SNIPPETS: Final = list(snippets())
PLAIN: Final = [snippet for snippet in SNIPPETS if not NEEDS_A_GRAPH.search(snippet.code)]

pytestmark = pytest.mark.skipif(not SPEC_FOLDER.is_dir(), reason="the pages are not beside this checkout")


class Finding(pydantic.BaseModel):
    id: str


def around() -> dict[str, Any]:
    """Return what the prose around a snippet has already introduced."""
    names = {name: getattr(public, name) for name in public.__all__}
    return {
        **{name: getattr(typing, name) for name in ("Any", "Annotated", "Literal")},
        "BaseModel": pydantic.BaseModel,
        "Field": pydantic.Field,
        "Sequence": typing.Sequence,
        "pydantic": pydantic,
        **names,
        "OrderState": type("OrderState", (public.AgentState,), {"__module__": __name__}),
        "START": "__start__",
        "Finding": Finding,
        "state": public.AgentState(),
        "name": "NODE",
        "msg": public.Message.text_message("Hello!"),
    }


@pytest.mark.parametrize("snippet", PLAIN, ids=lambda s: f"{s.page}-{s.number}")
def test_a_snippet_that_needs_no_graph_runs(snippet: Snippet) -> None:
    exec(compile(snippet.code, f"{snippet.page}:{snippet.number}", "exec", dont_inherit=True), around())


def test_the_pages_have_the_snippets_that_this_module_is_about() -> None:
    assert len(SNIPPETS) >= 20
    assert len(PLAIN) >= 15


def test_every_import_line_of_state_and_utils_runs() -> None:
    lines = {match[0] for snippet in SNIPPETS for match in IMPORT.finditer(snippet.code)}
    assert len(lines) >= 8
    for line in sorted(lines):
        exec(line, {})


def test_the_transcript_of_the_page_is_a_whole_conversation() -> None:
    (code,) = [s.code for s in SNIPPETS if "Cloudy, 18C" in s.code]
    transcript = eval(code, around())
    assert [m.role for m in transcript] == ["user", "assistant", "user", "assistant", "tool", "assistant"]
    assert [m.role for m in public.remove_tool_messages(transcript)] == ["user", "assistant", "user", "assistant"]


def test_the_page_and_the_reducer_agree() -> None:
    (code,) = [s.code for s in SNIPPETS if s.code.startswith("def add_messages")]
    scope = around()
    exec(code, scope)
    old, new = public.Message.text_message("a"), public.Message.text_message("b")
    left, right = [old], [old, new, public.Message(role="assistant", content=[], delta=True)]
    assert scope["add_messages"](left, right) == public.add_messages(left, right) == [old, new]


def test_fences_are_read_with_indentation_and_title() -> None:
    titled, indented = '```python\n# title="a.py"\nx = 1\n```\n', '  ```python title="b.py"\n  y = 2\n  ```\n'
    page = f"# P\n\n{titled}- item\n{indented}```lua\nz\n```\n"
    assert list(snippets_of("p", page)) == [
        Snippet("p", 1, '# title="a.py"\nx = 1\n', "a.py"),
        Snippet("p", 2, "y = 2\n", "b.py"),
    ]


def test_importing_the_state_loads_no_store_no_broker_and_no_model_library() -> None:
    code = (
        "import sys, tenxgraph.core.state, tenxgraph.utils.constants;"
        "print([m for m in ('redis', 'celery', 'kombu', 'pydantic_ai', 'openai') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_names_of_utils_are_functions_also_after_their_modules_were_imported() -> None:
    code = (
        "import tenxgraph.utils.interrupt, tenxgraph.utils.emit\n"
        "from tenxgraph.utils import *\nfrom tenxgraph import utils\n"
        "assert callable(interrupt) and callable(emit) and callable(Command) and START == utils.START\n"
        "assert set(utils.__all__) <= set(dir(utils))"
    )
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)

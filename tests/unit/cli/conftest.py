"""A folder of its own for each test, from which graphs can be imported."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tenxgraph_worker.cli.main import main

Call = Callable[..., tuple[int, str, str]]

GRAPH = """
from tenxgraph import AgentState, Message, StateGraph
from tenxgraph.utils import interrupt


def hello(state: AgentState) -> str:
    return "Hello " + state.context[-1].text()


def ask(state: AgentState) -> str:
    return f"You said {interrupt('Sure?')}"


def fail(state: AgentState) -> str:
    raise RuntimeError("it broke")


def make(name, node):
    return StateGraph(name=name).add_node(node).set_entry_point(node.__name__)


app = make("hello", hello).compile()
asks = make("asks", ask).compile()
fails = make("fails", fail).compile()
builder = make("builder", hello)
rival = make("hello", ask).compile()
number = 7
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with a module ``shop`` of graphs."""
    (tmp_path / "shop.py").write_text(GRAPH)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def call(folder: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Call the command in this process; returns exit code, stdout and stderr."""

    def run(*args: str) -> tuple[int, str, str]:
        code = main(args)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run

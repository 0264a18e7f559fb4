"""What people get wrong: one sentence that says what to do next, nothing written, an exit code that is not 0."""

import json
from pathlib import Path

import pytest

from tenxgraph.core.exceptions import InvalidInputError
from tests.servers import free_port
from tests.unit.cli.conftest import Call

GRAPHS = [
    pytest.param("shop", "is not MODULE:ATTR: write the module, a colon", id="no colon"),
    pytest.param("./shop.py:app", "is not MODULE:ATTR: try shop:app", id="a path"),
    pytest.param("shop:", "is not MODULE:ATTR", id="no attribute"),
    pytest.param(":app", "is not MODULE:ATTR", id="no module"),
    pytest.param("nowhere:app", "names a module 'nowhere' that is neither in", id="no such module"),
    pytest.param("shop.deep:app", "names a module 'shop.deep' that is neither in", id="no such submodule"),
    pytest.param("shop:nope", "does not have; its graphs are app, asks, builder, fails, rival", id="no such attribute"),
    pytest.param("shop:number", "is a int, not a graph: name what StateGraph.compile() returned", id="not a graph"),
    pytest.param("broken:app", "cannot be imported, broken raises ZeroDivisionError: division by zero", id="raises"),
    pytest.param("typo:app", "cannot be imported, typo raises SyntaxError", id="syntax error"),
    pytest.param(
        "needs:app", "needs raises ModuleNotFoundError: No module named 'missing_package'", id="lacks a package"
    ),
    pytest.param("script:app", "cannot be imported, script raises SystemExit: 3", id="a script that exits"),
]
COMMANDS = [("graph", "draw", "{}"), ("run", "{}", "Hi"), ("worker", "{}"), ("dev", "{}")]


@pytest.fixture(autouse=True)
def _modules(folder: Path) -> None:
    (folder / "broken.py").write_text("app = 1 / 0\n")
    (folder / "typo.py").write_text("app = (\n")
    (folder / "needs.py").write_text("import missing_package\n")
    (folder / "script.py").write_text("import sys\nsys.exit(3)\n")


def is_one_sentence(err: str) -> bool:
    return err.startswith("tenxgraph: ") and err.count("\n") == 1 and err.rstrip().endswith((".", "--help'."))


@pytest.mark.parametrize(("reference", "said"), GRAPHS)
def test_a_reference_that_leads_to_no_graph_is_explained(call: Call, reference: str, said: str) -> None:
    code, out, err = call("graph", "draw", reference)

    assert (code, out) == (2, "")
    assert said in err
    assert is_one_sentence(err)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_each_command_refuses_a_graph_that_is_none_and_writes_nothing(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    before = sorted(folder.iterdir())
    in_process = ["--in-process"] if command[0] == "run" else []

    code, _, err = call(*(word.format("nowhere:app") for word in command), *in_process)

    assert code == 2
    assert is_one_sentence(err)
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("command", ["worker", "dev"])
def test_a_worker_needs_a_graph(call: Call, command: str) -> None:
    code, _, err = call(command)

    assert code == 2
    assert "at least one graph" in err
    assert is_one_sentence(err)


@pytest.mark.parametrize("command", ["worker", "dev"])
def test_two_graphs_of_one_name_are_refused(call: Call, command: str) -> None:
    code, _, err = call(command, "shop:app", "shop:rival")

    assert code == 2
    assert "Two different graphs are named 'hello'" in err
    assert is_one_sentence(err)


@pytest.mark.parametrize("command", ["worker", "dev"])
def test_an_unknown_pool_is_refused_with_the_known_ones(call: Call, command: str) -> None:
    code, _, err = call(command, "shop:app", "--pool", "gevent")

    assert code == 2
    assert "prefork, threads, solo" in err


INPUTS = [
    pytest.param('{"messages": [', "The JSON in the input is broken: ", id="broken JSON"),
    pytest.param("@nope.txt", "The input file 'nope.txt' cannot be read (No such file or directory)", id="no file"),
    pytest.param("@.", "The input file '.' cannot be read (Is a directory)", id="a folder"),
    pytest.param("@broken.json", "The JSON in file broken.json is broken: ", id="broken JSON in a file"),
    pytest.param("@list.json", "The JSON in file list.json is no object", id="a list in a file"),
    pytest.param("@latin.txt", "it is no text in UTF-8", id="not UTF-8"),
    pytest.param("  ", "There is nothing in the input", id="empty"),
    pytest.param('{"message": "Hi"}', "unknown keys message", id="unknown key"),
    pytest.param('{"messages": "Hi"}', "messages is a str: pass a list", id="messages is no list"),
]


@pytest.mark.parametrize(("text", "said"), INPUTS)
def test_a_bad_input_is_explained(call: Call, folder: Path, text: str, said: str) -> None:
    (folder / "broken.json").write_text("{")
    (folder / "list.json").write_text("[]")
    (folder / "latin.txt").write_bytes("é".encode("latin-1"))

    code, out, err = call("run", "shop:app", text, "--in-process")

    assert (code, out) == (2, "")
    assert said in err


@pytest.mark.parametrize("command", [("run", "shop:app", "Hi"), ("runs", "ls"), ("threads", "ls"), ("scheduler",)])
def test_without_any_store_the_error_says_how_to_get_one(call: Call, folder: Path, command: tuple[str, ...]) -> None:
    code, _, err = call(*command)

    assert code == 1
    assert "No store is configured: run 'tenxgraph dev MODULE:ATTR' in this folder, or set TENXGRAPH_REDIS_URL" in err
    assert is_one_sentence(err)
    assert not (folder / ".tenxgraph").exists()


def test_a_redis_url_that_is_none_is_named(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENXGRAPH_REDIS_URL", "localhost")

    code, _, err = call("runs", "ls")

    assert code == 2
    assert "Environment variable TENXGRAPH_REDIS_URL: must be a URL like redis://host:6379/0" in err


@pytest.mark.parametrize("command", [("run", "shop:app", "Hi"), ("runs", "ls"), ("scheduler",), ("worker", "shop:app")])
def test_a_redis_that_is_not_there_is_named_with_the_next_move(call: Call, command: tuple[str, ...]) -> None:
    port = free_port()

    code, _, err = call(*command, "--redis-url", f"redis://127.0.0.1:{port}/0")

    assert code == 1
    assert f"No Redis answers at redis://127.0.0.1:{port}/0" in err
    assert "'tenxgraph dev' brings its own" in err


def test_beside_10xgraph_nothing_starts(
    call: Call, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    rival = tmp_path_factory.mktemp("site") / "10xgraph-0.9.1.dist-info"
    rival.mkdir()
    (rival / "METADATA").write_text("Metadata-Version: 2.1\nName: 10xgraph\nVersion: 0.9.1\n")
    monkeypatch.syspath_prepend(str(rival.parent))

    code, out, err = call("--help")

    assert (code, out) == (1, "")
    assert "pip uninstall 10xgraph" in err
    assert is_one_sentence(err)


def test_an_unknown_command_or_option_points_to_the_help(call: Call) -> None:
    assert call("nope")[::2] == (2, "tenxgraph: No such command 'nope'. See 'tenxgraph --help'.\n")
    assert "See 'tenxgraph runs ls --help'" in call("runs", "ls", "--nope")[2]


def test_with_json_an_error_is_json_too(call: Call) -> None:
    code, out, err = call("graph", "draw", "shop:nope", "--json")

    assert (code, out) == (2, "")
    assert json.loads(err)["error"]["error_code"] == "GRAPH_REFERENCE"


def test_with_debug_anywhere_the_traceback_is_raised(call: Call) -> None:
    with pytest.raises(InvalidInputError) as raised:
        call("graph", "draw", "broken:app", "--debug")

    assert isinstance(raised.value.__cause__, ZeroDivisionError)

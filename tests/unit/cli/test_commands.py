"""Commands that need neither store nor workers."""

import json
from pathlib import Path

import pytest

from tenxgraph import __version__
from tests.unit.cli.conftest import Call


def test_the_help_names_every_noun(call: Call) -> None:
    code, out, _ = call("--help")

    assert code == 0
    assert all(noun in out for noun in ("dev", "worker", "scheduler", "flower", "run", "runs", "threads", "graph"))


def test_a_noun_without_a_verb_shows_its_help(call: Call) -> None:
    code, out, err = call("threads")

    assert (code, err) == (2, "")
    assert "history" in out


def test_the_version_is_shown(call: Call) -> None:
    assert call("--version") == (0, f"tenxgraph {__version__}\n", "")


def test_a_graph_is_drawn_as_mermaid(call: Call) -> None:
    code, out, _ = call("graph", "draw", "shop:app")

    assert code == 0
    assert out.startswith("flowchart TD")


def test_a_builder_is_compiled(call: Call) -> None:
    drawn = json.loads(call("graph", "draw", "shop:builder", "--json")[1])

    assert (drawn["name"], drawn["nodes"]) == ("builder", ["hello"])
    assert set(drawn) == {"name", "version", "nodes", "mermaid"}


def test_a_text_is_one_message_of_the_user(call: Call) -> None:
    code, out, err = call("run", "shop:app", "World", "--in-process")

    assert (code, out) == (0, "Hello World\n")
    assert err.startswith("run ")


def test_json_goes_in_and_comes_out(call: Call) -> None:
    given = json.dumps({"messages": ["World"]})

    result = json.loads(call("run", "shop:app", given, "--in-process", "--json", "--thread", "t1")[1])

    assert result["status"] == "completed"
    assert result["thread_id"] == "t1"
    assert result["messages"][-1]["content"][0]["text"] == "Hello World"
    assert set(result) == {"messages", "token_usage", "status", "run_id", "thread_id", "interrupts"}


@pytest.mark.parametrize(("name", "content"), [("in.txt", "World"), ("in.json", '{"messages": ["World"]}')])
def test_a_file_is_read(call: Call, folder: Path, name: str, content: str) -> None:
    (folder / name).write_text(content)

    assert call("run", "shop:app", f"@{name}", "--in-process")[1] == "Hello World\n"


def test_progress_goes_to_stderr_step_by_step(call: Call) -> None:
    _, out, err = call("run", "shop:app", "World", "--in-process", "--stream")

    assert out == "Hello World\n"
    assert "step 1  hello" in err
    assert "is completed" in err


def test_streamed_json_is_a_line_an_event_and_the_result_last(call: Call) -> None:
    lines = [
        json.loads(line)
        for line in call("run", "shop:app", "World", "--in-process", "--stream", "--json")[1].splitlines()
    ]

    assert [line["event"] for line in lines if line["event"].startswith("run_")] == ["run_start", "run_end"]
    assert (lines[-1]["event"], lines[-1]["data"]["status"]) == ("result", "completed")


def test_a_failed_run_has_its_own_exit_code(call: Call) -> None:
    code, out, err = call("run", "shop:fails", "World", "--in-process")

    assert (code, out) == (3, "")
    assert err.endswith("tenxgraph: node 'fail' failed: RuntimeError: it broke\n")


def test_a_run_that_waits_shows_the_question(call: Call) -> None:
    code, out, _ = call("run", "shop:asks", "World", "--in-process")

    assert code == 0
    assert 'waits: ask asks "Sure?"' in out
    assert "tenxgraph runs resume" in out

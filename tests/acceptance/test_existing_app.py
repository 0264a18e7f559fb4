"""Graphs in the workers of an app that was there before."""

import sys
from typing import Any

import pytest
from celery import Celery

from tenxgraph.core.exceptions import GraphError, InvalidInputError
from tenxgraph.core.graph import StateGraph
from tenxgraph.core.state import Message
from tenxgraph.settings import Settings
from tenxgraph_worker import install, make_app
from tests.acceptance import existing_app, graphs
from tests.acceptance.workers import Deployment, Process

pytestmark = pytest.mark.timeout(180)

HELLO = {"messages": [Message.text_message("hello", message_id="m1")]}
_START = "import sys; from celery.__main__ import main; sys.argv = ['celery', *sys.argv[1:]]; main()"


def start(deployment: Deployment, *options: str) -> Process:
    """Start the app's worker as its owner would."""
    app = ("-A", "tests.acceptance.existing_app", "worker", "-l", "INFO", "-n", f"{deployment.queue}@localhost")
    worker = deployment.start("theirs", _START, *app, "--without-gossip", "--without-mingle", *options, is_afresh=True)
    worker.wait_for_log(" ready.")
    return worker


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_one_worker_runs_the_apps_tasks_and_our_graphs(deployment: Deployment, pool: str) -> None:
    start(deployment, "-P", pool, "-c", "2")
    app = existing_app.make()
    app.conf.update(task_default_queue=f"theirs-{deployment.queue}", task_routes={})
    before = [app.send_task("theirs.add", (1j, number)) for number in range(5)]
    states = [graphs.chain.compile().invoke(HELLO, None, "full")["state"] for _ in range(3)]
    pinned = graphs.pinned.compile().invoke(HELLO, None, "full")["state"]
    after = [app.send_task("theirs.add", (2j, number)) for number in range(5)]
    assert [result.get(timeout=30) for result in before] == [1j + number for number in range(5)]
    assert [result.get(timeout=30) for result in after] == [2j + number for number in range(5)]
    assert [state.notes for state in states] == [["n0", "n1", "n2"]] * 3
    assert pinned.notes == ["pinned"]


def test_queues_that_were_named_are_the_only_ones_that_are_served(deployment: Deployment) -> None:
    worker = start(deployment, "-P", "solo", "-Q", f"theirs-{deployment.queue}")
    assert f".> {deployment.queue} " not in worker.log
    assert f".> theirs-{deployment.queue} " in worker.log


def test_installing_changes_no_setting(deployment: Deployment) -> None:
    untouched, joined = existing_app.make(), existing_app.make()
    install(joined, graphs=[graphs.chain])
    assert table(joined) == table(untouched)
    assert set(joined.tasks) - set(untouched.tasks) == {"tenxgraph.step"}


def table(app: Celery) -> dict[str, Any]:
    return dict(app.conf.table(with_defaults=True, censored=False))


# -- what is refused, in one sentence


@pytest.fixture
def _with_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENXGRAPH_REDIS_URL", "redis://127.0.0.1:1/0")


@pytest.mark.usefixtures("_with_redis")
def test_an_app_that_accepts_no_json_is_refused() -> None:
    app = Celery("picky", set_as_current=False)
    app.conf.accept_content = ["pickle"]
    with pytest.raises(InvalidInputError, match=r"'picky' accepts .*'pickle'.* add 'json' to its accept_content"):
        install(app, graphs=[graphs.chain])


def test_a_worker_without_redis_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="No Redis is named: set TENXGRAPH_REDIS_URL"):
        make_app(Settings.load(), [graphs.chain])


@pytest.mark.usefixtures("_with_redis")
def test_a_worker_without_graphs_is_refused() -> None:
    with pytest.raises(GraphError, match="at least one graph"):
        make_app(Settings.load(), [])


@pytest.mark.usefixtures("_with_redis")
def test_two_different_graphs_of_one_name_are_refused() -> None:
    other = StateGraph(name="chain").add_node("other", lambda state: None).set_entry_point("other")
    with pytest.raises(GraphError, match="Two different graphs are named 'chain'"):
        make_app(Settings.load(), [graphs.chain, other])


@pytest.mark.usefixtures("_with_redis")
def test_one_graph_with_and_without_interrupts_is_two() -> None:
    with pytest.raises(GraphError, match="Two different graphs are named 'chain'"):
        make_app(Settings.load(), [graphs.chain, graphs.chain.compile(interrupt_before=["n1"])])


@pytest.mark.usefixtures("_with_redis")
def test_the_same_graph_twice_is_one_graph() -> None:
    app = Celery("twice", set_as_current=False)
    served = install(app, [graphs.chain, "tests.acceptance.graphs:chain", graphs.chain.compile()])
    assert served.names == ("chain",)


@pytest.mark.usefixtures("_with_redis")
@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("graphs", "is no MODULE:ATTR"),
        ("tests.acceptance.graphs:", "is no MODULE:ATTR"),
        ("no_such_module:graph", "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
        ("tests.acceptance.graphs:nothing", "has no 'nothing'"),
        ("tests.acceptance.graphs:note", "is a function, not a graph"),
    ],
)
def test_what_is_no_graph_is_refused(place: str, sentence: str) -> None:
    with pytest.raises(GraphError, match=sentence) as refused:
        make_app(Settings.load(), [place])
    assert place in str(refused.value)


@pytest.mark.usefixtures("_with_redis")
def test_a_graph_is_found_in_the_current_folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here_only.py").write_text(
        "from tenxgraph import StateGraph\n"
        "graph = StateGraph(name='here').add_node('a', lambda state: None).set_entry_point('a')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    served = install(Celery("here", set_as_current=False), ["here_only:graph"])
    assert served.names == ("here",)

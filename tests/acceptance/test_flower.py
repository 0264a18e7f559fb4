"""Flower over HTTP: tasks go by graph/node, show short arguments, and a thread's are found by the search."""

import ast
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from tenxgraph.core.graph import StateGraph
from tenxgraph.core.state import AgentState, Message
from tenxgraph_worker.crew import Crew
from tests.acceptance.command_line import wait_until
from tests.acceptance.workers import REPOSITORY
from tests.servers import Server, free_port

THREADS = ("order-1", "order-11", "büro 7")
TASKS = [("shown/look", 0), ("shown/think", 2)]


def look(_state: AgentState) -> str:
    return "a lamp"


def think(_state: AgentState) -> str:
    return "nice"


graph = StateGraph(name="shown").add_node(look).add_node(think).set_entry_point("look").add_edge("look", "think")


@pytest.fixture(scope="module")
def flower_url(valkey_server: Server) -> Iterator[str]:
    """A Flower that has seen a run on each thread."""
    url = f"redis://127.0.0.1:{valkey_server.port}/2"
    place = f"{__name__}:graph"
    with (
        Crew([place], folder=REPOSITORY, redis_url=url, concurrency=2, flower_port=free_port()) as crew,
        closing(graph.compile(redis_url=url)) as app,
    ):
        for thread_id in THREADS:
            app.invoke({"messages": [Message.text_message("x" * 5000)]}, {"thread_id": thread_id})
        assert crew.flower_url is not None
        expected = len(THREADS) * len(TASKS)
        wait_until(lambda: len(tasks(str(crew.flower_url), "state:SUCCESS")) == expected, "Flower has seen all")
        yield crew.flower_url


def get(url: str, path: str) -> str:
    with urlopen(f"{url}{path}", timeout=10) as answer:
        return str(answer.read(), "utf-8")


def tasks(url: str, search: str) -> list[dict[str, Any]]:
    """What the table of tasks shows for a search, oldest first."""
    table = {"order[0][column]": 0, "order[0][dir]": "asc", "columns[0][data]": "received"}
    words = {"draw": 1, "start": 0, "length": 100, "search[value]": search, **table}
    found = json.loads(get(url, f"/tasks/datatable?{urlencode(words)}"))
    return list(found["data"])


def shown_args(task: dict[str, Any]) -> dict[str, Any]:
    shown = ast.literal_eval(task["kwargs"])
    assert isinstance(shown, dict)
    return shown


@pytest.mark.parametrize("thread_id", ["order-1", "order-11"])
def test_the_search_finds_exactly_the_tasks_of_a_thread(flower_url: str, thread_id: str) -> None:
    found = tasks(flower_url, f"kwargs:thread_id={thread_id}")

    assert [(task["name"], shown_args(task)["step"]) for task in found] == TASKS
    assert {shown_args(task)["thread_id"] for task in found} == {thread_id}


def test_the_search_finds_nothing_for_a_thread_that_is_none(flower_url: str) -> None:
    assert tasks(flower_url, "kwargs:thread_id=order") == []


def test_the_arguments_name_the_attempt_and_never_the_state(flower_url: str) -> None:
    for task in tasks(flower_url, ""):
        assert list(shown_args(task)) == ["thread_id", "run", "step", "node", "attempt"]
        assert task["name"] == f"shown/{shown_args(task)['node']}"
        assert len(task["kwargs"]) < 200
        assert len(task["result"]) < 100


def test_the_id_of_a_task_can_be_read(flower_url: str) -> None:
    found = tasks(flower_url, "kwargs:thread_id=order-1")

    assert [task["uuid"].rpartition(":")[0] for task in found] == [
        "shown:order-1:0:look",
        "shown:order-1:2:think",
    ]


def test_a_task_leads_to_the_one_that_it_follows(flower_url: str) -> None:
    looked, thought = tasks(flower_url, "kwargs:thread_id=order-1")

    assert thought["parent_id"] == looked["uuid"]
    assert get(flower_url, f"/task/{thought['uuid']}").count(looked["uuid"]) > 0


def test_metrics_are_labelled_by_graph_and_node_and_never_by_thread(flower_url: str) -> None:
    metrics = get(flower_url, "/metrics")

    assert 'task="shown/look"' in metrics
    assert not any(thread_id in metrics for thread_id in THREADS)


def test_the_page_of_tasks_is_open_and_the_api_is_not(flower_url: str) -> None:
    assert "kwargs" in get(flower_url, "/tasks").lower()
    with pytest.raises(HTTPError, match="401") as refused:
        get(flower_url, "/api/tasks")
    refused.value.close()

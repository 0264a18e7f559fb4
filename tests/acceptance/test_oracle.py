"""Every graph of the suite on two real worker processes, each message doubled and shuffled: all as in process."""

import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import pytest

from tenxgraph.core.graph import CompiledGraph
from tenxgraph.settings import Settings
from tenxgraph.testing.oracle import GraphCase, Trace, assert_same, run_case, told
from tenxgraph_worker import make_app
from tests.acceptance.shuffling import COPIES, served_queue, start_shuffler, tally
from tests.acceptance.workers import Deployment, wait_until
from tests.graphs import suite
from tests.graphs.tools import ask
from tests.servers import Server
from tests.spec_pages import Snippet
from tests.thorough import combined
from tests.unit.test_spec_snippets import SNIPPETS, run

pytestmark = pytest.mark.timeout(300)

SEED: Final = 20
AT_ONCE: Final = 12
POOLS: Final = {"threads": 8, "prefork": 2}
MODES: Final = combined(list(POOLS), ("sticky", "task"))
WITH_A_GRAPH: Final = [snippet for snippet in SNIPPETS if "invoke(" in snippet.code]

_WORKER = "from tests.acceptance.test_oracle import serve; serve()"
_TIMES = {"LEASE_S": "6", "HEARTBEAT_S": "1", "SCAN_S": "0.1"}


def serve() -> None:
    """Be a worker of all these graphs, with Celery's options from the command line."""
    make_app(Settings.load(), [*suite.graphs(), *_graphs_of_the_pages()]).worker_main(["worker", *sys.argv[1:]])


def _graphs_of_the_pages() -> list[CompiledGraph[Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TENXGRAPH_REDIS_URL", raising=False)
        return [run(snippet)["app"] for snippet in WITH_A_GRAPH]


@dataclass(frozen=True)
class Workers:
    """What came of the graphs on two worker processes."""

    deployment: Deployment
    cases: Mapping[str, "Future[Trace]"]
    pages: Mapping[str, "Future[Any]"]


def _name(snippet: Snippet) -> str:
    return f"{snippet.page}-{snippet.number}"


def _deploy(deployment: Deployment, pool: str) -> None:
    start_shuffler(deployment, SEED)
    deployment.start_scheduler()
    flags = f"-P {pool} -c {POOLS[pool]} -Q {served_queue(deployment)} -l INFO --without-gossip --without-mingle"
    names = [f"{deployment.queue}-{number}@localhost" for number in range(2)]
    workers = [deployment.start("worker", _WORKER, *flags.split(), "-n", name) for name in names]
    for worker in workers:
        worker.wait_for_log(" ready.")


@pytest.fixture(scope="module", params=MODES, ids=", ".join)
def workers(
    request: pytest.FixtureRequest, valkey_server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Workers]:
    """Two workers that have run everything, for as long as it is looked at."""
    url = f"redis://127.0.0.1:{valkey_server.port}/0"
    pool, steps = request.param
    deployment = Deployment(url, tmp_path_factory.mktemp(pool), dict(_TIMES))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in deployment.environment.items():
            patch.setenv(name, value)
        try:
            _deploy(deployment, pool)
            yield _run_all(deployment, steps)
        finally:
            deployment.end()


def _run_all(deployment: Deployment, steps: str) -> Workers:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        pages = {_name(snippet): pool.submit(_run_page, snippet) for snippet in WITH_A_GRAPH}
        cases = {name: pool.submit(run_case, case, case.compile(steps=steps)) for name, case in suite.CASES.items()}
        wait([*pages.values(), *cases.values()])
    return Workers(deployment, cases, pages)


def _run_page(snippet: Snippet) -> Any:
    scope = run(snippet)
    app, result = scope["app"], scope["result"]
    (node,) = app.definition.nodes
    further = GraphCase("page", lambda: scope["graph"], [ask(), ask("Again")], [[node], [node]])
    return told(result["messages"]), result["status"], run_case(further, app)


@cache
def _oracle(name: str) -> Trace:
    case = suite.CASES[name]
    return run_case(case, case.compile())


@pytest.mark.parametrize("name", suite.CASES)
def test_a_graph_does_on_workers_what_it_does_in_process(workers: Workers, name: str) -> None:
    assert_same(_oracle(name), workers.cases[name].result(timeout=0))


@pytest.mark.parametrize("snippet", WITH_A_GRAPH, ids=_name)
def test_a_snippet_of_the_pages_does_on_workers_what_it_does_in_process(workers: Workers, snippet: Snippet) -> None:
    messages, status, trace = workers.pages[_name(snippet)].result(timeout=0)
    expected_messages, expected_status, expected = _run_page(snippet)
    assert (messages, status) == (expected_messages, expected_status)
    assert_same(expected, trace)


def _all_handed_on(counted: Mapping[str, int]) -> bool:
    return counted["handed on"] == COPIES * counted["taken"]


def test_each_message_came_twice_and_many_out_of_order_and_both_workers_worked(workers: Workers) -> None:
    wait_until(lambda: _all_handed_on(tally(workers.deployment)), "the last copies are handed on")
    counted = tally(workers.deployment)
    assert counted["taken"] > len(suite.CASES)
    assert counted["overtaken"] > counted["taken"] / 4
    logs = [process.log for process in workers.deployment.processes if process.log_path.name.startswith("worker")]
    done = ("'outcome': 'advanced'", "'outcome': 'committed'", "'outcome': 'refused'")
    assert [[outcome in log for outcome in done] for log in logs] == [[True] * 3] * 2
    assert sum(log.count("'outcome': 'refused'") for log in logs) >= 0.8 * counted["taken"]

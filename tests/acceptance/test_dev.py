"""``tenxgraph dev`` and the crew behind it: all in one, and nothing left behind."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest

from tenxgraph_worker.crew import Crew, CrewError
from tenxgraph_worker.embedded.server import EmbeddedServer, running_server
from tests.acceptance.command_line import Cli, Running, lives, make_folder, wait_until
from tests.servers import free_port

UP = "Ctrl-C ends all."


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield make_folder(tmp_path)
    # What a failing test left on: its nodes wait for this.
    (tmp_path / "let-go").touch()


def test_dev_runs_graphs_and_shows_where_everything_is(folder: Path) -> None:
    port = free_port()
    with Running(folder, "dev", "shop:app", "--workers", "2", "--flower-port", str(port)) as dev:
        said = dev.wait_for(UP)
        server = running_server(folder)
        assert server is not None
        assert f"store   {server.url}, data in .tenxgraph" in said
        assert f"flower  http://127.0.0.1:{port}" in said
        assert Cli(folder)("run", "shop:app", "World").out == "Hello World\n"

        def metrics() -> str:
            with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                return str(answer.read(), "utf-8")

        wait_until(lambda: 'task="hello/hello"' in metrics(), "Flower names the task graph/node")
        assert Cli(folder)("run", "shop:app", "Hi").code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_ctrl_c_ends_all(folder: Path, number: signal.Signals) -> None:
    with Running(folder, "dev", "shop:app", "--no-flower", "--pool", "prefork", "--concurrency", "1") as dev:
        dev.wait_for(UP)
        family = dev.family()
        assert len(family) >= 6

        assert dev.end(number) == 130

    assert [process for process in family if lives(process)] == []
    assert "Traceback" not in dev.output
    assert running_server(folder) is None


def test_a_killed_dev_takes_everything_along_even_workers_that_are_busy(folder: Path) -> None:
    with Running(folder, "dev", "shop:holds", "--no-flower", "--pool", "prefork", "--concurrency", "1") as dev:
        dev.wait_for(UP)
        assert Cli(folder)("run", "shop:holds", "World", "--background").code == 0
        wait_until(lambda: list(folder.glob("held-by-*")), "the node runs")
        family = dev.family()

        dev.end(signal.SIGKILL)

        wait_until(lambda: not any(map(lives, family)), "all have ended")


def test_what_was_killed_goes_on_when_dev_is_started_again(folder: Path) -> None:
    quick = {"TENXGRAPH_LEASE_S": "2", "TENXGRAPH_HEARTBEAT_S": "0.5"}
    words = ["dev", "shop:holds", "--no-flower"]
    cli = Cli(folder)
    with Running(folder, *words, env=quick) as dev:
        dev.wait_for(UP)
        run_id = cli("run", "shop:holds", "World", "--background", "--thread", "t1").out.strip()
        wait_until(lambda: list(folder.glob("held-by-*")), "the node runs")
        family = dev.family()
        dev.end(signal.SIGKILL)
        wait_until(lambda: not any(map(lives, family)), "all have ended")
    (folder / "let-go").touch()

    with Running(folder, *words, env=quick) as dev:
        dev.wait_for(UP)
        wait_until(lambda: cli("runs", "show", run_id, "--json").json["status"] == "completed", "the run completes")

    assert len(list(folder.glob("held-by-*"))) == 2


def test_a_second_dev_joins_the_first_and_outlives_it(folder: Path) -> None:
    with (
        Running(folder, "dev", "shop:app", "--no-flower") as first,
        Running(folder, "dev", "shop:asks", "--no-flower") as second,
    ):
        first.wait_for(UP)
        second.wait_for(UP)
        assert sum(", joined" in dev.output for dev in (first, second)) == 1
        first.end(signal.SIGINT)

        assert Cli(folder)("run", "shop:asks", "World", "--json").json["status"] == "waiting"


def test_a_worker_that_is_killed_is_started_again(folder: Path) -> None:
    with Crew(["shop:app"], folder=folder, flower=False) as crew:
        worker = crew.member("worker-1")
        pid = worker.pid
        assert pid is not None

        os.kill(pid, signal.SIGKILL)

        wait_until(lambda: worker.pid not in (None, pid), "another one runs")
        assert Cli(folder)("run", "shop:app", "World").out == "Hello World\n"


def test_a_crew_that_does_not_come_up_says_who_and_why_and_leaves_nothing(folder: Path) -> None:
    crew = Crew(["shop:nope"], folder=folder, flower=False)

    with pytest.raises(CrewError, match=r"worker-1 ended\. Its last words: 'shop:nope' names 'nope'"):
        crew.__enter__()

    assert crew.members == []
    assert running_server(folder) is None


def test_a_crew_uses_the_store_that_is_given(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with (
        EmbeddedServer(tmp_path_factory.mktemp("elsewhere")) as server,
        Crew(["shop:app"], folder=folder, redis_url=server.url, flower=False) as crew,
    ):
        assert (crew.redis_url, crew.server) == (server.url, None)
        assert Cli(folder)("run", "shop:app", "World", "--redis-url", server.url).out == "Hello World\n"

    assert not (folder / ".tenxgraph").exists()


def test_a_port_in_use_is_refused_before_anything_starts(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        said = Cli(folder)("dev", "shop:app", "--flower-port", str(port))

    assert said.code == 1
    assert f"Port {port} is in use on 127.0.0.1" in said.err
    assert not (folder / ".tenxgraph").exists()


_OWNER = """
import sys
from pathlib import Path
from tenxgraph_worker.crew import Crew

with Crew(["shop:app"], folder=Path(sys.argv[1]), flower=False, workers=2) as crew:
    print("up", flush=True)
    sys.stdin.read()
"""


def test_a_program_that_uses_a_crew_leaves_nothing_when_it_is_killed(folder: Path) -> None:
    command = [sys.executable, "-c", _OWNER, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "up\n"
        family = psutil.Process(owner.pid).children(recursive=True)
        owner.kill()

    assert len(family) >= 6
    wait_until(lambda: not any(map(lives, family)), "all have ended")


def test_no_thread_of_a_crew_stays(folder: Path) -> None:
    before = threading.active_count()
    with Crew(["shop:app"], folder=folder, flower=False):
        assert threading.active_count() > before

    wait_until(lambda: threading.active_count() == before, "its threads are over")

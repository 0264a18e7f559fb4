"""Real processes of workers and schedulers on a server of the tests' own; each is ended by its process id."""

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.servers import Server
from tests.template import Forked, start

REPOSITORY = Path(__file__).parents[2]
GRAPHS = "tests.acceptance.graphs"

_START_S = 60.0
_END_S = 20.0

_WORKER = """
import sys
from tenxgraph.settings import Settings
from tenxgraph_worker import make_app
graphs, options = sys.argv[1].split(","), sys.argv[2:]
make_app(Settings.load(), graphs).worker_main(["worker", *options])
"""

_SCHEDULER = """
import threading
from tenxgraph.settings import Settings
from tenxgraph_scheduler.reconciler import make_reconciler
make_reconciler(Settings.load()).run(threading.Event())
"""


def wait_until(is_true: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
    """Poll until something holds; fail with what was waited for."""
    deadline_s = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < deadline_s, f"Not within {timeout_s:g} s: {what}"
        time.sleep(0.01)


@dataclass
class Process:
    """A started process, and its children's only way out."""

    popen: "Forked | subprocess.Popen[bytes]"
    log_path: Path

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def is_alive(self) -> bool:
        return self.popen.poll() is None

    def wait_for_log(self, text: str) -> None:
        def is_there() -> bool:
            assert self.is_alive() or text in self.log, f"The process ended early:\n{self.log}"
            return text in self.log

        wait_until(is_there, f"{text!r} in\n{self.log}", _START_S)

    def tree(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            return [process, *process.children(recursive=True)]
        return []

    def kill(self) -> None:
        """SIGKILL it and its children, as a power cut would."""
        for process in self.tree():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.popen.wait(_END_S)

    def stop(self) -> None:
        """SIGTERM and wait; SIGKILL what stays."""
        if self.is_alive():
            self.popen.send_signal(signal.SIGTERM)
        self.wait_or_kill()

    def wait_or_kill(self) -> None:
        with suppress(subprocess.TimeoutExpired):
            self.popen.wait(_END_S)
        if self.is_alive():
            self.kill()


@dataclass
class Deployment:
    """One installation: a key prefix and a queue of its own on a shared server, and processes that serve it."""

    url: str
    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        name = f"tg{uuid.uuid4().hex[:8]}"
        own = {"REDIS_URL": self.url, "KEY_PREFIX": name, "DEFAULT_QUEUE": name, "LEASE_S": "2", "HEARTBEAT_S": "0.4"}
        self.settings = {**own, "SCAN_S": "0.2", **self.settings}
        self.ledger_path.touch()

    @property
    def queue(self) -> str:
        return self.settings["DEFAULT_QUEUE"]

    @property
    def environment(self) -> dict[str, str]:
        return {f"TENXGRAPH_{name}": value for name, value in self.settings.items()} | {"LEDGER": str(self.ledger_path)}

    @property
    def ledger_path(self) -> Path:
        return self.folder / "ledger"

    @property
    def ledger(self) -> list[list[str]]:
        """What nodes noted: a list of words for each line."""
        return [line.split() for line in self.ledger_path.read_text().splitlines()]

    def let_go(self) -> None:
        """Let slow nodes return."""
        (self.folder / "go").touch()

    def start(self, name: str, code: str, *args: str, is_afresh: bool = False) -> Process:
        """Start ``python -c CODE ARGS``; ``is_afresh``: with imports of its own (:mod:`tests.template`)."""
        log_path = self.folder / f"{name}-{len(self.processes)}.log"
        environment = {**os.environ, **self.environment, "PYTHONUNBUFFERED": "1"}
        with log_path.open("wb") as log:
            files = {"stdout": log.fileno(), "stderr": log.fileno()}
            popen = start(code, args, cwd=REPOSITORY, env=environment, is_afresh=is_afresh, **files)
        process = Process(popen, log_path)
        self.processes.append(process)
        return process

    def start_worker(self, *graphs: str, pool: str = "threads", concurrency: int = 2, options: str = "") -> Process:
        """Start a worker of graphs (MODULE:ATTR, or names in tests/acceptance/graphs.py); return when it serves."""
        name = f"w{len(self.processes)}-{self.queue}"
        flags = f"-P {pool} -c {concurrency} -n {name}@localhost -l INFO --without-gossip --without-mingle {options}"
        places = ",".join(graph if ":" in graph else f"{GRAPHS}:{graph}" for graph in graphs)
        worker = self.start("worker", _WORKER, places, *flags.split())
        worker.wait_for_log(" ready.")
        return worker

    def start_scheduler(self) -> Process:
        return self.start("scheduler", _SCHEDULER)

    def end(self) -> None:
        for process in self.processes:
            if process.is_alive():
                process.popen.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait_or_kill()

    def logs(self) -> str:
        return "\n".join(f"--- {process.log_path.name}\n{process.log}" for process in self.processes)


@pytest.fixture
def deployment(
    valkey_server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Deployment]:
    """An installation with nothing started; the test's own process is a client of it."""
    made = Deployment(f"redis://127.0.0.1:{valkey_server.port}/0", tmp_path)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    try:
        yield made
    finally:
        made.end()

"""The processes of a chaos run, and a supervisor that starts again what died."""

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, Signals
from typing import Any, Final

import psutil

from tenxgraph_worker import crew_tether
from tenxgraph_worker.embedded.binary import find_binary
from tests.chaos.graphs import GRAPHS
from tests.servers import RedisServer

REPOSITORY: Final = Path(__file__).parents[2]
_LOOK_S: Final = 0.05
_READY: Final = "is ready"
_START_S: Final = 60.0
_END_S: Final = 20.0
_CLI: Final = (sys.executable, "-m", "tenxgraph_worker.cli")


@dataclass(eq=False)
class Member:
    """One process after the other under one name; each is a group of its own, which dies and stops whole.

    Attributes:
        lives: How many there were. Nodes note ``name#life``.
        ours: Whether the present one was killed by us.
    """

    name: str
    words: Sequence[str]
    folder: Path
    environment: dict[str, str]
    lives: int = 0
    ours: bool = False
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def label(self) -> str:
        return f"{self.name}#{self.lives}"

    @property
    def log_path(self) -> Path:
        return self.folder / f"{self.name}.log"

    def start(self) -> int:
        self.lives += 1
        self.ours = False
        environment = {**os.environ, **self.environment, "CHAOS_NAME": self.label, "PYTHONUNBUFFERED": "1"}
        with self.log_path.open("ab") as log:
            log.write(f"--- {self.label}\n".encode())
            self.process = subprocess.Popen(
                [*_CLI, *self.words], cwd=REPOSITORY, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        return self.process.pid

    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def is_ready(self) -> bool:
        return _READY in self.log_path.read_text(errors="replace").rpartition("--- ")[2]

    def last_words(self) -> str:
        lines = self.log_path.read_text(errors="replace").splitlines()
        return next((line for line in reversed(lines) if line.strip()), "")[:200]

    def send(self, signal: Signals) -> None:
        """Signal the process and all its children."""
        if self.process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal)

    def children(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            if self.process is not None:
                return psutil.Process(self.process.pid).children(recursive=True)
        return []


@dataclass
class Fleet:
    """A server, workers and schedulers.

    Attributes:
        own_deaths: Who ended without our doing, and how often.
    """

    folder: Path
    settings: dict[str, str]
    pools: Sequence[str] = ("threads", "prefork", "threads")
    schedulers: int = 2
    concurrency: int = 4
    work_s: float = 0.05
    long_s: float = 4.0
    own_deaths: "Counter[str]" = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.server = RedisServer(self.folder, binary=find_binary(), appendfsync="always")  # it is killed
        self.url = f"redis://127.0.0.1:{self.server.port}/0"
        self.ledger_path.touch()
        self._over = threading.Event()
        self._restarts = threading.Lock()
        own = {"REDIS_URL": self.url, "BROKER_URL": ""}
        self.environment = {f"TENXGRAPH_{name}": value for name, value in {**own, **self.settings}.items()}
        self.environment |= {"LEDGER": str(self.ledger_path)}
        self.environment |= {"CHAOS_WORK_S": str(self.work_s), "CHAOS_LONG_S": str(self.long_s)}
        self.workers = [self._worker(number, pool) for number, pool in enumerate(self.pools)]
        self.scheduler_members = [self._member(f"s{number}", "scheduler") for number in range(self.schedulers)]

    def _member(self, name: str, *words: str) -> Member:
        return Member(name, words, self.folder, self.environment)

    def _worker(self, number: int, pool: str) -> Member:
        graphs = [f"tests.chaos.graphs:{name}" for name in GRAPHS]
        flags = ("--pool", pool, "--concurrency", str(self.concurrency), "--name", f"w{number}")
        return self._member(f"w{number}", "worker", *graphs, *flags)

    @property
    def members(self) -> list[Member]:
        return [*self.workers, *self.scheduler_members]

    @property
    def ledger_path(self) -> Path:
        return self.folder / "ledger"

    def logs(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-4000:] for path in sorted(self.folder.glob("*.log")))

    def __enter__(self) -> "Fleet":
        command = [sys.executable, "-I", "-S", crew_tether.__file__, "2"]
        self._tether = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, bufsize=1, start_new_session=True)
        self.server.start()
        for member in self.members:
            self._start(member)
        deadline_s = time.monotonic() + _START_S
        while not all(member.is_ready() for member in self.members):
            if time.monotonic() > deadline_s:
                self.__exit__()
                raise AssertionError(f"Not all are ready within {_START_S:g} s:\n{self.logs()}")
            time.sleep(_LOOK_S)
        self._supervisor = threading.Thread(target=self._supervise, name="supervisor")
        self._supervisor.start()
        return self

    def _start(self, member: Member) -> None:
        pid = member.start()
        self._tell_tether(f"+{pid}")

    def _tell_tether(self, line: str) -> None:
        """Whatever ends this process: its fleet ends too."""
        assert self._tether.stdin is not None
        self._tether.stdin.write(line + "\n")

    def _supervise(self) -> None:
        while not self._over.wait(_LOOK_S):
            for member in self.members:
                if not member.is_alive():
                    self._start_again(member)

    def _start_again(self, member: Member) -> None:
        assert member.process is not None
        if not member.ours:
            said = member.last_words()
            self.own_deaths[f"{member.name} with code {member.process.returncode}, saying {said!r}"] += 1
        member.send(SIGKILL)  # children of a killed process would go on for nobody
        self._tell_tether(f"-{member.process.pid}")
        self._start(member)

    def __exit__(self, *_: Any) -> None:
        self._over.set()
        if hasattr(self, "_supervisor"):
            self._supervisor.join()
        for member in self.members:
            member.send(SIGCONT)
            if member.process is not None:
                member.process.terminate()
        deadline_s = time.monotonic() + _END_S
        while any(member.is_alive() for member in self.members) and time.monotonic() < deadline_s:
            time.sleep(_LOOK_S)
        for member in self.members:
            member.send(SIGKILL)
            if member.process is not None:
                member.process.wait()
        self.server.stop()
        assert self._tether.stdin is not None
        self._tether.stdin.close()
        self._tether.wait()

    # -- what the faults do

    def kill(self, member: Member) -> None:
        """SIGKILL it and its children, as a power cut would."""
        member.ours = True
        member.send(SIGKILL)

    def kill_child(self, member: Member, number: int) -> int:
        """SIGKILL one process of its pool; return its id, or 0 if there is none."""
        children = member.children()
        if not children:
            return 0
        child = children[number % len(children)]
        with suppress(psutil.NoSuchProcess):
            child.kill()
        return child.pid

    def pause(self, member: Member, pause_s: float) -> None:
        """Stop it whole, and let it go on later."""
        member.send(SIGSTOP)
        timer = threading.Timer(pause_s, member.send, (SIGCONT,))
        timer.daemon = True
        timer.start()

    def restart_server(self) -> None:
        """SIGKILL the server; start it again with what its append-only file has."""
        self.server.kill()
        self.server.start()

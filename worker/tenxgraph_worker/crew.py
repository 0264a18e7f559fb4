"""A crew: store, scheduler, workers and Flower on one machine, for as long as somebody needs them."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tenxgraph.core.exceptions import TenxGraphError
from tenxgraph.settings import ENV_PREFIX, Settings
from tenxgraph_worker import crew_tether
from tenxgraph_worker.crew_member import Job, Member
from tenxgraph_worker.embedded.check import check_server
from tenxgraph_worker.embedded.locks import until
from tenxgraph_worker.embedded.probe import free_port
from tenxgraph_worker.embedded.server import EmbeddedServer

FLOWER_PORT: Final = 5555
_READY_S: Final = 60.0


class CrewError(TenxGraphError):
    """A process of the crew does not come up, or does not stay up."""

    default_code = "CREW"


def _silent(name: str, line: str) -> None:
    """Let the members' output go."""


@dataclass(eq=False)
class Crew:
    """Store, scheduler, workers and Flower as processes, for the length of a ``with`` block.

    Entered, all work. Whatever ends this process, also SIGKILL, ends the whole crew.

    Attributes:
        graphs: ``MODULE:ATTR`` of each, seen from ``folder``.
        folder: Where the crew works; the embedded store keeps its data in its ``.tenxgraph``.
        redis_url: The store; None for the configured one, else the embedded one. Once entered, the store in use.
        pool: ``prefork``, ``threads`` or ``solo``.
        concurrency: Tasks at once in a worker; None for the pool's default.
        flower_port: None for the usual one, or a free one where that is taken.
        end_s: How long the members may take to end before they are killed.
        hear: Told of each line that a member prints, on threads of their own.
        flower_url: Once entered; None without Flower.
        server: The embedded store, once entered.
    """

    graphs: Sequence[str]
    _: KW_ONLY
    folder: Path = field(default_factory=Path.cwd)
    redis_url: str | None = None
    workers: int = 1
    pool: str = "threads"
    concurrency: int | None = None
    flower: bool = True
    flower_port: int | None = None
    end_s: float = 10.0
    hear: Callable[[str, str], None] = _silent
    flower_url: str | None = field(default=None, init=False)
    server: EmbeddedServer | None = field(default=None, init=False)
    members: list[Member] = field(default_factory=list[Member], init=False)
    _tether: "subprocess.Popen[str] | None" = field(default=None, init=False)

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def member(self, name: str) -> Member:
        """Return a member: ``scheduler``, ``worker-1``, …, ``flower``."""
        return next(member for member in self.members if member.job.name == name)

    def wait(self) -> None:
        """Return when a member is over, because it died too often.

        Raises:
            CrewError: Always: says which, and its last words.
        """
        while not (over := [member for member in self.members if member.over.is_set()]):
            time.sleep(0.2)
        raise _gave_up(over[0])

    # -- start

    def _start(self) -> None:
        self.folder = self.folder.resolve()
        self.redis_url = self.redis_url or Settings.load().redis_url or self._start_server()
        for warning in check_server(self.redis_url).warnings:
            self.hear("store", f"warning: {warning}")
        self._start_tether()
        self.members = [Member(job, self.hear, self._note_group) for job in self._jobs()]
        for member in self.members:
            member.start()
        self._wait_until_ready()

    def _start_server(self) -> str:
        self.server = EmbeddedServer(self.folder)
        self.server.start()
        return self.server.url

    def _start_tether(self) -> None:
        command = [sys.executable, "-I", "-S", crew_tether.__file__, str(self.end_s)]
        self._tether = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, bufsize=1, start_new_session=True)
        stdin = self._tether.stdin
        assert stdin is not None
        # A forked child would hold the pipe open after this process died.
        os.register_at_fork(after_in_child=stdin.close)

    def _note_group(self, group: int, begins: bool) -> None:
        if self._tether is not None and self._tether.stdin is not None:
            self._tether.stdin.write(f"{'+' if begins else '-'}{group}\n")

    def _jobs(self) -> list[Job]:
        jobs = [self._job("scheduler", "scheduler")]
        jobs += [self._worker(number) for number in range(1, self.workers + 1)]
        if self.flower:
            port = self.flower_port or free_port(FLOWER_PORT)
            self.flower_url = f"http://127.0.0.1:{port}"
            jobs.append(self._job("flower", "flower", "--port", str(port)))
        return jobs

    def _worker(self, number: int) -> Job:
        name = f"worker-{number}"
        words = ["worker", *self.graphs, "--pool", self.pool, "--name", f"{name}-{os.getpid()}"]
        if self.concurrency is not None:
            words += ["--concurrency", str(self.concurrency)]
        return self._job(name, *words, *(["--events"] if self.flower else []))

    def _job(self, name: str, *words: str) -> Job:
        env = {**os.environ, f"{ENV_PREFIX}REDIS_URL": self.redis_url or "", "PYTHONUNBUFFERED": "1"}
        return Job(name, [sys.executable, "-m", "tenxgraph_worker.cli", *words], env, self.folder)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _READY_S
        for member in self.members:
            until(partial(_has_settled, member), deadline - time.monotonic())
            if not member.ready.is_set():
                raise _not_up(member)

    # -- end

    def close(self) -> None:
        """End all, each by its id: SIGTERM, and SIGKILL after a bound. The store goes last."""
        for member in self.members:
            member.ask_to_end()
        try:
            until(lambda: all(member.over.is_set() for member in self.members), self.end_s)
        finally:
            self._close_hard()

    def _close_hard(self) -> None:
        for member in self.members:
            if not member.over.is_set():
                member.kill()
        until(lambda: all(member.over.is_set() for member in self.members), self.end_s)
        self.members = []
        if self._tether is not None and self._tether.stdin is not None:
            self._tether.stdin.close()
            self._tether.wait()
        self._tether = None
        if self.server is not None:
            self.server.close()


def _has_settled(member: Member) -> bool:
    return member.ready.is_set() or member.over.is_set()


def _not_up(member: Member) -> CrewError:
    how = "ended" if member.over.is_set() else f"was not ready within {_READY_S:g} s"
    return CrewError(f"{member.job.name} {how}. Its last words: {member.last_words.removeprefix('tenxgraph: ')}")


def _gave_up(member: Member) -> CrewError:
    return CrewError(f"{member.job.name} died {member.job.restarts + 1} times. Its last words: {member.last_words}")

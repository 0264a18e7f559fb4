"""The ``tenxgraph`` command as a process, in a folder of its own."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psutil

from tests.template import run_module
from tests.unit.cli.conftest import GRAPH

MODULE = "tenxgraph_worker.cli"
COMMAND = [sys.executable, "-m", MODULE]
SOON_S = 60.0
HOLDS = """

import os, time
from pathlib import Path


def hold(state: AgentState) -> str:
    Path(f"held-by-{os.getpid()}").touch()
    while not Path("let-go").exists():
        time.sleep(0.02)
    return "held"


holds = make("holds", hold).compile()
"""


def make_folder(folder: Path) -> Path:
    """Put a module ``shop`` of graphs there; ``shop:holds`` runs until there is a file ``let-go``."""
    (folder / "shop.py").write_text(GRAPH + HOLDS)
    return folder


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment without a developer's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TENXGRAPH_", "FLOWER_"))}
    return {**kept, "COLUMNS": "200", **(extra or {})}


@dataclass(frozen=True)
class Said:
    """What a finished command left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Cli:
    """Calls commands in a folder and waits for them."""

    folder: Path
    env: Mapping[str, str] = field(default_factory=dict[str, str])

    def __call__(self, *args: str) -> Said:
        done = run_module(MODULE, args, cwd=self.folder, env=environment(self.env), timeout_s=SOON_S)
        return Said(done.returncode, done.stdout, done.stderr)


class Running:
    """A command that goes on, in a process group of its own; ended by its id on the way out."""

    def __init__(self, folder: Path, *args: str, env: Mapping[str, str] | None = None) -> None:
        self._lines: list[str] = []
        self.process = subprocess.Popen(
            [*COMMAND, *args],
            cwd=folder,
            env=environment(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout:
            self._lines.extend(self.process.stdout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end(signal.SIGTERM)

    @property
    def output(self) -> str:
        return "".join(self._lines)

    def wait_for(self, text: str) -> str:
        """Wait until it has said something; returns all that it said."""
        wait_until(lambda: text in self.output or self.process.poll() is not None, f"{text!r} in {self.output}")
        assert text in self.output, self.output
        return self.output

    def family(self) -> list[psutil.Process]:
        """It and all its descendants, now."""
        me = psutil.Process(self.process.pid)
        return [me, *me.children(recursive=True)]

    def end(self, number: signal.Signals) -> int:
        """Send a signal to it alone; returns its exit code."""
        with suppress(ProcessLookupError):
            self.process.send_signal(number)
        try:
            code = self.process.wait(SOON_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self._listener.join(SOON_S)
        return code


def wait_until(is_true: Any, what: str, timeout_s: float = SOON_S) -> None:
    """Poll until something holds; fail with what was waited for."""
    deadline_s = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < deadline_s, f"Not within {timeout_s:g} s: {what}"
        time.sleep(0.02)


def lives(process: psutil.Process) -> bool:
    """Whether it runs; a zombie, which only waits for its parent to look, does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

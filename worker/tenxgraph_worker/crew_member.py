"""One process of a crew: started, listened to, started again when it dies, ended by its id."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

READY: Final = "is ready"
"""What ends a line that a process of ours prints once it works."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a member does.

    Attributes:
        name: As shown beside its output.
        argv: The command.
        env: The whole environment.
        restarts: How often it is started again after it worked and died.
    """

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    folder: Path
    restarts: int = 5


class Member:
    """A member at work.

    Args:
        hear: Told of each line that it prints and of its restarts, on threads of their own.
        note_group: Told of each process group that begins (True) or is over (False).

    Attributes:
        ready: Set when it works.
        over: Set when it has ended and is not started again.
    """

    def __init__(self, job: Job, hear: Callable[[str, str], None], note_group: Callable[[int, bool], None]) -> None:
        self.job = job
        self.ready = threading.Event()
        self.over = threading.Event()
        self.last_words = "nothing"
        self._hear = hear
        self._note_group = note_group
        self._is_ending = threading.Event()
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int | None:
        """Of its process; None when none runs."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    def start(self) -> None:
        """Start it; returns at once."""
        process = self._open()
        threading.Thread(target=self._stay, args=(process,), name=self.job.name, daemon=True).start()

    def _open(self) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            self.job.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.job.env,
            cwd=self.job.folder,
            # A session of its own: Ctrl-C reaches the owner alone, and one id names it with all its children.
            start_new_session=True,
            text=True,
            errors="replace",
        )
        self._note_group(process.pid, True)
        self._process = process
        return process

    def _stay(self, process: "subprocess.Popen[str]") -> None:
        try:
            for left in reversed(range(self.job.restarts + 1)):
                self._wait(process)
                if self._is_ending.is_set() or not self.ready.is_set() or not left:
                    return
                self._hear(self.job.name, f"ended with code {process.returncode}: starting it again")
                process = self._open()
                if self._is_ending.is_set():
                    process.terminate()
        finally:
            self.over.set()

    def _wait(self, process: "subprocess.Popen[str]") -> None:
        listener = threading.Thread(target=self._listen, args=(process,), daemon=True)
        listener.start()
        process.wait()
        # Children of a killed process hold its output open, and go on working for nobody.
        _kill_group(process.pid)
        listener.join()
        self._note_group(process.pid, False)

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self._take(line.rstrip())

    def _take(self, line: str) -> None:
        if line.endswith(READY):
            self.ready.set()
        if line:
            self.last_words = line
            self._hear(self.job.name, line)

    def ask_to_end(self) -> None:
        """Send SIGTERM to the process itself, which ends its children."""
        self._is_ending.set()
        if self._process is None:
            self.over.set()
        elif self._process.returncode is None:
            self._process.terminate()

    def kill(self) -> None:
        """Send SIGKILL to it and all its children."""
        self._is_ending.set()
        if self.pid is not None:
            _kill_group(self.pid)


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)

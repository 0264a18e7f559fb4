"""The keeper: starts a folder's server, starts it again when it dies, and ends it when nobody uses it any more.

A process of its own, since whoever started the server may be killed while others use it, or with nobody left to end it.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tenxgraph_worker.embedded.folder import ServerFolder, ServerRecord
from tenxgraph_worker.embedded.locks import FileLock, until
from tenxgraph_worker.embedded.probe import answers, free_port, process_of

_LOOK_S = 0.2
_TAKE_S = 2.0
_READY_S = 60.0
_END_S = 10.0
_STARTS_IN_A_ROW = 5
_PR_SET_PDEATHSIG = 1

_OPTIONS = {
    "bind": "127.0.0.1",
    "daemonize": "no",
    "appendonly": "yes",
    "appendfsync": "everysec",
    "maxmemory-policy": "noeviction",
    "save": "",
}


class Keeper:
    """Keeps one server.

    Args:
        folder: Where its data lies.
        binary: The program to start.
    """

    def __init__(self, folder: ServerFolder, binary: Path) -> None:
        self._folder = folder
        self._binary = binary
        self._process: subprocess.Popen[bytes] | None = None
        self._is_told_to_end = False

    def run(self) -> int:
        """Keep the server until it is not used any more; return an exit code."""
        signal.signal(signal.SIGTERM, self._on_sigterm)
        users, alone = FileLock(self._folder.users_lock), FileLock(self._folder.keeper_lock)
        # Not at the first try: others look whether it is held by holding it for a moment.
        if not until(alone.try_alone, _TAKE_S):
            return 1
        port = self._port()
        try:
            return self._keep(port, lambda: self._is_told_to_end or users.try_alone())
        finally:
            self._end()
            self._folder.remove_record()

    def _on_sigterm(self, *_: object) -> None:
        self._is_told_to_end = True

    def _port(self) -> int:
        """The last server's port, so that clients that knew it go on."""
        last = self._folder.read_record()
        if last is None:
            return free_port()
        self._end_orphan(last)
        return free_port(last.port)

    def _end_orphan(self, last: ServerRecord) -> None:
        """End a server whose keeper was killed; only where the system does not see to it."""
        if process_of(last.port) == last.pid:
            os.kill(last.pid, signal.SIGTERM)
            until(lambda: process_of(last.port) != last.pid, _END_S)

    def _keep(self, port: int, is_over: Callable[[], bool]) -> int:
        starts = 0
        while starts < _STARTS_IN_A_ROW:
            if not self._start(port):
                return 1
            started = time.monotonic()
            while not self._has_ended():
                if is_over():
                    return 0
                time.sleep(_LOOK_S)
            starts = starts + 1 if time.monotonic() - started < _READY_S else 0
        return 1

    def _start(self, port: int) -> bool:
        options = {**_OPTIONS, "port": str(port), "dir": str(self._folder.data)}
        command = [str(self._binary), *(word for name, value in options.items() for word in (f"--{name}", value))]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=_die_with_the_keeper)  # noqa: PLW1509 - this process has one thread
        if not until(lambda: self._has_ended() or answers(port), _READY_S) or self._has_ended():
            return False
        self._folder.write_record(ServerRecord(port, self._process.pid, os.getpid()))
        return True

    def _has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def _end(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _die_with_the_keeper() -> None:
    """Ask Linux to end the server when the keeper is killed; elsewhere the next keeper does."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def main() -> int:
    """``python -m tenxgraph_worker.embedded.keeper FOLDER PROGRAM``."""
    root, binary = map(Path, sys.argv[1:])
    return Keeper(ServerFolder(root), binary).run()


if __name__ == "__main__":
    sys.exit(main())

"""Use the server of a folder: start it, or join those who use it already."""

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from tenxgraph.core.exceptions import StorageError
from tenxgraph_worker.embedded.binary import find_binary
from tenxgraph_worker.embedded.folder import ServerFolder, ServerRecord
from tenxgraph_worker.embedded.locks import FileLock, held_alone, is_held, until
from tenxgraph_worker.embedded.probe import answers

START_S = 60.0
_END_S = 15.0


def running_server(project: Path) -> ServerRecord | None:
    """Return the server that runs for a folder, None where none does. Nothing is written."""
    record = ServerFolder.of(project).read_record()
    return record if record is not None and answers(record.port) else None


class EmbeddedServer:
    """The folder's server while this process uses it. The last user's end, even by SIGKILL, ends the server.

    Args:
        project: The folder; data lies in its ``.tenxgraph``.

    Attributes:
        joined: Whether somebody else had started it.
    """

    def __init__(self, project: Path) -> None:
        self.folder = ServerFolder.of(project)
        self.joined = False
        self._record: ServerRecord | None = None
        self._use: FileLock | None = None
        self._keeper: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def record(self) -> ServerRecord:
        """Port and process ids.

        Raises:
            StorageError: It is not started.
        """
        if self._record is None:
            raise StorageError("The embedded server is not started: call start().", error_code="NO_SERVER")
        return self._record

    @property
    def url(self) -> str:
        """Where it listens."""
        return self.record.url

    def start(self) -> None:
        """Start it or join; returns when it answers.

        Raises:
            StorageError: ``NO_SERVER`` there is no program to start; ``SERVER_START`` it did not start.
        """
        binary = find_binary()
        self._create_folder()
        self._use = FileLock(self.folder.users_lock)
        # A forked child would hold the lock on after this process died.
        os.register_at_fork(after_in_child=self._use.close)
        try:
            self._join(binary)
        except BaseException:
            self.close()
            raise

    def _create_folder(self) -> None:
        try:
            self.folder.create()
        except OSError as error:
            raise StorageError(
                f"The folder {self.folder.root} cannot be written ({error.strerror}): run in a folder of your own, "
                "or set TENXGRAPH_REDIS_URL.",
                error_code="SERVER_START",
            ) from error

    def _join(self, binary: Path) -> None:
        assert self._use is not None
        # Held while a keeper ends its server: then ours is the next one.
        if not until(self._use.try_shared, _END_S):
            raise self._failed("the one before does not end")
        with held_alone(self.folder.start_lock, START_S) as is_alone:
            if not is_alone:
                raise self._failed("another process has been starting it for too long")
            self.joined = self._is_kept()
            if not self.joined:
                self._start_keeper(binary)
        self._record = self.folder.read_record()

    def _is_kept(self) -> bool:
        record = self.folder.read_record()
        return record is not None and is_held(self.folder.keeper_lock) and until(lambda: answers(record.port), START_S)

    def _start_keeper(self, binary: Path) -> None:
        command = [sys.executable, "-m", "tenxgraph_worker.embedded.keeper", str(self.folder.root), str(binary)]
        with self.folder.log.open("ab") as log:
            # A session of its own: Ctrl-C in the terminal is for its users.
            keeper = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

        def is_up() -> bool:
            record = self.folder.read_record()
            return record is not None and record.keeper_pid == keeper.pid

        if not until(lambda: is_up() or keeper.poll() is not None, START_S) or not is_up():
            keeper.terminate()
            raise self._failed("it ended at once")
        self._keeper = keeper

    def _failed(self, reason: str) -> StorageError:
        return StorageError(
            f"The embedded server did not start: {reason}. Its last words are in {self.folder.log}; "
            f"if its data is broken, move {self.folder.data} away.",
            error_code="SERVER_START",
        )

    def close(self) -> None:
        """Leave; the last one to leave waits until the server has ended and its data is on disk."""
        use, self._use, self._record = self._use, None, None
        if use is None:
            return
        use.release()
        until(lambda: self._is_settled(use), _END_S)
        use.close()
        if self._keeper is not None and self._keeper.poll() is None:
            # It goes on for others; Popen would warn that it still runs.
            self._keeper.returncode = 0

    def _is_settled(self, use: FileLock) -> bool:
        """True when the keeper has gone, or goes on for others."""
        if not is_held(self.folder.keeper_lock):
            return True
        alone = use.try_alone()
        use.release()
        return not alone and self._has_others(use)

    def _has_others(self, use: FileLock) -> bool:
        # Neither alone nor shared to be had: the keeper has it, and is about to end.
        shared = use.try_shared()
        use.release()
        return shared

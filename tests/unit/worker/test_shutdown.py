"""The worker's end is known in all of its processes."""

import os

import pytest

from tenxgraph.core.exceptions import StorageError
from tenxgraph_worker.endurance import Endurance
from tenxgraph_worker.shutdown import Shutdown


def test_before_it_begins_there_is_all_the_time() -> None:
    shutdown = Shutdown(5)
    assert (shutdown.has_begun, shutdown.left_s) == (False, float("inf"))


def test_it_begins_once() -> None:
    shutdown = Shutdown(5)
    shutdown.begin()
    assert shutdown.has_begun
    first_s = shutdown.left_s
    assert 4 < first_s <= 5
    shutdown.begin()
    assert shutdown.left_s <= first_s


def test_a_child_that_was_forked_before_knows_of_it() -> None:
    shutdown = Shutdown(5)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(read, 1)
        os._exit(0 if shutdown.has_begun and 3 < shutdown.left_s <= 5 else 1)
    shutdown.begin()
    os.write(write, b".")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_no_time_at_all_is_over_at_once() -> None:
    shutdown = Shutdown(0)
    shutdown.begin()
    assert shutdown.left_s <= 0


def _refuse() -> None:
    raise StorageError("away")


def test_a_call_is_repeated_until_the_worker_has_ended() -> None:
    shutdown = Shutdown(0.2)
    calls = []

    def call() -> None:
        calls.append(1)
        if len(calls) == 2:
            shutdown.begin()
        _refuse()

    with pytest.raises(StorageError):
        Endurance(shutdown)(call)
    assert len(calls) > 2


def test_an_orphan_gives_up() -> None:
    with pytest.raises(StorageError):
        Endurance(Shutdown(60), parent=1 if os.getppid() != 1 else 2)(_refuse)

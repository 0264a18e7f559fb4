"""A process forked from the template is what a start with the same words would be."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.template import Forked, run_module, start

TELL = """
import json, os, random, signal, sys, threading
print(json.dumps({
    "argv": sys.argv, "path": sys.path, "cwd": os.getcwd(), "env": dict(os.environ), "name": __name__,
    "group": os.getpgid(0), "umask": os.umask(0), "files": sorted(os.listdir("/proc/self/fd")),
    "interrupt": str(signal.getsignal(signal.SIGINT)), "end": str(signal.getsignal(signal.SIGTERM)),
    "threads": threading.active_count(), "errors": sys.stderr.errors, "direct": sys.stdout.write_through,
    "encoding": sys.stdout.encoding,
}))
"""


def run(code: str, *args: str, folder: Path, is_afresh: bool = False, **env: str) -> tuple[int, str]:
    with (folder / "log").open("w+") as log:
        files = {"stdout": log.fileno(), "stderr": log.fileno()}
        process = start(code, args, cwd=folder, env={**os.environ, **env}, is_afresh=is_afresh, **files)
        assert isinstance(process, Forked) is not is_afresh
        code_of_it = process.wait(60)
        log.seek(0)
        return code_of_it, log.read()


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_fork_is_told_apart_from_a_start_by_nothing_that_it_sees(tmp_path: Path, unbuffered: str) -> None:
    forked, afresh = (
        run(TELL, "a", "b c", folder=tmp_path, is_afresh=is_afresh, PYTHONUNBUFFERED=unbuffered, OWN="yes")
        for is_afresh in (False, True)
    )
    assert forked == afresh
    assert forked[0] == 0


@pytest.mark.parametrize(
    ("code", "said"), [("import sys; sys.exit(3)", ""), ("raise ValueError('no')", "ValueError: no"), ("print(1)", "1")]
)
def test_it_ends_as_a_start_does(tmp_path: Path, code: str, said: str) -> None:
    forked, afresh = (run(code, folder=tmp_path, is_afresh=is_afresh) for is_afresh in (False, True))
    assert forked[0] == afresh[0]
    assert said in forked[1]
    assert said in afresh[1]


def test_it_is_killed_by_its_id_and_says_so(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        out, sleep = log.fileno(), "import time; time.sleep(60)"
        process = start(sleep, [], cwd=tmp_path, env=os.environ, stdout=out, stderr=out)
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.05)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(10) == process.returncode == -signal.SIGKILL
    process.send_signal(signal.SIGTERM)  # to nobody


def test_no_two_draw_the_same(tmp_path: Path) -> None:
    drawn = [run("import random; print(random.random())", folder=tmp_path)[1] for _ in range(2)]
    assert drawn[0] != drawn[1]


def test_a_module_sees_the_modules_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "shown.py").write_text("import sys, beside; print(__name__, beside.x, sys.argv[1:]); sys.exit(4)")
    (tmp_path / "beside.py").write_text("x = 7")
    done = run_module("shown", ["one"], cwd=tmp_path, env=os.environ, timeout_s=30)
    assert (done.returncode, done.stdout, done.stderr) == (4, "__main__ 7 ['one']\n", "")


def test_a_command_that_goes_on_is_ended_in_time(tmp_path: Path) -> None:
    (tmp_path / "sleeps.py").write_text("import time; time.sleep(60)")
    begins_s = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        run_module("sleeps", [], cwd=tmp_path, env=os.environ, timeout_s=0.5)
    assert time.monotonic() - begins_s < 30

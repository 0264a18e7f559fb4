"""The demo: the review on two workers gives the report that it gives in one process, also when a worker is killed."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from examples.review.__main__ import review_here
from examples.review.graph import CHART_NAME, REPORT_NAME
from tests.acceptance.command_line import environment, lives, wait_until
from tests.acceptance.workers import REPOSITORY
from tests.servers import Server

QUICK = {"TENXGRAPH_LEASE_S": "2", "TENXGRAPH_HEARTBEAT_S": "0.5", "TENXGRAPH_SCAN_S": "0.2"}
WORDS = ("the", "tenant", "owner", "must", "may", "shall not", "pay", "keep", "rent", "house", "month", "dog", "garden")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Documents, long enough that workers can be met at work."""
    path = tmp_path / "documents"
    path.mkdir()
    draw = random.Random(7)
    for number in range(20):
        sentences = [" ".join(draw.choices(WORDS, k=9)).capitalize() + "." for _ in range(150)]
        (path / f"lease-{number:02d}.txt").write_text("\n".join(sentences))
    return path


@contextmanager
def demo(folder: Path, out: Path, server: Server) -> Iterator["subprocess.Popen[str]"]:
    """Run the demo on a store of the test's own, as `make demo` does."""
    command = [sys.executable, "-m", "examples.review", str(folder), "--out", str(out), "--workers", "2"]
    env = environment({**QUICK, "TENXGRAPH_REDIS_URL": f"redis://127.0.0.1:{server.port}/1", "PYTHONUNBUFFERED": "1"})
    with subprocess.Popen(
        command, cwd=REPOSITORY, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()  # a crew ends with its owner


def lines_until(process: "subprocess.Popen[str]", text: str) -> str:
    """Read its output up to a line with this text."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return "".join(lines)
    raise AssertionError("".join(lines))


def a_worker(process: "subprocess.Popen[str]") -> psutil.Process:
    """The main process of one of its workers."""
    children = psutil.Process(process.pid).children()
    return next(child for child in children if {"worker", "--name"} <= set(child.cmdline()))


def report_of(folder: Path, out: Path) -> tuple[str, str]:
    """What the review gives in this process: the report and its chart."""
    review_here(folder, out, Console(file=StringIO()))
    return read(out)


def read(out: Path) -> tuple[str, str]:
    """Read the report, without the line with its date, and its chart."""
    lines = (out / REPORT_NAME).read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("Reviewed on ")), (out / CHART_NAME).read_text()


def test_a_worker_that_is_killed_in_the_middle_changes_nothing_but_the_length(
    folder: Path, tmp_path: Path, valkey_server: Server
) -> None:
    out = tmp_path / "out"
    with demo(folder, out, valkey_server) as process:
        said = lines_until(process, "✓")
        family = psutil.Process(process.pid).children(recursive=True)
        os.kill(a_worker(process).pid, signal.SIGKILL)
        said += lines_until(process, "starting it again")
        assert "Writing the report" not in said
        said += lines_until(process, "The report: ")
        assert process.wait(60) == 0

    assert "Flower shows the tasks while they run: http://127.0.0.1:" in said
    assert f"The report: {out / REPORT_NAME}\n" in said
    wait_until(lambda: not any(map(lives, family)), "nothing is left running")
    assert read(out) == report_of(folder, tmp_path / "here")

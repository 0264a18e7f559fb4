"""Processes that need not import: a template has done it once for each pytest process, and forks.

What is started so is a process of its own, with its own id, environment, folder and output, and dies as any other.
Two things it shares with its siblings, and a test of either needs a real start: the seed of string hashes (the test's
own process has another one), and that importing worked. The template has no thread and no connection, and nothing of
what it imports reads the environment at import.
"""

import atexit
import gc
import importlib
import io
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from types import CodeType
from typing import Any, Final

REPOSITORY: Final = Path(__file__).parents[1]
_SERVE: Final = "import sys; from tests.template import serve; exec(serve(int(sys.argv[1])))"
_LOOK_S: Final = 0.01
# A started interpreter has read these; who wants others needs a start.
_OF_THE_INTERPRETER: Final = ("PYTHON", "LC_", "LANG", "TZ")
_UNBUFFERED: Final = "PYTHONUNBUFFERED"
_IMPORTED: Final = (
    "celery.app.amqp",
    "celery.app.control",
    "celery.app.events",
    "celery.app.log",
    "celery.apps.worker",
    "celery.backends.redis",
    "celery.bin.celery",
    "celery.concurrency.prefork",
    "celery.concurrency.solo",
    "celery.concurrency.thread",
    "celery.fixups.django",
    "celery.loaders.app",
    "celery.worker.autoscale",
    "celery.worker.consumer",
    "celery.worker.strategy",
    "kombu.transport.redis",
    "redis.asyncio",
    "tenxgraph.testing.oracle",
    "tenxgraph_scheduler.reconciler",
    "tenxgraph_worker.cli.main",
    "tenxgraph_worker.app",
    "tests.acceptance.graphs",
    "tests.graphs.suite",
)


class Forked:
    """A process of the template's, with what :class:`subprocess.Popen` has for it."""

    def __init__(self, template: "Template", pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._template = template
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Return the exit code once it has ended; it stays a zombie until somebody has looked."""
        with self._lock:
            if self.returncode is None:
                self.returncode = self._template.ask({"poll": self.pid})
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        Raises:
            subprocess.TimeoutExpired: It goes on.
        """
        ends_s = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if ends_s is not None and timeout is not None and time.monotonic() > ends_s:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(_LOOK_S)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Template:
    """The client's side of a template."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SERVE, str(theirs.fileno())], cwd=REPOSITORY, pass_fds=[theirs.fileno()]
            )
        self._answers = self._socket.makefile("rb")
        atexit.register(self.end)

    def fork(
        self,
        code: str,
        args: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdout: int,
        stderr: int,
        is_module: bool = False,
    ) -> Forked:
        """Start ``python -c CODE ARGS``, or ``-m``."""
        words: dict[str, Any] = {"code": code, "args": args, "cwd": str(cwd), "env": dict(env)}
        return Forked(self, self.ask(words | {"is_module": is_module}, stdout, stderr))

    def ask(self, request: Mapping[str, Any], *descriptors: int) -> Any:
        with self._lock:
            socket.send_fds(self._socket, [b"\n"], descriptors)
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            answer = self._answers.readline()
        assert answer, f"The template of processes ended with {self._process.wait()}."
        return json.loads(answer)

    def end(self) -> None:
        """Let it go; what it forked goes on."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._process.wait()


@cache
def _template() -> Template:
    return Template()


def start(
    code: str,
    args: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdout: int,
    stderr: int,
    is_afresh: bool = False,
) -> "Forked | subprocess.Popen[bytes]":
    """Start ``python -c CODE ARGS`` from the template; afresh if told to, or if only that can do what ``env`` says."""
    if is_afresh or _fixed(env) != _fixed(os.environ):
        return subprocess.Popen([sys.executable, "-c", code, *args], cwd=cwd, env=env, stdout=stdout, stderr=stderr)
    return _template().fork(code, args, cwd=cwd, env=env, stdout=stdout, stderr=stderr)


def run_module(
    module: str, args: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout_s: float
) -> "subprocess.CompletedProcess[str]":
    """Run ``python -m MODULE ARGS`` from the template to its end; return what it said."""
    assert _fixed(env) == _fixed(os.environ), "it needs an interpreter of its own"
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        process = _template().fork(
            module, args, cwd=cwd, env=env, stdout=out.fileno(), stderr=err.fileno(), is_module=True
        )
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess([module, *args], code, out.read(), err.read())


def _fixed(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_OF_THE_INTERPRETER) and name != _UNBUFFERED}


# -- in the template


def serve(descriptor: int) -> CodeType:
    """Fork for each request; return, in the child, the code that it must execute."""
    for name in _IMPORTED:
        importlib.import_module(name)
    assert threading.active_count() == 1, threading.enumerate()
    gc.collect()
    gc.freeze()
    # Ctrl-C is for the tests, which end this by closing their end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked = socket.socket(fileno=descriptor)
    requests = asked.makefile("rb")
    while True:
        _, descriptors, _, _ = socket.recv_fds(asked, 1, 2)
        line = requests.readline()
        if not line:
            sys.exit()
        request = json.loads(line)
        if "poll" in request:
            answer = _ended(request["poll"])
        elif not (answer := os.fork()):
            requests.close()
            asked.close()
            return _become(request, descriptors)
        for number in descriptors:
            os.close(number)
        asked.sendall(json.dumps(answer).encode() + b"\n")


def _ended(pid: int) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def _become(request: Mapping[str, Any], descriptors: Sequence[int]) -> CodeType:
    """Make of a fork what a start with these words would be."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, target in zip(descriptors, (1, 2), strict=True):
        os.dup2(number, target)
        os.close(number)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    is_buffered = not os.environ.get(_UNBUFFERED)
    out, err = _text(1, is_buffered, "strict"), _text(2, is_buffered, "backslashreplace")
    vars(sys).update(stdout=out, __stdout__=out, stderr=err, __stderr__=err)
    random.seed()
    code: str = request["code"]
    if not request["is_module"]:
        sys.argv[:] = ["-c", *request["args"]]
        return compile(code, "<string>", "exec")
    sys.path[0] = str(Path.cwd())
    sys.argv[:] = ["-m", *request["args"]]
    run = f"import runpy; runpy.run_module({code!r}, run_name='__main__', alter_sys=True)"
    return compile(run, "<string>", "exec")


def _text(number: int, is_buffered: bool, errors: str) -> io.TextIOWrapper:
    binary = open(number, "wb", -1 if is_buffered else 0, closefd=False)  # noqa: SIM115
    encoding, is_direct = sys.stdout.encoding, not is_buffered
    return io.TextIOWrapper(binary, encoding, errors, line_buffering=number == 2, write_through=is_direct)

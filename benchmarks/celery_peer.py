"""A crew of plain Celery workers on the same server as ours, and a client that waits by BRPOP."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import redis

ROOT = Path(__file__).resolve().parents[1]
PATIENCE_S = 120
END_S = 15.0
DATABASE = 1


class CeleryPeer:
    """Begins runs and waits for their end.

    Args:
        url: Of its database.
        tasks: The module of tasks, once its environment is set.
    """

    def __init__(self, url: str, tasks: ModuleType) -> None:
        self._client: Any = redis.Redis.from_url(url, socket_timeout=None)
        self.tasks: Any = tasks

    def begin(self, task: Any, *args: Any) -> str:
        """Enqueue a run's first task and return the run's name."""
        run = uuid4().hex
        task.apply_async((run, *args))
        return run

    def wait(self, run: str) -> None:
        """Return once the run has told its end, and forget it."""
        if self._client.brpop(f"done:{run}", PATIENCE_S) is None:
            raise TimeoutError(f"Celery's run {run} has not ended within {PATIENCE_S} s.")
        self._client.unlink(f"history:{run}", f"left:{run}")

    def do(self, task: Any, *args: Any) -> None:
        """Run one to its end."""
        self.wait(self.begin(task, *args))

    def do_all(self, number: int, task: Any, *args: Any) -> None:
        """Run as many at once."""
        for run in [self.begin(task, *args) for _ in range(number)]:
            self.wait(run)

    def fill(self, run: str, items: Sequence[str]) -> None:
        """Give a run a history before it begins."""
        for first in range(0, len(items), 1000):
            self._client.rpush(f"history:{run}", *items[first : first + 1000])

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        self.tasks.app.close()


@contextmanager
def own_celery(
    redis_url: str, *, pool: str = "prefork", concurrency: int = 2, workers: int = 1, late: bool = False
) -> Iterator[CeleryPeer]:
    """Run plain Celery workers beside ours: same server, another database.

    Args:
        redis_url: Our store's.
        pool: Celery's.
        concurrency: Tasks at once in a worker.
        workers: How many of them.
        late: Acknowledge after the task and fetch one at a time; else as Celery does by default.
    """
    url = f"{redis_url.rsplit('/', 1)[0]}/{DATABASE}"
    env = {**os.environ, "BENCH_BROKER_URL": url, **({"BENCH_ACKS_LATE": "1"} if late else {})}
    os.environ["BENCH_BROKER_URL"] = url
    processes = [_worker(number, pool, concurrency, env) for number in range(workers)]
    try:
        from benchmarks import celery_tasks  # it reads the broker's URL when it is imported

        celery_tasks.app.conf.update(broker_url=url, result_backend=url)
        celery_tasks.app.amqp._producer_pool = None  # type: ignore[attr-defined]  # an earlier peer's is of another server
        peer = CeleryPeer(url, celery_tasks)
        try:
            peer.do_all(8 * workers, celery_tasks.hop, 0, 4)
            yield peer
        finally:
            peer.close()
    finally:
        _end(processes)


def _worker(number: int, pool: str, concurrency: int, env: dict[str, str]) -> "subprocess.Popen[bytes]":
    words = ["-m", "celery", "-A", "benchmarks.celery_tasks", "worker", "-P", pool, "-c", str(concurrency)]
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "ERROR", "-n", f"peer-{number}@bench"]
    return subprocess.Popen(
        [sys.executable, *words, *quiet],
        env=env,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _end(processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    for process in processes:
        process.send_signal(signal.SIGTERM)
    for process in processes:
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

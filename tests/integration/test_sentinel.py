"""A primary, its replica and a sentinel; workers by a sentinel:// URL. Real servers and real workers."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tenxgraph.core.exceptions import StorageError
from tenxgraph.core.graph import RunStatus
from tenxgraph.core.graph.run_handle import RunHandle
from tenxgraph.core.state import Message
from tenxgraph.core.state.image import Version
from tenxgraph.settings import Settings
from tenxgraph.store.base import Dispatch, Overdue, TaskRef
from tenxgraph.store.redis import redis_store
from tenxgraph_scheduler.broker import broker_url, make_celery
from tenxgraph_scheduler.dispatch import CeleryDispatcher
from tenxgraph_scheduler.queue_view import QueueView
from tenxgraph_worker.embedded.check import check_server
from tests.acceptance import graphs
from tests.acceptance.workers import Deployment, wait_until
from tests.servers import RedisServer, client_of, free_port, running

pytestmark = [pytest.mark.timeout(180), pytest.mark.redis_server]

SERVICE = "mymaster"
COMPLETED = (RunStatus.COMPLETED, ["n0", "n1", "n2"])
_FAILOVER_S = 60.0
_CLI = "import sys; from tenxgraph_worker.cli.main import main; sys.exit(main())"


class Member(RedisServer):
    """The primary, or a replica of it."""

    def __init__(self, folder: Path, of_port: int | None = None) -> None:
        folder.mkdir()
        super().__init__(folder)
        self._of_port = of_port

    def _command(self) -> list[str]:
        replica = [] if self._of_port is None else ["--replicaof", "127.0.0.1", str(self._of_port)]
        return [*super()._command(), "--repl-diskless-sync-delay", "0", *replica]


class Sentinel(RedisServer):
    """One that alone decides."""

    def __init__(self, folder: Path, primary_port: int) -> None:
        folder.mkdir()
        super().__init__(folder)
        (folder / "sentinel.conf").write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {folder}\n"
            f"sentinel monitor {SERVICE} 127.0.0.1 {primary_port} 1\n"
            f"sentinel down-after-milliseconds {SERVICE} 500\n"
            f"sentinel failover-timeout {SERVICE} 3000\n"
        )

    def _command(self) -> list[str]:
        return [super()._command()[0], str(self.folder / "sentinel.conf"), "--sentinel"]


@dataclass
class Group:
    primary: Member
    replica: Member
    sentinel: Sentinel

    def url(self, login: str = "", options: str = "") -> str:
        # The first sentinel is away: the second is asked.
        return f"sentinel://{login}127.0.0.1:{free_port()},127.0.0.1:{self.sentinel.port}/2?service={SERVICE}{options}"

    def primary_port(self) -> int:
        with client_of(self.sentinel.port) as client:
            return int(client.sentinel_master(SERVICE)["port"])

    def is_whole(self) -> bool:
        with client_of(self.replica.port) as replica, client_of(self.sentinel.port) as sentinel:
            linked = replica.info("replication")["master_link_status"] == "up"
            return linked and int(sentinel.sentinel_master(SERVICE)["num-slaves"]) == 1


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    with ExitStack() as stack:
        primary = Member(tmp_path / "primary")
        stack.enter_context(running(primary))
        replica = Member(tmp_path / "replica", primary.port)
        stack.enter_context(running(replica))
        sentinel = Sentinel(tmp_path / "sentinel", primary.port)
        stack.enter_context(running(sentinel))
        made = Group(primary, replica, sentinel)
        # A sentinel reads the list of replicas from the primary every ten seconds.
        wait_until(made.is_whole, "a replica that the sentinel knows and that is in step", _FAILOVER_S)
        yield made


@pytest.fixture
def deployment(group: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    made = Deployment(group.url(), tmp_path)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    yield made
    made.end()


def _start_worker(deployment: Deployment) -> None:
    """Start one as people do, by the command."""
    words = ("worker", "tests.acceptance.graphs:chain", "--pool", "threads", "--concurrency", "2")
    deployment.start("worker", _CLI, *words).wait_for_log("is ready")


def _submit(message_id: str) -> RunHandle[graphs.Notes]:
    return graphs.chain.compile().submit({"messages": [Message.text_message("hello", message_id=message_id)]})


def _supervised_result(deployment: Deployment, run: RunHandle[graphs.Notes]) -> dict[str, Any]:
    """Wait for a run; start again what ends meanwhile, as a supervisor would."""
    for _ in range(40):
        with suppress(TimeoutError):
            return run.result(timeout_s=1, response_granularity="full")
        if not any(process.is_alive() for process in deployment.processes if "worker" in process.log_path.name):
            _start_worker(deployment)
    raise AssertionError(f"The run did not end.\n{deployment.logs()}")


def test_runs_go_on_at_the_promoted_replica(group: Group, deployment: Deployment) -> None:
    assert check_server(deployment.url).flavour == "Redis"
    scheduler = deployment.start_scheduler()
    _start_worker(deployment)
    first = _submit("m1").result(timeout_s=30, response_granularity="full")
    assert (first["status"], first["state"].notes) == COMPLETED

    group.primary.kill()
    wait_until(lambda: group.primary_port() == group.replica.port, "a failover", _FAILOVER_S)

    second = _supervised_result(deployment, _submit("m2"))
    assert (second["status"], second["state"].notes) == COMPLETED
    assert scheduler.is_alive(), scheduler.log


def test_events_are_followed_on_a_loop_through_the_sentinel(group: Group) -> None:
    store = redis_store(group.url(), Settings())

    async def read() -> list[Any]:
        return list(await store.aevents("thread", "run", "", timeout_s=0))

    assert asyncio.run(read()) == []


def test_a_service_that_no_sentinel_watches_is_named(group: Group) -> None:
    url = group.url().replace(SERVICE, "other")
    with pytest.raises(StorageError, match="No master found for 'other'"):
        check_server(url)
    with pytest.raises(StorageError, match="The store at other behind its sentinels is out of reach"):
        redis_store(url, Settings()).now_ms()


def test_queues_are_seen_through_the_sentinel(group: Group) -> None:
    settings = Settings(redis_url=group.url())
    app = make_celery(settings, broker_url(settings))
    queues = QueueView(app, settings)
    dispatch = Dispatch(TaskRef("t", "r", 1, "0", 1), "n", "", 0, "g", "v", Version(1, "nonce"))

    assert queues.is_lost(Overdue(dispatch, 1))

    publish = CeleryDispatcher(lambda: app, settings, now_ms=lambda: 1)
    publish([dispatch])
    publish.close()
    queues.begin_scan()
    assert not queues.is_lost(Overdue(dispatch, 1))


def test_logins_go_to_whom_they_are_for(group: Group) -> None:
    for port, user in ((group.primary.port, "me"), (group.sentinel.port, "it")):
        with client_of(port) as client:
            client.acl_setuser(user, enabled=True, passwords=[f"+p@ss {user}"], keys=["*"], categories=["+@all"])
    url = group.url("me:p%40ss%20me@", "&sentinel_username=it&sentinel_password=p%40ss+it")

    assert check_server(url).flavour == "Redis"
    assert redis_store(url, Settings()).now_ms() > 0
    for wrong in (url.replace("%20me", "%20it"), url.replace("+it", "+me")):
        with pytest.raises(StorageError) as caught:
            check_server(wrong)
        assert "p%40ss" not in str(caught.value)
        assert "p@ss" not in str(caught.value)

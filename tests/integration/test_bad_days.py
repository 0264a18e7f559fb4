"""The store has a bad day: full, read-only, slow, cut off, elsewhere, locked. Real servers and real workers."""

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis

from tenxgraph.core.exceptions import StorageError
from tenxgraph.core.graph import RunStatus
from tenxgraph.core.state import Message
from tenxgraph.core.state.image import Patch
from tenxgraph.store.base import TaskStatus
from tenxgraph.testing.contract.harness import StoreMoves
from tests.acceptance import graphs
from tests.acceptance.workers import Deployment, Process, wait_until
from tests.servers import RedisHarness, RedisServer, client_of, free_port, running

pytestmark = [pytest.mark.timeout(180), pytest.mark.redis_server]

HELLO = {"messages": [Message.text_message("hello", message_id="m1")]}
FULL = "full"
_NO_ROOM = 1
_CLI = "import sys; from tenxgraph_worker.cli.main import main; sys.exit(main())"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server of the test's own, for it is not treated well."""
    with running(RedisServer(tmp_path)) as started:
        assert isinstance(started, RedisServer)
        yield started


@pytest.fixture
def client(server: RedisServer) -> "Iterator[redis.Redis]":
    with client_of(server.port) as made:
        yield made


@pytest.fixture
def deploy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Deployment]]:
    """Makes an installation on a URL; the test's own process is a client of it."""
    made: list[Deployment] = []

    def make(url: str, **settings: str) -> Deployment:
        deployment = Deployment(url, tmp_path, settings)
        made.append(deployment)
        for name, value in deployment.environment.items():
            monkeypatch.setenv(name, value)
        return deployment

    yield make
    for deployment in made:
        deployment.end()


@pytest.fixture
def deployment(deploy: Callable[..., Deployment], server: RedisServer) -> Deployment:
    return deploy(_url(server))


def _url(server: RedisServer, login: str = "") -> str:
    return f"redis://{login}127.0.0.1:{server.port}/0"


def _tell(client: "redis.Redis", *words: object) -> Any:
    tell: Callable[..., Any] = client.execute_command
    return tell(*words)


def _start_worker(deployment: Deployment, *names: str) -> Process:
    """Start one as people do, by the command."""
    places = [f"tests.acceptance.graphs:{name}" for name in names]
    worker = deployment.start("worker", _CLI, "worker", *places, "--pool", "threads", "--concurrency", "2")
    worker.wait_for_log("is ready")
    return worker


def _runs_a_chain(deployment: Deployment) -> None:
    deployment.start_scheduler()
    deployment.start_worker("chain")
    result = graphs.chain.compile().submit(HELLO).result(timeout_s=60, response_granularity=FULL)
    assert (result["status"], result["state"].notes) == (RunStatus.COMPLETED, ["n0", "n1", "n2"])


# -- the store refuses, one script at a time


class OnAServer(StoreMoves):
    def __init__(self, client: "redis.Redis") -> None:
        self.harness = RedisHarness(client)


@contextmanager
def _full(client: "redis.Redis") -> Iterator[None]:
    client.config_set("maxmemory", _NO_ROOM)
    try:
        yield
    finally:
        client.config_set("maxmemory", 0)


@contextmanager
def _read_only(client: "redis.Redis") -> Iterator[None]:
    _tell(client, "REPLICAOF", "127.0.0.1", free_port())
    try:
        yield
    finally:
        _tell(client, "REPLICAOF", "NO", "ONE")


REFUSALS = {"out of memory": _full, "read-only replica": _read_only}


def _all_keys(client: "redis.Redis") -> dict[bytes, Any]:
    keys: Any = client.keys("*")
    return {key: client.dump(key) for key in sorted(keys)}


@pytest.mark.parametrize("why", REFUSALS)
def test_a_store_that_refuses_does_nothing_by_half_and_goes_on_afterwards(why: str, client: "redis.Redis") -> None:
    moves = OnAServer(client)
    first, second = moves.begin_and_claim("a", "b")
    alone = moves.start("r2", "t2")
    patch = Patch({"topic": b"x"}, {"log": (b"a line",)})
    writes: dict[str, Callable[[], Any]] = {
        "commit": lambda: moves.commit(first, b"x" * 1000, b"event"),
        "advance": lambda: moves.advance(alone, "c", nonce="n", patch=patch),
        "settle": lambda: moves.settle(second, TaskStatus.FAILED, error=b"boom"),
        "stop": moves.stop,
        "admit": lambda: moves.admit("r3", "t3"),
    }
    with REFUSALS[why](client):
        before = _all_keys(client)
        for name, write in writes.items():
            with pytest.raises(StorageError, match=why):
                write()
            assert _all_keys(client) == before, name
    for name in ("commit", "advance", "admit"):
        assert writes[name]() is not None, name
    assert moves.task_statuses() == {"0": TaskStatus.COMMITTED, "1": TaskStatus.CLAIMED}
    assert moves.view("r2").version == 1


def test_a_full_store_is_made_room_in_by_deleting(client: "redis.Redis") -> None:
    moves = OnAServer(client)
    moves.finish(moves.start(), patch=Patch({"topic": b"x" * 10_000}))
    with _full(client):
        assert moves.view().status is RunStatus.COMPLETED
        assert moves.store.delete_thread("t1")
    assert not client.keys("*")


# -- the store refuses in the middle of a run


@pytest.mark.parametrize("why", REFUSALS)
def test_a_result_in_hand_waits_for_a_store_that_refuses(
    why: str, deployment: Deployment, client: "redis.Redis"
) -> None:
    deployment.start_scheduler()
    worker = _start_worker(deployment, "slow", "chain")
    handle = graphs.slow.compile().submit(HELLO, {"thread_id": "a"})
    wait_until(lambda: len(deployment.ledger) == 1, "the node started")
    with REFUSALS[why](client):
        deployment.let_go()
        wait_until(lambda: len(deployment.ledger) == 2, "the node ended while the store refused")
        with pytest.raises(StorageError, match=why):
            graphs.chain.compile().submit(HELLO, {"thread_id": "b"})
        wait_until(lambda: why in worker.log, f"the worker says why it waits:\n{worker.log}")
    result = handle.result(timeout_s=60, response_granularity=FULL)
    assert (result["status"], result["state"].notes) == (RunStatus.COMPLETED, ["slow"])
    assert [words[0] for words in deployment.ledger] == ["start", "end"]
    again = graphs.chain.compile().submit(HELLO, {"thread_id": "b"})
    wait_until(lambda: again.status() is RunStatus.COMPLETED or not worker.is_alive(), "it goes on, or ends")
    if not worker.is_alive():  # Celery ends a worker whose primary became a replica; its supervisor has it back
        assert worker.popen.returncode == 1, worker.log
        _start_worker(deployment, "chain")
    assert again.result(timeout_s=60)["status"] is RunStatus.COMPLETED


def test_a_slow_store_makes_a_run_slow_and_nothing_else(deployment: Deployment, client: "redis.Redis") -> None:
    deployment.start_scheduler()
    deployment.start_worker("long_chain")
    handle = graphs.long_chain.compile().submit(HELLO, {"thread_id": "a"})
    for _ in range(3):
        _tell(client, "CLIENT", "PAUSE", 700, "ALL")
        client.ping()  # answered when the pause is over
    state = handle.result(timeout_s=60, response_granularity=FULL)["state"]
    assert state.notes == [f"n{number}" for number in range(20)]


def test_case_b_all_connections_cut_in_a_node_and_it_counts_once(deployment: Deployment, client: "redis.Redis") -> None:
    deployment.start_scheduler()
    deployment.start_worker("slow", "chain")
    handle = graphs.slow.compile().submit(HELLO, {"thread_id": "a"})
    wait_until(lambda: len(deployment.ledger) == 1, "the node started")
    for kind in ("normal", "pubsub"):
        _tell(client, "CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
    deployment.let_go()
    assert handle.result(timeout_s=60, response_granularity=FULL)["state"].notes == ["slow"]
    assert [words[0] for words in deployment.ledger] == ["start", "end"]
    assert graphs.chain.compile().submit(HELLO).result(timeout_s=60)["status"] is RunStatus.COMPLETED


# -- elsewhere, and locked


def test_broker_and_store_may_be_two_servers(deploy: Callable[..., Deployment], server: RedisServer) -> None:
    folder = server.folder / "broker"
    folder.mkdir()
    with running(RedisServer(folder)) as broker, client_of(broker.port) as queue, client_of(server.port) as store:
        deployment = deploy(_url(server), BROKER_URL=f"redis://127.0.0.1:{broker.port}/0")
        _runs_a_chain(deployment)
        assert not queue.keys(f"{deployment.settings['KEY_PREFIX']}:*")
        assert not store.keys("_kombu*")
        deployment.end()


def test_a_server_with_a_password(
    deploy: Callable[..., Deployment], server: RedisServer, client: "redis.Redis"
) -> None:
    client.config_set("requirepass", "s3cret/%")
    _runs_a_chain(deploy(_url(server, ":s3cret%2F%25@")))


BROKER_KEYS = ("tg*", "_kombu.*", "unacked*", "*.celery.pidbox*", "*.reply.celery.pidbox", "celeryev*", "celery*")
BROKER_CHANNELS = ("/0.celery.pidbox", "/0.reply.celery.pidbox", "/0.celeryev/*")
"""A pattern that is subscribed to must be allowed word for word: ``/0.*`` would not do."""

BROKER_COMMANDS = (
    "brpop lpush rpush rpop llen hset hget hdel zadd zrem zrange zrangebyscore set get del exec multi watch unwatch "
    "evalsha script|load script|exists sadd srem smembers publish psubscribe punsubscribe hello ping time expire "
    "pexpire"
)
STORE_COMMANDS = (
    "hgetall hmget hlen hincrby lindex lrange lrem zcard zscore zrevrange xadd xrange xrevrange xread "
    "rename unlink exists type rpushx info persist pexpireat"
)
"""What the scripts and the store's readers use beyond it."""


def test_a_user_who_may_do_no_more_than_the_role_says(
    deploy: Callable[..., Deployment], server: RedisServer, client: "redis.Redis"
) -> None:
    rules = [
        *("reset", "on", ">pw", "resetchannels"),
        *(f"&{channel}" for channel in BROKER_CHANNELS),
        *(f"~{pattern}" for pattern in BROKER_KEYS),
        *(f"+{command}" for command in f"{BROKER_COMMANDS} {STORE_COMMANDS}".split()),
    ]
    _tell(client, "ACL", "SETUSER", "runner", *rules)
    try:
        _runs_a_chain(deploy(_url(server, "runner:pw@")))
    finally:
        refused = _tell(client, "ACL", "LOG")
        assert not refused, refused


# -- TLS


@dataclass(frozen=True)
class Certificates:
    """Made for the length of a test.

    Attributes:
        ca: Signs the other; clients must be told of it.
    """

    ca: Path
    certificate: Path
    key: Path


def _openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def _make_certificates(folder: Path) -> Certificates:
    ca, ca_key, key = folder / "ca.crt", folder / "ca.key", folder / "server.key"
    request, certificate, extension = folder / "server.csr", folder / "server.crt", folder / "names"
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    _openssl("req", "-x509", *new_key, "-keyout", ca_key, "-out", ca, "-days", "2", "-subj", "/CN=test ca")
    _openssl("req", *new_key, "-keyout", key, "-out", request, "-subj", "/CN=localhost")
    extension.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1")
    signed_by = ("-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-days", "2", "-extfile", extension)
    _openssl("x509", "-req", "-in", request, *signed_by, "-out", certificate)
    return Certificates(ca, certificate, key)


class TlsServer(RedisServer):
    """A server that speaks TLS on one port, and plainly on another for the test."""

    def __init__(self, folder: Path, certificates: Certificates) -> None:
        super().__init__(folder)
        self.tls_port = free_port()
        self._certificates = certificates

    def _command(self) -> list[str]:
        made = self._certificates
        options: Sequence[object] = (
            *("--tls-port", self.tls_port, "--tls-auth-clients", "no", "--tls-ca-cert-file", made.ca),
            *("--tls-cert-file", made.certificate, "--tls-key-file", made.key),
        )
        return [*super()._command(), *map(str, options)]


def test_a_server_behind_tls_is_a_url(tmp_path: Path, deploy: Callable[..., Deployment]) -> None:
    certificates = _make_certificates(tmp_path)
    server = TlsServer(tmp_path, certificates)
    with running(server):
        deployment = deploy(f"rediss://localhost:{server.tls_port}/0?ssl_ca_certs={certificates.ca}")
        _runs_a_chain(deployment)
        deployment.end()


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path, deploy: Callable[..., Deployment]) -> None:
    server = TlsServer(tmp_path, _make_certificates(tmp_path))
    with running(server):
        deploy(f"rediss://localhost:{server.tls_port}/0")
        with pytest.raises(StorageError, match="CERTIFICATE_VERIFY_FAILED"):
            graphs.chain.compile().submit(HELLO)


def test_a_url_of_sentinels_without_a_service_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "TENXGRAPH_REDIS_URL", "sentinel://127.0.0.1:26379/0")
    with pytest.raises(Exception, match=r"TENXGRAPH_REDIS_URL: must be sentinel://.* names no service"):
        graphs.chain.compile().submit(HELLO)

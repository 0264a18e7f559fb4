"""Whatever dies, on real workers: nothing lost, nothing twice, nothing stuck. Letters are those of the known cases."""

import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis

from tenxgraph.core.exceptions import NodeError, StorageError
from tenxgraph.core.graph import RunStatus
from tenxgraph.core.state import Message
from tenxgraph.settings import Settings
from tenxgraph.store.base import TaskStatus
from tenxgraph.store.redis import RedisStore, redis_store
from tenxgraph.wire import Failure
from tenxgraph_scheduler.broker import make_celery
from tenxgraph_worker.cli.main import main
from tests.acceptance import graphs
from tests.acceptance import recovery_graphs as dying
from tests.acceptance.workers import Deployment, Process, wait_until
from tests.servers import EmbeddedValkey, client_of, running

pytestmark = pytest.mark.timeout(180)

HELLO = {"messages": [Message.text_message("hello", message_id="m1")]}
FULL = "full"
DYING = "tests.acceptance.recovery_graphs"
SHORT = {"LEASE_S": "1", "HEARTBEAT_S": "0.2", "SCAN_S": "0.2"}

_SHORT_VISIBILITY = """
import sys
from tenxgraph.settings import Settings
from tenxgraph_worker import make_app
app = make_app(Settings.load(), sys.argv[1].split(","))
options = {"visibility_timeout": 1, "unacked_restore_interval": 1}
app.conf.broker_transport_options = {**app.conf.broker_transport_options, **options}
app.worker_main(["worker", *sys.argv[2:]])
"""


def set_up(deployment: Deployment, monkeypatch: pytest.MonkeyPatch, **settings: str) -> None:
    deployment.settings.update(settings)
    for name, value in deployment.environment.items():
        monkeypatch.setenv(name, value)


def store_of(deployment: Deployment) -> RedisStore:
    return redis_store(deployment.settings["REDIS_URL"], Settings.load())


def let_pass(seconds: float) -> None:
    ends_s = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() > ends_s, f"{seconds} s are over", seconds + 5)


def counts(deployment: Deployment) -> Counter[str]:
    return Counter(line[0] for line in deployment.ledger)


def start_dying(deployment: Deployment, *names: str, pool: str = "threads", concurrency: int = 2) -> Process:
    places = [f"{DYING}:{name}" for name in names]
    return deployment.start_worker(*places, pool=pool, concurrency=concurrency)


# -- A


def test_a_node_of_four_leases_and_visibility_timeouts_runs_once(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(deployment, monkeypatch, **SHORT)
    deployment.start_scheduler()
    places = f"{DYING}:blocking,{DYING}:asynchronous"
    for number in range(2):
        options = f"-P threads -c 2 -n w{number}@localhost -l INFO --without-gossip --without-mingle"
        deployment.start("worker", _SHORT_VISIBILITY, places, *options.split()).wait_for_log(" ready.")
    handles = [graph.compile().submit(HELLO) for graph in (dying.blocking, dying.asynchronous)]
    states = [handle.result(timeout_s=60, response_granularity=FULL)["state"] for handle in handles]
    assert [state.notes for state in states] == [["blocking"], ["async"]]
    assert Counter(map(tuple, deployment.ledger)) == {
        (word, kind): 1 for word in ("start", "end") for kind in ("blocking", "async")
    }
    assert [len(store_of(deployment).checkpoints(handle.thread_id, limit=9)) for handle in handles] == [2, 2]


# -- B


@pytest.mark.parametrize("broker_is", ["the store", "another"])
def test_a_worker_killed_at_any_point_loses_nothing_and_repeats_nothing_committed(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, broker_is: str
) -> None:
    store_url = deployment.settings["REDIS_URL"]
    broker = {"BROKER_URL": f"{store_url.rpartition('/')[0]}/9"} if broker_is == "another" else {}
    set_up(deployment, monkeypatch, **SHORT, **broker)
    if not broker:
        monkeypatch.setenv(dying.SENDS_ITSELF, "1")
    deployment.start_scheduler()
    team = [start_dying(deployment, "five") for _ in range(2)]
    for point in dying.POINTS:
        handle = dying.five.compile().submit(HELLO, {"thread_id": point})
        state = handle.result(timeout_s=30, response_granularity=FULL)["state"]
        assert (state.notes, state.total) == ([f"n{number}" for number in range(5)], 5), point
        assert not all(worker.is_alive() for worker in team), f"nobody died: {point}"
        team = [worker if worker.is_alive() else start_dying(deployment, "five") for worker in team]
        check_recovery(deployment, point)


def check_recovery(deployment: Deployment, point: str) -> None:
    told = [line for line in deployment.ledger if line[1] == point.replace(" ", "-")]
    again = {"n2"} if point in ("in the node", "before the commit") else set[str]()
    assert Counter(line[0] for line in told) == {f"n{n}": 2 if f"n{n}" in again else 1 for n in range(5)}, point
    died_s = (deployment.folder / f"died {point}").stat().st_mtime
    recovered_s = min(float(line[2]) for line in told if float(line[2]) > died_s)
    assert recovered_s - died_s <= float(SHORT["LEASE_S"]) + float(SHORT["SCAN_S"]) + 2, point


# -- C


def test_a_task_that_kills_its_worker_is_dead_after_three_and_replayed_after_the_fix(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up(deployment, monkeypatch, **SHORT)
    deployment.start_scheduler()
    start_dying(deployment, "killing", pool="prefork")
    handle = dying.killing.compile().submit(HELLO, {"thread_id": "T"})
    with pytest.raises(NodeError, match="node 'b' died with its worker 3 times") as caught:
        handle.result(timeout_s=60)
    assert (caught.value.node, caught.value.error_code) == ("b", "NODE_DIED")
    store = store_of(deployment)
    run = store.run(handle.run_id)
    assert run is not None
    assert (run.status, Failure.from_json(run.error).node) == (RunStatus.DEAD, "b")
    statuses = {task.node: task.status for task in store.tasks(handle.run_id)}
    assert statuses == {"a": TaskStatus.COMMITTED, "b": TaskStatus.PARKED, "c": TaskStatus.COMMITTED}
    thread = store.thread("T")
    assert thread is not None
    assert (thread.active, thread.continuable) == ("", handle.run_id)

    assert main(["runs", "dead", "--json"]) == 0
    assert [row["run_id"] for row in json.loads(capsys.readouterr().out)] == [handle.run_id]
    (deployment.folder / "mended").touch()
    assert main(["runs", "replay", handle.run_id, "--json"]) == 0
    replayed = dying.killing.compile().get_run(json.loads(capsys.readouterr().out)["run_id"])
    state = replayed.result(timeout_s=30, response_granularity=FULL)["state"]
    assert state.notes == ["split", "a", "b", "c", "join"]
    assert counts(deployment) == {"split": 1, "a": 1, "b": 4, "c": 1, "join": 1}
    assert dying.killing.compile().invoke(HELLO, {"thread_id": "T"})["status"] is RunStatus.COMPLETED


def test_a_killer_takes_each_bystander_of_its_worker_along_once(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A lease that 200 living nodes on one busy core do not outlive: only the dead lose theirs.
    set_up(deployment, monkeypatch, LEASE_S="4", HEARTBEAT_S="0.5", SCAN_S="0.2")
    deployment.start_scheduler()
    names = [f"b{number}" for number in range(199)]
    worker = start_dying(deployment, "crowd", concurrency=210)
    app = dying.crowd.compile()
    handles = {name: app.submit(HELLO, {"thread_id": name}) for name in ["killer", *names]}
    wait_until(lambda: len(deployment.ledger) == 200, "all run side by side")
    (deployment.folder / "crowded").touch()
    wait_until(lambda: not worker.is_alive(), "the killer ended its worker")
    (deployment.folder / "died").touch()
    with supervised(deployment):
        for name in names:
            assert handles[name].result(timeout_s=60, response_granularity=FULL)["state"].notes == [name]
        with pytest.raises(NodeError, match="died with its worker 3 times"):
            handles["killer"].result(timeout_s=60)
    starts = Counter(line[1] for line in deployment.ledger)
    assert starts["killer"] == 3
    assert max(starts[name] for name in names) == 2


@contextmanager
def supervised(deployment: Deployment) -> Iterator[None]:
    """Keep a worker of the crowd up."""
    over = threading.Event()

    def supervise() -> None:
        worker = start_dying(deployment, "crowd", concurrency=210)
        while not over.wait(0.05):
            if not worker.is_alive():
                worker = start_dying(deployment, "crowd", concurrency=210)

    supervisor = threading.Thread(target=supervise)
    supervisor.start()
    try:
        yield
    finally:
        over.set()
        supervisor.join()


# -- N


def test_of_three_branches_only_the_failed_one_runs_again(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up(deployment, monkeypatch)
    start_dying(deployment, "raising")
    app = dying.raising.compile()
    handle = app.submit(HELLO, {"thread_id": "T"})
    with pytest.raises(NodeError, match="node 'b' failed: RuntimeError: it broke"):
        handle.result(timeout_s=30)
    assert main(["runs", "show", handle.run_id, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["error"]["node"], shown["error"]["attempt"]) == ("b", 1)
    assert shown["error"]["cause"] == "builtins.RuntimeError"
    assert shown["traceback"][-1] == "RuntimeError: it broke"
    with pytest.raises(NodeError, match="it broke"):
        app.invoke(None, {"thread_id": "T"})
    (deployment.folder / "mended").touch()
    (failed,) = (run for run in store_of(deployment).runs("T") if run.continues)
    assert main(["runs", "retry", failed.run_id, "--json"]) == 0
    again = app.get_run(json.loads(capsys.readouterr().out)["run_id"])
    assert again.result(timeout_s=30, response_granularity=FULL)["state"].notes == ["split", "a", "b", "c", "join"]
    assert counts(deployment) == {"split": 1, "a": 1, "b": 3, "c": 1, "join": 1}


# -- a


def test_a_message_that_is_lost_with_its_worker_is_sent_again(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(deployment, monkeypatch, **SHORT)
    deployment.start_scheduler()
    frozen = deployment.start_worker("chain")
    with client_of(int(deployment.url.rpartition(":")[2].partition("/")[0])) as client:
        wait_until(lambda: int(client.info("clients")["blocked_clients"]) > 0, "the worker waits for a message")
        frozen.popen.send_signal(signal.SIGSTOP)
        handle = graphs.chain.compile().submit(HELLO)
        key = f"{deployment.queue}\x06\x169"
        # The server hands the message to a worker that waits for one, and cannot know that it is frozen.
        wait_until(lambda: client.llen(key) == 0, "the frozen worker was given the message")
        frozen.kill()
        deployment.start_worker("chain")
        assert handle.result(timeout_s=20, response_granularity=FULL)["state"].notes == ["n0", "n1", "n2"]


# -- e, and the end of a worker in order


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_roll_out_that_kills_after_a_while_resumes_elsewhere_once(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, pool: str
) -> None:
    set_up(deployment, monkeypatch, **SHORT)
    deployment.start_scheduler()
    old = deployment.start_worker("slow", pool=pool, concurrency=1)
    handle = graphs.slow.compile().submit(HELLO)
    wait_until(lambda: len(deployment.ledger) == 1, "the node started")
    old.popen.send_signal(signal.SIGTERM)
    deployment.start_worker("slow", pool=pool, concurrency=1)
    let_pass(3)
    assert (old.is_alive(), len(deployment.ledger)) == (True, 1)
    old.kill()
    wait_until(lambda: len(deployment.ledger) == 2, "the next attempt started")
    (task,) = store_of(deployment).tasks(handle.run_id)
    assert (task.attempt, task.deaths) == (2, 0)
    deployment.let_go()
    assert handle.result(timeout_s=30, response_granularity=FULL)["state"].notes == ["slow"]
    assert counts(deployment) == {"start": 2, "end": 1}


@pytest.mark.parametrize("pool", ["threads", "prefork", "solo"])
def test_a_worker_that_must_go_hands_back_what_it_runs_and_ends(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, pool: str
) -> None:
    set_up(deployment, monkeypatch, LEASE_S="60", HEARTBEAT_S="20", SHUTDOWN_GRACE_S="1")
    old = deployment.start_worker("slow", pool=pool, concurrency=1)
    app = graphs.slow.compile()
    handles = [app.submit(HELLO), app.submit(HELLO)]
    wait_until(lambda: len(deployment.ledger) == 1, "the node started")
    deployment.start_worker("slow", pool="threads", concurrency=2)
    wait_until(lambda: len(deployment.ledger) == 2, "the other one runs on the new worker")
    old.popen.send_signal(signal.SIGTERM)
    wait_until(lambda: len(deployment.ledger) == 3, "the next attempt started at once", 20)
    wait_until(lambda: not old.is_alive(), "the old worker ended by itself", 20)
    deployment.let_go()
    for handle in handles:
        assert handle.result(timeout_s=30, response_granularity=FULL)["state"].notes == ["slow"]
    assert counts(deployment) == {"start": 3, "end": 2}


# -- f


def test_a_broker_that_was_emptied_is_filled_again(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = f"{deployment.url.removesuffix('/0')}/5"
    set_up(deployment, monkeypatch, BROKER_URL=broker, **SHORT)
    app = dying.quick.compile()
    handles = [app.submit(HELLO, {"thread_id": f"t{number}"}) for number in range(10)]
    with redis.Redis.from_url(broker) as client:
        assert client.llen(f"{deployment.queue}\x06\x169") == 10
        client.flushdb()
    deployment.start_scheduler()
    start_dying(deployment, "quick")
    for handle in handles:
        assert handle.result(timeout_s=30)["status"] is RunStatus.COMPLETED
    assert Counter(line[1] for line in deployment.ledger) == {f"t{number}": 1 for number in range(10)}


# -- g, j, L


@pytest.fixture
def own_server(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedValkey]:
    """A server that the test may end."""
    server = EmbeddedValkey(deployment.folder)
    with running(server):
        set_up(deployment, monkeypatch, REDIS_URL=f"redis://127.0.0.1:{server.port}/0")
        yield server
        deployment.end()


def test_a_store_that_is_away_at_the_answer_is_an_error_and_no_fresh_start(
    deployment: Deployment, own_server: EmbeddedValkey
) -> None:
    deployment.start_worker("asking")
    app = graphs.asking.compile()
    assert app.invoke(HELLO, {"thread_id": "T"})["status"] is RunStatus.WAITING
    answer, config = {"resume": "yes"}, {"thread_id": "T", "run_id": "answer"}
    own_server.kill()
    for given in (answer, HELLO):
        with pytest.raises(StorageError):
            app.submit(given, config)
    own_server.start()
    for _ in range(2):
        result = app.invoke(answer, config, FULL)
        assert (result["status"], result["state"].notes) == (RunStatus.COMPLETED, ["answered yes"])
        assert [message.text() for message in result["state"].context] == ["hello"]
    assert len(store_of(deployment).runs("T")) == 1


def test_a_full_store_takes_nothing_half_and_all_when_there_is_room(
    deployment: Deployment, own_server: EmbeddedValkey
) -> None:
    deployment.start_scheduler()
    worker = deployment.start_worker("slow", "chain")
    app = graphs.slow.compile()
    handle = app.submit(HELLO, {"thread_id": "T"})
    wait_until(lambda: len(deployment.ledger) == 1, "the node started")
    with client_of(own_server.port) as client:
        client.config_set("maxmemory", "1mb")
        deployment.let_go()
        worker.wait_for_log("is out of memory")
        let_pass(2 * float(deployment.settings["LEASE_S"]))
        with pytest.raises(StorageError, match="is out of memory; raise maxmemory"):
            app.submit(HELLO, {"thread_id": "other"})
        thread = store_of(deployment).thread("T")
        assert thread is not None
        assert (thread.active, thread.version.number) == (handle.run_id, 1)
        client.config_set("maxmemory", "0")
    assert handle.result(timeout_s=30, response_granularity=FULL)["state"].notes == ["slow"]
    assert counts(deployment) == {"start": 1, "end": 1}
    assert graphs.chain.compile().invoke(HELLO)["status"] is RunStatus.COMPLETED


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_workers_that_lost_redis_under_load_come_back_by_themselves(
    deployment: Deployment, own_server: EmbeddedValkey, pool: str
) -> None:
    deployment.start_scheduler()
    worker = start_dying(deployment, "five", pool=pool)
    app = dying.five.compile()
    handles = [app.submit(HELLO, {"thread_id": f"t{number}"}) for number in range(30)]
    wait_until(lambda: len(deployment.ledger) > 20, "they are at work")
    own_server.kill()
    own_server.start()
    for handle in handles:
        state = handle.result(timeout_s=60, response_granularity=FULL)["state"]
        assert state.notes == [f"n{number}" for number in range(5)]
    assert worker.is_alive()
    assert app.submit(HELLO).result(timeout_s=30)["status"] is RunStatus.COMPLETED


# -- k


def test_a_backlog_is_not_sent_again(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(deployment, monkeypatch, **SHORT)
    deployment.start_scheduler()
    app = dying.quick.compile()
    handles = [app.submit(HELLO, {"thread_id": f"t{number}"}) for number in range(500)]
    started_s = time.monotonic()
    worker = start_dying(deployment, "quick", concurrency=1)
    for handle in handles:
        assert handle.result(timeout_s=120)["status"] is RunStatus.COMPLETED
    assert time.monotonic() - started_s > 3 * float(SHORT["LEASE_S"]), "the backlog outlived its grace"
    assert Counter(line[1] for line in deployment.ledger) == {f"t{number}": 1 for number in range(500)}
    received = worker.log.count("] received")
    assert 500 <= received <= 550, f"{received} messages for 500 runs of one node"


# -- a stalled worker, a retry that waits


def test_a_worker_that_stalls_says_so_and_ends_for_its_supervisor(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(deployment, monkeypatch, SHUTDOWN_GRACE_S="1")
    worker = deployment.start_worker("chain", pool="prefork", concurrency=2)
    app = graphs.chain.compile()
    assert app.invoke(HELLO)["status"] is RunStatus.COMPLETED
    control = make_celery(Settings.load(), deployment.url).control
    assert control.cancel_consumer(deployment.queue, reply=True, timeout=5)
    handle = app.submit(HELLO)
    wait_until(lambda: not worker.is_alive(), "the worker ends", 40)
    assert worker.log.count("stalled: a slot is free") >= 1
    deployment.start_worker("chain")
    assert handle.result(timeout_s=30)["status"] is RunStatus.COMPLETED


def test_a_retry_that_waits_holds_no_worker_and_outlives_all_processes(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up(deployment, monkeypatch)
    before = [deployment.start_scheduler(), start_dying(deployment, "patient")]
    handle = dying.patient.compile().submit(HELLO)
    store = store_of(deployment)
    wait_until(lambda: [t.status for t in store.tasks(handle.run_id)] == [TaskStatus.RETRY_WAIT], "it waits")
    for process in before:
        process.kill()
    assert main(["runs", "why", handle.run_id]) == 0
    said = capsys.readouterr().out
    assert "retry_wait" in said
    assert "the model is out of reach" in said
    (deployment.folder / "mended").touch()
    deployment.start_scheduler()
    start_dying(deployment, "patient")
    assert handle.result(timeout_s=30, response_granularity=FULL)["state"].notes == ["answered"]
    assert counts(deployment) == {"start": 2}

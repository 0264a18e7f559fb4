"""Cases D and E: many runs want one thread, and many answers one question, from several processes at one instant."""

import json
from collections import Counter, defaultdict
from typing import Any

import pytest

from tenxgraph.core.graph import RunStatus
from tenxgraph.core.graph.multitask import MultitaskStrategy
from tenxgraph.settings import Settings
from tenxgraph.store.base import RunView
from tenxgraph.store.redis import RedisStore, redis_store
from tests.acceptance.graphs import Notes as State
from tests.acceptance.many_runs import CLIENTS, NODES, RESUMES, ROUNDS, approval, said, two
from tests.acceptance.workers import Deployment, Process, wait_until

pytestmark = pytest.mark.timeout(240)

_CLIENT = "from tests.acceptance.many_runs import be_client; be_client()"
_GRAPHS = "tests.acceptance.many_runs"

Notes = list[str]


def clients(deployment: Deployment, what: str) -> list[list[Any]]:
    """Start the clients, wait for their end, and return the lines that they printed."""
    started = [deployment.start(f"client{number}", _CLIENT, what, str(number)) for number in range(CLIENTS)]
    wait_until(lambda: not any(client.is_alive() for client in started), "the clients end", 200)
    return [json.loads(line) for client in started for line in _lines_of(client)]


def _lines_of(client: Process) -> list[str]:
    assert client.popen.returncode == 0, client.log
    return [line for line in client.log.splitlines() if line.startswith("[")]


def _full(run: RunView) -> Notes:
    return [f"{run.run_id} {node}" for node in NODES]


def check_round(
    store: RedisStore, state: State, thread_id: str, told: list[list[Any]], ledger: dict[str, Notes]
) -> str:
    """Account for all that two starts on a thread left behind; return which of the right ends it was."""
    runs = store.runs(thread_id)
    strategy = MultitaskStrategy(thread_id.partition(".")[0])
    refused = [line for line in told if line[2] != "taken in"]
    assert sorted(run.run_id for run in runs) == sorted(line[1] for line in told if line not in refused)
    said_to, noted = [message.text() for message in state.context], state.notes
    last = runs[-1]
    assert (last.status, last.reason) == (RunStatus.COMPLETED, "")
    assert ledger[last.run_id] == _full(last)
    versions = [point.version.number for point in store.checkpoints(thread_id, limit=100)]
    assert versions == list(range(len(versions), 0, -1))
    if refused:
        assert strategy is MultitaskStrategy.REJECT
        assert (len(runs), refused[0][2]) == (1, f"busy: {last.run_id}")
        assert (said_to, noted) == ([last.run_id], _full(last))
        assert refused[0][1] not in ledger
        return "refused"
    first = runs[0]
    if first.status is RunStatus.COMPLETED:
        assert first.reason == ""
        assert (said_to, noted) == ([first.run_id, last.run_id], _full(first) + _full(last))
        assert ledger[first.run_id] == _full(first)
        return "one after the other"
    if strategy is MultitaskStrategy.ROLLBACK:
        assert (first.status, first.reason) == (RunStatus.CANCELLED, f"rolled back by {last.run_id}")
        assert (said_to, noted) == ([last.run_id], _full(last))
        assert ledger[first.run_id] == _full(first)[: len(ledger[first.run_id])]
        return "rolled back"
    assert strategy is MultitaskStrategy.INTERRUPT
    assert first.reason == f"superseded by {last.run_id}"
    had_begun = first.status is RunStatus.STOPPED
    assert had_begun or first.status is RunStatus.CANCELLED
    assert said_to == ([first.run_id] if had_begun else []) + [last.run_id]
    assert noted == ledger[first.run_id] + _full(last)
    assert ledger[first.run_id] == _full(first)[: len(ledger[first.run_id])]
    return f"superseded after {len(ledger[first.run_id])} nodes"


def test_two_starts_at_one_instant_end_as_the_strategy_says_a_hundred_times_each(deployment: Deployment) -> None:
    deployment.start_scheduler()
    for _ in range(2):
        deployment.start_worker(f"{_GRAPHS}:two", concurrency=2)
    rounds = defaultdict(list)
    for line in clients(deployment, "start"):
        rounds[line[0]].append(line)
    assert len(rounds) == 100 * len(MultitaskStrategy) == 2 * ROUNDS * len(MultitaskStrategy)
    store = redis_store(deployment.settings["REDIS_URL"], Settings.load())
    wait_until(
        lambda: all(run.status.is_terminal for thread_id in rounds for run in store.runs(thread_id)),
        "every run has ended",
        120,
    )
    ledger: dict[str, Notes] = defaultdict(list)
    for run_id, node in deployment.ledger:
        ledger[run_id].append(f"{run_id} {node}")
    ends = Counter[tuple[str, str]]()
    app = two.compile()
    for thread_id, told in rounds.items():
        state = app.get_state({"thread_id": thread_id}).state
        assert len(told) == 2
        ends[thread_id.partition(".")[0], check_round(store, state, thread_id, told, ledger)] += 1
    assert sum(ends.values()) == 400
    assert ends["enqueue", "one after the other"] == 100
    assert ends["reject", "refused"] > 50, "the two did meet"
    assert ends["rollback", "rolled back"] > 50, "the two did meet"
    assert ends["interrupt", "one after the other"] < 50, "the two did meet"


def test_of_twenty_answers_at_one_instant_one_is_taken_and_the_action_runs_once(deployment: Deployment) -> None:
    deployment.start_worker(f"{_GRAPHS}:approval")
    app = approval.compile()
    assert app.invoke(said("pay"), {"thread_id": "T"})["status"] is RunStatus.WAITING
    outcomes = [line[0] for line in clients(deployment, "resume")]
    assert Counter(outcomes) == {"conflict": CLIENTS * RESUMES - 1, "completed": 1}
    assert CLIENTS * RESUMES == 20
    ((action, answer),) = deployment.ledger
    assert (action, app.get_state({"thread_id": "T"}).state.notes) == ("paid", [f"paid {answer}"])

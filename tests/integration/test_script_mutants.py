"""The scripts under the contract have teeth, too: each, broken on purpose, fails the test that names its rule.

The mutants are those that a store of this kind gets wrong first: no fence, no dedupe, no mark of a dispatch, the order
of arrival, a worker's clock, a counter for a set, a settlement that sees no touch, a script that knows no repeat, an
answer that is taken twice, a rollback that undoes nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import redis

from tenxgraph.core.exceptions import StorageError
from tenxgraph.store.base import Overdue, Store
from tenxgraph.store.memory import MemoryStore
from tenxgraph.store.redis_scripts import Scripts
from tenxgraph.testing.store_contract import MemoryHarness, StoreContract
from tests.servers import RedisHarness, client_of, valkey_server  # noqa: F401  # fixtures come by import

_ARRIVED = """local arrived = {}
    for at, field in ipairs(redis.call('HGETALL', key('updates', id))) do
      arrived[#arrived + 1] = at % 2 == 1 and field or nil
    end
    for i, node in ipairs(list_of(arrived, id)) do"""

_COUNTED = """if redis.call('HINCRBY', key('run', id), 'counted', 1) < #node_names_of(id) then"""


@dataclass(frozen=True)
class Mutant:
    """One change in one script, and the test of the contract that must tell."""

    script: str
    old: str
    new: str
    caught_by: str
    also: tuple[tuple[str, str], ...] = ()


MUTANTS = {
    "fence check off in commit": Mutant(
        "commit", "task.token == token and task.status", "task.status", "test_a_fenced_attempt_commits_nothing"
    ),
    "fence check off in advance": Mutant(
        "advance", "task.token == token and task.status", "task.status", "test_another_token_advances_nothing"
    ),
    "fence check off in settle": Mutant(
        "settle", "task.token == token and task.status", "task.status", "test_another_token_settles_nothing"
    ),
    "version check off": Mutant(
        "advance",
        " and thread.nonce == base_nonce",
        "",
        "test_an_advance_on_another_version_writes_nothing",
    ),
    "dedupe of admissions off": Mutant(
        "admit",
        "if run.created_ms ~= '' then",
        "if false then",
        "test_a_repeated_admission_is_known_and_has_the_same_dispatch",
    ),
    "dedupe of messages off": Mutant(
        "claim",
        "if task.status ~= 'queued' or task.attempt ~= attempt then",
        "if false then",
        "test_a_message_sent_twice_is_claimed_once",
    ),
    "dispatch mark off": Mutant(
        "mark_resent",
        "task.dispatched, task.resends = math.max(now, num(dispatched) + 1), num(task.resends) + 1",
        "",
        "test_of_two_schedulers_one_sends_again",
    ),
    "order of arrival": Mutant(
        "commit",
        "for i, node in ipairs(list_of(node_names_of(id), id)) do",
        _ARRIVED,
        "test_the_last_commit_takes_the_advance",
    ),
    "a worker's clock": Mutant(
        "claim",
        "nonce, worker, now + lease_ms",
        "nonce, worker, 1700000000000 + lease_ms",
        "test_a_lease_that_lasts_is_left_alone_and_looked_at_when_it_ends",
    ),
    "counter instead of set": Mutant(
        "commit",
        "if not all_are(COMMITTED, node_names_of(id), id) then",
        _COUNTED,
        "test_a_double_commit_does_not_release_the_join",
        (("task.token == token and task.status == 'claimed' then\n  settle", "task.token == token then\n  settle"),),
    ),
    "settle without touch": Mutant(
        "settle_due",
        "if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then",
        "if false then",
        "test_a_thread_that_was_touched_since_stays_due",
    ),
    "a touch that is not counted": Mutant(
        "watch",
        "redis.call('HSET', KEYS[2], ARGV[1], string.format('%.0f', touch))",
        "redis.call('HSETNX', KEYS[2], ARGV[1], string.format('%.0f', touch))",
        "test_a_thread_that_was_touched_since_stays_due",
    ),
    "claim not idempotent": Mutant(
        "claim",
        "if task.status ~= 'claimed' or task.token ~= nonce then",
        "if true then",
        "test_a_repeated_claim_is_answered_the_same",
    ),
    "commit not idempotent": Mutant(
        "commit",
        "elseif outcomes_of(id)[name .. ':' .. token] ~= 'committed' then",
        "else",
        "test_a_repeated_commit_is_answered_the_same",
    ),
    "advance not idempotent": Mutant(
        "advance",
        "if was_written(number, nonce) then",
        "if false then",
        "test_a_repeated_advance_is_answered_the_same_and_writes_once",
    ),
    "settle not idempotent": Mutant(
        "settle",
        "elseif outcomes_of(id)[name .. ':' .. token] ~= status then",
        "else",
        "test_a_repeated_settlement_is_answered_the_same_and_counts_once",
    ),
    "emit not idempotent": Mutant(
        "emit",
        "if num(number) > num(task.emitted) then",
        "if true then",
        "test_an_emission_whose_reply_was_lost_is_there_once",
    ),
    "a turn for each asking": Mutant(
        "turn",
        "if not turn then",
        "if true then",
        "test_a_turn_is_given_once",
    ),
    "an answer not consumed once": Mutant(
        "resume",
        "return asked[question .. ':task'] == '' or asked[question .. ':answer'] ~= ''",
        "return asked[question .. ':task'] == ''",
        "test_of_twenty_concurrent_answers_one_wins",
    ),
    "a pause not ended once": Mutant(
        "resume",
        "return run.status == 'waiting' and run.wait ~= 'question'",
        "return true",
        "test_of_twenty_concurrent_resumes_one_wins",
    ),
    "a rollback that undoes nothing": Mutant(
        "admit",
        "if num(run.base) ~= num(thread.version) then",
        "if false then",
        "test_a_rollback_is_a_new_version_with_the_old_contents",
    ),
    "leases lost for ever": Mutant(
        "recover",
        "num(task.lost) >= max_lost_leases",
        "false",
        "test_a_task_that_loses_lease_after_lease_ends_the_run_though_its_workers_live",
    ),
    "resume not idempotent": Mutant(
        "resume",
        "if run['resumed:' .. resume_id] ~= '' then",
        "if false then",
        "test_a_repeated_resume_is_answered_the_same",
    ),
}


class MutantScripts(Scripts):
    """Scripts of which one has a fault."""

    def __init__(self, scripts: Scripts, mutant: Mutant) -> None:
        super().__init__(scripts.client, {})
        self._constants, self._mutant = scripts._constants, mutant

    def script(self, name: str, keys: Any, *args: Any) -> Any:
        """See :meth:`Scripts.script`."""
        if name == self._mutant.script and name not in self._digests:
            super().script(name, keys, *args)
            text = self._texts.pop(self._digests.pop(name))
            for old, new in ((self._mutant.old, self._mutant.new), *self._mutant.also):
                assert text.count(old) == 1, f"{name}.lua has changed: write the mutant anew"
                text = text.replace(old, new)
            digest = str(self.client.script_load(text))
            self._texts[digest], self._digests[name] = text, digest
        return super().script(name, keys, *args)


def run_one(name: str, client: "redis.Redis", mutant: Mutant | None = None) -> None:
    contract = StoreContract()
    harness = RedisHarness(client)
    if mutant is not None:
        harness.store._scripts = MutantScripts(harness.store._scripts, mutant)
    contract.harness = harness
    getattr(contract, name)()


@pytest.fixture
def client(request: pytest.FixtureRequest) -> "Iterator[redis.Redis]":
    with client_of(request.getfixturevalue("valkey_server").port) as made:
        yield made


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_script_fails_the_test_that_names_the_rule(name: str, client: "redis.Redis") -> None:
    mutant = MUTANTS[name]
    run_one(mutant.caught_by, client)
    with pytest.raises((AssertionError, KeyError)) as caught:
        run_one(mutant.caught_by, client, mutant)
    assert not isinstance(caught.value.__cause__, StorageError)
    assert "has changed" not in str(caught.value)


# -- the same faults where the memory store has no test of its own


class MarksNoResend(MemoryStore):
    def mark_resent(self, overdue: Overdue) -> bool:
        return True


class LeasesByTheWorkersClock(MemoryStore):
    def claim(self, ref: Any, nonce: str, **rest: Any) -> Any:
        lease_ms = 1_700_000_000_000 + rest.pop("lease_ms") - self.now_ms()
        return super().claim(ref, nonce, lease_ms=lease_ms, **rest)


@pytest.mark.parametrize(
    ("mutant", "name"),
    [
        (MarksNoResend, "test_of_two_schedulers_one_sends_again"),
        (LeasesByTheWorkersClock, "test_a_lease_that_lasts_is_left_alone_and_looked_at_when_it_ends"),
    ],
)
def test_a_memory_store_with_the_same_fault_fails_the_same_test(mutant: type[Store], name: str) -> None:
    contract = StoreContract()
    contract.harness = MemoryHarness(mutant)
    with pytest.raises(AssertionError):
        getattr(contract, name)()

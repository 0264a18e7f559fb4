"""The crash test on a real server: every script is an effect of its own, so that a method dies between two of them.

Leases are real and short; the crew waits for them. A strike needs a whole story told again, so the strikes are a
sample, drawn by a fixed seed. `make test-every` makes all of them.
"""

import random
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any, Final

import pytest
import redis
from redis.exceptions import NoScriptError

from tenxgraph.store.base import Store
from tenxgraph.store.redis import RedisStore
from tenxgraph.store.redis_history import History
from tenxgraph.store.redis_scripts import Command, Scripts
from tenxgraph.testing.crash import Crew, End, Faults, Strike
from tests.servers import RedisHarness, Server, client_of, valkey_server  # noqa: F401  # fixtures come by import
from tests.thorough import EVERY
from tests.unit.engine.test_crash import BESIDE, OF_OTHER_TESTS, OF_THE_HEARTBEAT, STORIES, Story, delete_thread

pytestmark = pytest.mark.timeout(600)

LEASE_MS: Final = 16
SAMPLE: Final = 4
"""Strikes at one story, of each kind."""

LOOKS: Final = frozenset({"image", "resumed"})


class StrikingScripts(Scripts):
    """Sends script after script instead of a pipeline, each of them an effect."""

    def strike_by(self, faults: Faults) -> None:
        """Let these faults strike."""
        self._faults = faults

    def _send(self, commands: Sequence[Command]) -> list[Any]:
        if not any(command[0] in ("EVALSHA", "HDEL", "ZREM", "LREM") for command in commands):
            return super()._send(commands)
        return [self._perform(command) for command in commands]

    def _perform(self, command: Command) -> Any:
        name = self._name_of(command)
        return self._run_known(command) if name in LOOKS else self._faults.perform(name, self._run_known, command)

    def _name_of(self, command: Command) -> str:
        names = {digest: name for name, digest in self._digests.items()}
        return names[command[1]] if command[0] == "EVALSHA" else str(command[0])

    def _run_known(self, command: Command) -> Any:
        try:
            return self._execute(*command)
        except NoScriptError:
            self._load([command])
            return self._execute(*command)


class Crews:
    """Makes crews on one server, each under a prefix of its own."""

    def __init__(self, client: "redis.Redis") -> None:
        self.client = client
        self._undisturbed: dict[str, tuple[Crew, End]] = {}

    def crew(self, story: Story, faults: Faults | None = None, **options: Any) -> Crew:
        """Return a crew for a story."""
        harness = RedisHarness(self.client, watch_ms=LEASE_MS // 2)
        return story.crew(faults, harness=harness, lease_ms=LEASE_MS, strike=self._strike, **options)

    def _strike(self, store: Store, faults: Faults) -> Store:
        assert isinstance(store, RedisStore)
        struck = RedisStore(self.client, key_prefix=store._keys.prefix, watch_ms=LEASE_MS // 2)
        scripts = StrikingScripts(self.client, {})
        scripts._constants = struck._scripts._constants
        struck._scripts = scripts
        struck._history = History(scripts)
        scripts.strike_by(faults)
        return struck

    def undisturbed(self, story: Story) -> tuple[Crew, End]:
        """Return a crew that nothing struck, and how its story ended."""
        name = str(story)
        if name not in self._undisturbed:
            crew = self.crew(story)
            self._undisturbed[name] = crew, story.told_by(crew)
        return self._undisturbed[name]


@pytest.fixture(scope="module")
def crews(valkey_server: Server) -> Iterator[Crews]:  # noqa: F811 - the fixture
    with client_of(valkey_server.port) as client:
        yield Crews(client)


every_story = pytest.mark.parametrize("story", STORIES, ids=str)


def sample(story: Story, strike: object, numbers: Sequence[int]) -> Sequence[int]:
    """Return which effects are struck this time: always the same ones of a story."""
    few = min(SAMPLE, len(numbers))
    return numbers if EVERY else sorted(random.Random(f"{story} {strike}").sample(numbers, few))


@every_story
def test_a_story_ends_on_the_server_as_in_memory(crews: Crews, story: Story) -> None:
    in_memory = story.crew()
    crew, end = crews.undisturbed(story)
    assert end == story.told_by(in_memory)
    assert crew.starts("T") == in_memory.starts("T")


@every_story
@pytest.mark.parametrize("strike", Strike)
def test_one_script_or_publish_struck_and_the_end_is_the_same(crews: Crews, story: Story, strike: Strike) -> None:
    crew, expected = crews.undisturbed(story)
    effects = crew.faults.effects
    for number in sample(story, strike, range(len(effects))):
        if strike is Strike.NO_REPLY and effects[number] == OF_THE_HEARTBEAT:
            continue
        struck = crews.crew(story, Faults({number: strike}), late=number % 2 == 0)
        assert story.told_by(struck) == expected, f"{strike} at effect {number}, {effects[number]}"
        assert struck.starts("T") <= crew.starts("T") + 1, f"{effects[number]} {number}: a committed node ran again"


@every_story
def test_a_lost_reply_is_asked_for_again_and_nothing_runs_twice(crews: Crews, story: Story) -> None:
    crew, expected = crews.undisturbed(story)
    effects = crew.faults.effects
    for number in sample(story, "insists", range(len(effects))):
        if effects[number] == OF_THE_HEARTBEAT:
            continue
        struck = crews.crew(story, Faults({number: Strike.NO_REPLY}), insists=True)
        assert story.told_by(struck) == expected, f"effect {number}, {effects[number]}"
        assert struck.starts("T") == crew.starts("T"), f"effect {number}, {effects[number]}"


@every_story
def test_messages_doubled_and_shuffled_and_lost_change_nothing(crews: Crews, story: Story) -> None:
    crew, expected = crews.undisturbed(story)
    doubled = crews.crew(story, order=random.Random(7), copies=2)
    assert story.told_by(doubled) == expected
    robbed = crews.crew(story, lost=range(crew.faults.effects.count("dispatch")))
    assert story.told_by(robbed) == expected
    assert doubled.starts("T") == robbed.starts("T") == crew.starts("T")


@pytest.mark.parametrize("story", [STORIES[2], STORIES[5]], ids=str)
def test_two_scripts_struck_and_the_end_is_the_same(crews: Crews, story: Story) -> None:
    crew, expected = crews.undisturbed(story)
    chosen, kinds = random.Random(2), list(Strike)
    for _ in range(200 if EVERY else 20):
        first, second = chosen.sample(range(len(crew.faults.effects) + 6), 2)
        plan = {first: chosen.choice(kinds), second: chosen.choice(kinds)}
        struck = crews.crew(story, Faults(plan), late=chosen.random() < 0.5)
        assert story.told_by(struck) == expected, plan


@pytest.mark.parametrize("strike", Strike)
def test_a_deletion_struck_anywhere_leaves_no_key(crews: Crews, strike: Strike) -> None:
    story = STORIES[0]
    whole = crews.crew(story)
    story.told_by(whole)
    before = len(whole.faults.effects)
    whole.ask(delete_thread)
    for number in range(before, len(whole.faults.effects)):
        struck = crews.crew(story, Faults({number: strike}))
        story.told_by(struck)
        struck.ask(delete_thread)
        left = keys_of(crews.client, struck)
        assert left == [], f"{strike} at {whole.faults.effects[number]}"


@pytest.mark.parametrize("strike", Strike)
def test_what_is_done_beside_runs_struck_anywhere_ends_the_same_and_leaves_no_key(crews: Crews, strike: Strike) -> None:
    crew, expected = crews.undisturbed(BESIDE)
    effects = crew.faults.effects
    first = effects.index("edit")
    for number in range(first, len(effects)):
        if strike is Strike.NO_REPLY and effects[number] == OF_THE_HEARTBEAT:
            continue
        if not EVERY and number % 3 and effects[number] not in ("edit", "fork", "retain"):
            continue
        struck = crews.crew(BESIDE, Faults({number: strike}))
        assert BESIDE.told_by(struck) == expected, f"{strike} at effect {number}, {effects[number]}"
        assert all(struck.store.delete_thread(name) for name in ("T", "F"))
        assert keys_of(crews.client, struck) == [], f"{strike} at effect {number}, {effects[number]}"


def keys_of(client: "redis.Redis", crew: Crew) -> list[bytes]:
    """Return the names of the keys under a crew's prefix."""
    assert isinstance(crew.store, RedisStore)
    return sorted(client.scan_iter(f"{crew.store._keys.prefix}:*", count=1000))


def test_every_script_joins_this_test(crews: Crews) -> None:
    scripts = {path.name.removesuffix(".lua") for path in (files("tenxgraph.store") / "lua").iterdir()}
    writing = {name for name in scripts if not name.startswith("_")} - LOOKS
    struck = {effect for story in STORIES for effect in crews.undisturbed(story)[0].faults.effects}
    assert writing - OF_OTHER_TESTS - {"release_run"} <= struck
    assert "dispatch" in struck

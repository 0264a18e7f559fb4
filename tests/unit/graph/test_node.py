"""How a node is called, and what its signature and annotations say."""

import asyncio
import functools
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest
from injectq import Inject, InjectQ, inject

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.node import Node, NodePolicies, build_node
from tenxgraph.core.graph.retry_policy import RetryPolicy
from tenxgraph.core.state import AgentState
from tenxgraph.utils.command import Command, Send
from tenxgraph.utils.constants import END, START

STATE = AgentState()
CONFIG = {"thread_id": "t"}


class Mailer:
    def __init__(self, host: str = "localhost") -> None:
        self.host = host


class Clock:
    pass


def node(fn: Any) -> Node:
    return build_node("n", fn, NodePolicies())


def call(fn: Any, container: InjectQ | None = None) -> Any:
    built = node(fn)
    args, kwargs = built.call_args(STATE, CONFIG, container)
    return built.fn(*args, **kwargs)


def acall(fn: Any, container: InjectQ | None = None) -> Any:
    async def run() -> Any:
        built = node(fn)
        args, kwargs = await built.acall_args(STATE, CONFIG, container)
        result = built.fn(*args, **kwargs)
        return await result if built.is_async else result

    return asyncio.run(run())


def with_mailer(mailer: Mailer) -> InjectQ:
    container = InjectQ()
    container.bind_instance(Mailer, mailer)
    return container


class Agentlike:
    async def __call__(self, state: AgentState, config: dict[str, Any]) -> Any:
        return state, config


class Plain:
    def __call__(self, state: AgentState) -> Any:
        return state

    def method(self, state: AgentState, config: dict[str, Any]) -> Any:
        return state, config


def keyword_only(*, state: AgentState, config: dict[str, Any]) -> Any:
    return state, config


def any_name(s: Any, /, _config: Any) -> Any:
    return s, _config


def config_first(config: Any, state: Any) -> Any:
    return state, config


def with_defaults(state: Any, limit: int = 3, config: Any = None) -> Any:
    return state, config


@pytest.mark.parametrize("fn", [Plain().method, keyword_only, any_name, config_first, with_defaults])
def test_a_function_gets_the_state_and_the_config_however_it_declares_them(fn: Any) -> None:
    assert call(fn) == (STATE, CONFIG)
    assert node(fn).takes_config


@pytest.mark.parametrize("fn", [Plain(), lambda s: s, lambda state=None: state, lambda *a: a[0], lambda s, **_: s])
def test_a_function_without_config_gets_the_state_alone(fn: Any) -> None:
    assert call(fn) is STATE
    assert not node(fn).takes_config


def test_a_partial_keeps_what_it_bound() -> None:
    def fn(state: Any, config: Any, limit: int) -> Any:
        return state, config, limit

    assert call(functools.partial(fn, limit=3, config="mine")) == (STATE, "mine", 3)


def test_an_object_with_an_async_call_is_async() -> None:
    assert acall(Agentlike()) == (STATE, CONFIG)
    assert node(Agentlike()).is_async
    assert node(functools.partial(Agentlike())).is_async
    assert not node(Plain()).is_async


def test_a_coroutine_function_is_async() -> None:
    async def fn(state: Any) -> Any:
        return state

    assert acall(fn) is STATE


def test_a_wrapped_function_is_called_as_the_one_it_wraps() -> None:
    def fn(state: Any, config: Any) -> Any:
        return state, config

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    assert call(wrapper) == (STATE, CONFIG)


def test_a_marked_parameter_comes_from_the_container_of_the_graph() -> None:
    def fn(state: Any, mailer: Mailer = Inject[Mailer]) -> Mailer:  # type: ignore[assignment]
        return mailer

    mailer = Mailer("graph")
    assert call(fn, with_mailer(mailer)) is mailer


def test_a_parameter_of_a_class_that_the_container_knows_comes_from_it() -> None:
    def fn(state: Any, mailer: Mailer, spare: Mailer | None = None) -> Any:
        return mailer, spare

    mailer = Mailer()
    assert call(fn, with_mailer(mailer)) == (mailer, mailer)


def test_an_optional_parameter_keeps_its_default_if_the_container_does_not_know_it() -> None:
    def fn(state: Any, clock: Clock | None = None) -> Any:
        return clock

    assert call(fn, with_mailer(Mailer())) is None


def test_a_text_in_the_container_is_not_given_to_every_text_parameter() -> None:
    def fn(state: Any, mode: str = "fast") -> str:
        return mode

    container = InjectQ()
    container["api_key"] = "secret"
    assert container.has(str)
    assert call(fn, container) == "fast"


def test_without_a_container_the_current_one_is_asked_at_the_call() -> None:
    def fn(state: Any, mailer: Mailer) -> Mailer:
        return mailer

    mailer = Mailer()
    with InjectQ.test_mode() as container:
        container.bind_instance(Mailer, mailer)
        assert call(fn) is mailer


def test_an_async_factory_is_awaited() -> None:
    async def connect() -> Mailer:
        await asyncio.sleep(0)
        return Mailer("async")

    async def fn(state: Any, mailer: Mailer) -> str:
        return mailer.host

    container = InjectQ()
    container.bind_factory(Mailer, connect)
    assert acall(fn, container) == "async"
    with pytest.raises(GraphError, match="'mailer'"):
        call(fn, container)


def test_many_tasks_at_once_get_the_same_singleton() -> None:
    def fn(state: Any, mailer: Mailer) -> Mailer:
        return mailer

    container = InjectQ()
    container.bind(Mailer, Mailer)
    built = node(fn)

    async def run() -> set[int]:
        calls = [built.acall_args(STATE, CONFIG, container) for _ in range(20)]
        return {id(built.fn(*args, **kwargs)) for args, kwargs in await asyncio.gather(*calls)}

    assert len(asyncio.run(run())) == 1


def test_a_function_under_inject_gets_its_own_container_and_its_errors_stay_its_own() -> None:
    mailer = Mailer()

    @inject(container=with_mailer(mailer))
    def fn(state: AgentState, mailer: Mailer) -> None:
        raise ConnectionError(mailer.host)

    with pytest.raises(ConnectionError, match="localhost"):
        call(fn, InjectQ())


def test_a_function_under_inject_is_asked_by_name_too() -> None:
    @inject
    def fn(state: AgentState, api_key: str) -> str:
        return api_key

    container = InjectQ()
    container["api_key"] = "secret"
    assert call(fn, container) == "secret"


def no_parameters() -> None: ...


def only_config(config: Any) -> None: ...


def wants_more(state: Any, budget: int) -> None: ...


def generator(state: Any) -> Iterator[int]:
    yield 1


async def async_generator(state: Any) -> Any:
    yield 1


@pytest.mark.parametrize(
    ("fn", "code", "says"),
    [
        (no_parameters, "UNCALLABLE_NODE", "takes no state"),
        (only_config, "UNCALLABLE_NODE", "takes no state"),
        (lambda **_: None, "UNCALLABLE_NODE", "takes no state"),
        (functools.partial(wants_more, state=1), "UNCALLABLE_NODE", "takes no state"),
        (wants_more, "UNCALLABLE_NODE", "'budget'"),
        (generator, "GENERATOR_NODE", "generator"),
        (async_generator, "GENERATOR_NODE", "generator"),
        (functools.partial(generator), "GENERATOR_NODE", "generator"),
        (Plain, "NOT_CALLABLE", "an instance"),
        ("plan", "NOT_CALLABLE", "'plan'"),
        (None, "NOT_CALLABLE", "None"),
    ],
)
def test_what_cannot_be_called_with_a_state_is_refused_by_name(fn: Any, code: str, says: str) -> None:
    with pytest.raises(GraphError, match=says) as caught:
        node(fn)
    assert caught.value.error_code == code
    assert "Node 'n'" in caught.value.message


@pytest.mark.parametrize("name", ["", " ", START, END, "a\nb", "a\x00", "\ud800", "a\u2028b", 3, None])
def test_a_name_that_cannot_be_shown_or_sent_is_refused(name: Any) -> None:
    with pytest.raises(GraphError) as caught:
        build_node(name, Plain(), NodePolicies())
    assert caught.value.error_code == "INVALID_NAME"


@pytest.mark.parametrize("name", ["a b", "ünï", "a{b}", "日本", "a/b:c", "🤖"])
def test_any_other_text_is_a_name(name: str) -> None:
    assert build_node(name, Plain(), NodePolicies()).name == name


@pytest.mark.parametrize(
    ("policy", "value"),
    [
        ("retry", 3),
        ("timeout_s", 0),
        ("timeout_s", float("inf")),
        ("timeout_s", True),
        ("timeout_s", "3"),
        ("queue", ""),
        ("queue", "a\n"),
        ("priority", -1),
        ("priority", 10),
        ("priority", True),
        ("on_error", ""),
        ("join", "all"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_by_node_and_policy(policy: str, value: Any) -> None:
    with pytest.raises(GraphError, match=f"'n': {policy}") as caught:
        build_node("n", Plain(), NodePolicies(**{policy: value}))
    assert caught.value.error_code == "INVALID_POLICY"


def test_policies_that_make_sense_are_kept() -> None:
    policies = NodePolicies(RetryPolicy(), timeout_s=3, queue="gpu", priority=9, on_error="rescue", join="each")
    assert build_node("n", Plain(), policies).policies == policies


def goes_ab(state: Any) -> Command[Literal["a", "b"]]: ...  # type: ignore[empty-body]


def goes_or_returns(state: Any) -> "Command[Literal['a']] | list[str] | None": ...


def goes_by_union(state: Any) -> Command[Literal["a"]] | Command[Literal["b", "a"]]: ...  # type: ignore[empty-body]


def goes_anywhere(state: Any) -> Command: ...  # type: ignore[empty-body]


def goes_to_some_text(state: Any) -> Command[str]: ...  # type: ignore[empty-body]


def half_readable(state: "NotImportedHere", config: int) -> Command[Literal["a"]]: ...  # type: ignore[empty-body, name-defined]  # noqa: F821


def unreadable(state: Any) -> "Commando[Literal['a']]": ...  # type: ignore[name-defined]  # noqa: F821


class GoingObject:
    def __call__(self, state: Any) -> Command[Literal["a"]]: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("fn", "targets", "is_open"),
    [
        (goes_ab, ("a", "b"), False),
        (goes_or_returns, ("a",), False),
        (goes_by_union, ("a", "b"), False),
        (goes_anywhere, (), True),
        (goes_to_some_text, (), True),
        (half_readable, ("a",), False),
        (unreadable, None, False),
        (GoingObject(), ("a",), False),
        (functools.partial(goes_ab), ("a", "b"), False),
        (lambda s: None, None, False),
    ],
)
def test_the_return_annotation_declares_where_a_command_may_go(
    fn: Callable[..., Any], targets: tuple[str, ...] | None, is_open: bool
) -> None:
    assert (node(fn).goto_targets, node(fn).goto_open) == (targets, is_open)


def test_a_send_in_the_annotation_declares_nothing_more() -> None:
    def fn(state: Any) -> Command[Literal["a"] | Send]: ...  # type: ignore[empty-body,type-var]

    assert node(fn).goto_targets == ("a",)

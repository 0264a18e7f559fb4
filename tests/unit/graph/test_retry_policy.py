"""When and after how long a failed attempt is tried again."""

import asyncio
from typing import Any

import pytest

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph import RetryPolicy


def test_pauses_grow_by_the_factor_up_to_the_limit() -> None:
    policy = RetryPolicy(max_attempts=9, initial_s=1, factor=3, max_s=10, jitter=False)
    assert [policy.delay_s(attempt, "t") for attempt in range(1, 5)] == [1, 3, 9, 10]


def test_jitter_shortens_a_pause_by_at_most_half() -> None:
    policy = RetryPolicy(initial_s=8.0)
    pauses = [policy.delay_s(1, f"task-{number}") for number in range(200)]
    assert all(4.0 < pause <= 8.0 for pause in pauses)
    assert max(pauses) - min(pauses) > 3.0


def test_the_same_seed_gives_the_same_pause_for_ever() -> None:
    assert RetryPolicy(initial_s=8.0).delay_s(2, "run:3:plan") == pytest.approx(8.201829474663782)


def test_each_attempt_has_its_own_jitter() -> None:
    policy = RetryPolicy(factor=1.0)
    assert policy.delay_s(1, "t") != policy.delay_s(2, "t")


def test_a_huge_attempt_number_pauses_for_the_limit() -> None:
    assert RetryPolicy(jitter=False).delay_s(100_000, "t") == 60.0
    assert RetryPolicy(initial_s=0, jitter=False).delay_s(100_000, "t") == 0.0


def test_attempts_are_counted_from_one_and_the_last_is_the_last() -> None:
    policy = RetryPolicy(max_attempts=3)
    assert [policy.retries(ValueError(), attempt) for attempt in (1, 2, 3)] == [True, True, False]


def test_only_the_named_exceptions_are_tried_again() -> None:
    policy = RetryPolicy(retry_on=(ValueError, OSError))
    assert policy.retries(UnicodeError(), 1)
    assert policy.retries(TimeoutError(), 1)
    assert not policy.retries(KeyError(), 1)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), asyncio.CancelledError(), SystemExit()])
def test_what_is_no_exception_of_the_node_is_never_tried_again(error: BaseException) -> None:
    assert not RetryPolicy().retries(error, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_attempts": 0},
        {"max_attempts": True},
        {"max_attempts": 1.5},
        {"initial_s": -1},
        {"factor": 0.5},
        {"max_s": float("inf")},
        {"initial_s": float("nan")},
        {"max_s": "60"},
        {"jitter": 1},
        {"retry_on": BaseException},
        {"retry_on": ()},
        {"retry_on": (ValueError, "OSError")},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_by_parameter(wrong: dict[str, Any]) -> None:
    with pytest.raises(GraphError, match=rf"RetryPolicy\.{next(iter(wrong))}") as caught:
        RetryPolicy(**wrong)
    assert caught.value.error_code == "INVALID_RETRY"

"""How much of what could be combined is run: each with each by `make test-every`, else each at least once."""

import os
from collections.abc import Sequence
from typing import Final, TypeVar

A = TypeVar("A")
B = TypeVar("B")

EVERY: Final = bool(os.environ.get("EVERY_COMBINATION"))


def combined(many: Sequence[A], few: Sequence[B]) -> list[tuple[A, B]]:
    """Return each of both with each, or each of ``many`` once, with those of ``few`` in turns."""
    if EVERY:
        return [(one, other) for one in many for other in few]
    return [(one, few[number % len(few)]) for number, one in enumerate(many)]

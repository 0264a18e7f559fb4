"""How an agent waits: a moment in place, longer without a worker."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tenxgraph.core.graph.rate_limit import RateLimit
from tenxgraph.utils.retry_later import RetryLater
from tenxgraph.utils.task_context import TaskContext

_IN_PLACE_S: Final = 2.0
"""A wait up to this long costs less than a further attempt."""

AGAIN: Final = "retry_wait"
RATE_LIMIT: Final = "rate_limit"


@dataclass(slots=True)
class Waits:
    """Where the asking stands: which model, its how-manieth try, and whose turn it is.

    It outlives the attempt: a long wait ends that, and the next one begins from the note.

    Attributes:
        task: The task that asks; None outside of a graph.
        may_begin_again: Whether the attempt may end here: nothing but the asking is lost with it.
        position: Of the model that is asked, in the order of asking.
        tries: How often that one was asked before.
        turn: Names a place in the line of a rate limit; "" while there is none.
        has_told: Whether followers saw a part of an answer that may yet fail.
    """

    task: TaskContext | None
    may_begin_again: bool
    position: int = 0
    tries: int = 0
    turn: str = ""
    has_told: bool = field(default=False)

    @classmethod
    def of(cls, task: TaskContext | None) -> Waits:
        """Begin, or go on from the note of the attempt before."""
        if task is None or not task.may_begin_again or task.tool_call_id is not None:
            return cls(task, may_begin_again=False)
        note: Mapping[str, Any] = task.note.get("model", {})
        return cls(task, True, **note)

    def go_to(self, position: int) -> None:
        """Ask another model from now on."""
        self.position, self.tries, self.turn = position, 0, ""

    async def pause(self, pause_s: float, message: str) -> None:
        """Wait before the model is asked again, or the next one is."""
        await self._wait(pause_s, AGAIN, message)

    async def for_turn(self, limit: RateLimit, model: str) -> None:
        """Wait until this call may begin: all workers stand in one line for a model."""
        if self.task is None or self.task.turn is None:
            return
        self.turn = self.turn or secrets.token_hex(8)
        while (wait_s := await self.task.turn(model, self.turn, limit.calls, limit.period_s)) > 0:
            message = f"Model {model} is called {limit.calls} times in {limit.period_s:g} s at most, by all workers."
            await self._wait(wait_s, RATE_LIMIT, message)
        self.turn = ""

    async def _wait(self, pause_s: float, reason: str, message: str) -> None:
        if self.may_begin_again and (self.has_told or pause_s > _IN_PLACE_S):
            note = {"position": self.position, "tries": self.tries, "turn": self.turn}
            raise RetryLater(pause_s, reason, message, {"model": note})
        await asyncio.sleep(pause_s)

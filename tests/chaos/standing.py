"""How a thread must stand: as the oracle's, or as the ends of its runs say."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tenxgraph.core.graph import CompiledGraph, RunStatus
from tenxgraph.core.state import Message
from tenxgraph.store.base import RunView
from tests.chaos.graphs import AGAIN, Marks
from tests.chaos.teller import Story, Teller, said_id

_UNKNOWN: Final = "nobody said"


def differences(
    story: Story, oracle: "CompiledGraph[Any]", teller: Teller, runs: Sequence[RunView], state: Marks
) -> Iterator[str]:
    """Say what is wrong with a thread.

    Args:
        story: What was told.
        oracle: Its graph in process.
        teller: Who told it.
        runs: Of the thread, in the order in which they were taken in.
        state: Of the thread.
    """
    yield from story.check(teller, runs)
    if story.straight is None:
        yield from _by_their_ends(oracle, teller, runs, state)
        return
    alone = Teller(oracle, teller.thread_id, teller.patience_s)
    story.straight(alone)
    mine, right = picture(state), picture(alone.state())
    for name in right:
        if mine[name] != right[name]:
            yield f"{name} is {mine[name]!r}; the oracle has {right[name]!r}"


def picture(state: Marks) -> dict[str, Any]:
    """Return what must be equal of two states: everything but times, and but the name of the run that ended it."""
    fields = {name: getattr(state, name) for name in type(state).model_fields if name != "execution_meta"}
    return {**fields, "context": [message.model_dump(exclude={"timestamp"}) for message in state.context]}


# -- by the ends of the runs: what each left, one after the other


@dataclass
class _Part:
    """What a run, and those that continue it, left in the state."""

    run_id: str
    is_whole: bool
    marks: list[str]


def _by_their_ends(
    oracle: "CompiledGraph[Any]", teller: Teller, runs: Sequence[RunView], state: Marks
) -> Iterator[str]:
    parts, rounds = _parts_of(runs, state), 0
    if [mark for part in parts for mark in part.marks] != state.marks:
        yield f"the marks are not one run's after the other's, {[part.run_id for part in parts]}: {state.marks}"
        return
    for part in parts:
        full = _marks_alone(oracle, part.run_id, rounds, teller)
        is_right = part.marks == full if part.is_whole else _begins(part.marks, full)
        if not is_right:
            yield f"{part.run_id} left {part.marks}, of {full}"
        rounds += sum(mark.endswith("/join") for mark in part.marks)
    yield from _of_the_context(parts, state)


def _parts_of(runs: Sequence[RunView], state: Marks) -> list[_Part]:
    ends = {run.run_id.removesuffix(AGAIN): run for run in runs}  # a continuation stands for the run that it continues
    return [
        _Part(
            run_id, run.status is RunStatus.COMPLETED, [mark for mark in state.marks if mark.startswith(f"{run_id}/")]
        )
        for run_id, run in ends.items()
        if not run.reason.startswith("rolled back by ")
    ]


def _begins(marks: list[str], full: list[str]) -> bool:
    """Whether they are those of the first steps, each step's as a whole."""
    steps = [mark.split("/")[1] for mark in full]
    at_border = len(marks) in (0, len(full)) or steps[len(marks) - 1] != steps[len(marks)]
    return full[: len(marks)] == marks and at_border


def _marks_alone(oracle: "CompiledGraph[Any]", run_id: str, rounds: int, teller: Teller) -> list[str]:
    """Return the marks of a run that nothing disturbs, on a thread that has so many rounds behind it."""
    thread_id = f"{run_id} alone"
    given: dict[str, Any] = {"messages": [Message.text_message("go")], "state": {"rounds": rounds}}
    result = oracle.invoke(given, {"thread_id": thread_id, "run_id": run_id})
    while result["status"] is RunStatus.WAITING:
        answers = {asked["id"]: teller.answers.get(asked["id"], _UNKNOWN) for asked in result["interrupts"]}
        result = oracle.invoke({"resume": answers}, {"thread_id": thread_id})
    marks: list[str] = oracle.get_state({"thread_id": thread_id}).state.marks
    return marks


def _of_the_context(parts: Sequence[_Part], state: Marks) -> Iterator[str]:
    """A run that left no mark may have left its message; what a join said is as many marks as there were before."""
    told = [message.message_id if message.role == "user" else message.text() for message in state.context]
    right: list[Any] = []
    count = 0
    for part in parts:
        said = said_id(part.run_id)
        right += [said] if part.marks or said in told else []
        for mark in part.marks:
            right += [f"{count} before"] if mark.endswith("/join") else []
            count += 1
    if told != right:
        yield f"the context is {told}, not {right}"

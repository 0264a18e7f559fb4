"""Match a person's answer to the questions of a waiting run."""

import re
from collections.abc import Mapping
from typing import Any

import jsonschema
from pydantic_core import PydanticSerializationError, from_json, to_json

from tenxgraph.core.exceptions import InterruptConflictError, InvalidInputError
from tenxgraph.store.base import Interrupt, RunView


def match_answers(run: RunView, resume: Any) -> dict[str, Any]:
    """Return question id → answer.

    A dict whose keys are all ids of waiting questions answers those; one whose keys are ids of this run's questions of
    which some wait no more came too late. Anything else is the answer to the only one.

    Raises:
        InterruptConflictError: Nothing waits, or not what was answered.
        InvalidInputError: Several wait and none is named, or an answer does not fit its schema.
    """
    waiting = {asked.id: asked for asked in run.interrupts if asked.answer is None}
    if not waiting:
        raise InterruptConflictError(
            f"Nothing waits for an answer in run {run.run_id!r}: it was answered before.",
            context={"run_id": run.run_id},
        )
    answers = _by_id(run, waiting, resume)
    for name, answer in answers.items():
        _check(waiting[name], answer)
    return answers


def _by_id(run: RunView, waiting: Mapping[str, Interrupt], resume: Any) -> dict[str, Any]:
    if isinstance(resume, Mapping) and resume and all(key in waiting for key in resume):
        return dict(resume)
    if late := _late(run, waiting, resume):
        raise InterruptConflictError(
            f"In run {run.run_id!r} no answer is waited for to {', '.join(map(repr, late))}, but to "
            f"{', '.join(map(repr, waiting))}: somebody answered before. Nothing was changed.",
            context={"run_id": run.run_id, "waiting": list(waiting)},
        )
    if len(waiting) > 1:
        raise InvalidInputError(
            f"Run {run.run_id!r} waits for {len(waiting)} answers, so name which: "
            f'{{"resume": {{id: answer}}}} with ids of {", ".join(map(repr, waiting))}.',
            context={"run_id": run.run_id, "waiting": list(waiting)},
        )
    return {next(iter(waiting)): resume}


def _late(run: RunView, waiting: Mapping[str, Interrupt], resume: Any) -> list[str]:
    """A question whose task was committed is forgotten; its id still says that it was one of this run."""
    if not isinstance(resume, Mapping):
        return []
    ours = re.compile(rf"{re.escape(run.origin)}:\d+\.[^:]+:.+:\d+")
    are_ids = all(isinstance(key, str) and ours.fullmatch(key) for key in resume)
    return [key for key in resume if key not in waiting] if are_ids else []


def _check(asked: Interrupt, answer: Any) -> None:
    schema = from_json(asked.body)["response_schema"]
    try:
        plain = from_json(to_json(answer))
        if schema is not None:
            jsonschema.validate(plain, schema)
    except PydanticSerializationError as error:
        raise InvalidInputError(
            f"The answer to {asked.id!r} is a {type(answer).__name__} that JSON does not hold: pass plain values."
        ) from error
    except jsonschema.ValidationError as error:
        raise InvalidInputError(
            f"The answer to {asked.id!r} does not fit its schema: {error.message}. Nothing was changed.",
            context={"id": asked.id},
        ) from error

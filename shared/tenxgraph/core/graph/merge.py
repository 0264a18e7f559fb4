"""Merge the updates of a step into the state: a pure function of image and updates, in plan order (invariant 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from pydantic import ValidationError

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.state.codec import Encoded, EncodedUpdate, StateCodec
from tenxgraph.core.state.field_spec import FieldSpec
from tenxgraph.core.state.image import ItemLog, KeyOf, Patch, StateImage, Version, apply
from tenxgraph.core.state.trim import CONTEXT, Trim
from tenxgraph.core.state.value_codec import summary

Right = tuple[str, Encoded]
"""A task's name and its update of one field."""


class MergeConflict(GraphError):  # noqa: N818  # a conflict is what the store calls it too
    """Two tasks of one step wrote a field without reducer: give it one, or let one task write it."""

    default_code = "MERGE_CONFLICT"


class ReducerError(GraphError):
    """A reducer raised, or returned what its field does not take; ``__cause__`` says what happened."""

    default_code = "REDUCER"


def merge(
    codec: StateCodec, image: StateImage, updates: Sequence[tuple[str, EncodedUpdate]], trim: Trim | None = None
) -> Patch:
    """Return what the updates change.

    Args:
        codec: Of the graph's state class.
        image: The state before the step.
        updates: Name and update of each task, in plan order.
        trim: What a context manager left of ``context``; the updates come on top of it.

    Raises:
        MergeConflict: Two tasks wrote a field without reducer; names both and the field.
        ReducerError: A reducer raised or returned a value that is not valid; names field and task.
        SerializationError: A reducer's value would not be read back equal; names the field and the tasks.
    """
    rights: dict[str, list[Right]] = {}
    for task, update in updates:
        for name, value in update.fields.items():
            rights.setdefault(name, []).append((task, value))
    patch = Patch()
    if trim is not None:
        _merge_trimmed(codec, image, trim, rights.pop(CONTEXT, []), patch)
    for name, writers in rights.items():
        _merge_field(codec, image, codec.spec(name), writers, patch)
    return patch


def _merge_trimmed(codec: StateCodec, image: StateImage, trim: Trim, rights: list[Right], patch: Patch) -> None:
    spec, before = codec.spec(CONTEXT), codec.log(image, CONTEXT)
    left = tuple(trim.items(before))
    if spec.appends is not None:  # what is taken out does not come in again by being returned once more
        rights = [(task, _without(_items(right), before, spec.key_of)) for task, right in rights]
    within, trimmed = Patch(), replace(image, lists={**image.lists, CONTEXT: ItemLog(left)})
    if rights:
        _merge_list(codec, trimmed, spec, rights, within)
    if CONTEXT in within.cuts:
        left = tuple(apply(trimmed, within, Version.ZERO).lists[CONTEXT])
    _cut(image, before, (*left, *within.appends.get(CONTEXT, ())), patch)


def _without(items: tuple[bytes, ...], log: ItemLog, key_of: KeyOf) -> tuple[bytes, ...]:
    return tuple([item for item in items if not log.contains(key_of(item), key_of)])


def _cut(image: StateImage, before: ItemLog, items: tuple[bytes, ...], patch: Patch) -> None:
    """Make ``context`` those items, and write only the new ones."""
    if CONTEXT not in image.lists:  # nothing of it is written yet
        patch.appends[CONTEXT] = items
        return
    old = {item: position for position, item in enumerate(before)}
    new = [item for item in items if item not in old]
    behind = {item: len(before) + position for position, item in enumerate(new)}
    patch.cuts[CONTEXT] = before.cut_to([old[item] if item in old else behind[item] for item in items], new)


def _merge_field(codec: StateCodec, image: StateImage, spec: FieldSpec, rights: list[Right], patch: Patch) -> None:
    if spec.reducer is None and len(rights) > 1:
        raise _conflict(codec, spec, rights)
    if spec.is_list:
        _merge_list(codec, image, spec, rights, patch)
        return
    new = rights[-1][1] if spec.replaces else _folded(codec, image, spec, rights)
    assert isinstance(new, bytes)
    if new != image.values.get(spec.name):
        patch.values[spec.name] = new


def _merge_list(codec: StateCodec, image: StateImage, spec: FieldSpec, rights: list[Right], patch: Patch) -> None:
    before = codec.log(image, spec.name)
    if spec.appends is not None:
        new = _appended(spec, before, rights)
    else:
        items = _items(rights[-1][1] if spec.replaces else _folded(codec, image, spec, rights))
        if not before.starts(items):
            if spec.name == CONTEXT:
                _cut(image, before, items, patch)
            else:
                patch.rewrites[spec.name] = items
            return
        new = items[len(before) :]
    if new:
        unwritten = () if spec.name in image.lists else tuple(before)
        patch.appends[spec.name] = (*unwritten, *new)


def _appended(spec: FieldSpec, before: ItemLog, rights: list[Right]) -> tuple[bytes, ...]:
    key_of = spec.key_of
    seen: set[bytes] = set()
    new: list[bytes] = []
    for item in chain.from_iterable(_items(right) for _, right in rights):
        key = key_of(item)
        if key and (key in seen or before.contains(key, key_of)):
            continue
        seen.add(key)
        new.append(item)
    return tuple(new)


def _items(value: Encoded) -> tuple[bytes, ...]:
    assert isinstance(value, tuple)
    return value


def _folded(codec: StateCodec, image: StateImage, spec: FieldSpec, rights: list[Right]) -> Encoded:
    value = codec.current(spec.name, image)
    for task, right in rights:
        value = _reduced(codec, spec, value, right, task)
    return _encoded(codec, image, spec, value, rights)


def _reduced(codec: StateCodec, spec: FieldSpec, left: Any, right: Encoded, task: str) -> Any:
    assert spec.reducer is not None
    try:
        return spec.reducer(left, spec.right.decode_operand(right))
    except Exception as error:  # the reducer is the user's: whatever it raises is its fault, and named so
        raise ReducerError(
            f"The reducer of {codec.state_class.__name__}.{spec.name} raised {type(error).__name__} "
            f"on the update of {task!r}: {error}. Mend the reducer, then continue the run.",
            context={"field": spec.name, "task": task},
        ) from error


def _encoded(codec: StateCodec, image: StateImage, spec: FieldSpec, value: Any, rights: list[Right]) -> Encoded:
    tasks = _listed([task for task, _ in rights])
    try:
        valid = spec.stored.validated(value)
    except ValidationError as error:
        raise ReducerError(
            f"The reducer of {codec.state_class.__name__}.{spec.name} returned what the field does not take, "
            f"on the updates of {tasks}: {summary(error)}. Mend the reducer, then continue the run.",
            context={"field": spec.name, "task": rights[-1][0]},
        ) from error
    place = f"its reducer on the updates of {tasks}"
    if spec.is_list:
        return codec.encode_items(spec.name, valid, place=place, known=codec.log(image, spec.name)[:])
    return codec.encode(spec.name, valid, place=place)


def _conflict(codec: StateCodec, spec: FieldSpec, rights: list[Right]) -> MergeConflict:
    tasks = [task for task, _ in rights]
    return MergeConflict(
        f"{_listed(tasks)} of one step wrote {codec.state_class.__name__}.{spec.name}, which has no reducer: "
        "annotate the field with one, or let one task write it.",
        context={"field": spec.name, "tasks": tasks},
    )


def _listed(tasks: Sequence[str]) -> str:
    return " and ".join(map(repr, tasks))

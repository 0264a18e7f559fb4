"""What a caller hands in, checked and encoded before anything is written."""

import hashlib
import uuid
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
from pydantic import ValidationError

from tenxgraph.core.exceptions import InvalidInputError
from tenxgraph.core.graph.multitask import MultitaskStrategy
from tenxgraph.core.state.agent_state import AgentState
from tenxgraph.core.state.codec import EncodedUpdate
from tenxgraph.core.state.message import Message
from tenxgraph.core.state.trim import CONTEXT
from tenxgraph.engine.chunks import chunk
from tenxgraph.engine.runtime import Runtime
from tenxgraph.engine.step import PLAN_ADVANCE, PLAN_RESUME, PLAN_START
from tenxgraph.store.base import PLAN, InputKind, NewRun, TaskSpec
from tenxgraph.wire import RunConfig, TaskUpdate

INPUT_KEYS = frozenset({"messages", "state", "resume"})
RUNTIME_FIELDS = frozenset({"context", "context_summary", "execution_meta"})
STRATEGIES = tuple(map(str, MultitaskStrategy))
STEPS = ("task", "sticky")


@dataclass(frozen=True, slots=True)
class Call:
    """A checked call.

    Attributes:
        update: The input as an update; None when there is none (continue, or an answer alone).
        has_messages: Whether the update brings messages.
        resume: The answer, in a tuple of one; None when the caller gave none.
        digest: Of thread, user and input, without generated ids and times.
    """

    config: RunConfig
    update: TaskUpdate | None
    has_messages: bool
    resume: tuple[Any] | None
    digest: str

    @property
    def kind(self) -> InputKind:
        """What admission makes of it."""
        return InputKind.CONTINUE if self.update is None else InputKind.MESSAGE


def read_call(
    runtime: Runtime[Any], input_data: Any, config: Mapping[str, Any] | None, *, recursion_limit: int
) -> Call:
    """Check input and config.

    Raises:
        InvalidInputError: Naming the key and what it must be.
    """
    checked = read_config(config, recursion_limit=recursion_limit)
    given = _as_dict(input_data)
    resume = (given.pop("resume"),) if "resume" in given else None
    messages = _messages(given.get("messages", []))
    fields = _fields(runtime, given.get("state", {}))
    said = runtime.codec.validate_update(fields, place="the input").to_json()
    digest = _digest(checked, input_data is None, messages, said, resume)
    if not given:
        return Call(checked, None, False, resume, digest)
    update = runtime.codec.validate_update({CONTEXT: messages, **fields}, place="the input")
    return Call(checked, TaskUpdate(update), bool(messages), resume, digest)


def _as_dict(input_data: Any) -> dict[str, Any]:
    if input_data is None:
        return {}
    if isinstance(input_data, AgentState):
        return _from_state(input_data)
    if not isinstance(input_data, Mapping):
        raise InvalidInputError(
            f"The input is a {type(input_data).__name__}: pass a dict with messages, state or resume, a state, or None."
        )
    unknown = sorted(str(key) for key in input_data if key not in INPUT_KEYS)
    if unknown:
        raise InvalidInputError(
            f"The input has unknown keys {', '.join(unknown)}: it takes messages, state and resume; "
            "fields of your state belong into the dict under state."
        )
    if not input_data:
        raise InvalidInputError("The input is empty: give messages, or pass None to continue a run.")
    return dict(input_data)


def _from_state(state: AgentState) -> dict[str, Any]:
    fields = {name: getattr(state, name) for name in state.model_fields_set if name not in RUNTIME_FIELDS}
    return {"messages": list(state.context), "state": fields}


def _messages(given: Any) -> list[Message]:
    if isinstance(given, str | Mapping | Message) or not isinstance(given, Sequence):
        raise InvalidInputError(
            f"messages is a {type(given).__name__}: pass a list, such as [Message.text_message('Hi')]."
        )
    return [_message(item, position) for position, item in enumerate(given)]


def _message(item: Any, position: int) -> Message:
    if isinstance(item, Message):
        return item
    if not isinstance(item, Mapping):
        raise InvalidInputError(
            f"messages[{position}] is a {type(item).__name__}: pass a Message or a dict of its fields."
        )
    try:
        return Message.model_validate(dict(item))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise InvalidInputError(f"messages[{position}].{where} is wrong: {fault['msg']}.") from error


def _fields(runtime: Runtime[Any], given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidInputError(f"state is a {type(given).__name__}: pass a dict of field name to value.")
    known = {name: value for name, value in given.items() if name in runtime.codec.specs and name not in RUNTIME_FIELDS}
    ignored = sorted(str(name) for name in given if name not in known)
    if ignored:
        warnings.warn(
            f"input['state'] sets {', '.join(ignored)}, which {runtime.definition.state_class.__name__} does not take "
            "from outside: ignored.",
            stacklevel=2,
        )
    return known


def _digest(
    config: RunConfig, is_none: bool, messages: Sequence[Message], fields: bytes, resume: tuple[Any] | None
) -> str:
    """A fingerprint of what the caller said; what this library made up (ids, times) is left out."""
    said = [
        message.model_dump_json(exclude={"timestamp"} | ({"message_id"} - message.model_fields_set))
        for message in messages
    ]
    parts = [config.thread_id, config.user_id, str(is_none), *said, fields.decode(), repr(resume)]
    if config.checkpoint is not None:
        parts.append(f"from checkpoint {config.checkpoint}")
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def new_run(runtime: Runtime[Any], call: Call, meta: bytes = b"") -> NewRun:
    """Return what the store needs to take the run in; ``meta`` is of the checkpoint that going back writes."""
    config, update = call.config, call.update or TaskUpdate(EncodedUpdate({}))
    return NewRun(
        thread_id=config.thread_id,
        run_id=config.run_id,
        graph=runtime.name,
        graph_version=runtime.version,
        user_id=config.user_id,
        kind=call.kind,
        digest=call.digest,
        request=config.to_json(),
        input=update.to_json(),
        start=_plan_task(runtime, config, PLAN_START),
        resume=_plan_task(runtime, config, PLAN_RESUME),
        advance=_plan_task(runtime, config, PLAN_ADVANCE),
        strategy=config.multitask_strategy,
        delay_ms=round(config.start_after_s * 1000),
        timeout_ms=round(config.timeout_s * 1000),
        events=chunk("run_start", data={"graph": runtime.name}),
        checkpoint=config.checkpoint or 0,
        meta=meta,
    )


def _plan_task(runtime: Runtime[Any], config: RunConfig, kind: str) -> TaskSpec:
    return TaskSpec(PLAN, kind, queue=runtime.default_queue, priority=config.priority or 0)


# -- config

_Kind = type | tuple[type, ...]
_KNOWN: dict[str, tuple[_Kind, str]] = {
    "thread_id": (str, "a text"),
    "user_id": (str, "a text"),
    "run_id": (str, "a text"),
    "recursion_limit": (int, "a whole number above 0"),
    "timeout_s": ((int, float), "a number of seconds above 0"),
    "multitask_strategy": (str, f"one of {', '.join(map(repr, STRATEGIES))}"),
    "priority": (int, "a whole number from 0 to 9"),
    "start_after_s": ((int, float), "a number of seconds, 0 or more"),
    "stream_tokens": (bool, "True or False"),
    "steps": (str, f"one of {', '.join(map(repr, STEPS))}"),
    "checkpoint": (int, "a whole number above 0, as get_state_history() shows it"),
}


_CHOICES = {"multitask_strategy": STRATEGIES, "steps": STEPS}
_RANGES: dict[str, tuple[float, float]] = {
    "recursion_limit": (1, 10**9),
    "timeout_s": (0.001, 10**9),
    "priority": (0, 9),
    "start_after_s": (0, 10**9),
    "checkpoint": (1, 2**53),
}


def read_config(config: Mapping[str, Any] | None, *, recursion_limit: int) -> RunConfig:
    """Check a config and fill in what is missing.

    Raises:
        InvalidInputError: Naming the key and what it must be.
    """
    if config is not None and not isinstance(config, Mapping):
        raise InvalidInputError(f"config is a {type(config).__name__}: pass a dict such as {{'thread_id': 'demo'}}.")
    given = {name: value for name, value in (config or {}).items() if value is not None}
    known = {name: _checked(name, given.pop(name)) for name in _KNOWN if name in given}
    run_id = known.setdefault("run_id", str(uuid.uuid4()))
    known.setdefault("thread_id", run_id)
    known.setdefault("user_id", "anonymous")
    known.setdefault("recursion_limit", recursion_limit)
    return replace(RunConfig(**known), extra=_extra(given))


def _checked(name: str, value: Any) -> Any:
    kind, wanted = _KNOWN[name]
    if not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool) or not _in_range(name, value):
        raise InvalidInputError(f"config[{name!r}] is {value!r}: it must be {wanted}.", context={"key": name})
    return value


def _in_range(name: str, value: Any) -> bool:
    if name in _CHOICES:
        return value in _CHOICES[name]
    if name in _RANGES:
        lowest, highest = _RANGES[name]
        return bool(lowest <= value <= highest)
    return isinstance(value, bool) or (bool(value) and _is_text(value))


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _extra(given: dict[str, Any]) -> dict[str, Any]:
    for name, value in given.items():
        try:
            exact = isinstance(name, str) and orjson.loads(orjson.dumps(value)) == value
        except (TypeError, ValueError):
            exact = False
        if not exact:
            raise InvalidInputError(
                f"config[{name!r}] is a {type(value).__name__} that JSON does not hold: nodes run elsewhere and "
                "get JSON; give plain values, or build it in the node.",
                context={"key": str(name)},
            )
    return given

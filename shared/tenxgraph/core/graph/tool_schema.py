"""A tool: a function, what models are told about it, and how its arguments are checked."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from injectq import Inject, InjectQ
from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind

from tenxgraph.core.exceptions import GraphError
from tenxgraph.core.graph.annotations import plain_function, qualified_name
from tenxgraph.core.graph.call_plan import Dependency
from tenxgraph.core.graph.node import is_name, is_time
from tenxgraph.core.graph.tool_docs import read_docstring
from tenxgraph.utils.tool import ToolMark, tool_mark

_EMPTY: Final = inspect.Parameter.empty
_RUNTIME: Final = frozenset({"state", "config", "tool_call_id", "emit"})
_SCALARS: Final = (str, int, float, bool)
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """A function that models may call.

    Attributes:
        name: What models call it by.
        description: What models read about it.
        tags: As given to ``@tool``.
        fn: What is called.
        is_async: Whether it is a coroutine function; others run in a thread.
        parameters: JSON Schema of the arguments that a model gives.
        injected: Parameters that the runtime gives: ``state``, ``config``, ``tool_call_id``, ``emit``.
        dependencies: Parameters that the graph's injectq container supplies.
        timeout_s: Longest time of one call, in seconds; None as long as the node has.
        queue: Where its calls go as tasks of their own; None where the node's go.
    """

    name: str
    description: str
    tags: frozenset[str]
    fn: Callable[..., Any]
    is_async: bool
    parameters: Mapping[str, Any]
    injected: frozenset[str]
    dependencies: tuple[Dependency, ...]
    timeout_s: float | None
    queue: str | None
    _arguments: type[BaseModel] = field(repr=False)
    _signature: inspect.Signature = field(repr=False)

    def validate(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call as the function takes them; what the model left out stays out.

        Raises:
            pydantic.ValidationError: An argument is wrong, missing or unknown.
        """
        found = self._arguments.model_validate(args)
        given = {
            str(info.alias): getattr(found, field_name)
            for field_name, info in type(found).model_fields.items()
            if field_name in found.model_fields_set or self._has_no_default_of_its_own(str(info.alias))
        }
        return given | (found.model_extra or {})

    def _has_no_default_of_its_own(self, parameter: str) -> bool:
        return isinstance(self._signature.parameters[parameter].default, FieldInfo)

    def bind(self, values: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return ``(args, kwargs)`` for a call with these values by parameter name."""
        extra = {name: value for name, value in values.items() if name not in self._signature.parameters}
        own = {name: value for name, value in values.items() if name not in extra}
        bound = inspect.BoundArguments(self._signature, own)
        return bound.args, {**bound.kwargs, **extra}

    def missing(self, container: InjectQ) -> tuple[str, ...]:
        """Return the dependencies that a container does not know."""
        return tuple(
            need.parameter for need in self.dependencies if not need.optional and need.known_as(container) is None
        )

    def schema(self) -> dict[str, Any]:
        """Return ``{name, description, parameters}``, as every provider wants to know it."""
        return {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}


def build_tool(fn: Callable[..., Any]) -> Tool:
    """Read a function's name, docstring and signature.

    Raises:
        GraphError: ``INVALID_TOOL`` naming the tool and the parameter that cannot be described to a model.
    """
    mark = tool_mark(fn)
    name = _name(fn, mark)
    _check_policies(name, mark)
    signature, hints = _signature(fn, name), _hints(fn)
    description, about = read_docstring(_docstring(fn))
    kinds = {item.name: _kind(item, hints, name) for item in signature.parameters.values()}
    arguments = _arguments(signature, hints, about, name, [each for each, kind in kinds.items() if kind == "argument"])
    return Tool(
        name=name,
        description=mark.description or description,
        tags=mark.tags,
        fn=fn,
        is_async=inspect.iscoroutinefunction(plain_function(fn)),
        parameters=_json_schema(arguments, name),
        injected=frozenset(each for each, kind in kinds.items() if kind == "injected"),
        dependencies=tuple(kind for kind in kinds.values() if isinstance(kind, Dependency)),
        timeout_s=mark.timeout_s,
        queue=mark.queue,
        _arguments=arguments,
        _signature=signature,
    )


def argument_faults(error: ValidationError) -> str:
    """Say in one line which arguments are wrong, and how."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    said = [f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}" for fault in faults[:5]]
    return "; ".join(said) + (f"; and {len(faults) - 5} more" if len(faults) > 5 else "")


def _name(fn: Any, mark: ToolMark) -> str:
    if not callable(fn) or inspect.isclass(fn):
        raise _invalid(repr(fn), "pass a function, or an instance with __call__")
    name = mark.name or qualified_name(fn).rpartition(".")[2]
    if not _NAME.fullmatch(name):
        _refuse(name, "providers take names of 1 to 64 letters, digits, _ and -; name it with @tool(name=…)")
    function = plain_function(fn)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        _refuse(name, "a generator has no result; return it, and send what comes before with emit()")
    return name


def _check_policies(name: str, mark: ToolMark) -> None:
    if mark.timeout_s is not None and not is_time(mark.timeout_s):
        _refuse(name, f"timeout_s must be a number of seconds above 0, not {mark.timeout_s!r}")
    if mark.queue is not None and not is_name(mark.queue):
        _refuse(name, f"queue must be the name of a queue, not {mark.queue!r}")


def _signature(fn: Callable[..., Any], name: str) -> inspect.Signature:
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError) as error:
        raise _invalid(repr(name), f"it shows no signature ({error}); wrap it in a function") from error
    for item in signature.parameters.values():
        if item.kind is inspect.Parameter.VAR_POSITIONAL:
            _refuse(name, f"models give arguments by name, so *{item.name} gets none; take a list instead")
    return signature


def _hints(fn: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations with their metadata; one that cannot be evaluated stays a text."""
    function = inspect.unwrap(plain_function(fn))
    try:
        return get_type_hints(function, include_extras=True)
    except Exception:  # noqa: BLE001 - an annotation is any expression, and may raise anything
        return dict(getattr(function, "__annotations__", {}))


def _docstring(fn: Any) -> str | None:
    while isinstance(fn, partial):
        fn = fn.func
    text: str | None = fn.__doc__ if inspect.isroutine(fn) else type(fn).__call__.__doc__ or type(fn).__doc__
    return text


_Kind = Literal["injected", "argument", "rest"] | Dependency


def _kind(item: inspect.Parameter, hints: Mapping[str, Any], tool: str) -> _Kind:
    hint = hints.get(item.name, Any)
    if item.kind is inspect.Parameter.VAR_KEYWORD:
        return "rest"
    if isinstance(item.default, Inject):
        key = item.default.service_type
        return Dependency(item.name, key, marked=True, optional=False, by_name=False)
    if item.name == "tool_call_id" or (item.name in _RUNTIME and not _is_scalar(hint)):
        return "injected"
    if isinstance(hint, str):
        _refuse(tool, f"the annotation {hint!r} of {item.name!r} cannot be read at run time; import what it names")
    if _is_argument(hint):
        return "argument"
    bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if not isinstance(bare, type):
        _refuse(tool, f"{item.name!r} is a {hint!r}, which no model can give; take plain values")
    return Dependency(item.name, bare, marked=False, optional=item.default is not _EMPTY, by_name=False)


def _is_scalar(hint: Any) -> bool:
    """Tell whether a parameter named like an injected one is an argument after all, as ``state: str`` of an address."""
    if get_origin(hint) is Annotated:
        return _is_scalar(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return all(arm is NoneType or _is_scalar(arm) for arm in get_args(hint))
    return hint in _SCALARS or get_origin(hint) is Literal or (isinstance(hint, type) and issubclass(hint, Enum))


def _is_argument(hint: Any) -> bool:
    try:
        TypeAdapter(hint)
    except PydanticUserError:
        return False
    return True


def _arguments(
    signature: inspect.Signature, hints: Mapping[str, Any], about: Mapping[str, str], tool: str, names: list[str]
) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for position, name in enumerate(names):
        item = signature.parameters[name]
        hint = hints.get(name, Any)
        default = ... if item.default is _EMPTY else item.default
        # The field has a name of its own: parameters may be called `schema`, `copy` or `_x`.
        fields[f"argument_{position}"] = _field(hint, default, name, about.get(name))
    takes_more = any(item.kind is inspect.Parameter.VAR_KEYWORD for item in signature.parameters.values())
    config = ConfigDict(extra="allow" if takes_more else "forbid", arbitrary_types_allowed=False)
    return create_model(tool, __config__=config, **fields)


def _field(hint: Any, default: Any, name: str, description: str | None) -> tuple[Any, Any]:
    if isinstance(default, FieldInfo):  # city: str = Field(description=…)
        own = default
        hint, default = Annotated[hint, own], own.default if not own.is_required() else ...
    described = any(isinstance(item, FieldInfo) and item.description for item in getattr(hint, "__metadata__", ()))
    text = None if described else description
    return hint, Field(default, alias=name, description=text) if text else Field(default, alias=name)


class _Plain(GenerateJsonSchema):
    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - titles only repeat the names
        return False


def _json_schema(arguments: type[BaseModel], tool: str) -> dict[str, Any]:
    try:
        schema = arguments.model_json_schema(schema_generator=_Plain)
    except PydanticUserError as error:
        raise _invalid(repr(tool), f"its arguments have no JSON Schema ({error.message}); take plain values") from error
    schema.pop("title", None)
    schema.setdefault("properties", {})
    return schema


def _refuse(tool: str, reason: str) -> NoReturn:
    raise _invalid(repr(tool), reason)


def _invalid(tool: str, reason: str) -> GraphError:
    return GraphError(f"Tool {tool}: {reason}.", error_code="INVALID_TOOL", context={"tool": tool})

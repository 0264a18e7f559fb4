"""What an error becomes on the way out: one sentence on stderr, and an exit code."""

import json
import os
import sys
from typing import Final

import typer

from tenxgraph.core.exceptions import (
    GraphError,
    GraphRecursionError,
    InvalidInputError,
    NodeError,
    RunCancelledError,
    RunTimeoutError,
    TenxGraphError,
)

FAILURE: Final = 1
USAGE: Final = 2
RUN_FAILED: Final = 3
STILL_RUNNING: Final = 4
INTERRUPTED: Final = 130

_RUN_ERRORS = (NodeError, GraphRecursionError, RunCancelledError, RunTimeoutError)
_PARSER_ERROR: type[Exception] = typer.BadParameter.__bases__[0]
"""Typer shows this class, ``UsageError``, only by its child."""


class StillRunningError(TenxGraphError):
    """Waiting is over; the run goes on."""

    default_code = "STILL_RUNNING"


def report(error: BaseException, *, as_json: bool) -> int:
    """Say what went wrong and return the exit code. What nobody expected is raised again."""
    if isinstance(error, SystemExit):
        raise error
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # Whoever read us has enough; else Python complains once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    if _was_help(error):
        return USAGE
    known = _known(error)
    if known is None:
        raise error
    if as_json:
        print(json.dumps({"error": known.to_dict()}, default=str), file=sys.stderr)
    else:
        print(f"tenxgraph: {_one_line(known.message)}", file=sys.stderr)
    return _code(known)


def _was_help(error: BaseException) -> bool:
    """A noun without a verb: its help was shown."""
    return isinstance(error, _PARSER_ERROR) and not str(error)


def _known(error: BaseException) -> TenxGraphError | None:
    if isinstance(error, TenxGraphError):
        return error
    if isinstance(error, _PARSER_ERROR):
        return _from_parser(error)
    if isinstance(error, OSError):
        return TenxGraphError(
            f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}.", error_code="OS"
        )
    return None


def _from_parser(error: Exception) -> TenxGraphError:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "tenxgraph"
    sentence = _one_line(error.format_message()) if hasattr(error, "format_message") else str(error)
    return InvalidInputError(f"{sentence} See '{command} --help'.", error_code="USAGE")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _code(error: TenxGraphError) -> int:
    if isinstance(error, StillRunningError):
        return STILL_RUNNING
    if isinstance(error, _RUN_ERRORS):
        return RUN_FAILED
    return USAGE if isinstance(error, GraphError) else FAILURE

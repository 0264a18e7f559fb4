"""What an attempt failed of, as the store and the run's caller are told."""

import traceback
from collections.abc import Mapping
from typing import Any, Final

from tenxgraph.core.exceptions import EffectLostError, NodeError, NodeTimeoutError, TenxGraphError
from tenxgraph.engine.step import error_event
from tenxgraph.engine.user_call import CallTimedOutError
from tenxgraph.store.base import Claim, Settlement, TaskStatus
from tenxgraph.wire import Failure

WAITS: Final = "RETRY_LATER"
"""Code of what is no failure: an attempt that left to wait without a worker."""


def failed_before(claim: Claim) -> int:
    """Say how often the task has failed before this attempt."""
    return Failure.from_json(claim.error).tries if claim.error else 0


def noted(claim: Claim) -> Mapping[str, Any]:
    """Return what the task's last attempt left for this one."""
    found: Mapping[str, Any] = Failure.from_json(claim.error).context.get("note", {}) if claim.error else {}
    return found


def as_timeout(error: BaseException, claim: Claim, timeout_s: float | None) -> BaseException:
    """Return the error that says how long a call that timed out could have taken; any other error as it is."""
    if not isinstance(error, CallTimedOutError):
        return error
    node, attempt = claim.spec.node, claim.ref.attempt
    return NodeTimeoutError(
        f"node {node!r} took longer than its timeout_s of {timeout_s:g} s: raise timeout_s, or make it quicker.",
        node=node,
        attempt=attempt,
    )


def failure_of(node: str, attempt: int, error: BaseException, prefix: str) -> Failure:
    """Describe what an attempt failed of; ``prefix`` stands before what is not of our own making."""
    kind: type[NodeError] = type(error) if isinstance(error, NodeTimeoutError | EffectLostError) else NodeError
    text = error.message if isinstance(error, TenxGraphError) else f"{type(error).__name__}: {error}"
    context: Mapping[str, Any] = error.context if isinstance(error, TenxGraphError) else {}
    return Failure(
        error=kind.__name__,
        message=prefix + text if kind is NodeError else text,
        code=error.error_code if isinstance(error, TenxGraphError) else kind.default_code,
        node=node,
        attempt=attempt,
        cause=f"{type(error).__module__}.{type(error).__qualname__}",
        traceback="".join(traceback.format_exception(error, limit=-6)),
        context=dict(context),
    )


def failed(failure: Failure, claim: Claim) -> Settlement:
    """Return the end of an attempt that failed for good."""
    return Settlement(TaskStatus.FAILED, error=failure.to_json(), events=error_event(failure, claim.ref.step))

"""Calls of user code: the engine yields them, a driver makes them where it stands."""

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


USER_FAULTS = (Exception, asyncio.CancelledError, SystemExit, KeyboardInterrupt)
"""What user code may end with that counts as its failure."""


class CallTimedOutError(Exception):
    """User code took longer than its call allows; it may still run."""


def _not_wanted(call: "Future[Any]") -> None:
    """Nobody would cancel it."""


@dataclass(frozen=True, slots=True)
class UserCall:
    """One call of a node or a router.

    Attributes:
        fn: Takes nothing; returns a value, or an awaitable when ``is_async``.
        context: Context variables that the call sees.
        timeout_s: Give up waiting after this long; None for never.
        started: Told of the future of an async call that another thread waits for.
    """

    fn: Callable[[], Any]
    is_async: bool
    context: contextvars.Context
    timeout_s: float | None = None
    started: Callable[["Future[Any]"], None] = _not_wanted


Steps = Generator[UserCall, Any, T]
"""Code of the engine that needs user code called on its way to a ``T``."""


_LOOP_LOCK = threading.Lock()


@cache
def _loop_of(pid: int) -> asyncio.AbstractEventLoop:
    del pid  # a forked child has threads of its own, so a loop of its own
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="tenxgraph-nodes", daemon=True).start()
    return loop


def node_loop() -> asyncio.AbstractEventLoop:
    """The event loop of this process on which all async nodes run, so that their clients may outlive a task."""
    with _LOOP_LOCK:  # the cache alone would let two threads make a loop each
        return _loop_of(os.getpid())


def _in_thread(call: UserCall) -> "Future[Any]":
    future: Future[Any] = Future()

    def work() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(call.context.run(call.fn))
        except BaseException as error:  # noqa: BLE001 - handed over whole to whoever waits
            future.set_exception(_throwable(error))

    threading.Thread(target=work, name="tenxgraph-node", daemon=True).start()
    return future


def _throwable(error: BaseException) -> BaseException:
    """A StopIteration cannot be thrown into a generator, nor set on a future."""
    if not isinstance(error, StopIteration):
        return error
    wrapped = RuntimeError("user code raised StopIteration")
    wrapped.__cause__ = error
    return wrapped


def _begin(call: UserCall) -> "asyncio.Future[Any]":
    if not call.is_async:
        return asyncio.wrap_future(_in_thread(call))
    return asyncio.get_running_loop().create_task(_awaited(call.fn), context=call.context)


@dataclass(frozen=True, slots=True)
class _Exit:
    """Stands in for what would take the loop along with the task that raises it."""

    error: BaseException


async def _awaited(fn: Callable[[], Any]) -> Any:
    try:
        return await fn()
    except (SystemExit, KeyboardInterrupt) as error:
        return _Exit(error)


def _value_of(made: Any) -> Any:
    if isinstance(made, _Exit):
        raise made.error
    return made


async def _make(call: UserCall) -> Any:
    limit = asyncio.timeout(call.timeout_s)
    try:
        async with limit:
            return await _begin(call)
    except TimeoutError as error:
        if limit.expired():
            raise CallTimedOutError from error
        raise


def _go_on(steps: Steps[T], value: Any, error: BaseException | None) -> UserCall:
    return steps.send(value) if error is None else steps.throw(error)


async def adrive(steps: Steps[T]) -> T:
    """Run engine code on the node loop; sync user code gets a thread."""
    value: Any = None
    error: BaseException | None = None
    try:
        while True:
            call = _go_on(steps, value, error)
            value = error = None
            try:
                value = _value_of(await _make(call))
            except BaseException as raised:  # noqa: BLE001 - the engine decides what a failure means
                error = _throwable(raised)
    except StopIteration as done:
        result: T = done.value
        return result


def drive(steps: Steps[T]) -> T:
    """Run engine code on this thread; sync user code too, async user code on the node loop."""
    value: Any = None
    error: BaseException | None = None
    try:
        while True:
            call = _go_on(steps, value, error)
            value = error = None
            try:
                value = _make_here(call)
            except BaseException as raised:  # noqa: BLE001 - the engine decides what a failure means
                error = _throwable(raised)
    except StopIteration as done:
        result: T = done.value
        return result


def _make_here(call: UserCall) -> Any:
    if not call.is_async:
        return call.context.run(call.fn)
    future = asyncio.run_coroutine_threadsafe(_make(call), node_loop())
    call.started(future)
    return _value_of(future.result())

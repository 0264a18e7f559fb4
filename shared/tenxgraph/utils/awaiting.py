"""Wait for an awaitable from code that is not async."""

import asyncio
import contextvars
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


async def _await(awaitable: Awaitable[T]) -> T:
    return await awaitable


def _loop_runs_here() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def wait_for(awaitable: Awaitable[T]) -> T:
    """Return what ``awaitable`` gives, from synchronous code, with the caller's context variables.

    Where a loop runs in this thread, it is awaited on the loop of a short-lived thread, and this thread's loop stands
    still meanwhile: the awaitable must not need it.
    """
    if not _loop_runs_here():
        return asyncio.run(_await(awaitable))
    context = contextvars.copy_context()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="tenxgraph-await") as pool:
        return pool.submit(context.run, asyncio.run, _await(awaitable)).result()

"""Submit a run, follow it, and print what comes out."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import to_jsonable_python

from tenxgraph.core.graph import CompiledGraph, RunHandle
from tenxgraph.core.state import Message
from tenxgraph.core.state.stream_chunk import StreamChunk, StreamEvent
from tenxgraph_worker.cli.errors import StillRunningError
from tenxgraph_worker.cli.output import print_json
from tenxgraph_worker.cli.progress import RunProgress

_PATIENCE_S: Final = 5.0
_PARTIAL: Final = "partial"
_TAKEN: Final = frozenset(StreamEvent) - {StreamEvent.RUN_START}


@dataclass(frozen=True, slots=True)
class RunCommand:
    """One call of ``tenxgraph run``.

    Attributes:
        given: The graph's input.
        timeout_s: How long to wait; None for as long as it takes.
    """

    graph: CompiledGraph[Any]
    given: Mapping[str, Any]
    config: Mapping[str, Any]
    is_streaming: bool = False
    as_json: bool = False
    timeout_s: float | None = None

    async def submit(self) -> None:
        """Start the run and print its id."""
        handle = await self._start()
        if self.as_json:
            print_json({"run_id": handle.run_id, "thread_id": handle.thread_id, "status": str(await handle.astatus())})
        else:
            print(handle.run_id)

    async def follow(self) -> None:
        """Start the run, wait for it, and print what it gave.

        Raises:
            StillRunningError: ``timeout_s`` is over.
            NodeError: The run failed, or what else a result raises.
        """
        handle = await self._start()
        if not self.as_json:
            print(f"run {handle.run_id} on thread {handle.thread_id}", file=sys.stderr)
        try:
            async with asyncio.timeout(self.timeout_s):
                await self._show(handle)
                result = await handle.aresult()
        except TimeoutError as error:
            raise _still_running(handle, f"has not ended within {self.timeout_s:g} s") from error
        except asyncio.CancelledError:
            print(f"tenxgraph: {_goes_on(handle)}", file=sys.stderr)
            raise
        self._print(result)

    async def _start(self) -> RunHandle[Any]:
        return await self.graph.asubmit(dict(self.given), dict(self.config))

    async def _show(self, handle: RunHandle[Any]) -> None:
        with RunProgress() as progress:
            async with _impatient(handle) as taken, aclosing(_chunks(handle)) as chunks:
                async for chunk in chunks:
                    if chunk.event in _TAKEN:
                        taken()
                    if self.is_streaming:
                        self._show_chunk(progress, chunk)

    def _show_chunk(self, progress: RunProgress, chunk: StreamChunk) -> None:
        if self.as_json:
            print(chunk.model_dump_json(exclude_none=True), flush=True)
        else:
            progress.show(chunk)

    def _print(self, result: Mapping[str, Any]) -> None:
        plain = to_jsonable_python(result)
        if self.as_json:
            if self.is_streaming:
                print(json.dumps({"event": "result", "data": plain}, ensure_ascii=False), flush=True)
            else:
                print_json(plain)
            return
        for message in result["messages"]:
            _print_message(message)
        for asked in result["interrupts"]:
            print(f"waits: {asked['node']} asks {json.dumps(asked['value'], ensure_ascii=False, default=str)}")
            print(f"answer with: tenxgraph runs resume {result['run_id']} ANSWER --interrupt {asked['id']}")


async def _chunks(handle: RunHandle[Any]) -> AsyncGenerator[StreamChunk, None]:
    async for chunk in handle.astream(response_granularity=_PARTIAL):
        yield chunk


@asynccontextmanager
async def _impatient(handle: RunHandle[Any]) -> AsyncIterator[Any]:
    """Say where to look when nobody takes the run; the block calls what it gets when somebody does."""
    hint = f"tenxgraph: no worker has taken it yet; 'tenxgraph runs why {handle.run_id}' says why"
    timer = asyncio.get_running_loop().call_later(_PATIENCE_S, lambda: print(hint, file=sys.stderr))
    try:
        yield timer.cancel
    finally:
        timer.cancel()


def _print_message(message: Message) -> None:
    text = message.text()
    if message.role != "user" and text:
        print(text)


def _still_running(handle: RunHandle[Any], what: str) -> StillRunningError:
    return StillRunningError(
        f"Run {handle.run_id!r} {what} and goes on: 'tenxgraph runs show {handle.run_id}' tells how it ends.",
        context={"run_id": handle.run_id, "thread_id": handle.thread_id},
    )


def _goes_on(handle: RunHandle[Any]) -> str:
    return f"the run goes on: 'tenxgraph runs show {handle.run_id}', or 'tenxgraph runs stop {handle.run_id}'"

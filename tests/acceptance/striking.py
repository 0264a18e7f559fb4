"""Workers that die by their own SIGKILL at a point which the test names in a file beside the ledger.

The point is ``<moment> <call> <which>``: ``before advance 3.0`` (step and task), ``after record call_1_0`` or
``in tool call_1_0`` (the tool call). Whoever comes there first takes the file and dies; so each strike happens once, in
whichever process.
"""

import functools
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tenxgraph.settings import Settings
from tenxgraph.store.redis import RedisStore
from tenxgraph_worker import make_app
from tests.acceptance.graphs import note

_OF_A_TASK: Final = ("claim", "commit", "advance")
_OF_A_CALL: Final = {"reserve": 2, "record": 1}
"""Where their arguments name the effect."""


def order(folder: Path, point: str) -> None:
    """Let the next process that comes to a point die there."""
    (folder / "strike.new").write_text(point)
    (folder / "strike.new").rename(folder / "strike")


def is_struck(folder: Path) -> bool:
    """Tell whether somebody died there."""
    return not (folder / "strike").exists()


def strike_here(moment: str, call: str, which: str) -> None:
    """Die if this is the point."""
    path = Path(os.environ["LEDGER"]).with_name("strike")
    with suppress(FileNotFoundError):
        if path.read_text() == f"{moment} {call} {which}":
            path.rename(path.with_name(f"struck-{os.getpid()}"))
            os.kill(os.getpid(), signal.SIGKILL)


def _which(call: str, args: tuple[Any, ...]) -> str:
    if call in _OF_A_TASK:
        return f"{args[0].step}.{args[0].task}"
    return str(json.loads(args[_OF_A_CALL[call]])[-1])


def _striking(call: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def struck(store: Any, *args: Any, **kwargs: Any) -> Any:
        which = _which(call, args)
        strike_here("before", call, which)
        reply = method(store, *args, **kwargs)
        if call == "record":
            note("recorded", which)
        strike_here("after", call, which)
        return reply

    return struck


def serve() -> None:
    """Be a worker of the graphs in the first argument, with Celery's options behind it."""
    for call in (*_OF_A_TASK, *_OF_A_CALL):
        setattr(RedisStore, call, _striking(call, getattr(RedisStore, call)))
    make_app(Settings.load(), sys.argv[1].split(",")).worker_main(["worker", *sys.argv[2:]])

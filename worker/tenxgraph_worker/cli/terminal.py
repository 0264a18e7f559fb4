"""Several processes in one terminal."""

import signal
import sys
import threading
from collections.abc import Callable
from datetime import datetime
from types import FrameType

from honcho.colour import get_colours
from honcho.printer import Message, Printer


def lines_to_terminal() -> Callable[[str, str], None]:
    """Return what prints a member's line, with time and name before it; any thread may call it."""
    printer, colours, lock = Printer(sys.stdout, width=10), get_colours(), threading.Lock()
    colour_of: dict[str, str] = {}

    def show(name: str, line: str) -> None:
        with lock:
            if name not in colour_of:
                colour_of[name] = next(colours)
            printer.write(Message("line", line + "\n", datetime.now().astimezone(), name, colour_of[name]))

    return show


def exit_on_sigterm() -> None:
    """Leave in order when told to end, as with Ctrl-C."""

    def leave(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, leave)

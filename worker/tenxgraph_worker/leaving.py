"""The end of a worker that cannot wait for what goes on in it."""

import logging
import os
import signal
import sys
import time
from contextlib import suppress

from celery.worker import state

from tenxgraph_scheduler.broker import TASK_NAME
from tenxgraph_worker.shutdown import Shutdown

_logger = logging.getLogger(__name__)

_LAST_S = 2.0
_LOOK_S = 0.1
_EXIT_CODE = 75


def leave_worker() -> None:
    """End this process, in order if it does that by itself soon. Other tasks of an app that we joined may finish."""
    deadline_s = time.monotonic() + _LAST_S
    while time.monotonic() < deadline_s or _others_run():
        time.sleep(_LOOK_S)
    _logger.warning("nodes do not return, this process ends with them")
    _exit(os.EX_OK)


def _others_run() -> bool:
    return any(request.task.name != TASK_NAME for request in set(state.active_requests))


def end_stalled_worker(main: int, shutdown: Shutdown) -> None:
    """Ask a worker to end in order, and kill it when it does not even do that.

    Args:
        main: Process id of its main process: this one, or the parent.
        shutdown: Of the worker.
    """
    if not shutdown.has_begun:  # another child may have been faster
        shutdown.begin()
        os.kill(main, signal.SIGTERM)
    deadline_s = time.monotonic() + shutdown.left_s + _LAST_S * 2
    while time.monotonic() < deadline_s:
        time.sleep(_LOOK_S)
        if main not in (os.getpid(), os.getppid()):
            return
    _logger.critical("the worker does not end by itself: killed")
    if main != os.getpid():
        with suppress(ProcessLookupError):
            os.kill(main, signal.SIGKILL)
    _exit(_EXIT_CODE)


def _exit(code: int) -> None:
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)

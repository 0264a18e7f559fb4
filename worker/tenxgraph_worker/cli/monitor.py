"""Flower inside this process, on our broker."""

import atexit
import errno
import logging
import os
import signal
import socket
import sys
from types import FrameType
from typing import Any

from flower.app import Flower
from flower.command import apply_env_options, extract_settings
from flower.options import default_options
from flower.urls import settings as web_settings

from tenxgraph.core.exceptions import TenxGraphError
from tenxgraph.settings import Settings
from tenxgraph_scheduler.broker import broker_url, make_celery
from tenxgraph_worker.crew_member import READY

COLUMNS = "name,uuid,state,kwargs,result,received,started,runtime,worker"


def run_flower(settings: Settings, *, address: str, port: int, basic_auth: str | None, max_tasks: int) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        TenxGraphError: ``PORT_IN_USE``.
    """
    refuse_taken_port(address, port)
    options: Any = default_options
    options.persistent, options.max_tasks, options.tasks_columns = False, max_tasks, COLUMNS
    apply_env_options()
    options.address, options.port = address, port
    if basic_auth:
        options.basic_auth = [basic_auth]
    options.read_only = options.read_only or not (options.basic_auth or options.auth)
    extract_settings()
    # Workers that start beside it do not answer its first questions; it asks again.
    logging.getLogger("flower.inspector").setLevel(logging.ERROR)
    monitor = Flower(capp=make_celery(settings, broker_url(settings)), options=options, **web_settings)
    atexit.register(monitor.stop)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    monitor.start_http_server()
    print(f"flower on http://{address}:{port} {READY}", flush=True)
    monitor.start()


def refuse_taken_port(address: str, port: int) -> None:
    """Try the port before anything is started.

    Raises:
        TenxGraphError: ``PORT_IN_USE``, or ``ADDRESS`` for one that this machine does not have.
    """
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise TenxGraphError(
                    f"Port {port} is in use on {address}: give Flower another port, or end what listens there.",
                    error_code="PORT_IN_USE",
                    context={"port": port},
                ) from error
            raise TenxGraphError(
                f"Flower cannot listen on {address}:{port} ({os.strerror(error.errno or 0)}): give another --address.",
                error_code="ADDRESS",
            ) from error


def _leave(number: int, frame: FrameType | None) -> None:
    del number, frame
    sys.exit(0)

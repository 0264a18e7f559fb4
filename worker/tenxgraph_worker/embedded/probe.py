"""Ask a server one thing without a client library: what the keeper, which stays resident, can afford."""

import socket

_REPLY_BYTES = 65536


def ask(port: int, command: str, *, timeout_s: float = 1.0) -> str:
    """Send an inline command to a server of this machine and return the raw reply, "" when nobody answers."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(command.encode() + b"\r\n")
            return connection.recv(_REPLY_BYTES).decode(errors="replace")
    except OSError:
        return ""


def answers(port: int) -> bool:
    """Tell whether a server answers and has loaded its data."""
    return ask(port, "PING").startswith("+PONG")


def process_of(port: int) -> int | None:
    """Return the process id of the server on a port."""
    for line in ask(port, "INFO server").splitlines():
        if line.startswith("process_id:"):
            return int(line.partition(":")[2])
    return None


def free_port(wanted: int = 0) -> int:
    """Return the wanted port if nobody listens there, else any free one."""
    for port in (wanted, 0):
        try:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
                chosen: int = probe.getsockname()[1]
                return chosen
        except OSError:
            continue
    raise OSError("no free port on 127.0.0.1")

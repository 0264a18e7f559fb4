"""The folder's own server: joined by the second, ended with the last, whole after SIGKILL."""

import os
import signal
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tenxgraph.core.exceptions import StorageError
from tenxgraph_worker.embedded import binary
from tenxgraph_worker.embedded.binary import find_binary
from tenxgraph_worker.embedded.check import check_server, shown
from tenxgraph_worker.embedded.folder import ServerFolder
from tenxgraph_worker.embedded.locks import is_held, until
from tenxgraph_worker.embedded.probe import answers, process_of
from tenxgraph_worker.embedded.server import EmbeddedServer, running_server
from tests.servers import client_of

_USER = """
import sys
from pathlib import Path
from tenxgraph_worker.embedded.server import EmbeddedServer

with EmbeddedServer(Path(sys.argv[1])) as server:
    print(server.record.port, flush=True)
    sys.stdin.read()
"""
_SOON_S = 15.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path) as started:
        yield started


@contextmanager
def user_elsewhere(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that uses the folder's server until its input ends."""
    command = [sys.executable, "-c", _USER, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def is_gone(folder: Path, port: int) -> bool:
    return not answers(port) and not is_held(ServerFolder.of(folder).keeper_lock)


def test_a_folder_gets_a_server_that_keeps_its_data_and_evicts_nothing(tmp_path: Path, server: EmbeddedServer) -> None:
    facts = check_server(server.url)

    assert facts.flavour in ("Valkey", "Redis")
    assert facts.warnings == ()
    assert running_server(tmp_path) == server.record
    assert client_of(server.record.port).config_get("appendfsync") == {"appendfsync": "everysec"}


def test_only_this_machine_can_reach_it(server: EmbeddedServer) -> None:
    assert client_of(server.record.port).config_get("bind") == {"bind": "127.0.0.1"}


def test_the_folder_stays_out_of_version_control(tmp_path: Path, server: EmbeddedServer) -> None:
    assert (tmp_path / ".tenxgraph" / ".gitignore").read_text() == "*\n"


def test_the_second_user_joins_the_first_and_the_last_one_ends_the_server(tmp_path: Path) -> None:
    first, second = EmbeddedServer(tmp_path), EmbeddedServer(tmp_path)
    first.start()
    second.start()
    port = first.record.port
    assert (first.joined, second.joined, second.record.port) == (False, True, port)

    first.close()
    assert answers(port)

    second.close()
    assert is_gone(tmp_path, port)
    assert running_server(tmp_path) is None


def test_twenty_at_once_get_one_server(tmp_path: Path) -> None:
    servers = [EmbeddedServer(tmp_path) for _ in range(20)]
    threads = [threading.Thread(target=server.start) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({server.record.pid for server in servers}) == 1
    assert sum(not server.joined for server in servers) == 1

    for server in servers:
        server.close()
    assert running_server(tmp_path) is None


def test_what_was_written_is_there_the_next_time(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        client_of(server.record.port).set("key", "value")

    with EmbeddedServer(tmp_path) as server:
        assert client_of(server.record.port).get("key") == b"value"


def test_a_killed_user_leaves_nothing_running_and_loses_nothing(tmp_path: Path) -> None:
    with user_elsewhere(tmp_path) as user:
        port = int(first_line(user))
        client_of(port).set("key", "value")
        user.kill()
        assert until(lambda: is_gone(tmp_path, port), _SOON_S)

    with EmbeddedServer(tmp_path) as server:
        assert client_of(server.record.port).get("key") == b"value"


def test_a_killed_user_does_not_disturb_the_others(tmp_path: Path, server: EmbeddedServer) -> None:
    with user_elsewhere(tmp_path) as user:
        assert int(first_line(user)) == server.record.port
        user.kill()
        user.wait()

    assert not until(lambda: not answers(server.record.port), 1.0)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the next keeper ends it")
def test_a_killed_keeper_takes_the_server_along(tmp_path: Path, server: EmbeddedServer) -> None:
    os.kill(server.record.keeper_pid, signal.SIGKILL)

    assert until(lambda: process_of(server.record.port) is None, _SOON_S)


def test_after_a_killed_keeper_the_next_user_starts_on_the_same_port_with_the_same_data(
    tmp_path: Path, server: EmbeddedServer
) -> None:
    client_of(server.record.port).set("key", "value")
    os.kill(server.record.keeper_pid, signal.SIGKILL)
    assert until(lambda: not is_held(server.folder.keeper_lock), _SOON_S)

    with EmbeddedServer(tmp_path) as again:
        assert (again.joined, again.record.port) == (False, server.record.port)
        assert client_of(again.record.port).get("key") == b"value"


def test_a_killed_server_comes_back_on_its_port_with_its_data(server: EmbeddedServer) -> None:
    port, pid = server.record.port, server.record.pid
    client_of(port).set("key", "value")

    os.kill(pid, signal.SIGKILL)

    assert until(lambda: process_of(port) not in (None, pid), _SOON_S)
    assert client_of(port).get("key") == b"value"


def test_a_server_that_cannot_read_its_data_says_where_to_look(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        client_of(server.record.port).set("key", "value")
    for manifest in server.folder.data.rglob("*.manifest"):
        manifest.write_text("nonsense\n")

    with pytest.raises(StorageError, match=r"did not start: it ended at once\. Its last words are in .*server\.log"):
        EmbeddedServer(tmp_path).start()

    assert running_server(tmp_path) is None


def test_without_any_program_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "")

    with pytest.raises(StorageError, match="install valkey-server or redis-server"):
        find_binary()


def test_without_the_wheel_a_server_on_the_path_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary, "find_spec", lambda name: None)
    assert find_binary().name in ("redis-server", "valkey-server")

    with EmbeddedServer(tmp_path) as server:
        assert check_server(server.url).warnings == ()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / ".tenxgraph").write_text("a file")

    with pytest.raises(StorageError, match=r"\.tenxgraph cannot be written"):
        EmbeddedServer(tmp_path).start()


# -- the look at a server that somebody else runs


def test_settings_that_lose_data_are_warned_of(server: EmbeddedServer) -> None:
    client = client_of(server.record.port)
    client.config_set("appendonly", "no")
    client.config_set("maxmemory-policy", "allkeys-lru")

    policy, persistence = check_server(server.url).warnings

    assert "set noeviction" in policy
    assert "set appendonly yes" in persistence


def test_a_password_is_asked_for_and_never_shown(server: EmbeddedServer) -> None:
    client_of(server.record.port).config_set("requirepass", "s3cret")
    host = f"127.0.0.1:{server.record.port}/0"

    with pytest.raises(StorageError, match="asks for a password: write the right one into TENXGRAPH_REDIS_URL"):
        check_server(f"redis://{host}")
    with pytest.raises(StorageError, match="refuses the password") as wrong:
        check_server(f"redis://:guess@{host}")

    assert "guess" not in str(wrong.value)
    assert check_server(f"redis://:s3cret@{host}").warnings == ()


def test_a_user_who_may_not_see_info_is_let_in_with_a_warning(server: EmbeddedServer) -> None:
    client_of(server.record.port).acl_setuser("worker", enabled=True, passwords=["+pw"], commands=["+ping", "-info"])

    (warning,) = check_server(f"redis://worker:pw@127.0.0.1:{server.record.port}/0").warnings

    assert "version and persistence unchecked" in warning


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://h:1/0", "redis://h:1/0"),
        ("redis://:pw@h:1/0", "redis://:***@h:1/0"),
        ("rediss://me:pw@h/0", "rediss://me:***@h/0"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, expected: str) -> None:
    assert shown(url) == expected


class _OldServer(socketserver.StreamRequestHandler):
    """Answers PING and INFO, like a server of a version that cannot be had here."""

    info = b""

    def handle(self) -> None:
        while header := self.rfile.readline():
            words = [self._word() for _ in range(int(header[1:]))]
            replies = {b"PING": b"+PONG\r\n", b"INFO": b"$%d\r\n%s\r\n" % (len(self.info), self.info)}
            self.wfile.write(replies.get(words[0].upper(), b"+OK\r\n"))

    def _word(self) -> bytes:
        length = int(self.rfile.readline()[1:])
        return self.rfile.read(length + 2)[:-2]


@pytest.fixture
def old_server() -> Iterator[Callable[[bytes], str]]:
    servers = []

    def start(info: bytes) -> str:
        handler = type("Handler", (_OldServer,), {"info": info})
        started = socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler)
        started.daemon_threads = True
        servers.append(started)
        threading.Thread(target=started.serve_forever, daemon=True).start()
        return f"redis://127.0.0.1:{started.server_address[1]}/0"

    yield start
    for started in servers:
        started.shutdown()
        started.server_close()


@pytest.mark.parametrize(
    ("info", "version"),
    [
        (b"redis_version:6.2.14\r\n", "Redis 6.2.14"),
        (b"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:7.2.5\r\n", "Valkey 7.2.5"),
    ],
)
def test_a_server_that_is_too_old_is_refused(old_server: Callable[[bytes], str], info: bytes, version: str) -> None:
    with pytest.raises(StorageError, match=rf"is {version}, which is too old: use Redis 7 or Valkey 8 or newer"):
        check_server(old_server(info))


def test_a_server_that_is_new_enough_is_taken(old_server: Callable[[bytes], str]) -> None:
    info = b"redis_version:7.2.4\r\nvalkey_version:8.0.1\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n"

    assert check_server(old_server(info)).version == "8.0.1"

"""The folder ``.tenxgraph`` and what is in it."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

NAME = ".tenxgraph"


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """What ``server.json`` says of a running server.

    Attributes:
        pid: Of the server.
        keeper_pid: Of the process that ends it when nobody uses it any more.
    """

    port: int
    pid: int
    keeper_pid: int

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"redis://127.0.0.1:{self.port}/0"


@dataclass(frozen=True, slots=True)
class ServerFolder:
    """Paths under ``.tenxgraph``.

    Attributes:
        root: The folder ``.tenxgraph`` itself.
    """

    root: Path

    @classmethod
    def of(cls, project: Path) -> "ServerFolder":
        """Return the folder of a project."""
        return cls(project.resolve() / NAME)

    @property
    def data(self) -> Path:
        """Where the server keeps its append-only file."""
        return self.root / "data"

    @property
    def log(self) -> Path:
        """What the server and its keeper say."""
        return self.root / "server.log"

    @property
    def users_lock(self) -> Path:
        """Held shared by each user of the server."""
        return self.root / "users.lock"

    @property
    def start_lock(self) -> Path:
        """Held while somebody joins, starts or leaves."""
        return self.root / "start.lock"

    @property
    def keeper_lock(self) -> Path:
        """Held by the keeper while it lives."""
        return self.root / "keeper.lock"

    @property
    def _record(self) -> Path:
        return self.root / "server.json"

    def create(self) -> None:
        """Make the folder, hidden from version control."""
        self.data.mkdir(parents=True, exist_ok=True)
        (self.root / ".gitignore").write_text("*\n")

    def read_record(self) -> ServerRecord | None:
        """Return what was written last; None where there is none, or another program's."""
        try:
            return ServerRecord(**json.loads(self._record.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def write_record(self, record: ServerRecord) -> None:
        """Write it at once: a reader finds the old one or the new one."""
        draft = self._record.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(record)) + "\n")
        draft.replace(self._record)

    def remove_record(self) -> None:
        """Forget the server."""
        self._record.unlink(missing_ok=True)

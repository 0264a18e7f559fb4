"""The states of a thread in Redis: the newest, and any older one folded from the checkpoints."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import partial
from threading import Lock
from typing import Any

from tenxgraph.core.state.image import ItemLog, Origin, StateImage, Version, within
from tenxgraph.store import redis_replies as replies
from tenxgraph.store.base import Checkpoint
from tenxgraph.store.keys import key_of
from tenxgraph.store.redis_scripts import Command, Scripts

_BATCH = 500
"""Items of a list, or checkpoints, in one reply."""

_VALUE, _GONE, _LIST = b"v:", b"x:", b"l:"

Entry = tuple[bytes, replies.Fields]


def known_args(known: StateImage | None) -> list[str | int]:
    """Return what a script is told of the state that its caller has."""
    image = known or StateImage()
    lists = [part for name, log in image.lists.items() for part in (name, log.gen, log.length)]
    return [image.version.number, image.version.nonce, *lists]


class History:
    """Reads states. Lists only grow within a generation, so what a checkpoint points at can be read at leisure."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    def items(self, base: str, name: str, origin: Origin, start: int, end: int) -> list[bytes]:
        """Return items of a list from ``start`` up to ``end``.

        Raises:
            KeyError: They are gone, and the thread with them.
        """
        key = key_of(base, "list", name, origin.home)
        commands: list[Command] = [
            ("LRANGE", key, at, min(at + _BATCH, stop) - 1)
            for first, stop in origin.places(start, end)
            for at in range(first, stop, _BATCH)
        ]
        found = [item for batch in self._scripts.run(*commands) for item in batch] if commands else []
        if len(found) < end - start:
            raise KeyError(key)
        return found

    def newest(self, base: str, known: StateImage | None) -> StateImage:
        """Return the newest state. KeyError when there is no such thread."""
        reply: Any = self._scripts.run(self._scripts.script("image", [base], *known_args(known)))[0]
        if reply is None:
            raise KeyError(base)
        return replies.image(reply, known, partial(self.items, base))

    def at(self, base: str, number: int) -> StateImage:
        """Return the state at a version. KeyError when there is none, or none any more."""
        while True:
            before = self._folds(base)
            if before is None or number < 0:
                raise KeyError(f"{base} at version {number}")
            if number == 0:
                return StateImage()
            image = self._fold(base, number)
            # Whoever drops checkpoints meanwhile leaves half of what was read.
            if image is not None and self._folds(base) == before:
                return image
            if image is None:
                raise KeyError(f"{base} at version {number}")

    def _folds(self, base: str) -> int | None:
        created, folds = self._scripts.run(("HMGET", key_of(base, "thread"), "created_ms", "folds"))[0]
        return None if created is None else int(folds or 0)

    def _fold(self, base: str, number: int) -> StateImage | None:
        bases = {int(raw) for raw in self._scripts.run(("HKEYS", key_of(base, "bases")))[0]}
        values: dict[str, bytes] = {}
        last: Entry = (b"", {})
        for last in self._entries_up_to(base, number):
            if (at := _number_of(last)) in bases:
                _change(values, self._scripts.run(("HGETALL", key_of(base, "base", at)))[0])
            _change(values, last[1])
        if last[0] != b"%d-0" % number:
            return None
        lists = {name: self._list_at(base, name, raw) for name, raw in _named(last[1], _LIST)}
        return StateImage(Version(number, replies.text(last[1][b"nonce"])), values, lists)

    def _entries_up_to(self, base: str, number: int) -> Iterator[Entry]:
        start = "-"
        while number > 0:
            command = ("XRANGE", key_of(base, "checkpoints"), start, f"{number}-0", "COUNT", _BATCH)
            entries: Sequence[Entry] = self._scripts.run(command)[0]
            yield from entries
            if len(entries) < _BATCH:
                return
            start = f"({entries[-1][0].decode()}"

    def _list_at(self, base: str, name: str, raw: bytes) -> ItemLog:
        number, length, *cut = replies.text(raw).split(":", 2)
        gen = int(number)
        origin = Origin.from_text("".join(cut), gen)
        return ItemLog(self.items(base, name, origin, 0, int(length)), gen, origin)

    def homes(self, base: str, name: str) -> list[int]:
        """Return the generations of a list that have a list of their own."""
        found: set[bytes] = self._scripts.run(("SMEMBERS", key_of(base, "generations")))[0]
        of_list = (text.rpartition(":") for text in map(replies.text, found))
        return sorted(int(gen) for field, _, gen in of_list if field == name)

    def log(self, base: str, name: str, homes: Sequence[int], offset: int, limit: int) -> list[bytes]:
        """Return what was ever written to a list, also what was cut out of it."""
        keys = [key_of(base, "list", name, home) for home in homes]
        lengths: list[int] = self._scripts.run(*(("LLEN", key) for key in keys)) if keys else []
        first = max(sum(lengths) + offset, 0) if offset < 0 else offset
        spans = within([(0, length) for length in lengths], first, first + max(limit, 0))
        commands: list[Command] = [
            ("LRANGE", keys[place], at, min(at + _BATCH, stop) - 1)
            for place, start, stop in spans
            for at in range(start, stop, _BATCH)
        ]
        return [item for batch in self._scripts.run(*commands) for item in batch] if commands else []

    def checkpoints(self, base: str, *, limit: int, before: int | None) -> list[Checkpoint]:
        """Return the records of versions, newest first."""
        if limit < 1 or (before is not None and before < 1):
            return []
        newest = "+" if before is None else f"({before}-0"
        command = ("XREVRANGE", key_of(base, "checkpoints"), newest, "-", "COUNT", limit)
        entries: Sequence[Entry] = self._scripts.run(command)[0]
        return [replies.checkpoint(*entry) for entry in entries]


def _number_of(entry: Entry) -> int:
    return int(entry[0].partition(b"-")[0])


def _change(values: dict[str, bytes], entry: replies.Fields) -> None:
    values.update(_named(entry, _VALUE))
    for name, _ in _named(entry, _GONE):
        values.pop(name, None)


def _named(entry: replies.Fields, prefix: bytes) -> Iterator[tuple[str, bytes]]:
    return ((replies.text(name[len(prefix) :]), raw) for name, raw in entry.items() if name.startswith(prefix))


class HeldImages:
    """The states that were handed out with this process's claims, by token: a commit need not fetch its state again."""

    _LIMIT = 256

    def __init__(self) -> None:
        self._images: OrderedDict[str, StateImage] = OrderedDict()
        self._lock = Lock()

    def hold(self, token: str, image: StateImage) -> None:
        """Keep a state; the oldest goes where there are too many."""
        with self._lock:
            self._images[token] = image
            if len(self._images) > self._LIMIT:
                self._images.popitem(last=False)

    def get(self, token: str) -> StateImage | None:
        """Return the state of a claim, if it is still held."""
        return self._images.get(token)

    def drop(self, token: str) -> None:
        """Forget the state of an attempt that is over."""
        with self._lock:
            self._images.pop(token, None)

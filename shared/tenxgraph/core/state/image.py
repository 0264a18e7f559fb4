"""The encoded state of a thread at a version, and the patch that leads to the next one. Records: no I/O, no policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from threading import Lock
from typing import Any, ClassVar, Final

from tenxgraph.core.state.lazy_items import Undecoded

KeyOf = Callable[[bytes], bytes]
"""From an encoded item to the key that dedupes it."""

DecodeItem = Callable[[bytes], Any]
"""From an encoded item to an object of its own."""


@dataclass(frozen=True, slots=True)
class Version:
    """Names a state of a thread: a counter that never goes back, and the nonce of the advance that wrote it."""

    ZERO: ClassVar[Version]

    number: int
    nonce: str


Version.ZERO = Version(0, "")


class _Storage:
    """What the views of one generation share. Grows at its end only; everything derived is extended, never rebuilt."""

    __slots__ = ("decode", "indexed", "items", "key_of", "lock", "markers", "positions")

    def __init__(self, items: list[bytes]) -> None:
        self.items: Final = items
        self.lock: Final = Lock()
        self.key_of: KeyOf | None = None
        self.positions: dict[bytes, int] = {}
        self.indexed = 0
        self.decode: DecodeItem | None = None
        self.markers: list[Undecoded] = []

    def extended_to(self, length: int, items: Sequence[bytes]) -> bool:
        """Append, unless another view was first to grow past ``length`` and grew by other items."""
        with self.lock:
            there = self.items[length : length + len(items)]
            if there != list(items[: len(there)]):
                return False
            self.items.extend(items[len(there) :])
            return True

    def positions_by(self, key_of: KeyOf) -> dict[bytes, int]:
        """Return where each key stands first."""
        with self.lock:
            if self.key_of is not key_of:
                self.key_of, self.positions, self.indexed = key_of, {}, 0
            for position in range(self.indexed, len(self.items)):
                self.positions.setdefault(key_of(self.items[position]), position)
                self.indexed = position + 1
            return self.positions

    def markers_by(self, decode: DecodeItem) -> list[Undecoded]:
        """Return a marker for each item."""
        with self.lock:
            if self.decode is not decode:
                self.decode, self.markers = decode, []
            new = islice(self.items, len(self.markers), None)
            self.markers.extend([Undecoded(item, decode) for item in new])
            return self.markers


Span = tuple[int, int]
"""A stretch of positions: the first, and the one behind the last."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the items of a generation lie in a store: in the list of the generation ``home``, which only grows.

    Attributes:
        home: Generation whose list holds the items; the generation itself unless it was cut out of another.
        start: Where in that list stands what was appended to the generation.
        spans: What of that list the generation began with, in its own order.
    """

    home: int
    start: int = 0
    spans: tuple[Span, ...] = ()

    @property
    def kept(self) -> int:
        """How many items the generation began with."""
        return sum(stop - start for start, stop in self.spans)

    def places(self, first: int, stop: int) -> tuple[Span, ...]:
        """Return where the items from position ``first`` up to ``stop`` of the generation lie."""
        kept = self.kept
        found = [(begin, end) for _, begin, end in within(self.spans, first, min(stop, kept))]
        if stop > kept:
            found.append((self.start + max(first, kept) - kept, self.start + stop - kept))
        return _joined(found)

    def to_text(self) -> str:
        """Return it as the store keeps it: ``home:start:first-stop,first-stop``; empty where nothing was cut."""
        if not (self.spans or self.start):
            return ""
        return f"{self.home}:{self.start}:" + ",".join(f"{first}-{stop}" for first, stop in self.spans)

    @classmethod
    def from_text(cls, text: str, gen: int) -> Origin:
        """Read what ``to_text`` wrote for the generation ``gen``."""
        if not text:
            return cls(gen)
        home, start, spans = text.split(":")
        pairs = [each.split("-") for each in spans.split(",") if each]
        return cls(int(home), int(start), tuple((int(first), int(stop)) for first, stop in pairs))


def within(spans: Sequence[Span], first: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Yield what lies from ``first`` up to ``stop`` when spans are laid end to end: which span, and what part of it."""
    at = 0
    for place, (begin, end) in enumerate(spans):
        low, high = max(first - at, 0), min(stop - at, end - begin)
        if low < high:
            yield place, begin + low, begin + high
        at += end - begin


def _joined(spans: Sequence[Span]) -> tuple[Span, ...]:
    joined: list[Span] = []
    for first, stop in spans:
        if joined and joined[-1][1] == first:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((first, stop))
    return tuple(joined)


@dataclass(frozen=True, slots=True)
class Cut:
    """A list made anew out of itself, so that what stays is not written again.

    Attributes:
        spans: What the list holds from now on, as positions in the old list with ``items`` laid behind it.
        items: What the old list did not hold; it is appended where the others lie.
        origin: Of the new list.
    """

    spans: tuple[Span, ...]
    items: tuple[bytes, ...]
    origin: Origin


class ItemLog:  # noqa: PLW1641 - compared by its items, which are many
    """The first ``length`` encoded items of a growing list, in generation ``gen``. Immutable; views share items."""

    __slots__ = ("_storage", "gen", "length", "origin")

    def __init__(self, items: Sequence[bytes] = (), gen: int = 0, origin: Origin | None = None) -> None:
        self._storage = _Storage(list(items))
        self.gen: int = gen
        self.length: int = len(self._storage.items)
        self.origin: Origin = origin or Origin(gen)

    @classmethod
    def _of(cls, storage: _Storage, length: int, gen: int, origin: Origin) -> ItemLog:
        log = cls.__new__(cls)
        log._storage, log.length, log.gen, log.origin = storage, length, gen, origin
        return log

    @property
    def end(self) -> int:
        """Where the next item will lie in the list of ``origin.home``."""
        return self.origin.start + self.length - self.origin.kept

    def cut_to(self, positions: Sequence[int], items: Sequence[bytes] = ()) -> Cut:
        """Return the cut that leaves what stands at ``positions`` of this list with ``items`` laid behind it."""
        spans = _joined([(at, at + 1) for at in positions])
        # In the home, what is new lies behind everything else.
        grown = Origin(self.origin.home, self.end, self.origin.places(0, self.length))
        places = [place for first, stop in spans for place in grown.places(first, stop)]
        return Cut(spans, tuple(items), Origin(self.origin.home, self.end + len(items), _joined(places)))

    def cut(self, cut: Cut, gen: int) -> ItemLog:
        """Return the list that a cut leaves, as generation ``gen``."""
        whole = [*self, *cut.items]
        return ItemLog([item for first, stop in cut.spans for item in whole[first:stop]], gen, cut.origin)

    def append(self, items: Sequence[bytes]) -> ItemLog:
        """Return the log with the items behind it; costs what is new, unless another view has grown by others."""
        if not items:
            return self
        if self._storage.extended_to(self.length, items):
            return self._of(self._storage, self.length + len(items), self.gen, self.origin)
        return ItemLog([*self, *items], self.gen, self.origin)

    def view(self, length: int) -> ItemLog:
        """Return the first ``length`` items as a log.

        Raises:
            ValueError: This log is shorter.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f"The log holds {self.length} items, a view of {length} was asked for.")
        return self._of(self._storage, length, self.gen, self.origin)

    def contains(self, key: bytes, key_of: KeyOf) -> bool:
        """Tell whether an item has the key; indexes once, then only what is new."""
        return self._storage.positions_by(key_of).get(key, self.length) < self.length

    def markers(self, decode: DecodeItem) -> list[Undecoded]:
        """Return at least one marker per item, made once for all views; read the first ``length``, change nothing."""
        return self._storage.markers_by(decode)

    def starts(self, items: Sequence[bytes]) -> bool:
        """Tell whether ``items`` begins with all items of this log."""
        return len(items) >= self.length and all(map(bytes.__eq__, self, items))

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[bytes]:
        return islice(iter(self._storage.items), self.length)

    def __getitem__(self, index: slice) -> list[bytes]:
        return self._storage.items[slice(*index.indices(self.length))]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ItemLog):
            return NotImplemented
        return (self.gen, self.length) == (other.gen, other.length) and self.starts(list(other))

    def __repr__(self) -> str:
        return f"ItemLog(gen={self.gen}, length={self.length})"


@dataclass(frozen=True, slots=True)
class StateImage:
    """All fields of a thread's state, encoded: ``values`` whole, ``lists`` item by item."""

    version: Version = Version.ZERO
    values: Mapping[str, bytes] = field(default_factory=dict)
    lists: Mapping[str, ItemLog] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Patch:
    """What a step changes: new values, items behind a list, lists written anew, lists cut (after what is appended)."""

    values: dict[str, bytes] = field(default_factory=dict)
    appends: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    rewrites: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    cuts: dict[str, Cut] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return not (self.values or self.appends or self.rewrites or self.cuts)

    @property
    def byte_size(self) -> int:
        """Encoded size of all that is written, in bytes."""
        cut = (each.items for each in self.cuts.values())
        items = chain.from_iterable(chain(self.appends.values(), self.rewrites.values(), cut))
        return sum(map(len, self.values.values())) + sum(map(len, items))


def apply(image: StateImage, patch: Patch, version: Version) -> StateImage:
    """Return the image at ``version``; a new list, a rewrite and a cut open the generation ``version.number``."""
    new = ItemLog((), version.number)
    appended = {name: image.lists.get(name, new).append(items) for name, items in patch.appends.items()}
    rewritten = {name: ItemLog(items, version.number) for name, items in patch.rewrites.items()}
    lists = {**image.lists, **appended, **rewritten}
    lists |= {name: lists[name].cut(cut, version.number) for name, cut in patch.cuts.items()}
    return StateImage(version, {**image.values, **patch.values}, lists)

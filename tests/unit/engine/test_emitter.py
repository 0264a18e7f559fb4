"""What an attempt tells reaches its run once and in order, whatever the store does meanwhile."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tenxgraph.core.exceptions import StorageError
from tenxgraph.engine.emitter import Emitter
from tenxgraph.engine.flusher import Flusher
from tenxgraph.engine.patience import insist, once
from tenxgraph.store.base import Emission, TaskRef
from tenxgraph.utils.journal import AttemptOver


@dataclass
class Book:
    """A store that only takes emissions, each once. ``faults``: what becomes of the next trips."""

    kept: list[tuple[str, bytes]] = field(default_factory=list[tuple[str, bytes]])
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    trips: list[int] = field(default_factory=list[int])
    faults: list[str] = field(default_factory=list[str])
    fenced: set[str] = field(default_factory=set[str])

    def emit(self, emissions: Sequence[Emission]) -> list[bool]:
        fault = self.faults.pop(0) if self.faults else ""
        self.trips.append(len(emissions))
        if fault == "away":
            raise StorageError("away")
        answers = [self._take(each) for each in emissions]
        if fault == "no reply":
            raise StorageError("no reply")
        return answers

    def _take(self, told: Emission) -> bool:
        if told.token in self.fenced:
            return False
        if told.number > self.numbers.get(told.token, 0):
            self.numbers[told.token] = told.number
            self.kept += [(told.token, line) for line in told.events.split(b"\n")]
        return True

    def lines(self, token: str = "a") -> list[bytes]:
        return [line for of, line in self.kept if of == token]


@dataclass
class Claimed:
    token: str
    ref: TaskRef = field(default_factory=lambda: TaskRef("T", "R", 1, "0", 1))


def emitter_on(book: Any, token: str = "a", wake: Callable[[Emitter], None] = lambda _: None, **more: Any) -> Emitter:
    claim: Any = Claimed(token)
    return Emitter(claim, book, more.get("insist", once), wake)


def until(is_true: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 5
    while not is_true():
        assert time.monotonic() < deadline_s
        time.sleep(0.002)


def test_lines_gather_and_go_in_one_emission() -> None:
    book = Book()
    emitter = emitter_on(book)
    for line in (b"1", b"2", b"3"):
        emitter.tell(line)
    emitter.send()
    assert (book.lines(), book.trips) == ([b"1", b"2", b"3"], [1])


def test_an_emission_without_an_answer_goes_again_before_what_came_later() -> None:
    book = Book(faults=["no reply", "away"])
    emitter = emitter_on(book, insist=lambda call: insist(call, lambda _: True))
    emitter.tell(b"1")
    emitter.send()
    emitter.tell(b"2")
    emitter.send()
    assert (book.lines(), book.trips) == ([b"1", b"2"], [1, 1, 1, 1])


def test_the_end_of_an_attempt_repeats_what_has_no_answer_and_takes_the_rest_along() -> None:
    book = Book()
    emitter = emitter_on(book)
    emitter.tell(b"1")
    under_way = emitter.next_emission()
    assert under_way is not None
    emitter.tell(b"2")
    assert emitter.close() == b"2"
    assert book.lines() == [b"1"]
    book.emit([under_way])  # the flusher's own try arrives late
    emitter.tell(b"3")
    emitter.send()
    assert book.lines() == [b"1"]


def test_a_fenced_attempt_tells_nothing_more() -> None:
    book = Book(fenced={"a"})
    emitter = emitter_on(book)
    emitter.tell(b"1")
    emitter.send()
    emitter.tell(b"2")
    assert emitter.close() == b""
    assert book.trips == [1]


def test_who_tells_more_than_a_megabyte_waits_for_the_store() -> None:
    book = Book()
    emitter = emitter_on(book)
    emitter.tell(b"x" * 2**19)
    assert book.trips == []
    emitter.tell(b"x" * (2**19 + 1))
    assert book.trips == [1]


def test_a_store_that_stays_away_is_not_the_nodes_fault() -> None:
    emitter = emitter_on(Book(faults=["away"]), wake=Emitter.send)
    with pytest.raises(AttemptOver):
        emitter.tell(b"1")


def test_the_attempts_of_a_process_go_in_one_trip() -> None:
    book = Book()
    flusher = Flusher(book)  # type: ignore[arg-type]  # it only emits
    emitters = [emitter_on(book, str(number), flusher.wake) for number in range(20)]
    for emitter in emitters:
        emitter.tell(b"1")
        emitter.tell(b"2")
    until(lambda: len(book.kept) == 40)
    assert all(book.lines(str(number)) == [b"1", b"2"] for number in range(20))
    assert len(book.trips) < 20


@pytest.mark.parametrize("fault", ["away", "no reply"])
def test_what_the_flusher_could_not_send_it_sends_again(fault: str) -> None:
    book = Book(faults=[fault])
    flusher = Flusher(book)  # type: ignore[arg-type]  # it only emits
    emitter = emitter_on(book, wake=flusher.wake)
    emitter.tell(b"1")
    until(lambda: len(book.trips) == 2)
    emitter.tell(b"2")
    until(lambda: book.lines() == [b"1", b"2"])


def test_many_threads_tell_while_the_flusher_sends_and_nothing_is_lost() -> None:
    book = Book(faults=["", "no reply", "", "away"])
    flusher = Flusher(book)  # type: ignore[arg-type]  # it only emits
    emitter = emitter_on(book, wake=flusher.wake)

    def tell(name: int) -> None:
        for number in range(200):
            emitter.tell(b"%d %d" % (name, number))

    threads = [threading.Thread(target=tell, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    left = emitter.close().split(b"\n")
    told = [*book.lines(), *filter(None, left)]
    for name in range(4):
        assert [line for line in told if line.startswith(b"%d " % name)] == [b"%d %d" % (name, n) for n in range(200)]


def test_an_idle_flusher_leaves_no_thread_behind() -> None:
    book = Book()
    flusher = Flusher(book)  # type: ignore[arg-type]  # it only emits
    emitter_on(book, wake=flusher.wake).tell(b"1")
    thread = flusher._thread
    assert thread is not None
    thread.join(5)
    assert not thread.is_alive()
    emitter_on(book, "b", flusher.wake).tell(b"2")
    until(lambda: book.lines("b") == [b"2"])

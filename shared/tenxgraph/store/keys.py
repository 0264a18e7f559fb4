"""Names of the keys in Redis: a thread's in one hash slot, and the few that all threads share.

A thread's key is its base, a noun, and ``:<id>`` where there are many: ``tg:{T}:thread``, ``tg:{T}:run:<run>``. The
scripts get the base and build the names by the same rule.

Per thread, under ``<prefix>:{T}:``:

=================================  ======  =============================================================================
``thread``                         hash    graph, owner, version pair, active run
``runs``                           list    run ids, oldest first
``inbox``, ``delayed``             list,   runs that wait for the thread, and for their moment
                                   zset
``run:<run>``                      hash    what admission brought; status, step, plan, stop flag, times
``tasks:<run>``                    hash    ``<task>:<attribute>`` of the step's tasks, ``order`` of the plan
``updates:<run>``                  hash    task → update, committed and not yet merged
``interrupts:<run>``               hash    ``<interrupt>:task``, ``:body``, ``:answer``, ``:at``
``outcomes:<run>``                 hash    ``<task>:<token>`` → how that attempt ended
``resumes``                        hash    resume id → ``<digest>:<run>`` that it was given to
``events:<run>``                   stream  what clients see; one entry for each append
``effects``                        hash    ``<effect>:<attribute>``: who reserved it, until when, what came of it
``media``                          hash    ``sha256:<digest>`` → the bytes; what inline data was moved to
``state``, ``changed``             hash    field → bytes, field → version that wrote it
``lists``, ``generations``         hash,   list field → its generation now, with its origin if it was cut out of an
                                   set     older one (`Origin`); all ``<field>:<generation>`` that have a list
``list:<field>:<generation>``      list    encoded items, only appended to: of the generation and of those that were
                                           cut out of it. Those of ``context`` are the thread's log
``checkpoints``                    stream  ``<version>-0``: nonce, run, step, what changed, (gen, length) of lists,
                                           what comes next
``bases``, ``base:<version>``      hash    versions that have one; what checkpoints changed that were dropped before it
=================================  ======  =============================================================================
"""

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Keys:
    """Key names of one installation.

    Attributes:
        prefix: First part of every key; without braces, which would move the hash tag.
    """

    prefix: str = "tg"

    @property
    def runs(self) -> str:
        """Hash: run id → its thread."""
        return f"{self.prefix}:runs"

    @property
    def threads(self) -> str:
        """Sorted set: threads by their last change."""
        return f"{self.prefix}:threads"

    @property
    def due(self) -> tuple[str, str]:
        """Sorted set: threads by the moment they need the scheduler; hash: the touch of each. One slot."""
        return f"{self.prefix}:{{due}}", f"{self.prefix}:{{due}}:touches"

    def line(self, what: str) -> str:
        """Sorted set: who stands in the line of a rate limit, by the moment of his turn."""
        return f"{self.prefix}:line:{{{quote(what, safe='', errors='surrogatepass') or '%'}}}"

    def base(self, thread_id: str) -> str:
        """Return what all keys of a thread begin with. Any id will do; an empty tag would be no tag."""
        return f"{self.prefix}:{{{quote(thread_id, safe='', errors='surrogatepass') or '%'}}}:"


def key_of(base: str, noun: str, *ids: str | int) -> str:
    """Return the name of a thread's key."""
    return base + ":".join((noun, *map(str, ids)))

"""The shop's database: orders, what is in them, and refunds, each paid once."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from pydantic import BaseModel

_TABLES = """
create table if not exists orders (id integer primary key, customer text, sent_on text);
create table if not exists items (order_id integer, name text, cents integer, primary key (order_id, name));
create table if not exists refunds (
    key text primary key, order_id integer, item text, cents integer, reason text, unique (order_id, item)
);
"""
_ORDERS = [(1042, "Anna Berg", "2026-03-02"), (1043, "Omar Haddad", "2026-03-05")]
_ITEMS = [(1042, "desk lamp", 3990), (1042, "light bulb", 650), (1043, "bookshelf", 12900)]


class Item(BaseModel):
    """A thing in an order, with its price in cents, and the key of the refund that was paid for it."""

    name: str
    cents: int
    refund_key: str | None = None


class Order(BaseModel):
    """An order and what is in it."""

    id: int
    customer: str
    sent_on: str
    items: list[Item]

    def item(self, name: str) -> Item:
        """Return the item of this name.

        Raises:
            LookupError: The order has none; names those that it has.
        """
        for item in self.items:
            if item.name == name:
                return item
        raise LookupError(f"Order {self.id} has no {name!r}; it has {', '.join(item.name for item in self.items)}.")


@contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, timeout=10)) as connection, connection:
        yield connection


def create_shop(path: Path) -> None:
    """Make the database, with a few orders, where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _open(path) as db:
        db.executescript(_TABLES)
        db.executemany("insert or ignore into orders values (?, ?, ?)", _ORDERS)
        db.executemany("insert or ignore into items values (?, ?, ?)", _ITEMS)


def find_order(path: Path, order_id: int) -> Order:
    """Return an order.

    Raises:
        LookupError: There is no such order.
    """
    with _open(path) as db:
        row = db.execute("select id, customer, sent_on from orders where id = ?", [order_id]).fetchone()
        if row is None:
            raise LookupError(f"There is no order {order_id}.")
        items = db.execute(
            "select i.name, i.cents, r.key from items i left join refunds r "
            "on r.order_id = i.order_id and r.item = i.name where i.order_id = ? order by i.cents desc",
            [order_id],
        ).fetchall()
    found = [Item(name=name, cents=cents, refund_key=key) for name, cents, key in items]
    return Order(id=row[0], customer=row[1], sent_on=row[2], items=found)


def pay_refund(path: Path, key: str, order_id: int, item: Item, reason: str) -> str:
    """Pay an item back and return the receipt. The same key again pays nothing more, and has the same receipt."""
    with _open(path) as db:
        db.execute(
            "insert or ignore into refunds values (?, ?, ?, ?, ?)", [key, order_id, item.name, item.cents, reason]
        )
    return f"R-{order_id}-{item.name.replace(' ', '-')}"


def list_refunds(path: Path) -> list[tuple[int, str, int]]:
    """Return order, item and cents of each refund that was paid."""
    with _open(path) as db:
        return db.execute("select order_id, item, cents from refunds order by rowid").fetchall()

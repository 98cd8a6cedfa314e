"""Links to numbers of addresses that have no record (ADR 116).

Earlier versions stored such links where the database had lost its last commits under a run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.transactions import read_transaction
from smartcrawl.registry.pack import unpack_stored_numbers
from smartcrawl.registry.removal.tombstones import look_up_links_again

_PAGE: Final = 2_000  #: rows of one statement
_NUMBERS = "SELECT no FROM record WHERE no > ? ORDER BY no LIMIT ?"
_LINKS = """
SELECT l.no, r.url, l.targets FROM links l JOIN record r USING (no)
 WHERE r.source = ? AND l.no > ? AND l.scope <> 0 ORDER BY l.no LIMIT ?
"""


class LinksToNowhere(NamedTuple):
    """A page with links to numbers without a record."""

    no: int
    url: str
    targets: tuple[int, ...]  #: numbers without a record


def links_to_nowhere_rows(connection: Connection, source: int) -> Iterator[LinksToNowhere]:
    """Yield the pages of a source (source.no) with links to numbers that have no record."""
    with read_transaction(connection):
        known = _numbers(connection)
        last = 0
        while rows := _some(connection, _LINKS, (source, last, _PAGE)):
            for no, url, targets in rows:
                missing = [
                    number
                    for number in unpack_stored_numbers(targets)
                    if number >= len(known) or not known[number]
                ]
                if missing:
                    yield LinksToNowhere(no, url, tuple(missing))
            last = rows[-1][0]


def _numbers(connection: Connection) -> bytearray:
    """Return one byte a number: whether it has a record."""
    known, last = bytearray(), 0
    while rows := _some(connection, _NUMBERS, (last, _PAGE)):
        last = rows[-1][0]
        known.extend(bytes(last + 1 - len(known)))
        for (number,) in rows:
            known[number] = 1
    return known


def _some(connection: Connection, statement: str, values: tuple[int, ...]) -> list[Any]:
    return connection.execute(statement, values).fetchall()


def mend_links_to_nowhere(connection: Connection, found: Collection[LinksToNowhere]) -> None:
    """Have the next run look up the links of pages by address; the caller's transaction."""
    missing = {number for each in found for number in each.targets}
    look_up_links_again(connection, [each.no for each in found], missing)

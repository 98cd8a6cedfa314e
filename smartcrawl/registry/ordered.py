"""Addresses that were added over the HTTP API and have no record yet (R0-57, R0-67).

An open run gives out numbers of its own, so that no other process may add a record to its source.
So the next run of the source registers them when it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.model.urls import Trackers, normalize_url, url_digest, url_item_id
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.control import DatabaseControl
from smartcrawl.registry.items import insert_address_row, pin_record_row
from smartcrawl.registry.runs.runs import OpenRun
from smartcrawl.registry.spellings import store_spelling_rows
from smartcrawl.sources.base import Source
from smartcrawl.sources.kinds import DOCUMENTS
from smartcrawl.sources.site import documents_source

_ORDER: Final = """
INSERT INTO ordered_address (source, id, url, forced, at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (source, id) DO UPDATE SET forced = ordered_address.forced + excluded.forced
RETURNING forced
"""
_FORCED: Final = """
UPDATE ordered_address SET forced = forced + 1 WHERE id >= ? AND id <= ?
RETURNING source, url, id, forced
"""
_OF_KEY: Final = "SELECT source FROM ordered_address WHERE id = ? ORDER BY source"
_OF_SOURCE: Final = "SELECT url, forced FROM ordered_address WHERE source = ? ORDER BY at, id"
_DONE: Final = "DELETE FROM ordered_address WHERE source = ?"
_KNOWN: Final = "SELECT no FROM record WHERE source = ? AND id = ?"
_FORCE: Final = """
INSERT INTO item (no, requested, generation, revision) VALUES (?, TRUE, ?, 1)
ON CONFLICT (no) DO UPDATE
   SET requested = TRUE, generation = item.generation + excluded.generation,
       revision = item.revision + 1
"""
_KIND: Final = "SELECT kind FROM source WHERE name = ?"
_PAGES: Final = """
SELECT r.url FROM source o JOIN pin p ON p.source = o.no JOIN record r ON r.no = p.no
 WHERE o.name = :name
 UNION SELECT url FROM ordered_address WHERE source = :name
 UNION SELECT url FROM pending_pin WHERE source = :name
"""


def order_address_row(
    connection: Connection, source: str, url: str, key: bytes, now: int, *, force: bool
) -> int:
    """Order an address to be registered in a source; return its reindexGeneration.

    The same order again only counts ``force``. The caller opens the transaction.
    """
    return int(connection.execute(_ORDER, (source, key, url, int(force), now)).get)


def sources_of_ordered_row(connection: Connection, key: bytes) -> list[str]:
    """Return the sources that an address without a record is ordered for."""
    rows: list[Any] = connection.execute(_OF_KEY, (key,)).fetchall()
    return [source for (source,) in rows]


class ForcedOrderRow(NamedTuple):
    """An ordered address without a record, after one more order to index it anew."""

    source: str
    url: str
    key: bytes  #: SHA-256 of the normalized source
    forced: int  #: reindexGeneration

    @property
    def id(self) -> str:
        """Public id of the item to be."""
        return url_item_id(url_item_kind(self.url), self.key)


def force_ordered_rows(connection: Connection, first: bytes, last: bytes) -> list[ForcedOrderRow]:
    """Count one more order to index anew, and return the orders, by source.

    ``first`` and ``last``: the ids (32 bytes) between which they are.
    """
    rows: Any = connection.execute(_FORCED, (first, last)).fetchall()
    return sorted(
        ForcedOrderRow(source, url, bytes(key), forced) for source, url, key, forced in rows
    )


def register_ordered_rows(
    control: DatabaseControl, run: OpenRun, source: str, trackers: Trackers, now: int
) -> None:
    """Register the ordered addresses of a source, pinned and due, when a run of it begins.

    Not for a shared run, where other workers may find them at the same time: a later run does.
    """

    def work() -> None:
        connection = control.connection
        rows: list[Any] = connection.execute(_OF_SOURCE, (source,)).fetchall()
        for url, forced in rows:
            identity = normalize_url(url, trackers)
            no = connection.execute(_KNOWN, (run.source, url_digest(identity))).get
            if no is None:
                no = insert_address_row(connection, run.source, url, identity, run=run.no, now=now)
            else:
                store_spelling_rows(connection, {no: [url]}, 0)
            pin_record_row(connection, no, run.source, now)
            if forced:
                connection.execute(_FORCE, (no, forced))
        if rows:
            connection.execute(_DONE, (source,))

    control.write(work)


def has_row_of_documents_name(connection: Connection) -> bool:
    """Whether no other source was ever crawled under the name of the source of single pages."""
    return connection.execute(_KIND, (DOCUMENTS.name,)).get in (None, DOCUMENTS.name)


def stored_row_of_documents_source(connection: Connection) -> Source | None:
    """Return the source of single pages; None: there is none, or the name is that of another."""
    if not has_row_of_documents_name(connection):
        return None
    rows: Sequence[Any] = connection.execute(_PAGES, {"name": DOCUMENTS.name}).fetchall()
    is_stored = connection.execute(_KIND, (DOCUMENTS.name,)).get is not None
    return documents_source(url for (url,) in rows) if rows or is_stored else None

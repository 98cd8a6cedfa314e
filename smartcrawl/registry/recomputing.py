"""New ids of a source's records after a change of the normalization (G-34, ADR 61).

Records that are one address by now are merged: the indexed one stays, else the older one. The other
is removed with evidence as its alias, so that ``smartcrawl undo`` brings its content back.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

from smartcrawl.model.urls import Trackers, normalize_url, url_digest
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.index_protocols import Indexing, Sink
from smartcrawl.registry.removal.sweep import Candidate, RecordRemover
from smartcrawl.registry.runs.runs import OpenRun
from smartcrawl.registry.spellings import store_spelling_rows
from smartcrawl.rules.model import RemovalRule, Standing

logger = logging.getLogger(__name__)

STEP: Final = 500  #: records that change in one transaction
_READ: Final = 2_000  #: records that are looked at together
_ORDER: Final = "INSERT INTO recompute (source) VALUES (?) ON CONFLICT (source) DO NOTHING"
_ORDERED: Final = "SELECT 1 FROM recompute WHERE source = ?"
_DONE: Final = "DELETE FROM recompute WHERE source = ?"
_ROWS: Final = """
SELECT no, id, url FROM record WHERE source = ? AND no > ? ORDER BY no LIMIT ?
"""
_PAGE: Final = """
SELECT r.no, r.id, r.url, r.entry, s.standing, r.canonical_no
  FROM record r JOIN state s ON s.no = r.no
"""
_OF_NO: Final = f"{_PAGE} WHERE r.no = ?"
_OF_ID: Final = f"{_PAGE} WHERE r.source = ? AND r.id = ?"
_ID: Final = "UPDATE record SET id = ? WHERE no = ?"
_IDENTITY: Final = "UPDATE record SET identity = ? WHERE no = ?"
_ALIAS: Final = "UPDATE record SET canonical_no = ?, canonical_url = ? WHERE no = ?"
_PIN: Final = """
INSERT INTO pin (no, source, at) SELECT ?, source, at FROM pin WHERE no = ?
ON CONFLICT (no) DO NOTHING
"""
_UNPIN: Final = "DELETE FROM pin WHERE no = ?"
_FORCED: Final = """
INSERT INTO item (no, requested, generation, revision)
SELECT ?, TRUE, 1, 1 FROM item WHERE no = ? AND (requested OR generation > processed)
ON CONFLICT (no) DO UPDATE
   SET requested = TRUE, generation = item.generation + 1, revision = item.revision + 1
"""
#: Stored targets may lead to a page that was merged: the raw links are filtered again.
_UNFILTERED: Final = (
    "UPDATE links SET scope = 0 WHERE no IN (SELECT no FROM record WHERE source = ?)"
)


class _Page(NamedTuple):
    no: int
    id: bytes
    url: str
    entry: int
    standing: Standing
    canonical_no: int | None


def order_recomputing_row(connection: Connection, source: str) -> None:
    """Have the next run of a source compute its ids anew. The caller opens the transaction."""
    connection.execute(_ORDER, (source,))


def recompute_row_ids(
    connection: Connection,
    indexing: Indexing,
    run: OpenRun,
    *,
    source: str,
    trackers: Trackers,
    now: int,
) -> int:
    """Compute the ids of a source anew if that was ordered; return the number of changed records.

    The caller has just opened the run, and holds the lease of the source. A process that dies
    leaves the order, and the next run begins again.
    """
    if connection.execute(_ORDERED, (source,)).get is None:
        return 0
    stale = list(_stale(connection, run.source, trackers))
    for start in range(0, len(stale), STEP):
        step = stale[start : start + STEP]

        def work(sink: Sink, number: int, step: Sequence[tuple[int, str]] = step) -> None:
            _Recomputing(connection, sink, run, source, number=number, now=now).apply(step)

        indexing.perform(connection, work, now=now, number=run.number)

    def done(_sink: Sink, _number: int) -> None:
        connection.execute(_DONE, (source,))

    indexing.perform(connection, done, now=now, number=run.number)
    if stale:
        logger.info("%s: %d records got the ids of today's normalization", source, len(stale))
    return len(stale)


def _stale(connection: Connection, source: int, trackers: Trackers) -> list[tuple[int, str]]:
    """Return the records with another id than today's: numbers, and normalized addresses."""
    found, after = [], 0
    while rows := _read(connection, source, after):
        for no, key, url in rows:
            identity = normalize_url(url, trackers)
            if url_digest(identity) != bytes(key):
                found.append((no, identity))
        after = rows[-1][0]
    return found


def _read(connection: Connection, source: int, after: int) -> list[Any]:
    rows: list[Any] = connection.execute(_ROWS, (source, after, _READ)).fetchall()
    return rows


class _Recomputing:
    """Gives some records their new ids, in the transaction of the caller."""

    def __init__(
        self,
        connection: Connection,
        sink: Sink,
        run: OpenRun,
        source: str,
        *,
        number: int,
        now: int,
    ) -> None:
        self._connection = connection
        self._sink = sink
        self._run = run
        self._source = source
        self._number = number
        self._now = now
        self._former: dict[int, tuple[str, bytes]] = {}  #: of pages with an entry in the index
        self._merged = False

    def apply(self, step: Sequence[tuple[int, str]]) -> None:
        """Give records (number, normalized address) their ids; merge those that collide."""
        for no, identity in step:
            key = url_digest(identity)
            [page] = self._pages(_OF_NO, no)
            if other := self._pages(_OF_ID, self._run.source, key):
                self._merge(page, other[0], identity)
            else:
                self._rename(page, key, identity)
        if self._merged:
            self._connection.execute(_UNFILTERED, (self._run.source,))
        if self._former:
            self._sink.renamed(self._former)
            self._sink.flush()

    def _merge(self, stale: _Page, other: _Page, identity: str) -> None:
        """Let one of two records stand for both; ``other`` has the id of today."""
        store_spelling_rows(self._connection, {other.no: [stale.url], stale.no: [other.url]}, 0)
        is_alias = stale.standing is Standing.LINKS and stale.canonical_no == other.no
        if (is_alias or stale.standing is Standing.BARE) and not self._is_pinned(stale):
            return  # it was merged before, or nothing is stored of it
        stays, goes = other, stale
        if (stale.standing, -stale.no) > (other.standing, -other.no):
            stays, goes = stale, other
        self._merged = True
        self._connection.execute(_PIN, (stays.no, goes.no))
        self._connection.execute(_UNPIN, (goes.no,))
        self._connection.execute(_FORCED, (stays.no, goes.no))
        if stays is stale:  # they exchange their ids, each of which is unique
            self._connection.execute(_ID, (sha256(stale.id).digest(), goes.no))
            self._rename(stale, other.id, identity)
            self._connection.execute(_ID, (stale.id, goes.no))
        if goes.standing is Standing.BARE:
            return
        why = "its address is that of another page in today's normalization"
        detail = {"why": why, "canonical": stays.url, "canonicalNo": stays.no}
        candidate = Candidate(goes.no, RemovalRule.CANONICAL, json.dumps(detail))
        remover = RecordRemover(
            self._connection,
            self._sink,
            source=self._run.source,
            run=self._run.no,
            number=self._number,
        )
        remover.remove([candidate], self._now)
        self._connection.execute(_ALIAS, (stays.no, stays.url, goes.no))
        if stays is stale and goes.entry and not self._pages(_OF_NO, stays.no)[0].entry:
            self._former[goes.no] = (self._source, other.id)  # nothing is written over it

    def _rename(self, page: _Page, key: bytes, identity: str) -> None:
        self._connection.execute(_ID, (key, page.no))
        self._connection.execute(_IDENTITY, (None if identity == page.url else identity, page.no))
        if page.entry:
            self._former[page.no] = (self._source, page.id)

    def _is_pinned(self, page: _Page) -> bool:
        return (
            self._connection.execute("SELECT 1 FROM pin WHERE no = ?", (page.no,)).get is not None
        )

    def _pages(self, statement: str, *values: object) -> list[_Page]:
        rows: list[Any] = self._connection.execute(statement, values).fetchall()
        return [
            _Page(no, bytes(key), url, entry, Standing(standing), canonical)
            for no, key, url, entry, standing, canonical in rows
        ]

"""Rows of rendered pages: their requests for data, and what they were made of (ADR 149)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from smartcrawl.model.rendered import (
    DataRow,
    Need,
    NewRendering,
    StoredRendering,
    pack_page_needs,
    unpack_page_needs,
)
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.pack import numbers_for_sql

#: A rendering counts as long as the stored body is its own.
_PAGES: Final = """
SELECT p.no, p.shown, p.always, p.requests FROM page_data p JOIN record r USING (no)
 WHERE p.no IN carray(?) AND p.body_hash = r.body_hash
"""
_ROWS: Final = """
SELECT no, method, url, kind, headers, body, has_cookie, status, etag, last_modified, digest,
       version, leaves, noise
  FROM data_request WHERE no IN carray(?)
"""
_PUT_ROW: Final = """
INSERT INTO data_request (no, source, method, url, kind, headers, body, has_cookie, status, etag,
                          last_modified, digest, version, leaves, noise)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (no) DO UPDATE
   SET kind = excluded.kind, has_cookie = excluded.has_cookie, status = excluded.status,
       etag = excluded.etag, last_modified = excluded.last_modified, digest = excluded.digest,
       version = excluded.version, leaves = excluded.leaves, noise = excluded.noise
"""
_PUT_PAGE: Final = """
INSERT INTO page_data (no, body_hash, shown, always, requests) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (no) DO UPDATE
   SET body_hash = excluded.body_hash, shown = excluded.shown, always = excluded.always,
       requests = excluded.requests
"""
_ALL_NEEDS: Final = """
SELECT p.requests FROM page_data p JOIN record r USING (no) WHERE r.source = ?
"""
_ALL_ROWS: Final = "SELECT no FROM data_request WHERE source = ?"
_DELETE: Final = "DELETE FROM data_request WHERE no IN carray(?)"
_COUNT: Final = """
SELECT length(p.requests) FROM page_data p JOIN record r USING (no)
 WHERE p.no = ? AND p.body_hash = r.body_hash AND NOT p.always
"""
_PAIR: Final = 16  #: bytes of a request with its version


class RenderedReader:
    """Reads what the stored pages of a source were made of."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def renderings(self, numbers: Sequence[int]) -> dict[int, StoredRendering]:
        """Return what those pages were made of that are stored as a browser showed them.

        Two statements read all of them, whatever their number.
        """
        pages: Any = self._connection.execute(_PAGES, (Many(numbers),)).fetchall()
        needed = {no: unpack_page_needs(bytes(requests)) for no, _, _, requests in pages}
        rows = self.rows({row for pairs in needed.values() for row, _ in pairs})
        found = {}
        for no, shown, always, _ in pages:
            pairs = needed[no]
            if all(row in rows for row, _ in pairs):
                needs = tuple(Need(rows[row], version) for row, version in pairs)
                found[no] = StoredRendering(bytes(shown), bool(always), needs)
        return found

    def rows(self, numbers: set[int]) -> dict[int, DataRow]:
        """Return those requests that were made before, by number."""
        if not numbers:
            return {}
        rows: Any = self._connection.execute(_ROWS, (numbers_for_sql(numbers),))
        return {row[0]: _row(*row) for row in rows}


def _row(*values: Any) -> DataRow:
    row = DataRow(*values)
    row.headers, row.noise = json.loads(values[4]), json.loads(values[13])
    row.has_cookie = bool(row.has_cookie)
    row.digest, row.leaves = bytes(row.digest), bytes(row.leaves)
    return row


def store_data_rows(connection: Connection, source: int, rows: Mapping[int, DataRow]) -> None:
    """Store requests with their last answers; the caller's transaction."""
    values = [
        (r.no, source, r.method, r.url, r.kind, json.dumps(dict(r.headers)), r.body, r.has_cookie,
         r.status, r.etag, r.last_modified, r.digest, r.version, r.leaves, json.dumps(r.noise))
        for _, r in sorted(rows.items())  # the order of all locks
    ]  # fmt: skip
    connection.executemany(_PUT_ROW, values)


def store_page_rows(
    connection: Connection, pages: Iterable[tuple[int, bytes, NewRendering]]
) -> None:
    """Store what pages were made of: number, hash of the body, rendering."""
    values = [
        (no, body_hash, made.shown, made.always,
         pack_page_needs((row.no, row.version) for row in made.rows))
        for no, body_hash, made in sorted(pages, key=lambda page: page[0])
    ]  # fmt: skip
    connection.executemany(_PUT_PAGE, values)


def delete_unused_data_rows(connection: Connection, source: int) -> int:
    """Delete the requests that no page of a source makes any more; return their number."""
    rows: Any = connection.execute(_ALL_ROWS, (source,)).fetchall()
    if not rows:  # a source without rendered pages: none of its records is read
        return 0
    needs: Any = connection.execute(_ALL_NEEDS, (source,)).fetchall()
    used = {row for (packed,) in needs for row, _ in unpack_page_needs(bytes(packed))}
    unused = {no for (no,) in rows} - used
    if unused:
        connection.execute(_DELETE, (numbers_for_sql(unused),))
    return len(unused)


def count_page_needs(connection: Connection, no: int) -> int:
    """Return how many requests confirm a stored page; 0: none can."""
    return int(connection.execute(_COUNT, (no,)).get or 0) // _PAIR

"""Tombstones: records of removed pages, deleted after a time (R0-79)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.pack import numbers_for_sql, unpack_stored_numbers
from smartcrawl.registry.removal.candidates import EndingRunRow

MOST = 10_000  #: tombstones that one run deletes

#: No content, no undo data, no link, no pin, and no visit since :before.
_OVERDUE = """
SELECT s.no FROM state s CROSS JOIN record r
 WHERE r.no = s.no AND r.source = :source AND s.standing = 0
   AND (s.status = 5 OR s.outcome = 12 OR (s.status = 4 AND s.outcome = 5))
   AND s.reached_run < :run AND coalesce(s.last_checked, r.first_seen) < :before
   AND NOT EXISTS (SELECT 1 FROM pin p WHERE p.no = s.no)
   AND NOT EXISTS (SELECT 1 FROM evidence e
                    WHERE e.record = s.no AND (e.restore IS NOT NULL OR e.at >= :before))
 ORDER BY s.no LIMIT :most
"""
_TARGETS = """
SELECT l.no, l.targets FROM links l JOIN record r USING (no) WHERE r.source = ? AND l.scope <> 0
"""
#: The links of these pages are resolved again by address at the next visit.
_LOOK_UP = "UPDATE links SET scope = 0, targets = zeroblob(0) WHERE no IN carray(?)"
_NAMED = (
    "UPDATE record SET redirect_no = NULL WHERE redirect_no IN carray(?)",
    "UPDATE record SET canonical_no = NULL WHERE canonical_no IN carray(?)",
    "UPDATE record SET moved_from = NULL WHERE moved_from IN carray(?)",
    "UPDATE record SET discovered_from = NULL WHERE discovered_from IN carray(?)",
)
_FORGET = (
    "DELETE FROM links WHERE no IN carray(?)",
    "DELETE FROM item WHERE no IN carray(?)",
    "DELETE FROM spelling WHERE no IN carray(?)",
    "DELETE FROM candidate WHERE no IN carray(?)",
    "DELETE FROM former_text WHERE no IN carray(?)",
    "DELETE FROM seed WHERE no IN carray(?)",
    "DELETE FROM event WHERE record IN carray(?)",
    "DELETE FROM change WHERE record IN carray(?)",
    "DELETE FROM evidence WHERE record IN carray(?)",
    "DELETE FROM state WHERE no IN carray(?)",
    "DELETE FROM record WHERE no IN carray(?)",
)


def delete_expired_tombstone_rows(connection: Connection, ending: EndingRunRow) -> int:
    """Delete the expired tombstones of a source; return their number.

    Call it for a complete run only, which proves that no link leads to them. An address that
    comes back later is new. The caller opens the transaction.
    """
    ttl = ending.closing.gone_ttl
    if not ttl:
        return 0
    names = ending.names | {"before": ending.now - ttl, "most": MOST}
    rows: list[Any] = connection.execute(_OVERDUE, names).fetchall()
    overdue = {no for (no,) in rows}
    if not overdue:
        return 0
    stale = [
        no
        for no, targets in connection.execute(_TARGETS, (ending.source,))
        if not overdue.isdisjoint(unpack_stored_numbers(targets))
    ]
    look_up_links_again(connection, stale, ())
    delete_record_rows(connection, overdue)
    return len(overdue)


def look_up_links_again(
    connection: Connection, pages: Collection[int], gone: Collection[int]
) -> None:
    """Have the next run look up the links of ``pages`` by address.

    ``gone``: numbers without a record, which no column may name any more.
    """
    connection.execute(_LOOK_UP, (numbers_for_sql(pages),))
    for statement in _NAMED if gone else ():
        connection.execute(statement, (numbers_for_sql(gone),))


def delete_record_rows(connection: Connection, numbers: Collection[int]) -> None:
    """Delete records of which nothing is stored, with their state and history."""
    for statement in (*_NAMED, *_FORGET):
        connection.execute(statement, (numbers_for_sql(numbers),))

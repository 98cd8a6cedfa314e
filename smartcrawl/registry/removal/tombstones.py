"""Tombstones: records of removed pages, deleted after a time (R0-79)."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, Final

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.numbers import keep_last_run_number
from smartcrawl.registry.pack import numbers_for_sql, unpack_stored_numbers
from smartcrawl.registry.removal.candidates import EndingRunRow
from smartcrawl.rules.model import RunState
from smartcrawl.rules.run_orders import is_start_failed
from smartcrawl.sources.kinds import FILES, GITHUB, SITE

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
    "DELETE FROM page_data WHERE no IN carray(?)",
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


_KINDS: Final = (SITE.name, FILES.name, GITHUB.name)
#: A source that never had content, or whose content is gone for good, from Elasticsearch, too. No
#: job names its runs, and no order waits for it: without its row, the process that carries out the
#: order fails.
_EMPTY: Final = """
SELECT o.no, o.kind FROM source o
 WHERE o.name = ?
   AND NOT EXISTS (SELECT 1 FROM content c WHERE c.source = o.no)
   AND NOT EXISTS (SELECT 1 FROM evidence e WHERE e.source = o.no AND e.restore IS NOT NULL)
   AND NOT EXISTS (SELECT 1 FROM record r JOIN state s USING (no)
                    WHERE r.source = o.no AND s.standing > 0)
   AND NOT EXISTS (SELECT 1 FROM record r WHERE r.source = o.no AND r.sunk IS NOT NULL)
   AND NOT EXISTS (SELECT 1 FROM store_file f WHERE f.source = o.no)
   AND NOT EXISTS (SELECT 1 FROM job_run j JOIN run r ON r.no = j.run WHERE r.source = o.no)
   AND NOT EXISTS (SELECT 1 FROM ordered_address a WHERE a.source = o.name)
   AND NOT EXISTS (SELECT 1 FROM due_run d WHERE d.source = o.name)
   AND NOT EXISTS (SELECT 1 FROM process p WHERE p.kind = 'due' AND p.id = o.name)
"""
#: The ends of all runs of sources that a command named by their address, and none was complete.
_STARTS: Final = """
SELECT o.name, r.state, r.reasons FROM source o JOIN run r ON r.source = o.no
 WHERE NOT o.declared
   AND NOT EXISTS (SELECT 1 FROM run c WHERE c.source = o.no AND c.complete)
 ORDER BY o.name
"""
_RECORDS: Final = f"SELECT no FROM record WHERE source = ? LIMIT {MOST}"
_OF_RECORDS: Final = tuple(
    f"DELETE FROM {table} WHERE no IN carray(?)" for table in ("pin", "dead_letter", "collapse")
)
_OF_RUNS: Final = tuple(
    f"DELETE FROM {table} WHERE run IN (SELECT no FROM run WHERE source = ?)"
    for table in ("seed", "run_host", "run_sample", "host_now", "event", "change", "shared_change")
)
_OF_SOURCE: Final = (
    "DELETE FROM candidate WHERE source = ?",
    "DELETE FROM evidence WHERE source = ?",
    "DELETE FROM data_request WHERE source = ?",
    "DELETE FROM render_sample WHERE source = ?",
    "DELETE FROM run WHERE source = ?",
    "DELETE FROM source WHERE no = ?",
)


def is_empty_source(connection: Connection, name: str) -> bool:
    """Whether nothing is stored of a source, and nothing that ``undo`` could bring back."""
    return _empty_source_number(connection, name) is not None


def failed_start_sources(connection: Connection) -> list[str]:
    """Return the sources that an address made and of which no run got anything, by name.

    Nothing is stored of them, and each of their runs failed at its start (``is_start_failed``).
    Declared sources and those of jobs are never among them.
    """
    failed: dict[str, bool] = {}
    for name, state, reasons in connection.execute(_STARTS):
        in_vain = is_start_failed(RunState(state), json.loads(reasons))
        failed[str(name)] = failed.get(str(name), True) and in_vain
    return [name for name, is_so in failed.items() if is_so and is_empty_source(connection, name)]


def delete_empty_source_rows(connection: Connection, name: str) -> bool:
    """Delete a source of which nothing is stored, with its records and runs.

    Return whether it was one. The caller opens the transaction, and has the lease.
    """
    number = _empty_source_number(connection, name)
    if number is None:
        return False
    keep_last_run_number(connection)
    while found := [no for (no,) in connection.execute(_RECORDS, (number,)).fetchall()]:
        for statement in _OF_RECORDS:
            connection.execute(statement, (numbers_for_sql(found),))
        delete_record_rows(connection, found)
    for statement in (*_OF_RUNS, *_OF_SOURCE):
        connection.execute(statement, (number,))
    return True


def _empty_source_number(connection: Connection, name: str) -> int | None:
    row: Any = connection.execute(_EMPTY, (name,)).fetchone()
    return int(row[0]) if row is not None and row[1] in _KINDS else None

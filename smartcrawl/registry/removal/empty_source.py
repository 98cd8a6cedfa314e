"""Sources of which nothing is stored: deleted with their runs when they are forgotten."""

from __future__ import annotations

from typing import Any, Final

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.pack import numbers_for_sql
from smartcrawl.registry.removal.tombstones import MOST, delete_record_rows
from smartcrawl.registry.run_numbers import keep_last_run_number
from smartcrawl.sources.kinds import FILES, GITHUB, SITE

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
"""
_RECORDS: Final = f"SELECT no FROM record WHERE source = ? LIMIT {MOST}"
_OF_RECORDS: Final = tuple(
    f"DELETE FROM {table} WHERE no IN carray(?)" for table in ("pin", "dead_letter", "collapse")
)
_OF_RUNS: Final = tuple(
    f"DELETE FROM {table} WHERE run IN (SELECT no FROM run WHERE source = ?)"
    for table in ("seed", "run_host", "host_now", "event", "change")
)
_OF_SOURCE: Final = (
    "DELETE FROM candidate WHERE source = ?",
    "DELETE FROM evidence WHERE source = ?",
    "DELETE FROM run WHERE source = ?",
    "DELETE FROM source WHERE no = ?",
)


def is_empty_source(connection: Connection, name: str) -> bool:
    """Whether nothing is stored of a source, and nothing that ``undo`` could bring back."""
    return _empty_source_number(connection, name) is not None


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

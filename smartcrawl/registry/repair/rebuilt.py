"""Repair of a registry with missing rows: uncertain pages are fetched again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from smartcrawl.model.urls import url_host_key
from smartcrawl.registry.commit.folder_marks import delete_mark_rows
from smartcrawl.registry.database.integrity import unreadable_stored_values
from smartcrawl.registry.database.sqlite import SqliteConnection
from smartcrawl.registry.database.transactions import transaction
from smartcrawl.rules.model import Standing, Status

_FAR: Final = 250  #: depth of a page whose own is lost, until the next link to it corrects it
_AHEAD: Final = 10_000  #: claim numbers skipped, because some may be in use
#: Contents with lost chunks: beside an unreadable part, or with a gap.
_TORN_BESIDE: Final = """
INSERT OR IGNORE INTO torn
SELECT content FROM chunk WHERE no = (SELECT max(no) FROM chunk WHERE no <= :gap)
UNION SELECT content FROM chunk WHERE no = (SELECT min(no) FROM chunk WHERE no > :gap)
"""
_TORN: Final = """
INSERT OR IGNORE INTO torn
SELECT c.no FROM content c LEFT JOIN
       (SELECT content, count(*) AS count, max(position) + 1 AS most FROM chunk GROUP BY content) k
       ON k.content = c.no
 WHERE (k.content IS NULL AND c.text_length > 0) OR k.count <> k.most
"""
_SETS: Final = ("torn", "bare", "alone")  #: contents; pages; pages whose original is lost
_CHILDREN: Final = ("state", "links", "item", "pin", "candidate", "dead_letter", "spelling")
#: References to rows that may be missing: table, column, referenced table.
_LOOSE: Final = (
    ("record", "discovered_from", "record"),
    ("record", "duplicate_of", "record"),
    ("record", "redirect_no", "record"),
    ("record", "moved_from", "record"),
    ("record", "canonical_no", "record"),
    ("record", "snapshot", "snapshot"),
    ("record", "configuration", "fingerprint"),
)
_STATE: Final = f"""
INSERT INTO state (no, reached_run, seen_run, depth, status, standing)
SELECT no, 0, (SELECT coalesce(max(no), 0) FROM run), {_FAR}, 0, 0
  FROM record WHERE no NOT IN (SELECT no FROM state)
"""
#: A page with incomplete content counts as new, so that the next visit downloads it.
_BARE: Final = f"""
UPDATE state SET standing = {int(Standing.BARE)}, status = {int(Status.PENDING)}
 WHERE no IN (SELECT no FROM bare)
"""
_EMPTY: Final = """
UPDATE record SET content = NULL, entry = 0, duplicate_of = NULL, etag = NULL,
       last_modified = NULL, modified = NULL, body_hash = NULL, content_hash = NULL,
       text_hash = NULL
 WHERE no IN (SELECT no FROM bare)
"""
_SEQUENCES: Final = f"""
INSERT INTO sequence (name, value)
SELECT 'number', {_AHEAD} + max((SELECT coalesce(max(number), 0) FROM state),
                                (SELECT coalesce(max(intent), 0) FROM state),
                                (SELECT coalesce(max(number), 0) FROM run))
 UNION ALL SELECT 'address', (SELECT coalesce(max(no), 0) FROM record)
ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)
"""


@dataclass(frozen=True, slots=True)
class MendedRows:
    """Changes because of missing rows, counted in rows."""

    fetched_again: int  #: pages whose content or state is lost
    sources: int  #: sources whose name is lost
    hosts: int  #: hosts whose figures are lost
    dropped: int  #: rows that referred to missing rows, or had an unreadable value

    def counts(self) -> dict[str, int]:
        """Return the numbers by name."""
        return {
            "fetched_again": self.fetched_again,
            "sources": self.sources,
            "hosts": self.hosts,
            "dropped": self.dropped,
        }


def mend_registry_rows(
    connection: SqliteConnection, *, torn: Sequence[int], unknown: bool, links: bool
) -> MendedRows:
    """Remove references to missing rows, and reset the pages whose content is incomplete.

    ``torn``: numbers of the last chunks before unreadable parts; ``unknown``: unknown chunks are
    missing; ``links``: links of pages are missing.
    """
    with transaction(connection):
        for table in _SETS:
            connection.execute(f"CREATE TEMP TABLE {table} (no INTEGER PRIMARY KEY)").fetchall()
        unpacked = list(unreadable_stored_values(connection))
        links = links or any(table == "links" for table, _, _ in unpacked)
        dropped = _drop_unreadable(connection, unpacked) + _drop(connection)
        connection.execute(_STATE)
        for gap in torn:
            connection.execute(_TORN_BESIDE, {"gap": gap})
        if unknown:
            connection.execute("INSERT OR IGNORE INTO torn SELECT no FROM content")
        connection.execute(_TORN)
        again = _empty(connection, links=links)
        sources, hosts = _sources(connection), _hosts(connection)
        connection.execute(_SEQUENCES)
        delete_mark_rows(connection)
        connection.execute("INSERT INTO chunk_words (chunk_words) VALUES ('rebuild')").fetchall()
        for table in _SETS:
            connection.execute(f"DROP TABLE {table}").fetchall()
    return MendedRows(again, sources, hosts, dropped)


def _drop_unreadable(connection: SqliteConnection, found: Sequence[tuple[str, str, int]]) -> int:
    """Delete rows with unreadable values; empty those values of runs. Return the number of rows."""
    count = 0
    for table, column, rowid in found:
        if table == "content":
            connection.execute("INSERT OR IGNORE INTO torn VALUES (?)", (rowid,))
            continue
        if table == "run":
            empty = "{}" if column in ("counts", "cut") else "[]"
            statement = f"UPDATE run SET {column} = '{empty}' WHERE no = ?"
        else:
            statement = f"DELETE FROM {table} WHERE rowid = ?"
        connection.execute(statement, (rowid,))
        count += connection.changes()
    return count


def _drop(connection: SqliteConnection) -> int:
    """Delete rows whose parent is missing, and clear references to missing rows."""
    count = 0
    for table in _CHILDREN:
        connection.execute(f"DELETE FROM {table} WHERE no NOT IN (SELECT no FROM record)")
        count += connection.changes()
    connection.execute(
        "INSERT INTO alone SELECT no FROM record"
        " WHERE duplicate_of IS NOT NULL AND duplicate_of NOT IN (SELECT no FROM record)"
    )
    for table, column, other in _LOOSE:
        connection.execute(
            f"UPDATE {table} SET {column} = NULL"
            f" WHERE {column} IS NOT NULL AND {column} NOT IN (SELECT no FROM {other})"
        )
    connection.execute(
        "UPDATE evidence SET content = NULL, restore = NULL"
        " WHERE content IS NOT NULL AND content NOT IN (SELECT no FROM content)"
    )
    check = "PRAGMA foreign_key_check"
    rows: Any
    while rows := connection.execute(check).fetchall():
        for child, rowid, parent, _ in rows:
            if rowid is not None:
                connection.execute(f"DELETE FROM {child} WHERE rowid = ?", (rowid,))
            else:  # a seed, which has no row number
                connection.execute(
                    f"DELETE FROM {child} WHERE run NOT IN (SELECT no FROM {parent})"
                )
            count += 1
    return count


def _empty(connection: SqliteConnection, *, links: bool) -> int:
    """Clear content, validators and index entry of pages with incomplete content."""
    connection.execute(
        "INSERT OR IGNORE INTO bare SELECT r.no FROM record r JOIN state s USING (no)"
        " WHERE r.content IS NOT NULL AND (r.content IN (SELECT no FROM torn)"
        f" OR r.content NOT IN (SELECT no FROM content) OR s.standing <> {int(Standing.HELD)})"
    )
    connection.execute(
        "INSERT OR IGNORE INTO bare SELECT s.no FROM state s JOIN record r USING (no)"
        f" WHERE (s.standing = {int(Standing.HELD)} AND r.content IS NULL)"
        f" OR s.depth = {_FAR}"
    )
    if links:
        connection.execute(
            "INSERT OR IGNORE INTO bare SELECT no FROM state"
            " WHERE standing > 0 AND no NOT IN (SELECT no FROM links)"
        )
    connection.execute(_BARE)
    connection.execute(_EMPTY)
    connection.execute("DELETE FROM links WHERE no IN (SELECT no FROM bare)")
    connection.execute(
        "UPDATE evidence SET content = NULL, restore = NULL WHERE content IN (SELECT no FROM torn)"
    )
    used = "SELECT content FROM record WHERE content IS NOT NULL UNION SELECT content FROM evidence"
    connection.execute(f"DELETE FROM content WHERE no NOT IN ({used} WHERE content IS NOT NULL)")
    connection.execute("DELETE FROM chunk WHERE content NOT IN (SELECT no FROM content)")
    connection.execute("DELETE FROM remote_chunk WHERE content NOT IN (SELECT no FROM content)")
    # A clone whose original is lost becomes the index entry of the content.
    connection.execute(
        "INSERT OR IGNORE INTO alone SELECT no FROM record WHERE duplicate_of IN"
        " (SELECT no FROM bare)"
    )
    connection.execute(
        "UPDATE record SET entry = 1, duplicate_of = NULL"
        " WHERE content IS NOT NULL AND no IN (SELECT no FROM alone)"
    )
    return int(connection.execute("SELECT count(*) FROM bare").get)


def _sources(connection: SqliteConnection) -> int:
    """Name sources whose row is lost, so that their pages can be found; return their number."""
    found: Any = connection.execute(
        "SELECT DISTINCT source FROM record WHERE source NOT IN (SELECT no FROM source)"
    ).fetchall()
    for (number,) in found:
        connection.execute(
            "INSERT INTO source (no, name, kind, created_at) VALUES (?, ?, 'site', 0)",
            (number, f"salvaged-{number}"),
        )
    return len(found)


def _hosts(connection: SqliteConnection) -> int:
    """Restore lost rows of hosts from the addresses of their pages; return their number."""
    found: Any = connection.execute(
        "SELECT host, min(url) FROM record WHERE host NOT IN (SELECT no FROM host) GROUP BY host"
    ).fetchall()
    for number, url in found:
        name = url_host_key(url)
        known = connection.execute("SELECT no FROM host WHERE name = ?", (name,)).fetchone()
        if known is None:
            connection.execute("INSERT INTO host (no, name) VALUES (?, ?)", (number, name))
        else:
            connection.execute("UPDATE record SET host = ? WHERE host = ?", (known[0], number))
    connection.execute("UPDATE state SET host = (SELECT host FROM record r WHERE r.no = state.no)")
    return len(found)

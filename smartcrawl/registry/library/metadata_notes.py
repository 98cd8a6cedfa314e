"""Entries of ``files_metadata.json``, noted at each write (table library_metadata)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.database.transactions import transaction

_ALL: Final = "SELECT entry FROM library_metadata WHERE domain = ? ORDER BY position"
_KNOWN: Final = """
SELECT openai_file_id FROM library_metadata WHERE domain = ? AND openai_file_id IN carray(?)
"""
_STORE: Final = """
INSERT INTO library_metadata (domain, position, openai_file_id, entry) VALUES (?, ?, ?, ?)
ON CONFLICT (domain, position) DO UPDATE
   SET openai_file_id = excluded.openai_file_id, entry = excluded.entry
"""
_CUT: Final = "DELETE FROM library_metadata WHERE domain = ? AND position >= ?"


def metadata_note_rows(connection: Connection, domain: str) -> list[str]:
    """Return the entries of a domain as JSON, in their order."""
    rows: Any = connection.execute(_ALL, (domain,)).fetchall()
    return [entry for (entry,) in rows]


def noted_file_id_rows(connection: Connection, domain: str, ids: Collection[str]) -> set[str]:
    """Return those of some ``openai_file_id`` that have an entry."""
    rows: Any = connection.execute(_KNOWN, (domain, Many(sorted(ids)))).fetchall()
    return {id_ for (id_,) in rows}


def store_metadata_note_row(
    connection: Connection, domain: str, entries: Sequence[tuple[str | None, str]]
) -> None:
    """Note the entries of a domain: each with its ``openai_file_id``, and as JSON.

    Only those that differ from the noted ones are written.
    """
    with transaction(connection):
        before = metadata_note_rows(connection, domain)
        differing = [
            (domain, position, id_, entry)
            for position, (id_, entry) in enumerate(entries)
            if position >= len(before) or before[position] != entry
        ]
        connection.executemany(_STORE, differing)
        if len(before) > len(entries):
            connection.execute(_CUT, (domain, len(entries)))

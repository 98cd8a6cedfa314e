"""Registry data about the embedding of a library: failures, stores of domains, metadata."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from smartcrawl.registry.connection import Connection, Many, transaction
from smartcrawl.rules.model import RunState

_FAILURES: Final = "SELECT no, facts, hash, error FROM embed_failure WHERE source = ?"
_FAIL: Final = """
INSERT INTO embed_failure (no, source, facts, hash, error) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (no) DO UPDATE
   SET facts = excluded.facts, hash = excluded.hash, error = excluded.error
"""
_FORGET: Final = "DELETE FROM embed_failure WHERE no IN carray(?)"
_PLACED: Final = "UPDATE library_item SET path = ? WHERE no = ? AND path = ?"
_HASHES: Final = """
SELECT no, facts, content_hash FROM store_file
 WHERE source = ? AND facts IS NOT NULL AND body_hash IS NOT NULL
"""
_RUNS: Final = "SELECT complete FROM run WHERE source = ? AND state = ? ORDER BY no DESC LIMIT 1000"
_STORE: Final = "SELECT intent, id FROM domain_store WHERE domain = ? AND url = ?"
_INTEND: Final = "INSERT INTO domain_store (domain, url, intent) VALUES (?, ?, ?)"
_MADE: Final = "UPDATE domain_store SET id = ? WHERE domain = ? AND url = ?"
_WRITTEN: Final = "DELETE FROM domain_store WHERE domain = ? AND url = ?"


class EmbedFailure(NamedTuple):
    """A version of an item that a store could not embed."""

    facts: bytes  #: as those of its version
    hash: bytes
    error: str


def embed_failure_rows(connection: Connection, source: int) -> dict[int, EmbedFailure]:
    """Return the failures of a source, by record.no."""
    rows: Any = connection.execute(_FAILURES, (source,)).fetchall()
    return {
        no: EmbedFailure(bytes(facts), bytes(digest), error) for no, facts, digest, error in rows
    }


def store_embed_failure_row(
    connection: Connection, source: int, no: int, failure: EmbedFailure
) -> None:
    """Store a failure."""
    with transaction(connection):
        facts, digest, error = failure
        connection.execute(_FAIL, (no, source, facts, digest, error[:1024]))


def delete_embed_failure_rows(connection: Connection, numbers: list[int]) -> None:
    """Delete the failures of items that changed, or are tried again."""
    if numbers:
        with transaction(connection):
            connection.execute(_FORGET, (Many(numbers),))


def move_library_row(connection: Connection, no: int, before: str, after: str) -> None:
    """Store the new place of a file, unless another step moved it meanwhile."""
    with transaction(connection):
        connection.execute(_PLACED, (after, no, before))


def given_library_row_hashes(connection: Connection, source: int) -> dict[tuple[int, bytes], bytes]:
    """Return the SHA-256 of the files that were given to stores, by record.no and facts."""
    rows: Any = connection.execute(_HASHES, (source,)).fetchall()
    return {(no, bytes(facts)): bytes(digest) for no, facts, digest in rows}


def stored_listing_was_whole(connection: Connection, source: int) -> bool:
    """Whether a whole listing is stored: an item that is not in the registry is gone."""
    rows: Any = connection.execute(_RUNS, (source, int(RunState.SWEPT))).fetchall()
    return any(complete for (complete,) in rows)


def domain_store_row(connection: Connection, domain: str, url: str) -> tuple[str, str | None]:
    """Return intent and id of the store that is being made for a domain; both may be new."""
    row: Any = connection.execute(_STORE, (domain, url)).fetchone()
    return ("", None) if row is None else (row[0], row[1])


def intend_domain_store_row(connection: Connection, domain: str, url: str, intent: str) -> None:
    """Store the intent to make a store, before the request."""
    with transaction(connection):
        connection.execute(_INTEND, (domain, url, intent))


def note_domain_store_row(connection: Connection, domain: str, url: str, store: str) -> None:
    """Store the id that the server gave to the store of a domain."""
    with transaction(connection):
        connection.execute(_MADE, (store, domain, url))


def end_domain_store_row(connection: Connection, domain: str, url: str) -> None:
    """Forget the making of a store: its id is in domain.json."""
    with transaction(connection):
        connection.execute(_WRITTEN, (domain, url))


_ALL: Final = "SELECT entry FROM library_metadata WHERE domain = ? ORDER BY position"
_KNOWN: Final = """
SELECT openai_file_id FROM library_metadata WHERE domain = ? AND openai_file_id IN carray(?)
"""
_NOTE: Final = """
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
        connection.executemany(_NOTE, differing)
        if len(before) > len(entries):
            connection.execute(_CUT, (domain, len(entries)))

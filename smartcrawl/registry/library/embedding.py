"""Registry data about the embedding of a library: failures, and stores of domains."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.database.transactions import transaction
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

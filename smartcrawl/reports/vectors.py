"""Counts of the chunks of sources and pages that have vectors, and of those that are owed."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from smartcrawl.model.program import program_name
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.choices import stored_choices
from smartcrawl.registry.remote_chunks import (
    INDEXED_EMBEDDER,
    has_remote_chunk_rows,
    remote_chunk_table,
)
from smartcrawl.registry.vector_table import vector_table
from smartcrawl.reports.text import report_noun

#: The embedder that was used last for all chunks, else the latest one.
_EMBEDDER: Final = """
SELECT no, name, model, dimension FROM embedder
 ORDER BY whole_at IS NULL, whole_at DESC, no DESC LIMIT 1
"""
_COUNTS: Final = """
SELECT {key}, count(DISTINCT k.hash), count(DISTINCT v.hash) FILTER (WHERE v.refused IS NULL),
       count(DISTINCT v.hash) FILTER (WHERE v.refused IS NOT NULL)
  FROM {pages} JOIN {chunks} k ON k.content = {content}
  LEFT JOIN {vector} v ON v.hash = k.hash AND v.embedder = :embedder
 WHERE k.hash IS NOT NULL GROUP BY 1
"""
_OF_SOURCES: Final = {"key": "c.source", "pages": "content c", "content": "c.no"}
_OF_PAGE: Final = {
    "key": "r.no",
    "pages": "(SELECT no, content FROM record WHERE no = :no) r",
    "content": "r.content",
}


class VectorCounts(NamedTuple):
    """The vectors of different chunks."""

    embedder: str
    model: str
    chunks: int
    embedded: int
    refused: int  #: their text has no meaning for the model
    indexed: bool = True  #: whether the index has vectors of this embedder

    @property
    def owed(self) -> int:
        """Chunks that are without a vector until a later run."""
        return self.chunks - self.embedded - self.refused

    def as_data(self) -> dict[str, Any]:
        """Return them as JSON."""
        return {**self._asdict(), "owed": self.owed}


def reported_vectors_by_source(connection: Connection) -> dict[int, VectorCounts]:
    """Return the counts of sources, by their numbers; empty where no embedder was ever used."""
    return _counts(connection, _OF_SOURCES, {})


def reported_vectors_of_page(connection: Connection, no: int) -> VectorCounts | None:
    """Return the counts of the record with a number; None: no embedder, or no text."""
    return _counts(connection, _OF_PAGE, {"no": no}).get(no)


def vector_counts_text(counts: VectorCounts) -> str:
    """Return the counts in words.

    >>> vector_counts_text(VectorCounts("local", "m", 9, 6, 1))
    '6 of 9 chunks (local, m), 1 refused, 2 owed'
    >>> "not in the index" in vector_counts_text(VectorCounts("local", "m", 9, 9, 0, False))
    True
    """
    text = f"{counts.embedded:,} of {report_noun(counts.chunks, 'chunk')}"
    text += f" ({counts.embedder}, {counts.model})"
    more = ((counts.refused, "refused"), (counts.owed, "owed"))
    text += "".join(f", {number:,} {word}" for number, word in more if number)
    if not counts.indexed:
        text += f"; not in the index: {program_name()} reindex --from-registry"
    return text


def _counts(
    connection: Connection, parts: dict[str, str], names: dict[str, int]
) -> dict[int, VectorCounts]:
    embedder: Any = connection.execute(_EMBEDDER).fetchone()
    if embedder is None:
        return {}
    number, *facts, dimension = embedder
    tables = {"vector": vector_table(connection), "chunks": remote_chunk_table(connection)}
    statement = _COUNTS.format(**tables, **parts)
    rows = connection.execute(statement, names | {"embedder": number}).fetchall()
    indexed = stored_choices(connection).get(INDEXED_EMBEDDER)
    is_there = not has_remote_chunk_rows(connection) or indexed == json.dumps([*facts, dimension])
    return {key: VectorCounts(*facts, *counts)._replace(indexed=is_there) for key, *counts in rows}

"""The embedded index, in the registry's own database (ADR 1)."""

from __future__ import annotations

from collections.abc import Sequence

from smartcrawl.index.embedded import finding, postgres, sqlite
from smartcrawl.index.embedded.vectors import QueryMeaning
from smartcrawl.index.hits import Answer
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.index_protocols import Sink


def embedded_index(connection: Connection) -> Sink:
    """Return the index that writes over a connection of the registry, in its transaction."""
    if connection.dialect == "postgres":
        return postgres.PostgresIndex(connection)
    return sqlite.EmbeddedIndex(connection)


def search_embedded_index(
    connection: Connection,
    query: str,
    *,
    sources: Sequence[str] = (),
    limit: int = 10,
    offset: int = 0,
    marks: tuple[str, str] = ("[", "]"),
    language: str = "",
    meaning: QueryMeaning | None = None,
) -> Answer:
    """Return the pages that answer ``query``, best first; ``sources`` empty means all.

    ``meaning`` finds the vector of a query, where meaning counts, too.
    """
    matching = postgres.STEMS if connection.dialect == "postgres" else sqlite.FTS5
    return finding.search_index_tables(
        connection,
        matching,
        query,
        sources=sources,
        limit=limit,
        offset=offset,
        marks=marks,
        content_language=language,
        meaning=meaning,
    )

"""The embedded index, in the registry's own database (design.md 7)."""

from __future__ import annotations

from collections.abc import Sequence

from smartcrawl.index.embedded import postgres, sqlite
from smartcrawl.index.embedded.sqlite import Hit
from smartcrawl.model.ports import Connection, Sink


def embedded_index(connection: Connection) -> Sink:
    """Return the index that writes over a connection of the registry, in its transaction."""
    if connection.dialect == "postgres":
        return postgres.PostgresIndex(connection)
    return sqlite.EmbeddedIndex(connection)


def search(
    connection: Connection,
    query: str,
    *,
    sources: Sequence[str] = (),
    limit: int = 10,
    marks: tuple[str, str] = ("[", "]"),
) -> list[Hit]:
    """Return the pages that answer ``query``, best first (``sqlite.search``)."""
    find = postgres.search if connection.dialect == "postgres" else sqlite.search
    return find(connection, query, sources=sources, limit=limit, marks=marks)

"""The table of the vectors of chunks."""

from __future__ import annotations

from smartcrawl.registry.connection import Connection


def vector_table(connection: Connection) -> str:
    """Return its name.

    In PostgreSQL it cannot be ``vector``: that is a type of the extension (ADR 75).
    """
    return "chunk_vector" if connection.dialect == "postgres" else "vector"

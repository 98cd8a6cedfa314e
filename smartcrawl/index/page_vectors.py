"""The vectors that the documents of a remote index get, out of the registry (ADR 76)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from smartcrawl.index.embedded.vectors import index_vector_of_row
from smartcrawl.model.documents import Chunk
from smartcrawl.model.index_pages import EmbedderKey, IndexedPage
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.pack import numbers_for_sql
from smartcrawl.registry.vector_table import vector_table

_NO = "SELECT no FROM embedder WHERE name = ? AND model = ? AND dimension = ?"
_VECTORS = """
SELECT hash, {numbers} FROM {vector}
 WHERE embedder = ? AND vector IS NOT NULL AND hash IN carray(?)
"""
_WITH_ONE = """
SELECT k.content, k.hash FROM remote_chunk k JOIN {vector} v ON v.hash = k.hash
 WHERE v.embedder = ? AND v.vector IS NOT NULL AND k.content IN carray(?)
"""
_EMPTY: Final = (Chunk((), ""),)  #: the chunk of a page without text, for its title


@dataclass(frozen=True, slots=True)
class PageVectors:
    """The vectors of one embedder."""

    #: Whose vectors the index has; None: it has no field for them, and only the registry has any.
    embedder: EmbedderKey | None

    def number(self, connection: Connection) -> int | None:
        """Return embedder.no; None: the registry has no vector of it, or there is no field."""
        if self.embedder is None:
            return None
        number: int | None = connection.execute(_NO, self.embedder).get
        return number

    def of_chunks(self, connection: Connection, digests: Collection[bytes]) -> dict[bytes, bytes]:
        """Return the vectors of some chunks, by their digests; those that have none are left out.

        Vectors of another embedder never count.
        """
        number = self.number(connection)
        if number is None or not digests:
            return {}
        numbers = "vector::real[]" if connection.dialect == "postgres" else "vector"
        statement = _VECTORS.format(vector=vector_table(connection), numbers=numbers)
        rows: Any = connection.execute(statement, (number, Many(sorted(digests)))).fetchall()
        return {bytes(digest): index_vector_of_row(vector) for digest, vector in rows}

    def chunks_with_one(
        self, connection: Connection, contents: Collection[int]
    ) -> dict[int, set[bytes]]:
        """Return the digests of the chunks that have a vector, by content.no."""
        found: defaultdict[int, set[bytes]] = defaultdict(set)
        number = self.number(connection)
        if number is not None:
            statement = _WITH_ONE.format(vector=vector_table(connection))
            rows: Any = connection.execute(statement, (number, numbers_for_sql(contents)))
            for content, digest in rows.fetchall():
                found[content].add(bytes(digest))
        return found


def index_chunk_digests(title: str, chunks: Sequence[Chunk]) -> list[bytes]:
    """Return the digests of the chunks of a page, of which there is at least one."""
    return [chunk.digest(title) for chunk in chunks or _EMPTY]


def index_vector_count(page: IndexedPage) -> int:
    """Return how many chunks of a page have a vector."""
    if not page.vectors:
        return 0
    return sum(digest in page.vectors for digest in index_chunk_digests(page.title, page.chunks))

"""Debts of chunks in an index elsewhere: their texts come out of stored documents (ADR 76).

A page whose document has other vectors than the registry is written again, so that a chunk and its
vector change together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from smartcrawl.index.embedded.vectors import OwedText, embedded_text, index_vector_hashes
from smartcrawl.index.writing import PageVectors, RemoteIndexing, index_chunk_digests
from smartcrawl.model.documents import Chunk
from smartcrawl.registry.chunks import (
    store_remote_chunk_rows,
    update_remote_chunk_rows,
    vector_table,
)
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.database.transactions import transaction
from smartcrawl.registry.pack import numbers_for_sql

_AT_ONCE: Final = 50  #: documents that are read, or written, together
_DOCUMENTS = "SELECT no, content_hash, title, document FROM content WHERE no IN carray(?)"
#: Contents of pages that were stored without an embedder.
_UNKNOWN = """
SELECT c.no FROM content c
 WHERE c.no > ? AND NOT EXISTS (SELECT 1 FROM remote_chunk k WHERE k.content = c.no)
   AND EXISTS (SELECT 1 FROM record r WHERE r.content = c.no)
 ORDER BY c.no LIMIT ?
"""
_OWED = """
SELECT DISTINCT k.content FROM remote_chunk k
 WHERE k.content > :after
   AND NOT EXISTS (SELECT 1 FROM {vector} v WHERE v.hash = k.hash AND v.embedder = :embedder)
   AND (:every OR k.content IN (SELECT c.no FROM content c JOIN source o ON o.no = c.source
                                 WHERE o.name IN carray(:sources)))
 ORDER BY k.content LIMIT :most
"""
_LACKING = """
SELECT r.no FROM record r JOIN source o ON o.no = r.source
  LEFT JOIN (SELECT k.content, count(*) AS most
               FROM remote_chunk k JOIN {vector} v ON v.hash = k.hash
              WHERE v.embedder = :embedder AND v.vector IS NOT NULL GROUP BY k.content) h
         ON h.content = r.content
 WHERE r.entry > 0 AND r.content IS NOT NULL AND r.sunk_vectors <> coalesce(h.most, 0)
   AND (:every OR o.name IN carray(:sources)) AND r.no NOT IN (SELECT no FROM dead_letter)
 ORDER BY r.no
"""


class _Cut(NamedTuple):
    """A stored content, cut into chunks."""

    content: int
    mark: bytes  #: content_hash
    title: str
    chunks: list[Chunk]
    digests: list[bytes]


class RemoteDebts:
    """The debts of a registry whose index is elsewhere (``debts.DebtsElsewhere``).

    The caller has the leases of the sources whose pages are written, or is their run.
    """

    def __init__(self, indexing: RemoteIndexing) -> None:
        self._indexing = indexing
        self._vectors = indexing.vectors or PageVectors(None)

    def searched(self, connection: Connection) -> int | None:
        """Return the embedder whose vectors the documents have, or None."""
        return self._vectors.number(connection)

    def count_unknown(self, connection: Connection, embedder: int) -> int:
        """Return how many chunks without a vector ``note_chunks`` would note; write nothing."""
        after, found = 0, set[bytes]()
        while some := self._unknown(connection, after):
            for cut in self._cut(connection, some):
                found.update(cut.digests)
            after = some[-1]
        return len(found - index_vector_hashes(connection, embedder, sorted(found)))

    def note_chunks(self, connection: Connection, is_ending: Callable[[], bool]) -> bool:
        """Note the chunks of contents that were stored without an embedder; whether of all."""
        after = 0
        while not is_ending():
            with transaction(connection):
                some = self._unknown(connection, after)
                store_remote_chunk_rows(
                    connection, {cut.content: cut.digests for cut in self._cut(connection, some)}
                )
            if not some:
                return True
            after = some[-1]
        return False

    def owed_texts(
        self, connection: Connection, embedder: int, sources: Sequence[str], most: int
    ) -> Iterator[list[OwedText]]:
        """Yield chunks without a vector, at most ``most`` at once; ``sources`` empty means all.

        A content that is cut in another way by now, such as after a new CHUNK_SIZE, gets the
        chunks of today.
        """
        names = {
            "embedder": embedder,
            "every": not sources,
            "sources": Many(list(sources)),
            "most": _AT_ONCE,
        }
        after = 0
        statement = _OWED.format(vector=vector_table(connection))
        while rows := connection.execute(statement, names | {"after": after}).fetchall():
            some = [no for (no,) in rows]
            cuts = list(self._cut(connection, some))
            with transaction(connection):
                update_remote_chunk_rows(
                    connection, {one.content: (one.mark, one.digests) for one in cuts}
                )
            texts = {
                digest: embedded_text(cut.title, chunk.path, chunk.text)
                for cut in cuts
                for digest, chunk in zip(cut.digests, cut.chunks, strict=True)
            }
            known = index_vector_hashes(connection, embedder, list(texts))
            owed = [OwedText(one, text) for one, text in texts.items() if one not in known]
            for start in range(0, len(owed), most):
                yield owed[start : start + most]
            after = some[-1]

    def lacking(self, connection: Connection, sources: Sequence[str] = ()) -> list[int]:
        """Return the pages whose documents lack vectors that the registry has, or have too many.

        Those that the index refused are left out.
        """
        number = self.searched(connection)
        if number is None:
            return []
        names = {"embedder": number, "every": not sources, "sources": Many(list(sources))}
        statement = _LACKING.format(vector=vector_table(connection))
        return [no for (no,) in connection.execute(statement, names).fetchall()]

    def write(self, connection: Connection, sources: Sequence[str], now: int) -> None:
        """Write the pages whose documents lack vectors, and make them searchable.

        Raises:
            SinkError: the index takes nothing any more.
        """
        pages = self.lacking(connection, sources)
        for start in range(0, len(pages), _AT_ONCE):
            self._indexing.rewrite(connection, pages[start : start + _AT_ONCE], now=now)
        if pages:
            self._indexing.seal(connection)

    def _unknown(self, connection: Connection, after: int) -> list[int]:
        return [no for (no,) in connection.execute(_UNKNOWN, (after, _AT_ONCE)).fetchall()]

    def _cut(self, connection: Connection, contents: Iterable[int]) -> Iterator[_Cut]:
        rows: Any = connection.execute(_DOCUMENTS, (numbers_for_sql(contents),)).fetchall()
        for no, mark, title, packed in rows:
            chunks = self._indexing.chunked(packed) or [Chunk((), "")]
            yield _Cut(no, bytes(mark), title, chunks, index_chunk_digests(title, chunks))


def remote_index_debts(indexing: object) -> RemoteDebts | None:
    """Return the debts of an index elsewhere; None: the index is beside the registry."""
    return RemoteDebts(indexing) if isinstance(indexing, RemoteIndexing) else None

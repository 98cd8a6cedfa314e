"""Debts: chunks without a vector, embedded out of the registry without a request to any source.

Texts of chunks in an index elsewhere come out of stored documents (ADR 76). A page whose document
has other vectors than the registry is written again, so that a chunk and its vector change
together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from smartcrawl.index.embedded.vectors import (
    OwedText,
    check_answering_embedder,
    count_index_texts_to_embed,
    drop_unused_index_vectors,
    embedded_text,
    index_page_of_chunk,
    index_texts_to_embed,
    index_vector_hashes,
    lock_index_embedders,
    note_index_embedder,
    note_whole_index_embedder,
    put_index_vectors,
    unanswered_index_hashes,
)
from smartcrawl.index.embedding.ports import Embedder, RefusedText
from smartcrawl.index.writing import PageVectors, RemoteIndexing, index_chunk_digests
from smartcrawl.model.documents import Chunk
from smartcrawl.model.exceptions import EmbedderError
from smartcrawl.registry.chunks import (
    owe_refused_chunks,
    store_remote_chunk_rows,
    update_remote_chunk_rows,
    vector_table,
)
from smartcrawl.registry.connection import Connection, Many, transaction
from smartcrawl.registry.pack import numbers_for_sql

_SHOWN: Final = 5  #: texts without a vector whose pages and reasons are shown


@dataclass(slots=True)
class PaidDebts:
    """Results for the chunks that had no vector."""

    embedded: int = 0
    refused: int = 0  #: texts that can have none
    unanswered: int = 0  #: texts whose answer was wrong; they are owed
    owed: int = 0  #: different chunks that still have none
    reasons: list[tuple[str, str]] = field(default_factory=list)  #: the first: page, why no vector
    dropped: int = 0  #: vectors that no chunk used any more
    error: EmbedderError | None = None  #: why some are owed


def pay_embedded_index_debts(
    connection: Connection,
    embedder: Embedder,
    *,
    sources: Sequence[str] = (),
    now: int,
    ttl: int,
    report: Callable[[int], None],
    is_ending: Callable[[], bool] = lambda: False,
    is_off: bool = False,
    elsewhere: RemoteDebts | None = None,
    unanswered: Collection[bytes] = (),
    refused_too: bool = False,
) -> PaidDebts:
    """Embed the chunks that have no vector; ``sources`` empty means all.

    When none is left in any source, searches use the vectors of this embedder, and those of former
    ones are unused. Vectors that are unused for ``ttl`` seconds are dropped, even while some are
    owed. ``report`` is called with the number of chunks so far. An embedder that does not answer
    leaves the rest for a later call; so does a wrong answer with its text, which is asked once.
    With ``is_off`` it is not asked at all. ``elsewhere``: the debts of an index that is elsewhere;
    its documents are written, too. ``unanswered``: hashes of chunks that are not asked for.
    With ``refused_too`` texts that were refused before are asked for again.

    Raises:
        SinkError: the index elsewhere takes nothing any more; the registry has the vectors.
    """
    paid, is_known, searched, wrong = PaidDebts(), True, None, set(unanswered)
    is_lacking = False
    number = _noted(connection, embedder, sources if refused_too else None)
    if elsewhere is not None:
        is_known = elsewhere.note_chunks(connection, is_ending)
    owed_of = index_texts_to_embed if elsewhere is None else elsewhere.owed_texts
    try:
        for owed_texts in owed_of(connection, number, sources, embedder.texts_at_once):
            if is_off or is_ending():
                break
            if texts := [owed for owed in owed_texts if owed.hash not in wrong]:
                wrong |= _pay_texts(connection, embedder, texts, paid)
            report(paid.embedded + paid.refused)
    except EmbedderError as error:
        paid.error = error
    if elsewhere is not None:
        elsewhere.write(connection, sources, now)
    with transaction(connection):
        lock_index_embedders(connection)
        number = note_index_embedder(connection, embedder)
        if elsewhere is not None:
            searched = elsewhere.searched(connection)
            is_lacking = searched == number and bool(elsewhere.lacking(connection))
        paid.owed = count_index_texts_to_embed(connection, number, sources)
        is_paid = not paid.owed and not (sources and count_index_texts_to_embed(connection, number))
        if is_paid and is_known and not is_lacking:
            note_whole_index_embedder(connection, number, now)
        if is_known and not is_ending():
            paid.dropped = drop_unused_index_vectors(
                connection, number, now=now, ttl=ttl, searched=searched
            )
    return paid


def _noted(connection: Connection, embedder: Embedder, asked_again: Sequence[str] | None) -> int:
    """Return the number of an embedder; texts of some sources that were refused become debts."""
    with transaction(connection):
        number = note_index_embedder(connection, embedder)
        if asked_again is not None:
            owe_refused_chunks(connection, number, asked_again)
    return number


def _pay_texts(
    connection: Connection, embedder: Embedder, texts: Sequence[OwedText], paid: PaidDebts
) -> set[bytes]:
    """Embed some texts; return the hashes of those whose answer was wrong."""
    found = embedder.embed([owed.text for owed in texts])
    check_answering_embedder(connection, embedder)
    pairs = list(zip((owed.hash for owed in texts), found, strict=True))
    with transaction(connection):
        number = note_index_embedder(connection, embedder)  # another process may drop it
        put_index_vectors(connection, number, pairs)
    wrong = unanswered_index_hashes(pairs)
    without = 0
    for hash_, one in pairs:
        if isinstance(one, RefusedText):
            without += 1
            if len(paid.reasons) < _SHOWN:
                paid.reasons.append((index_page_of_chunk(connection, hash_), one.reason))
    paid.unanswered += len(wrong)
    paid.refused += without - len(wrong)
    paid.embedded += len(found) - without
    return wrong


_AT_ONCE: Final = 50  #: documents that are read, or written, together
_DOCUMENTS = "SELECT no, content_hash, title, marked, document FROM content WHERE no IN carray(?)"
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
    """The debts of a registry whose index is elsewhere.

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
        for no, mark, title, marked, packed in rows:
            chunks = self._indexing.chunked(packed, marked) or [Chunk((), "")]
            yield _Cut(no, bytes(mark), title, chunks, index_chunk_digests(title, chunks))


def remote_index_debts(indexing: object) -> RemoteDebts | None:
    """Return the debts of an index elsewhere; None: the index is beside the registry."""
    return RemoteDebts(indexing) if isinstance(indexing, RemoteIndexing) else None

"""Vectors of chunks in a registry: what is owed, what is stored, and what is dropped.

A vector belongs to the digest of a chunk, not to a page: equal chunks of all sources have one, and
a chunk that moves keeps it. What has none is a *debt*, and nothing else records it.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple, Protocol

from smartcrawl.index.embedding.ports import Embedder, RefusedText, Vector
from smartcrawl.model.documents import EmbedderKey
from smartcrawl.model.exceptions import EmbedderError
from smartcrawl.model.program import program_name
from smartcrawl.model.redaction import redacted_line
from smartcrawl.registry.chunks import (
    RefusedChunks,
    refused_chunk_counts,
    refused_reasons_text,
    remote_chunk_table,
    vector_table,
)
from smartcrawl.registry.connection import Connection, Many, transaction
from smartcrawl.registry.database.databases import Database
from smartcrawl.registry.database.sqlite import SqliteDatabase
from smartcrawl.rules.vectors import Answering, has_same_model

_MOST_OWED: Final = 10  #: a hybrid search counts words alone if more than 1/10 is owed
_NOTE = """
INSERT INTO embedder (name, model, dimension) VALUES (?, ?, ?)
ON CONFLICT (name, model, dimension) DO NOTHING
"""
_NO = "SELECT no FROM embedder WHERE name = ? AND model = ? AND dimension = ?"
_LOCATE = "UPDATE embedder SET location = ?1 WHERE no = ?2 AND location IS DISTINCT FROM ?1"
_ANSWERED = "UPDATE embedder SET answered = ?1 WHERE no = ?2 AND answered IS NULL"
_FORGET_VECTORS = "DELETE FROM {vector} WHERE embedder = ?"
_FORGET_MODEL = "UPDATE embedder SET answered = NULL, location = NULL, whole_at = NULL WHERE no = ?"
#: Documents with vectors that are forgotten are written again.
_FORGET_SUNK = "UPDATE record SET sunk_vectors = -1 WHERE sunk_vectors > 0"
_STORED = "SELECT no, name, model, dimension, location, answered FROM embedder WHERE no = ?"
_WHOLE = """
SELECT no, name, model, dimension, location, answered FROM embedder WHERE whole_at IS NOT NULL
 ORDER BY whole_at DESC, no DESC
"""
_IS_OWED = """
k.hash IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM {vector} v WHERE v.hash = k.hash AND v.embedder = :embedder)
"""
_OF_SOURCES = """
AND k.content IN (SELECT c.no FROM content c JOIN source o ON o.no = c.source
                   WHERE o.name IN carray(:sources))
"""
_OWED = """
SELECT k.hash, min(k.title), min(k.headings), min(k.text) FROM chunk k
 WHERE k.hash > :after AND {owed} GROUP BY k.hash ORDER BY k.hash LIMIT :most
"""
_COUNT = "SELECT count(DISTINCT k.hash) FROM {chunks} k WHERE {owed}"
#: Of different chunks: all of them, and those without a row.
_LACKS = """
SELECT count(*), count(*) FILTER (WHERE NOT d.has_row) FROM (
    SELECT DISTINCT k.hash,
           EXISTS (SELECT 1 FROM {vector} v
                    WHERE v.hash = k.hash AND v.embedder = :embedder) AS has_row
      FROM {chunks} k WHERE k.hash IS NOT NULL {of_sources}
) AS d
"""
_KNOWN = "SELECT hash FROM {vector} WHERE embedder = ? AND hash IN carray(?)"
#: No vector without its chunk.
_PUT = """
INSERT INTO vector (hash, embedder, vector, refused)
SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM {chunks} WHERE hash = ?1)
ON CONFLICT (hash, embedder) DO NOTHING
"""
#: The same in PostgreSQL, of many rows.
_PUT_MANY = """
INSERT INTO chunk_vector (hash, embedder, vector, refused)
SELECT t.hash, {embedder}, t.vector::halfvec, t.refused
  FROM unnest(?::bytea[], ?::text[], ?::text[]) AS t (hash, vector, refused)
 WHERE EXISTS (SELECT 1 FROM {chunks} k WHERE k.hash = t.hash)
 ORDER BY t.hash
ON CONFLICT (hash, embedder) DO NOTHING
"""
_PAGE = """
SELECT min(r.url) FROM {chunks} k JOIN record r ON r.content = k.content WHERE k.hash = ?
"""
_IS_WHOLE = "UPDATE embedder SET whole_at = ? WHERE no = ?"


class StoredEmbedder(NamedTuple):
    """An embedder that made vectors here."""

    no: int
    name: str
    model: str
    dimension: int
    location: str | None  #: folder or address of the model; None: not needed, or not known
    answered: str | None = None  #: the name of the model that a server answered with

    @property
    def key(self) -> EmbedderKey:
        """The key of its vectors."""
        return EmbedderKey(self.name, self.model, self.dimension)


class OwedText(NamedTuple):
    """A chunk without a vector."""

    hash: bytes
    text: str  #: title, headings and text, which are embedded


class VectorLacks(NamedTuple):
    """Different chunks that have no vector of an embedder."""

    chunks: int  #: all
    owed: int  #: those without a vector that are not refused either
    refused: Sequence[RefusedChunks] = ()

    @property
    def are_many(self) -> bool:
        """Whether a search by meaning would miss too much: more than a tenth is owed."""
        return self.owed * _MOST_OWED > self.chunks

    def __str__(self) -> str:
        """Return them in words; empty: there are none.

        >>> str(VectorLacks(40, 3))
        '3 of 40 chunks have no vector yet'
        >>> str(VectorLacks(40, 3, [RefusedChunks("it is empty", 1)]))
        '3 of 40 chunks have no vector yet; 1 of 40 chunks is refused by the embedder (it is empty)'
        """
        texts = []
        if self.owed:
            verb = "has" if self.owed == 1 else "have"
            texts.append(f"{self._of(self.owed)} {verb} no vector yet")
        if number := sum(one.number for one in self.refused):
            why = refused_reasons_text([one.reason for one in self.refused])
            verb = "is" if number == 1 else "are"
            texts.append(f"{self._of(number)} {verb} refused by the embedder ({why})")
        return "; ".join(texts)

    def _of(self, number: int) -> str:
        return f"{number:,} of {self.chunks:,} chunk{'s' * (self.chunks != 1)}"


def prepare_index_for_vectors(database: Database) -> None:
    """Make sure that a registry can store vectors, before anything is fetched for it.

    Raises:
        SettingError: as of ``prepare_vectors``.
        RegistryError: the registry cannot be opened.
    """
    if isinstance(database, SqliteDatabase):  # it has what they need from its schema
        return
    with database.translated("write"), closing(database.open()) as connection:

        def prepare() -> None:
            with transaction(connection):
                prepare_vectors(connection)

        database.retried(prepare)


def prepare_vectors(connection: Connection) -> None:
    """Make sure that the registry can store vectors. The caller is in a transaction.

    Raises:
        SettingError: the database lacks what they need; the message has the remedy.
    """
    if connection.dialect == "postgres":
        from smartcrawl.registry.database import vector_column  # noqa: PLC0415  # its client

        vector_column.prepare_vector_column(connection)


def lock_index_embedders(connection: Connection, *, shared: bool = False) -> None:
    """Let no other transaction store vectors, or with ``shared`` drop embedders, until this ends.

    In SQLite a transaction is alone anyway.
    """
    if connection.dialect == "postgres":
        from smartcrawl.registry.database import vector_column  # noqa: PLC0415  # its client

        vector_column.lock_vector_tables(connection, shared=shared)


def note_index_embedder(connection: Connection, embedder: Embedder) -> int:
    """Return the number of an embedder; a new one gets the next. The caller is in a transaction.

    Its folder or address is stored with it, so that searches find the model without a setting.

    Raises:
        SettingError: as of ``prepare_vectors``, for a new one.
    """
    if (number := index_embedder_number(connection, embedder)) is not None:
        lock_index_embedders(connection, shared=True)
        number = index_embedder_number(connection, embedder)  # it may have been dropped meanwhile
    if number is None:
        number = _noted_embedder(connection, embedder)
    stored = _stored_embedder(connection, number)
    if (
        embedder.answered_by
        or stored.answered
        or stored.location is None
        or not _is_server(embedder)
    ):
        connection.execute(_LOCATE, (embedder.location, number)).fetchall()
    if embedder.answered_by:
        connection.execute(_ANSWERED, (embedder.answered_by, number)).fetchall()
    return number


def check_answering_embedder(connection: Connection, embedder: Embedder) -> None:
    """Check that an embedder which has just answered has the model of the stored vectors.

    Raises:
        EmbedderError: it has another one, and is to be asked nothing more.
    """
    number = index_embedder_number(connection, embedder) if _is_server(embedder) else None
    if number is not None:
        stored = _stored_embedder(connection, number)
        now = Answering(embedder.answered_by, embedder.location)
        check_answering_model(stored, now)


def check_answering_model(stored: StoredEmbedder, now: Answering) -> None:
    """Check that a server has the model that made the stored vectors.

    Raises:
        EmbedderError: it has another one.
    """
    if not has_same_model(Answering(stored.answered, stored.location), now):
        raise EmbedderError(
            f"the vectors are of {_shown_model(stored.answered, stored.location)}, with "
            f"{stored.dimension:,} numbers each, and now "
            f"{_shown_model(now.model, now.url)} answers: vectors of two models cannot be "
            "compared, so it gets no more requests. Switch the server back to the old "
            f"model, or run {program_name()} embed --anew, which makes all vectors anew",
            lasting=True,
        )


def _shown_model(model: str | None, url: str | None) -> str:
    name = f"the model {redacted_line(model)!r}" if model else "a model without a name"
    return f"{name} at {redacted_line(url)}" if url else name


def forget_index_vectors(connection: Connection, embedder: int) -> None:
    """Drop all vectors of an embedder: every chunk is owed. The caller is in a transaction.

    Until they are made anew, only words count in searches.
    """
    connection.execute(_FORGET_VECTORS.format(vector=vector_table(connection)), (embedder,))
    connection.execute(_FORGET_MODEL, (embedder,))
    connection.execute(_FORGET_SUNK)


def _stored_embedder(connection: Connection, number: int) -> StoredEmbedder:
    row: Any = connection.execute(_STORED, (number,)).fetchone()
    return StoredEmbedder(*row)


def _is_server(embedder: Embedder) -> bool:
    return embedder.destination is not None


def _noted_embedder(connection: Connection, embedder: Embedder) -> int:
    lock_index_embedders(connection)
    prepare_vectors(connection)
    connection.execute(_NOTE, (embedder.name, embedder.model, embedder.dimension))
    is_new = connection.changes() > 0
    number = index_embedder_number(connection, embedder)
    assert number is not None, "it was noted"
    if is_new and connection.dialect == "postgres":
        from smartcrawl.registry.database import vector_column  # noqa: PLC0415  # its client

        vector_column.create_vector_index(connection, number, embedder.dimension)
    return number


def index_embedder_number(connection: Connection, embedder: Embedder) -> int | None:
    """Return the number of an embedder, or None: it has made no vector here."""
    number: int | None = connection.execute(
        _NO, (embedder.name, embedder.model, embedder.dimension)
    ).get
    return number


def whole_index_embedders(connection: Connection) -> list[StoredEmbedder]:
    """Return the embedders that had a vector for every chunk, the one that had last first."""
    return [StoredEmbedder(*row) for row in connection.execute(_WHOLE).fetchall()]


def embedded_text(title: str, headings: str, text: str) -> str:
    """Return the text to embed of a chunk.

    >>> embedded_text("Guide", "", "Some words.")
    'Guide\\nSome words.'
    """
    return "\n".join(filter(None, (title, headings, text)))


def index_texts_to_embed(
    connection: Connection, embedder: int, sources: Sequence[str], most: int
) -> Iterator[list[OwedText]]:
    """Yield chunks without a vector, ``most`` at once; ``sources`` empty means all."""
    after = b""
    names = {"embedder": embedder, "most": most, "sources": Many(list(sources))}
    statement = _OWED.format(owed=_owed(connection, sources))
    while rows := connection.execute(statement, names | {"after": after}).fetchall():
        yield [OwedText(bytes(row[0]), embedded_text(*row[1:])) for row in rows]
        after = bytes(rows[-1][0])


def count_index_texts_to_embed(
    connection: Connection, embedder: int, sources: Sequence[str] = ()
) -> int:
    """Return how many different chunks have no vector; ``sources`` empty means all."""
    names = {"embedder": embedder, "sources": Many(list(sources))}
    owed = _owed(connection, sources)
    statement = _COUNT.format(owed=owed, chunks=remote_chunk_table(connection))
    return int(connection.execute(statement, names).get)


def index_vector_lacks(
    connection: Connection, embedder: int, sources: Sequence[str] = ()
) -> VectorLacks:
    """Return the chunks that have no vector of an embedder; ``sources`` empty means all."""
    names = {"embedder": embedder, "sources": Many(list(sources))}
    statement = _LACKS.format(
        vector=vector_table(connection),
        chunks=remote_chunk_table(connection),
        of_sources=_OF_SOURCES if sources else "",
    )
    chunks, owed = connection.execute(statement, names).fetchall()[0]
    return VectorLacks(chunks, owed, refused_chunk_counts(connection, embedder, sources))


def _owed(connection: Connection, sources: Sequence[str]) -> str:
    is_owed = _IS_OWED.format(vector=vector_table(connection))
    return is_owed + (_OF_SOURCES if sources else "")


def index_vector_hashes(
    connection: Connection, embedder: int, hashes: Sequence[bytes]
) -> set[bytes]:
    """Return those hashes of chunks that have a vector, or are refused."""
    statement = _KNOWN.format(vector=vector_table(connection))
    rows: Any = connection.execute(statement, (embedder, Many(hashes)))
    return {bytes(row[0]) for row in rows}


def unanswered_index_hashes(
    found: Iterable[tuple[bytes, Vector | RefusedText]],
) -> set[bytes]:
    """Return the hashes of chunks whose answer was wrong: another answer may have a vector."""
    return {hash_ for hash_, one in found if isinstance(one, RefusedText) and not one.lasting}


def index_page_of_chunk(connection: Connection, hash_: bytes) -> str:
    """Return the address of a page with a chunk; empty: no page has it any more."""
    statement = _PAGE.format(chunks=remote_chunk_table(connection))
    return str(connection.execute(statement, (hash_,)).get or "")


def put_index_vectors(
    connection: Connection, embedder: int, found: Iterable[tuple[bytes, Vector | RefusedText]]
) -> None:
    """Store vectors, and refusals, by the hash of their chunk. The caller is in a transaction.

    Those of chunks that are not stored are left out, and so are refusals that do not last: these
    chunks stay owed.
    """
    rows = [
        (hash_, None, one.reason[:1024]) if isinstance(one, RefusedText) else (hash_, one, None)
        for hash_, one in found
        if not isinstance(one, RefusedText) or one.lasting
    ]
    chunks = remote_chunk_table(connection)
    if connection.dialect != "postgres":
        statement = _PUT.format(chunks=chunks)
        connection.executemany(statement, [(row[0], embedder, *row[1:]) for row in rows])
    elif rows:
        hashes, vectors, reasons = zip(*rows, strict=True)
        columns = (
            Many(hashes),
            Many([vector and index_halfvec_text(vector) for vector in vectors]),
            Many([reason and reason.replace("\0", " ") for reason in reasons]),
        )
        connection.execute(_PUT_MANY.format(embedder=embedder, chunks=chunks), columns)


def index_halfvec_text(vector: bytes) -> str:
    """Return a vector as PostgreSQL reads it.

    >>> import struct
    >>> index_halfvec_text(struct.pack("<3f", 1, -0.5, 0))
    '[1.0,-0.5,0.0]'
    """
    return f"[{','.join(map(repr, index_vector_numbers(vector)))}]"


def index_vector_numbers(vector: bytes) -> array[float]:
    """Return the numbers of a vector, whose bytes are float32, little-endian."""
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def index_vector_of_row(value: Any) -> bytes:
    """Return a vector that was read: of SQLite its bytes, of PostgreSQL its numbers.

    >>> index_vector_of_row([1.0, -0.5]) == index_vector_of_row(b"\\0\\0\\x80?\\0\\0\\0\\xbf")
    True
    """
    if not isinstance(value, list):
        return bytes(value)
    return index_vector_numbers(array("f", value).tobytes()).tobytes()


def note_whole_index_embedder(connection: Connection, embedder: int, now: int) -> None:
    """Note that every chunk has a vector: from now on searches use this embedder.

    It is noted anew each time. A former embedder that is used again then comes before later ones,
    which may lack vectors of pages that came meanwhile.
    """
    connection.execute(_IS_WHOLE, (now, embedder))


_HAS_VECTORS = "SELECT EXISTS (SELECT 1 FROM {vector})"
#: The embedder that was whole last, and those that are built: of no settings all may be.
_USED_EMBEDDERS = """
SELECT no FROM embedder
 WHERE no IN (:embedder, :searched) OR (:embedder = 0 AND whole_at IS NULL)
UNION
SELECT no FROM (SELECT no FROM embedder WHERE whole_at IS NOT NULL
                 ORDER BY whole_at DESC, no DESC LIMIT 1) AS last
"""
#: Vectors of chunks that are gone, and those of embedders that nothing uses.
_UNUSED: Final = """
(NOT embedder IN carray(:used)
    OR NOT EXISTS (SELECT 1 FROM {chunks} k WHERE k.hash = {vector}.hash))
"""
#: This and ``_DROP`` read an index of the vectors that are unused (vector_unused).
_USED_AGAIN = f"""
UPDATE {{vector}} SET unused_since = NULL WHERE unused_since IS NOT NULL AND NOT {_UNUSED}
"""
#: The digests of all vectors are read from their index, and a vector only where it is unused.
_UNUSED_NOW = """
UPDATE {vector} SET unused_since = :now
 WHERE unused_since IS NULL
   AND (hash, embedder) IN (
       SELECT v.hash, v.embedder FROM {vector} v
        WHERE NOT v.embedder IN carray(:used)
           OR NOT EXISTS (SELECT 1 FROM {chunks} k WHERE k.hash = v.hash))
"""
_DROP = "DELETE FROM {vector} WHERE unused_since <= :before"
_DROP_EMBEDDERS = """
DELETE FROM embedder
 WHERE NOT no IN carray(:used)
   AND NOT EXISTS (SELECT 1 FROM {vector} v WHERE v.embedder = embedder.no)
RETURNING no
"""


class ChunksElsewhere(Protocol):
    """Chunks that an index elsewhere has (``index.debts.RemoteDebts``)."""

    def note_chunks(self, connection: Connection, is_ending: Callable[[], bool]) -> bool:
        """Note the chunks of contents that were stored without an embedder; whether of all."""

    def searched(self, connection: Connection) -> int | None:
        """Return the embedder whose vectors the documents have, or None."""


def has_index_vectors(connection: Connection) -> bool:
    """Whether a registry has any vector."""
    return bool(connection.execute(_HAS_VECTORS.format(vector=vector_table(connection))).get)


def drop_index_leftovers(
    connection: Connection,
    *,
    now: int,
    ttl: int,
    is_ending: Callable[[], bool] = lambda: False,
    elsewhere: ChunksElsewhere | None = None,
) -> int:
    """Drop unused vectors where no embedder is set; return their number.

    ``elsewhere``: the chunks of an index that is elsewhere. While not all of them are known,
    nothing is dropped.
    """
    if elsewhere is not None and not elsewhere.note_chunks(connection, is_ending):
        return 0
    with transaction(connection):
        searched = None if elsewhere is None else elsewhere.searched(connection)
        return drop_unused_index_vectors(connection, None, now=now, ttl=ttl, searched=searched)


def drop_unused_index_vectors(
    connection: Connection, embedder: int | None, *, now: int, ttl: int, searched: int | None = None
) -> int:
    """Drop vectors that no chunk has used for ``ttl`` seconds; return their number.

    The undo of a removal finds them until then. Used are the vectors of ``embedder``, which may
    still be built, of the one that was whole last, by which searches go meanwhile, and of
    ``searched``, whose vectors an index elsewhere has. Without ``embedder`` those count, too, that
    have never been whole: another process may build them. The caller is in a transaction.
    """
    lock_index_embedders(connection)
    asked = {"embedder": embedder or 0, "searched": searched or 0}
    used = sorted(no for (no,) in connection.execute(_USED_EMBEDDERS, asked).fetchall())
    used_again, unused_now, drop, drop_embedders = (
        statement.format(vector=vector_table(connection), chunks=remote_chunk_table(connection))
        for statement in (_USED_AGAIN, _UNUSED_NOW, _DROP, _DROP_EMBEDDERS)
    )
    connection.execute(used_again, {"used": Many(used)})
    connection.execute(unused_now, {"used": Many(used), "now": now})
    connection.execute(drop, {"before": now - ttl})
    dropped = connection.changes()
    gone = connection.execute(drop_embedders, {"used": Many(used)}).fetchall()
    if gone and connection.dialect == "postgres":
        from smartcrawl.registry.database import vector_column  # noqa: PLC0415  # its client

        for (no,) in gone:
            vector_column.drop_registry_vector_index(connection, no)
    return dropped

"""Vectors of chunks in a registry in SQLite, and the pages that are nearest to a query.

A vector belongs to the digest of a chunk, not to a page: equal chunks of all sources have one, and
a chunk that moves keeps it. What has none is a *debt*, and nothing else records it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from smartcrawl.index.embedded.conditions import NO_CONDITION
from smartcrawl.index.embedding.ports import Embedder, RefusedText, Vector
from smartcrawl.model.exceptions import SinkError
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.remote_chunks import chunk_table

_NOTE = """
INSERT INTO embedder (name, model, dimension) VALUES (?, ?, ?)
ON CONFLICT (name, model, dimension) DO NOTHING
"""
_NO = "SELECT no FROM embedder WHERE name = ? AND model = ? AND dimension = ?"
_WHOLE = """
SELECT no, name, model, dimension FROM embedder WHERE whole_at IS NOT NULL
 ORDER BY whole_at DESC, no DESC
"""
_IS_OWED = """
k.hash IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM vector v WHERE v.hash = k.hash AND v.embedder = :embedder)
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
_KNOWN = "SELECT hash FROM vector WHERE embedder = ? AND hash IN carray(?)"
#: No vector without its chunk.
_PUT = """
INSERT INTO vector (hash, embedder, vector, refused)
SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM {chunks} WHERE hash = ?1)
ON CONFLICT (hash, embedder) DO NOTHING
"""
_IS_WHOLE = "UPDATE embedder SET whole_at = ? WHERE no = ?"
#: Vectors of chunks that are gone, and those of embedders before the one that is whole.
_UNUSED = """
embedder NOT IN (:embedder, :searched)
    OR NOT EXISTS (SELECT 1 FROM {chunks} k WHERE k.hash = vector.hash)
"""
_USED_AGAIN = f"""
UPDATE vector SET unused_since = NULL WHERE unused_since IS NOT NULL AND NOT ({_UNUSED})
"""
_UNUSED_NOW = f"UPDATE vector SET unused_since = :now WHERE unused_since IS NULL AND ({_UNUSED})"
_DROP = "DELETE FROM vector WHERE unused_since <= :before"
_DROP_EMBEDDERS = """
DELETE FROM embedder
 WHERE no NOT IN (:embedder, :searched) AND no NOT IN (SELECT embedder FROM vector)
"""
#: Distances are those of vectors of length 1: 2 - 2 cos.
_NEAREST = """
WITH near AS MATERIALIZED (
    SELECT v.hash, vec_distance_L2(v.vector, :vector) AS distance FROM vector v
     WHERE v.embedder = :embedder AND v.vector IS NOT NULL {filter}
     ORDER BY distance LIMIT :most
)
SELECT k.content, min(n.distance), k.no
  FROM near n JOIN chunk k ON k.hash = n.hash
  JOIN content c ON c.no = k.content JOIN content p ON p.no = k.content
 WHERE {conditions} GROUP BY k.content ORDER BY 2, k.content LIMIT :pool
"""
_FILTER = """
AND EXISTS (SELECT 1 FROM chunk k JOIN content c ON c.no = k.content
              JOIN chunk p ON p.no = k.no WHERE k.hash = v.hash AND {conditions})
"""
_SIZE = "SELECT count(*) FROM vector WHERE embedder = ?"
_PER_PAGE: Final = 10  #: chunks that are looked at for each page that is wanted, at first
_MORE: Final = 8  #: times as many are looked at next


class StoredEmbedder(NamedTuple):
    """An embedder that made vectors here."""

    no: int
    name: str
    model: str
    dimension: int


class OwedText(NamedTuple):
    """A chunk without a vector."""

    hash: bytes
    text: str  #: title, headings and text, which are embedded


class VectorQuery(NamedTuple):
    """The meaning of a query."""

    embedder: int  #: embedder.no
    vector: bytes
    only: bool = False  #: whether the words of the query do not count


QueryMeaning = Callable[[str], VectorQuery]  #: of the text of a query


class NearPage(NamedTuple):
    """A content, and its chunk that is nearest to a query."""

    content: Any  #: content.no; in an index elsewhere the key of a document
    distance: float  #: 0 to 2
    chunk: int  #: chunk.no; in an index elsewhere its position


def note_embedder(connection: Connection, embedder: Embedder) -> int:
    """Return the number of an embedder; a new one gets the next. The caller is in a transaction."""
    facts = (embedder.name, embedder.model, embedder.dimension)
    connection.execute(_NOTE, facts)
    return int(connection.execute(_NO, facts).get)


def embedder_number(connection: Connection, embedder: Embedder) -> int | None:
    """Return the number of an embedder, or None: it has made no vector here."""
    number: int | None = connection.execute(
        _NO, (embedder.name, embedder.model, embedder.dimension)
    ).get
    return number


def whole_embedders(connection: Connection) -> list[StoredEmbedder]:
    """Return the embedders that had a vector for every chunk, the one that had last first."""
    return [StoredEmbedder(*row) for row in connection.execute(_WHOLE).fetchall()]


def embedded_text(title: str, headings: str, text: str) -> str:
    """Return the text to embed of a chunk.

    >>> embedded_text("Guide", "", "Some words.")
    'Guide\\nSome words.'
    """
    return "\n".join(filter(None, (title, headings, text)))


def owed_texts(
    connection: Connection, embedder: int, sources: Sequence[str], most: int
) -> Iterator[list[OwedText]]:
    """Yield chunks without a vector, ``most`` at once; ``sources`` empty means all."""
    after = b""
    names = {"embedder": embedder, "most": most, "sources": Many(list(sources))}
    statement = _OWED.format(owed=_owed(sources))
    while rows := connection.execute(statement, names | {"after": after}).fetchall():
        yield [OwedText(bytes(row[0]), embedded_text(*row[1:])) for row in rows]
        after = bytes(rows[-1][0])


def count_owed_texts(connection: Connection, embedder: int, sources: Sequence[str] = ()) -> int:
    """Return how many different chunks have no vector; ``sources`` empty means all."""
    names = {"embedder": embedder, "sources": Many(list(sources))}
    statement = _COUNT.format(owed=_owed(sources), chunks=chunk_table(connection))
    return int(connection.execute(statement, names).get)


def _owed(sources: Sequence[str]) -> str:
    return _IS_OWED + (_OF_SOURCES if sources else "")


def known_vector_hashes(
    connection: Connection, embedder: int, hashes: Sequence[bytes]
) -> set[bytes]:
    """Return those hashes of chunks that have a vector, or are refused."""
    rows: Any = connection.execute(_KNOWN, (embedder, Many(hashes)))
    return {bytes(row[0]) for row in rows}


def put_vectors(
    connection: Connection, embedder: int, found: Iterable[tuple[bytes, Vector | RefusedText]]
) -> None:
    """Store vectors, and refusals, by the hash of their chunk. The caller is in a transaction.

    Those of chunks that are not stored are left out.
    """
    connection.executemany(
        _PUT.format(chunks=chunk_table(connection)),
        [
            (hash_, embedder, None, one.reason[:1024])
            if isinstance(one, RefusedText)
            else (hash_, embedder, one, None)
            for hash_, one in found
        ],
    )


def note_whole_embedder(connection: Connection, embedder: int, now: int) -> None:
    """Note that every chunk has a vector: from now on searches use this embedder.

    It is noted anew each time. A former embedder that is used again then comes before later ones,
    which may lack vectors of pages that came meanwhile.
    """
    connection.execute(_IS_WHOLE, (now, embedder))


def drop_unused_vectors(
    connection: Connection, embedder: int, *, now: int, ttl: int, searched: int | None = None
) -> int:
    """Drop vectors that no chunk has used for ``ttl`` seconds; return their number.

    The undo of a removal finds them until then. Vectors of embedders other than ``embedder``, which
    is whole, and ``searched``, whose vectors an index elsewhere has, are unused.
    """
    names = {"embedder": embedder, "searched": searched or embedder}
    names |= {"now": now, "before": now - ttl}
    chunks = chunk_table(connection)
    connection.execute(_USED_AGAIN.format(chunks=chunks), names)
    connection.execute(_UNUSED_NOW.format(chunks=chunks), names)
    connection.execute(_DROP, names)
    dropped = connection.changes()
    connection.execute(_DROP_EMBEDDERS, names)
    return dropped


def nearest_pages(
    connection: Connection,
    near: VectorQuery,
    *,
    conditions: str,
    values: dict[str, Any],
    pool: int,
) -> list[NearPage]:
    """Return at most ``pool`` contents with a chunk near a query, the nearest first.

    ``conditions`` on the content ``c`` and on ``p.content``, with their values.

    Raises:
        SinkError: the functions for vectors cannot be loaded.
    """
    load_vector_functions(connection)
    is_limited = conditions != NO_CONDITION
    statement = _NEAREST.format(
        filter=_FILTER.format(conditions=conditions) if is_limited else "",
        conditions=conditions.replace("p.content", "k.content"),
    )
    names = values | {"embedder": near.embedder, "vector": near.vector, "pool": pool}
    most = pool * _PER_PAGE
    while True:
        rows = connection.execute(statement, names | {"most": most}).fetchall()
        if len(rows) == pool or most > connection.execute(_SIZE, (near.embedder,)).get:
            return [NearPage(*row) for row in rows]
        most *= _MORE  # a page with many near chunks hides others


def load_vector_functions(connection: Any) -> None:
    """Load the functions of sqlite-vec into a connection, once.

    Raises:
        SinkError: the package is missing, or is none for this SQLite.
    """
    if connection.has_vectors:
        return
    try:
        import sqlite_vec  # noqa: PLC0415  # of the extras vectors and openai
    except ImportError as error:
        raise SinkError(
            "vectors need the package sqlite-vec: run pip install 'smartcrawl[vectors]', in a"
            " checkout script/setup vectors"
        ) from error
    connection.enable_load_extension(True)
    try:
        connection.load_extension(sqlite_vec.loadable_path())
    finally:
        connection.enable_load_extension(False)
    connection.has_vectors = True

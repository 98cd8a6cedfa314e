"""The chunks of pages: their places, the table of their vectors, a remote index, refused ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from smartcrawl.model.documents import ChunkPlace
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.pack import numbers_for_sql

#: ``json.dumps`` would make an encoder for each chunk.
_compact: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


_NO_PLACES: Final = "[]"


def chunk_places_as_text(places: Iterable[ChunkPlace]) -> str:
    """Return the places of a chunk as they are stored: JSON ``[[start, id, defines], …]``.

    >>> chunk_places_as_text([ChunkPlace(0, "lamps"), ChunkPlace(9, "wick", True)])
    '[[0,"lamps",0],[9,"wick",1]]'
    """
    rows = [(place.start, place.id, int(place.defines)) for place in places]
    return _compact(rows)


def chunk_places_of_text(text: str) -> tuple[ChunkPlace, ...]:
    """Return the places that ``chunk_places_as_text`` wrote."""
    if text == _NO_PLACES:
        return ()
    return tuple(ChunkPlace(start, name, bool(rest)) for start, name, rest in json.loads(text))


def vector_table(connection: Connection) -> str:
    """Return its name.

    In PostgreSQL it cannot be ``vector``: that is a type of the extension (ADR 75).
    """
    return "chunk_vector" if connection.dialect == "postgres" else "vector"


#: Name of the fact that names the embedder of an index elsewhere: JSON of its EmbedderKey.
INDEXED_EMBEDDER: Final = "index embedder"
_IS_ELSEWHERE: Final = "SELECT EXISTS (SELECT 1 FROM choice WHERE name = 'index epoch')"
_FORGET = "DELETE FROM remote_chunk WHERE content IN carray(?)"
_PUT = "INSERT INTO remote_chunk (content, position, hash) VALUES (?, ?, ?)"
_HELD = (
    "SELECT content, hash FROM remote_chunk WHERE content IN carray(?) ORDER BY content, position"
)
_MARKS = "SELECT no, content_hash FROM content WHERE no IN carray(?)"
_AGAIN = "UPDATE record SET sunk_vectors = -1 WHERE content IN carray(?)"


def has_remote_chunk_rows(connection: Connection) -> bool:
    """Whether the index of a registry is elsewhere."""
    return bool(connection.execute(_IS_ELSEWHERE).get)


def remote_chunk_table(connection: Connection) -> str:
    """Return the table with the digests of all chunks: of the embedded index, or of another one."""
    return "remote_chunk" if has_remote_chunk_rows(connection) else "chunk"


def delete_remote_chunk_rows(connection: Connection, contents: Iterable[int]) -> None:
    """Delete the digests of some contents; the caller is in a transaction."""
    connection.execute(_FORGET, (numbers_for_sql(contents),))


def store_remote_chunk_rows(
    connection: Connection, contents: Mapping[int, Sequence[bytes]]
) -> None:
    """Store the digests of some contents, in the order of their chunks, instead of former ones."""
    if not contents:
        return
    delete_remote_chunk_rows(connection, contents)
    rows = [
        (content, position, hash_)
        for content, hashes in contents.items()
        for position, hash_ in enumerate(hashes)
    ]
    connection.executemany(_PUT, rows)


def remote_chunk_rows(connection: Connection, contents: Iterable[int]) -> dict[int, list[bytes]]:
    """Return the digests of some contents, in the order of their chunks."""
    rows: Any = connection.execute(_HELD, (numbers_for_sql(contents),)).fetchall()
    return {
        content: [bytes(hash_) for _, hash_ in some]
        for content, some in groupby(rows, key=itemgetter(0))
    }


def update_remote_chunk_rows(
    connection: Connection, cut: Mapping[int, tuple[bytes, Sequence[bytes]]]
) -> None:
    """Store the digests of contents that are cut in another way by now, such as a new CHUNK_SIZE.

    ``cut``: content_hash and digests, by content.no. A content whose hash is another one by now is
    left as it is. The documents of the others are written again.
    """
    if not cut:
        return
    held = remote_chunk_rows(connection, cut)
    marks = {no: bytes(mark) for no, mark in connection.execute(_MARKS, (numbers_for_sql(cut),))}
    other = {
        content: hashes
        for content, (mark, hashes) in cut.items()
        if list(hashes) != held.get(content) and marks.get(content) == mark
    }
    if other:
        store_remote_chunk_rows(connection, other)
        connection.execute(_AGAIN, (numbers_for_sql(other),))


_SHOWN: Final = 3  #: reasons that are shown
_LONGEST: Final = 200  #: characters of a reason that is shown
#: An index has the rows of refused texts alone (vector_refused).
_COUNTS = """
SELECT v.refused, count(*) FROM {vector} v
 WHERE v.embedder = :embedder AND v.refused IS NOT NULL AND EXISTS ({uses})
 GROUP BY v.refused ORDER BY 2 DESC, 1
"""
_OWE = """
DELETE FROM {vector}
 WHERE embedder = :embedder AND refused IS NOT NULL AND hash IN (
       SELECT v.hash FROM {vector} v
        WHERE v.embedder = :embedder AND v.refused IS NOT NULL AND EXISTS ({uses}))
"""
_USES = "SELECT 1 FROM {chunks} k WHERE k.hash = v.hash"
_OF_SOURCES = """
 AND k.content IN (SELECT c.no FROM content c JOIN source o ON o.no = c.source
                    WHERE o.name IN carray(:sources))
"""


class RefusedChunks(NamedTuple):
    """Different chunks that are refused for one reason."""

    reason: str
    number: int


def refused_chunk_counts(
    connection: Connection, embedder: int, sources: Sequence[str] = ()
) -> list[RefusedChunks]:
    """Return the chunks that an embedder refused, the most frequent reason first.

    ``sources`` empty means all.
    """
    names = {"embedder": embedder, "sources": Many(list(sources))}
    rows: Any = connection.execute(_of(_COUNTS, connection, sources), names).fetchall()
    return [RefusedChunks(*row) for row in rows]


def owe_refused_chunks(connection: Connection, embedder: int, sources: Sequence[str] = ()) -> int:
    """Make the refused chunks debts, which the next payment asks for again; return their number.

    ``sources`` empty means all. The caller is in a transaction.
    """
    names = {"embedder": embedder, "sources": Many(list(sources))}
    connection.execute(_of(_OWE, connection, sources), names)
    return int(connection.changes())


def refused_reasons_text(reasons: Sequence[str]) -> str:
    """Return the reasons of refusals in words, the first ones in full.

    >>> refused_reasons_text(["it is empty", "a", "b", "c", "d"])
    'it is empty; a; b; and 2 other reasons'
    """
    shown = [reason[:_LONGEST] for reason in reasons[:_SHOWN]]
    if more := len(reasons) - len(shown):
        shown.append(f"and {more:,} other reason{'s' * (more != 1)}")
    return "; ".join(shown)


def _of(statement: str, connection: Connection, sources: Sequence[str]) -> str:
    uses = _USES.format(chunks=remote_chunk_table(connection))
    uses += _OF_SOURCES if sources else ""
    return statement.format(vector=vector_table(connection), uses=uses)

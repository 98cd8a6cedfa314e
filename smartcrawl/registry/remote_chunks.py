"""Digests of the chunks that an index elsewhere has, by the contents that they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.pack import numbers_for_sql

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

"""Pages with chunks that have no vector, which a search by meaning would put too far down."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from smartcrawl.index.elasticsearch.documents import index_document_key
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.pack import numbers_for_sql
from smartcrawl.registry.vector_table import vector_table

_CONTENTS = """
SELECT k.content, count(v.hash) FROM chunk k
  LEFT JOIN {vector} v ON v.hash = k.hash AND v.embedder = ? AND v.vector IS NOT NULL
 WHERE k.content IN carray(?) GROUP BY k.content HAVING count(v.hash) < count(*)
"""
#: Of contents without rows nothing is known: their documents have no vector.
_DOCUMENTS = """
SELECT o.name, r.id, r.sunk_vectors FROM record r JOIN source o ON o.no = r.source
 WHERE r.id IN carray(?)
   AND r.sunk_vectors < coalesce(nullif((SELECT count(*) FROM remote_chunk k
                                          WHERE k.content = r.content), 0), 1)
"""


def contents_lacking_vectors(
    connection: Connection, embedder: int, contents: Collection[int]
) -> dict[int, bool]:
    """Return those of some contents that lack a vector, and whether they have any."""
    statement = _CONTENTS.format(vector=vector_table(connection))
    rows: Any = connection.execute(statement, (embedder, numbers_for_sql(contents)))
    return {content: bool(number) for content, number in rows.fetchall()}


def documents_lacking_vectors(connection: Connection, keys: Collection[str]) -> dict[str, bool]:
    """Return those of some documents of a remote index that lack a vector; whether they have any.

    ``keys``: their ids in the index.
    """
    digests = Many(sorted({bytes.fromhex(key.rpartition(":")[2]) for key in keys}))
    rows: Any = connection.execute(_DOCUMENTS, (digests,)).fetchall()
    return {index_document_key(source, id_): number > 0 for source, id_, number in rows}

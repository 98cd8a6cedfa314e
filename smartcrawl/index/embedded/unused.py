"""Vectors that nothing uses any more: marked when they are first seen so, dropped after a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from smartcrawl.index.embedded.vectors import lock_index_embedders
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.database.transactions import transaction
from smartcrawl.registry.remote_chunks import remote_chunk_table
from smartcrawl.registry.vector_table import vector_table

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
    """Chunks that an index elsewhere has (``remote_debts.RemoteDebts``)."""

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

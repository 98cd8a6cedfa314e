"""Chunks whose text an embedder refused: their number, the reasons, and a second try."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.remote_chunks import remote_chunk_table
from smartcrawl.registry.vector_table import vector_table

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

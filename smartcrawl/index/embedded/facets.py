"""Counts of the pages that a query finds in the embedded index, for facets."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from smartcrawl.index.facets import MOST_COUNTED, Counted, CountedRecord, counted_records
from smartcrawl.registry.connection import Connection

_FOUND: Final = """
SELECT r.id, o.name, c.language, coalesce(r.media, r.content_type, ''),
       coalesce(c.published, r.last_changed)
  FROM (SELECT DISTINCT k.content FROM {match} {within}) AS p
       CROSS JOIN content c CROSS JOIN record r
       JOIN source o ON o.no = r.source JOIN host h ON h.no = r.host
 WHERE c.no = p.content AND r.content = c.no AND r.entry > 0
   AND {conditions} AND {of_records}
 LIMIT :most_counted
"""


def count_embedded_pages(
    connection: Connection,
    facets: Collection[str],
    values: Mapping[str, Any],
    **parts: str,
) -> Counted:
    """Count the pages that match any word of a query, up to ``MOST_COUNTED``.

    ``parts``: of the statement; ``match`` finds chunks ``k``, ``within`` and ``conditions`` are on
    these and on contents, ``of_records`` on their records. ``values``: those of all parts.
    """
    most = {"most_counted": MOST_COUNTED + 1}
    rows = connection.execute(_FOUND.format(**parts), {**values, **most}).fetchall()
    return counted_records([CountedRecord(bytes(row[0]), *row[1:]) for row in rows], facets)

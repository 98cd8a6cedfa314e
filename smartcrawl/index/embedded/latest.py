"""The latest pages that a query finds in the embedded index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from smartcrawl.registry.connection import Connection

_PER: Final = "SELECT {place} AS place, k.content FROM {match} {within} GROUP BY k.content"
#: Pages with few of the words come last.
_LATEST: Final = """
WITH per AS ({per}),
p AS MATERIALIZED (SELECT content, count(*) AS words FROM per GROUP BY content)
SELECT r.id, p.content
  FROM p CROSS JOIN content c CROSS JOIN record r
       JOIN source o ON o.no = r.source JOIN host h ON h.no = r.host
 WHERE c.no = p.content AND r.content = c.no AND r.entry > 0
   AND {conditions} AND {of_records}
 ORDER BY CASE WHEN p.words > {few} THEN 0 ELSE 1 END,
          coalesce(c.published, r.last_changed, 0) DESC, length(r.url), r.url, r.no
 LIMIT {most}
"""


def latest_embedded_pages(
    connection: Connection,
    matches: Sequence[str],
    values: Mapping[str, Any],
    *,
    few: float,
    most: int,
    **parts: str,
) -> list[tuple[Any, Any]]:
    """Return the addresses of at most ``most`` pages with their contents, the latest first.

    ``matches``: for each word what finds the chunks ``k`` that have it. Pages with no more than
    ``few`` of the words come behind the others. ``parts``: of the statement, as for counts of
    facets; ``values``: those of all.
    """
    per = [
        _PER.format(place=place, match=match, within=parts["within"])
        for place, match in enumerate(matches)
    ]
    statement = _LATEST.format(
        per=" UNION ALL ".join(per),
        few=float(few),
        most=int(most),
        conditions=parts["conditions"],
        of_records=parts["of_records"],
    )
    rows = connection.execute(statement, values).fetchall()
    return [(bytes(address), content) for address, content in rows]

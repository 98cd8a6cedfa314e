"""Statistics of the frontier: the addresses that wait for a visit (E-09, R2-36).

These are the addresses that a crawl of their source asks: all but those that are gone, and those
that its last complete run did not reach. They are ready when their visit is due, or the open run
has reached them, and their host may be asked; the others are delayed.
"""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Depends, Response

from smartcrawl.registry.connection import Connection
from smartcrawl.server.context import Context
from smartcrawl.server.data.answers import FrontierStats
from smartcrawl.server.data.kept import KeptAnswers
from smartcrawl.server.data.queries import json_response, refuse_query

MOST_HOSTS: Final = 1_000
_PRIORITY: Final = 5  #: of every address (R2-35)
_SECONDS: Final = 10  #: age up to which an answer counts
#: One scan of the narrow table. Equal rows are counted together first, so that few are joined.
_STATS: Final = """
WITH last (source, looked) AS (
    SELECT source, coalesce(max(no) FILTER (WHERE complete), 0) FROM run GROUP BY source),
alike AS MATERIALIZED (
    SELECT reached_run, host, visited_run < reached_run AS waits,
           next_visit IS NULL OR next_visit <= :now AS is_due, count(*) AS n
      FROM state WHERE status <> 5 GROUP BY 1, 2, 3, 4),
domain (host, n, ready) AS MATERIALIZED (
    SELECT a.host, sum(n), sum(n) FILTER (WHERE a.is_due OR (a.waits AND u.finished_at IS NULL))
      FROM alike a JOIN run u ON u.no = a.reached_run JOIN last l ON l.source = u.source
     WHERE a.reached_run >= l.looked
     GROUP BY a.host)
SELECT h.name, d.n, sum(d.n) OVER (),
       sum(CASE WHEN h.is_blocked OR coalesce(w.parked_until, 0) > :now
                     OR coalesce(w.paused_until, 0) > :now
                     OR (coalesce(w.is_down, FALSE) AND u.finished_at IS NULL)
                     OR coalesce(h.retry_after_at + h.retry_after, 0) > :now
                THEN 0 ELSE coalesce(d.ready, 0) END) OVER ()
  FROM domain d JOIN host h ON h.no = d.host
  LEFT JOIN host_now w ON w.host = h.no
  LEFT JOIN run u ON u.no = w.run
 ORDER BY d.n DESC, h.name LIMIT :most
"""


def frontier_data(connection: Connection, now: int) -> dict[str, Any]:
    """Return the statistics under the keys of R2-36."""
    values = {"now": now, "most": MOST_HOSTS}
    rows: list[Any] = connection.execute(_STATS, values).fetchall()
    total, ready = (int(rows[0][2]), int(rows[0][3])) if rows else (0, 0)
    return {
        "total_urls": total,
        "by_priority": {str(_PRIORITY): total} if total else {},
        "by_domain": {name: int(count) for name, count, _, _ in rows},
        "ready_to_crawl": ready,
        "delayed": total - ready,
    }


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the route of the statistics."""
    stores = context.stores
    answers: KeptAnswers[dict[str, Any]] = KeptAnswers(_SECONDS, 1, context.clock)

    def work() -> dict[str, Any]:
        return stores.read(lambda connection: frontier_data(connection, int(context.clock())))

    @router.get(
        "/frontier/stats",
        tags=["monitoring"],
        summary="Addresses that wait for a visit, by host and priority",
        response_model=FrontierStats,
        dependencies=[Depends(refuse_query)],
    )
    async def stats() -> Response:
        return json_response(await answers.get("", work))

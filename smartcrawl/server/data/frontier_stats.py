"""Statistics of the frontier: the addresses that wait for a visit (E-09, R2-36).

These are the addresses that a crawl of their source asks: all but those that are gone, and those
that its last complete run did not reach. They are ready when their visit is due, or the open run
has reached them, and their host may be asked; the others are delayed. Addresses that were posted
since the last run of their source are ready as well.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from fastapi import APIRouter, Depends, Response

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.pages import STATE_IS_DUE_SQL
from smartcrawl.rules.model import PRIORITY
from smartcrawl.server.context import Context
from smartcrawl.server.data.answers import FrontierStats
from smartcrawl.server.data.queries import KeptAnswers, json_response, refuse_api_query

MOST_HOSTS: Final = 1_000
_SECONDS: Final = 10  #: age up to which an answer counts
_LAST: Final = """
last (source, looked) AS (
    SELECT source, coalesce(max(no) FILTER (WHERE complete), 0) FROM run GROUP BY source)
"""
#: One scan of the narrow table. Equal rows are counted together first, so that few are joined.
_DOMAIN: Final = f"""
WITH {_LAST},
alike AS MATERIALIZED (
    SELECT reached_run, host, visited_run < reached_run AS waits,
           {STATE_IS_DUE_SQL} AS is_due, count(*) AS n
      FROM state WHERE status <> 5 GROUP BY 1, 2, 3, 4),
domain (host, n, ready) AS MATERIALIZED (
    SELECT a.host, sum(n), sum(n) FILTER (WHERE a.is_due OR (a.waits AND u.finished_at IS NULL))
      FROM alike a JOIN run u ON u.no = a.reached_run JOIN last l ON l.source = u.source
     WHERE a.reached_run >= l.looked
     GROUP BY a.host)
"""
_MAY_NOT_BE_ASKED: Final = """
h.is_blocked OR coalesce(w.parked_until, 0) > :now OR coalesce(w.paused_until, 0) > :now
OR (coalesce(w.is_down, FALSE) AND u.finished_at IS NULL)
OR coalesce(h.retry_after_at + h.retry_after, 0) > :now
"""
_HOST_NOW: Final = "LEFT JOIN host_now w ON w.host = h.no LEFT JOIN run u ON u.no = w.run"
_STATS: Final = f"""
{_DOMAIN}
SELECT h.name, d.n, sum(d.n) OVER (),
       sum(CASE WHEN {_MAY_NOT_BE_ASKED} THEN 0 ELSE coalesce(d.ready, 0) END) OVER ()
  FROM domain d JOIN host h ON h.no = d.host {_HOST_NOW}
 ORDER BY d.n DESC, h.name LIMIT :most
"""
#: Posted addresses that no record has yet.
_POSTED: Final = """
  FROM pending_pin p
 WHERE NOT EXISTS (SELECT 1 FROM record r JOIN source o ON o.no = r.source
                    WHERE o.name = p.source AND r.id = p.id)
"""
#: The same with posted addresses, whose hosts may have no row yet.
_STATS_POSTED: Final = f"""
{_DOMAIN},
posted (name, n) AS MATERIALIZED (SELECT p.host, count(*) {_POSTED} GROUP BY 1),
each (name, n, ready) AS (
    SELECT h.name, d.n, CASE WHEN {_MAY_NOT_BE_ASKED} THEN 0 ELSE coalesce(d.ready, 0) END
      FROM domain d JOIN host h ON h.no = d.host {_HOST_NOW}
    UNION ALL
    SELECT q.name, q.n, CASE WHEN {_MAY_NOT_BE_ASKED} THEN 0 ELSE q.n END
      FROM posted q LEFT JOIN host h ON h.name = q.name {_HOST_NOW})
SELECT name, sum(n), sum(sum(n)) OVER (), sum(sum(ready)) OVER ()
  FROM each GROUP BY name ORDER BY 2 DESC, name LIMIT :most
"""
_IS_POSTED: Final = "SELECT 1 FROM pending_pin LIMIT 1"
#: Addresses with another priority than the usual one, which are few.
_PRIORITIES: Final = f"""
WITH {_LAST}
SELECT p.priority, count(*)
  FROM pin p JOIN state s ON s.no = p.no JOIN last l ON l.source = p.source
 WHERE p.priority <> :usual AND s.status <> 5 AND s.reached_run >= l.looked
 GROUP BY 1
UNION ALL
SELECT p.priority, count(*) {_POSTED} AND p.priority <> :usual GROUP BY 1
"""


def api_frontier(connection: Connection, now: int) -> dict[str, Any]:
    """Return the statistics under the keys of R2-36."""
    values = {"now": now, "most": MOST_HOSTS}
    posted = connection.execute(_IS_POSTED).get is not None
    rows: list[Any] = connection.execute(_STATS_POSTED if posted else _STATS, values).fetchall()
    total, ready = (int(rows[0][2]), int(rows[0][3])) if rows else (0, 0)
    counted: list[Any] = connection.execute(_PRIORITIES, {"usual": PRIORITY}).fetchall()
    priorities: Counter[int] = Counter()
    for priority, count in counted:
        priorities[priority] += int(count)
    priorities[PRIORITY] = total - priorities.total()
    return {
        "total_urls": total,
        "by_priority": {str(each): n for each, n in sorted(priorities.items()) if n},
        "by_domain": {name: int(count) for name, count, _, _ in rows},
        "ready_to_crawl": ready,
        "delayed": total - ready,
    }


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the route of the statistics."""
    stores = context.stores
    answers: KeptAnswers[dict[str, Any]] = KeptAnswers(_SECONDS, 1, context.clock)

    def work() -> dict[str, Any]:
        return stores.read(lambda connection: api_frontier(connection, int(context.clock())))

    @router.get(
        "/frontier/stats",
        tags=["monitoring"],
        summary="Addresses that wait for a visit, by host and priority",
        response_model=FrontierStats,
        dependencies=[Depends(refuse_api_query)],
    )
    async def frontier_stats() -> Response:
        return json_response(await answers.get("", work))

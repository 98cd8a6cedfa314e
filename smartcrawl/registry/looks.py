"""What one look at an address found, in a registry that has nothing else."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.pack import unpack_stored_links

_PAGES: Final = """
SELECT r.url, s.http_status, r.redirect_target, r.error_message, r.kind, l.raw
  FROM record r JOIN state s USING (no) LEFT JOIN links l USING (no)
 WHERE s.visited_run IS NOT NULL ORDER BY r.no
"""
_ROBOTS: Final = "SELECT origin, status, body FROM robots ORDER BY fetched_at LIMIT 1"


class LookedPage(NamedTuple):
    """One address that was asked."""

    url: str
    status: int | None  #: of HTTP, or an extended one
    target: str | None  #: where it redirects to
    error: str | None
    is_sitemap: bool
    links: list[str] | None  #: None: none were read


class LookedRobots(NamedTuple):
    """The robots.txt of the first origin."""

    origin: str
    status: int
    body: bytes


def looked_page_rows(connection: Connection) -> list[LookedPage]:
    """Return the addresses that were asked, in the order in which they were met."""
    rows: Any = connection.execute(_PAGES).fetchall()
    return [
        LookedPage(
            url,
            status,
            target,
            error,
            bool(kind),
            None if raw is None else [link.url for link in unpack_stored_links(raw)],
        )
        for url, status, target, error, kind, raw in rows
    ]


def looked_robots_row(connection: Connection) -> LookedRobots | None:
    """Return the first robots.txt; None: none was read."""
    row: Any = connection.execute(_ROBOTS).fetchone()
    return None if row is None else LookedRobots(row[0], row[1], bytes(row[2]))

"""Start addresses of ad-hoc sources, taken from their last run.

A start that never brought a page, such as a mistyped address, is not used again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from smartcrawl.registry.commit.visit import EVERY_RUN
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.pack import numbers_for_sql
from smartcrawl.registry.runs.runs import Role
from smartcrawl.sources.kinds import GITHUB, source_kind_named

_LAST = """
SELECT r.no, r.url, d.pinned, coalesce(r.redirect_no, r.no)
  FROM source o CROSS JOIN seed d JOIN record r ON r.no = d.no
 WHERE o.name = :name AND NOT o.declared AND d.pinned <> 1
   AND d.run = (
       SELECT coalesce(max(e.run) FILTER (WHERE s.standing > 0 OR q.last_indexed IS NOT NULL
                                             OR t.standing > 0), max(e.run))
         FROM run u JOIN seed e ON e.run = u.no JOIN record q ON q.no = e.no
              JOIN state s ON s.no = q.no LEFT JOIN state t ON t.no = q.redirect_no
        WHERE u.source = o.no AND e.pinned <> 1 AND u.no < :before)
 ORDER BY r.no
"""
_ROOT = "SELECT root FROM source WHERE name = ? AND NOT declared"
_KIND = "SELECT kind FROM source WHERE name = ?"
_ENDS = "SELECT coalesce(redirect_no, no) FROM record WHERE no IN carray(?)"


class Start(NamedTuple):
    """An address that a run started from."""

    no: int
    url: str
    role: Role
    end: int  #: number of the address that it redirects to; else ``no``


def last_start_rows(connection: Connection, name: str, before: int = EVERY_RUN) -> list[Start]:
    """Return the starts for the next run of an ad-hoc source; none if it is declared.

    ``before``: only runs with a lower number count.
    """
    rows: Any = connection.execute(_LAST, {"name": name, "before": before}).fetchall()
    return [Start(no, url, Role(role), end) for no, url, role, end in rows]


def last_root_row(connection: Connection, name: str) -> str | None:
    """Return the URL that an ad-hoc source was listed from; None: it is declared, or not listed."""
    root = connection.execute(_ROOT, (name,)).get
    return None if root is None else str(root)


def stored_start_argument_rows(connection: Connection, name: str) -> dict[str, str] | None:
    """Return the spider, and the argument that names the root, of an ad-hoc source that is listed.

    None: it is declared, or not listed.
    """
    root = last_root_row(connection, name)
    if root is None:
        return None
    kind = source_kind_named(str(connection.execute(_KIND, (name,)).get))
    return {"spider": kind.spider, ("url" if kind is GITHUB else "root"): root}


def left_out_start_rows(
    connection: Connection, before: Iterable[Start], given: Iterable[int]
) -> list[Start]:
    """Return the starts of ``before`` that are not among ``given`` (record numbers).

    A redirected address counts as its target, too.
    """
    now = set(given)
    rows: Any = connection.execute(_ENDS, (numbers_for_sql(sorted(now)),)).fetchall()
    now.update(no for (no,) in rows)
    return [start for start in before if not now & {start.no, start.end}]

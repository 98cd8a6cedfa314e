"""The pages of a run that met a login form, or a redirect to one."""

from __future__ import annotations

from typing import Any

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.pack import numbers_for_sql
from smartcrawl.rules.login import (
    Met,
    Turned,
    acts_on_page,
    is_sign_in_address,
    pages_before_walls,
    walls_against_seal,
)
from smartcrawl.rules.model import Fault

_FORMS = f"""
SELECT s.no FROM state s WHERE s.visited_run = :run AND s.http_status = {int(Fault.LOGIN)}
"""
_TURNED = """
SELECT s.no, r.url, r.redirect_target, r.redirect_no, s.standing = 0 AND r.last_indexed IS NULL
  FROM state s JOIN record r USING (no)
 WHERE s.visited_run = :run AND s.http_status IN (302, 303, 307) AND s.outcome = 5
   AND r.redirect_target IS NOT NULL AND r.kind = 0
"""
#: Targets that are no walls: seeds, pages that had content before this run, missing ones.
_SPARED = """
SELECT s.no FROM state s JOIN record r USING (no)
 WHERE s.no IN carray(:numbers)
   AND (s.http_status IN (404, 410) OR s.no IN (SELECT no FROM seed WHERE run = :run)
        OR (r.last_indexed IS NOT NULL AND r.first_run < :run))
"""
_MET = """
SELECT s.no, r.url, s.standing = 2 OR s.no IN (SELECT no FROM seed WHERE run = :run), d.url
  FROM state s JOIN record r USING (no) LEFT JOIN record d ON d.no = r.discovered_from
 WHERE s.no IN carray(:numbers)
 ORDER BY s.no
"""


def walled_rows(connection: Connection, run: int) -> frozenset[int]:
    """Return the numbers of the pages that temporary redirects of a run led to a login form."""
    forms: Any = connection.execute(_FORMS, {"run": run}).fetchall()
    rows: Any = connection.execute(_TURNED, {"run": run}).fetchall()
    turned = [Turned(no, url, target, end, bool(new)) for no, url, target, end, new in rows]
    if not turned:
        return frozenset()
    targets = {page.target_no for page in turned if page.target_no is not None}
    names = {"run": run, "numbers": numbers_for_sql(targets)}
    spared: Any = connection.execute(_SPARED, names).fetchall()
    return pages_before_walls(turned, {no for (no,) in forms}, {no for (no,) in spared})


def wall_reason_rows(connection: Connection, run: int, visits: int) -> tuple[str, ...]:
    """Return the pages that met a login form, if that makes a run incomplete."""
    forms: Any = connection.execute(_FORMS, {"run": run}).fetchall()
    walled = walled_rows(connection, run)
    direct = {no for (no,) in forms}
    if not (direct or walled):
        return ()
    rows: Any = connection.execute(
        _MET, {"run": run, "numbers": numbers_for_sql(direct | walled)}
    ).fetchall()
    met = [
        Met(
            url,
            bool(matters),
            (no in direct and is_sign_in_address(url))
            or (origin is not None and acts_on_page(url, origin)),
        )
        for no, url, matters, origin in rows
    ]
    return walls_against_seal(met, visits=visits)

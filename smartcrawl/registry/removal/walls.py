"""The pages of a run that met a login form, or a redirect to one."""

from __future__ import annotations

from typing import Any, NamedTuple

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.pack import numbers_for_sql
from smartcrawl.registry.removal.candidates import Proposal
from smartcrawl.rules.login import (
    WALL_OF_REDIRECTS,
    Met,
    Turned,
    acts_on_page,
    is_sign_in_address,
    pages_before_walls,
    walls_against_seal,
    walls_of_redirects,
)
from smartcrawl.rules.model import Fault, RemovalRule, Standing, Word

_FORMS = f"""
SELECT s.no FROM state s WHERE s.visited_run = :run AND s.http_status = {int(Fault.LOGIN)}
"""
_TURNED = """
SELECT s.no, r.url, r.redirect_target, r.redirect_no, s.standing = 0 AND r.last_indexed IS NULL
  FROM state s JOIN record r USING (no)
 WHERE s.visited_run = :run AND s.http_status IN (302, 303, 307) AND s.outcome = 5
   AND r.redirect_target IS NOT NULL AND r.kind = 0
"""
#: Targets that are no walls: seeds, pages that had content before this run, missing ones. A page
#: that was found before got its first content in this run if it is new and was never removed,
#: except as a wall.
_SPARED = f"""
SELECT s.no FROM state s JOIN record r USING (no)
 WHERE s.no IN carray(:numbers)
   AND (s.http_status IN (404, 410) OR s.no IN (SELECT no FROM seed WHERE run = :run)
        OR (r.last_indexed IS NOT NULL AND r.first_run < :run
            AND NOT (s.visited_run = :run AND s.outcome = {int(Word.NEW)}
                     AND NOT EXISTS (SELECT 1 FROM evidence e
                                      WHERE e.record = s.no AND e.run < :run
                                        AND e.rule <> {int(RemovalRule.WALL)}))))
"""
#: Walls that this run indexed before it knew them.
_INDEXED = f"""
SELECT no FROM state
 WHERE no IN carray(:numbers) AND visited_run = :run AND standing = {int(Standing.HELD)}
 ORDER BY no
"""
#: Removed walls whose content is remembered, although no page is failed any more for leading there.
_FREE = f"""
SELECT r.no FROM record r
 WHERE r.no IN carray(:numbers) AND r.content_hash IS NOT NULL
   AND r.no NOT IN (SELECT p.redirect_no FROM state s JOIN record p USING (no)
                     WHERE s.http_status = {int(Fault.LOGIN)} AND p.redirect_no IS NOT NULL)
"""
_FORGET = "UPDATE record SET content_hash = NULL, text_hash = NULL WHERE no IN carray(?)"
_MET = """
SELECT s.no, r.url, s.standing = 2 OR s.no IN (SELECT no FROM seed WHERE run = :run), d.url
  FROM state s JOIN record r USING (no) LEFT JOIN record d ON d.no = r.discovered_from
 WHERE s.no IN carray(:numbers)
 ORDER BY s.no
"""


class WalledRows(NamedTuple):
    """The numbers of the pages of a run that met a login form."""

    forms: frozenset[int] = frozenset()  #: that answered with one in place of a page
    led: frozenset[int] = frozenset()  #: whose temporary redirects led to one
    walls: frozenset[int] = frozenset()  #: to which several of them led, with their addresses


def walled_rows(connection: Connection, run: int) -> WalledRows:
    """Return the pages of a run that met a login form, and the walls to which they were led."""
    found: Any = connection.execute(_FORMS, {"run": run}).fetchall()
    forms = frozenset(no for (no,) in found)
    rows: Any = connection.execute(_TURNED, {"run": run}).fetchall()
    turned = [Turned(no, url, target, end, bool(new)) for no, url, target, end, new in rows]
    if not turned:
        return WalledRows(forms)
    targets = {page.target_no for page in turned if page.target_no is not None}
    names = {"run": run, "numbers": numbers_for_sql(targets)}
    rows = connection.execute(_SPARED, names).fetchall()
    spared = {no for (no,) in rows}
    led = pages_before_walls(turned, forms, spared)
    return WalledRows(forms, led, walls_of_redirects(turned, spared))


def new_wall_rows(connection: Connection, run: int, walls: frozenset[int]) -> list[Proposal]:
    """Return proposals to remove those of some walls that their run indexed as pages.

    It did so before it knew what they are.
    """
    names = {"run": run, "numbers": numbers_for_sql(walls)}
    rows: Any = connection.execute(_INDEXED, names).fetchall() if walls else ()
    detail: dict[str, object] = {"status": int(Fault.LOGIN), "why": WALL_OF_REDIRECTS}
    return [(no, RemovalRule.WALL, detail) for (no,) in rows]


def free_wall_rows(connection: Connection, forms: frozenset[int]) -> None:
    """Let removed walls be indexed at their next visit if no page leads there as to a wall.

    ``forms``: pages that were failed as login forms in this run.
    """
    if forms:
        rows: Any = connection.execute(_FREE, {"numbers": numbers_for_sql(forms)}).fetchall()
        if rows:
            connection.execute(_FORGET, (numbers_for_sql(no for (no,) in rows),))


def wall_reason_rows(connection: Connection, run: int, visits: int) -> tuple[str, ...]:
    """Return the pages that met a login form, if that makes a run incomplete."""
    forms, led, walls = walled_rows(connection, run)
    direct = forms - walls
    if not (direct or led):
        return ()
    rows: Any = connection.execute(
        _MET, {"run": run, "numbers": numbers_for_sql(direct | led)}
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

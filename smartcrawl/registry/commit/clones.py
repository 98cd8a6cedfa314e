"""Clones in the registry: touched groups, and the places of their members."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.pack import numbers_for_sql
from smartcrawl.rules.absence import SPOKEN
from smartcrawl.rules.clones import (
    MIN_CLONE_PAGES,
    MIN_CLONE_TEXT,
    OWN,
    Member,
    decide_clone_places,
)
from smartcrawl.rules.model import RunState, Word

#: Orphans whose last look failed. A link that was found since the look is evidence against it.
_UNREACHABLE = f"""
d.probe NOT IN ({", ".join(map(str, sorted(SPOKEN)))}) AND s.reached_run < d.renewed
"""
#: Pages whose last answer was their content, also those that were not due in this run.
_ANSWERED = f"""
s.http_status IN (200, 304)
AND s.outcome IN ({Word.NEW:d}, {Word.MODIFIED:d}, {Word.UNCHANGED:d}, {Word.SKIPPED:d})
"""
#: A group is a content and, if that is short and of few pages, a body; a page without text is its
#: own group.
_MEMBERS = f"""
SELECT r.content, CASE WHEN c.text_length = 0 THEN r.no END,
       CASE WHEN c.text_length BETWEEN 1 AND :least - 1
             AND count(*) OVER (PARTITION BY r.content) < :many THEN r.body_hash END,
       r.duplicate_of, r.no, s.lost_count > 0, coalesce(r.changed_run, 0) >= :run, r.entry,
       s.depth, length(r.url), r.first_run, r.id, coalesce({_UNREACHABLE}, FALSE),
       s.seen_run >= :run AND {_ANSWERED}
  FROM record r JOIN state s USING (no) JOIN content c ON c.no = r.content
       LEFT JOIN candidate d ON d.no = r.no
 WHERE r.content IN carray(:contents)
"""
_PLACE = "UPDATE record SET duplicate_of = ?, entry = ? WHERE no = ?"
#: A content of one page needs no election, unless that page was a clone.
_WITH_CLONES = """
SELECT content FROM record WHERE content IN carray(?)
 GROUP BY content HAVING count(*) > 1 OR max(duplicate_of) IS NOT NULL OR min(entry) <> 1
"""
#: The first run after the last settled one; runs between them were interrupted.
_SINCE = f"""
SELECT coalesce(max(no), 0) + 1 FROM run
 WHERE source = :source AND no < :run AND state IN ({int(RunState.SETTLED)}, {int(RunState.SWEPT)})
"""
#: Groups that a page has joined since then, or with a page that was lost or found again, or with
#: an original that is an orphan and cannot be reached.
_GROUPS_OF_RUN = f"""
WITH several AS (
    SELECT content FROM record WHERE content IS NOT NULL GROUP BY content HAVING count(*) > 1
)
SELECT DISTINCT r.content FROM several JOIN record r USING (content)
 WHERE +r.source = :source
   AND (r.changed_run >= :since OR r.no IN (SELECT record FROM event WHERE run >= :since)
        OR (r.entry = {OWN} AND r.no IN (
            SELECT d.no FROM candidate d JOIN state s USING (no)
             WHERE d.source = :source AND {_UNREACHABLE})))
"""


def write_clone_places(
    connection: Connection, run: int, contents: Iterable[int], *, midway: bool
) -> None:
    """Set the places of the pages of some contents (rules.clones.decide_clone_places)."""
    several: Any = connection.execute(_WITH_CLONES, (numbers_for_sql(contents),))
    held = [content for (content,) in several.fetchall()]
    if not held:
        return
    names = {"run": run, "contents": numbers_for_sql(held), "least": MIN_CLONE_TEXT}
    names["many"] = MIN_CLONE_PAGES
    groups: defaultdict[tuple[object, ...], list[Member]] = defaultdict(list)
    before: dict[int, tuple[int | None, int]] = {}
    row: Any
    for row in connection.execute(_MEMBERS, names):
        member = Member(row[4], bool(row[5]), bool(row[6]), *row[7:12], *map(bool, row[12:]))
        groups[row[:3]].append(member)
        before[member.no] = (row[3], member.entry)
    moved = [
        (*place, no)
        for members in groups.values()
        for no, place in decide_clone_places(members, midway=midway).items()
        if place != before[no]
    ]
    connection.executemany(_PLACE, moved)


def settle_clone_rows(connection: Connection, run: int, source: int) -> list[int]:
    """Elect the originals of every group touched since the last settled run.

    Return the contents of those groups.
    """
    since = int(connection.execute(_SINCE, {"run": run, "source": source}).get)
    names = {"since": since, "source": source}
    groups: Any = connection.execute(_GROUPS_OF_RUN, names).fetchall()
    contents = [content for (content,) in groups]
    write_clone_places(connection, since, contents, midway=False)
    return contents

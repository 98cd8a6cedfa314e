"""Clones: equal content is indexed once, under its original (R4-13 to R4-16; design.md 8)."""

from __future__ import annotations

from array import array
from typing import Any

import apsw

MIN_CLONE_TEXT = 200  #: characters; shorter texts are equal by accident, unless the bytes are

#: One member of each group is its original. A standing original stays; then members that held
#: the content before this run, then depth, URL length, first run, id: no order of arrival.
_ELECT = """
WITH member AS (
    SELECT r.no, r.duplicate_of,
           first_value(r.no) OVER (
               PARTITION BY r.content,
                            CASE WHEN c.text_length >= :least THEN NULL ELSE r.body_hash END
               ORDER BY r.changed_run >= :run,
                        CASE WHEN r.changed_run < :run OR :midway
                             THEN r.duplicate_of IS NOT NULL END,
                        s.depth, length(r.url), r.first_run, r.id
           ) AS original
      FROM record r JOIN state s USING (no) JOIN content c ON c.no = r.content
     WHERE r.content IN carray(:contents) AND c.text_length > 0
)
UPDATE record SET duplicate_of = CASE WHEN m.original = record.no THEN NULL ELSE m.original END
  FROM member m
 WHERE m.no = record.no
   AND record.duplicate_of IS NOT CASE WHEN m.original = record.no THEN NULL ELSE m.original END
"""
#: A content that one page holds has nothing to elect, unless that page was a clone.
_WITH_CLONES = """
SELECT content FROM record WHERE content IN carray(?)
 GROUP BY content HAVING count(*) > 1 OR max(duplicate_of) IS NOT NULL
"""
_GROUPS_OF_RUN = """
SELECT content FROM record WHERE content IS NOT NULL GROUP BY content
HAVING count(*) > 1 AND max(changed_run) = :run AND max(source) = :source
"""


def elect(connection: apsw.Connection, run: int, contents: list[int], *, midway: bool) -> None:
    """Elect the originals of some contents.

    ``midway``, while a run goes on, whoever is the original stays it, so that search never
    sees two; at the end of the run newcomers are ranked anew, whatever order they came in.
    """
    held: Any = connection.execute(_WITH_CLONES, (apsw.carray(array("q", contents)),)).fetchall()
    if held:
        names = {
            "run": run,
            "contents": apsw.carray(array("q", [content for (content,) in held])),
            "least": MIN_CLONE_TEXT,
            "midway": midway,
        }
        connection.execute(_ELECT, names)


def settle_run(connection: apsw.Connection, run: int, source: int) -> None:
    """Elect the originals of every group that a page joined in this run."""
    names = {"run": run, "source": source}
    groups: Any = connection.execute(_GROUPS_OF_RUN, names).fetchall()
    if groups:
        elect(connection, run, [content for (content,) in groups], midway=False)

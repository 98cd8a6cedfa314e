"""What sources that no file declares are started from: whatever their last run began with.

A start that never brought anything, such as a mistyped address, is nobody's start.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from smartcrawl.model.ports import Connection
from smartcrawl.registry.commit.visit import EVERY_RUN
from smartcrawl.registry.pack import numbers
from smartcrawl.registry.runs.runs import Role

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
_ENDS = "SELECT coalesce(redirect_no, no) FROM record WHERE no IN carray(?)"


class Start(NamedTuple):
    """An address that a run began with."""

    no: int
    url: str
    role: Role
    end: int  #: number of where it moved to; ``no`` where it did not


def last_starts(connection: Connection, name: str, before: int = EVERY_RUN) -> list[Start]:
    """Return what the next run of a source begins with; nothing of one that is declared.

    ``before``: the run that began meanwhile.
    """
    rows: Any = connection.execute(_LAST, {"name": name, "before": before}).fetchall()
    return [Start(no, url, Role(role), end) for no, url, role, end in rows]


def left_out(connection: Connection, before: Iterable[Start], given: Iterable[int]) -> list[Start]:
    """Return the starts from ``before`` that are none of the pages ``given`` by number.

    What moved is where it moved to.
    """
    now = set(given)
    rows: Any = connection.execute(_ENDS, (numbers(sorted(now)),)).fetchall()
    now.update(no for (no,) in rows)
    return [start for start in before if not now & {start.no, start.end}]

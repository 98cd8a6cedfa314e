"""The history of a source: its runs, and the changes of its pages that they found."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from smartcrawl.registry.connection import Connection
from smartcrawl.rules.schedule import Life

_RUNS = """
SELECT started_at, complete, due FROM run WHERE source = ? ORDER BY started_at, no
"""
#: Stored pages. Content of the first run is no change. A registry that is older than the table of
#: changes has the last change of each page only.
_LIVES = """
SELECT r.no, r.first_seen,
       coalesce(c.at, CASE WHEN r.changed_run > r.first_run THEN r.last_changed END)
  FROM record r
  JOIN state s USING (no)
  LEFT JOIN change c ON c.record = r.no AND c.run > r.first_run
 WHERE r.source = ? AND r.kind = 0 AND s.standing > 0
 ORDER BY r.no, c.at
"""


class PastRun(NamedTuple):
    """One run of a source."""

    started_at: int  #: Unix seconds
    complete: int
    due: int  #: whether it visited only pages that were due


def run_history_report(connection: Connection, source: int) -> list[PastRun]:
    """Return the runs of a source, oldest first."""
    rows: Any = connection.execute(_RUNS, (source,)).fetchall()
    return [PastRun(*row) for row in rows]


def page_life_report(connection: Connection, source: int) -> Iterator[Life]:
    """Yield the stored pages of a source without its sitemaps, in order of discovery."""
    rows: Any = connection.execute(_LIVES, (source,))
    for (number, first_seen), found in groupby(rows, itemgetter(0, 1)):
        yield Life(number, first_seen, tuple([at for *_, at in found if at is not None]))

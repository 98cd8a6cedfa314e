"""Reads of a shared run by its workers, without the pages themselves (ADR 30)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from smartcrawl.model.exceptions import CommitsLostError
from smartcrawl.registry.connection import Connection, Many, last_sequence_number
from smartcrawl.registry.runs.run_orders import run_order_row
from smartcrawl.rules.model import RunOrder, RunState
from smartcrawl.rules.run_orders import COMMITS_LOST

_REACHED = """
SELECT r.no, h.name, s.depth, coalesce(s.last_checked, 0), s.visited_run = :run
  FROM state s JOIN record r USING (no) JOIN host h ON h.no = r.host
"""
_IN_LINE = f"{_REACHED} WHERE s.reached_run = :run ORDER BY s.depth, r.no"
_THOSE = f"{_REACHED} WHERE r.no IN carray(:numbers) ORDER BY s.depth, r.no"
_PENDING = "SELECT 1 FROM state WHERE reached_run = :run AND visited_run < :run LIMIT 1"
#: Links of visited pages, without those of excluded pages and of waiting collapsed pages.
_LINKS = """
SELECT s.depth, l.scope, l.targets,
       r.kind > 0 OR (s.standing = 0 AND r.redirect_target IS NOT NULL), no
  FROM state s JOIN links l USING (no) JOIN record r USING (no)
 WHERE s.visited_run = :run AND (s.visited_run <= s.seen_run OR r.kind > 0)
   AND (:all OR no IN carray(:numbers))
   AND NOT EXISTS (SELECT 1 FROM collapse c WHERE c.no = l.no)
 ORDER BY s.depth, no
"""
_STATE = "SELECT state FROM run WHERE no = ?"
_CUT = "SELECT cut FROM run WHERE no = ?"
_VISITS = "SELECT visits FROM run WHERE no = ?"
_HOPS = """
WITH RECURSIVE chain (no, hops) AS (
    SELECT CAST(:no AS BIGINT), 0
    UNION ALL
    SELECT b.no, c.hops + 1
      FROM chain c JOIN record r ON r.no = c.no JOIN record b ON b.no = r.discovered_from
      JOIN state s ON s.no = b.no
     WHERE b.redirect_no = r.no AND s.visited_run = :run AND c.hops < :most
)
SELECT max(hops) FROM chain
"""


class Reached(NamedTuple):
    """An address that a run reached."""

    no: int
    host: str
    depth: int  #: the smallest so far
    last_checked: int  #: Unix seconds; 0: never
    visited: bool  #: by this run


class SharedReader:
    """Reads the committed work of all workers of a run, over its own connection."""

    def __init__(self, connection: Connection, run: int) -> None:
        self.connection = connection
        self._run = run

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def in_line(self) -> Iterator[Reached]:
        """Yield the addresses that the run has reached so far, breadth first."""
        rows: Any = self.connection.execute(_IN_LINE, {"run": self._run})
        return (Reached(*row) for row in rows)

    def reached(self, numbers: Iterable[int]) -> list[Reached]:
        """Return the rows of ``numbers``, breadth first; numbers without a record are left out."""
        given = tuple(numbers)
        if not given:  # as in every batch of a refresh that finds nothing new
            return []
        names = {"numbers": Many(given), "run": self._run}
        rows: Any = self.connection.execute(_THOSE, names).fetchall()
        return [Reached(*row) for row in rows]

    def last_number(self) -> int:
        """Return the highest address number that was ever drawn."""
        return last_sequence_number(self.connection, "address")

    def is_pending(self) -> bool:
        """Whether a reached address is unvisited; a full scan if there is none."""
        return self.connection.execute(_PENDING, {"run": self._run}).get is not None

    def hops(self, no: int, most: int) -> int:
        """Return the number of consecutive redirects, up to ``most``, that led to an address."""
        names = {"no": no, "run": self._run, "most": most}
        return int(self.connection.execute(_HOPS, names).get)

    def links(
        self, numbers: Iterable[int] | None = None
    ) -> list[tuple[int, int, bytes, bool, int]]:
        """Return (depth, scope, targets, same depth, number) of the visited pages.

        ``same depth``: the targets are as deep as the page, as with a sitemap or a redirect.
        ``numbers``: of these pages only; None: of all.
        """
        names = {"run": self._run, "all": numbers is None, "numbers": Many(tuple(numbers or ()))}
        rows: Any = self.connection.execute(_LINKS, names).fetchall()
        return [(row[0], row[1], row[2], bool(row[3]), row[4]) for row in rows]

    def cut(self) -> str:
        """Return the stored shortcomings of the run (JSON; shortcomings.Shortcomings)."""
        return str(self._of_run(_CUT))

    def visits(self) -> int:
        """Return the number of committed visits."""
        return int(self._of_run(_VISITS))

    def state(self) -> RunState:
        """Return the state of the run."""
        return RunState(self._of_run(_STATE))

    def _of_run(self, statement: str) -> Any:
        """Return a value of the run.

        Raises:
            CommitsLostError: the database has no such run any more.
        """
        row = self.connection.execute(statement, (self._run,)).fetchone()
        if row is None:
            raise CommitsLostError(
                f"{COMMITS_LOST}: it does not know run {self._run} any more; the next run "
                "requests all of its pages again"
            )
        return row[0]

    def order(self) -> RunOrder | None:
        """Return the order to the run."""
        return run_order_row(self.connection, self._run)

"""Reading the progress of a run: pages reached, visited, redirected, to verify."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.pages import unread_etag_sql
from smartcrawl.rules.model import Fault, RemovalRule
from smartcrawl.sources.extraction import EXTRACTION_VERSION

_PENDING = """
SELECT no, depth FROM state WHERE reached_run = :run AND visited_run < :run ORDER BY depth, no
"""
_VISITED = "SELECT no, depth FROM state WHERE visited_run = ?"
_VISITED_ELSEWHERE = """
SELECT no FROM state s JOIN links l USING (no) WHERE s.visited_run = ? AND l.scope <> ?
"""
_REDIRECTS = """
SELECT no, r.redirect_target, r.redirect_no FROM record r JOIN state s USING (no)
 WHERE no IN carray(?) AND s.visited_run = ? AND s.outcome = 5
   AND r.redirect_target IS NOT NULL
"""
_NOT_ASKED_SINCE = """
SELECT count(*) FROM state
 WHERE reached_run = :run AND seen_run = :run AND visited_run < :run AND visited_run <= :since
"""
#: Stored sitemaps that this run has not reached so far.
_UNNAMED = """
SELECT r.no, s.depth, l.scope, l.targets
  FROM record r JOIN state s USING (no) JOIN links l USING (no)
 WHERE r.source = :source AND r.kind > 0 AND s.standing = 1 AND s.reached_run < :run
"""
_LISTING = "SELECT listing FROM source WHERE no = ?"
#: Pages about which the listing of run ``run`` says nothing: restored since, or never readable.
#: A file that cannot be read is accounted for: it is the same in the same listing.
#: A stored file that has grown too large (1207) has the properties of its former version.
_BEYOND = f"""
SELECT r.url FROM state s JOIN record r USING (no)
 WHERE r.source = :source
   AND (s.standing > 0 AND s.visited_run < :run
        OR (s.standing = 0 AND s.visited_run = :run OR s.http_status = {Fault.BOMB:d})
           AND {unread_etag_sql(":extraction")} IS NULL)
"""
_HELD_FILES = """
SELECT r.no FROM record r JOIN state s USING (no)
 WHERE r.source = ? AND s.standing > 0 AND r.kind = 0
"""
_PROBED = "SELECT no FROM candidate WHERE source = ? AND renewed = ? AND rule = ? AND probe IS NULL"


class RunProgressReader:
    """The progress of the runs of one source."""

    def __init__(self, connection: Connection, source: int) -> None:
        self._connection = connection
        self._source = source

    def pending(self, run: int) -> Iterator[tuple[int, int]]:
        """Return (number, depth) of the pages reached and not visited, breadth first."""
        rows: Any = self._connection.execute(_PENDING, {"run": run})
        return iter(rows)

    def visited(self, run: int) -> Iterator[tuple[int, int]]:
        """Return (number, depth) of all pages that a run visited so far."""
        rows: Any = self._connection.execute(_VISITED, (run,))
        return iter(rows)

    def visited_elsewhere(self, run: int, scope: int) -> list[int]:
        """Return the numbers of visited pages whose links were filtered by another scope."""
        rows: Any = self._connection.execute(_VISITED_ELSEWHERE, (run, scope)).fetchall()
        return [no for (no,) in rows]

    def redirects(self, numbers: Sequence[int], run: int) -> dict[int, tuple[str, int | None]]:
        """Return the (target, its number) of those of ``numbers`` that redirected in a run."""
        if not numbers:
            return {}
        rows: Any = self._connection.execute(_REDIRECTS, (Many(numbers), run))
        return {no: (target, number) for no, target, number in rows}

    def not_asked_since(self, run: int, since: int) -> int:
        """Return the number of pages that a run reached and no run after ``since`` visited.

        This scans the run. Pages that robots.txt refused lead nowhere and do not count.
        """
        names = {"run": run, "since": since}
        return int(self._connection.execute(_NOT_ASKED_SINCE, names).get)

    def listing(self) -> str | None:
        """Return the stored facts about the last listing of the source."""
        found = self._connection.execute(_LISTING, (self._source,)).get
        return None if found is None else str(found)

    def held_files(self) -> Iterator[int]:
        """Return the numbers of the stored files of the source."""
        rows: Any = self._connection.execute(_HELD_FILES, (self._source,)).fetchall()
        return (no for (no,) in rows)

    def urls_beyond(self, run: int) -> list[str]:
        """Return the URLs of the pages that the listing of a run does not account for."""
        names = {"source": self._source, "run": run, "extraction": EXTRACTION_VERSION}
        rows: Any = self._connection.execute(_BEYOND, names).fetchall()
        return [url for (url,) in rows]

    def unnamed_sitemaps(self, run: int) -> list[tuple[int, int, int, bytes]]:
        """Return the stored sitemaps that a run did not reach.

        Each is (number, depth, scope, packed targets).
        """
        names = {"source": self._source, "run": run}
        rows: Any = self._connection.execute(_UNNAMED, names).fetchall()
        return list(rows)

    def to_verify(self, run: int) -> list[int]:
        """Return the candidates for removal as orphans that were not verified yet."""
        values = (self._source, run, RemovalRule.ORPHAN)
        rows: Any = self._connection.execute(_PROBED, values).fetchall()
        return [no for (no,) in rows]

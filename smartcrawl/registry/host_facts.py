"""Reading stored facts about hosts: robots.txt, trust, address counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from smartcrawl.model.batches import StoredRobots
from smartcrawl.registry.connection import Connection
from smartcrawl.rules.trust import Trust

_NOT_FOUND = """
SELECT n.profile FROM not_found n JOIN host h ON h.no = n.host WHERE h.name = ? AND n.at >= ?
"""
_ROBOTS = "SELECT fetched_at, status, etag, last_modified, body FROM robots WHERE origin = ?"
_ORIGINS = "SELECT origin FROM robots"
#: A host that was distrusted long ago may be repaired: its trust starts anew.
_TRUST = """
SELECT h.name, t.etags, t.frozen, t.dates, t.false_dates, t.repeated, t.rotated, t.ignored,
       t.honoured, t.contradictory, t.run, t.matched, t.unheard, t.rotating,
       t.plain_unheard, t.plain_heard
  FROM trust t JOIN host h ON h.no = t.host
 WHERE t.distrusted_at IS NULL OR t.distrusted_at >= ?
"""
_BLOCKED = "SELECT name FROM host WHERE is_blocked"
_HOST_COUNTS = """
SELECT h.name, count(*) FROM record r JOIN host h ON h.no = r.host
 WHERE r.source = ? GROUP BY h.no
"""
#: Addresses that may carry a session id (rules.traps), as far as LIKE finds them.
_SESSIONS = """
SELECT no, url FROM record
 WHERE source = ?
   AND (lower(url) LIKE '%session%=%' OR lower(url) LIKE '%sid=%' OR lower(url) LIKE '%?s=%'
        OR lower(url) LIKE '%&s=%' OR lower(url) LIKE '%;s=%')
 ORDER BY no
"""


class HostReader:
    """The facts about the hosts of one source."""

    def __init__(self, connection: Connection, source: int) -> None:
        self._connection = connection
        self._source = source

    def robots(self, origin: str) -> StoredRobots | None:
        """Return the last readable robots.txt of an origin."""
        row: Any = self._connection.execute(_ROBOTS, (origin,)).fetchone()
        return None if row is None else StoredRobots(*row)

    def robots_origins(self) -> list[str]:
        """Return the origins that have a stored robots.txt."""
        return [str(origin) for (origin,) in self._connection.execute(_ORIGINS)]

    def trust(self, since: int) -> dict[str, Trust]:
        """Return each host's trust record, forgetting distrust older than ``since``.

        ``since`` is Unix seconds.
        """
        rows: Any = self._connection.execute(_TRUST, (since,))
        return {name: Trust(*counts) for name, *counts in rows}

    def blocked_hosts(self) -> frozenset[str]:
        """Return the hosts that the operator blocked."""
        rows: Any = self._connection.execute(_BLOCKED).fetchall()
        return frozenset(name for (name,) in rows)

    def not_found(self, host: str, since: int) -> str | None:
        """Return the profile of a host's answers for missing pages, if it was probed lately.

        That is: since ``since``, in Unix seconds. The profile is empty where the host answers with
        a status.
        """
        row: Any = self._connection.execute(_NOT_FOUND, (host, since)).fetchone()
        return None if row is None else row[0] or ""

    def host_counts(self) -> list[tuple[str, int]]:
        """Return the number of stored addresses of each host; a scan of the source."""
        rows: Any = self._connection.execute(_HOST_COUNTS, (self._source,)).fetchall()
        return list(rows)

    def session_urls(self) -> Iterator[tuple[int, str]]:
        """Yield number and URL of addresses that may have a session id; the first begins a scan."""
        rows: Any = self._connection.execute(_SESSIONS, (self._source,))
        yield from rows

"""The hosts in the registry: stored facts about them, and their blocks by the operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from smartcrawl.model.batches import StoredRobots
from smartcrawl.model.times import iso_time
from smartcrawl.model.urls import display_url
from smartcrawl.registry.connection import Connection, Many, transaction
from smartcrawl.registry.visibility import Readable
from smartcrawl.rules.trust import Trust
from smartcrawl.sources.kinds import KINDS

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
_REFUSAL = "SELECT is_blocked, block_reason, retry_after, retry_after_at FROM host WHERE name = ?"
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

#: Of the first addresses of a source, which an index finds one by one.
_OF_SOURCE = """
SELECT h.name, f.count
  FROM (SELECT host, count(*) AS count
          FROM (SELECT host FROM record WHERE source = (SELECT no FROM source WHERE name = :name)
                 LIMIT :most) AS first
         GROUP BY host) AS f
  JOIN host h ON h.no = f.host
"""
#: Of all addresses, without that index: of many, a scan takes a fourteenth of the time.
_OF_LARGE_SOURCE = """
SELECT name FROM host
 WHERE no IN (SELECT host FROM record
               WHERE +source = (SELECT no FROM source WHERE name = :name))
"""
_FEW_ADDRESSES = 20_000

_HAS_PAGES = """
SELECT EXISTS (
    SELECT 1 FROM host h JOIN state s ON s.host = h.no JOIN record r ON r.no = s.no
     WHERE h.name = :host AND s.standing > 0
       AND (:every OR r.source IN (SELECT no FROM source WHERE name IN carray(:sources))))
"""


def is_host_of_stored_pages(connection: Connection, host: str, readable: Readable) -> bool:
    """Whether a source has a stored page of a host (its key); ``readable``: one of these."""
    values = {"host": host, "every": readable is None, "sources": Many(readable or ())}
    return bool(connection.execute(_HAS_PAGES, values).get)


def stored_source_hosts(connection: Connection, source: str) -> list[str]:
    """Return the hosts of the addresses of a source, by its name."""
    values = {"name": source, "most": _FEW_ADDRESSES}
    found: Any = connection.execute(_OF_SOURCE, values).fetchall()
    if sum(count for _, count in found) == _FEW_ADDRESSES:
        found = connection.execute(_OF_LARGE_SOURCE, {"name": source}).fetchall()
    return [str(row[0]) for row in found]


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


_HOSTS = """
WITH page (host, number, total) AS (
    SELECT r.host, count(*) FILTER (WHERE o.kind IN carray(:served)), count(*)
      FROM record r JOIN source o ON o.no = r.source
     WHERE :every OR o.name IN carray(:sources)
     GROUP BY r.host)
SELECT h.name, coalesce(p.number, 0), h.pages_crawled, h.pages_failed, h.crawl_delay_ms,
       n.delay_ms, n.in_flight, n.parked_until, n.paused_until, n.is_down, o.name,
       h.retry_after, h.retry_after_at, h.robots_fetched_at,
       (SELECT min(status) FROM robots
         WHERE origin IN ('https://' || h.name, 'http://' || h.name)),
       h.robots_failed_at, h.robots_error, h.is_blocked, h.block_reason,
       t.etags, t.frozen, t.dates, t.false_dates, t.repeated, t.rotated, t.ignored, t.honoured,
       t.contradictory, t.run, t.matched, t.unheard, t.rotating,
       t.plain_unheard, t.plain_heard
  FROM host h LEFT JOIN page p ON p.host = h.no
  LEFT JOIN host_now n ON n.host = h.no
  LEFT JOIN trust t ON t.host = h.no
  LEFT JOIN run u ON u.no = n.run LEFT JOIN source o ON o.no = u.source
 WHERE (:every OR p.number > 0) AND (p.total IS NULL OR p.number > 0 OR h.is_blocked)
 ORDER BY h.name
"""
_ALL_TRUST = """
SELECT h.name, t.etags, t.frozen, t.dates, t.false_dates, t.repeated, t.rotated, t.ignored,
       t.honoured, t.contradictory, t.run, t.matched, t.unheard, t.rotating,
       t.plain_unheard, t.plain_heard
  FROM trust t JOIN host h ON h.no = t.host
 WHERE t.distrusted_at IS NOT NULL OR t.rotating > 0 OR t.ignored > 0
"""
#: The last visits of the pages of some sources at hosts at which other sources have pages, too.
_SHARED = """
SELECT h.name, count(*) FILTER (WHERE s.status IN (1, 2)), count(*) FILTER (WHERE s.status = 3)
  FROM record r JOIN state s USING (no)
  JOIN source o ON o.no = r.source JOIN host h ON h.no = r.host
 WHERE o.name IN carray(:sources)
   AND r.host IN (SELECT other.host FROM record other JOIN source p ON p.no = other.source
                   WHERE NOT p.name IN carray(:sources))
 GROUP BY h.name
"""
_ROBOTS_BODY = "SELECT body FROM robots WHERE origin IN (?, ?) AND status < 400"
_BLOCK = """
INSERT INTO host (name, display, is_blocked, block_reason) VALUES (?, ?, TRUE, ?)
ON CONFLICT (name) DO UPDATE SET is_blocked = TRUE, block_reason = excluded.block_reason
"""
_UNBLOCK = "UPDATE host SET is_blocked = FALSE, block_reason = NULL WHERE name = ? AND is_blocked"

HOST_KEYS = (
    "host", "pages", "pagesCrawled", "pagesFailed", "errorRate", "crawlDelayMs", "delayMs",
    "inFlight", "parkedUntil", "pausedUntil", "down", "retryAfter", "retryAfterAt", "robots",
    "robotsFetchedAt", "robotsError", "blocked", "blockReason", "distrusted",
)  # fmt: skip


def host_rows(
    connection: Connection,
    *,
    sources: Sequence[str] = (),
    is_running: Callable[[str], bool] = lambda source: False,
    is_robots_txt: Callable[[bytes], bool] = lambda body: True,
    readable: Readable = None,
) -> Iterator[dict[str, Any]]:
    """Yield every host, ordered by name; with ``sources`` only hosts with pages of those.

    ``readable``: the sources that the caller may read, None: all. At hosts at which others have
    pages, the visits are the last ones of the pages of these sources.

    The places of files are none: no server is asked for them.

    ``is_running`` returns whether a source is being crawled; the figures of the running crawl are
    empty for a source whose process died. ``robots`` is ``rules``, ``none`` (robots.txt answered
    4xx, or a body that is none by ``is_robots_txt``), ``unknown`` (the last request for it failed)
    or None (it was never requested).
    """
    row: Any
    served = Many([kind.name for kind in KINDS.values() if kind.is_polite])
    wanted = {"sources": Many(sources), "every": not sources, "served": served}
    shared = _shared_visits(connection, readable)
    for row in connection.execute(_HOSTS, wanted):
        name, pages, crawled, failed, crawl_delay = row[:5]
        crawled, failed = shared.get(name, (crawled, failed))
        is_seen = row[10] is not None and (readable is None or row[10] in readable)
        now = row[5:10] if is_seen and is_running(row[10]) else (None,) * 5
        retry_after, asked_at, fetched_at, status, failed_at, error, blocked, reason = row[11:19]
        trust = Trust(*(count or 0 for count in row[19:]))
        unknown = failed_at is not None and failed_at > (fetched_at or 0)
        robots = None if status is None else "none"
        if status is not None and status < 400:
            bodies = connection.execute(_ROBOTS_BODY, (f"https://{name}", f"http://{name}"))
            robots = (
                "rules" if any(is_robots_txt(body) for (body,) in bodies.fetchall()) else "none"
            )
        values = (
            name,
            pages,
            crawled,
            failed,
            round(failed / (crawled + failed), 4) if crawled + failed else 0.0,
            crawl_delay,
            now[0],
            now[1] or 0,
            iso_time(now[2]),
            iso_time(now[3]),
            bool(now[4]),
            retry_after,
            iso_time(asked_at),
            "unknown" if unknown else robots,
            iso_time(fetched_at),
            error if unknown else None,
            bool(blocked),
            reason,
            trust.distrust_reasons(),
        )
        yield dict(zip(HOST_KEYS, values, strict=True))


def _shared_visits(connection: Connection, readable: Readable) -> dict[str, tuple[int, int]]:
    """Return the visits at hosts at which other sources have pages, too: answers, and failures."""
    if readable is None:
        return {}
    rows: Any = connection.execute(_SHARED, {"sources": Many(readable)}).fetchall()
    return {name: (crawled, failed) for name, crawled, failed in rows}


def distrusted_host_rows(connection: Connection) -> dict[str, Trust]:
    """Return the trust records of hosts that lied or ignored a tag, as the next run sees them."""
    rows: Any = connection.execute(_ALL_TRUST)
    known = {name: Trust(*counts) for name, *counts in rows}
    return {name: trust.at(trust.run + 1) for name, trust in known.items()}


def reason_against_host(connection: Connection, host: str, now: int) -> str | None:
    """Return why no request goes to a host at ``now`` (Unix seconds), or None."""
    row: Any = connection.execute(_REFUSAL, (host,)).fetchone()
    if row is None:
        return None
    is_blocked, reason, seconds, at = row
    if is_blocked:
        return f"{host} is blocked{f': {reason}' if reason else ''}"
    if seconds is not None and at is not None and now < at + seconds:
        return f"{host} asked by Retry-After for no request before {iso_time(at + seconds)}"
    return None


def store_host_block_row(connection: Connection, host: str, reason: str | None) -> None:
    """Block a host from the next run on; a new host is added."""
    shown = display_url(f"http://{host}").removeprefix("http://")
    with transaction(connection):
        connection.execute(_BLOCK, (host, shown if shown != host else None, reason))


def delete_host_block_row(connection: Connection, host: str) -> bool:
    """Unblock a host from the next run on; return whether it was blocked."""
    with transaction(connection):
        connection.execute(_UNBLOCK, (host,))
        return bool(connection.changes())

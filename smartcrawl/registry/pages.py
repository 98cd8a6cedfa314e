"""Reading pages when their turn comes: one statement for a hundred of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from smartcrawl.model.batches import StoredRobots
from smartcrawl.model.pages import Page, Unreadable
from smartcrawl.model.ports import Connection, Many
from smartcrawl.registry.commit.collapsed import had_text
from smartcrawl.registry.commit.snapshots import Place, Snapshots
from smartcrawl.registry.commit.unreadable import find
from smartcrawl.registry.database.sequences import last
from smartcrawl.rules.http import MAX_REDIRECTS
from smartcrawl.rules.model import Rule, Standing, Status
from smartcrawl.rules.moves import canonical_of
from smartcrawl.rules.trust import Trust

_PAGES = """
SELECT r.no, r.url, h.name, s.depth, s.standing, s.status, s.effective_status, r.etag,
       r.last_modified, r.body_hash, r.content, coalesce(r.content_length, 0),
       coalesce(r.configuration, 0), coalesce(l.scope, 0), l.targets, s.reached_run,
       r.error_message IS NOT NULL OR r.redirect_target IS NOT NULL,
       s.lost_count, s.gone_count, s.lost_since, s.gone_since, s.unchanged_count, s.error_count,
       r.canonical_no, r.last_indexed IS NOT NULL, r.first_run, r.kind,
       r.redirect_target IS NOT NULL, s.next_visit, s.last_checked,
       i.generation, i.requested OR i.generation > i.processed, r.snapshot, s.attempts,
       coalesce(r.verified_at, r.last_indexed), s.http_status, r.signs, s.visited_run,
       s.etag_marks
  FROM record r JOIN state s USING (no) LEFT JOIN links l USING (no) LEFT JOIN item i USING (no)
  JOIN host h ON h.no = r.host
 WHERE r.no IN carray(?)
"""
_NUMBERS = "SELECT id, no FROM record WHERE source = ? AND id IN carray(?)"
_HASHES = """
SELECT coalesce(c.content_hash, r.content_hash), coalesce(c.text_hash, r.text_hash)
  FROM record r LEFT JOIN content c ON c.no = r.content WHERE r.no = ?
"""
_NOT_FOUND = """
SELECT n.profile FROM not_found n JOIN host h ON h.no = n.host WHERE h.name = ? AND n.at >= ?
"""
_TEXT_LENGTH = "SELECT text_length FROM content WHERE no = ?"
_TOLD = "SELECT sample, language FROM content WHERE no = ? AND sample IS NOT NULL"
_CANONICAL_URL = "SELECT canonical_url FROM record WHERE no = ?"
_LINKS = "SELECT no, raw FROM links WHERE no IN carray(?)"
_TARGETS = """
SELECT l.scope, l.targets, r.kind > 0 OR (s.standing = 0 AND r.redirect_target IS NOT NULL)
  FROM links l JOIN record r USING (no) JOIN state s USING (no)
 WHERE l.no = ? AND (s.visited_run <= s.seen_run OR r.kind > 0)
   AND NOT EXISTS (SELECT 1 FROM collapse WHERE no = l.no)
"""
_PENDING = """
SELECT no, depth FROM state WHERE reached_run = :run AND visited_run < :run ORDER BY depth, no
"""
#: Held, and not reached by this run so far.
_UNNAMED = """
SELECT r.no, s.depth, l.scope, l.targets
  FROM record r JOIN state s USING (no) JOIN links l USING (no)
 WHERE r.source = :source AND r.kind > 0 AND s.standing = 1 AND s.reached_run < :run
"""
_HOST_COUNTS = """
SELECT h.name, count(*) FROM record r JOIN host h ON h.no = r.host
 WHERE r.source = ? GROUP BY h.no
"""
#: Addresses that may carry a session id (rules.traps), as far as LIKE can tell.
_SESSIONS = """
SELECT url FROM record
 WHERE source = ?
   AND (lower(url) LIKE '%sess%' OR lower(url) LIKE '%cftoken=%' OR lower(url) LIKE '%sid=%'
        OR lower(url) LIKE '%cfid=%' OR lower(url) LIKE '%zenid=%' OR lower(url) LIKE '%?s=%'
        OR lower(url) LIKE '%&s=%' OR lower(url) LIKE '%;s=%')
 ORDER BY no
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
_REDIRECT = "SELECT redirect_target, redirect_no FROM record WHERE no = ?"
_NOT_ASKED_SINCE = """
SELECT count(*) FROM state
 WHERE reached_run = :run AND seen_run = :run AND visited_run < :run AND visited_run <= :since
"""
_ORIGINS = "SELECT origin FROM robots"
_LAST_VISITS = "SELECT no, last_checked FROM state WHERE no IN carray(?) AND last_checked > 0"
_NEXT_HOP = """
SELECT s.standing = 2 AND s.lost_count = 0,
       CASE WHEN s.standing > 0 THEN r.canonical_no ELSE r.redirect_no END
  FROM record r JOIN state s USING (no) WHERE r.no = ?
"""
_PINS = "SELECT r.no, r.url FROM pin p JOIN record r USING (no) WHERE p.source = ?"
_PROBED = "SELECT no FROM candidate WHERE source = ? AND renewed = ? AND rule = ? AND probe IS NULL"
_ROBOTS = "SELECT fetched_at, status, etag, last_modified, body FROM robots WHERE origin = ?"
#: What was found out long ago may have been mended since: it is learnt anew.
_TRUST = """
SELECT h.name, t.etags, t.frozen, t.dates, t.false_dates, t.repeated, t.rotated, t.ignored,
       t.honoured, t.contradictory, t.run, t.matched, t.matched_before
  FROM trust t JOIN host h ON h.no = t.host
 WHERE t.distrusted_at IS NULL OR t.distrusted_at >= ?
"""
_CONFIGURATIONS = "SELECT no FROM fingerprint WHERE extraction = ?"
_BLOCKED = "SELECT name FROM host WHERE is_blocked"


def leads_to_indexed(connection: Connection, no: int, origin: int) -> bool:
    """Whether ``no``, which ``origin`` names as canonical, leads to a page that is indexed.

    That is: held and not lost. What is held leads to the page that it names, what moved to
    its target (rules.moves.canonical_of).
    """
    leads: dict[int, int | None] = {origin: no}
    indexed: set[int] = set()
    hop: int | None = no
    while hop is not None and hop not in leads and len(leads) <= MAX_REDIRECTS + 1:
        row: Any = connection.execute(_NEXT_HOP, (hop,)).fetchone()
        if row is None:
            break
        if row[0]:
            indexed.add(hop)
        leads[hop] = row[1]
        hop = row[1]
    return canonical_of(origin, leads, indexed) is not None


class PageReader:
    """The loop's own connection: it sees what is committed and waits for nobody."""

    def __init__(self, connection: Connection, source: int) -> None:
        self._connection = connection
        self._source = source

    def close(self) -> None:
        """Close the connection; the last one of a file leaves no write-ahead log behind."""
        self._connection.close()

    def pages(self, numbers: Sequence[int], since: int) -> list[Page]:
        """Return the pages of ``numbers`` in their order; unknown numbers are left out.

        A stored depth counts while the page stayed reached, that is since run ``since``;
        else ``depth`` is 0xFFFF and the depth at which it was offered decides (M-24).
        """
        found: dict[int, Page] = {}
        row: Any
        for row in self._connection.execute(_PAGES, (Many(numbers),)):
            found[row[0]] = Page(
                no=row[0],
                url=row[1],
                host=row[2],
                depth=row[3] if row[15] >= since else 0xFFFF,
                standing=Standing(row[4]),
                status=Status(row[5]),
                effective_status=row[6],
                etag=row[7],
                last_modified=row[8],
                body_hash=row[9],
                content=row[10],
                content_length=row[11],
                configuration=row[12],
                scope=row[13],
                targets=row[14],
                noted=bool(row[16]),
                lost_count=row[17],
                gone_count=row[18],
                lost_since=row[19],
                gone_since=row[20],
                unchanged_count=row[21],
                error_count=row[22],
                canonical_no=row[23],
                was_held=bool(row[24]),
                first_run=row[25],
                kind=row[26],
                moved=bool(row[27]),
                next_visit=row[28],
                last_checked=row[29],
                generation=row[30] or 0,
                ordered=bool(row[31]),
                snapshot=row[32],
                attempts=row[33],
                verified_at=row[34],
                http_status=row[35],
                signs=row[36],
                visited_run=row[37],
                etag_marks=row[38],
            )
        return [found[number] for number in numbers if number in found]

    def numbers(self, ids: Sequence[bytes]) -> dict[bytes, int]:
        """Return the numbers of those ids (32 bytes each) that are known."""
        if not ids:
            return {}
        values = (self._source, Many(ids))
        rows: Any = self._connection.execute(_NUMBERS, values)
        return dict(rows.fetchall())

    def configurations(self, extraction: int) -> frozenset[int]:
        """Return the fingerprints of all configurations under which a version extracted."""
        rows: Any = self._connection.execute(_CONFIGURATIONS, (extraction,))
        return frozenset(no for (no,) in rows)

    def content_hash(self, no: int) -> bytes | None:
        """Return the hash of what is held of a page."""
        return self.hashes(no)[0]

    def hashes(self, no: int) -> tuple[bytes | None, bytes | None]:
        """Return the hashes of the content and of the text that are stored of a page."""
        row: Any = self._connection.execute(_HASHES, (no,)).fetchone()
        return (None, None) if row is None else (row[0], row[1])

    def had_text(self, no: int, text_hash: bytes) -> bool:
        """Whether a page had a text not long ago (collapsed.had_text)."""
        return had_text(self._connection, no, text_hash)

    def not_found(self, host: str, since: int) -> str | None:
        """Return what a host answers for what cannot exist, if it was asked since then."""
        row: Any = self._connection.execute(_NOT_FOUND, (host, since)).fetchone()
        return None if row is None else row[0] or ""

    def text_length(self, content: int) -> int:
        """Return how many characters of text a content has."""
        return int(self._connection.execute(_TEXT_LENGTH, (content,)).get or 0)

    def told(self, content: int) -> tuple[bytes, str] | None:
        """Return the digest of the text that told the language of a content, and that language."""
        row: Any = self._connection.execute(_TOLD, (content,)).fetchone()
        return None if row is None else (row[0], row[1])

    def unreadable(self, body_hash: bytes, extraction: int, media: str) -> Unreadable | None:
        """Return why an extraction cannot read a body, None if that is not known."""
        return find(self._connection, body_hash, extraction, media)

    def canonical_url(self, no: int) -> str | None:
        """Return what a page named as canonical when it was read last."""
        value: str | None = self._connection.execute(_CANONICAL_URL, (no,)).get
        return value

    def snapshot(self, snapshots: Snapshots, no: int) -> Place:
        """Return where the snapshot of a page lies (Snapshots.find)."""
        return snapshots.find(self._connection, no)

    def raw_links(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """Return the packed raw links of pages that have some."""
        rows: Any = self._connection.execute(_LINKS, (Many(numbers),))
        return dict(rows.fetchall())

    def targets(self, no: int) -> tuple[int, bytes, bool] | None:
        """Return (scope, packed targets, whether they lie as deep) of a page with links.

        What was excluded when it was visited last vouches for nothing. The links of a collapsed
        page that waits are offered when the run has decided about it.
        """
        row: Any = self._connection.execute(_TARGETS, (no,)).fetchone()
        return None if row is None else (row[0], row[1], bool(row[2]))

    def unnamed_sitemaps(self, run: int) -> list[tuple[int, int, int, bytes]]:
        """Return (number, depth, scope, packed targets) of sitemaps that a run did not reach."""
        names = {"source": self._source, "run": run}
        rows: Any = self._connection.execute(_UNNAMED, names).fetchall()
        return list(rows)

    def host_counts(self) -> list[tuple[str, int]]:
        """Return how many addresses of each host are known; a scan of the source."""
        rows: Any = self._connection.execute(_HOST_COUNTS, (self._source,)).fetchall()
        return list(rows)

    def session_urls(self) -> Iterator[str]:
        """Yield the addresses that may carry a session id; a scan, when the first is asked for."""
        rows: Any = self._connection.execute(_SESSIONS, (self._source,))
        for (url,) in rows:
            yield url

    def pending(self, run: int) -> Iterator[tuple[int, int]]:
        """Return (number, depth) of what was reached and not visited, breadth first."""
        rows: Any = self._connection.execute(_PENDING, {"run": run})
        return iter(rows)

    def redirects(self, numbers: Sequence[int], run: int) -> dict[int, tuple[str, int | None]]:
        """Return the (target, its number) of those of ``numbers`` that redirected in a run."""
        if not numbers:
            return {}
        rows: Any = self._connection.execute(_REDIRECTS, (Many(numbers), run))
        return {no: (target, number) for no, target, number in rows}

    def redirect(self, no: int) -> tuple[str | None, int | None]:
        """Return where a page redirected to when it was asked last, and the number of that."""
        row: Any = self._connection.execute(_REDIRECT, (no,)).fetchone()
        return row[0], row[1]

    def not_asked_since(self, run: int, since: int) -> int:
        """Return how many pages a run reached that were not asked after run ``since``; a scan.

        What robots.txt refused leads nowhere and does not count.
        """
        names = {"run": run, "since": since}
        return int(self._connection.execute(_NOT_ASKED_SINCE, names).get)

    def robots_origins(self) -> list[str]:
        """Return the origins whose robots.txt was ever read."""
        return [str(origin) for (origin,) in self._connection.execute(_ORIGINS)]

    def visited(self, run: int) -> Iterator[tuple[int, int]]:
        """Return (number, depth) of everything that a run visited so far."""
        rows: Any = self._connection.execute(_VISITED, (run,))
        return iter(rows)

    def visited_elsewhere(self, run: int, scope: int) -> list[int]:
        """Return what a run visited and whose links were not filtered by this scope."""
        rows: Any = self._connection.execute(_VISITED_ELSEWHERE, (run, scope)).fetchall()
        return [no for (no,) in rows]

    def last_visits(self, numbers: Sequence[int]) -> dict[int, int]:
        """Return when (Unix seconds) those of ``numbers`` were visited last that ever were."""
        rows: Any = self._connection.execute(_LAST_VISITS, (Many(numbers),))
        return dict(rows.fetchall())

    def leads_to_indexed(self, no: int, origin: int) -> bool:
        """Whether what ``origin`` names leads to a page that is indexed (``leads_to_indexed``)."""
        return leads_to_indexed(self._connection, no, origin)

    def pins(self) -> list[tuple[int, str]]:
        """Return (number, URL) of the addresses that were registered by hand."""
        rows: Any = self._connection.execute(_PINS, (self._source,)).fetchall()
        return list(rows)

    def to_verify(self, run: int) -> list[int]:
        """Return the candidates for removal as orphans that nobody looked at yet."""
        values = (self._source, run, Rule.ORPHAN)
        rows: Any = self._connection.execute(_PROBED, values).fetchall()
        return [no for (no,) in rows]

    def robots(self, origin: str) -> StoredRobots | None:
        """Return the last robots.txt of an origin that could be read."""
        row: Any = self._connection.execute(_ROBOTS, (origin,)).fetchone()
        return None if row is None else StoredRobots(*row)

    def trust(self, since: int) -> dict[str, Trust]:
        """Return what is known of each host; what is not believed since before ``since`` is not."""
        rows: Any = self._connection.execute(_TRUST, (since,))
        return {name: Trust(*counts) for name, *counts in rows}

    def blocked_hosts(self) -> frozenset[str]:
        """Return the hosts that the operator blocked."""
        rows: Any = self._connection.execute(_BLOCKED).fetchall()
        return frozenset(name for (name,) in rows)

    def last_number(self) -> int:
        """Return the highest number that was ever reserved."""
        return last(self._connection, "address")

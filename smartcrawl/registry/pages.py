"""Reading pages when their turn comes: one statement for a hundred of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from smartcrawl.model.pages import ListedRecord, Page, PageRecord, PageState
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.database.sequences import last_sequence_number
from smartcrawl.registry.spellings import stored_spellings
from smartcrawl.rules.files import FAULTS_OF_BYTES
from smartcrawl.rules.http import MAX_REDIRECTS
from smartcrawl.rules.model import Standing, Status, Word
from smartcrawl.rules.moves import canonical_after_moves
from smartcrawl.rules.schedule import DAY
from smartcrawl.sources.extraction import EXTRACTION_VERSION

_PAGES = """
SELECT r.no, r.url, h.name, s.depth, s.reached_run, r.kind,
       r.etag, r.last_modified, r.body_hash, r.content, coalesce(r.content_length, 0),
       coalesce(r.configuration, 0), r.snapshot, coalesce(r.verified_at, r.last_indexed),
       r.canonical_no, coalesce(l.scope, 0), l.targets, r.first_run, r.signs,
       r.error_message IS NOT NULL OR r.redirect_target IS NOT NULL,
       r.redirect_target IS NOT NULL, r.last_indexed IS NOT NULL,
       s.standing, s.status, i.requested OR i.generation > i.processed, i.generation,
       s.effective_status, s.http_status, s.visited_run, s.attempts, s.last_checked, s.next_visit,
       s.unchanged_count, s.error_count, s.lost_count, s.gone_count, s.lost_since, s.gone_since,
       s.etag_marks
  FROM record r JOIN state s USING (no) LEFT JOIN links l USING (no) LEFT JOIN item i USING (no)
  JOIN host h ON h.no = r.host
 WHERE r.no IN carray(?)
"""
_COMPLETE_SINCE = "SELECT count(*) FROM run WHERE source = ? AND no >= ? AND complete"
_NUMBERS = "SELECT id, no FROM record WHERE source = ? AND id IN carray(?)"
_ADDRESSES = "SELECT id, no, url FROM record WHERE source = ? AND id IN carray(?)"
_LISTED_ROWS = """
SELECT {key}, r.no, h.name, r.etag, coalesce(r.content_length, 0), coalesce(r.configuration, 0),
       coalesce(r.verified_at, r.last_indexed),
       s.standing = 2 AND s.status = 2 AND s.lost_count = 0 AND r.error_message IS NULL
       AND r.redirect_target IS NULL
       AND NOT coalesce(i.requested OR i.generation > i.processed, :never),
       s.visited_run, s.attempts, s.etag_marks,
       s.standing = 1 AND r.redirect_target IS NULL
       AND NOT coalesce(i.requested OR i.generation > i.processed, :never),
       CASE WHEN NOT coalesce(i.requested OR i.generation > i.processed, :never) THEN {unread} END,
       coalesce(r.unread_length, 0)
  FROM record r JOIN state s USING (no) LEFT JOIN item i USING (no) JOIN host h ON h.no = r.host
 WHERE r.source = :source AND {condition}
"""


#: ``rules.schedule.is_due`` in SQL, of a row of state; the value ``now`` is Unix seconds.
STATE_IS_DUE_SQL: Final = (
    f"(next_visit IS NULL OR next_visit <= :now OR last_checked > :now + {DAY})"
)


def unread_etag_sql(extraction: str) -> str:
    """Return in SQL the validator of a file that could not be read at its last visit, or NULL.

    ``extraction``: EXTRACTION_VERSION in SQL. The aliases are ``r`` of record and ``s`` of state.
    """
    faults = ", ".join(str(int(fault)) for fault in sorted(FAULTS_OF_BYTES))
    return (
        f"CASE WHEN r.unread_extraction = {extraction} AND s.outcome = {int(Word.FAILED)}"
        f" AND s.http_status IN ({faults}) THEN r.unread_etag END"
    )


_UNREAD = unread_etag_sql(":extraction")
_LISTED = _LISTED_ROWS.format(key="r.id", condition="r.id IN carray(:ids)", unread=_UNREAD)
_ALL_LISTED = _LISTED_ROWS.format(
    key="r.url",
    condition="r.no > :after AND s.standing > 0 AND r.kind = 0 ORDER BY r.no LIMIT :most",
    unread=_UNREAD,
)
_LINKS = "SELECT no, raw FROM links WHERE no IN carray(?)"
_TARGETS = """
SELECT l.scope, l.targets, r.kind > 0 OR (s.standing = 0 AND r.redirect_target IS NOT NULL)
  FROM links l JOIN record r USING (no) JOIN state s USING (no)
 WHERE l.no = ? AND (s.visited_run <= s.seen_run OR r.kind > 0)
   AND NOT EXISTS (SELECT 1 FROM collapse WHERE no = l.no)
"""
_REDIRECT = "SELECT redirect_target, redirect_no FROM record WHERE no = ?"
_LAST_VISITS = "SELECT no, last_checked FROM state WHERE no IN carray(?) AND last_checked > 0"
_NEXT_HOP = """
SELECT s.standing = 2 AND s.lost_count = 0,
       CASE WHEN s.standing > 0 THEN r.canonical_no ELSE r.redirect_no END
  FROM record r JOIN state s USING (no) WHERE r.no = ?
"""
_PINS = """
SELECT r.no, r.url, p.priority FROM pin p JOIN record r USING (no) WHERE p.source = ?
 ORDER BY p.priority, r.no
"""
_POSTED = "SELECT url, priority FROM pending_pin WHERE source = ? ORDER BY priority, at, id"


def row_leads_to_indexed_record(connection: Connection, no: int, origin: int) -> bool:
    """Whether ``no``, which ``origin`` names as canonical, leads to an indexed page.

    A page is indexed if its content is stored and it is not lost. A stored page leads to the page
    that it names as canonical, a page that moved to its target (rules.moves.canonical_after_moves).
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
    return canonical_after_moves(origin, leads, indexed) is not None


class PageReader:
    """The pages of one source, with their links."""

    def __init__(self, connection: Connection, source: int) -> None:
        self._connection = connection
        self._source = source
        #: Values of the statements of listings.
        self._listing = {"source": source, "never": False, "extraction": EXTRACTION_VERSION}

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
                depth=row[3] if row[4] >= since else 0xFFFF,
                kind=row[5],
                record=PageRecord(*row[6:19], *map(bool, row[19:22])),
                state=PageState(
                    Standing(row[22]), Status(row[23]), bool(row[24]), row[25] or 0, *row[26:]
                ),
            )
        return [found[number] for number in numbers if number in found]

    def numbers(self, ids: Sequence[bytes]) -> dict[bytes, int]:
        """Return the numbers of those ids (32 bytes each) that are in the registry."""
        if not ids:
            return {}
        values = (self._source, Many(ids))
        rows: Any = self._connection.execute(_NUMBERS, values)
        return dict(rows.fetchall())

    def addresses(self, ids: Sequence[bytes]) -> dict[bytes, tuple[int, str]]:
        """Return number and request address of those ids (32 bytes each) that are known."""
        if not ids:
            return {}
        rows: Any = self._connection.execute(_ADDRESSES, (self._source, Many(ids)))
        return {bytes(key): (no, url) for key, no, url in rows}

    def spellings(self, no: int) -> list[str]:
        """Return the other spellings under which a page was linked, the newest first."""
        return stored_spellings(self._connection, no)

    def listed(self, ids: Sequence[bytes]) -> dict[bytes, ListedRecord]:
        """Return those ids (32 bytes each) that are in the registry, as a listing needs them."""
        values = self._listing | {"ids": Many(ids)}
        rows: Any = self._connection.execute(_LISTED, values)
        return {bytes(row[0]): ListedRecord._make(row[1:]) for row in rows}

    def all_listed(self, after: int, most: int) -> list[tuple[str, ListedRecord]]:
        """Return URL and record of stored pages with numbers above ``after``, in their order."""
        values = self._listing | {"after": after, "most": most}
        rows: Any = self._connection.execute(_ALL_LISTED, values)
        return [(row[0], ListedRecord._make(row[1:])) for row in rows]

    def raw_links(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """Return the packed raw links of pages that have some."""
        rows: Any = self._connection.execute(_LINKS, (Many(numbers),))
        return dict(rows.fetchall())

    def complete_runs_since(self, run: int) -> int:
        """Return the number of complete runs of the source from ``run`` on."""
        return int(self._connection.execute(_COMPLETE_SINCE, (self._source, run)).get)

    def targets(self, no: int) -> tuple[int, bytes, bool] | None:
        """Return (scope, packed targets, whether their depth is the page's) of a page with links.

        A page that was excluded at its last visit vouches for no link. The links of a collapsed
        page that waits are offered when the run has decided about it.
        """
        row: Any = self._connection.execute(_TARGETS, (no,)).fetchone()
        return None if row is None else (row[0], row[1], bool(row[2]))

    def redirect(self, no: int) -> tuple[str | None, int | None]:
        """Return the target of a page's last redirect, and the target's number."""
        row: Any = self._connection.execute(_REDIRECT, (no,)).fetchone()
        return row[0], row[1]

    def leads_to_indexed(self, no: int, origin: int) -> bool:
        """Whether ``no``, which ``origin`` names as canonical, leads to an indexed page."""
        return row_leads_to_indexed_record(self._connection, no, origin)

    def last_visits(self, numbers: Sequence[int]) -> dict[int, int]:
        """Return the times (Unix seconds) of the last visits to those ``numbers`` that had one."""
        rows: Any = self._connection.execute(_LAST_VISITS, (Many(numbers),))
        return dict(rows.fetchall())

    def pins(self) -> list[tuple[int, str, int]]:
        """Return (number, URL, priority) of the pinned addresses, the most urgent first."""
        rows: Any = self._connection.execute(_PINS, (self._source,)).fetchall()
        return list(rows)

    def posted(self, source: str) -> list[tuple[str, int]]:
        """Return (URL, priority) of the addresses that wait to be pinned, by the source's name."""
        rows: Any = self._connection.execute(_POSTED, (source,)).fetchall()
        return list(rows)

    def last_number(self) -> int:
        """Return the highest number that was ever reserved."""
        return last_sequence_number(self._connection, "address")

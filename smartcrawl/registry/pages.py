"""Reading pages when their turn comes: one statement for a hundred of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from smartcrawl.model.documents import CUT, Document
from smartcrawl.model.pages import ListedRecord, Page, PageRecord, PageState, Unreadable
from smartcrawl.registry.commit.collapsed import stored_row_had_text
from smartcrawl.registry.commit.record import find_unreadable_row
from smartcrawl.registry.commit.snapshots import Place, Snapshots
from smartcrawl.registry.connection import Connection, Many, last_sequence_number
from smartcrawl.registry.hosts import HostReader
from smartcrawl.registry.pack import unpack_stored_document, unpack_stored_links
from smartcrawl.registry.render_samples import SampleReader
from smartcrawl.registry.rendered import RenderedReader
from smartcrawl.registry.spellings import stored_spellings
from smartcrawl.rules.files import FAULTS_OF_BYTES
from smartcrawl.rules.http import MAX_REDIRECTS
from smartcrawl.rules.model import Fault, RemovalRule, Standing, Status, Word
from smartcrawl.rules.moves import canonical_after_moves
from smartcrawl.rules.schedule import DAY
from smartcrawl.sources.base import EXTRACTION_VERSION

#: Any of several equal ones serves. The index is that of files alone, by a condition on ``media``.
_FIND = """
SELECT c.published, c.author,
       c.title, c.description, c.language, c.charset, c.keywords, c.document, c.content_hash,
       c.text_hash, c.sample, r.canonical_url, r.signs, l.raw, r.url
  FROM record r JOIN content c ON c.no = r.content LEFT JOIN links l ON l.no = r.no
 WHERE r.source = ? AND r.body_hash = ? AND r.media = ? AND r.configuration = ?
 LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class StoredExtraction:
    """All that was extracted from a body, out of the registry."""

    document: Document  #: includes the links
    content_hash: bytes
    text_hash: bytes
    sample: bytes | None  #: digest of the text that the language was detected from
    signs: int  #: bits of model.pages.PageRecord.signs
    url: str  #: of the page


def find_stored_extraction(
    connection: Connection, source: int, body_hash: bytes, media: str, configuration: int
) -> StoredExtraction | None:
    """Return the extraction of an indexed page of a source with these bytes, or None.

    The page was read as the same type, ``media``, under the same ``configuration``
    (fingerprint.no).
    """
    values = (source, body_hash, media, configuration)
    row: Any = connection.execute(_FIND, values).fetchone()
    if row is None:
        return None
    title, description, language, charset, keywords, packed, content, text, sample = row[2:11]
    canonical, signs, raw, url = row[11:]
    links = [] if raw is None else unpack_stored_links(raw)
    kept = tuple(link for link in links if link.type != CUT)
    document = replace(
        unpack_stored_document(packed),
        title=title,
        description=description,
        language=language,
        charset=charset,
        keywords=keywords or "",
        published=row[0],
        author=row[1],
        content_type=media.partition(";")[0],
        canonical=canonical,
        links=kept,
        links_cut=any(link.type == CUT and not link.anchor for link in links),
        overlong=tuple(link.url for link in links if link.type == CUT and link.anchor),
    )
    return StoredExtraction(document, content, text, sample, signs, url)


_HASHES = """
SELECT coalesce(c.content_hash, r.content_hash), coalesce(c.text_hash, r.text_hash)
  FROM record r LEFT JOIN content c ON c.no = r.content WHERE r.no = ?
"""
_DOCUMENT = "SELECT document FROM content WHERE no = ?"
#: Changes ascend by number. In a CROSS JOIN, SQLite reads the last ones of all sources first, and
#: not every record of the source.
_LAST_CHANGES = """
SELECT r.no, c.text_hash,
       max(h.run) > (SELECT coalesce(max(no), 0) FROM run WHERE source = :source AND complete)
  FROM (SELECT record, run FROM change ORDER BY no DESC LIMIT :most) AS h
 CROSS JOIN record r CROSS JOIN content c
 WHERE r.no = h.record AND c.no = r.content AND r.source = :source
 GROUP BY r.no, c.text_hash
"""
#: The same with the documents of texts that are not too long for ``rules.shield``.
_LAST_DOCUMENTS = """
SELECT r.no, c.document FROM (SELECT record FROM change ORDER BY no DESC LIMIT :most) AS h
 CROSS JOIN record r CROSS JOIN content c
 WHERE r.no = h.record AND c.no = r.content AND r.source = :source AND c.text_length <= :longest
   AND c.document IS NOT NULL
 GROUP BY r.no, c.no
"""
_MOST_CHANGES: Final = 1_000
_TEXT_LENGTH = "SELECT text_length FROM content WHERE no = ?"
_TITLE = "SELECT title FROM content WHERE no = ?"
_LANGUAGE = "SELECT sample, language FROM content WHERE no = ? AND sample IS NOT NULL"
_CANONICAL_URL = "SELECT canonical_url FROM record WHERE no = ?"
_TURNED = "SELECT max(at) FROM event WHERE record = ?"
_CONFIGURATIONS = "SELECT no FROM fingerprint WHERE extraction = ?"


class ContentReader:
    """The stored contents of one source's pages, by their numbers or by their bytes."""

    def __init__(self, connection: Connection, source: int) -> None:
        self._connection = connection
        self._source = source

    def content_hash(self, no: int) -> bytes | None:
        """Return the hash of a page's stored content."""
        return self.hashes(no)[0]

    def hashes(self, no: int) -> tuple[bytes | None, bytes | None]:
        """Return the hashes of a page's stored content and stored text."""
        row: Any = self._connection.execute(_HASHES, (no,)).fetchone()
        return (None, None) if row is None else (row[0], row[1])

    def had_text(self, no: int, text_hash: bytes) -> bool:
        """Whether a page recently had a text (collapsed.stored_row_had_text)."""
        return stored_row_had_text(self._connection, no, text_hash)

    def turned_at(self, no: int) -> int | None:
        """Return when a page last changed its status (Unix seconds); None: no event reports it."""
        value: int | None = self._connection.execute(_TURNED, (no,)).get
        return value

    def document(self, content: int) -> Document:
        """Return a content's document; without sections if none is stored."""
        packed: bytes | None = self._connection.execute(_DOCUMENT, (content,)).get
        return Document() if packed is None else unpack_stored_document(packed)

    def last_changes(self) -> list[tuple[int, bytes, bool]]:
        """Return the pages that changed last: number, text by now, whether since a complete run.

        They are of the last 1,000 changes of the registry.
        """
        names = {"source": self._source, "most": _MOST_CHANGES}
        rows: Any = self._connection.execute(_LAST_CHANGES, names).fetchall()
        return [(no, bytes(text), bool(since)) for no, text, since in rows]

    def last_documents(self, longest: int) -> Iterator[tuple[int, Document]]:
        """Yield the number and the document of each page that changed last.

        They are of the last 1,000 changes, and have texts of at most ``longest`` characters.
        """
        names = {"source": self._source, "most": _MOST_CHANGES, "longest": longest}
        rows: Any = self._connection.execute(_LAST_DOCUMENTS, names).fetchall()
        for number, packed in rows:
            yield number, unpack_stored_document(packed)

    def text_length(self, content: int) -> int:
        """Return the length of a content's text in characters."""
        return int(self._connection.execute(_TEXT_LENGTH, (content,)).get or 0)

    def title(self, content: int) -> str:
        """Return a content's title."""
        return str(self._connection.execute(_TITLE, (content,)).get or "")

    def language(self, content: int) -> tuple[bytes, str] | None:
        """Return a content's language, after the digest of the text that it was detected by."""
        row: Any = self._connection.execute(_LANGUAGE, (content,)).fetchone()
        return None if row is None else (row[0], row[1])

    def canonical_url(self, no: int) -> str | None:
        """Return the canonical URL that a page named when it was read last."""
        value: str | None = self._connection.execute(_CANONICAL_URL, (no,)).get
        return value

    def snapshot(self, snapshots: Snapshots, no: int) -> Place:
        """Return the place of a page's snapshot (Snapshots.find)."""
        return snapshots.find(self._connection, no)

    def has_body(self, snapshots: Snapshots, snapshot: int) -> bool:
        """Whether a snapshot can be read (Snapshots.is_readable)."""
        return snapshots.is_readable(self._connection, snapshot)

    def unreadable(self, body_hash: bytes, extraction: int, media: str) -> Unreadable | None:
        """Return the reason why an extraction version cannot read a body.

        None: no reason is stored.
        """
        return find_unreadable_row(self._connection, body_hash, extraction, media)

    def extraction(
        self, body_hash: bytes, media: str, configuration: int
    ) -> StoredExtraction | None:
        """Return the stored extraction of a body (find_stored_extraction), or None."""
        return find_stored_extraction(
            self._connection, self._source, body_hash, media, configuration
        )

    def configurations(self, extraction: int) -> frozenset[int]:
        """Return the fingerprints of all configurations under which a version extracted."""
        rows: Any = self._connection.execute(_CONFIGURATIONS, (extraction,))
        return frozenset(no for (no,) in rows)


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
_POSTED = """
SELECT url, priority, pinned FROM pending_pin WHERE source = ? ORDER BY priority, at, id
"""


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

    def posted(self, source: str) -> list[tuple[str, int, bool]]:
        """Return (URL, priority, whether it is pinned) of the addresses that wait for a run.

        ``source``: the name.
        """
        rows: Any = self._connection.execute(_POSTED, (source,)).fetchall()
        return [(url, priority, bool(pinned)) for url, priority, pinned in rows]

    def last_number(self) -> int:
        """Return the highest number that was ever reserved."""
        return last_sequence_number(self._connection, "address")


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


class RegistryReaders:
    """The readers of the event loop: they see committed data and wait for no writer."""

    def __init__(self, connection: Connection, source: int) -> None:
        self.pages = PageReader(connection, source)
        self.contents = ContentReader(connection, source)
        self.hosts = HostReader(connection, source)
        self.progress = RunProgressReader(connection, source)
        self.rendered = RenderedReader(connection)
        self.samples = SampleReader(connection)
        self._connection = connection

    def close(self) -> None:
        """Close the connection; the last one of a file leaves no write-ahead log behind."""
        self._connection.close()

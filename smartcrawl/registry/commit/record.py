"""Writing the record of a visited page: content, links, snapshot."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from smartcrawl.model.documents import ID_KINDS, Chunk, Document, Span
from smartcrawl.model.pages import (
    BROUGHT,
    EMPTIED_AT,
    NAMES_SIGNED,
    NEEDS_SIGNATURE,
    ParsedBody,
    Unreadable,
    Visit,
)
from smartcrawl.model.urls import Trackers, is_signed_url
from smartcrawl.registry.commit.changes import former_text_row, store_change_row
from smartcrawl.registry.commit.snapshots import release_snapshot_row
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.index_protocols import IndexedText, Sink
from smartcrawl.registry.pack import (
    links_for_database,
    pack_stored_document,
    unpack_stored_document,
)
from smartcrawl.rules.clones import MIN_CLONE_TEXT
from smartcrawl.rules.files import FAULTS_OF_BYTES
from smartcrawl.rules.http import iso_last_modified
from smartcrawl.rules.model import Action, Fault, Outcome, Standing, Status
from smartcrawl.sources.base import EXTRACTION_VERSION

_FIND = """
SELECT fault, allowed, message FROM unreadable
 WHERE body_hash = ? AND extraction = ? AND media = ?
"""
_PUT = """
INSERT INTO unreadable (body_hash, extraction, media, fault, allowed, message, at)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (body_hash, extraction, media) DO UPDATE
   SET fault = excluded.fault, allowed = excluded.allowed, message = excluded.message,
       at = excluded.at
"""
_PURGE = "DELETE FROM unreadable WHERE at < ?"


def find_unreadable_row(
    connection: Connection, body_hash: bytes, extraction: int, media: str
) -> Unreadable | None:
    """Return the record of a body that an extraction cannot read, or None."""
    row: Any = connection.execute(_FIND, (body_hash, extraction, media)).fetchone()
    if row is None:
        return None
    return Unreadable(body_hash, extraction, media, Fault(row[0]), row[1], row[2])


def store_unreadable_rows(connection: Connection, bodies: Iterable[Unreadable], now: int) -> None:
    """Record bodies that cannot be read; a body that came again gets ``now`` as its time."""
    rows = {body[:3]: (*body[:3], int(body.fault), body.allowed, body.message, now)
            for body in bodies}  # fmt: skip
    connection.executemany(_PUT, [rows[key] for key in sorted(rows)])  # the order of all locks


def purge_unreadable_rows(connection: Connection, before: int) -> None:
    """Delete the rows of bodies that have not come since ``before`` (Unix seconds)."""
    connection.execute(_PURGE, (before,))


#: A content of this page alone, needed for no undo, is overwritten with the page's next content.
_REPLACE = """
UPDATE content
   SET content_hash = ?2, text_hash = ?3, text_length = ?4, title = ?5, description = ?6,
       language = ?7, sample = ?8, charset = ?9, image_count = ?10, document = ?11,
       keywords = ?12, published = ?13, author = ?14, txt = ?15, marked = ?16
 WHERE no = ?17 AND source = ?1 AND content_hash <> ?2
   AND NOT EXISTS (SELECT 1 FROM content WHERE source = ?1 AND content_hash = ?2)
   AND NOT EXISTS (SELECT 1 FROM record WHERE content = ?17 AND no <> ?18)
   AND NOT EXISTS (SELECT 1 FROM evidence WHERE content = ?17)
"""
_COLUMNS = """source, content_hash, text_hash, text_length, title, description, language, sample,
    charset, image_count, document, keywords, published, author, txt, marked"""
_PUT_CONTENT = f"""
INSERT INTO content ({_COLUMNS})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (source, content_hash) DO NOTHING RETURNING no
"""
_PUT_AS = f"""
INSERT INTO content (no, {_COLUMNS})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (source, content_hash) DO NOTHING
"""
_HASHES = "SELECT content_hash FROM content WHERE source = ? AND content_hash IN carray(?)"
_NO = "SELECT no FROM content WHERE source = ? AND content_hash = ?"
_AGAIN = """
UPDATE content
   SET text_hash = ?, text_length = ?, title = ?, description = ?, language = ?, sample = ?,
       charset = ?, image_count = ?, document = ?, keywords = ?, published = ?, author = ?, txt = ?,
       marked = ?
 WHERE no = ?
"""
#: Links, pictures, date and author change without the text; those of another page stay.
_SPANS = """
UPDATE content SET document = ?1, published = ?2, author = ?3
 WHERE no = ?4
   AND (document <> ?1 OR published IS DISTINCT FROM ?2 OR author <> ?3)
   AND NOT EXISTS (SELECT 1 FROM record WHERE record.content = content.no AND record.no <> ?5)
"""
_FORMER = "SELECT document FROM content WHERE no = ? AND document <> ?"
_HELD_BY = "SELECT 1 FROM record WHERE content = ? LIMIT 1"
_KEPT_FOR_UNDO = "SELECT 1 FROM evidence WHERE content = ? LIMIT 1"
_DROP = "DELETE FROM content WHERE no = ?"


class Holding(NamedTuple):
    """The content of a page after a visit."""

    content: int  #: content.no
    same: bool  #: the page had this content before
    alone: bool  #: certainly no other page has it


def prepare_content_rows(
    connection: Connection, sink: Sink, source: int, visits: Iterable[Visit]
) -> dict[int, int]:
    """Write first contents of pages to the index, before the transaction waits for other workers.

    Return content numbers by record number; these contents are indexed and have no row yet.
    """
    texts: dict[int, IndexedText] = {}
    for visit in _with_new_contents(connection, source, visits):
        texts.setdefault(visit.page.no, _indexed_text(visit))
    return dict(zip(texts, sink.prepare(list(texts.values())), strict=False)) if texts else {}


def _with_new_contents(
    connection: Connection, source: int, visits: Iterable[Visit], *, changed: bool = False
) -> Iterable[Visit]:
    """Return those visits that bring the first content of a page, each content once.

    With ``changed`` also those that bring another content of a page.
    """
    fresh: dict[bytes, Visit] = {}
    for visit in visits:
        new = visit.action is Action.INDEX and (changed or visit.page.record.content is None)
        if new and visit.parsed.content_hash is not None:
            fresh.setdefault(visit.parsed.content_hash, visit)
    if not fresh:
        return ()
    held: Any = connection.execute(_HASHES, (source, Many(list(fresh)))).fetchall()
    for (known,) in held:
        del fresh[bytes(known)]
    return fresh.values()


def _indexed_text(visit: Visit) -> IndexedText:
    document = visit.parsed.document
    assert document is not None, "INDEX needs a document"
    return IndexedText(document.title, visit.parsed.chunks, document.language)


def prepare_visits(
    connection: Connection,
    source: int,
    visits: Sequence[Visit],
    *,
    trackers: Trackers,
    analyzed: Callable[[Connection, IndexedText, int | None], list[Chunk]],
) -> None:
    """Make what the transaction will store of visits, while none is open and no process waits.

    ``analyzed`` returns the chunks of a text with what the index makes of them, but for what it has
    of the former content of the page (content.no). Data that cannot be stored are left to the
    transaction, which says of which visit they are.
    """
    dialect = connection.dialect
    for visit in visits:
        parsed = visit.parsed
        with suppress(ValueError, TypeError, OverflowError):
            if parsed.document is not None and visit.action is Action.INDEX:
                parsed.packed = pack_stored_document(parsed.document)
            if parsed.links is not None:
                parsed.links = _stored_links(parsed, parsed.links, dialect, trackers)
                parsed.packed_links = True
    for visit in _with_new_contents(connection, source, visits, changed=True):
        with suppress(ValueError, TypeError, OverflowError):
            former = visit.page.record.content
            visit.parsed.chunks = analyzed(connection, _indexed_text(visit), former)


def hold_content_row(
    connection: Connection, sink: Sink, source: int, visit: Visit, prepared: dict[int, int]
) -> Holding:
    """Return the content row of a visit's document; write it if its hash is new.

    A number that is used is removed from ``prepared``.
    """
    parsed = visit.parsed
    page, document = visit.page, parsed.document
    assert document is not None, "INDEX needs a document"
    row = (
        source,
        parsed.content_hash,
        parsed.text_hash,
        document.text_length,
        document.title,
        document.description,
        document.language,
        parsed.sample,
        document.charset,
        len(document.images),
        parsed.packed or pack_stored_document(document),
        document.keywords,
        document.published,
        document.author,
        "\n".join(chunk.own_text for chunk in parsed.chunks) if sink.is_elsewhere else None,
        parsed.marked,
    )
    number = page.record.content
    if number is not None:
        connection.execute(_REPLACE, (*row, number, page.no))
        if connection.changes():
            sink.remove(number)
            sink.put(number, document.title, parsed.chunks, document.language)
            return Holding(number, same=False, alone=True)
    number = prepared.get(page.no)
    if number is not None:
        connection.execute(_PUT_AS, (number, *row))
        if connection.changes():
            del prepared[page.no]
            return Holding(number, same=False, alone=True)
    number = connection.execute(_PUT_CONTENT, row).get
    if number is not None:
        sink.put(number, document.title, parsed.chunks, document.language)
        return Holding(number, same=False, alone=True)
    number = int(connection.execute(_NO, row[:2]).get)
    same = number == page.record.content  # again: forced, or by another extraction
    if same:
        sink.remove(number)
    elif connection.execute(_HELD_BY, (number,)).get:
        return Holding(number, same=False, alone=False)  # a clone needs no index entry
    connection.execute(_AGAIN, (*row[2:], number))
    sink.put(number, document.title, parsed.chunks, document.language)
    return Holding(number, same=same, alone=not same)


def drop_content_row(connection: Connection, sink: Sink, content: int) -> bool:
    """Remove an orphaned content from the index; return False if a page still has it.

    Its row is deleted, too, unless the undo of a removal needs it.
    """
    if connection.execute(_HELD_BY, (content,)).get:
        return False
    sink.remove(content)
    if not connection.execute(_KEPT_FOR_UNDO, (content,)).get:
        connection.execute(_DROP, (content,))
    return True


_ADDRESS = "UPDATE record SET url = ?, identity = coalesce(identity, ?) WHERE no = ? AND url <> ?"
#: The date of a file keeps its form where it comes again without its file.
_DATE = """
       last_modified = :last_modified,
       modified = CASE WHEN last_modified = :last_modified THEN modified ELSE :modified END
"""
_INDEXED = f"""
UPDATE record
   SET etag = :etag, {_DATE}, content = :content, content_hash = NULL,
       text_hash = NULL, body_hash = :body_hash, media = :media, content_type = :content_type,
       content_length = :content_length,
       content_encoding = CASE WHEN :again THEN content_encoding ELSE :content_encoding END,
       configuration = :configuration, canonical_url = :canonical, canonical_no = :canonical_no,
       error_message = :error, redirect_target = NULL, redirect_no = NULL, last_indexed = :now,
       first_indexed = coalesce(first_indexed, :now),
       kind = 0, mode = 0, snapshot = :snapshot, verified_at = coalesce(:verified, verified_at),
       last_changed = CASE WHEN :same OR :again THEN last_changed ELSE :now END,
       changed_run = CASE WHEN :same THEN changed_run ELSE :run END,
       duplicate_of = CASE WHEN :same THEN duplicate_of ELSE :clone_of END,
       entry = CASE WHEN :same THEN entry WHEN :clone_of IS NULL THEN 1 ELSE 0 END
 WHERE no = :no
"""
#: A page that joins a group with an original starts as its clone; the election decides later.
_ORIGINAL = """
SELECT r.no FROM record r JOIN content c ON c.no = r.content JOIN state s ON s.no = r.no
 WHERE r.content = :content AND r.entry = 1 AND s.lost_count = 0 AND r.no <> :no
   AND (c.text_length >= :least OR (c.text_length > 0 AND r.body_hash = :body_hash)) LIMIT 1
"""
_LISTED = f"""
UPDATE record
   SET etag = :etag, {_DATE}, content_hash = :content_hash,
       text_hash = :text_hash, body_hash = :body_hash, content_type = :content_type,
       content_length = :content_length,
       content_encoding = CASE WHEN :again THEN content_encoding ELSE :content_encoding END,
       configuration = :configuration, canonical_url = :canonical,
       canonical_no = CASE WHEN :alias THEN CAST(:canonical_no AS BIGINT) END,
       error_message = :error,
       redirect_target = NULL, redirect_no = NULL, mode = :mode, snapshot = :snapshot,
       verified_at = coalesce(:verified, verified_at),
       last_changed = CASE WHEN body_hash IS NOT DISTINCT FROM :body_hash THEN last_changed
                           ELSE :now END
 WHERE no = :no
"""
_RENEWED = f"""
UPDATE record
   SET etag = :etag, {_DATE},
       error_message = CASE WHEN :keep_message THEN error_message END,
       canonical_url = CASE WHEN :read THEN :canonical ELSE canonical_url END,
       canonical_no = CASE WHEN :read THEN :canonical_no ELSE canonical_no END,
       redirect_target = NULL, redirect_no = NULL,
       body_hash = coalesce(:body_hash, body_hash),
       media = CASE WHEN :read THEN :media ELSE media END,
       content_length = coalesce(:content_length, content_length),
       configuration = coalesce(:configuration, configuration), snapshot = :snapshot,
       verified_at = coalesce(:verified, verified_at)
 WHERE no = :no
"""
#: An outcome that says nothing about the page keeps its redirect target.
_NOTED = """
UPDATE record
   SET error_message = :error, unread_etag = :unread_etag, unread_length = :unread_length,
       unread_extraction = :unread_extraction,
       redirect_target = CASE WHEN :learnt THEN :location ELSE redirect_target END,
       redirect_no = CASE WHEN :learnt THEN :number ELSE redirect_no END
 WHERE no = :no
"""
_KIND = "UPDATE record SET kind = ? WHERE no = ? AND kind <> ?"
_SIGNS = "UPDATE record SET signs = ? WHERE no = ?"
_DROP_LINKS = "DELETE FROM links WHERE no = ?"
_LINKS = """
INSERT INTO links (no, scope, count, targets, raw) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (no) DO UPDATE
   SET scope = excluded.scope, count = excluded.count, targets = excluded.targets,
       raw = excluded.raw
"""
#: Outcomes that say nothing about the page: it did not answer for itself (R4-40, R4-41).
SILENT = (Outcome.UNREACHABLE, Outcome.UNPROCESSABLE, Outcome.EXCLUDED)
_MISSING = (Outcome.NOT_FOUND, Outcome.SOFT_404, Outcome.HTTP_ERROR)


def _verified(visit: Visit, now: int) -> int | None:
    """Return the time of a downloaded body; None: the last one came with an earlier visit."""
    return None if visit.extracted_again or visit.parsed.body_hash is None else now


def _signs(visit: Visit) -> int:
    """Return the bits of a page after a visit (PageRecord.signs)."""
    page, signs = visit.page, visit.page.record.signs
    if visit.parsed.links is not None:
        signs = signs & ~NAMES_SIGNED | NAMES_SIGNED * visit.parsed.names_signed
        signs = signs & (1 << EMPTIED_AT) - 1 | visit.parsed.emptied << EMPTIED_AT
        signs |= BROUGHT * visit.parsed.brought
    again = visit.extracted_again or visit.accepted  # without a request
    if visit.action not in (Action.NOTE, Action.HOLD) and not again:
        signed = page.plan.signed
        needs = signed is not None and is_signed_url(signed)
        signs = signs & ~NEEDS_SIGNATURE | NEEDS_SIGNATURE * needs
    return signs


def _modified(visit: Visit, now: int) -> str | None:
    """Return the Last-Modified of an answer as ISO 8601, or None."""
    answer = visit.answer
    of_file = answer.file is not None or not visit.page.url.startswith(("http://", "https://"))
    if answer.last_modified is None:
        return None
    return iso_last_modified(answer.last_modified, now, of_file=of_file)


def _unread(visit: Visit) -> dict[str, object]:
    """Return the columns by which a listing shows that a file still cannot be read."""
    answer, is_unread = visit.answer, visit.http_status in FAULTS_OF_BYTES
    if visit.parsed.media is None or not is_unread:  # a page of a web site, or another fault
        return dict.fromkeys(("unread_etag", "unread_length", "unread_extraction"))
    return {
        "unread_etag": answer.etag,
        "unread_length": answer.content_length,
        "unread_extraction": EXTRACTION_VERSION,
    }


def _ids(document: Document) -> list[Span]:
    """Return the ids of a document, with their places."""
    return [
        span
        for section in document.sections
        for span in (*section.head, *section.spans)
        if span.kind in ID_KINDS
    ]


def _no_snapshot_message(visit: Visit) -> str | None:
    """Return the message of a page whose snapshot could not be stored, or None."""
    return None if visit.snapshot_error is None else f"no snapshot: {visit.snapshot_error}"[:1024]


def _stored_links(parsed: ParsedBody, links: bytes, dialect: str, trackers: Trackers) -> bytes:
    return links if parsed.packed_links else links_for_database(links, dialect, trackers)


class RecordWriter:
    """Writes the records of one run's visits; the caller opens the transaction."""

    def __init__(
        self, connection: Connection, sink: Sink, *, run: int, source: int, trackers: Trackers
    ) -> None:
        self._connection = connection
        self._sink = sink
        self._run = run
        self._source = source
        self._trackers = trackers
        self.prepared: dict[
            int, int
        ] = {}  #: content.no by page number (contents.prepare_content_rows)
        self.former: dict[int, bytes] = {}  #: page number -> hash of its replaced text

    def write(self, visit: Visit, now: int, changed: set[int]) -> None:
        """Write the record of a visited page; touched contents go to ``changed``."""
        parsed = visit.parsed
        page, action, outcome = visit.page, visit.action, visit.outcome
        # Stored content keeps the spelling that answered: its validators belong to it (RD-03).
        record = page.record
        stored = action not in (Action.HOLD, Action.NOTE)
        if visit.url != page.url and (stored or visit.answer.file is not None):
            self._connection.execute(_ADDRESS, (visit.url, page.url, page.no, visit.url))
        match action:
            case Action.INDEX:
                self._index(visit, now, changed)
            case Action.LIST:
                self._connection.execute(_LISTED, self._fields(visit, now))
            case Action.TOUCH:
                self._connection.execute(_RENEWED, self._renewal(visit, now))
                if record.content is not None and parsed.body_hash not in (None, record.body_hash):
                    changed.add(record.content)  # short pages are compared by their bytes
                    if parsed.document is not None:
                        self._renew_spans(visit, parsed.document, record.content)
            case Action.NOTE | Action.HOLD:
                redirect = parsed.targets and outcome is Outcome.REDIRECT
                names = {
                    "no": page.no,
                    "error": visit.error,
                    "learnt": outcome not in (*SILENT, Outcome.TRANSIENT),
                    "location": visit.answer.location,
                    "number": array("I", parsed.targets)[0] if redirect else None,
                }
                self._connection.execute(_NOTED, names | _unread(visit))
                if action is Action.NOTE and outcome in _MISSING and record.targets is not None:
                    self._connection.execute(_DROP_LINKS, (page.no,))  # of a former redirect
        if action not in (Action.NOTE, Action.HOLD) and self._snapshot(visit) != record.snapshot:
            release_snapshot_row(self._connection, record.snapshot, now)
        if visit.kind or page.kind:
            self._connection.execute(_KIND, (visit.kind, page.no, visit.kind))
        if (signs := _signs(visit)) != record.signs:
            self._connection.execute(_SIGNS, (signs, page.no))
        if parsed.links is not None and action is not Action.HOLD:
            raw = _stored_links(parsed, parsed.links, self._connection.dialect, self._trackers)
            row = (page.no, parsed.scope, parsed.links_count, parsed.targets, raw)
            self._connection.execute(_LINKS, row)

    def _renew_spans(self, visit: Visit, document: Document, content: int) -> None:
        """Store what changed beside the text of a page, and the places of its chunks."""
        packed = pack_stored_document(document)
        former = self._connection.execute(_FORMER, (content, packed)).get
        said = (document.published, document.author)
        self._connection.execute(_SPANS, (packed, *said, content, visit.page.no))
        if former is None or not self._connection.changes():
            return
        if _ids(unpack_stored_document(former)) != _ids(unpack_stored_document(packed)):
            self._sink.remove(content)
            self._sink.put(content, document.title, visit.parsed.chunks, document.language)

    def _fields(self, visit: Visit, now: int) -> dict[str, object]:
        answer, parsed = visit.answer, visit.parsed
        document = parsed.document
        return {
            "no": visit.page.no,
            "now": now,
            "etag": answer.etag,
            "last_modified": answer.last_modified,
            "modified": _modified(visit, now),
            "content_hash": parsed.content_hash,
            "text_hash": parsed.text_hash,
            "body_hash": parsed.body_hash,
            "media": parsed.media,
            "content_type": answer.content_type or None,
            "content_length": answer.content_length,
            "content_encoding": answer.content_encoding,
            "configuration": visit.page.plan.wanted,
            "mode": visit.page.plan.mode,
            "snapshot": self._snapshot(visit),
            "verified": _verified(visit, now),
            "again": visit.extracted_again,
            "canonical": document.canonical if document else None,
            "canonical_no": parsed.canonical_no,
            "alias": visit.outcome is Outcome.ALIAS,
            "error": visit.error or _no_snapshot_message(visit),
        }

    def _snapshot(self, visit: Visit) -> int | None:
        """Return the number of the stored body's snapshot after a visit, or None."""
        page = visit.page
        same_body = visit.parsed.body_hash in (None, page.record.body_hash)
        return visit.snapshot or (page.record.snapshot if same_body else None)

    def _renewal(self, visit: Visit, now: int) -> dict[str, object]:
        answer, parsed = visit.answer, visit.parsed
        fresh, page = visit.outcome is Outcome.SAME, visit.page
        state = page.state
        return {
            "no": page.no,
            "read": parsed.document is not None,
            "canonical": parsed.document.canonical if parsed.document else None,
            "canonical_no": parsed.canonical_no,
            "keep_message": state.standing is Standing.LINKS and state.status is Status.CRAWLED,
            "etag": answer.etag,
            "last_modified": answer.last_modified,
            "modified": _modified(visit, now),
            "body_hash": parsed.body_hash,
            "media": parsed.media,
            "content_length": answer.content_length if fresh else None,
            "configuration": page.plan.wanted if fresh else None,
            "snapshot": self._snapshot(visit),
            "verified": _verified(visit, now),
        }

    def _index(self, visit: Visit, now: int, changed: set[int]) -> None:
        page = visit.page
        record = page.record
        modified = page.state.standing is Standing.HELD and not visit.extracted_again
        former = None
        if modified:  # before the new text takes its place
            digest = visit.parsed.content_hash
            former = former_text_row(self._connection, record.content, digest)
        content, same, alone = hold_content_row(
            self._connection, self._sink, self._source, visit, self.prepared
        )
        original = None
        if not (same or alone):
            names = {
                "content": content,
                "no": page.no,
                "least": MIN_CLONE_TEXT,
                "body_hash": visit.parsed.body_hash,
            }
            original = self._connection.execute(_ORIGINAL, names).get
        fields = self._fields(visit, now)
        fields |= {"run": self._run, "content": content, "same": same, "clone_of": original}
        self._connection.execute(_INDEXED, fields)
        if same:
            return
        if page.text_hash is not None and page.text_hash != visit.parsed.text_hash:
            self.former[page.no] = page.text_hash
        changed.add(content)
        document = visit.parsed.document
        if modified and document is not None:
            before = page.state.last_checked
            gap = None if before is None else max(now - before, 0)
            place = (page.no, self._run, now, gap)
            store_change_row(self._connection, place, former, document, record.body_hash)
        if record.content not in (None, content):
            if drop_content_row(self._connection, self._sink, record.content):
                changed.discard(record.content)
            else:
                changed.add(record.content)

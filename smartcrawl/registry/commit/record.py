"""Writing the record of a visited page: content, links, snapshot."""

from __future__ import annotations

from array import array

from smartcrawl.model.pages import NAMES_SIGNED, NEEDS_SIGNATURE, Visit
from smartcrawl.model.ports import Connection, Sink
from smartcrawl.model.urls import Trackers
from smartcrawl.registry.commit.contents import drop_content, hold
from smartcrawl.registry.commit.snapshots import release
from smartcrawl.registry.pack import shown_links
from smartcrawl.rules.clones import MIN_CLONE_TEXT
from smartcrawl.rules.model import Action, Outcome, Standing, Status

_ADDRESS = "UPDATE record SET url = ?, identity = coalesce(identity, ?) WHERE no = ? AND url <> ?"
_INDEXED = """
UPDATE record
   SET etag = :etag, last_modified = :last_modified, content = :content, content_hash = NULL,
       text_hash = NULL, body_hash = :body_hash, content_type = :content_type,
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
_LISTED = """
UPDATE record
   SET etag = :etag, last_modified = :last_modified, content_hash = :content_hash,
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
_RENEWED = """
UPDATE record
   SET etag = :etag, last_modified = :last_modified,
       error_message = CASE WHEN :keep_message THEN error_message END,
       canonical_url = CASE WHEN :read THEN :canonical ELSE canonical_url END,
       canonical_no = CASE WHEN :read THEN :canonical_no ELSE canonical_no END,
       redirect_target = NULL, redirect_no = NULL,
       body_hash = coalesce(:body_hash, body_hash),
       content_length = coalesce(:content_length, content_length),
       configuration = coalesce(:configuration, configuration), snapshot = :snapshot,
       verified_at = coalesce(:verified, verified_at)
 WHERE no = :no
"""
#: An outcome that says nothing about the page keeps its redirect target.
_NOTED = """
UPDATE record
   SET error_message = :error,
       redirect_target = CASE WHEN :learnt THEN :location ELSE redirect_target END,
       redirect_no = CASE WHEN :learnt THEN :number ELSE redirect_no END
 WHERE no = :no
"""
_KIND = "UPDATE record SET kind = ? WHERE no = ? AND kind <> ?"
_SIGNS = "UPDATE record SET signs = ? WHERE no = ?"
_CHANGED = "INSERT INTO change (record, run, at) VALUES (?, ?, ?)"
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
    return None if visit.extracted_again or visit.body_hash is None else now


def _signs(visit: Visit) -> int:
    """Return the signature bits of a page after a visit (Page.signs)."""
    page, signs = visit.page, visit.page.signs
    if visit.links is not None:
        signs = signs & ~NAMES_SIGNED | NAMES_SIGNED * visit.names_signed
    again = visit.extracted_again or visit.accepted  # without a request
    if visit.action not in (Action.NOTE, Action.HOLD) and not again:
        signs = signs & ~NEEDS_SIGNATURE | NEEDS_SIGNATURE * (page.signed is not None)
    return signs


def _no_snapshot_message(visit: Visit) -> str | None:
    """Return the message of a page whose snapshot could not be stored, or None."""
    return None if visit.snapshot_error is None else f"no snapshot: {visit.snapshot_error}"[:1024]


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
        self.prepared: dict[int, int] = {}  #: content.no by page number (contents.prepare)
        self.former: dict[int, bytes] = {}  #: page number -> hash of its replaced text

    def write(self, visit: Visit, now: int, changed: set[int]) -> None:
        """Write the record of a visited page; touched contents go to ``changed``."""
        page, action, outcome = visit.page, visit.action, visit.outcome
        # Stored content keeps the spelling that answered: its validators belong to it (RD-03).
        if visit.url != page.url and action is not Action.HOLD:
            self._connection.execute(_ADDRESS, (visit.url, page.url, page.no, visit.url))
        match action:
            case Action.INDEX:
                self._index(visit, now, changed)
            case Action.LIST:
                self._connection.execute(_LISTED, self._fields(visit, now))
            case Action.TOUCH:
                self._connection.execute(_RENEWED, self._renewal(visit, now))
                if page.content is not None and visit.body_hash not in (None, page.body_hash):
                    changed.add(page.content)  # short pages are compared by their bytes
            case Action.NOTE | Action.HOLD:
                redirect = visit.targets and outcome is Outcome.REDIRECT
                names = {
                    "no": page.no,
                    "error": visit.error,
                    "learnt": outcome not in (*SILENT, Outcome.TRANSIENT),
                    "location": visit.location,
                    "number": array("I", visit.targets)[0] if redirect else None,
                }
                self._connection.execute(_NOTED, names)
                if action is Action.NOTE and outcome in _MISSING and page.targets is not None:
                    self._connection.execute(_DROP_LINKS, (page.no,))  # of a former redirect
        if action not in (Action.NOTE, Action.HOLD) and self._snapshot(visit) != page.snapshot:
            release(self._connection, page.snapshot, now)
        if visit.kind or page.kind:
            self._connection.execute(_KIND, (visit.kind, page.no, visit.kind))
        if (signs := _signs(visit)) != page.signs:
            self._connection.execute(_SIGNS, (signs, page.no))
        if visit.links is not None and action is not Action.HOLD:
            raw = shown_links(visit.links, self._connection.dialect, self._trackers)
            row = (page.no, visit.scope, visit.links_count, visit.targets, raw)
            self._connection.execute(_LINKS, row)

    def _fields(self, visit: Visit, now: int) -> dict[str, object]:
        document = visit.document
        return {
            "no": visit.page.no,
            "now": now,
            "etag": visit.etag,
            "last_modified": visit.last_modified,
            "content_hash": visit.content_hash,
            "text_hash": visit.text_hash,
            "body_hash": visit.body_hash,
            "content_type": visit.content_type or None,
            "content_length": visit.content_length,
            "content_encoding": visit.content_encoding,
            "configuration": visit.page.wanted,
            "mode": visit.page.mode,
            "snapshot": self._snapshot(visit),
            "verified": _verified(visit, now),
            "again": visit.extracted_again,
            "canonical": document.canonical if document else None,
            "canonical_no": visit.canonical_no,
            "alias": visit.outcome is Outcome.ALIAS,
            "error": visit.error or _no_snapshot_message(visit),
        }

    def _snapshot(self, visit: Visit) -> int | None:
        """Return the number of the stored body's snapshot after a visit, or None."""
        page = visit.page
        same_body = visit.body_hash in (None, page.body_hash)
        return visit.snapshot or (page.snapshot if same_body else None)

    def _renewal(self, visit: Visit, now: int) -> dict[str, object]:
        fresh, page = visit.outcome is Outcome.SAME, visit.page
        return {
            "no": page.no,
            "read": visit.document is not None,
            "canonical": visit.document.canonical if visit.document else None,
            "canonical_no": visit.canonical_no,
            "keep_message": page.standing is Standing.LINKS and page.status is Status.CRAWLED,
            "etag": visit.etag,
            "last_modified": visit.last_modified,
            "body_hash": visit.body_hash,
            "content_length": visit.content_length if fresh else None,
            "configuration": page.wanted if fresh else None,
            "snapshot": self._snapshot(visit),
            "verified": _verified(visit, now),
        }

    def _index(self, visit: Visit, now: int, changed: set[int]) -> None:
        page = visit.page
        content, same, alone = hold(
            self._connection, self._sink, self._source, visit, self.prepared
        )
        original = None
        if not (same or alone):
            names = {
                "content": content,
                "no": page.no,
                "least": MIN_CLONE_TEXT,
                "body_hash": visit.body_hash,
            }
            original = self._connection.execute(_ORIGINAL, names).get
        fields = self._fields(visit, now)
        fields |= {"run": self._run, "content": content, "same": same, "clone_of": original}
        self._connection.execute(_INDEXED, fields)
        if same:
            return
        if page.text_hash is not None and page.text_hash != visit.text_hash:
            self.former[page.no] = page.text_hash
        changed.add(content)
        if page.standing is Standing.HELD and not visit.extracted_again:
            self._connection.execute(_CHANGED, (page.no, self._run, now))
        if page.content not in (None, content):
            if drop_content(self._connection, self._sink, page.content):
                changed.discard(page.content)
            else:
                changed.add(page.content)

"""Writing what one visit found: state, content, links, index."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from smartcrawl.model.pages import NAMES_SIGNED, NEEDS_SIGNATURE, Visit
from smartcrawl.model.ports import Connection, Sink
from smartcrawl.model.urls import DEFAULT_TRACKERS, Trackers
from smartcrawl.registry.commit import collapsed
from smartcrawl.registry.commit.contents import drop_content, hold
from smartcrawl.registry.commit.snapshots import lose, release
from smartcrawl.registry.pack import shown_links
from smartcrawl.rules.absence import Counts, Policy, counted, is_gone, paced
from smartcrawl.rules.clones import MIN_CLONE_TEXT
from smartcrawl.rules.model import Action, Fault, Outcome, Standing, Status, Word
from smartcrawl.rules.reindex import effective_status, status_after
from smartcrawl.rules.schedule import Schedule
from smartcrawl.rules.trust import marks_after

_VISITED = """
UPDATE state
   SET visited_run = :run, seen_run = CASE WHEN :allowed THEN :run ELSE seen_run END,
       number = :number, last_checked = :now, next_visit = :next_visit, interval = :interval,
       status = :status,
       standing = :standing, outcome = :outcome,
       http_status = coalesce(:http_status, http_status), effective_status = :effective_status,
       lost_count = :lost, gone_count = :gone, lost_since = :lost_since,
       gone_since = :gone_since, unchanged_count = :unchanged, error_count = :errors,
       last_answered = CASE WHEN :learnt THEN :now ELSE last_answered END,
       attempts = attempts + :attempt, failures = failures + :failed, etag_marks = :marks
 WHERE no = :no AND number < :claim AND visited_run < :unless
"""
EVENT = """
INSERT INTO event (record, run, at, status, standing, outcome, http_status, detail)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
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
#: A newcomer to a group that has an original starts as its clone; the election has the last word.
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
#: What says nothing about the page leaves where it moved to.
_NOTED = """
UPDATE record
   SET error_message = :error,
       redirect_target = CASE WHEN :learnt THEN :location ELSE redirect_target END,
       redirect_no = CASE WHEN :learnt THEN :number ELSE redirect_no END
 WHERE no = :no
"""
#: What was ordered after its turn came stays ordered (M-13).
_PROCESSED = """
UPDATE item
   SET processed = max(processed, :generation),
       requested = requested AND generation > :generation, revision = revision + 1
 WHERE no = :no
"""
_KIND = "UPDATE record SET kind = ? WHERE no = ? AND kind <> ?"
_SIGNS = "UPDATE record SET signs = ? WHERE no = ?"
_IS_OURS = "SELECT 1 FROM state WHERE no = :no AND number < :claim"
EVERY_RUN = 1 << 62  #: higher than any run
_NO_SNAPSHOT = "UPDATE record SET snapshot = NULL WHERE no = ?"
_CHANGED = "INSERT INTO change (record, run, at) VALUES (?, ?, ?)"
_DROP_LINKS = "DELETE FROM links WHERE no = ?"
_LINKS = """
INSERT INTO links (no, scope, count, targets, raw) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (no) DO UPDATE
   SET scope = excluded.scope, count = excluded.count, targets = excluded.targets,
       raw = excluded.raw
"""


_AN_EDIT = "an edit: few pages shrank so in this run, each to a text of its own"
_MISSING = (Outcome.NOT_FOUND, Outcome.SOFT_404, Outcome.HTTP_ERROR)
#: Nobody spoke of the page (R4-40, R4-41).
_SILENT = (Outcome.UNREACHABLE, Outcome.UNPROCESSABLE, Outcome.EXCLUDED)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the rules need to know of the operator's choices while a run goes on."""

    policy: Policy = field(default_factory=Policy)
    schedule: Schedule = field(default_factory=Schedule)
    pace: int = 0  #: seconds in which counts rise once at most; 0: once in each run
    trackers: Trackers = DEFAULT_TRACKERS


def _verified(visit: Visit, now: int) -> int | None:
    """Return when a whole body came; None: with an earlier visit."""
    return None if visit.extracted_again or visit.body_hash is None else now


def _signs(visit: Visit) -> int:
    """Return what is known of signatures after a visit (Page.signs)."""
    page, signs = visit.page, visit.page.signs
    if visit.links is not None:
        signs = signs & ~NAMES_SIGNED | NAMES_SIGNED * visit.names_signed
    again = visit.extracted_again or visit.accepted  # whose request is over
    if visit.action not in (Action.NOTE, Action.HOLD) and not again:
        signs = signs & ~NEEDS_SIGNATURE | NEEDS_SIGNATURE * (page.signed is not None)
    return signs


def _etag_marks(visit: Visit) -> int:
    """Return the marks about the ETag of a page after a visit (Page.etag_marks)."""
    page = visit.page
    other_etag = None not in (visit.etag, page.etag) and visit.etag != page.etag
    return marks_after(
        page.etag_marks,
        contradicted=visit.http_status == Fault.OTHER_VERSION,
        taken=visit.action not in (Action.NOTE, Action.HOLD),
        turned=other_etag and visit.body_hash == page.body_hash and visit.url == page.url,
    )


def _told_snapshot(visit: Visit) -> str | None:
    """Return that a page has no snapshot, and why, as its message."""
    return None if visit.snapshot_error is None else f"no snapshot: {visit.snapshot_error}"[:1024]


class VisitWriter:
    """Writes decided visits of one run over one connection; the caller opens the transaction.

    ``number`` is what the records get; those that have a higher one than ``claim``, or were
    visited in a run from ``unless`` on, are left alone: somebody else was faster.
    """

    def __init__(
        self,
        connection: Connection,
        sink: Sink,
        *,
        run: int,
        source: int,
        number: int,
        claim: int,
        unless: int,
        judgement: Judgement,
    ) -> None:
        self._connection = connection
        self._sink = sink
        self._run = run
        self._source = source
        self._number = number
        self._claim = claim
        self._unless = unless
        self._judgement = judgement
        self.prepared: dict[int, int] = {}  #: contents.prepare
        self.former: dict[int, bytes] = {}  #: hashes of texts that pages had until now

    def write(self, visit: Visit, now: int, changed: set[int]) -> bool:
        """Write one visit; False when it is stale. Touched groups of clones go to ``changed``."""
        if visit.again:
            return self._extract_again(visit, now, changed)
        page, action, outcome = visit.page, visit.action, visit.outcome
        if visit.accepted and not collapsed.take(self._connection, self._run, page.no):
            return False
        standing = {Action.INDEX: Standing.HELD, Action.LIST: Standing.LINKS}.get(
            action, page.standing
        )
        counts = self._counts(visit, now)
        policy = self._judgement.policy
        gone = is_gone(counts, outcome, visit.http_status, policy, now)
        status = status_after(action, outcome, page.status, standing, gone=gone)
        word = visit.verdict.word if visit.verdict else Word.FAILED
        if status is Status.GONE and outcome is Outcome.NOT_FOUND and page.was_held:
            word = Word.GONE  # a tombstone; what was never held is failed
        failed = status in (Status.ERROR, Status.GONE)
        same = action is Action.TOUCH or word is Word.UNCHANGED
        unchanged = page.unchanged_count + 1 if same else 0
        errors = page.error_count + 1 if failed else 0
        schedule = self._judgement.schedule
        if failed:
            interval = schedule.backoff(errors, visit.retry_after)
            wait = schedule.spread_error(interval, page.no)
        else:  # a sitemap tells of others: it is asked as often as anything is
            interval = schedule.interval(0 if visit.kind else unchanged)
            wait = schedule.spread(interval, page.no)
        values = {
            "run": self._run,
            "allowed": outcome is not Outcome.EXCLUDED,
            "number": self._number,
            "claim": self._number + 1 if visit.accepted else self._claim,
            "unless": EVERY_RUN if visit.accepted else self._unless,
            "attempt": int(not visit.accepted),
            "now": now,
            "next_visit": now + wait,
            "interval": interval,
            "status": status,
            "standing": standing,
            "outcome": word,
            "http_status": visit.http_status,
            "effective_status": effective_status(
                action, outcome, visit.http_status, page.effective_status
            ),
            "lost": counts.lost,
            "gone": counts.gone,
            "lost_since": counts.lost_since,
            "gone_since": counts.gone_since,
            "unchanged": unchanged,
            "errors": errors,
            "failed": int(failed) - visit.accepted,
            "learnt": outcome not in _SILENT,
            "marks": _etag_marks(visit),
            "no": page.no,
        }
        self._connection.execute(_VISITED, values)
        if not self._connection.changes():
            return False
        turned = (counts.lost > 0) is not (page.lost_count > 0)
        if turned and counts.lost == 0 and page.content is not None:
            changed.add(page.content)  # another may have become the original meanwhile
        turned = turned or (status, standing) != (page.status, page.standing)
        if turned and (page.status is not Status.PENDING or page.visited_run):  # not its first
            why = visit.error or (_AN_EDIT if visit.accepted else None)
            told = (word, visit.http_status, why)
            row = (page.no, self._run, now, status, standing, *told)
            self._connection.execute(EVENT, row)
        if page.ordered and outcome not in (*_SILENT, Outcome.TRANSIENT):
            names = {"no": page.no, "generation": page.generation}
            self._connection.execute(_PROCESSED, names)
        self._write_record(visit, now, changed)
        if visit.extracted_again and visit.snapshot_error is not None:
            self._lose_snapshot(visit, now)
        if visit.collapse is not None:
            collapsed.put(self._connection, self._run, page.no, visit.collapse)
        return True

    def _extract_again(self, visit: Visit, now: int, changed: set[int]) -> bool:
        """Write what a page's own body says under today's configuration; nobody was asked."""
        page = visit.page
        if not self._connection.execute(_IS_OURS, {"claim": self._claim, "no": page.no}).get:
            return False
        if visit.action is Action.INDEX:
            self._write_record(visit, now, changed)
        else:
            self._lose_snapshot(visit, now)
        return True

    def _lose_snapshot(self, visit: Visit, now: int) -> None:
        """Note that a snapshot was of no use; the page is fetched whole instead, in its turn."""
        page = visit.page
        self._connection.execute(_NO_SNAPSHOT, (page.no,))
        if visit.snapshot_error is not None:
            lose(self._connection, page.snapshot, page.body_hash)
        else:  # it is well, and others may be able to read it
            release(self._connection, page.snapshot, now)
        told = (Word.FAILED, Fault.SNAPSHOT, visit.snapshot_error or visit.error)
        row = (page.no, self._run, now, page.status, page.standing, *told)
        self._connection.execute(EVENT, row)

    def _counts(self, visit: Visit, now: int) -> Counts:
        page = visit.page
        before = Counts(page.lost_count, page.gone_count, page.lost_since, page.gone_since)
        if visit.outcome is Outcome.REDIRECT and visit.action is Action.HOLD:
            return before  # what it means is known when its target was asked: at the settlement
        after = counted(
            before,
            visit.outcome,
            visit.http_status,
            self._judgement.policy,
            now,
            held=page.standing is Standing.HELD,
            first_run=page.first_run in (None, self._run),
        )
        pace = self._judgement.pace
        return paced(before, after, pace, now) if pace else after

    def _write_record(self, visit: Visit, now: int, changed: set[int]) -> None:
        page, action, outcome = visit.page, visit.action, visit.outcome
        # What is held keeps the spelling that gave it: validators belong to that one (RD-03).
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
                    changed.add(page.content)  # short pages are clones by their bytes
            case Action.NOTE | Action.HOLD:
                redirect = visit.targets and outcome is Outcome.REDIRECT
                names = {
                    "no": page.no,
                    "error": visit.error,
                    "learnt": outcome not in (*_SILENT, Outcome.TRANSIENT),
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
            trackers = self._judgement.trackers
            raw = shown_links(visit.links, self._connection.dialect, trackers)
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
            "error": visit.error or _told_snapshot(visit),
        }

    def _snapshot(self, visit: Visit) -> int | None:
        """Return the snapshot of the body that is held after a visit."""
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

"""Writing the result of one visit: the state of its page, and its events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from smartcrawl.model.pages import Page, PageState, Visit
from smartcrawl.model.rendered import NewRendering
from smartcrawl.model.urls import DEFAULT_TRACKERS, Trackers
from smartcrawl.registry.commit import collapsed
from smartcrawl.registry.commit.record import SILENT, RecordWriter
from smartcrawl.registry.commit.snapshots import delete_lost_snapshot_row, release_snapshot_row
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.index_protocols import Sink
from smartcrawl.rules.absence import (
    Counts,
    Policy,
    absence_counts_after,
    absence_counts_before,
    is_gone,
    paced_absence_counts,
)
from smartcrawl.rules.http import is_304_of_other_version
from smartcrawl.rules.model import Action, Fault, Outcome, Standing, Status, Word
from smartcrawl.rules.reindex import effective_status, status_after, waits_for_browser
from smartcrawl.rules.schedule import Schedule
from smartcrawl.rules.spellings import stored_visit_outcome
from smartcrawl.rules.trust import trust_marks_after

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
#: An order that arrived after the page was read for its visit stays open (M-13).
_PROCESSED = """
UPDATE item
   SET processed = max(processed, :generation),
       requested = requested AND generation > :generation, revision = revision + 1
 WHERE no = :no
"""
_IS_OURS = "SELECT 1 FROM state WHERE no = :no AND number < :claim"
EVERY_RUN = 1 << 62  #: higher than any run.no
_WORD = "SELECT outcome FROM state WHERE no = ?"
#: The event of the visit that a late one replaces.
_UNNOTED = "DELETE FROM event WHERE record = ? AND run = ? AND status = ? AND http_status = ?"
_LAST_STATUS = "SELECT status FROM event WHERE record = ? ORDER BY no DESC LIMIT 1"
_NO_SNAPSHOT = "UPDATE record SET snapshot = NULL WHERE no = ?"
_AN_EDIT = "an edit: few pages shrank so in this run, or got the text of another one"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The operator's choices that the rules need during a run."""

    policy: Policy = field(default_factory=Policy)
    schedule: Schedule = field(default_factory=Schedule)
    pace: int = 0  #: least seconds between two increments of a count; 0: once in each run
    trackers: Trackers = DEFAULT_TRACKERS


def _etag_marks(visit: Visit) -> int:
    """Return the ETag marks of a page after a visit (PageState.etag_marks)."""
    answer = visit.answer
    page = visit.page
    record = page.record
    other_etag = is_304_of_other_version(record.etag, answer.etag)
    return trust_marks_after(
        page.state.etag_marks,
        contradicted=visit.http_status == Fault.OTHER_VERSION,
        taken=visit.action not in (Action.NOTE, Action.HOLD),
        turned=other_etag and visit.parsed.body_hash == record.body_hash and visit.url == page.url,
        led_back=_led_back(visit),
    )


def _led_back(visit: Visit) -> bool:
    """Whether other addresses of a visit set a cookie and led back to its page."""
    attempt = visit.attempt
    return attempt is not None and attempt.cookies is not None and attempt.cookies.led_back


def _is_item_moved(visit: Visit) -> bool:
    """Whether an item of a library has another address than at its last visit (R3-02)."""
    file = visit.answer.file
    return file is not None and file.path is not None and visit.url != visit.page.url


def _begins_to_collapse(visit: Visit) -> bool:
    """Whether a page collapses that did not at its last visit."""
    before = visit.page.state.http_status
    return visit.http_status == Fault.COLLAPSED and before != Fault.COLLAPSED


def _is_wall(visit: Visit) -> bool:
    """Whether a page without content is a login form, which nothing will change soon."""
    return visit.http_status == Fault.LOGIN and visit.page.state.standing is not Standing.HELD


class _After(NamedTuple):
    """State of a page after a visit."""

    standing: Standing
    status: Status
    word: Word
    counts: Counts


class VisitWriter:
    """Writes decided visits of one run over one connection; the caller opens the transaction.

    ``number`` is the claim number that the records get. A record is not written if its number is
    ``claim`` or higher, or if a run from ``unless`` on has visited it: another worker was first.
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
        self._run = run
        self._number = number
        self._claim = claim
        self._unless = unless
        self._judgement = judgement
        #: Pages that were rendered: number, hash of the body, what they are made of.
        self.rendered: list[tuple[int, bytes, NewRendering]] = []
        self.records = RecordWriter(
            connection, sink, run=run, source=source, trackers=judgement.trackers
        )

    def write(self, visit: Visit, now: int, changed: set[int]) -> bool:
        """Write one visit; return False if it is stale. Touched contents go to ``changed``."""
        if visit.again:
            return self._extract_again(visit, now, changed)
        page, outcome = visit.page, visit.outcome
        if visit.accepted and not collapsed.delete_collapsed_row(
            self._connection, self._run, page.no
        ):
            return False
        before = self._counts_before(page)
        after = self._after(visit, before, now)
        self._connection.execute(_VISITED, self._state_row(visit, after, now))
        if not self._connection.changes():
            return False
        self._note_turn(visit, self._state_before(page, before), after, now, changed)
        if page.state.ordered and outcome not in (*SILENT, Outcome.TRANSIENT):
            names = {"no": page.no, "generation": page.state.generation}
            self._connection.execute(_PROCESSED, names)
        self.records.write(visit, now, changed)
        self._note_rendering(visit)
        if visit.extracted_again and visit.snapshot_error is not None:
            self._lose_snapshot(visit, now)
        if visit.collapse is not None:
            collapsed.store_collapsed_row(self._connection, self._run, page.no, visit.collapse)
        return True

    def _note_rendering(self, visit: Visit) -> None:
        """Keep what a stored page was made of, if a browser showed it."""
        made = None if visit.attempt is None else visit.attempt.rendering
        body_hash = visit.parsed.body_hash
        stored = visit.action not in (Action.NOTE, Action.HOLD)
        if made is not None and stored and body_hash is not None and made.url == visit.url:
            self.rendered.append((visit.page.no, body_hash, made))

    def _after(self, visit: Visit, before: Counts, now: int) -> _After:
        page, action, outcome = visit.page, visit.action, visit.outcome
        standing = {Action.INDEX: Standing.HELD, Action.LIST: Standing.LINKS}.get(
            action, page.state.standing
        )
        counts = self._counts(visit, before, now)
        policy = self._judgement.policy
        gone = is_gone(counts, outcome, visit.http_status, policy, now)
        waits = waits_for_browser(page.state.standing, visit.http_status)
        status = status_after(action, outcome, page.state.status, standing, gone=gone, waits=waits)
        word = visit.verdict.word if visit.verdict else Word.FAILED
        if status is Status.GONE and outcome is Outcome.NOT_FOUND and page.record.was_held:
            word = Word.GONE  # a tombstone; a page that never had content has failed
        return _After(standing, status, word, counts)

    def _state_row(self, visit: Visit, after: _After, now: int) -> dict[str, object]:
        """Return the values of _VISITED."""
        page, outcome, counts = visit.page, visit.outcome, after.counts
        state = page.state
        failed = after.status in (Status.ERROR, Status.GONE)
        same = visit.action is Action.TOUCH or after.word is Word.UNCHANGED
        waits = visit.attempt is not None and visit.attempt.waits
        unchanged = state.unchanged_count + 1 if same and not waits else 0
        again = visit.accepted or page.plan.late  # this run counted the page before
        counted = page.plan.late and state.status in (Status.ERROR, Status.GONE)
        errors = state.error_count + 1 - counted if failed else 0
        if _begins_to_collapse(visit):
            errors = 1  # rules.shield.accepts_collapse counts these alone
        schedule = self._judgement.schedule
        if after.status is Status.PENDING:  # due at once, and its errors count on
            errors, interval, wait = state.error_count, schedule.base, 0
        elif failed and not _is_wall(visit):
            interval = schedule.backoff(errors, visit.answer.retry_after)
            wait = schedule.spread_error(interval, page.no)
        else:  # a sitemap announces other pages: it always has the shortest interval
            interval = schedule.interval(0 if visit.kind else unchanged)
            wait = schedule.spread(interval, page.no)
        return {
            "run": self._run,
            "allowed": outcome is not Outcome.EXCLUDED,
            "number": self._number,
            "claim": self._number + 1 if again else self._claim,
            "unless": EVERY_RUN if again else self._unless,
            "attempt": int(not again),
            "now": now,
            "next_visit": now + wait,
            "interval": interval,
            "status": after.status,
            "standing": after.standing,
            "outcome": after.word,
            "http_status": visit.http_status,
            "effective_status": effective_status(
                visit.action, outcome, visit.http_status, state.effective_status
            ),
            "lost": counts.lost,
            "gone": counts.gone,
            "lost_since": counts.lost_since,
            "gone_since": counts.gone_since,
            "unchanged": unchanged,
            "errors": errors,
            "failed": int(failed) - (visit.accepted or counted),
            "learnt": outcome not in SILENT,
            "marks": _etag_marks(visit),
            "no": page.no,
        }

    def _note_turn(
        self, visit: Visit, state: PageState, after: _After, now: int, changed: set[int]
    ) -> None:
        """Record an event if a page became lost, was found, or changed its status or standing.

        A page that failed otherwise and collapses now has one, too: its time counts for acceptance.
        """
        page, counts = visit.page, after.counts
        turned = (counts.lost > 0) is not (state.lost_count > 0)
        if turned and counts.lost == 0 and page.record.content is not None:
            changed.add(page.record.content)  # another page may have become the original
        turned = turned or (after.status, after.standing) != (state.status, state.standing)
        turned = turned or _is_item_moved(visit) or _begins_to_collapse(visit)
        if turned and (state.status is not Status.PENDING or state.visited_run):  # not its first
            why = visit.error or (_AN_EDIT if visit.accepted else None)
            if why is None and _is_item_moved(visit):
                why = f"it has another address now; before: {page.url}"
            row = (page.no, self._run, now, after.status, after.standing, after.word)
            self._connection.execute(EVENT, (*row, visit.http_status, why))

    def _extract_again(self, visit: Visit, now: int, changed: set[int]) -> bool:
        """Write a re-extraction of a stored body, for which no request was sent."""
        page = visit.page
        if not self._connection.execute(_IS_OURS, {"claim": self._claim, "no": page.no}).get:
            return False
        if visit.action is Action.INDEX:
            self.records.write(visit, now, changed)
        else:
            self._lose_snapshot(visit, now)
        return True

    def _lose_snapshot(self, visit: Visit, now: int) -> None:
        """Detach a useless snapshot from its page, which a later visit downloads whole."""
        page = visit.page
        record, state = page.record, page.state
        self._connection.execute(_NO_SNAPSHOT, (page.no,))
        if visit.snapshot_error is not None:
            delete_lost_snapshot_row(self._connection, record.snapshot, record.body_hash)
        else:  # the file is sound, and another configuration may be able to read it
            release_snapshot_row(self._connection, record.snapshot, now)
        row = (page.no, self._run, now, state.status, state.standing, Word.FAILED, Fault.SNAPSHOT)
        self._connection.execute(EVENT, (*row, visit.snapshot_error or visit.error))

    def _counts_before(self, page: Page) -> Counts:
        """Return the counts of a page before this run visited it.

        A late visit replaces another one, so that the run counts the page once.
        """
        state = page.state
        counts = Counts(state.lost_count, state.gone_count, state.lost_since, state.gone_since)
        if not page.plan.late:
            return counts
        word = Word(self._connection.execute(_WORD, (page.no,)).get)
        outcome = stored_visit_outcome(word, state.http_status, state.standing)
        if outcome is None:
            return counts
        held = state.standing is Standing.HELD
        policy = self._judgement.policy
        return absence_counts_before(counts, outcome, state.http_status, policy, held=held)

    def _state_before(self, page: Page, before: Counts) -> PageState:
        """Return the state of a page before this run visited it; a late visit has one event."""
        state, key = page.state, (page.no, self._run)
        if not page.plan.late:
            return state
        if page.record.first_run == self._run:
            return state._replace(status=Status.PENDING, visited_run=0)
        self._connection.execute(_UNNOTED, (*key, state.status, state.http_status))
        if not self._connection.changes():
            return state
        status = self._connection.execute(_LAST_STATUS, (page.no,)).get
        if status is None:
            status = Status.INDEXED if state.standing is Standing.HELD else Status.CRAWLED
        return state._replace(status=Status(status), lost_count=before.lost)

    def _counts(self, visit: Visit, before: Counts, now: int) -> Counts:
        page = visit.page
        state = page.state
        if visit.outcome is Outcome.REDIRECT and visit.action is Action.HOLD:
            return before  # settlement judges it, when the target has been visited
        after = absence_counts_after(
            before,
            visit.outcome,
            visit.http_status,
            self._judgement.policy,
            now,
            held=state.standing is Standing.HELD,
            first_run=page.record.first_run in (None, self._run),
        )
        pace = self._judgement.pace
        return paced_absence_counts(before, after, pace, now) if pace else after

"""The write of one batch in one transaction: addresses, outcomes, links, content and index."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass, field
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from smartcrawl.model.batches import Batch
from smartcrawl.model.exceptions import CommitsLostError
from smartcrawl.model.pages import Visit
from smartcrawl.model.urls import display_url
from smartcrawl.registry.commit.collapsed import store_former_hashes
from smartcrawl.registry.commit.record import prepare_content_rows, store_unreadable_rows
from smartcrawl.registry.commit.run_counts import BatchCounts, VisitedHosts
from smartcrawl.registry.commit.visit import EVERY_RUN, Judgement, VisitWriter
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.index_protocols import Sink
from smartcrawl.registry.pack import numbers_for_sql, pack_stored_numbers, unpack_stored_numbers
from smartcrawl.registry.render_samples import store_sample_rows
from smartcrawl.registry.rendered import store_data_rows, store_page_rows
from smartcrawl.registry.source_due import FORWARD
from smartcrawl.registry.spellings import store_spelling_rows, store_tried_rows
from smartcrawl.rules.absence import SPOKEN
from smartcrawl.rules.clones import (
    MIN_CLONE_PAGES,
    MIN_CLONE_TEXT,
    OWN,
    Member,
    decide_clone_places,
)
from smartcrawl.rules.model import Fault, Outcome, RemovalRule, RunState, Word
from smartcrawl.rules.reindex import decide
from smartcrawl.rules.schedule import PHASES, SCATTER, Schedule
from smartcrawl.rules.trust import LED_BACK, Trust

#: Orphans whose last look failed. A link that was found since the look is evidence against it.
_UNREACHABLE = f"""
d.probe NOT IN ({", ".join(map(str, sorted(SPOKEN)))}) AND s.reached_run < d.renewed
"""
#: Pages whose last answer was their content, also those that were not due in this run.
_ANSWERED = f"""
s.http_status IN (200, 304)
AND s.outcome IN ({Word.NEW:d}, {Word.MODIFIED:d}, {Word.UNCHANGED:d}, {Word.SKIPPED:d})
"""
#: A group is a content and, if that is short and of few pages, a body; a page without text is its
#: own group.
_MEMBERS = f"""
SELECT r.content, CASE WHEN c.text_length = 0 THEN r.no END,
       CASE WHEN c.text_length BETWEEN 1 AND :least - 1
             AND count(*) OVER (PARTITION BY r.content) < :many THEN r.body_hash END,
       r.duplicate_of, r.no, s.lost_count > 0, coalesce(r.changed_run, 0) >= :run, r.entry,
       s.depth, length(r.url), r.first_run, r.id, coalesce({_UNREACHABLE}, FALSE),
       s.seen_run >= :run AND {_ANSWERED}
  FROM record r JOIN state s USING (no) JOIN content c ON c.no = r.content
       LEFT JOIN candidate d ON d.no = r.no
 WHERE r.content IN carray(:contents)
"""
_PLACE = "UPDATE record SET duplicate_of = ?, entry = ? WHERE no = ?"
#: A content of one page needs no election, unless that page was a clone.
_WITH_CLONES = """
SELECT content FROM record WHERE content IN carray(?)
 GROUP BY content HAVING count(*) > 1 OR max(duplicate_of) IS NOT NULL OR min(entry) <> 1
"""
#: The first run after the last settled one; runs between them were interrupted.
_SINCE = f"""
SELECT coalesce(max(no), 0) + 1 FROM run
 WHERE source = :source AND no < :run AND state IN ({int(RunState.SETTLED)}, {int(RunState.SWEPT)})
"""
#: Groups that a page has joined since then, or with a page that was lost or found again, or with
#: an original that is an orphan and cannot be reached.
_GROUPS_OF_RUN = f"""
WITH several AS (
    SELECT content FROM record WHERE content IS NOT NULL GROUP BY content HAVING count(*) > 1
)
SELECT DISTINCT r.content FROM several JOIN record r USING (content)
 WHERE +r.source = :source
   AND (r.changed_run >= :since OR r.no IN (SELECT record FROM event WHERE run >= :since)
        OR (r.entry = {OWN} AND r.no IN (
            SELECT d.no FROM candidate d JOIN state s USING (no)
             WHERE d.source = :source AND {_UNREACHABLE})))
"""


def write_clone_places(
    connection: Connection, run: int, contents: Iterable[int], *, midway: bool
) -> None:
    """Set the places of the pages of some contents (rules.clones.decide_clone_places)."""
    several: Any = connection.execute(_WITH_CLONES, (numbers_for_sql(contents),))
    held = [content for (content,) in several.fetchall()]
    if not held:
        return
    names = {"run": run, "contents": numbers_for_sql(held), "least": MIN_CLONE_TEXT}
    names["many"] = MIN_CLONE_PAGES
    groups: defaultdict[tuple[object, ...], list[Member]] = defaultdict(list)
    before: dict[int, tuple[int | None, int]] = {}
    row: Any
    for row in connection.execute(_MEMBERS, names):
        member = Member(row[4], bool(row[5]), bool(row[6]), *row[7:12], *map(bool, row[12:]))
        groups[row[:3]].append(member)
        before[member.no] = (row[3], member.entry)
    moved = [
        (*place, no)
        for members in groups.values()
        for no, place in decide_clone_places(members, midway=midway).items()
        if place != before[no]
    ]
    connection.executemany(_PLACE, moved)


def settle_clone_rows(connection: Connection, run: int, source: int) -> list[int]:
    """Elect the originals of every group touched since the last settled run.

    Return the contents of those groups.
    """
    since = int(connection.execute(_SINCE, {"run": run, "source": source}).get)
    names = {"since": since, "source": source}
    groups: Any = connection.execute(_GROUPS_OF_RUN, names).fetchall()
    contents = [content for (content,) in groups]
    write_clone_places(connection, since, contents, midway=False)
    return contents


def renumber_batch_rows(batch: Batch, renamed: Mapping[int, int]) -> None:
    """Replace numbers in a batch; a renamed address is registered already and counts as reached."""
    if not renamed:
        return
    new = []
    for address in batch.addresses:
        if address.no in renamed:
            _reach(batch, renamed[address.no], address.depth)
            # The other worker may have met it under another spelling, which it requests.
            batch.spellings.setdefault(address.no, []).insert(0, address.url)
        else:
            origin = address.discovered_from
            new.append(address._replace(discovered_from=_one(renamed, origin)))
    batch.addresses = new
    for number in [number for number in batch.reached if number in renamed]:
        _reach(batch, renamed[number], batch.reached.pop(number))
    for number in [number for number in batch.spellings if number in renamed]:
        urls = batch.spellings.pop(number)
        batch.spellings.setdefault(renamed[number], []).extend(urls)
    for number in [number for number in batch.kinds if number in renamed]:
        batch.kinds.setdefault(renamed[number], batch.kinds.pop(number))
    batch.retargeted = [
        (no, scope, _packed(renamed, targets), _one(renamed, canonical))
        for no, scope, targets, canonical in batch.retargeted
    ]
    for visit in batch.visits:
        parsed = visit.parsed
        parsed.targets = _packed(renamed, parsed.targets)
        parsed.canonical_no = _one(renamed, parsed.canonical_no)


def _reach(batch: Batch, number: int, depth: int) -> None:
    batch.reached[number] = min(depth, batch.reached.get(number, depth))


def _one(renamed: Mapping[int, int], number: int | None) -> int | None:
    return number if number is None else renamed.get(number, number)


def _packed(renamed: Mapping[int, int], targets: bytes) -> bytes:
    numbers = unpack_stored_numbers(targets)
    if renamed.keys().isdisjoint(numbers):
        return targets
    return pack_stored_numbers(
        list(dict.fromkeys(renamed.get(number, number) for number in numbers))
    )


#: Python's errors about a value: text without UTF-8, a number that is too large, or a type that
#: no column takes.
DATA_ERRORS = (ValueError, TypeError, OverflowError)

#: Writes a batch with only its first visits, by count; returns the error, or None.
Attempt = Callable[[int], Exception | None]


class Failed(NamedTuple):
    """A visit that could not be written, and the word under which it was counted before."""

    visit: Visit
    word: Word


def first_refused_visit_row(
    visits: list[Visit], attempt: Attempt
) -> tuple[Visit, Exception] | None:
    """Return the first visit that cannot be written after its predecessors, with the error.

    None if no visit is the cause: the batch fails without visits, too, or does not fail again.
    The number of trials grows with the logarithm of the number of visits.
    """
    why = attempt(len(visits))
    if why is None or attempt(0) is not None:
        return None
    good, bad = 0, len(visits)
    while bad - good > 1:
        middle = (good + bad) // 2
        found = attempt(middle)
        if found is None:
            good = middle
        else:
            bad, why = middle, found
    return visits[bad - 1], why


def store_refused_visit_row(visit: Visit, why: str) -> Failed:
    """End a visit as UNPROCESSABLE; stored content and validators stay.

    It does not count as unreachable: its server answered, and its links were offered
    (R1-36; ADR 130).
    """
    parsed = visit.parsed
    word = visit.verdict.word if visit.verdict is not None else Word.FAILED
    visit.fail(Fault.PROCESSING, why)
    parsed.document, parsed.links, parsed.targets, visit.answer.body = None, None, b"", None
    visit.verdict = decide(visit.page.state.standing, visit.outcome)
    return Failed(visit, word)


def store_unwritable_visit_row(visit: Visit, error: Exception) -> Failed:
    """End a visit that the database refuses, and clear every value that it may refuse."""
    visit.url, visit.kind, visit.answer.location = visit.page.url, visit.page.kind, None
    visit.collapse = visit.parsed.unreadable = visit.snapshot = None
    return store_refused_visit_row(
        visit, f"the registry does not take it: {database_refusal_reason(error)}"
    )


def database_refusal_reason(error: Exception) -> str:
    r"""Return type and first line of an error, in characters that every database takes.

    >>> database_refusal_reason(ValueError("a\x00b \ud800\nmore"))
    'ValueError: a\\x00b \\ud800'
    """
    text = (str(error).splitlines() or [""])[0].replace("\0", "\\x00")
    readable = text.encode("utf-8", "backslashreplace").decode()
    return f"{type(error).__name__}: {readable}" if readable else type(error).__name__


_HOST = "INSERT INTO host (name, display) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
_HOST_TALLY = """
UPDATE host SET pages_crawled = pages_crawled + :crawled, pages_failed = pages_failed + :failed,
       bytes_downloaded = bytes_downloaded + :bytes, response_ms = response_ms + :response_ms,
       first_crawled_at = CASE WHEN :crawled + :failed > 0
                               THEN coalesce(first_crawled_at, :now) ELSE first_crawled_at END,
       last_crawled_at = CASE WHEN :crawled + :failed > 0 THEN :now ELSE last_crawled_at END,
       robots_fetched_at = CASE WHEN :robots IS NULL THEN robots_fetched_at ELSE :now END,
       robots_hash = coalesce(:robots, robots_hash),
       crawl_delay_ms = CASE WHEN :robots IS NULL THEN crawl_delay_ms
                             ELSE coalesce(:crawl_delay_ms, 1000) END,
       robots_failed_at = CASE WHEN :robots_error IS NULL THEN robots_failed_at ELSE :now END,
       robots_error = coalesce(:robots_error, robots_error),
       retry_after_at = CASE WHEN :retry_after IS NULL THEN retry_after_at ELSE :now END,
       retry_after = coalesce(:retry_after, retry_after)
 WHERE name = :name
"""
_HOST_NOW = """
INSERT INTO host_now (host, run, at, delay_ms, in_flight, parked_until, paused_until, is_down)
SELECT no, ?, ?, ?, ?, ?, ?, ? FROM host WHERE name = ?
ON CONFLICT (host) DO UPDATE
   SET run = excluded.run, at = excluded.at, delay_ms = excluded.delay_ms,
       in_flight = excluded.in_flight, parked_until = excluded.parked_until,
       paused_until = excluded.paused_until, is_down = excluded.is_down
"""
_NOT_FOUND = """
INSERT INTO not_found (host, at, profile) SELECT no, ?, ? FROM host WHERE name = ?
ON CONFLICT (host) DO UPDATE SET at = excluded.at, profile = excluded.profile
"""
_TRUST = """
INSERT INTO trust (host, etags, frozen, dates, false_dates, repeated, rotated, ignored, honoured,
                   contradictory, run, matched, unheard, rotating, plain_unheard, plain_heard,
                   distrusted_at)
SELECT no, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM host WHERE name = ?
ON CONFLICT (host) DO UPDATE
   SET etags = excluded.etags, frozen = excluded.frozen, dates = excluded.dates,
       false_dates = excluded.false_dates, repeated = excluded.repeated,
       rotated = excluded.rotated, ignored = excluded.ignored, honoured = excluded.honoured,
       contradictory = excluded.contradictory, run = excluded.run, matched = excluded.matched,
       unheard = excluded.unheard, rotating = excluded.rotating,
       plain_unheard = excluded.plain_unheard, plain_heard = excluded.plain_heard,
       distrusted_at = CASE WHEN excluded.distrusted_at IS NULL THEN NULL
                            WHEN excluded.etags < trust.etags THEN excluded.distrusted_at
                            ELSE coalesce(trust.distrusted_at, excluded.distrusted_at) END
"""
_ROBOTS = """
INSERT INTO robots (origin, fetched_at, status, etag, last_modified, body)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (origin) DO UPDATE
   SET fetched_at = excluded.fetched_at, status = excluded.status, etag = excluded.etag,
       last_modified = excluded.last_modified, body = excluded.body
"""
_HOST_NUMBERS = "SELECT name, no FROM host WHERE name IN carray(?)"
_RECORD = (
    "no", "source", "id", "url", "identity", "host", "discovered_from", "first_run", "first_seen",
    "kind",
)  # fmt: skip
_STATE = ("no", "reached_run", "depth", "host")
#: Keep the smallest depth of a page that was reached since run ``since``. A forced run keeps only
#: its own depths (M-24).
_REACHED = """
UPDATE state
   SET depth = CASE WHEN reached_run = :run OR (reached_run >= :since AND NOT :forced)
                    THEN min(depth, :depth) ELSE :depth END,
       reached_run = :run
 WHERE no IN carray(:numbers)
"""
#: Pages that a 304 confirmed, with nothing else to update (Batch.touched). {interval} and {wait}
#: are SQL expressions for Schedule's methods; {kept_marks} are marks that a 304 leaves.
_TOUCHED = """
UPDATE state
   SET reached_run = :run, visited_run = :run, seen_run = :run, number = :number,
       last_checked = :now,
       last_answered = :now, next_visit = :now + {wait}, interval = {interval}, status = 2,
       outcome = 3, http_status = 304, gone_count = 0, gone_since = NULL, error_count = 0,
       unchanged_count = unchanged_count + 1, attempts = attempts + 1,
       etag_marks = etag_marks & {kept_marks}
 WHERE no IN carray(:numbers) AND number < :claim AND standing = 2 AND visited_run < :unless
"""
#: Listed files that were read before and are not to be indexed, or cannot be read (Batch.aside):
#: their last answer counts.
_ASIDE = f"""
UPDATE state
   SET reached_run = :run, visited_run = :run, seen_run = :run, number = :number,
       last_checked = :now, unchanged_count = unchanged_count + 1, attempts = attempts + 1
 WHERE no IN carray(:numbers) AND number < :claim AND visited_run < :unless
   AND (standing = 1 OR outcome = {int(Word.FAILED)})
"""
#: A page that robots.txt excluded at its last visit keeps its seen_run, so that it ages.
_SKIPPED = """
UPDATE state SET seen_run = :run WHERE no IN carray(:numbers) AND seen_run >= visited_run
"""
#: A changed date in a sitemap can only bring a visit forward.
_NOTICED = f"UPDATE state SET {FORWARD} WHERE no = :no AND last_checked < :modified"
_FOUND = "UPDATE source SET listing = ? WHERE no = ?"
_PROBED = "UPDATE candidate SET probe = ?, rule = ? WHERE no = ? AND renewed = ?"
_RETARGET = "UPDATE links SET scope = ?, targets = ? WHERE no = ?"
_NAME = "UPDATE record SET canonical_no = ? WHERE no = ? AND canonical_no IS DISTINCT FROM ?"
#: An address that was parsed as a page stays a page, even if it is listed as a sitemap.
_KIND = """
UPDATE record SET kind = ? WHERE no = ? AND (kind > 0 OR (content IS NULL AND body_hash IS NULL))
"""
#: The records of a batch that are not there.
_NOWHERE = """
SELECT count(*) FROM carray(?) WHERE NOT EXISTS (SELECT 1 FROM record r WHERE r.no = value)
"""
_CUT = "UPDATE run SET cut = ? WHERE no = ?"
_CUT_SO_FAR = "SELECT cut FROM run WHERE no = ?"
_KNOWN = "SELECT id, no FROM record WHERE source = ? AND id IN carray(?)"
_TRUST_SO_FAR = """
SELECT t.etags, t.frozen, t.dates, t.false_dates, t.repeated, t.rotated, t.ignored, t.honoured,
       t.contradictory, t.run, t.matched, t.unheard, t.rotating, t.plain_unheard, t.plain_heard
  FROM trust t JOIN host h ON h.no = t.host WHERE h.name = ?
"""


def _interval(schedule: Schedule) -> str:
    """Return ``schedule.interval(unchanged_count + 1)`` in SQL."""
    last = len(schedule.steps) - 1
    cases = " ".join(
        f"WHEN {step} THEN {schedule.interval(step * schedule.patience)}"
        for step in range(last + 1)
    )
    return f"CASE min((unchanged_count + 1) / {schedule.patience}, {last}) {cases} END"


def _spread(schedule: Schedule, interval: str) -> str:
    """Return ``schedule.spread(interval, no)`` in SQL."""
    phase = f"({PHASES} + no * {SCATTER} % {PHASES})"
    return f"{interval} - {phase} * {interval} * {schedule.jitter} / {2000 * PHASES}"


def _displayed(host: str) -> str | None:
    """Return the Unicode spelling of a host; None if it equals ``host`` (R0-19)."""
    shown = display_url(f"http://{host}").removeprefix("http://")
    return shown if shown != host else None


@dataclass(slots=True)
class Sharing:
    """Coordination of this worker with the other workers of a shared run.

    Each transaction locks the row of the run before it reads rows that other workers write. So the
    transactions run one after another, and a row stays valid from the read to the commit.
    """

    claim: int  #: claim number, drawn when this worker joined
    merged: Callable[[str, str], str]  #: merges stored and new shortcomings
    renamed: dict[int, int] = field(default_factory=dict)  #: own number -> valid number
    news: dict[int, int] = field(default_factory=dict)  #: entries of ``renamed`` not reported yet


class RegistryCommit:
    """Writes batches of one run over one connection; the caller opens the transaction.

    Without ``sharing`` no other worker writes to the run. ``hosts``: hosts whose visits this
    process has committed.
    """

    def __init__(
        self,
        connection: Connection,
        sink: Sink,
        *,
        run: int,
        source: int,
        number: int,
        since: int,
        forced: bool,
        judgement: Judgement,
        sharing: Sharing | None = None,
        hosts: VisitedHosts | None = None,
    ) -> None:
        self._connection = connection
        self._sharing = sharing
        self.counts = BatchCounts(connection, run, hosts or VisitedHosts())
        self._begun: Batch | None = None
        self._claim = number if sharing is None else sharing.claim
        #: In a shared run, the first answer that a worker commits for an address is valid.
        self._unless = EVERY_RUN if sharing is None else run
        self._sink = sink
        self._run = run
        self._source = source
        self._number = number
        self._since = since
        self._forced = forced
        interval = _interval(judgement.schedule)
        wait = _spread(judgement.schedule, interval)
        self._touch = _TOUCHED.format(interval=interval, wait=wait, kept_marks=LED_BACK)
        self._visits = VisitWriter(
            connection,
            sink,
            run=run,
            source=source,
            number=number,
            claim=self._claim,
            unless=self._unless,
            judgement=judgement,
        )

    def begin(self, batch: Batch) -> None:
        """Prepare the contents of a batch, and lock the run's row by adding the batch's counts.

        In a shared run, the numbers of addresses that another worker registered first are replaced.

        Raises:
            RunOverError: the run is no longer open; nothing may be written to it.
        """
        self._begun = batch
        records = self._visits.records
        records.prepared = prepare_content_rows(
            self._connection, self._sink, self._source, batch.visits
        )
        self.counts.begin(batch.counts)
        if self._sharing is not None:
            self._agree(batch, self._sharing)

    def write(self, batch: Batch, now: int) -> int:
        """Write a batch; return the number of stale visits, which were dropped.

        Raises:
            RunOverError: as in ``begin``, which ``write`` calls if the caller has not.
            CommitsLostError: a page of the batch, or the target of a link, has no record.
        """
        if self._begun is not batch:
            self.begin(batch)
        self._begun = None
        if batch.cut is not None:
            self._write_cut(batch.cut)
        if batch.listing is not None:
            self._connection.execute(_FOUND, (batch.listing, self._source))
        self._write_hosts(batch, now)
        self.counts.reach(batch)
        self._write_addresses(batch, now)
        self._require_records(batch)
        self.counts.before_visits(batch)
        if batch.skipped:
            skipped = {"run": self._run, "numbers": numbers_for_sql(batch.skipped)}
            self._connection.execute(_SKIPPED, skipped)
        noticed = [{"no": no, "modified": at, "now": now} for no, at in sorted(batch.noticed)]
        self._connection.executemany(_NOTICED, noticed)
        stale = self._write_touched(batch, now)
        changed: set[int] = set()
        # Last, so that a lost snapshot is also removed from the pages of this batch that share it.
        for visit in sorted(batch.visits, key=attrgetter("lost_snapshot")):
            if not self._visits.write(visit, now, changed):
                # An accepted collapse was counted before, and a late visit is.
                stale += not (visit.accepted or visit.page.plan.late)
        store_spelling_rows(
            self._connection, batch.spellings, self._run
        )  # visits replace addresses
        store_tried_rows(self._connection, batch.tried, self._run, now)
        store_unreadable_rows(
            self._connection, filter(None, (visit.parsed.unreadable for visit in batch.visits)), now
        )
        store_former_hashes(self._connection, self._visits.records.former)
        store_data_rows(self._connection, self._source, batch.data)
        store_sample_rows(self._connection, self._source, batch.samples)
        store_page_rows(self._connection, self._visits.rendered)
        for left in self._visits.records.prepared.values():  # the visit is stale, or the text known
            self._sink.remove(left)
        for probe in batch.probes:
            excluded = probe.outcome is Outcome.EXCLUDED
            rule = RemovalRule.EXCLUDED if excluded else RemovalRule.ORPHAN
            row = (probe.http_status, rule, probe.page.no, self._run)
            self._connection.execute(_PROBED, row)
        if changed:
            write_clone_places(self._connection, self._run, sorted(changed), midway=True)
            self._sink.moved(changed)
        self._sink.flush()
        self.counts.after_visits(now, 0 if self._sharing is None else stale)
        return stale

    def _agree(self, batch: Batch, sharing: Sharing) -> None:
        """Replace the numbers of addresses that another worker registered first."""
        renumber_batch_rows(batch, sharing.renamed)
        met = {address.id: address.no for address in batch.addresses}
        if met:
            values = (self._source, Many(tuple(met)))
            known: Any = self._connection.execute(_KNOWN, values).fetchall()
            fresh = {met[bytes(key)]: no for key, no in known}
            sharing.renamed.update(fresh)
            sharing.news.update(fresh)
            renumber_batch_rows(batch, fresh)

    def _write_cut(self, news: str) -> None:
        if self._sharing is not None:
            so_far = str(self._connection.execute(_CUT_SO_FAR, (self._run,)).get)
            news = self._sharing.merged(so_far, news)
        self._connection.execute(_CUT, (news, self._run))

    def _write_hosts(self, batch: Batch, now: int) -> None:
        names = {address.host for address in batch.addresses} | batch.hosts.keys()
        self._connection.executemany(_HOST, [(name, _displayed(name)) for name in sorted(names)])
        rows = [(origin, r.fetched_at, r.status, r.etag, r.last_modified, r.body)
                for origin, r in batch.robots.items()]  # fmt: skip
        self._connection.executemany(_ROBOTS, rows)
        for name, tally in sorted(batch.hosts.items()):  # every worker locks them in this order
            values = {
                "name": name,
                "now": now,
                "crawled": tally.crawled,
                "failed": tally.failed,
                "bytes": tally.downloaded,
                "response_ms": tally.response_ms,
                "robots": tally.robots,
                "crawl_delay_ms": tally.crawl_delay_ms,
                "robots_error": tally.robots_error,
                "retry_after": tally.retry_after,
            }
            self._connection.execute(_HOST_TALLY, values)
            if tally.not_found is not None:
                self._connection.execute(_NOT_FOUND, (now, tally.not_found or None, name))
            if (trust := tally.trust) is not None:
                if self._sharing is not None:
                    row: Any = self._connection.execute(_TRUST_SO_FAR, (name,)).fetchone()
                    trust = Trust(*row).joined(trust, tally.trusted) if row else trust
                since = now if trust.distrust_reasons() else None
                self._connection.execute(_TRUST, (*astuple(trust), since, name))
            if (seen := tally.now) is not None:
                how = (seen.delay_ms, seen.in_flight, seen.parked_until, seen.paused_until)
                row = (self._run, now, *how, seen.is_down, name)
                self._connection.execute(_HOST_NOW, row)

    def _write_addresses(self, batch: Batch, now: int) -> None:
        run, source = self._run, self._source
        if batch.addresses:
            known = sorted({address.host for address in batch.addresses})
            hosts = dict(self._connection.execute(_HOST_NUMBERS, (Many(known),)).fetchall())
            rows = [
                (a.no, source, a.id, a.url, a.identity, hosts[a.host], a.discovered_from, run, now,
                 a.kind)
                for a in batch.addresses
            ]  # fmt: skip
            self._connection.fill("record", _RECORD, rows)
            states = [(a.no, run, a.depth, hosts[a.host]) for a in batch.addresses]
            self._connection.fill("state", _STATE, states)
        kinds = [(kind, number) for number, kind in sorted(batch.kinds.items())]
        self._connection.executemany(_KIND, kinds)
        by_depth: defaultdict[int, array[int]] = defaultdict(lambda: array("q"))
        for number in sorted(batch.reached):
            by_depth[batch.reached[number]].append(number)
        names = {"run": run, "since": self._since, "forced": self._forced}
        for depth, reached in by_depth.items():
            values = {**names, "depth": depth, "numbers": Many(reached)}
            self._connection.execute(_REACHED, values)

    def _require_records(self, batch: Batch) -> None:
        """Check that the batch's pages, and the targets of the links that it stores, have records.

        Those of another worker are gone where the database lost its last commits. A file loses
        none (``check_place``).
        """
        if self._connection.dialect != "postgres":
            return
        needed = {visit.page.no for visit in batch.visits}
        for visit in batch.visits:
            needed.update(unpack_stored_numbers(visit.parsed.targets))
        for _, _, targets, _ in batch.retargeted:
            needed.update(unpack_stored_numbers(targets))
        if self._sharing is not None:
            needed.update(batch.touched, batch.aside)
        needed.difference_update(address.no for address in batch.addresses)
        if needed:
            missing = int(self._connection.execute(_NOWHERE, (numbers_for_sql(needed),)).get)
            if missing:
                raise CommitsLostError(
                    f"the database lost the last commits: {missing} of the addresses that "
                    "a batch leads to have no record any more; nothing of the batch is "
                    "stored, and the next run requests the missing pages again"
                )

    def _write_touched(self, batch: Batch, now: int) -> int:
        retargeted = sorted(batch.retargeted, key=itemgetter(0))
        rows = [(scope, targets, no) for no, scope, targets, _ in retargeted]
        self._connection.executemany(_RETARGET, rows)
        named = [(number, no, number) for no, _, _, number in retargeted]
        self._connection.executemany(_NAME, named)
        if not (batch.touched or batch.aside):
            return 0
        values = {
            "run": self._run,
            "number": self._number,
            "claim": self._claim,
            "unless": self._unless,
            "now": now,
        }
        stale = 0
        for numbers, statement in ((batch.touched, self._touch), (batch.aside, _ASIDE)):
            if numbers:
                names = values | {"numbers": numbers_for_sql(numbers)}
                self._connection.execute(statement, names)
                stale += len(numbers) - self._connection.changes()
        return stale

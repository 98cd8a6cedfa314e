"""A rehearsal of the next run of a source: what it would ask, skip and remove (ADR 143).

The run is a real one, on a copy of its source's rows that is dropped. It sends no request: each
page answers as it did last time. Of an address without a record nothing is known; it is counted,
and stays unanswered without making the run incomplete.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from smartcrawl.extract.robots_txt import robots_txt_sitemaps
from smartcrawl.index.choice import EMBEDDED
from smartcrawl.model.documents import Document
from smartcrawl.model.exceptions import HostBlockedError, SmartcrawlError
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Page, Visit, VisitAttempt
from smartcrawl.model.urls import display_url, unsigned_url
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.copy import copied_source
from smartcrawl.registry.pack import numbers_for_sql, unpack_stored_numbers
from smartcrawl.registry.registry import Registry
from smartcrawl.registry.runs.run_results import RunResult
from smartcrawl.reports.stored_robots import StoredRobotsReport
from smartcrawl.reports.today import ReportedRecord, TodayReport, reported_records
from smartcrawl.rules.files import Check
from smartcrawl.rules.forecast import outcome_as_last_time
from smartcrawl.rules.http import REDIRECTS
from smartcrawl.rules.model import Extraction, Outcome, RemovalRule, Standing, Status, Word
from smartcrawl.run.hosts import host_gate_slot
from smartcrawl.run.loop import RunLoop
from smartcrawl.run.orders import Orders
from smartcrawl.run.run import Run
from smartcrawl.run.visits import (
    conditional_page_headers,
    excluded_visit,
    first_page_address,
    host_refusal,
    note_page_request,
)
from smartcrawl.sources.base import Source
from smartcrawl.sources.listing.bucket import BucketListing
from smartcrawl.sources.listing.entries import Entry, Listing, source_entry_check
from smartcrawl.sources.listing.folder import FolderListing
from smartcrawl.sources.sharepoint.source import LibraryEntries

DOUBTED: Final = "its validators are checked by a whole download"
NO_VALIDATOR: Final = "no reliable validator in the listing"
CHANGED: Final = "its validator or size changed"

_PROBES: Final = "SELECT no, probe FROM candidate WHERE source = ? AND probe IS NOT NULL"
#: Addresses of which nothing is known are neither pending nor seeds that failed.
_UNMET: Final = "UPDATE state SET reached_run = 0 WHERE no IN carray(?)"
_NO_SEED: Final = "DELETE FROM seed WHERE no IN carray(?)"
_REMOVED: Final = "SELECT record, rule FROM evidence WHERE run = ? ORDER BY record"
_PROPOSED: Final = """
SELECT no, rule, probe, withheld FROM candidate WHERE source = ? AND renewed = ? ORDER BY no
"""
_REACHED: Final = "SELECT no, visited_run FROM state WHERE reached_run = ?"
_LEADS: Final = """
SELECT l.targets, r.redirect_no FROM record r LEFT JOIN links l USING (no)
 WHERE r.no IN carray(?)
"""


@dataclass(slots=True)
class Rehearsed:
    """What a run would do, by numbers of records."""

    records: Mapping[int, ReportedRecord]  #: those that there are before it
    result: RunResult | None = None  #: the record of the run; None: there would be none
    asked: dict[int, str | None] = field(default_factory=dict)  #: why without validators, in order
    reads: list[tuple[int, Entry]] = field(default_factory=list)  #: entries that would be read
    new: dict[str, None] = field(default_factory=dict)  #: addresses without a record, in order
    refused: dict[int, str] = field(default_factory=dict)  #: reached, and why they are not asked
    behind: set[int] = field(default_factory=set)  #: to which only refused pages lead
    confirmed: set[int] = field(default_factory=set)  #: by a listing, without a look
    waiting: set[int] = field(default_factory=set)  #: reached, and left for a later run
    removed: dict[int, RemovalRule] = field(default_factory=dict)
    withheld: dict[int, RemovalRule] = field(default_factory=dict)  #: by the guard
    kept: dict[int, int | None] = field(default_factory=dict)  #: orphans whose look failed: status

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the run would be incomplete."""
        return () if self.result is None else self.result.reasons


class _RehearsedRun(Run):
    """A run on a copy; the files of its library are not touched."""

    def _new_library(self, orders: Orders) -> None:
        return None


class _Rehearsal(RunLoop):
    """Takes a run to its end, with the answers of last time."""

    def __init__(
        self,
        run: Run,
        now: int,
        *,
        before: Mapping[int, ReportedRecord],
        probes: Mapping[int, int],
        today: TodayReport,
        robots: StoredRobotsReport | None,
        visited: Callable[[int], None],
    ) -> None:
        """``before``: the records as they are; ``probes``: answers to the last looks at orphans.

        ``robots``: None where it is not obeyed. ``visited`` is called with the number of pages.
        """
        super().__init__(run, now)
        self.found = Rehearsed(before)
        self._before = before
        self._probes = probes
        self._today = today
        self._robots = robots
        self._visited = visited
        self._count = 0
        self._unmet: set[int] = set()  #: numbers of addresses of which nothing is known

    async def carry_out(self, listing: Listing | None, taken: Iterable[list[Entry]] | None) -> None:
        """Take the run to its end; ``listing``: that of its source, if it has one.

        ``taken``: the entries of a listing that has ended.
        """
        if listing is not None:
            await self._list(listing, taken)
        await self.to_the_end()

    async def _list(self, listing: Listing, taken: Iterable[list[Entry]] | None) -> None:
        listed = self._run.listed
        assert listed is not None, "its source is listed"
        root = display_url(self._run.source.starts[0])
        try:
            await self._take_listed(listing.batches() if taken is None else taken)
            if isinstance(listing, BucketListing) and listed.lacks_some:
                await self._take_listed(listing.again() or ())
        except (OSError, SmartcrawlError) as error:
            listed.fail(root, str(error))
            return
        if isinstance(listing, FolderListing):
            listed.judge_mounts(listing)
        elif isinstance(listing, LibraryEntries):
            warning = listed.judge_shortfall(root, listing)
            if warning is not None and warning not in listing.notes:
                listing.notes.append(warning)
        listed.end(root, listing)

    async def _take_listed(self, portions: Iterable[list[Entry]]) -> None:
        """Take entries that a thread lists, because a listing may run a loop of its own."""
        listed, batches, left = self._run.listed, self._run.batches, iter(portions)
        assert listed is not None, "its source is listed"
        while (entries := await asyncio.to_thread(next, left, None)) is not None:
            listed.take(entries)
            if batches.batch.full:
                await batches.flush(self._now)

    async def _visit(self, page: Page) -> None:
        self._count += 1
        self._visited(self._count)
        attempt, url = VisitAttempt(page), first_page_address(page)
        why = self._refusal(page, url)
        entry = None if self._run.listed is None else self._run.listed.entry(page.no)
        if entry is not None:
            self.found.reads.append((page.no, entry))
        visit: Visit | None
        if why is not None:
            if not page.plan.verify:
                self.found.refused[page.no] = why
            visit = excluded_visit(self._run, attempt, url, why)
        elif page.plan.verify:
            visit = self._look(attempt, url)
        else:
            visit = self._answer(attempt, url, entry)
        while visit is not None and (following := await self._take(visit)) is not None:
            url = following.url  # another spelling of the address
            is_look = page.plan.verify
            visit = self._look(attempt, url) if is_look else self._answer(attempt, url, None)

    def _refusal(self, page: Page, url: str) -> str | None:
        """Return why an address may not be asked."""
        run = self._run
        refusal = host_refusal(run, run.gate, url, host_gate_slot(page.host))
        if isinstance(refusal, HostBlockedError):
            return "its host is blocked"
        if self._robots is None or not run.source.kind_of(page.url).asks_robots:
            return None
        answer = self._robots.answer(url)
        return "disallowed by robots.txt" if answer is not None and answer[0] is False else None

    def _answer(self, attempt: VisitAttempt, url: str, listed: Entry | None) -> Visit | None:
        """Return the Visit of a page that answers as last time; None: nothing is known of it.

        ``listed``: its entry, where a listing names it.
        """
        run, page = self._run, attempt.page
        entry = self._before.get(page.no)
        if entry is None:
            self.found.new[page.url] = None
            self._unmet.add(page.no)
            return None
        plan = page.plan
        if plan.extraction is Extraction.WHOLE:  # the copy has no snapshots
            plan.extraction = self._today.extraction(entry)
        headers = conditional_page_headers(run, page, url)
        note_page_request(attempt, url, headers, is_head=False)
        self.found.asked.setdefault(
            page.no, self._reason(page, entry, listed, is_conditional=bool(headers))
        )
        if plan.extraction is Extraction.AGAIN:
            plan.extraction = Extraction.STANDS  # the stored body is not read
        visit = attempt.visit(unsigned_url(url))
        if not _answers_as_last_time(visit, entry):
            self._unmet.add(page.no)
            return None
        return visit

    def _look(self, attempt: VisitAttempt, url: str) -> Visit:
        """Return the last look at an unreached page: as the look before, else as its last visit."""
        entry = self._before[attempt.page.no]
        visit = attempt.visit(unsigned_url(url))
        probe = self._probes.get(entry.no)
        status = entry.http_status if probe is None else probe
        visit.http_status = 200 if status is None else status
        visit.outcome = outcome_as_last_time(
            Standing(entry.standing), Status(entry.status), Word.ORPHANED, visit.http_status
        ) or Outcome.NOT_MODIFIED  # fmt: skip
        return visit

    def _reason(
        self, page: Page, entry: ReportedRecord, found: Entry | None, *, is_conditional: bool
    ) -> str | None:
        """Return why a page is asked without validators, or why a listed file is read.

        None: it is asked with some. ``found``: its entry, if the listing has one.
        """
        is_listed = self._run.source.lists(page.url)
        if is_conditional and not is_listed:
            return None
        why = self._today.reason_without_validators(entry)
        if why is not None or not is_listed:
            return why or DOUBTED
        record, state = page.record, page.state
        if self._today.extraction(entry) is not Extraction.STANDS:
            return "extracted with other settings"
        if record.noted or state.lost_count or state.status is not Status.INDEXED:
            return "failed at its last visit"
        if found is None or found.validator is None:
            return NO_VALIDATOR
        is_hash = self._run.source.traits.is_hashed
        check = source_entry_check(record.etag, record.content_length, found, is_hash=is_hash)
        return DOUBTED if check is Check.SKIP else CHANGED

    def _late_spellings(self, now: int) -> list[Page]:
        """Leave out the addresses of which nothing is known: all batches are written now."""
        pages = super()._late_spellings(now)
        if self._unmet:  # the run visits them: it is not one without pages
            self._run.shortcomings.is_empty = True
        with self._run.registry.database.translated("write"):
            for statement in (_UNMET, _NO_SEED):
                self._run.registry.connection.execute(statement, (numbers_for_sql(self._unmet),))
        return pages

    async def _is_soft_404(self, visit: Visit, document: Document) -> bool:
        return False

    # The end

    def read(self, connection: Connection) -> Rehearsed:
        """Return what the run did; ``connection``: to the copy, after the end."""
        run, found = self._run, self.found
        result = run.result
        assert result is not None, "it ended without a failure"
        found.result = result
        rows: Any = connection.execute(_REMOVED, (result.no,))
        found.removed = {no: RemovalRule(rule) for no, rule in rows}
        values = (run.opened.source, result.no)
        for no, rule, probe, is_withheld in connection.execute(_PROPOSED, values):
            if is_withheld:
                found.withheld[no] = RemovalRule(rule)
            elif rule == RemovalRule.ORPHAN:
                found.kept[no] = probe
        for no, visited in connection.execute(_REACHED, (result.no,)):
            if no in self._before and no not in found.asked and no not in found.refused:
                (found.confirmed if visited == result.no else found.waiting).add(no)
        self._look_behind(connection)
        return found

    def _look_behind(self, connection: Connection) -> None:
        """Find the pages that would be reached if nothing were refused."""
        found = self.found
        reached = {*found.asked, *found.refused, *found.confirmed, *found.waiting}
        waiting = set(found.refused)
        while waiting:
            led: set[int] = set()
            for targets, redirect in connection.execute(_LEADS, (numbers_for_sql(waiting),)):
                led.update(unpack_stored_numbers(targets or b""))
                led.update(() if redirect is None else (redirect,))
            waiting = (led & self._before.keys()) - reached - found.behind
            found.behind |= waiting


def _answers_as_last_time(visit: Visit, entry: ReportedRecord) -> bool:
    """Give a visit the answer of the last one; return False if nothing is known of it."""
    word = None if entry.word is None else Word(entry.word)
    status = Status(entry.status)
    http_status = entry.http_status
    if entry.redirect_target is not None and http_status not in REDIRECTS:
        http_status = 302  # the end of its run gave it another status, such as that of a circle
        word = Word.REDIRECTED
    outcome = outcome_as_last_time(Standing(entry.standing), status, word, http_status)
    if outcome is None or (outcome is Outcome.REDIRECT and entry.redirect_target is None):
        return False
    visit.outcome, visit.http_status, visit.error = outcome, http_status, entry.message
    record = visit.page.record
    visit.answer.etag, visit.answer.last_modified = record.etag, record.last_modified
    if outcome is Outcome.NOT_MODIFIED:
        visit.http_status, visit.error = 304, None  # also where no validator was sent
    elif outcome is Outcome.REDIRECT:
        visit.answer.location = entry.redirect_target
    return True


@contextmanager
def _in_silence() -> Iterator[None]:
    """Log nothing of a run that does not take place."""
    loggers = [logging.getLogger(f"smartcrawl.{room}") for room in ("run", "registry", "index")]
    levels = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)


def rehearse_run(
    connection: Connection,
    source: Source,
    number: int,
    options: Options,
    *,
    now: int,
    robots: StoredRobotsReport | None,
    listing: Callable[[], Listing] | None = None,
    taken: Iterable[list[Entry]] | None = None,
    forced: bool = False,
    progress: Callable[[str, int], None] = lambda doing, number: None,
) -> Rehearsed:
    """Return what the next run of a source would do if everything answered as last time.

    ``connection``: to the registry, which is only read. ``number``: source.no, 0 if it is new.
    ``listing`` makes the listing of a source that has one; ``taken``: its entries, where it has
    ended. ``forced``: as by the argument ``force``. ``progress`` gets a participle, and how many
    are done.

    Raises:
        RegistryError: there is no room for the copy, or the registry cannot be read.
    """
    alone = replace(
        options, redis=None, elasticsearch=None, embedder=None, vector_store=None,
        snapshot_store=None,
    )  # fmt: skip
    copy = copied_source(connection, number, source.name, lambda done: progress("copied", done))
    with _in_silence(), copy as database, closing(database.connect(readonly=True)) as reader:
        before = {entry.no: entry for entry in reported_records(reader, number)}
        probes: Any = reader.execute(_PROBES, (number,)).fetchall()
        today = TodayReport(reader, source, options)
        registry = Registry(database, database.open(), EMBEDDED)
        run = _RehearsedRun.open(source, alone, Orders(force=forced), now, registry=registry)
        with closing(run):
            database.hide()
            loop = _Rehearsal(
                run,
                now,
                before=before,
                probes=dict(probes),
                today=today,
                robots=robots,
                visited=lambda done: progress("rehearsed", done),
            )
            if robots is not None and run.due_pages is None:
                run.sitemaps.named_before(robots_txt_sitemaps)
            asyncio.run(loop.carry_out(None if listing is None else listing(), taken))
            if run.failure is not None:
                raise run.failure
            return loop.read(reader)

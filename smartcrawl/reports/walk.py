"""The next run of a source, walked over stored links or worked out from a listing.

The next run of a listed source, worked out from a listing that is made now.

Pages to which links lead, such as those of a wiki, are worked out from stored links.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from smartcrawl.model.documents import CUT
from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.options import Options
from smartcrawl.model.urls import display_url, normalize_url, url_digest, url_host_key
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.hosts import distrusted_host_rows
from smartcrawl.registry.pack import unpack_stored_links, unpack_stored_numbers
from smartcrawl.registry.pages import PageReader, unread_etag_sql
from smartcrawl.registry.removal.purge import emptied_library_problem, emptied_root_problem
from smartcrawl.reports.entries import (
    Proposal,
    ReportedRecord,
    ReportedRuns,
    reported_facts,
    reported_fingerprint,
    reported_links,
    reported_record_number,
    reported_records,
    reported_runs,
)
from smartcrawl.reports.sources_today import NOT_DECLARED
from smartcrawl.reports.stored_robots import StoredRobotsReport
from smartcrawl.rules.absence import Look, lets_page_go
from smartcrawl.rules.depth import DepthLimits
from smartcrawl.rules.files import Check
from smartcrawl.rules.forecast import Finding, ForecastWay, forecast_ways, reason_without_validators
from smartcrawl.rules.http import REDIRECTS
from smartcrawl.rules.model import Extraction, Mode, Standing, Status, Word
from smartcrawl.rules.moves import (
    Fate,
    Move,
    canonical_after_moves,
    fates_of_moves,
    flooding_canonicals,
)
from smartcrawl.rules.reindex import decide_extraction
from smartcrawl.rules.traps import TrapBudget
from smartcrawl.rules.trust import UNCONFIRMED, Trust
from smartcrawl.sources.base import Source
from smartcrawl.sources.extraction import EXTRACTION_VERSION, SourceExtractionConfig
from smartcrawl.sources.kinds import SHAREPOINT
from smartcrawl.sources.listing.entries import Entry, Listing, source_entry_check

_BELIEVED = Trust()


class TodayReport:
    """Today's configuration of a source, compared with that of each of its pages."""

    def __init__(self, connection: Connection, source: Source | None, options: Options) -> None:
        self._configuration = SourceExtractionConfig.of(source, options)
        self._source = source
        self._trust = distrusted_host_rows(connection)
        self._snapshots = options.snapshot_store is not None
        self._numbers = {
            mode: reported_fingerprint(connection, self._configuration.fingerprint(mode))
            for mode in Mode
        }

    def is_listed(self, entry: ReportedRecord) -> bool:
        """Whether a listing says if a page exists."""
        return self._source is not None and self._source.lists(entry.url)

    def mode(self, entry: ReportedRecord) -> Mode:
        """Return how a page is to be indexed."""
        return Mode.LINKS_ONLY if entry.kind else self._configuration.mode_of(entry.url)

    def extraction(self, entry: ReportedRecord) -> Extraction:
        """Return how the index entry of a page is to be made."""
        mode = self.mode(entry)
        return decide_extraction(
            Standing(entry.standing),
            mode,
            same_configuration=entry.configuration == self._numbers[mode],
            snapshot=self._snapshots and bool(entry.snapshot),
        )

    def reason_without_validators(self, entry: ReportedRecord) -> str | None:
        """Return why a page is requested without validators; None when it has them."""
        return reason_without_validators(
            standing=Standing(entry.standing),
            validators=bool(entry.validators),
            extraction=self.extraction(entry),
            ordered=bool(entry.ordered),
            believed=not entry.validators or bool(self.believed(entry)),
            unconfirmed=entry.etag_marks & UNCONFIRMED > 0,
            is_listed=self.is_listed(entry),
        )

    def trust(self, entry: ReportedRecord) -> Trust:
        """Return the trust record of a page's host."""
        return self._trust.get(url_host_key(entry.url), _BELIEVED) if self._trust else _BELIEVED

    def believed(self, entry: ReportedRecord, *, coded: bool = False) -> int:
        """Return the trusted validators of a page: 1 the ETag, 2 the date, 3 both.

        ``coded``: its ETag has the suffix of a coding.
        """
        trust, dated = self.trust(entry), entry.validators & 2 > 0
        etag = trust.believes_etag(dated=dated, coded=coded)
        return entry.validators & (etag + 2 * trust.believes_dates)


@dataclass(slots=True)
class WalkReport:
    """The next run of a source, if every answer stays as it was last time."""

    connection: Connection
    source_no: int
    source: Source | None  #: None: no run takes it, so it is never crawled nor swept
    options: Options
    robots: StoredRobotsReport | None
    entries: dict[int, ReportedRecord] = field(default_factory=dict)
    asked: dict[int, int] = field(default_factory=dict)  #: numbers and depths, breadth first
    refused: set[int] = field(default_factory=set)  #: reached, but disallowed by robots.txt
    new: set[str] = field(default_factory=set)  #: addresses without a record
    without: str = NOT_DECLARED  #: why there is no ``source``
    _behind: set[int] | None = None  #: to which only refused pages lead; None: not looked for yet
    _depths: DepthLimits = field(default_factory=DepthLimits)
    #: what lies deeper than this run was ordered to go, unless it is ``asked``: numbers, addresses
    _beyond: set[int] = field(default_factory=set)
    _beyond_new: set[str] = field(default_factory=set)
    _budget: TrapBudget = field(init=False)
    _scope_no: int = 0
    today: TodayReport = field(init=False)
    past: ReportedRuns = field(init=False)

    def __post_init__(self) -> None:
        self.past = reported_runs(self.connection, self.source_no)
        found = reported_records(self.connection, self.source_no)
        self.entries = {entry.no: entry for entry in found}
        self._budget = TrapBudget(
            year=datetime.now(UTC).year,
            per_host=0,
            hosts=0,
            is_linked=self.asked.__contains__,
        )
        self._budget.seen((entry.no, entry.url) for entry in found)
        self.today = TodayReport(self.connection, self.source, self.options)
        if self.source is not None:
            self._depths = DepthLimits.of(
                self.source.max_depth,
                self.options.depth_limit,
                by_order=self.options.depth_limit_is_order,
            )
            scope = self.source.scope.fingerprint()
            self._scope_no = reported_fingerprint(self.connection, scope)
            self._reach(self.source)

    def _reach(self, source: Source) -> None:
        """Follow links breadth first, from seeds, pinned addresses and stored sitemaps."""
        waiting = deque(
            (number, 0) for number in self._numbers(source.linked_seeds, source, self.new)
        )
        allows = source.scope.linked.allows
        pins = [e for e in self.entries.values() if e.pinned and allows(e.url)]
        waiting.extend((entry.no, 0) for entry in pins)
        sitemaps = [e for e in self.entries.values() if e.kind and e.standing > 0]
        waiting.extend((entry.no, entry.depth) for entry in sitemaps)
        while waiting:
            number, depth = waiting.popleft()
            entry = self.entries.get(number)
            if entry is None or number in self.asked or number in self.refused:
                continue
            answer = self.robots.answer(entry.url) if self.robots else None
            if answer is not None and answer[0] is False:
                self.refused.add(number)
                continue
            self.asked[number] = depth
            if entry.redirect_no is not None:
                waiting.appendleft((entry.redirect_no, depth))  # at the same depth
            below = depth + (not entry.kind)
            if entry.standing > 0 and not self._depths.excludes(below):
                if self._depths.leaves_out(below):
                    self._beyond.update(self._targets(entry, source, self._beyond_new))
                    continue
                targets = self._targets(entry, source, self.new)
                waiting.extend((target, below) for target in targets)

    def _targets(self, entry: ReportedRecord, source: Source, new: set[str]) -> Iterator[int]:
        row = reported_links(self.connection, entry.no)
        if row is None:
            return
        if row[0] == self._scope_no:
            yield from unpack_stored_numbers(row[1])
        else:
            links = unpack_stored_links(row[2])
            urls = [
                link.url
                for link in links
                if link.type != CUT and (not link.nofollow or link.type == "canonical")
            ]
            yield from self._numbers(urls, source, new)

    def _numbers(self, urls: Iterable[str], source: Source, new: set[str]) -> Iterator[int]:
        for url in urls:
            if source.scope.linked.allows(url):
                key = url_digest(normalize_url(url, self.options.trackers))
                number = reported_record_number(self.connection, self.source_no, key)
                if number is None:
                    if url not in new and not self._budget.refuse(url, url_host_key(url)):
                        new.add(url)
                else:
                    yield number

    def reason_without_validators(self, entry: ReportedRecord) -> str | None:
        """Return why a page is requested without validators; None when it has them."""
        return self.today.reason_without_validators(entry)

    def skipped(self, entry: ReportedRecord) -> str | None:
        """Return why a page is not requested; None when it is requested."""
        if entry.no in self.asked:
            return None
        if self.source is None:
            return self.without
        if entry.no in self.refused:
            return "disallowed by robots.txt"
        if entry.no in self._beyond:
            return f"deeper than DEPTH_LIMIT={self._depths.ordered} of this run"
        if self._outside(entry):
            return "out of scope"
        if entry.no in self._behind_refused(self.source):
            return "robots.txt disallows the pages that link to it"
        return "no page links to it"

    def _behind_refused(self, source: Source) -> set[int]:
        """Return the pages that are not reached, but are behind those that robots.txt forbids."""
        if self._behind is None:
            self._behind, waiting = set(), list(self.refused)
            while waiting:
                entry = self.entries[waiting.pop()]
                found = set(self._targets(entry, source, set())) if entry.standing > 0 else set()
                if entry.redirect_no is not None:
                    found.add(entry.redirect_no)
                more = (found & self.entries.keys()) - self._behind - self.asked.keys()
                self._behind |= more
                waiting.extend(more - self.refused)
        return self._behind

    def _outside(self, entry: ReportedRecord) -> bool:
        assert self.source is not None
        return self._depths.excludes(entry.depth) or not self.source.scope.allows(entry.url)

    @property
    def is_listed(self) -> bool:
        """Whether a listing says which pages exist."""
        return False

    @property
    def requested(self) -> Iterable[int]:
        """The numbers of the pages that would be requested."""
        return self.asked

    @property
    def cut(self) -> bool:
        """Whether the run would be incomplete, so that no absence counts."""
        return self.cut_reason is not None

    @property
    def cut_reason(self) -> str | None:
        """Reason why the run would be incomplete; None if it would not be."""
        return self.limit_reason()

    def limit_reason(self) -> str | None:
        """Return that a limit would leave pages unvisited; None if none would."""
        if not (self._beyond.issubset(self.asked) and self._beyond_new <= self.new):
            return (
                f"DEPTH_LIMIT={self._depths.ordered} leaves deeper pages out of this run; "
                "none of them is removed"
            )
        if self.source is None or not 0 < self.source.max_pages < self._asks():
            return None
        return (
            f"max_pages={self.source.max_pages} ends the run early; it would be "
            "incomplete, and no page is removed for not being reached"
        )

    def _asks(self) -> int:
        return len(self.asked) + len(self.new)

    def removals(self, now: int) -> list[tuple[ReportedRecord, ForecastWay]]:
        """Return the pages that the sweep would remove, and why, the guard aside."""
        if self.source is None:
            return []
        options, runs = self.options, self.past
        moved, aside = self._moved(), self._aside()
        remove = options.out_of_scope_policy == "remove"
        found = []
        for entry in self.entries.values():
            facts = reported_facts(
                entry,
                runs,
                options.policy,
                reached=True,
                aside=False,
                is_listed=self.today.is_listed(entry),
            )
            asked = entry.no in self.asked
            finding = facts.finding
            if not asked:
                outside = entry.no in self.refused or self._outside(entry)
                finding = Finding.EXCLUDED if outside else Finding.ABSENT
            elif finding is Finding.EXCLUDED or (
                finding is Finding.MOVED and entry.no not in moved
            ):
                finding = Finding.FINE
            elif finding is Finding.FINE and entry.no in aside:
                finding = Finding.CANONICAL
            age, since = (0, None) if asked else runs.absence(entry.seen_run)
            facts = replace(facts, finding=finding, age=age, absent_since=since)
            for way in forecast_ways(facts, options.policy, remove_excluded=remove):
                if way.due(now) and not (way.complete and self.cut):
                    found.append((entry, way))
                    break
        return found

    def lets_go(self, entry: ReportedRecord, proposed: Proposal) -> bool:
        """Whether an orphan is removed if the look at it brings the same answer as last time."""
        if proposed.probe is None:
            return True
        age = self.past.absence(entry.seen_run)[0] + 1
        counts = (entry.lost_count, entry.gone_count)
        look = Look(proposed.probe, *counts, age, entry.http_status, host_answered=True)
        return lets_page_go(look, self.options.policy)

    def _indexed(self) -> frozenset[int]:
        return frozenset(number for number in self.asked if self.entries[number].sound)

    def _moved(self) -> frozenset[int]:
        """Return the redirects that lead to an indexed page."""
        moves = [
            Move(e.no, e.http_status, e.redirect_target, e.redirect_no, e.standing == Standing.HELD)
            for e in map(self.entries.__getitem__, self.asked)
            if e.word == Word.REDIRECTED and e.redirect_target and e.http_status in REDIRECTS
        ]
        judged = fates_of_moves(
            moves,
            self._indexed(),
            walls=self.options.sweep_max_ratio < 1,
            most=self.options.redirects.most,
        )
        return frozenset(number for number, (fate, _) in judged.items() if fate is Fate.MOVED)

    def _aside(self) -> frozenset[int]:
        """Return the pages that name another, indexed page as canonical."""
        held = [e for e in self.entries.values() if e.standing > 0]
        named = {e.no: e.canonical_no for e in held if e.canonical_no is not None}
        least = self.options.sweep_min_count
        flooded = flooding_canonicals(Counter(named.values()), len(held), min_count=least)
        hops = {e.no: e.redirect_no for e in self.entries.values() if e.redirect_no is not None}
        leads = hops | {no: target for no, target in named.items() if target not in flooded}
        indexed = self._indexed()
        return frozenset(
            no
            for no, target in named.items()
            if self.entries[no].sound
            and target not in flooded
            and canonical_after_moves(no, leads, indexed) is not None
        )


_STORED = f"""
SELECT r.no, r.etag, coalesce(r.content_length, 0),
       r.error_message IS NOT NULL OR r.redirect_target IS NOT NULL,
       {unread_etag_sql(":extraction")}, coalesce(r.unread_length, 0)
  FROM record r JOIN state s USING (no) WHERE r.source = :source
"""
_UNCHANGED = "unchanged"
_NO_VALIDATOR = "no reliable validator in the listing"


class _Stored(NamedTuple):
    """The stored properties of a file."""

    etag: str | None
    length: int  #: bytes
    is_noted: bool  #: whether it has an error message or a redirect target
    unread_etag: str | None  #: as in ListedRecord
    unread_length: int


@dataclass(slots=True)
class ListedWalkReport(WalkReport):
    """The next run of a source whose listing says what exists.

    ``asked`` has the known files of the listing and the pages that links lead to, ``requested``
    those of them that would be read or requested.
    """

    listing: Listing | None = None
    read: dict[int, str] = field(default_factory=dict)  #: why a known file would be read
    problems: list[str] = field(default_factory=list)  #: parts that cannot be listed
    is_counted: bool = False  #: a count or other items confirm a listing that names no document

    @property
    def is_listed(self) -> bool:
        """Yes."""
        return True

    @property
    def requested(self) -> list[int]:
        """The numbers of the known files that would be read, and of the pages to request."""
        return [*self.read, *(no for no in self.asked if self._is_linked(no))]

    def _is_linked(self, number: int) -> bool:
        """Whether links lead to a page, which no listing has."""
        return not self.today.is_listed(self.entries[number])

    def _reach(self, source: Source) -> None:
        """List the source, compare its files with the stored ones, and follow stored links."""
        assert self.listing is not None, "its source is listed"
        values = {"source": self.source_no, "extraction": EXTRACTION_VERSION}
        rows: Any = self.connection.execute(_STORED, values).fetchall()
        stored = {row[0]: _Stored(*row[1:]) for row in rows}
        by_url = {entry.url: entry for entry in self.entries.values()}
        root = display_url(source.starts[0])
        try:
            for batch in self.listing.batches():
                by_key = self._by_key(batch)
                for found in batch:
                    entry = by_key.get(found.key) if found.key else by_url.get(found.url)
                    if entry is None:
                        self.new.add(found.url)
                        continue
                    self.asked[entry.no] = 0
                    why = self._reason(entry, found, stored[entry.no])
                    if why is not None:
                        self.read[entry.no] = why
        except (OSError, SmartcrawlError) as error:
            self.problems.append(f"{root} ({error})")
        self.problems += self.listing.problems
        stored_files = filter(self.today.is_listed, self.entries.values())
        count = sum(entry.standing > 0 for entry in stored_files)
        if count and not (self.asked or self.new or self.problems or self.is_counted):
            is_library = source.traits.name == SHAREPOINT.name
            problem = emptied_library_problem if is_library else emptied_root_problem
            self.problems.append(problem(root, count))
        if source.linked_seeds:
            WalkReport._reach(self, source)

    def _by_key(self, batch: Sequence[Entry]) -> dict[str | None, ReportedRecord]:
        """Return the known files of a batch whose identity is not their URL."""
        trackers = self.options.trackers
        ids = {e.key: url_digest(normalize_url(e.key, trackers)) for e in batch if e.key}
        numbers = PageReader(self.connection, self.source_no).numbers(list(ids.values()))
        return {key: self.entries[numbers[id_]] for key, id_ in ids.items() if id_ in numbers}

    def _reason(self, entry: ReportedRecord, found: Entry, stored: _Stored) -> str | None:
        """Return why a file would be read; None if the listing confirms it."""
        is_hash = self.source is not None and self.source.traits.is_hashed
        if stored.unread_etag is not None and not entry.ordered:
            unread = stored.unread_etag, stored.unread_length
            if source_entry_check(*unread, found, is_hash=is_hash) is Check.SKIP:
                return None
        why = self.today.reason_without_validators(entry)
        if why is not None:
            return why
        if self.today.extraction(entry) is not Extraction.STANDS:
            return "extracted with other settings"
        if stored.is_noted or entry.lost_count or entry.status != Status.INDEXED:
            return "failed at its last visit"
        if found.validator is None:
            return _NO_VALIDATOR
        check = source_entry_check(stored.etag, stored.length, found, is_hash=is_hash)
        return None if check is Check.SKIP else "its validator or size changed"

    def reason_without_validators(self, entry: ReportedRecord) -> str | None:
        """Return why a file would be read, or why a page is requested without validators."""
        if self._is_linked(entry.no):
            return WalkReport.reason_without_validators(self, entry)
        return self.read.get(entry.no)

    def skipped(self, entry: ReportedRecord) -> str | None:
        """Return why a page would not be read; None if it would be."""
        if self._is_linked(entry.no):
            return WalkReport.skipped(self, entry)
        if entry.no in self.asked:
            return None if entry.no in self.read else _UNCHANGED
        return "out of scope" if self._outside(entry) else "not in the listing"

    @property
    def cut_reason(self) -> str | None:
        """Reason why the run would be incomplete, or None; then no absence would count."""
        if self.problems:
            return (
                f"cannot be listed: {', '.join(self.problems)}. The run would be "
                "incomplete, and nothing is removed for missing from the listing"
            )
        return WalkReport.limit_reason(self)

    def _asks(self) -> int:
        return len(self.requested) + len(self.new)

"""Today's configuration: sources as their next runs would take them, and records compared."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from smartcrawl.model.options import Options
from smartcrawl.model.urls import url_host_key
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.hosts import distrusted_host_rows
from smartcrawl.registry.jobs import load_stored_jobs_and_sources
from smartcrawl.registry.runs.run_results import last_root_row, last_start_rows
from smartcrawl.registry.runs.runs import Role, declared_source_rows
from smartcrawl.registry.site_parts import stored_part_row
from smartcrawl.rules.absence import Policy
from smartcrawl.rules.forecast import Facts, forecast_finding, reason_without_validators
from smartcrawl.rules.model import Extraction, Mode, RemovalRule, Standing, Status, Word
from smartcrawl.rules.reindex import decide_extraction
from smartcrawl.rules.trust import UNCONFIRMED, Trust
from smartcrawl.sources.base import (
    Source,
    SourceExtractionConfig,
    belongs_to_source,
    source_refusals,
)
from smartcrawl.sources.chosen import source_with_keys
from smartcrawl.sources.declared import DeclaredSources
from smartcrawl.sources.files import ad_hoc_files_source
from smartcrawl.sources.github.source import ad_hoc_repository_source
from smartcrawl.sources.kinds import GITHUB, SHAREPOINT, source_kind_named

_SELECTED: Final = """
SELECT r.no, r.url, s.depth, s.status, s.standing, s.outcome, s.http_status, s.lost_count,
       s.gone_count, s.gone_since, s.seen_run, s.reached_run, s.visited_run,
       CASE WHEN r.etag IS NULL THEN 0 ELSE 1 END
       + CASE WHEN r.last_modified IS NULL THEN 0 ELSE 2 END, coalesce(r.configuration, 0),
       r.canonical_no, r.redirect_no, r.redirect_target, r.error_message,
       EXISTS (SELECT 1 FROM pin p WHERE p.no = r.no), s.next_visit, r.kind,
       r.snapshot IS NOT NULL, coalesce(i.requested OR i.generation > i.processed, FALSE),
       s.etag_marks
  FROM record r JOIN state s USING (no) LEFT JOIN item i USING (no)
 WHERE r.source = :source {of_one} ORDER BY r.no
"""
#: By whether one record is read: its number finds it, and no other record of the source is read.
_ENTRIES: Final = {
    one: _SELECTED.format(of_one="AND r.no = :no" if one else "") for one in (False, True)
}
_COMPLETE = "SELECT no, finished_at FROM run WHERE source = ? AND complete ORDER BY no"
_CANDIDATE = "SELECT rule, run, renewed, probe, withheld, detail FROM candidate WHERE no = ?"
_SETTLED = "SELECT max(no) FROM run WHERE source = ? AND state IN (3, 4)"
_REASONS = "SELECT reasons FROM run WHERE no = ?"
_FINGERPRINT = "SELECT no FROM fingerprint WHERE hash = ?"


#: Words of pages that confirmed or renewed their content.
_ANSWERED = (Word.NEW, Word.MODIFIED, Word.UNCHANGED, Word.CLONE, Word.MOVED)


class ReportedRecord(NamedTuple):
    """The part of a record on which the next run and the sweep depend."""

    no: int
    url: str
    depth: int
    status: int
    standing: int
    word: int | None
    http_status: int | None
    lost_count: int
    gone_count: int
    gone_since: int | None
    seen_run: int
    reached_run: int
    visited_run: int
    validators: int  #: 1: an ETag, 2: a date, 3: both
    configuration: int  #: fingerprint.no of its extraction
    canonical_no: int | None
    redirect_no: int | None
    redirect_target: str | None
    message: str | None
    pinned: int
    next_visit: int | None
    kind: int  #: see Page.kind
    snapshot: int  #: whether the stored body has a snapshot
    ordered: int  #: whether an operator ordered it to be indexed anew
    etag_marks: int  #: see PageState.etag_marks

    @property
    def sound(self) -> bool:
        """Whether its content is stored, and its last visit confirmed or renewed it."""
        answered = self.word in _ANSWERED
        return self.standing == Standing.HELD and answered and not self.lost_count


@dataclass(frozen=True, slots=True)
class ReportedRuns:
    """The complete runs of a source."""

    runs: tuple[tuple[int, int], ...]  #: number, and when it was sealed

    @property
    def last(self) -> int:
        """Number of the latest run, 0 without one."""
        return self.runs[-1][0] if self.runs else 0

    def absence(self, seen_run: int) -> tuple[int, int | None]:
        """Return the number of runs after ``seen_run``, and when the first of them was sealed."""
        first = bisect_right(self.runs, seen_run, key=lambda run: run[0])
        return len(self.runs) - first, self.runs[first][1] if first < len(self.runs) else None


def reported_runs(connection: Connection, source: int) -> ReportedRuns:
    """Return the complete runs of a source."""
    rows: Any = connection.execute(_COMPLETE, (source,)).fetchall()
    return ReportedRuns(tuple(rows))


def reported_records(
    connection: Connection, source: int, number: int | None = None
) -> Iterator[ReportedRecord]:
    """Yield the records of a source, or only the one with this number."""
    row: Any
    named = {"source": source} if number is None else {"source": source, "no": number}
    for row in connection.execute(_ENTRIES[number is not None], named):
        yield ReportedRecord(*row)


def reported_last_settled(connection: Connection, source: int) -> int | None:
    """Return the last run of a source that settled every record."""
    number: Any = connection.execute(_SETTLED, (source,)).get
    return None if number is None else int(number)


def reported_reasons(connection: Connection, run: int | None) -> tuple[str, ...]:
    """Return the reasons why a run was incomplete; none for no run."""
    reasons: Any = connection.execute(_REASONS, (run,)).get
    return tuple(json.loads(reasons or "[]"))


def reported_fingerprint(connection: Connection, value: bytes) -> int:
    """Return the number of a fingerprint, -1 if no run ever used it."""
    number: Any = connection.execute(_FINGERPRINT, (value,)).get
    return -1 if number is None else int(number)


def reported_facts(
    entry: ReportedRecord,
    runs: ReportedRuns,
    policy: Policy,
    *,
    reached: bool,
    aside: bool,
    is_listed: bool = False,
    is_answered: bool = True,
) -> Facts:
    """Return the facts on which a record's removal depends (rules.forecast)."""
    word = None if entry.word is None else Word(entry.word)
    status = Status(entry.status)
    found = forecast_finding(status, word, entry.http_status, policy, reached=reached, aside=aside)
    age, since = runs.absence(entry.seen_run)
    return Facts(
        Standing(entry.standing),
        found,
        entry.http_status,
        entry.lost_count,
        entry.gone_count,
        entry.gone_since,
        age,
        since,
        bool(entry.pinned),
        is_listed,
        is_answered,
    )


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposal in the registry to remove a page."""

    rule: RemovalRule
    run: int
    renewed: int
    probe: int | None
    withheld: bool
    detail: dict[str, Any]


def reported_proposal(connection: Connection, number: int) -> Proposal | None:
    """Return the proposal to remove a record."""
    row: Any = connection.execute(_CANDIDATE, (number,)).fetchone()
    if row is None:
        return None
    rule, run, renewed, probe, waits, detail = row
    return Proposal(RemovalRule(rule), run, renewed, probe, bool(waits), json.loads(detail))


#: Why no run takes a source.
NOT_DECLARED: Final = "its source is no longer in sources.toml"
WRONG_TABLE: Final = "the table of its source in sources.toml has a mistake"

_KIND = "SELECT kind FROM source WHERE name = ?"


@dataclass(frozen=True, slots=True)
class AddressHolders:
    """The sources that an address belongs to, and those of its host that refuse it."""

    holders: list[str]
    refusals: dict[str, str]  #: the reasons, by source


def reported_source_today(
    connection: Connection, declared: Mapping[str, Source], name: str
) -> Source | None:
    """Return a source as its next run would use it; None if it is no longer declared, or wrongly.

    An ad-hoc source has the start addresses or the root of its last run (registry.runs.starts).
    """
    if name in declared:
        return declared[name]
    if has_wrong_table(declared, name):
        return None
    part = stored_part_row(connection, name)
    if part is None:
        return None
    root = last_root_row(connection, name)
    if root is not None:
        kind = connection.execute(_KIND, (name,)).get
        of_root = ad_hoc_repository_source if kind == GITHUB.name else ad_hoc_files_source
        named = of_root(root).model_copy(update={"name": name})
        return source_with_keys(named, part.chosen)
    starts = last_start_rows(connection, name)
    seeds = tuple(start.url for start in starts if start.role is Role.SEED)
    sitemaps = tuple(start.url for start in starts if start.role is Role.SITEMAP)
    if not starts:
        return None
    source = part.source(seeds, sitemaps)
    return source.decided(seeds[0], (), ()) if source.is_open else source


def has_wrong_table(declared: Mapping[str, Source], name: str) -> bool:
    """Whether sources.toml has a table of this name with a mistake, so that no run takes it."""
    return isinstance(declared, DeclaredSources) and name in declared.wrong


def reason_without_source(declared: Mapping[str, Source], name: str) -> str:
    """Return why no run takes a source that ``reported_source_today`` does not find."""
    return WRONG_TABLE if has_wrong_table(declared, name) else NOT_DECLARED


def vanished_sources(
    connection: Connection, options: Options, declared: DeclaredSources | None = None
) -> list[str]:
    """Return the stored sources that were declared at their last crawl, and are no more.

    ``declared``: the sources of today, where they were read already.

    Raises:
        SourceError: sources.toml cannot be read.
    """
    if declared is None:
        declared = load_stored_jobs_and_sources(options, connection)
    return [name for name in declared_source_rows(connection) if not declared.declares(name)]


def is_reported_page_listed(
    connection: Connection, source: Source | None, name: str, url: str
) -> bool:
    """Whether a listing of its source says if a page exists; ``source``: None if not declared."""
    if source is not None:
        return source.lists(url)
    kind = connection.execute(_KIND, (name,)).get
    return kind is not None and source_kind_named(kind).is_listed


def is_reported_library(connection: Connection, name: str) -> bool:
    """Whether a stored source is a document library, whose items only a listing removes."""
    kind: str | None = connection.execute(_KIND, (name,)).get
    return kind == SHAREPOINT.name


def reported_sources_today(
    connection: Connection, declared: Mapping[str, Source], names: Iterable[str]
) -> list[Source]:
    """Return the sources of these names as their next runs would use them."""
    found = (reported_source_today(connection, declared, name) for name in names)
    return [source for source in found if source is not None]


def reported_address_holders(
    connection: Connection, declared: Mapping[str, Source], names: Iterable[str], url: str
) -> AddressHolders:
    """Return those of some sources whose scope contains an address today."""
    today = reported_sources_today(connection, declared, names)
    holders = [source.name for source in today if belongs_to_source(source, url)]
    return AddressHolders(holders, source_refusals(today, url))


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

"""The status of sources: counts, rates, freshness, concerns and runs (R0-78)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from smartcrawl.model.program import program_crawl_line
from smartcrawl.model.times import iso_time
from smartcrawl.registry.chunks import refused_reasons_text
from smartcrawl.registry.connection import Connection, Many, read_transaction
from smartcrawl.registry.library.items import TRIMMED, stored_library_shortfall, stored_trimmed_note
from smartcrawl.registry.pack import numbers_for_sql
from smartcrawl.registry.pages import STATE_IS_DUE_SQL
from smartcrawl.registry.runs.run_results import UNREAD
from smartcrawl.registry.source_due import fresh_source_times
from smartcrawl.registry.visibility import Readable
from smartcrawl.reports.remedies import NOTES, reported_reason
from smartcrawl.reports.text import report_noun, report_time_span, run_state_text
from smartcrawl.reports.vectors import (
    StoreCounts,
    VectorCounts,
    reported_stores_by_source,
    reported_vectors_by_source,
)
from smartcrawl.rules.model import RunState
from smartcrawl.rules.rendering import NO_BROWSER
from smartcrawl.rules.seal import NOT_DUE, seed_led_to
from smartcrawl.rules.visibility import Visibility, source_visibility
from smartcrawl.sources.kinds import SHAREPOINT, source_kind_named

MANY_ERRORS: Final = 0.1  #: share of pages whose last visit failed that is a concern
MOST_WITHOUT_TEXT: Final = 0.5  #: share of the stored pages of a healthy site without text
_SCRIPTS_MANUAL: Final = "docs/howto/javascript.md"
#: Counts that are a concern unless they are 0, and the command that lists or resolves it.
LOOKS: Final = (
    ("withheld", "withheld: removals waiting for approval", ("orphans",)),
    ("lost", "lost: now returns an error; the last good copy is still searchable", ("deltamerge",)),
    ("orphans", "orphaned: no link leads there any more, or left out of the crawl", ("orphans",)),
    (
        "without_text",
        "without text, perhaps because scripts write it in the browser",
        ("registry", "--no-text"),
    ),
)
#: The words where a listing says which pages exist.
LISTED_LOOKS: Final = {
    "orphans": "orphaned: in no listing and linked nowhere any more, or left out of the crawl",
    "without_text": "without text",
}


class Concern(NamedTuple):
    """One fact that an operator should look at."""

    text: str
    command: tuple[str, ...] = ()  #: words of the command that lists or resolves it, if any


def reported_concerns(status: SourceStatus, now: int, *, longest: int) -> Iterator[Concern]:
    """Yield the concerns of one source.

    ``now`` is in Unix seconds. ``longest`` is CRAWL_MAX_INTERVAL_SECONDS.
    """
    run, counts, only = status.last_run, status.counts, ("--source", str(status.source))
    # A due crawl ends with pages that were not due until a whole round was visited: no concern.
    reasons = [] if run is None else [r for r in run.reasons if not r.startswith(f"{NOT_DUE}:")]
    if status.is_vanished:
        yield Concern(
            "no longer declared: its pages stay searchable, but are neither refreshed "
            "nor removed. Declare it again, or remove it:",
            ("forget", *only),
        )
    if status.is_wrong:
        yield Concern(
            "its table in sources.toml has a mistake: its pages stay searchable, but are "
            "neither refreshed nor removed until you correct it"
        )
    for reason in reasons:
        assert run is not None, "it has the reasons"
        name = str(status.source)
        why = reported_reason(reason, run.no, source=name, is_library=status.is_library)
        led = seed_led_to(reason)
        crawl = () if led is None else tuple(program_crawl_line(led).split(" ")[1:])
        yield Concern(f"not complete: {why}", crawl)
    yield from _unread(run)
    if status.completed_at is None:
        yield Concern("no run was complete yet, so orphaned pages cannot be found")
    elif (
        run is not None
        and run.no != status.complete_run
        and (reasons or now - (status.fresh_at or status.completed_at) > longest)
    ):
        age = report_time_span(now - status.completed_at)
        yield Concern(f"the last complete run was {status.complete_run}, {age} ago")
    if (counts.error_rate or 0) > MANY_ERRORS:
        text = f"{reported_percent(counts.error_rate)} of the pages failed at their last visit"
        yield Concern(text, ("registry", "--status", "error", *only))
    if (status.ages.most or 0) > longest:
        oldest = report_time_span(status.ages.most)
        text = f"5 % of the stored pages were not visited for {oldest} or longer"
        yield Concern(f"{text}, and CRAWL_MAX_INTERVAL_SECONDS is {longest}")
    if status.trimmed:
        note = stored_trimmed_note(status.trimmed)
        yield Concern(f"{note} ({NOTES[TRIMMED]})")
    if status.vectors is not None:
        yield from _vector_concerns(status.vectors, only)
    for name, text, words in LOOKS:
        if number := getattr(counts, name):
            known = LISTED_LOOKS.get(name, text) if status.is_listed else text
            yield Concern(f"{number:,} {known}", (*words, *only))


def _unread(run: LastRun | None) -> Iterator[Concern]:
    """Yield which documents the last run did not read."""
    for note in run.notes if run is not None else ():
        if note.startswith(f"{UNREAD}:"):
            yield Concern(f"{note} ({NOTES[UNREAD]})")


def _vector_concerns(counts: VectorCounts, only: tuple[str, str]) -> Iterator[Concern]:
    """Yield the concerns about vectors of a source; ``only``: words of a command that name it."""
    if counts.owed:
        verb = "has" if counts.owed == 1 else "have"
        chunks = report_noun(counts.chunks, "chunk")
        yield Concern(f"{counts.owed:,} of {chunks} {verb} no vector yet", ("embed", *only))
    if counts.may_ask_again:
        why = refused_reasons_text(counts.reasons)
        yield Concern(
            f"{report_noun(counts.refused, 'chunk')} refused by the embedder ({why}), so "
            "a search by meaning does not find them",
            ("embed", "--refused", *only),
        )


class StatusVerdict(NamedTuple):
    """Answers to three questions about a source; each is None where all is well, or the reason."""

    stale: str | None  #: why it is not fresh
    incomplete: str | None  #: why it is not complete
    ill: str | None  #: why it is not healthy

    def __str__(self) -> str:
        """Return the answers in words.

        >>> str(StatusVerdict(None, "max_pages", None))
        'fresh; not complete: max_pages; healthy'
        """
        words = ("fresh", "complete", "healthy")
        answers = zip(words, self, strict=True)
        return "; ".join(f"not {word}: {why}" if why else word for word, why in answers)

    @property
    def well(self) -> bool:
        """Whether the source is fresh, complete and healthy."""
        return not any(self)


def status_report_verdict(status: SourceStatus, now: int, *, longest: int) -> StatusVerdict:
    """Return whether a source is fresh, complete and healthy.

    ``now`` is in Unix seconds. ``longest`` is CRAWL_MAX_INTERVAL_SECONDS. Fresh: 95 % of the
    stored pages were visited within it. Complete: the last run that was to see everything did.
    Healthy: no page is lost, no removal waits, few pages fail, and most pages of a site have text.
    """
    return StatusVerdict(_stale(status, longest), _incomplete(status, now, longest), _ill(status))


def _stale(status: SourceStatus, longest: int) -> str | None:
    if status.is_vanished:
        return "no longer declared, so no run visits it"
    if status.is_wrong:
        return "its table in sources.toml has a mistake, so no run visits it"
    if status.ages.most is None:
        return "nothing is stored"
    if status.ages.most > longest:
        return f"5 % of the pages were not visited for {report_time_span(status.ages.most)}"
    return None


def _incomplete(status: SourceStatus, now: int, longest: int) -> str | None:
    run = status.last_run
    if run is not None and NO_BROWSER in run.reasons:
        return f"scripts write its pages, and no browser showed them: see {_SCRIPTS_MANUAL}"
    if status.completed_at is None:
        return "no run was complete yet"
    if run is None or run.no == status.complete_run:
        return None
    if run.finished_at is None:
        return f"run {run.no} has not ended"
    if run.state in (RunState.INTERRUPTED, RunState.CANCELLED):
        return run_state_text(run.state, run.reasons)
    reasons = [r.partition(":")[0] for r in run.reasons if not r.startswith(f"{NOT_DUE}:")]
    if reasons:
        return ", ".join(dict.fromkeys(reasons))
    if now - (status.fresh_at or status.completed_at) > longest:
        return f"the last complete run was {report_time_span(now - status.completed_at)} ago"
    return None


def _ill(status: SourceStatus) -> str | None:
    counts = status.counts
    found = []
    if counts.lost:
        found.append(f"{counts.lost:,} lost")
    if counts.withheld:
        found.append(f"{counts.withheld:,} withheld")
    if (counts.error_rate or 0) > MANY_ERRORS:
        found.append(f"{reported_percent(counts.error_rate)} failed")
    if not status.is_listed and counts.without_text > counts.held * MOST_WITHOUT_TEXT:
        pages = f"{counts.without_text:,} of {report_noun(counts.held, 'page')}"
        found.append(f"{pages} without text, perhaps written by scripts: see {_SCRIPTS_MANUAL}")
    return ", ".join(found) or None


def reported_percent(share: float | None) -> str:
    """Return a share as a percentage.

    >>> reported_percent(0.5), reported_percent(0.125), reported_percent(None)
    ('50 %', '12.5 %', '0 %')
    """
    return f"{100 * (share or 0):.1f} %".replace(".0 %", " %")


RECENT_RUNS: Final = 10  #: runs that the change rate looks back on
_DAY: Final = 86_400  #: seconds

_SOURCES = """
SELECT no, name, kind, visibility FROM source
 WHERE :every OR name IN carray(:sources) ORDER BY name
"""
#: One scan of the narrow table. Its rows have no source: the run that reached a record names it.
#: Equal rows are counted together first, so that only few are joined with their runs.
_PAGES = f"""
WITH last (source, looked) AS (
    SELECT source, coalesce(max(no) FILTER (WHERE complete), 0) FROM run
     WHERE source IN carray(:wanted) GROUP BY source),
alike AS MATERIALIZED (
    SELECT reached_run, seen_run, visited_run >= reached_run AS visited, status, standing,
           lost_count > 0 AS lost,
           {STATE_IS_DUE_SQL} AS due,
           no IN (SELECT no FROM record WHERE kind > 0) AS sitemap,
           no IN (SELECT no FROM pin) AS pinned, count(*) AS n
      FROM state
     WHERE reached_run IN (SELECT no FROM run
                            WHERE source IN carray(:wanted))
     GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9)
SELECT source,
       sum(n) FILTER (WHERE NOT sitemap),
       sum(n) FILTER (WHERE NOT sitemap AND status = 0),
       sum(n) FILTER (WHERE NOT sitemap AND status = 1),
       sum(n) FILTER (WHERE NOT sitemap AND status = 2),
       sum(n) FILTER (WHERE NOT sitemap AND status = 3),
       sum(n) FILTER (WHERE NOT sitemap AND status = 4),
       sum(n) FILTER (WHERE NOT sitemap AND status = 5),
       sum(n) FILTER (WHERE sitemap),
       sum(n) FILTER (WHERE standing = 2),
       sum(n) FILTER (WHERE standing = 2 AND lost),
       sum(n) FILTER (WHERE standing > 0 AND NOT pinned AND seen_run < looked
                        AND (reached_run < looked OR (status = 4 AND visited))),
       sum(n) FILTER (WHERE due AND status <> 5 AND reached_run >= looked)
  FROM alike JOIN (SELECT no, source FROM run) u ON u.no = reached_run JOIN last l USING (source)
 GROUP BY source
"""
#: Seconds since the stored pages were visited; source 0 stands for all sources.
_AGES = """
WITH visited AS MATERIALIZED (
    SELECT u.source, s.last_checked AS at, count(*) AS n
      FROM state s JOIN run u ON u.no = s.reached_run
     WHERE s.standing = 2 AND s.last_checked IS NOT NULL
       AND u.source IN carray(:wanted)
     GROUP BY 1, 2),
each (source, at, n) AS (
    SELECT * FROM visited UNION ALL SELECT 0, at, sum(n) FROM visited GROUP BY at),
summed AS (
    SELECT source, at, n, sum(n) OVER (PARTITION BY source ORDER BY at DESC) AS upto,
           sum(n) OVER (PARTITION BY source) AS every
      FROM each)
SELECT source, max(0, :now - max(at) FILTER (WHERE 2 * upto >= every)),
       max(0, :now - max(at) FILTER (WHERE 20 * upto >= 19 * every)),
       coalesce(1.0 * sum(n) FILTER (WHERE at > :day) / sum(n), 0),
       coalesce(1.0 * sum(n) FILTER (WHERE at > :week) / sum(n), 0)
  FROM summed GROUP BY source
"""
_COUNTS = "SELECT source, counts FROM run WHERE counts <> '{}' ORDER BY no DESC"
_BYTES = """
SELECT source, sum(bytes_downloaded), sum(bytes_saved), sum(requests), sum(not_modified),
       sum(CASE WHEN finished_at > started_at THEN finished_at - started_at ELSE 0 END)
  FROM run GROUP BY source
"""
_LAST = """
SELECT source, no, state, complete, reasons, started_at, finished_at, bytes_downloaded, bytes_saved,
       embedded, owed, notes
  FROM run WHERE no IN (SELECT max(no) FROM run GROUP BY source)
"""
_COMPLETE = """
SELECT source, no, finished_at FROM run
 WHERE no IN (SELECT max(no) FROM run WHERE complete GROUP BY source)
"""
#: The following counts are small. Each is read by itself, by the number of its source.
_CLONES = """
SELECT u.source, count(*)
  FROM (SELECT no FROM record WHERE duplicate_of IS NOT NULL) AS clone
  JOIN state s USING (no) JOIN run u ON u.no = s.reached_run GROUP BY 1
"""
_WITHOUT_TEXT = """
SELECT c.source, count(*) FROM content c JOIN record r ON r.content = c.no
 WHERE c.text_length = 0 GROUP BY 1
"""
_WITHHELD = "SELECT source, count(*) FROM candidate WHERE withheld GROUP BY 1"
_PINNED = "SELECT source, count(*) FROM pin GROUP BY 1"
_ORDERED = """
SELECT u.source, count(*)
  FROM item i JOIN state s USING (no) JOIN run u ON u.no = s.reached_run
 WHERE i.requested OR i.generation > i.processed GROUP BY 1
"""


class StatusReportCounts(NamedTuple):
    """Numbers of records of each kind; sitemaps and feeds count apart."""

    pages: int = 0
    pending: int = 0
    crawled: int = 0
    indexed: int = 0
    error: int = 0
    out_of_scope: int = 0
    gone: int = 0
    sitemaps: int = 0
    held: int = 0  #: pages with stored content
    lost: int = 0  #: stored pages whose last visits found an error that speaks of the page
    orphans: int = 0  #: stored records that the last complete run did not reach or ask
    due: int = 0  #: records that a due crawl would ask; sitemaps included, tombstones not
    clones: int = 0  #: stored pages that equal another one
    without_text: int = 0  #: stored pages without text
    withheld: int = 0  #: removals that wait for approval
    pinned: int = 0
    ordered: int = 0  #: records that the next visit fetches whole

    @property
    def error_rate(self) -> float | None:
        """Share of the crawled, indexed and failed pages whose last visit failed."""
        return _share(self.error, self.crawled + self.indexed + self.error)


class Ages(NamedTuple):
    """Freshness of the stored pages."""

    median: int | None = None  #: seconds since the last visit that half of them do not exceed
    most: int | None = None  #: seconds that 95 % of them do not exceed
    within_day: float | None = None  #: share that was visited in the last 24 hours
    within_week: float | None = None


class StatusReportChanges(NamedTuple):
    """Changes that the last finished runs found when they visited stored pages again."""

    runs: int = 0  #: of each source, at most RECENT_RUNS
    compared: int = 0  #: visits to stored pages that brought content or a 304
    modified: int = 0  #: visits among these that found other content
    new: int = 0  #: pages that were stored for the first time

    @property
    def rate(self) -> float | None:
        """Share of visits that found a change; new pages, clones and errors do not count."""
        return _share(self.modified, self.compared)


class Bytes(NamedTuple):
    """Bytes of bodies on the wire, and of those that a 304 made unnecessary to send."""

    downloaded: int = 0
    saved: int = 0


class Cost(NamedTuple):
    """What all runs of a source took."""

    requests: int = 0
    not_modified: int = 0  #: requests that were answered with a 304
    seconds: int = 0  #: time of the runs that ended


NO_COST: Final = Cost()


@dataclass(frozen=True, slots=True)
class LastRun:
    """The run of a source that was opened last."""

    no: int
    state: RunState
    complete: bool
    reasons: tuple[str, ...]  #: why it is incomplete
    started_at: int
    finished_at: int | None
    bytes: Bytes
    embedded: int | None = None  #: chunks that got a vector; None: it had no embedder
    owed: int | None = None  #: chunks of its source that had none at its end
    notes: tuple[str, ...] = ()  #: what it left out, and answers that it did not believe


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """The status of one source, or of all together."""

    source: str | None  #: None: all sources
    counts: StatusReportCounts
    ages: Ages
    changes: StatusReportChanges
    bytes: Bytes
    last_run: LastRun | None = None  #: of one source
    complete_run: int | None = None  #: the last complete run of one source
    completed_at: int | None = None
    is_listed: bool = False  #: whether a listing says which pages of it exist
    vectors: VectorCounts | None = None  #: of one source; None: no embedder was ever used
    pushed: Sequence[StoreCounts] = ()  #: files of one source in vector stores
    trimmed: int = 0  #: items that a library lacks in its last listing, beyond those accepted
    is_library: bool = False  #: whether the commands of libraries crawl it
    is_vanished: bool = False  #: whether it was declared at its last crawl, and is no more
    is_wrong: bool = False  #: whether its table in sources.toml has a mistake
    visibility: Visibility | None = None  #: of one source
    cost: Cost = NO_COST
    #: When nothing of one source was overdue: its last complete run, or a later ``due``.
    fresh_at: int | None = None


def status_report(
    connection: Connection,
    now: int,
    *,
    sources: Sequence[str] = (),
    vanished: Collection[str] = (),
    wrong: Collection[str] = (),
    visibilities: Mapping[str, Visibility] | None = None,
    readable: Readable = None,
    left_out: Collection[str] = (),
) -> list[SourceStatus]:
    """Return the status of some sources (of all where none is named), and last their total.

    A source is listed from its first run on. ``vanished``: those that are declared no more.
    ``wrong``: those whose tables have mistakes. ``visibilities``: those that tables declare.
    ``readable``: those that the caller may read; None: every one. ``left_out``: those that are
    neither listed nor counted.
    """
    with read_transaction(connection):
        rows = _rows(connection, _SOURCES, _choice(sources, readable))
        rows = [row for row in rows if row[1] not in left_out]
        names = {no: (str(name), str(kind)) for no, name, kind, _ in rows}
        stored = {str(name): Visibility(word) for _, name, _, word in rows}
        wanted = {"wanted": numbers_for_sql(names), "now": now}
        bounds = {"day": now - _DAY, "week": now - 7 * _DAY}
        counts = _counts(connection, wanted)
        ages = {no: Ages(*row) for no, *row in _rows(connection, _AGES, wanted | bounds)}
        changes = _changes(connection)
        amounts = {no: (Bytes(*row[:2]), Cost(*row[2:])) for no, *row in _rows(connection, _BYTES)}
        last = {no: _last_run(row) for no, *row in _rows(connection, _LAST)}
        complete = {no: (run, at) for no, run, at in _rows(connection, _COMPLETE)}
        fresh = fresh_source_times(connection)
        vectors = reported_vectors_by_source(connection)
        pushed = reported_stores_by_source(connection)
        libraries = [no for no, (_, kind) in names.items() if kind == SHAREPOINT.name]
        shortfalls = {no: stored_library_shortfall(connection, no) for no in libraries}
    found = [
        SourceStatus(
            name,
            counts.get(no, StatusReportCounts()),
            ages.get(no, Ages()),
            changes.get(no, StatusReportChanges()),
            amounts.get(no, (Bytes(), NO_COST))[0],
            last.get(no),
            *complete.get(no, (None, None)),
            source_kind_named(kind).is_listed,
            vectors.get(no),
            pushed.get(no, ()),
            0 if (lacking := shortfalls.get(no)) is None else lacking.trimmed,
            kind == SHAREPOINT.name,
            name in vanished,
            name in wrong,
            source_visibility(stored[name], (visibilities or {}).get(name)),
            amounts.get(no, (Bytes(), NO_COST))[1],
            fresh_at=fresh.get(name),
        )
        for no, (name, kind) in names.items()
    ]
    return [*found, _total(found, ages.get(0, Ages()))]


def _choice(sources: Sequence[str], readable: Readable) -> dict[str, Any]:
    """Return the values of ``_SOURCES``: all where none is named, but readable ones alone."""
    few: Sequence[str] = sources or readable or ()
    if sources and readable is not None:
        few = [name for name in sources if name in readable]
    return {"sources": Many(few), "every": not sources and readable is None}


def _total(found: Sequence[SourceStatus], ages: Ages) -> SourceStatus:
    return SourceStatus(
        None,
        StatusReportCounts(
            *map(sum, zip(StatusReportCounts(), *(one.counts for one in found), strict=True))
        ),
        ages,
        StatusReportChanges(
            *map(sum, zip(StatusReportChanges(), *(one.changes for one in found), strict=True))
        ),
        Bytes(*map(sum, zip(Bytes(), *(one.bytes for one in found), strict=True))),
        cost=Cost(*map(sum, zip(NO_COST, *(one.cost for one in found), strict=True))),
    )


def _counts(connection: Connection, values: dict[str, Any]) -> dict[int, StatusReportCounts]:
    """Return the counts of each source by its number."""
    few = [
        dict(_rows(connection, statement))
        for statement in (_CLONES, _WITHOUT_TEXT, _WITHHELD, _PINNED, _ORDERED)
    ]
    return {
        no: StatusReportCounts(
            *(number or 0 for number in row), *(found.get(no, 0) for found in few)
        )
        for no, *row in _rows(connection, _PAGES, values)
    }


def _changes(connection: Connection) -> dict[int, StatusReportChanges]:
    """Return the changes that the last runs of each source found; open runs have no counts."""
    found: dict[int, StatusReportChanges] = {}
    for source, text in connection.execute(_COUNTS):
        counts, before = json.loads(text), found.get(source, StatusReportChanges())
        modified, new = counts.get("modified", 0), counts.get("new", 0)
        compared = modified + counts.get("unchanged", 0)
        if compared and before.runs < RECENT_RUNS:
            more = (1, compared, modified, new)
            found[source] = StatusReportChanges(*map(sum, zip(before, more, strict=True)))
    return found


def _last_run(row: Sequence[Any]) -> LastRun:
    no, state, complete, reasons, started_at, finished_at, downloaded, saved, *vectors, notes = row
    return LastRun(
        no,
        RunState(state),
        bool(complete),
        tuple(json.loads(reasons)),
        started_at,
        finished_at,
        Bytes(downloaded, saved),
        vectors[0],
        vectors[1],
        tuple(json.loads(notes)),
    )


def _rows(
    connection: Connection, statement: str, values: dict[str, Any] | None = None
) -> list[Any]:
    rows: list[Any] = connection.execute(statement, values or {}).fetchall()
    return rows


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


STATUS_KEYS: Final = (
    "source", "pages", "pending", "crawled", "indexed", "error", "outOfScope", "gone", "sitemaps",
    "held", "lost", "orphans", "due", "clones", "withoutText", "withheld", "pinned", "ordered",
    "errorRate", "changeRate", "changeRuns", "pagesCompared", "pagesModified", "pagesNew",
    "medianAgeSeconds", "age95Seconds", "checkedWithinDay", "checkedWithinWeek",
    "bytesDownloaded", "bytesSaved", "lastRun", "lastCompleteRun", "lastCompleteAt",
    "vectors", "pushed", "visibility", "requests", "notModified", "seconds",
)  # fmt: skip
RUN_KEYS: Final = (
    "run", "state", "complete", "reasons", "startedAt", "finishedAt", "bytesDownloaded",
    "bytesSaved", "embedded", "owed",
)  # fmt: skip


def status_report_data(status: SourceStatus) -> dict[str, Any]:
    """Return a status under STATUS_KEYS."""
    changes, (median, most, day, week) = status.changes, status.ages
    values = (
        status.source,
        *status.counts,
        status.counts.error_rate,
        changes.rate,
        *changes,
        median,
        most,
        _rounded(day),
        _rounded(week),
        *status.bytes,
        _run_data(status.last_run),
        status.complete_run,
        iso_time(status.completed_at),
        None if status.vectors is None else status.vectors.as_data(),
        [counts.as_data() for counts in status.pushed],
        status.visibility,
        *status.cost,
    )
    return dict(zip(STATUS_KEYS, values, strict=True))


def _run_data(run: LastRun | None) -> dict[str, Any] | None:
    if run is None:
        return None
    times = (iso_time(run.started_at), iso_time(run.finished_at))
    facts = (run.no, run.state.word, run.complete, list(run.reasons), *times)
    values = (*facts, *run.bytes, run.embedded, run.owed)
    return dict(zip(RUN_KEYS, values, strict=True))


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)

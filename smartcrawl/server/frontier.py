"""Addresses that wait: posted, asked by the next run of their source, and counted (E-08, E-09).

A body that posts addresses is read strictly (R2-33, R2-35). No message repeats an address, because
it may contain a secret: its position names it.

The statistics (R2-36) count the addresses that a crawl of their source asks: all but those that are
gone, and those that its last complete run did not reach. They are ready when their visit is due, or
the open run has reached them, and their host may be asked; the others are delayed. Addresses that
were posted since the last run of their source are ready as well. The same addresses are counted by
the days on which their visits are due.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final, NamedTuple

from anyio import to_thread
from fastapi import APIRouter, Depends, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field

from smartcrawl.extract.robots_txt import robots_txt_check
from smartcrawl.model.option_groups import RobotsOptions
from smartcrawl.model.options import Options
from smartcrawl.model.program import program_name
from smartcrawl.model.times import iso_time
from smartcrawl.model.urls import normalize_url, url_digest, url_host_key
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.hosts import HostReader
from smartcrawl.registry.items import (
    KnownAddress,
    PendingPin,
    has_row_of_documents_name,
    known_address_rows,
    make_stored_addresses_due,
    store_pending_pin_rows,
)
from smartcrawl.registry.jobs import stored_job_rows
from smartcrawl.registry.pages import STATE_IS_DUE_SQL
from smartcrawl.registry.visibility import (
    Readable,
    readable_waiting_sources,
    stored_visibilities,
)
from smartcrawl.reports.stored_robots import RobotsOfSources
from smartcrawl.reports.today import reported_sources_today
from smartcrawl.rules.connections import ConnectionGuard
from smartcrawl.rules.model import PRIORITY
from smartcrawl.rules.schedule import DAY
from smartcrawl.rules.visibility import Reader
from smartcrawl.server.answers import FrontierDue, FrontierStats, PostedCounts
from smartcrawl.server.bodies import names_private_job_address
from smartcrawl.server.context import Context
from smartcrawl.server.errors import ApiError
from smartcrawl.server.idempotency import KEY_PARAMETER, Once, Reply
from smartcrawl.server.items import post_due_run
from smartcrawl.server.queries import (
    KeptAnswers,
    first_second_of_parameter,
    json_response,
    refuse_api_query,
)
from smartcrawl.sources.base import Source, belongs_to_source
from smartcrawl.sources.declared import load_declared_sources
from smartcrawl.sources.fields import Between, JsonInteger
from smartcrawl.sources.jobs import JobDefinition, declared_job_address
from smartcrawl.sources.kinds import DOCUMENTS
from smartcrawl.sources.scope import SiteScope

MOST: Final = 10_000  #: addresses of a request
#: The example of R2-33.
_EXAMPLE: Final[dict[str, Any]] = {
    "urls": [
        {
            "url": "https://example.com/article/123",
            "priority": 1,
            "metadata": {"source": "sitemap", "discovered_at": "2024-01-20T10:00:00Z"},
        }
    ]
}


def _moment(text: str) -> str:
    """Return a date or a time as it is.

    Raises:
        ValueError: it is neither.
    """
    try:
        first_second_of_parameter(text, "discovered_at")
    except ApiError as error:
        raise ValueError("must be a time such as 2024-01-20T10:00:00Z, or a date") from error
    return text


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)


class UrlMetadata(_Part):
    """Place and time at which the client met an address: checked, and not kept (ADR 60)."""

    source: str = Field(default="", max_length=255, examples=["sitemap"])
    discovered_at: Annotated[str, AfterValidator(_moment)] = Field(
        default="1970-01-01", max_length=40, examples=["2024-01-20T10:00:00Z"]
    )


class PostedUrl(_Part):
    """One address; ``url`` becomes its request URL."""

    url: Annotated[str, AfterValidator(declared_job_address)] = Field(
        examples=["https://example.com/article/123"]
    )
    priority: Annotated[JsonInteger, Between(1, 10)] = PRIORITY
    metadata: UrlMetadata = UrlMetadata()


class PostedUrls(_Part):
    """The addresses of one request."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    urls: Annotated[list[PostedUrl], FailFast()] = Field(min_length=1, max_length=MOST)


_SOURCES: Final = "SELECT name FROM source ORDER BY name"
_EVERY: Final = 0  #: no source: facts about hosts are the same for all
_PRIVATE: Final = "it is an address that ALLOW_NETWORKS does not allow"
_FORBIDDEN: Final = "the stored robots.txt of its host forbids it"


class Candidate(NamedTuple):
    """A posted address, and the sources that it may join."""

    id: bytes
    url: str
    host: str  #: as ``host.name``
    priority: int
    sources: tuple[str, ...]  #: none: it is blocked
    refusal: str = ""  #: the reason why it is


def _may_hold(source: Source, url: str) -> bool:
    """Whether the host of an address is in scope, or in the one that a seed may move to."""
    return source.scope.holds(url) or (source.ad_hoc and source.scope.moved_to(url) is not None)


class Holders:
    """All sources of today: declared ones, jobs, and those that an address began."""

    def __init__(
        self, connection: Connection, options: Options, robots: RobotsOptions, reader: Reader
    ) -> None:
        """``reader``: who posts; other sources than he reads are as if they were not there."""
        self._connection = connection
        self._options = options
        self._reader = reader
        self._stored = stored_visibilities(connection)
        self._may_be_single = has_row_of_documents_name(connection)
        declared = load_declared_sources(*options.source_files)
        jobs = stored_job_rows(connection)
        self._may_be_single &= not declared.declares(DOCUMENTS.name)
        self._may_be_single &= self._may_read(DOCUMENTS.name)
        self._holders = self._sources_of_today(declared, jobs)
        self._by_host: dict[str, list[Source]] = {}
        self._robots = RobotsOfSources(
            connection,
            robots_txt_check,
            robots,
            obeyed=options.robots_obeyed,
            jobs={name: job for name, job in jobs.items() if not declared.declares(name)},
            sources=declared,
        )

    @property
    def names(self) -> list[str]:
        """The names of the sources."""
        single = (DOCUMENTS.name,) if self._may_read(DOCUMENTS.name) else ()
        return [*(source.name for source in self._holders), *single]

    def candidates(self, posted: Sequence[PostedUrl]) -> list[Candidate]:
        """Return the posted addresses, each with the sources that may take it."""
        options = self._options
        guard = ConnectionGuard(options.allow_networks, options.allow_ports)
        blocked = HostReader(self._connection, _EVERY).blocked_hosts()
        refused: dict[str, str] = {}
        found = []
        for each in posted:
            url, host = each.url, url_host_key(each.url)
            if host not in refused:
                private = names_private_job_address(url, guard)
                refused[host] = _blocked() if host in blocked else _PRIVATE if private else ""
            sources, why = ((), refused[host]) if refused[host] else self._sources(url, host)
            key = url_digest(normalize_url(url, options.trackers))
            found.append(Candidate(key, url, host, each.priority, sources, why))
        return found

    def _sources(self, url: str, host: str) -> tuple[tuple[str, ...], str]:
        """Return the sources whose scope and robots.txt allow an address, or why none does.

        An address whose host is in no scope joins that of single pages.
        """
        if host not in self._by_host:
            self._by_host[host] = [each for each in self._holders if _may_hold(each, url)]
        near = self._by_host[host]
        if not near:
            return self._single(url, host)
        fit = [each for each in near if belongs_to_source(each, url)]
        if not fit:
            first = near[0]
            return (), f"{first.name} does not take it: {first.scope.refusal(url)}"
        allowed = tuple(each.name for each in fit if self._is_allowed(url, each.name))
        return allowed, "" if allowed else _FORBIDDEN

    def _single(self, url: str, host: str) -> tuple[tuple[str, ...], str]:
        """Return the source of single pages, or why it does not take an address."""
        unread = SiteScope(hosts=frozenset({host})).refusal(url)
        if unread is not None:
            return (), unread
        if not self._may_be_single:
            return (), f"no source has it in scope, and {DOCUMENTS.name} is that of other pages"
        if not self._is_allowed(url, DOCUMENTS.name):
            return (), _FORBIDDEN
        return (DOCUMENTS.name,), ""

    def _is_allowed(self, url: str, source: str) -> bool:
        """Whether the stored robots.txt of its origin allows an address; none allows all."""
        if not self._robots.is_obeyed(source):
            return True
        answer = self._robots.of(source).answer(url)
        return answer is None or answer[0] is not False

    def _sources_of_today(
        self, declared: Mapping[str, Source], jobs: Mapping[str, JobDefinition]
    ) -> list[Source]:
        known = {name: job.source() for name, job in jobs.items()} | dict(declared)
        rows: list[Any] = self._connection.execute(_SOURCES).fetchall()
        names = dict.fromkeys([*known, *(name for (name,) in rows)])
        found = reported_sources_today(self._connection, known, names)
        # No scope holds single pages: each is added by its address.
        return [
            source
            for source in found
            if source.kind != DOCUMENTS.name and self._may_read(source.name)
        ]

    def _may_read(self, name: str) -> bool:
        return self._reader.may_read(name, self._stored.get(name))


def _blocked() -> str:
    return f"its host is blocked; list those that are: {program_name()} hosts"


_ADDED: Final = "added"
_DUPLICATE: Final = "duplicate"
_BLOCKED: Final = "blocked"


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Checked addresses, and the sources of today."""

    candidates: list[Candidate]
    sources: list[str]


class _Posting:
    """Requests that post addresses.

    They are checked before the transaction, so that it is short.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._once = Once(context)

    async def post(self, request: Request, posted: PostedUrls) -> Response:
        """Store the new addresses of a request, all or none."""
        reader = self._context.reader(request)
        prepared = await to_thread.run_sync(self._prepared, posted, reader)

        def work(connection: Connection) -> Reply:
            return Reply.of(200, self._stored(connection, prepared))

        return await self._once.answer(request, work)

    def _prepared(self, posted: PostedUrls, reader: Reader) -> _Prepared:
        """Return the checked addresses."""
        context = self._context

        def work(connection: Connection) -> _Prepared:
            holders = Holders(connection, context.options, context.server.robots, reader)
            return _Prepared(holders.candidates(posted.urls), holders.names)

        return context.stores.read(work)

    def _stored(self, connection: Connection, prepared: _Prepared) -> dict[str, Any]:
        """Store the new addresses, and make known ones due; return the counts of R2-34."""
        now = int(self._context.clock())
        ids = list({each.id: None for each in prepared.candidates})
        known = known_address_rows(connection, ids, prepared.sources)
        make_stored_addresses_due(connection, sorted(known), prepared.sources, now)
        pins: list[PendingPin] = []
        fates = []
        added: dict[bytes, tuple[str, ...]] = {}
        for each in prepared.candidates:
            fates.append(_fate(each, added.get(each.id), known.get(each.id)))
            if fates[-1]["result"] == _ADDED:
                added[each.id] = each.sources
                pins += (
                    PendingPin(source, each.id, each.url, each.host, now, each.priority)
                    for source in each.sources
                )
        store_pending_pin_rows(connection, pins)
        if any(pin.source == DOCUMENTS.name for pin in pins):
            post_due_run(connection, DOCUMENTS.name, now)  # it has no times of its own
        counts = Counter(fate["result"] for fate in fates)
        return {
            "added": counts[_ADDED],
            "duplicates": counts[_DUPLICATE],
            "blocked": counts[_BLOCKED],
            "urls": fates,
        }


def _fate(
    posted: Candidate, before: tuple[str, ...] | None, known: KnownAddress | None
) -> dict[str, Any]:
    """Return the fate of an address, with the reason.

    ``before``: the sources that it joined earlier in the same request. ``known``: that had it.
    """
    result, sources = _DUPLICATE, before or ()
    if before is not None:
        reason = "it was sent twice"
    elif known is not None:
        sources = (known.source,)
        has = f"{known.source} has it, and its next visit is due now"
        reason = has if known.is_record else f"it waits for the next run of {known.source}"
    elif not posted.sources:
        result, reason = _BLOCKED, posted.refusal
    elif posted.sources == (DOCUMENTS.name,):
        result, sources = _ADDED, posted.sources
        reason = f"no source has it in scope: it joined {DOCUMENTS.name}, and a run follows"
    else:
        result, sources = _ADDED, posted.sources
        reason = f"the next run of {' and of '.join(sources)} requests it"
    return {"url": posted.url, "result": result, "sources": list(sources), "reason": reason}


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the route that takes addresses."""
    posting = _Posting(context)

    @router.post(
        "/frontier/urls",
        tags=["data"],
        summary="Add addresses to their sources; the next run requests urgent ones first",
        response_model=PostedCounts,
        responses={409: {}, 422: {}},
        dependencies=[Depends(refuse_api_query)],
        openapi_extra={"parameters": [KEY_PARAMETER]},
    )
    async def add_urls(request: Request, posted: PostedUrls) -> Response:
        return await posting.post(request, posted)


MOST_HOSTS: Final = 1_000
_SECONDS: Final = 10  #: age up to which an answer counts
_MOST_READERS: Final = 100  #: answers that are kept, by the sources that they are about
_LAST: Final = """
last (source, looked) AS (
    SELECT source, coalesce(max(no) FILTER (WHERE complete), 0) FROM run GROUP BY source)
"""
#: One scan of the narrow table. Equal rows are counted together first, so that few are joined.
_DOMAIN: Final = f"""
WITH {_LAST},
alike AS MATERIALIZED (
    SELECT reached_run, host, visited_run < reached_run AS waits,
           {STATE_IS_DUE_SQL} AS is_due, count(*) AS n
      FROM state WHERE status <> 5 GROUP BY 1, 2, 3, 4),
domain (host, n, ready) AS MATERIALIZED (
    SELECT a.host, sum(n), sum(n) FILTER (WHERE a.is_due OR (a.waits AND u.finished_at IS NULL))
      FROM alike a JOIN run u ON u.no = a.reached_run JOIN last l ON l.source = u.source
     WHERE a.reached_run >= l.looked {{readable}}
     GROUP BY a.host)
"""
_MAY_NOT_BE_ASKED: Final = """
h.is_blocked OR coalesce(w.parked_until, 0) > :now OR coalesce(w.paused_until, 0) > :now
OR (coalesce(w.is_down, FALSE) AND u.finished_at IS NULL)
OR coalesce(h.retry_after_at + h.retry_after, 0) > :now
"""
_HOST_NOW: Final = "LEFT JOIN host_now w ON w.host = h.no LEFT JOIN run u ON u.no = w.run"
_STATS: Final = f"""
{_DOMAIN}
SELECT h.name, d.n, sum(d.n) OVER (),
       sum(CASE WHEN {_MAY_NOT_BE_ASKED} THEN 0 ELSE coalesce(d.ready, 0) END) OVER ()
  FROM domain d JOIN host h ON h.no = d.host {_HOST_NOW}
 ORDER BY d.n DESC, h.name LIMIT :most
"""
#: Posted addresses that no record has yet.
_POSTED: Final = """
  FROM pending_pin p
 WHERE NOT EXISTS (SELECT 1 FROM record r JOIN source o ON o.no = r.source
                    WHERE o.name = p.source AND r.id = p.id) {posted}
"""
#: The same with posted addresses, whose hosts may have no row yet.
_STATS_POSTED: Final = f"""
{_DOMAIN},
posted (name, n) AS MATERIALIZED (SELECT p.host, count(*) {_POSTED} GROUP BY 1),
each (name, n, ready) AS (
    SELECT h.name, d.n, CASE WHEN {_MAY_NOT_BE_ASKED} THEN 0 ELSE coalesce(d.ready, 0) END
      FROM domain d JOIN host h ON h.no = d.host {_HOST_NOW}
    UNION ALL
    SELECT q.name, q.n, CASE WHEN {_MAY_NOT_BE_ASKED} THEN 0 ELSE q.n END
      FROM posted q LEFT JOIN host h ON h.name = q.name {_HOST_NOW})
SELECT name, sum(n), sum(sum(n)) OVER (), sum(sum(ready)) OVER ()
  FROM each GROUP BY name ORDER BY 2 DESC, name LIMIT :most
"""
_IS_POSTED: Final = "SELECT 1 FROM pending_pin LIMIT 1"
#: Addresses with another priority than the usual one, which are few.
_PRIORITIES: Final = f"""
WITH {_LAST}
SELECT p.priority, count(*)
  FROM pin p JOIN state s ON s.no = p.no JOIN last l ON l.source = p.source
 WHERE p.priority <> :usual AND s.status <> 5 AND s.reached_run >= l.looked {{pinned}}
 GROUP BY 1
UNION ALL
SELECT p.priority, count(*) {_POSTED} AND p.priority <> :usual GROUP BY 1
"""


DUE_DAYS: Final = 14  #: days that are listed: today, and those that follow
_DUE_NOW: Final = -1
#: Days since midnight UTC, DUE_DAYS: any later one. One scan of the narrow table, as above.
_DUE: Final = f"""
WITH {_LAST},
alike AS MATERIALIZED (
    SELECT reached_run,
           CASE WHEN {STATE_IS_DUE_SQL} THEN {_DUE_NOW}
                WHEN next_visit >= :today + :days * {DAY} THEN :days
                ELSE (next_visit - :today) / {DAY} END AS day, count(*) AS n
      FROM state WHERE status <> 5 GROUP BY 1, 2)
SELECT a.day, sum(a.n)
  FROM alike a JOIN run u ON u.no = a.reached_run JOIN last l ON l.source = u.source
 WHERE a.reached_run >= l.looked {{readable}}
 GROUP BY a.day
UNION ALL
SELECT {_DUE_NOW}, count(*) {_POSTED}
"""


#: Conditions for callers who may not read every source, by their places in the statements.
_FEW: Final = {
    "readable": "AND u.source IN (SELECT no FROM source WHERE name IN carray(:readable))",
    "pinned": "AND p.source IN (SELECT no FROM source WHERE name IN carray(:readable))",
    "posted": "AND p.source IN carray(:readable)",
}
_EVERY_SOURCE: Final = dict.fromkeys(_FEW, "")


def api_frontier(connection: Connection, now: int, readable: Readable = None) -> dict[str, Any]:
    """Return the statistics under the keys of R2-36; ``readable``: of these sources, None: all."""
    values: dict[str, Any] = {"now": now, "most": MOST_HOSTS}
    named: dict[str, Any] = {"usual": PRIORITY}
    conditions = _EVERY_SOURCE if readable is None else _FEW
    if readable is not None:
        values["readable"] = named["readable"] = Many(readable)
    posted = connection.execute(_IS_POSTED).get is not None
    statement = (_STATS_POSTED if posted else _STATS).format(**conditions)
    rows: list[Any] = connection.execute(statement, values).fetchall()
    total, ready = (int(rows[0][2]), int(rows[0][3])) if rows else (0, 0)
    counted: list[Any] = connection.execute(_PRIORITIES.format(**conditions), named).fetchall()
    priorities: Counter[int] = Counter()
    for priority, count in counted:
        priorities[priority] += int(count)
    priorities[PRIORITY] = total - priorities.total()
    return {
        "total_urls": total,
        "by_priority": {str(each): n for each, n in sorted(priorities.items()) if n},
        "by_domain": {name: int(count) for name, count, _, _ in rows},
        "ready_to_crawl": ready,
        "delayed": total - ready,
    }


def api_frontier_due(connection: Connection, now: int, readable: Readable = None) -> dict[str, Any]:
    """Return the days on which visits are due under the keys of ``FrontierDue``.

    ``readable``: as above. Together they are the addresses that ``api_frontier`` counts.
    """
    today = now - now % DAY
    values: dict[str, Any] = {"now": now, "today": today, "days": DUE_DAYS}
    conditions = _EVERY_SOURCE if readable is None else _FEW
    if readable is not None:
        values["readable"] = Many(readable)
    counts: Counter[int] = Counter()
    rows: list[Any] = connection.execute(_DUE.format(**conditions), values).fetchall()
    for day, count in rows:
        counts[int(day)] += int(count)
    dates = [datetime.fromtimestamp(today + day * DAY, UTC).date() for day in range(DUE_DAYS)]
    return {
        "at": iso_time(now),
        "due": counts[_DUE_NOW],
        "days": [{"date": str(date), "count": counts[day]} for day, date in enumerate(dates)],
        "later": counts[DUE_DAYS],
    }


def add_stats_routes(context: Context, router: APIRouter) -> None:
    """Add the routes of the statistics."""
    answers: KeptAnswers[dict[str, Any]] = KeptAnswers(_SECONDS, _MOST_READERS, context.clock)
    days: KeptAnswers[dict[str, Any]] = KeptAnswers(_SECONDS, _MOST_READERS, context.clock)

    async def counted(
        request: Request,
        kept: KeptAnswers[dict[str, Any]],
        count: Callable[[Connection, int, Readable], dict[str, Any]],
    ) -> Response:
        stores, reader = context.stores, context.reader(request)
        readable = await stores.read_little(lambda seen: readable_waiting_sources(seen, reader))

        def work() -> dict[str, Any]:
            now = int(context.clock())
            return stores.read(lambda connection: count(connection, now, readable))

        return json_response(await kept.get(readable, work))

    @router.get(
        "/frontier/stats",
        tags=["monitoring"],
        summary="Addresses that wait for a visit, by host and priority",
        response_model=FrontierStats,
        dependencies=[Depends(refuse_api_query)],
    )
    async def frontier_stats(request: Request) -> Response:
        return await counted(request, answers, api_frontier)

    @router.get(
        "/frontier/due",
        tags=["monitoring"],
        summary="Addresses by the days on which their visits are due",
        response_model=FrontierDue,
        dependencies=[Depends(refuse_api_query)],
    )
    async def frontier_due(request: Request) -> Response:
        return await counted(request, days, api_frontier_due)

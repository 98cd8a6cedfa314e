"""Orders for single pages and for all of them (E-13 to E-15; R0-51 to R0-56, R0-67, R0-68).

At most one ordered run of due pages waits for each source (ADR 61). A run that died leaves its
pages due, so that it is begun anew instead of resumed. Any number of servers may call all of this
at once.

The order to visit all pages again is carried out in short transactions. A server that dies leaves
the place that it reached, and the next one goes on there.

Each order is part of the transaction of its caller, and has a run of what is due follow it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, Self

from fastapi import APIRouter, Depends, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.model.options import Options
from smartcrawl.model.processes import exit_status_signal
from smartcrawl.model.urls import (
    MAX_URL_LENGTH,
    normalize_url,
    url_digest,
    url_digests_of_id,
    url_host_key,
    url_item_id,
)
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database, DatabaseControl
from smartcrawl.registry.items import (
    ItemRow,
    force_ordered_rows,
    has_row_of_documents_name,
    item_rows_between,
    order_address_row,
    read_item_row,
    refreshable_source_rows,
    register_address_row,
    sources_of_ordered_row,
    store_order_rows,
)
from smartcrawl.registry.jobs import load_stored_jobs_and_sources
from smartcrawl.registry.names import stored_source_names
from smartcrawl.registry.processes import PROCESS_COLUMNS, ProcessKind, Started
from smartcrawl.registry.recomputing import order_recomputing_row
from smartcrawl.registry.source_due import FORWARD
from smartcrawl.registry.visibility import (
    readable_sources,
    readable_waiting_sources,
    stored_visibilities,
)
from smartcrawl.reports.today import reported_address_holders
from smartcrawl.rules.connections import ConnectionGuard
from smartcrawl.rules.model import Status
from smartcrawl.rules.run_orders import EXIT_COMPLETE, EXIT_INCOMPLETE, EXIT_SOURCE_BUSY
from smartcrawl.rules.visibility import Reader
from smartcrawl.server.answers import AddedItem, QueuedItems, ReindexedItem
from smartcrawl.server.bodies import names_private_job_address
from smartcrawl.server.context import Context
from smartcrawl.server.errors import ApiError
from smartcrawl.server.idempotency import KEY_PARAMETER, Once, Reply
from smartcrawl.server.jobs.runner import CrawlProgram, Exited, Kind, Work
from smartcrawl.server.queries import refuse_api_query
from smartcrawl.sources.base import Source
from smartcrawl.sources.jobs import CONFLICT, INVALID_URL, NOT_FOUND, JobError, declared_job_address
from smartcrawl.sources.kinds import DOCUMENTS
from smartcrawl.sources.scope import SiteScope

logger = logging.getLogger(__name__)


BUSY_AGAIN: Final = 5  #: seconds until a run whose source was busy tries again
#: It locks the row that waits, so that a claim comes after all that its order wrote.
_ORDER_RUN: Final = """
INSERT INTO due_run (source, at) VALUES (?, ?)
ON CONFLICT (source) DO UPDATE SET at = min(due_run.at, excluded.at)
"""
_IS_ORDERED: Final = "SELECT 1 FROM due_run WHERE source = ?"


def post_due_run(connection: Connection, source: str, now: int) -> None:
    """Order a run of the due pages of a source, unless one waits. The caller's transaction."""
    connection.execute(_ORDER_RUN, (source, now))


@dataclass(frozen=True, slots=True)
class DueRun(Work):
    """An ordered run that a server has begun, by the name of its source."""

    @property
    def label(self) -> str:
        """What it is called in messages."""
        return f"the ordered run of {self.name}"

    @property
    def log(self) -> str:
        """The name of the log that all ordered runs of its source share."""
        return f"due-{self.name}.log"

    def words(self, program: CrawlProgram) -> list[str]:
        """Return the command of what is due of its source."""
        return [*program.due, f"--source={self.name}"]


class DueRuns(Kind[DueRun]):
    """The ordered runs.

    One waits while all pages are being marked, while its source is being crawled, while its job is
    paused or begins, and for older jobs.
    """

    kind = ProcessKind.DUE
    WAITING = """
SELECT d.source, d.source FROM due_run d LEFT JOIN process b ON b.kind = 'due' AND b.id = d.source
 WHERE d.at <= :now AND b.server IS NULL AND NOT EXISTS (SELECT 1 FROM rebuild)
   AND NOT EXISTS (SELECT 1 FROM job j WHERE j.name = d.source AND j.deleted_at IS NULL
                      AND j.status = 'paused')
   AND NOT EXISTS (SELECT 1 FROM job_run k JOIN job j ON j.no = k.job
                     LEFT JOIN process p ON p.kind = 'crawl' AND p.id = k.id
                    WHERE k.state IN ('waiting', 'running') AND j.deleted_at IS NULL
                      AND (j.name = d.source AND p.server IS NOT NULL
                           OR p.server IS NULL AND k.fired_at < d.at
                              AND j.status IN ('created', 'scheduled', 'running')))
 ORDER BY d.at, d.no
"""
    LOCK = "DELETE FROM due_run WHERE source = ?"
    BEGUN = f"""
SELECT p.id, {PROCESS_COLUMNS} FROM process p
 WHERE p.kind = 'due' AND p.server IS NOT NULL AND p.id = coalesce(:id, p.id) ORDER BY p.id
"""

    def of(self, row: Sequence[Any]) -> DueRun:
        """Return the run of a row."""
        return DueRun(row[0], row[0], Started.of(row[1:]))

    def exited(self, work: DueRun, exited: Exited, log: str, now: int) -> None:
        """Record the exit of a process."""
        status = exited.status
        if status == EXIT_SOURCE_BUSY:
            self._again(work, now + BUSY_AGAIN, is_new=True)
        elif status < 0:
            self.died(work, f"its process was ended by {exit_status_signal(status)}", now)
        elif status in (EXIT_COMPLETE, EXIT_INCOMPLETE):
            self.control.write(lambda: self.rows.forget(work.id))
            logger.info("%s ended: exit status %d", work.label, status)
        else:
            self.end(work, status, now, f"exit status {status}: see {log}")

    def died(self, work: DueRun, why: str, now: int) -> bool:
        """Let it wait again, once."""
        if work.is_spent:
            self.end(work, None, now, why)
        else:
            logger.warning("%s begins again: %s", work.label, why)
            self._again(work, now, is_new=False)
        return False

    def end(self, work: DueRun, status: int | None, now: int, *reasons: str) -> None:
        """Forget a run that failed: its pages stay due."""
        self.control.write(lambda: self.rows.forget(work.id))
        logger.error("%s failed: %s", work.label, "; ".join(reasons))

    def _again(self, work: DueRun, at: int, *, is_new: bool) -> None:
        """Let a run wait until ``at`` at least; with another that waits it is one, and new."""

        def again() -> None:
            if is_new or self._connection.execute(_IS_ORDERED, (work.id,)).get is not None:
                self.rows.forget(work.id)
            else:
                self.rows.release(work.id)
            post_due_run(self._connection, work.name, at)

        self.control.write(again)


STEP: Final = 2_000  #: records of a transaction
_STEPS: Final = 5  #: of a tick, so that jobs are not delayed
#: What is visited again: all but tombstones. Only stored pages can be indexed anew.
_WANTED: Final = "(standing > 0 OR status <> 5)"
_COUNT: Final = f"SELECT count(*) FROM state WHERE {_WANTED}"
_ORDER: Final = """
INSERT INTO rebuild (no, forced, place, last)
SELECT 1, ?, 0, coalesce(max(no), 0) FROM record WHERE TRUE
ON CONFLICT (no) DO UPDATE
   SET forced = rebuild.forced OR excluded.forced, place = 0, last = excluded.last
"""
_PLACE: Final = "SELECT forced, place, last FROM rebuild"
_NEXT: Final = """
SELECT max(no) FROM (SELECT no FROM state WHERE no > ? AND no <= ? ORDER BY no LIMIT ?) AS page
"""
_ADVANCE: Final = "UPDATE rebuild SET place = ? WHERE place = ? AND last = ?"
_DONE: Final = "DELETE FROM rebuild WHERE place >= last"
_WITHIN: Final = "no > :place AND no <= :upto"
_OF_SOURCE: Final = """
no IN (SELECT r.no FROM record r JOIN source s ON s.no = r.source WHERE s.name = :source)
"""
#: Each for the pages of ``where``.
_DUE: Final = f"""
UPDATE state SET {FORWARD} WHERE {{where}} AND {_WANTED} AND next_visit > :now
"""
#: Pages that are due already do not count, but no budget puts them off (``FORWARD``).
_DUE_BEFORE: Final = f"""
UPDATE state SET interval = NULL
 WHERE {{where}} AND {_WANTED} AND next_visit <= :now AND interval IS NOT NULL
"""
_FORCE: Final = """
INSERT INTO item (no, requested, generation, revision)
SELECT no, TRUE, 1, 1 FROM state WHERE {where} AND standing > 0
ON CONFLICT (no) DO UPDATE
   SET requested = TRUE, generation = item.generation + 1, revision = item.revision + 1
"""
_PENDING: Final = """
UPDATE state SET status = 0 WHERE {where} AND standing > 0 AND status NOT IN (1, 2)
"""
_COUNT_OF_SOURCE: Final = f"SELECT count(*) FROM state WHERE {_OF_SOURCE} AND {_WANTED}"
MOST_FORCED: Final = 200_000  #: pages of a source that are marked in one transaction


def post_rebuild(connection: Connection, *, force: bool) -> int:
    """Order all pages to be visited again; return their number. The caller's transaction.

    With ``force`` stored pages are also indexed anew. An order under way begins again.
    """
    connection.execute(_ORDER, (force,))
    return int(connection.execute(_COUNT).get)


def post_source_rebuild(connection: Connection, source: str, now: int) -> int:
    """Order all pages of a source to be indexed anew; return their number.

    Raises:
        JobError: they are too many for the transaction of a server.
    """
    values = {"source": source}
    count = int(connection.execute(_COUNT_OF_SOURCE, values).get)
    if count > MOST_FORCED:
        reason = (
            f"{source} has {count:,} pages, and a server marks {MOST_FORCED:,} at once: order it by"
            f" smartcrawl reindex --source {source}"
        )
        raise JobError(CONFLICT, field="source", reason=reason, message=_NOT_FORCED)
    _mark(connection, _OF_SOURCE, values, now, forced=True)
    return count


def make_source_pages_due(connection: Connection, source: str, now: int) -> int:
    """Have all pages of a source due now; return how many were not. The caller's transaction."""
    _mark(connection, _OF_SOURCE, {"source": source}, now, forced=False)
    return connection.changes()


def _mark(
    connection: Connection, where: str, values: Mapping[str, object], now: int, *, forced: bool
) -> None:
    """Let pages be due, with ``forced`` to be indexed anew."""
    if forced:
        connection.execute(_FORCE.format(where=where), values)
        connection.execute(_PENDING.format(where=where), values)
    connection.execute(_DUE_BEFORE.format(where=where), {**values, "now": now})
    connection.execute(_DUE.format(where=where), {**values, "now": now})


class Rebuilding:
    """Carries the order out, for one thread; any number of servers may do so at once."""

    def __init__(self, database: Database, connection: Connection) -> None:
        self._database = database
        self._connection = connection
        self._control = DatabaseControl(database, connection)

    def steps(self, now: int) -> None:
        """Do some steps, if there is an order."""
        for _ in range(_STEPS):
            with self._database.translated("read"):
                row: Any = self._connection.execute(_PLACE).fetchone()
            if row is None:
                return
            self._control.write(partial(self._step, *row, now=now))

    def _step(self, forced: bool, place: int, last: int, *, now: int) -> None:
        upto = self._connection.execute(_NEXT, (place, last, STEP)).get
        upto = last if upto is None else int(upto)
        self._connection.execute(_ADVANCE, (upto, place, last))
        if not self._connection.changes():
            return  # another server took this step, or the order began again
        values = {"place": place, "upto": upto}
        _mark(self._connection, _WITHIN, values, now, forced=forced)
        self._connection.execute(_DONE)


_UNKNOWN: Final = "Item not found"
_ALL_PAGES: Final = "this is about every source, and your key does not read all: use an admin key"
_NOT_FORCED: Final = "The source cannot be indexed anew now"
_NO_SOURCE: Final = "url is in no source that your key reads"


class ItemOrders:
    """Orders over one connection, in the transaction of the caller, which is repeatable."""

    def __init__(self, connection: Connection, options: Options, now: int, reader: Reader) -> None:
        """``now``: Unix seconds. ``reader``: who orders; he acts only on what he reads."""
        self._connection = connection
        self._options = options
        self._now = now
        self._reader = reader
        self._stored = stored_visibilities(connection)
        self._known = load_stored_jobs_and_sources(options, connection)
        for name in [name for name in self._known if not self._may_read(name)]:
            del self._known[name]

    def add(self, url: str, *, force: bool, source: str | None = None) -> dict[str, Any]:
        """Register an address in the sources that have it or whose scope holds it (E-13).

        An address of no source joins that of single pages. ``source``: the only one to join.

        Raises:
            JobError: no crawl may connect to it, nothing can read it, or ``source`` does not hold
                it.
        """
        identity = normalize_url(url, self._options.trackers)
        if not identity.startswith(("http://", "https://")):
            return self._add_file(identity, force=force, only=source)
        guard = ConnectionGuard(self._options.allow_networks, self._options.allow_ports)
        if names_private_job_address(url, guard):
            reason = "url is an address that ALLOW_NETWORKS does not allow"
            raise JobError(INVALID_URL, field="url", reason=reason)
        key = url_digest(identity)
        found, status, generation = self._crawlable(key, key, source), Status.PENDING, 0
        sources = [item.source for item in found]
        for item in found:
            after = register_address_row(
                self._connection, item.source, url, self._options.trackers, self._now, force=force
            )
            status, generation = after.status, max(generation, after.generation)
        if not found:
            sources = _only(source, self._sources_for(url, key))
            generation = max(
                order_address_row(self._connection, name, url, key, self._now, force=force)
                for name in sources
            )
        self._follow(sources)
        return {
            "id": url_item_id(url_item_kind(identity), key),
            "status": status.word,
            "reindexGeneration": generation,
        }

    def _add_file(self, identity: str, *, force: bool, only: str | None) -> dict[str, Any]:
        """Have the sources of a file listed, which finds it if it is there (E-13).

        Raises:
            JobError: no source has it.
        """
        key = url_digest(identity)
        found, status, generation = self._crawlable(key, key, only), Status.PENDING, 0
        if found and force:
            store_order_rows(self._connection, [item.no for item in found], self._now)
            found = [read_item_row(self._connection, item.no) for item in found]
        sources = [item.source for item in found]
        for item in found:
            status, generation = item.status, max(generation, item.generation)
        if not found:
            holders = reported_address_holders(
                self._connection, self._known, list(self._names()), identity
            )
            sources = _only(only, holders.holders)
        if not sources:
            reason = "url is a file of no source: declare the folder or store that has it"
            raise JobError(INVALID_URL, field="url", reason=reason)
        self._follow(sources)
        return {
            "id": url_item_id(url_item_kind(identity), key),
            "status": status.word,
            "reindexGeneration": generation,
        }

    def reindex(self, first: bytes, last: bytes, field: str) -> dict[str, Any]:
        """Have the pages of an id indexed anew (E-15).

        ``first`` and ``last``: the ids (32 bytes) between which theirs are; ``field``: of the
        request.

        Raises:
            JobError: there is no such item, or its source is crawled no more.
        """
        found = self._crawlable(first, last)
        store_order_rows(self._connection, [item.no for item in found], self._now)
        after = [read_item_row(self._connection, item.no) for item in found]
        readable = readable_waiting_sources(self._connection, self._reader)
        ordered = force_ordered_rows(self._connection, first, last, readable)
        if not (after or ordered):
            if not self._readable(first, last):
                reason = f"there is no item of this {field}"
                raise JobError(NOT_FOUND, field=field, reason=reason, message=_UNKNOWN)
            raise JobError(
                CONFLICT,
                field=field,
                reason="its source is not declared any more: declare it again",
                message="The item is not crawled any more",
            )
        self._follow([*(item.source for item in after), *(row.source for row in ordered)])
        ids = [*(item.id for item in after), *(row.id for row in ordered)]
        generations = [*(item.generation for item in after), *(row.forced for row in ordered)]
        return {
            "id": ids[0],
            "reindexRequested": True,
            "reindexGeneration": max(generations),
        }

    def rebuild(self, *, force: bool) -> dict[str, Any]:
        """Have all pages of all sources visited again, with ``force`` indexed anew (E-14).

        Their next runs compute their ids anew, if the normalization has changed (G-34).

        Raises:
            ApiError: there are sources that the caller may not read.
        """
        if readable_sources(self._connection, self._reader) is not None:
            raise ApiError("FORBIDDEN", reason=_ALL_PAGES)
        queued = post_rebuild(self._connection, force=force)
        names = self._names()
        sources = [name for name in stored_source_names(self._connection) if name in names]
        for source in sources:
            order_recomputing_row(self._connection, source)
        self._follow(sources)
        return {"queued": queued}

    def rebuild_source(self, source: str) -> dict[str, Any]:
        """Have all pages of a source downloaded and indexed anew.

        Raises:
            JobError: it was never crawled, no run takes it any more, or it has too many pages.
        """
        if not self._may_read(source) or source not in self._stored:
            reason = "no source of this name was crawled"
            raise JobError(NOT_FOUND, field="source", reason=reason, message="Source not found")
        if source not in self._names():
            reason = "the source is not declared any more: declare it again"
            raise JobError(CONFLICT, field="source", reason=reason, message=_NOT_FORCED)
        queued = post_source_rebuild(self._connection, source, self._now)
        self._follow([source])
        return {"queued": queued}

    def _names(self) -> Mapping[str, object]:
        """Return the sources that can be crawled, declared ones first."""
        others = refreshable_source_rows(self._connection)
        return {**self._known, **{name: others[name] for name in others if self._may_read(name)}}

    def _may_read(self, name: str) -> bool:
        return self._reader.may_read(name, self._stored.get(name))

    def _readable(self, first: bytes, last: bytes) -> list[ItemRow]:
        found = item_rows_between(self._connection, first, last)
        return [item for item in found if self._may_read(item.source)]

    def _crawlable(self, first: bytes, last: bytes, only: str | None = None) -> list[ItemRow]:
        names = [name for name in self._names() if only in (None, name)]
        return [item for item in self._readable(first, last) if item.source in names]

    def _sources_for(self, url: str, key: bytes) -> list[str]:
        """Return the sources that a new address joins."""
        names = [name for name in self._names() if name != DOCUMENTS.name]
        ordered = sources_of_ordered_row(self._connection, key)
        found = [name for name in ordered if name in names or name == DOCUMENTS.name]
        found = [name for name in found if self._may_read(name)]
        if not found:
            found = reported_address_holders(self._connection, self._known, names, url).holders
        if found:
            return found
        unread = SiteScope(hosts=frozenset({url_host_key(url)})).refusal(url)
        if unread is not None:
            raise JobError(INVALID_URL, field="url", reason=f"url is not read: {unread}")
        documents = self._known.get(DOCUMENTS.name)
        if not self._may_read(DOCUMENTS.name):
            raise ApiError("FORBIDDEN", field="url", reason=_NO_SOURCE)
        if not _is_ours(documents) or not has_row_of_documents_name(self._connection):
            raise JobError(
                CONFLICT,
                field="url",
                reason=f"url is of no source, and the name {DOCUMENTS.name} is that of another"
                " source: rename that one, or widen a source",
                message="The address cannot be added",
            )
        return [DOCUMENTS.name]

    def _follow(self, sources: Iterable[str]) -> None:
        for source in sorted(set(sources)):
            post_due_run(self._connection, source, self._now)


def _only(source: str | None, sources: list[str]) -> list[str]:
    """Return the source that was asked for; None: all.

    Raises:
        JobError: it is none of them.
    """
    if source is None:
        return sources
    if source not in sources:
        reason = "source neither has url nor holds it in its scope: widen it, or leave source out"
        message = "The source does not hold the address"
        raise JobError(INVALID_URL, field="source", reason=reason, message=message)
    return [source]


def _is_ours(documents: Source | None) -> bool:
    return documents is None or documents.kind == DOCUMENTS.name


_URL: Final = "https://docs.example.com/guide"
_Work = Callable[[ItemOrders], dict[str, Any]]


def _address(text: str) -> str:
    """Return an address, which may be that of a file; messages do not repeat it."""
    known = normalize_url(text)
    if not known.startswith(("http://", "https://")) and url_item_kind(known) == "file":
        return text
    return declared_job_address(text)


def _id(text: str) -> str:
    if url_digests_of_id(text) is None:
        raise ValueError("must be one of the registry, such as url_k7gxn3…")
    return text


def _true(value: bool) -> bool:
    if not value:
        raise ValueError("must be true")
    return value


def _order(**example: Any) -> ConfigDict:
    return ConfigDict(strict=True, extra="forbid", json_schema_extra={"examples": [example]})


class AddOrder(BaseModel):
    """An address to add."""

    model_config = _order(url=_URL, force=False)

    url: Annotated[str, AfterValidator(_address)] = Field(
        max_length=4 * MAX_URL_LENGTH, examples=[_URL]
    )
    force: bool = Field(default=False, description="Whether to index it anew if it is known")
    source: str | None = Field(
        default=None,
        max_length=255,
        description="The only source to join; by default all that have it, or hold it in scope",
        examples=["docs"],
    )


class RebuildOrder(BaseModel):
    """Whether all pages are only visited again, or also indexed anew."""

    model_config = _order(force=True)

    force: bool = False


class SourceOrder(BaseModel):
    """A source whose pages are all indexed anew."""

    model_config = _order(source="docs")

    source: str = Field(min_length=1, max_length=255, description="Its name", examples=["docs"])


class ReindexOrder(BaseModel):
    """An item to index anew."""

    model_config = _order(source=_URL, force=True)

    id: Annotated[str, AfterValidator(_id)] | None = Field(
        default=None, max_length=255, description="As url_k7gxn3…"
    )
    source: Annotated[str, AfterValidator(_address)] | None = Field(
        default=None, max_length=4 * MAX_URL_LENGTH, description="Its address", examples=[_URL]
    )
    force: Annotated[bool, AfterValidator(_true)] = Field(examples=[True])

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.id is None) == (self.source is None):
            raise ValueError("exactly one of id and source must be given")
        return self


class _Orders:
    """Carries out the orders of requests, each key once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._once = Once(context)

    async def answer(self, request: Request, order: _Work) -> Response:
        """Answer with the result of an order."""
        reader = self._context.reader(request)

        def work(connection: Connection) -> Reply:
            now = int(self._context.clock())
            return Reply.of(202, order(ItemOrders(connection, self._context.options, now, reader)))

        return await self._once.answer(request, work)


def _span(order: ReindexOrder, context: Context) -> tuple[bytes, bytes]:
    """Return the ids (32 bytes) between which those of an order are."""
    if order.source is not None:
        key = url_digest(normalize_url(order.source, context.options.trackers))
        return key, key
    span = url_digests_of_id(order.id or "")
    assert span is not None, "the id was checked"
    return span


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the routes of orders."""
    orders = _Orders(context)

    @router.post(
        "/AddUrlDocument",
        tags=["items"],
        summary="Add an address; a run of what is due of its source follows",
        status_code=202,
        response_model=AddedItem,
        responses={409: {}, 422: {}},
        dependencies=[Depends(refuse_api_query)],
        openapi_extra={"parameters": [KEY_PARAMETER]},
    )
    async def add_url_document(request: Request, order: AddOrder) -> Response:
        return await orders.answer(
            request, lambda items: items.add(order.url, force=order.force, source=order.source)
        )

    @router.post(
        "/ReindexItem",
        tags=["items"],
        summary="Index an item anew; a run of what is due of its source follows",
        status_code=202,
        response_model=ReindexedItem,
        responses={404: {}, 409: {}, 422: {}},
        dependencies=[Depends(refuse_api_query)],
        openapi_extra={"parameters": [KEY_PARAMETER]},
    )
    async def reindex_item(request: Request, order: ReindexOrder) -> Response:
        span, field = _span(order, context), "id" if order.source is None else "source"
        return await orders.answer(request, lambda items: items.reindex(*span, field))

    @router.post(
        "/RebuildIndex",
        tags=["items"],
        summary="Visit all pages again, or index them anew; runs of all sources follow",
        status_code=202,
        response_model=QueuedItems,
        responses={422: {}},
        dependencies=[Depends(refuse_api_query)],
        openapi_extra={"parameters": [KEY_PARAMETER]},
    )
    async def rebuild_index(request: Request, order: RebuildOrder) -> Response:
        return await orders.answer(request, lambda items: items.rebuild(force=order.force))


def add_source_routes(context: Context, router: APIRouter) -> None:
    """Add the route of orders for whole sources."""
    orders = _Orders(context)

    @router.post(
        "/reindex",
        tags=["items"],
        summary="Download and index all pages of a source anew; a run of it follows",
        status_code=202,
        response_model=QueuedItems,
        responses={404: {}, 409: {}, 422: {}},
        dependencies=[Depends(refuse_api_query)],
        openapi_extra={"parameters": [KEY_PARAMETER]},
    )
    async def reindex_source(request: Request, order: SourceOrder) -> Response:
        return await orders.answer(request, lambda items: items.rebuild_source(order.source))

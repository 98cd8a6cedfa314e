"""Orders for single pages and for all of them (E-13 to E-15; R0-51 to R0-56, R0-67, R0-68).

The order to visit all pages again, carried out in short transactions (R0-53, R0-68).

A server that dies leaves the place that it reached, and the next one goes on there.

Each order is part of the transaction of its caller, and has a run of what is due follow it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.model.options import Options
from smartcrawl.model.urls import normalize_url, url_digest, url_host_key, url_item_id
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
from smartcrawl.registry.recomputing import order_recomputing_row
from smartcrawl.reports.sources_today import reported_address_holders
from smartcrawl.rules.connections import ConnectionGuard
from smartcrawl.rules.model import Status
from smartcrawl.server.items.due_runs import post_due_run
from smartcrawl.server.private_addresses import names_private_job_address
from smartcrawl.sources.base import Source
from smartcrawl.sources.jobs import CONFLICT, INVALID_URL, NOT_FOUND, JobError
from smartcrawl.sources.kinds import DOCUMENTS
from smartcrawl.sources.scope import SiteScope

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
_DUE: Final = f"""
UPDATE state SET next_visit = :now WHERE {_WITHIN} AND {_WANTED} AND next_visit > :now
"""
_FORCE: Final = f"""
INSERT INTO item (no, requested, generation, revision)
SELECT no, TRUE, 1, 1 FROM state WHERE {_WITHIN} AND standing > 0
ON CONFLICT (no) DO UPDATE
   SET requested = TRUE, generation = item.generation + 1, revision = item.revision + 1
"""
_PENDING: Final = f"""
UPDATE state SET status = 0 WHERE {_WITHIN} AND standing > 0 AND status NOT IN (1, 2)
"""


def post_rebuild(connection: Connection, *, force: bool) -> int:
    """Order all pages to be visited again; return their number. The caller's transaction.

    With ``force`` stored pages are also indexed anew. An order under way begins again.
    """
    connection.execute(_ORDER, (force,))
    return int(connection.execute(_COUNT).get)


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
        if forced:
            self._connection.execute(_FORCE, values)
            self._connection.execute(_PENDING, values)
        self._connection.execute(_DUE, values | {"now": now})
        self._connection.execute(_DONE)


_UNKNOWN: Final = "Item not found"


class ItemOrders:
    """Orders over one connection, in the transaction of the caller, which is repeatable."""

    def __init__(self, connection: Connection, options: Options, now: int) -> None:
        """``now``: Unix seconds."""
        self._connection = connection
        self._options = options
        self._now = now
        self._known = load_stored_jobs_and_sources(options, connection)

    def add(self, url: str, *, force: bool) -> dict[str, Any]:
        """Register an address in the sources that have it or whose scope holds it (E-13).

        An address of no source joins that of single pages.

        Raises:
            JobError: no crawl may connect to it, or nothing can read it.
        """
        identity = normalize_url(url, self._options.trackers)
        if not identity.startswith(("http://", "https://")):
            return self._add_file(identity, force=force)
        guard = ConnectionGuard(self._options.allow_networks, self._options.allow_ports)
        if names_private_job_address(url, guard):
            reason = "url is an address that ALLOW_NETWORKS does not allow"
            raise JobError(INVALID_URL, field="url", reason=reason)
        key = url_digest(identity)
        found, status, generation = self._crawlable(key, key), Status.PENDING, 0
        sources = [item.source for item in found]
        for item in found:
            after = register_address_row(
                self._connection, item.source, url, self._options.trackers, self._now, force=force
            )
            status, generation = after.status, max(generation, after.generation)
        if not found:
            sources = self._sources_for(url, key)
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

    def _add_file(self, identity: str, *, force: bool) -> dict[str, Any]:
        """Have the sources of a file listed, which finds it if it is there (E-13).

        Raises:
            JobError: no source has it.
        """
        key = url_digest(identity)
        found, status, generation = self._crawlable(key, key), Status.PENDING, 0
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
            sources = holders.holders
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
        ordered = force_ordered_rows(self._connection, first, last)
        if not (after or ordered):
            if not item_rows_between(self._connection, first, last):
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
        """
        queued = post_rebuild(self._connection, force=force)
        names = self._names()
        sources = [name for name in stored_source_names(self._connection) if name in names]
        for source in sources:
            order_recomputing_row(self._connection, source)
        self._follow(sources)
        return {"queued": queued}

    def _names(self) -> Mapping[str, object]:
        """Return the sources that can be crawled, declared ones first."""
        return {**self._known, **refreshable_source_rows(self._connection)}

    def _crawlable(self, first: bytes, last: bytes) -> list[ItemRow]:
        names = self._names()
        found = item_rows_between(self._connection, first, last)
        return [item for item in found if item.source in names]

    def _sources_for(self, url: str, key: bytes) -> list[str]:
        """Return the sources that a new address joins."""
        names = [name for name in self._names() if name != DOCUMENTS.name]
        ordered = sources_of_ordered_row(self._connection, key)
        found = [name for name in ordered if name in names or name == DOCUMENTS.name]
        if not found:
            found = reported_address_holders(self._connection, self._known, names, url).holders
        if found:
            return found
        unread = SiteScope(hosts=frozenset({url_host_key(url)})).refusal(url)
        if unread is not None:
            raise JobError(INVALID_URL, field="url", reason=f"url is not read: {unread}")
        documents = self._known.get(DOCUMENTS.name)
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


def _is_ours(documents: Source | None) -> bool:
    return documents is None or documents.kind == DOCUMENTS.name

"""Orders for single pages and for all of them (E-13 to E-15; R0-51 to R0-56, R0-67, R0-68).

Each order is part of the transaction of its caller, and has a run of what is due follow it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.model.options import Options
from smartcrawl.model.urls import normalize_url, url_digest, url_host_key, url_item_id
from smartcrawl.registry.connection import Connection
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
from smartcrawl.server.items.rebuilding import post_rebuild
from smartcrawl.server.private_addresses import names_private_job_address
from smartcrawl.sources.base import Source
from smartcrawl.sources.jobs import CONFLICT, INVALID_URL, NOT_FOUND, JobError
from smartcrawl.sources.kinds import DOCUMENTS
from smartcrawl.sources.scope import SiteScope

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

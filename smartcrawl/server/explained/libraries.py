"""Document libraries over HTTP: domains, their sources, what is owed, and their last reports."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

from anyio import to_thread
from fastapi import APIRouter, Depends, Request, Response

from smartcrawl.model.exceptions import SourceError
from smartcrawl.model.times import iso_time
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.library.owed import LibraryOwed, library_owed_rows
from smartcrawl.registry.visibility import stored_visibilities
from smartcrawl.rules.visibility import Reader
from smartcrawl.run.library.report import ArchiveFile, library_run_archives
from smartcrawl.server.context import Context
from smartcrawl.server.errors import api_unavailable
from smartcrawl.server.explained.answers import Libraries
from smartcrawl.server.explained.sources import sources_data
from smartcrawl.server.jobs.readable import ReadableJobs
from smartcrawl.server.queries import json_response, refuse_api_query
from smartcrawl.sources.sharepoint.domains import (
    Domain,
    load_sharepoint_domain,
    sharepoint_domain_ids,
)
from smartcrawl.sources.sharepoint.source import SharepointSource

logger = logging.getLogger(__name__)

_MOST_REPORTS: Final = 5  #: of a domain
_PROBLEM: Final = (
    "the domain.json of this domain has problems, which the log of this server names: correct"
    " them there"
)
_AWAY: Final = "the folder of the domains cannot be read; the log of this server has the reason"
#: Keys of a source as the status has it.
_STATUS: Final = ("held", "verdict", "isWell", "look", "lastRun")


def libraries_data(
    connection: Connection, context: Context, reader: Reader, now: int
) -> dict[str, Any]:
    """Return the domains that a caller may read under the keys of ``Libraries``.

    ``now``: Unix seconds.

    Raises:
        ApiError: the folder of the domains cannot be read.
    """
    storage = context.options.sharepoint.storage
    try:
        ids = sharepoint_domain_ids(storage)
        archives = library_run_archives(storage) if ids else []
    except (SourceError, OSError) as error:
        logger.error("%s", error)
        raise api_unavailable(_AWAY) from error
    readable = ReadableJobs(connection, reader, ())
    loaded = {domain_id: _loaded(storage, domain_id) for domain_id in ids}
    every = [one.name for domain in loaded.values() if domain for one in domain.every_source]
    names = {name for name in every if readable.may_read(name)}
    statuses = _statuses(connection, context, names, now)
    owed = library_owed_rows(connection)
    domains = []
    for domain_id, domain in loaded.items():
        reads_all = readable.may_read_library(domain_id, None)
        declared = () if domain is None else domain.every_source
        sources = [
            _source(one, statuses.get(one.name), owed.get(one.name, LibraryOwed()))
            for one in declared
            if one.name in names
        ]
        if sources or (reads_all and not declared):
            reports = [each for each in archives if each.domain == domain_id] if reads_all else []
            domains.append(_domain(domain_id, domain, sources, reports))
    return {"at": iso_time(now), "domains": domains}


def _loaded(storage: Path, domain_id: str) -> Domain | None:
    """Return a domain; None: its file has problems, which are logged."""
    try:
        return load_sharepoint_domain(storage, domain_id)
    except SourceError as error:
        logger.error("%s", error)
        return None


def _statuses(
    connection: Connection, context: Context, names: Collection[str], now: int
) -> dict[str, dict[str, Any]]:
    """Return the status of those of some sources that were ever crawled, by name."""
    stored = [name for name in stored_visibilities(connection) if name in names]
    found = sources_data(connection, context, stored, now)["sources"] if stored else []
    return {one["source"]: {key: one[key] for key in _STATUS} for one in found}


def _source(
    source: SharepointSource, status: dict[str, Any] | None, counts: LibraryOwed
) -> dict[str, Any]:
    owed = (counts.not_downloaded, counts.not_processed, counts.not_embedded)
    return {
        "source": source.name,
        "sourceId": source.source_id,
        "sourceType": source.source_type.value,
        "siteUrl": source.site_url,
        "status": status,
        "items": counts.items,
        "files": counts.files,
        "owed": dict(zip(("download", "process", "embed"), owed, strict=True)),
        "embedFailed": counts.refused,
    }


def _domain(
    domain_id: str,
    domain: Domain | None,
    sources: list[dict[str, Any]],
    reports: Sequence[ArchiveFile],
) -> dict[str, Any]:
    return {
        "domainId": domain_id,
        "name": "" if domain is None else domain.name,
        "description": "" if domain is None else domain.description,
        "vectorStore": None if domain is None else domain.vector_store_name or None,
        "problem": _PROBLEM if domain is None else None,
        "sources": sources,
        "reports": [
            {
                "reportId": each.report_id,
                "scope": each.scope,
                "mode": each.mode,
                "endedAt": iso_time(each.ended.timestamp()),
                "bytes": each.size,
            }
            for each in reports[:_MOST_REPORTS]
        ],
    }


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the route of libraries."""

    @router.get(
        "/libraries",
        tags=["libraries"],
        summary="Domains of document libraries: sources, what is owed, and the last reports",
        response_model=Libraries,
        dependencies=[Depends(refuse_api_query)],
    )
    async def list_libraries(request: Request) -> Response:
        reader = context.reader(request)

        def work(connection: Connection) -> dict[str, Any]:
            return libraries_data(connection, context, reader, int(context.clock()))

        return json_response(await to_thread.run_sync(context.stores.read, work))

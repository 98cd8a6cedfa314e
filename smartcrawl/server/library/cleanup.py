"""The cleanup of the metadata of embedded files over HTTP (E-20, R3-148)."""

from __future__ import annotations

import logging
from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated, Final

from anyio import to_thread
from fastapi import APIRouter, Depends, Response
from fastapi import Query as InQuery
from pydantic import Field

from smartcrawl.model.exceptions import RegistryError, SmartcrawlError, SourceError
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.run.library.metadata import LibraryMetadata, MetadataResult
from smartcrawl.run.library.store import StoreAbsentError, run_attached_file_ids
from smartcrawl.server.answer import Answer
from smartcrawl.server.context import Context
from smartcrawl.server.data.queries import Query, json_response, refuse_repeated_parameter
from smartcrawl.server.errors import api_not_found, api_unavailable
from smartcrawl.server.guard import ORDER_PARAMETER
from smartcrawl.server.library.domains import api_requested_domain

logger = logging.getLogger(__name__)

_AWAY: Final = (
    "the list of the vector store could not be read to its end; nothing was removed, and the log of"
    " this server has the reason"
)
_NO_MAP: Final = (
    "a source has no whole map of the vector store, or the domain names no store; nothing was"
    " removed, and the log of this server has the reason: embed the domain"
)


class CleanupQuery(Query):
    """The query of a cleanup."""

    domain_id: str = Field(pattern="^[A-Za-z0-9_-]{1,64}$", examples=["DOMAIN01"])


class CleanedMetadata(Answer):
    """The numbers of entries of files_metadata.json."""

    removed: int = Field(examples=[2])
    remaining: int = Field(examples=[98])


def _cleaned(context: Context, domain_id: str) -> MetadataResult:
    """Remove outdated entries.

    Raises:
        ApiError: there is no such domain, its store is gone, or something could not be read.
    """
    options = context.options
    domain = api_requested_domain(options.sharepoint.storage, domain_id)
    database = registry_database(options.registry)
    try:
        with database.translated("write"), closing(database.open()) as connection:
            metadata = LibraryMetadata(
                domain, connection, datetime.fromtimestamp(context.clock(), UTC)
            )
            found = metadata.cleanup(lambda: run_attached_file_ids(domain, options.store_server))
    except StoreAbsentError as error:
        logger.error("%s", error)
        raise api_not_found(
            "Vector store not found", reason="the vector store of the domain is gone"
        ) from error
    except RegistryError:
        raise
    except (SmartcrawlError, OSError) as error:
        logger.error("%s", error)
        is_about_maps = isinstance(error, SourceError | OSError)
        raise api_unavailable(_NO_MAP if is_about_maps else _AWAY) from error
    for line in found.lines:
        logger.warning("%s", line)
    return found


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the route of the cleanup."""

    @router.get(
        "/cleanup_metadata",
        tags=["libraries"],
        summary="Remove the metadata of files that the vector store of a domain lacks",
        response_model=CleanedMetadata,
        responses={404: {}},
        dependencies=[Depends(refuse_repeated_parameter)],
        openapi_extra={"parameters": [ORDER_PARAMETER]},
    )
    async def cleanup_metadata(query: Annotated[CleanupQuery, InQuery()]) -> Response:
        found = await to_thread.run_sync(_cleaned, context, query.domain_id)
        return json_response({"removed": found.removed, "remaining": found.remaining})

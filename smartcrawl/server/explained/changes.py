"""What changed, over HTTP: the list, a feed for readers, and the difference of two versions."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final

from anyio import to_thread
from fastapi import APIRouter, Path, Request, Response
from pydantic import Field, WithJsonSchema

from smartcrawl.model.exceptions import SnapshotError, SourceError, UsageError
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.jobs import load_stored_jobs_and_sources
from smartcrawl.registry.removal.purge import KnownRecord, known_record_rows
from smartcrawl.registry.visibility import stored_visibilities
from smartcrawl.reports.changes import (
    ChangePlace,
    SinceRun,
    page_of_reported_changes,
    reported_change_runs,
)
from smartcrawl.reports.changes_text import (
    FEED_TYPE,
    FeedAddresses,
    changes_as_atom,
    parse_changes_since,
)
from smartcrawl.reports.versions import NoVersionError, VersionDiffs
from smartcrawl.rules.visibility import Reader
from smartcrawl.server.answers import EXAMPLE_HASH
from smartcrawl.server.context import Context
from smartcrawl.server.errors import api_invalid_input, api_not_found, api_unavailable
from smartcrawl.server.explained.answers import Changes, PageDiff
from smartcrawl.server.explained.removals import chosen_source_names
from smartcrawl.server.guard import FEED_PATH
from smartcrawl.server.queries import (
    CURSOR_PATTERN,
    TIME_PATTERN,
    Cursors,
    Place,
    Query,
    WholeNumber,
    described_api_query,
    json_response,
    read_api_query,
)

MOST_ENTRIES: Final = 100  #: of a feed, the latest
_FEED_RUNS: Final = 50  #: runs that a feed looks at, the latest
_MOST: Final = 1_000
_HASH: Final = re.compile("[0-9a-fA-F]{64}")
_NEVER: Final = "1970-01-01T00:00:00Z"  #: of a feed without a change
_WIDTH: Final = 48  #: bits of a number in a cursor; above it is the part of its run
_DIFFS_AT_ONCE: Final = 1  #: each takes a processor for up to some seconds


#: Beside None, pydantic's schema of a number that is read from a text would lack its bound.
_RunNumber = Annotated[WholeNumber, Field(ge=1), WithJsonSchema({"type": "integer", "minimum": 1})]
_SINCE: Final = f"^(last|[1-9][0-9]{{0,17}}|{TIME_PATTERN.strip('^$')})$"


class ChangesQuery(Query):
    """The query of the changes."""

    source: str | None = Field(
        default=None, max_length=255, description="Only this source", examples=["docs"]
    )
    since: str = Field(
        default="last",
        max_length=40,
        description="`last`: the last run of each source that ended; the number of a run: the runs"
        " after it; a date or time: what happened since",
        examples=["2024-01-20"],
        json_schema_extra={"pattern": _SINCE},
    )
    limit: WholeNumber = Field(default=100, ge=1, le=_MOST)
    cursor: str | None = Field(
        default=None,
        description="The next_cursor of a page with the same filters",
        json_schema_extra={"pattern": CURSOR_PATTERN},
    )


class FeedQuery(Query):
    """The query of a feed."""

    source: str | None = Field(
        default=None, max_length=255, description="Only this source", examples=["docs"]
    )


class DiffQuery(Query):
    """The query of a difference."""

    source: str | None = Field(
        default=None, max_length=255, description="Its source, where several have the address"
    )
    before: _RunNumber | None = Field(
        default=None, description="The run at whose end the page had the former version"
    )
    after: _RunNumber | None = Field(
        default=None, description="The same of the later version; else the present one"
    )


def changes_data(
    connection: Connection, query: ChangesQuery, reader: Reader, after: ChangePlace | None
) -> tuple[list[dict[str, Any]], ChangePlace | None]:
    """Return a page of changes, and the place of its last one; None: no more.

    Raises:
        ApiError: ``since`` is wrong, or the caller may read no source of this name.
    """
    try:
        since = parse_changes_since(query.since)
    except UsageError as error:
        raise api_invalid_input("since", f"since: {error}") from error
    names = chosen_source_names(connection, reader, query.source)
    runs = reported_change_runs(connection, since, names)
    return page_of_reported_changes(connection, runs, after, query.limit)


def feed_data(connection: Connection, source: str | None, reader: Reader) -> list[dict[str, Any]]:
    """Return the changes of a feed.

    Raises:
        ApiError: the caller may read no source of this name.
    """
    names = chosen_source_names(connection, reader, source)
    runs = reported_change_runs(connection, SinceRun(0), names)[:_FEED_RUNS]
    return page_of_reported_changes(connection, runs, None, MOST_ENTRIES)[0]


def diff_data(
    connection: Connection, context: Context, key: bytes, query: DiffQuery, reader: Reader
) -> dict[str, Any]:
    """Return a difference under the keys of ``PageDiff``.

    Raises:
        ApiError: the caller may read no page of this address, or a version is not kept.
    """
    page = _readable_page(connection, key, query.source, reader)
    if query.before is not None and query.after is not None and query.before > query.after:
        raise api_invalid_input("after", "after must not be a run before that of before")
    try:
        declared = load_stored_jobs_and_sources(context.options, connection)
        diffs = VersionDiffs(connection, context.options, declared)
        return diffs.diff(page.no, query.before, query.after)
    except NoVersionError as error:
        raise api_not_found("Version not found", reason=str(error)) from error
    except SnapshotError as error:
        raise api_not_found("Version not found", reason="its snapshot cannot be read") from error
    except SourceError as error:
        raise api_unavailable("the file of sources cannot be read") from error


def _readable_page(
    connection: Connection, key: bytes, source: str | None, reader: Reader
) -> KnownRecord:
    stored = stored_visibilities(connection)
    pages = [
        page
        for page in known_record_rows(connection, key)
        if source in (None, page.source) and reader.may_read(page.source, stored.get(page.source))
    ]
    if not pages:
        raise api_not_found("Document not found", reason="no document has this url_hash")
    return max(pages, key=lambda page: (page.held, page.no))


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the routes of changes."""
    _add_list(context, router)
    _add_feed(context, router)
    _add_diff(context, router)


def _add_list(context: Context, router: APIRouter) -> None:
    stores = context.stores
    cursors = Cursors(stores)

    @router.get(
        "/changes",
        tags=["runs"],
        summary="Pages that are new, modified, moved, lost or removed, or came back",
        response_model=Changes,
        openapi_extra={"parameters": described_api_query(ChangesQuery)},
    )
    async def list_changes(request: Request) -> Response:
        query, reader = read_api_query(ChangesQuery, request), context.reader(request)
        filters: Sequence[object] = ("changes", query.source, query.since)
        after = None
        await cursors.prepare()
        if query.cursor is not None:
            after = _change_place(cursors.read(query.cursor, filters))
        work = partial(changes_data, query=query, reader=reader, after=after)
        changes, last = await to_thread.run_sync(stores.read_moment, work)
        cursor = None if last is None else cursors.write(_cursor_place(last), filters)
        pagination = {"limit": query.limit, "next_cursor": cursor}
        return json_response({"changes": changes, "pagination": pagination})


def _cursor_place(place: ChangePlace) -> Place:
    return Place(place.run, place.part << _WIDTH | place.row)


def _change_place(place: Place) -> ChangePlace:
    return ChangePlace(place.at, place.no >> _WIDTH, place.no & (1 << _WIDTH) - 1)


def _add_feed(context: Context, router: APIRouter) -> None:
    stores = context.stores

    @router.get(
        FEED_PATH.removeprefix(router.prefix),
        tags=["runs"],
        summary="What changed, as an Atom feed; readers may give a key as password of Basic",
        response_class=Response,
        responses={
            200: {"description": f"The feed, as {FEED_TYPE}"},  # generated clients read no XML
            304: {"description": "Nothing changed since the `ETag` of `If-None-Match`"},
        },
        openapi_extra={"parameters": described_api_query(FeedQuery)},
    )
    async def get_feed_of_changes(request: Request) -> Response:
        query, reader = read_api_query(FeedQuery, request), context.reader(request)
        work = partial(feed_data, source=query.source, reader=reader)
        changes = await to_thread.run_sync(stores.read_moment, work)
        addresses = FeedAddresses(str(request.url), str(request.url.replace(path="/changes")))
        text = changes_as_atom(query.source or "", changes, _NEVER, addresses).encode()
        tag = f'"{hashlib.sha256(text).hexdigest()[:32]}"'
        headers = {"ETag": tag, "Cache-Control": "private, max-age=60"}
        if tag in _tags(request.headers.get("if-none-match", "")):
            return Response(status_code=304, headers=headers)
        return Response(text, media_type=FEED_TYPE, headers=headers)


def _tags(header: str) -> set[str]:
    """Return the entity tags of If-None-Match, compared weakly (RFC 9110, section 8.8.3.2)."""
    return {tag.strip().removeprefix("W/") for tag in header.split(",")}


def _add_diff(context: Context, router: APIRouter) -> None:
    stores = context.stores
    turns = asyncio.Semaphore(_DIFFS_AT_ONCE)  # waiting requests hold no thread

    @router.get(
        "/documents/{url_hash}/diff",
        tags=["data"],
        summary="What changed in the text of a document, by lines and words",
        response_model=PageDiff,
        responses={404: {}},
        openapi_extra={"parameters": described_api_query(DiffQuery)},
    )
    async def get_diff_of_document(
        request: Request,
        url_hash: Annotated[
            str, Path(examples=[EXAMPLE_HASH], json_schema_extra={"pattern": f"^{_HASH.pattern}$"})
        ],
    ) -> Response:
        query, reader = read_api_query(DiffQuery, request), context.reader(request)
        if not _HASH.fullmatch(url_hash):
            raise api_invalid_input("url_hash", "url_hash must be 64 hexadecimal digits")
        key = bytes.fromhex(url_hash)
        work = partial(diff_data, context=context, key=key, query=query, reader=reader)
        async with turns:
            return json_response(await to_thread.run_sync(stores.read, work))

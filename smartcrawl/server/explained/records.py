"""Records by number or address: the report of ``smartcrawl why``, as data (docs/api.md).

A caller sees the records of the sources that he may read; of all others it is as if there were
none, and no answer names their sources.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Annotated, Any, Final, Literal

from anyio import to_thread
from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from smartcrawl.extract.repeated import document_without
from smartcrawl.extract.robots_txt import robots_txt_answers
from smartcrawl.model.exceptions import SourceError
from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.model.program import program_name
from smartcrawl.model.urls import (
    MAX_URL_LENGTH,
    display_url,
    normalize_url,
    request_url,
    url_digest,
    url_item_id,
)
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.jobs import load_stored_jobs_and_sources, stored_jobs_of_sources
from smartcrawl.registry.pack import unpack_stored_document
from smartcrawl.registry.removal.purge import (
    KnownRecord,
    known_record_row,
    known_record_rows,
    known_request_url,
)
from smartcrawl.registry.visibility import stored_visibilities
from smartcrawl.reports.export import page_as_markdown
from smartcrawl.reports.sentence import story_sentence
from smartcrawl.reports.stored_robots import RobotsOfSources
from smartcrawl.reports.versions import reported_versions
from smartcrawl.reports.why import (
    SHOWN,
    Stories,
    reported_leading_pages,
    reported_near_records,
    reported_pending_pins,
)
from smartcrawl.rules.visibility import Reader
from smartcrawl.server.context import Context
from smartcrawl.server.errors import ApiError, api_invalid_input, api_not_found
from smartcrawl.server.explained.answers import (
    MOST_LINKS_READ,
    MOST_TEXT,
    AddressStory,
    RecordStory,
)
from smartcrawl.server.queries import (
    NUMBER_PATTERN,
    Query,
    described_api_query,
    json_response,
    number_of_path,
    read_api_query,
)

logger = logging.getLogger(__name__)

_TEXT: Final = """
SELECT c.title, r.url, c.marked, c.document FROM record r JOIN content c ON c.no = r.content
 WHERE r.no = ?
"""
_NO_SOURCES: Final = (
    "sources.toml cannot be read: the log of this server says why; correct it there"
)


class RecordQuery(Query):
    """The query of one record."""

    links_in: Literal["true", "false"] = Field(
        default="false",
        description="Whether to look for the pages that lead to it, which reads the links of its"
        " source",
    )

    text: Literal["true", "false"] = Field(
        default="false", description="Whether to give its text as it is indexed"
    )


class AddressQuery(Query):
    """The query of records by their address."""

    url: str = Field(
        min_length=1,
        max_length=4 * MAX_URL_LENGTH,
        description="An address, or a file by its address",
        examples=["https://docs.example.com/guide"],
    )


class ReadSources:
    """The sources as one caller may read them, with the robots.txt copies of their hosts."""

    def __init__(self, connection: Connection, context: Context, reader: Reader) -> None:
        """Raise ApiError if sources.toml cannot be read."""
        try:
            self.known = load_stored_jobs_and_sources(context.options, connection)
        except SourceError as error:
            logger.error("%s", error)
            raise ApiError("INVALID_CONFIG", reason=_NO_SOURCES) from error
        self.jobs = stored_jobs_of_sources(connection, self.known)
        self._stored = stored_visibilities(connection)
        self._reader = reader
        self.robots = RobotsOfSources(
            connection,
            robots_txt_answers,
            context.server.robots,
            obeyed=context.options.robots_obeyed,
            jobs=self.jobs,
            sources=self.known,
        )

    def may_read(self, name: str) -> bool:
        """Whether the caller may read a source."""
        return self._reader.may_read(name, self._stored.get(name))


class RecordStories:
    """The stories that one caller may read, over one connection."""

    def __init__(self, connection: Connection, context: Context, reader: Reader) -> None:
        """Raise ApiError if sources.toml cannot be read."""
        options, sources = context.options, ReadSources(connection, context, reader)
        self.may_read = sources.may_read
        self._connection = connection
        self._trackers = options.trackers
        self._now = int(context.clock())
        self._stories = Stories(
            connection,
            options,
            sources.known,
            sources.robots,
            again=_command,
            may_read=sources.may_read,
        )

    def of_number(
        self, number: int, *, links_in: bool = False, text: bool = False, versions: bool = False
    ) -> dict[str, Any] | None:
        """Return the story of a record; None: the caller may read none of this number.

        ``links_in``, ``text``: whether it has the pages that lead to it, and its text.
        ``versions``: whether a further key, ``versions``, has those of ``reported_versions``.
        """
        found = known_record_row(self._connection, number)
        if found is None or not self.may_read(found[0].source):
            return None
        page, key = found
        report = self._reported(page, key)
        if links_in:
            report["linksIn"] = self._links_in(page, key)
        if text:
            report["text"] = self._text(number)
        if versions:
            report["versions"] = reported_versions(self._connection, number)
        return report

    def of_address(self, url: str) -> dict[str, Any]:
        """Return the report of an address."""
        connection, stories = self._connection, self._stories
        requested = known_request_url(connection, url, self._trackers) or url
        identity = normalize_url(requested, self._trackers)
        key = url_digest(identity)
        pages = [
            page
            for page in known_record_rows(connection, key, requested)
            if self.may_read(page.source)
        ]
        heads = []
        for page in pages:
            story = self._stories.story(page, key, links_in=False)
            sentence = story_sentence(story, self._now)
            heads.append(
                {"no": page.no, "source": page.source, "url": page.url, "sentence": sentence}
            )
        pins = reported_pending_pins(connection, key, ())
        found: dict[str, Any] = {
            "url": requested,
            "id": url_item_id(url_item_kind(identity), key),
            "records": heads,
            "posted": [pin for pin in pins if self.may_read(pin["source"])],
            "inScopeOf": [] if pages else stories.in_scope(requested),
            "listedBy": [] if pages else stories.listed_by(requested),
            "refusedBy": [] if pages else stories.refused(requested),
            "nearMisses": [] if pages else self._near(url),
        }
        return found | {"sentence": address_sentence(found)}

    def _reported(self, page: KnownRecord, key: bytes) -> dict[str, Any]:
        story = self._stories.story(page, key, links_in=False)
        sentence = story_sentence(story, self._now)
        return {"no": page.no, "sentence": sentence} | story | {"linksIn": None, "text": None}

    def _text(self, number: int) -> str | None:
        row: Any = self._connection.execute(_TEXT, (number,)).fetchone()
        if row is None:
            return None
        title, url, marked, packed = row
        document = document_without(unpack_stored_document(packed), marked)
        return page_as_markdown(document, title=title, url=url)[:MOST_TEXT]

    def _near(self, url: str) -> list[dict[str, Any]]:
        near = reported_near_records(self._connection, url, self._trackers)
        return [one._asdict() for one in near if self.may_read(one.source)]

    def _links_in(self, page: KnownRecord, key: bytes) -> dict[str, Any]:
        found = reported_leading_pages(
            self._connection,
            page.source_no,
            page.no,
            key,
            trackers=self._trackers,
            most=MOST_LINKS_READ,
        )
        first = [known_record_row(self._connection, number) for number in found.pages[:SHOWN]]
        shown = [{"no": one[0].no, "url": one[0].url} for one in first if one is not None]
        return {"count": len(found.pages), "shown": shown, "whole": found.whole}


def _command(*words: object) -> str:
    return " ".join([program_name(), *(str(word) for word in words)])


def address_sentence(found: dict[str, Any]) -> str:
    """Return the report of an address in words: those of ``smartcrawl why``.

    >>> unknown = dict.fromkeys(("records", "posted", "listedBy", "refusedBy"), [])
    >>> address_sentence(unknown | {"inScopeOf": ["docs"]})
    'Not known. It is in the scope of docs; a run requests it once a page links to it.'
    >>> address_sentence(unknown | {"inScopeOf": []})
    'Not known. No source has it in its scope.'
    """
    if found["records"]:
        return " ".join(f"{one['source']}: {one['sentence']}" for one in found["records"])
    if found["posted"]:
        names = ", ".join(one["source"] for one in found["posted"])
        return f"Not visited yet: posted, and the next run of {names} requests it."
    refused = {one["source"]: one["why"] for one in found["refusedBy"]}
    asking = [name for name in found["inScopeOf"] if name not in refused]
    where = ", ".join(asking or found["inScopeOf"])
    if found["listedBy"]:
        what = f"It is in the scope of {where}; a run reads it once the listing contains it."
    elif where:
        then = "; a run requests it once a page links to it" if asking else ""
        what = f"It is in the scope of {where}{then}."
    else:
        what = "No source has it in its scope."
    left_out = (f"{name} leaves it out: {why}." for name, why in refused.items())
    return " ".join(["Not known.", what, *left_out])


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the routes of records."""
    stores = context.stores

    @router.get(
        "/records/{record_id}",
        tags=["data"],
        summary="The story of a record: why it is stored or not, and what comes next",
        response_model=RecordStory,
        responses={404: {}},
        openapi_extra={"parameters": described_api_query(RecordQuery)},
    )
    async def get_record(
        request: Request,
        record_id: Annotated[
            str, Path(examples=["17"], json_schema_extra={"pattern": NUMBER_PATTERN})
        ],
    ) -> Response:
        query = read_api_query(RecordQuery, request)
        found = await readable_record(
            context,
            context.reader(request),
            record_id,
            links_in=query.links_in == "true",
            text=query.text == "true",
        )
        return json_response(found)

    @router.get(
        "/records",
        tags=["data"],
        summary="The records of an address, or why it has none",
        response_model=AddressStory,
        openapi_extra={"parameters": described_api_query(AddressQuery)},
    )
    async def find_records(request: Request) -> Response:
        query, reader = read_api_query(AddressQuery, request), context.reader(request)
        work = partial(api_address, context=context, reader=reader, url=query.url)
        return json_response(await to_thread.run_sync(stores.read_moment, work))


async def readable_record(
    context: Context,
    reader: Reader,
    record_id: str,
    *,
    links_in: bool = False,
    text: bool = False,
    versions: bool = False,
) -> dict[str, Any]:
    """Return the story of a record under the keys of ``RecordStory``; ``record_id``: of a path.

    The other arguments are those of ``RecordStories.of_number``.

    Raises:
        ApiError: it is no number, or the caller may read no record of it.
    """
    work = partial(
        api_record,
        context=context,
        reader=reader,
        number=number_of_path(record_id, "record_id"),
        links_in=links_in,
        text=text,
        versions=versions,
    )
    found = await to_thread.run_sync(context.stores.read_moment, work)
    if found is None:
        raise api_not_found("Record not found", reason="no record has this number")
    return found


def api_record(
    connection: Connection,
    *,
    context: Context,
    reader: Reader,
    number: int,
    links_in: bool = False,
    text: bool = False,
    versions: bool = False,
) -> dict[str, Any] | None:
    """Return the story of a record under the keys of ``RecordStory``; None: there is none."""
    stories = RecordStories(connection, context, reader)
    return stories.of_number(number, links_in=links_in, text=text, versions=versions)


def api_address(
    connection: Connection, *, context: Context, reader: Reader, url: str
) -> dict[str, Any]:
    """Return the report of an address, under the keys of ``AddressStory``.

    Raises:
        ApiError: the text is no address.
    """
    found = RecordStories(connection, context, reader).of_address(url)
    if not found["records"] and url_item_kind(normalize_url(found["url"])) == "url":
        _check_address(found["url"])
    return found


def _check_address(url: str) -> None:
    if request_url(url) is None:
        shown = display_url(url)[:100]
        raise api_invalid_input("url", f"url must be an address such as https://…, not {shown!r}")

"""Search of the crawled pages, by whichever index the registry writes (E-16, R0-66, R0-69)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Request, Response
from fastapi import Query as InQuery
from pydantic import Field, field_validator

from smartcrawl.index.facets import facets_as_data
from smartcrawl.index.images import images_of_hits
from smartcrawl.index.query_vectors import (
    QuestionVectors,
    SearchMode,
    answer_with_question_vectors,
)
from smartcrawl.index.search import search_hit_as_data, search_index
from smartcrawl.index.searching import MOST_PROPOSED, AnswerForm
from smartcrawl.model.exceptions import (
    EmbedderError,
    NoVectorsError,
    SearchQueryError,
    SettingError,
    UnknownNameError,
)
from smartcrawl.model.options import Options
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.visibility import Readable, readable_source_names, readable_sources
from smartcrawl.reports.status import status_report
from smartcrawl.rules.visibility import Reader
from smartcrawl.server.answers import Hits, SearchStatus
from smartcrawl.server.context import Context
from smartcrawl.server.errors import api_invalid_input
from smartcrawl.server.queries import (
    KeptAnswers,
    Query,
    WholeNumber,
    json_response,
    refuse_api_query,
    refuse_repeated_parameter,
)

LONGEST_QUERY: Final = 4_096  #: characters of a query
_MARKS: Final = ("<em>", "</em>")
_YES: Final = ("1", "true")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_INDEX_WAIT: Final = 2  #: seconds for which a request waits for an index that is away


class SearchQuery(Query):
    """The query of a search."""

    q: str = Field(
        min_length=1,
        max_length=LONGEST_QUERY,
        description="Words; as of smartcrawl search",
        examples=["two words"],
    )
    nest_images: Literal["true", "false"] = Field(
        default="false", alias="nestImages", description="Whether each hit has its images"
    )
    collection: str | None = Field(
        default=None, max_length=255, description="Only pages of this source"
    )
    limit: WholeNumber = Field(default=10, ge=1, le=MOST_PROPOSED)
    offset: WholeNumber = Field(default=0, le=MOST_PROPOSED)
    mode: Literal["text", "vector", "hybrid"] | None = Field(
        default=None,
        description="Words, meaning, or both; the last two need vectors in the registry. Without"
        " it both once every chunk has had its vector, else words",
    )
    sort: Literal["relevance", "date"] = Field(
        default="relevance",
        description="The best pages first, or the latest; by date words alone count",
    )
    prefix: Literal["1", "true", "0", "false"] = Field(
        default="0", description="Whether the last word may be the beginning of one"
    )
    facets: Literal["1", "true", "0", "false"] = Field(
        default="0",
        title="With facets",  # generated clients name a type by it; SearchFacets is the answer's
        description="Whether to count the sources, languages, types and dates of the whole answer",
    )

    @field_validator("q", "collection")
    @classmethod
    def _plain(cls, text: str | None) -> str | None:
        """Refuse control characters, which no page has and PostgreSQL does not take."""
        if text is not None and _CONTROL.search(text):
            raise ValueError("q and collection must not contain control characters")
        return text


def api_search(
    connection: Connection,
    query: SearchQuery,
    options: Options,
    vectors: QuestionVectors,
    reader: Reader,
) -> dict[str, Any]:
    """Return the hits of a query, with the keys of ``smartcrawl search --format json``.

    ``reader``: who asks; of sources that he may not read nothing is told.

    Raises:
        ApiError: the registry has no such source, or none that the query names.
        SinkError: the index does not answer.
        EmbedderError: a search by meaning alone has no vector of its query.
        NoVectorsError: the mode needs vectors, and there are none.
        UnembeddedError: the query has not been embedded yet.
    """
    sources = [] if query.collection is None else [query.collection]
    if sources and query.collection not in readable_source_names(connection, reader):
        raise api_invalid_input("collection", "collection must be a source that was crawled")
    if query.sort == "date" and query.mode in ("vector", "hybrid"):
        raise api_invalid_input("sort", "sort must be relevance unless mode is text")
    try:
        found = search_index(
            connection,
            query.q,
            options,
            sources=sources,
            limit=query.limit,
            offset=query.offset,
            marks=_MARKS,
            mode=SearchMode(query.mode or SearchMode.BEST),
            vectors=vectors,
            reader=reader,
            form=AnswerForm(query.facets in _YES, query.sort == "date", query.prefix in _YES),
        )
    except (UnknownNameError, SearchQueryError) as error:
        raise api_invalid_input("q", str(error)) from error
    images = {}
    if query.nest_images == "true":
        asked = found.meant or query.q
        images = images_of_hits(connection, (hit.no for hit in found.hits), asked)
    return {
        "hits": [search_hit_as_data(hit, images.get(hit.no)) for hit in found.hits],
        "meant": found.meant or None,
        "note": found.note or None,
        "pagination": {"offset": query.offset, "limit": query.limit},
        **({} if found.facets is None else {"facets": facets_as_data(found.facets)}),
    }


def api_search_options(options: Options) -> Options:
    """Return the options by which a request searches: it waits for an index only for seconds."""
    return replace(options, sink_wait=min(options.sink_wait, _INDEX_WAIT))


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the route of the search."""
    options = api_search_options(context.options)

    @router.get(
        "/Search",
        tags=["data"],
        summary="Pages that answer a query, best first",
        response_model=Hits,
        response_model_exclude_unset=True,
        dependencies=[Depends(refuse_repeated_parameter)],
    )
    def search(request: Request, query: Annotated[SearchQuery, InQuery()]) -> Response:
        reader = context.reader(request)
        try:
            return json_response(
                answer_with_question_vectors(
                    context.stores.read,
                    lambda found, vectors: api_search(found, query, options, vectors, reader),
                )
            )
        except SettingError as error:
            raise EmbedderError(str(error), lasting=True) from error
        except NoVectorsError as error:
            raise api_invalid_input("mode", f"mode must be text: {error}") from error


_SECONDS: Final = 10  #: age up to which an answer counts
_MOST_READERS: Final = 100  #: answers that are kept, by the sources that they are about


def api_search_status(
    connection: Connection, now: int, readable: Readable = None
) -> dict[str, Any]:
    """Return the counts and rates of all ``readable`` sources together; None: of all."""
    total = status_report(connection, now, readable=readable)[-1]
    counts = total.counts
    return {
        "items": {
            "Pending": counts.pending,
            "Crawled": counts.crawled,
            "Indexed": counts.indexed,
            "Error": counts.error,
            "OutOfScope": counts.out_of_scope,
            "Gone": counts.gone,
        },
        "indexed": counts.indexed,
        "changeRate": total.changes.rate,
        "errorRate": counts.error_rate,
        "lost": counts.lost,
        "orphans": counts.orphans,
    }


def add_status_routes(context: Context, router: APIRouter) -> None:
    """Add the route of the status."""
    stores = context.stores
    answers: KeptAnswers[dict[str, Any]] = KeptAnswers(_SECONDS, _MOST_READERS, context.clock)

    @router.get(
        "/SearchStatus",
        tags=["monitoring"],
        summary="Items by status, and the rates of changes and errors",
        response_model=SearchStatus,
        dependencies=[Depends(refuse_api_query)],
    )
    async def search_status(request: Request) -> Response:
        reader = context.reader(request)
        readable = await stores.read_little(lambda seen: readable_sources(seen, reader))

        def work() -> dict[str, Any]:
            now = int(context.clock())
            return stores.read(lambda connection: api_search_status(connection, now, readable))

        return json_response(await answers.get(readable, work))

"""The first page: search, and where nothing was crawled yet, the address that begins."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date as calendar_date
from datetime import timedelta
from typing import Any, Final, Protocol

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response

from smartcrawl.index.facets import FACETS, MOST_COUNTED, Facets
from smartcrawl.index.images import ImageDocument, images_of_hits
from smartcrawl.index.query_vectors import (
    QuestionVectors,
    SearchMode,
    answer_with_question_vectors,
)
from smartcrawl.index.search import search_index
from smartcrawl.index.searching import MOST_PROPOSED, Answer, AnswerForm, Hit
from smartcrawl.model.exceptions import SearchQueryError, UnknownNameError
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.visibility import readable_source_names
from smartcrawl.rules.visibility import Reader
from smartcrawl.server.pages.markup import FOUND_MARKS
from smartcrawl.server.pages.pages import Pages, is_page_fragment
from smartcrawl.server.pages.static_files import page_static_file
from smartcrawl.server.search import LONGEST_QUERY, api_search_options

_SHOWN: Final = 10  #: hits of a page
_MOST_PICTURES: Final = 4  #: of a hit
_MOST_SOURCES: Final = 20  #: that are listed before a search
_MOST_VALUES: Final = 10  #: of a facet
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]+")
_WORD: Final = re.compile(r"[A-Za-z0-9_./+-]{1,100}")  #: a language or a type, as a filter has it
_ADDRESS: Final = re.compile(r"https?://\S+")
BY_DATE: Final = "date"
_DESCRIPTION: Final = "application/opensearchdescription+xml"
_DATE: Final = re.compile(r"[1-9]\d{3}(-\d\d(-\d\d)?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Asked:
    """A search as the address of its page has it."""

    q: str = ""
    source: str = ""
    language: str = ""
    type: str = ""
    date: str = ""  #: a year, a month or a day
    sort: str = ""  #: ``date``: the latest pages come first; "": the best ones
    offset: int = 0

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Asked:
        """Read the parameters of a page; filters and places that mean nothing are left out."""
        offset = given.get("offset", "")
        return cls(
            q=_CONTROL.sub(" ", given.get("q", "")).strip(),
            source=_CONTROL.sub(" ", given.get("source", "")).replace('"', "").strip(),
            language=_whole(_WORD, given.get("language", "")),
            type=_whole(_WORD, given.get("type", "")),
            date=_known_date(given.get("date", "")),
            sort=BY_DATE if given.get("sort") == BY_DATE else "",
            offset=min(int(offset), MOST_PROPOSED) if re.fullmatch("[0-9]{1,9}", offset) else 0,
        )

    @property
    def filters(self) -> dict[str, str]:
        """The filters beside the words."""
        named = {
            "source": self.source,
            "language": self.language,
            "type": self.type,
            "date": self.date,
        }
        return {name: value for name, value in named.items() if value}

    @property
    def parameters(self) -> dict[str, str]:
        """Words and filters as parameters of the page."""
        return {"q": self.q} | self.filters | {"sort": self.sort}

    def query(self) -> str:
        """Return it as a query of an index; filters come first, where no open quote takes them."""
        return f"{self._before()}{self.q}"

    def meant(self, query: str) -> str:
        """Return the words of a query that an index answered in its place."""
        return query.removeprefix(self._before())

    def _before(self) -> str:
        parts = [f'in:"{self.source}"'] if self.source else []
        named = self.filters
        parts += [f"{name}:{named[name]}" for name in ("language", "type") if name in named]
        if self.date:
            parts.append(f"after:{self.date} before:{following_date(self.date)}")
        return "".join(f"{part} " for part in parts)


def _whole(pattern: re.Pattern[str], text: str) -> str:
    return text if pattern.fullmatch(text) else ""


def _known_date(text: str) -> str:
    if _DATE.fullmatch(text):
        with suppress(ValueError, OverflowError):  # such as the 30th of February
            following_date(text)
            return text
    return ""


def following_date(text: str) -> str:
    """Return the year, month or day after one.

    >>> [following_date(x) for x in ("2026", "2026-12", "2026-05", "2026-02-28")]
    ['2027', '2027-01', '2026-06', '2026-03-01']

    Raises:
        ValueError: there is no such date.
    """
    parts = [int(part) for part in text.split("-")]
    year, month, day = (*parts, 1, 1)[:3]
    first = calendar_date(year, month, day)
    if len(parts) == 3:
        return (first + timedelta(days=1)).isoformat()
    if len(parts) == 2:
        return f"{year + month // 12}-{month % 12 + 1:02}"
    return f"{year + 1}"


def add_pages(pages: Pages) -> None:
    """Add the pages."""
    search = _Search(pages)

    async def show(request: Request) -> Response:
        return await search.show(request)

    def describe(request: Request) -> Response:
        text = pages.text(request, "opensearch.xml", base=str(request.base_url))
        return Response(text, media_type=f"{_DESCRIPTION}; charset=utf-8")

    async def box(request: Request) -> Response:
        return page_static_file("search.js").shared_response(request)

    pages.add("/", show, navigated="Search")
    pages.add("/search.js", box)
    pages.add("/opensearch.xml", describe)


@dataclass(frozen=True, slots=True)
class Found:
    """What the page of a search shows."""

    hits: Sequence[Mapping[str, Any]] = ()
    meant: str = ""  #: the words that were searched in the place of those asked
    note: str = ""
    facets: Facets | None = None
    has_more: bool = False
    is_hidden: bool = False  #: nothing was found, and would be without the filters
    is_empty: bool = False  #: nothing was crawled that the visitor may read
    error: str = ""  #: why the query cannot be answered


class _Search:
    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._options = api_search_options(pages.context.options)

    async def show(self, request: Request) -> Response:
        """Answer a request: while words are typed with the results alone."""
        asked, reader = Asked.of(request.query_params), self._pages.context.reader(request)
        is_typing = is_page_fragment(request)
        found, sources = await to_thread.run_sync(self._found, asked, reader, is_typing)
        template = "search_results.html" if is_typing else "search.html"
        return self._pages.show(
            request,
            template,
            status=400 if found.error and not is_typing else 200,
            title=f"{asked.q} – Search" if asked.q else "Search",
            asked=asked,
            is_address=bool(_ADDRESS.fullmatch(asked.q)),
            found=found,
            shown=_SHOWN,
            facets=list(_shown_facets(asked, found.facets)) if found.facets else [],
            most_counted=MOST_COUNTED,
            sources=sources[:_MOST_SOURCES],
            more_sources=len(sources) - _MOST_SOURCES,
            most=LONGEST_QUERY,
        )

    def _found(self, asked: Asked, reader: Reader, is_typing: bool) -> tuple[Found, list[str]]:
        """Search, or say which sources there are; in a thread."""
        if not asked.q:
            names = self._pages.context.stores.read(
                lambda seen: readable_source_names(seen, reader)
            )
            return Found(), names
        if len(asked.q) > LONGEST_QUERY:
            return Found(error=f"a search has at most {LONGEST_QUERY:,} characters"), []
        # While words are typed, no model is asked for each letter.
        mode = SearchMode.TEXT if is_typing else SearchMode.BEST
        options = replace(self._options, rerank=None) if is_typing else self._options

        def search(connection: Connection, vectors: QuestionVectors) -> Found:
            def searched(asked: Asked, limit: int, *, facets: bool) -> Answer:
                return search_index(
                    connection,
                    asked.query(),
                    options,
                    limit=limit,
                    offset=asked.offset,
                    marks=FOUND_MARKS,
                    mode=mode,
                    vectors=vectors,
                    reader=reader,
                    form=AnswerForm(facets, by_date=bool(asked.sort), prefix=is_typing),
                )

            found = _found_hits(connection, asked, searched)
            is_empty = not found.hits and not readable_source_names(connection, reader)
            return replace(found, is_empty=is_empty)

        try:
            return answer_with_question_vectors(self._pages.context.stores.read, search), []
        except (UnknownNameError, SearchQueryError) as error:
            return Found(error=str(error)), []


class _Searching(Protocol):
    def __call__(self, asked: Asked, limit: int, *, facets: bool) -> Answer:
        """Return the answer of an index."""


def _found_hits(connection: Connection, asked: Asked, searched: _Searching) -> Found:
    """Search; where filters may hide what there is, once more without them."""
    answer = searched(asked, _SHOWN + 1, facets=True)
    hits, meant = answer.hits[:_SHOWN], asked.meant(answer.meant)
    pictures = images_of_hits(connection, (hit.no for hit in hits), meant or asked.q)
    return Found(
        [_shown_hit(hit, pictures.get(hit.no, ())) for hit in hits],
        meant,
        answer.note,
        answer.facets,
        has_more=len(answer.hits) > _SHOWN and asked.offset + _SHOWN < MOST_PROPOSED,
        is_hidden=not hits
        and bool(asked.filters)
        and bool(searched(Asked(asked.q), 1, facets=False).hits),
    )


def _shown_facets(asked: Asked, facets: Facets) -> Iterator[dict[str, Any]]:
    """Yield the facets by which an answer can be narrowed down, or is; each with its values."""
    for name in FACETS:
        counts, chosen = getattr(facets, name), getattr(asked, name)
        if len(counts) > 1 or chosen:
            yield {"name": name, "counts": counts[:_MOST_VALUES], "chosen": chosen}


def _shown_hit(hit: Hit, images: Sequence[ImageDocument]) -> dict[str, Any]:
    """Return a hit as its template shows it."""
    first, further = hit.chunks[:1], hit.chunks[1:]
    return {
        "no": hit.no,
        "url": hit.url,
        "link": first[0].link(hit.url) if first else hit.url,
        "title": hit.title or hit.url,
        "headings": hit.headings,
        "snippet": hit.snippet,
        "further": [
            {"path": chunk.path, "highlight": chunk.highlight, "link": chunk.link(hit.url)}
            for chunk in further
        ],
        "sources": hit.sources or (hit.source,),
        "language": hit.language,
        "changed": hit.last_changed,
        "checked": hit.last_checked,
        "published": hit.published,
        "author": hit.author,
        "lost": hit.lost,
        "pictures": [image for image in images if image.matched][:_MOST_PICTURES],
    }

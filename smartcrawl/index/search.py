"""One search, by whichever index the registry writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from smartcrawl.index import known
from smartcrawl.index.elasticsearch.documents import index_document_key as key_of
from smartcrawl.index.embedded import choice as embedded
from smartcrawl.index.filters import search_query_filters
from smartcrawl.index.images import ImageDocument
from smartcrawl.index.places import hits_with_places
from smartcrawl.index.queries import (
    parsed_search_query,
    search_query_place,
    search_query_sources,
    search_query_with_sources,
)
from smartcrawl.index.query_vectors import QuestionVectors, SearchMode, query_meaning
from smartcrawl.index.ranking import QueryMeaning
from smartcrawl.index.reranking import reranked
from smartcrawl.index.searching import PLAIN, Answer, AnswerForm, Hit, HitChunk, is_lost_hit
from smartcrawl.model.exceptions import (
    EmbedderError,
    NoVectorsError,
    SearchQueryError,
    SettingError,
)
from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.model.options import Options
from smartcrawl.model.times import iso_time
from smartcrawl.model.urls import url_item_id
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.names import (
    sources_of_name,
    stored_source_names,
    unknown_source_error,
)
from smartcrawl.registry.visibility import Readable
from smartcrawl.rules.visibility import EVERYTHING, Reader

if TYPE_CHECKING:
    from smartcrawl.index.elasticsearch.finding import ElasticsearchHit
    from smartcrawl.index.elasticsearch.sink import ElasticsearchSink

_noted: set[str] = set()  #: notes about embedders of registries that this process cannot open

_FACTS = """
SELECT o.name, r.id, r.no, s.status, s.lost_count, s.last_checked, r.last_changed,
       c.published, coalesce(c.author, '')
  FROM record r JOIN state s USING (no) JOIN source o ON o.no = r.source
  LEFT JOIN content c ON c.no = r.content
 WHERE r.id IN carray(?) AND s.standing = 2
"""


@reranked
def search_index(
    connection: Connection,
    query: str,
    options: Options,
    *,
    sources: Sequence[str] = (),
    limit: int = 10,
    offset: int = 0,
    marks: tuple[str, str] = ("[", "]"),
    mode: SearchMode = SearchMode.BEST,
    language: str = "",
    vectors: QuestionVectors | None = None,
    reader: Reader = EVERYTHING,
    form: AnswerForm = PLAIN,
) -> Answer:
    """Return the pages that answer ``query``, best first, after the first ``offset``.

    ``sources`` empty means all, and ``language`` (ISO 639-1) any. A page that several sources have
    is one hit, which names them. ``marks`` are put around the words found. At most
    ``MOST_PROPOSED`` pages answer a query. ``vectors``: of the question; None: the embedder is
    asked while the connection waits. Where it gives none, only words count, with a note. Of
    sources that ``reader`` may not read not even words count.

    Raises:
        UnknownNameError: in: or -in: of the query names a source that does not exist.
        SearchQueryError: a filter of the query has a value that means nothing; or meaning is to
            count where pages are sorted by date.
        SinkError: the index does not answer, or is not the one that the registry wrote.
        NoVectorsError: ``mode`` needs vectors, and there are none, or none of the query.
        EmbedderError: ``mode`` is of vectors alone, and the embedder does not answer.
        SettingError: ``mode`` is of vectors alone, and the embedder cannot be opened.
        UnembeddedError: ``vectors`` has none of the question yet.
    """
    facts, readable = known.searched_index_facts(connection, options, reader)
    query = _query_of_sources(connection, query, readable)
    vectors = vectors or QuestionVectors(at_once=True)
    within: dict[str, Any] = {"sources": sources, "readable": readable, "language": language}
    within |= {"limit": limit, "offset": offset, "marks": marks, "form": form}
    mode = _mode_by_date(mode) if form.by_date else mode
    with ExitStack() as stack:
        if facts is None:
            search = partial(embedded.search_embedded_index, connection, query, **within)
            searched = query_meaning(connection, options, mode, vectors)
        else:
            from smartcrawl.index.remote import open_searched_index  # noqa: PLC0415  # the embedded index needs none of it

            index = stack.enter_context(open_searched_index(options, connection))
            search = partial(_remote_answer, connection, index, query, **within)
            searched = query_meaning(connection, options, mode, vectors, index.embedder)
        search = partial(_with_places, connection, search)
        parsed = parsed_search_query(query)
        wanted = search_query_sources(sources, parsed.sources)
        if searched is None or not parsed.terms or wanted is None:
            return search()
        lacks = vectors.lacks(connection, searched.stored, wanted or readable or ())
        if lacks.are_many and mode is not SearchMode.VECTOR:
            return replace(search(), note=f"only words counted: {lacks}")
        _ask_first(searched.meaning, query)
        found = _answer(search, searched.meaning, mode, options)
        return replace(found, note="; ".join(filter(None, (found.note, str(lacks)))))


def _mode_by_date(mode: SearchMode) -> SearchMode:
    if mode in (SearchMode.VECTOR, SearchMode.HYBRID):
        raise SearchQueryError(
            f"a search that is sorted by date counts words alone: leave out the mode {mode.value}"
        )
    return SearchMode.TEXT


def _with_places(connection: Connection, search: Callable[..., Answer], **meaning: Any) -> Answer:
    """Search, and add the places that answer best to the chunks of hits."""
    found = search(**meaning)
    return replace(found, hits=hits_with_places(connection, found.hits))


def _ask_first(meaning: QueryMeaning, query: str) -> None:
    """Look whether the query as it was asked has its vector.

    The search itself, which is slow, is then made once for most queries.

    Raises:
        UnembeddedError: it was not asked for.
    """
    with suppress(NoVectorsError, EmbedderError, SettingError):  # the search says it
        meaning(query)


def _query_of_sources(connection: Connection, query: str, readable: Readable) -> str:
    """Return the query with the stored names of its sources: a bare host means all of its ports.

    A query that has no words stays as it is: its answer is what it lacks.

    Raises:
        UnknownNameError: it names a source that does not exist, or is not to be read.
        SearchQueryError: a filter of it has a value that means nothing.
    """
    parsed = parsed_search_query(query)
    for site in (*parsed.sites, *parsed.excluded_sites):
        search_query_place(site)
    search_query_filters(parsed)
    if not parsed.terms or not (parsed.sources or parsed.excluded_sources):
        return query
    known = stored_source_names(connection) if readable is None else readable

    def named(name: str) -> list[str]:
        found = sources_of_name(name, known)
        if not found:
            raise unknown_source_error(name, known)
        return found

    return search_query_with_sources(query, named)


def _answer(
    search: Callable[..., Answer],
    meaning: QueryMeaning,
    mode: SearchMode,
    options: Options,
) -> Answer:
    """Search by words and meaning; only by words, with a note, where the query has no vector.

    In mode ``vector`` that is an error. Where no setting asks for vectors, an embedder that this
    process cannot open is noted once.
    """
    try:
        return search(meaning=meaning)
    except NoVectorsError as error:  # of the query
        if mode is SearchMode.VECTOR:
            raise
        note = f"only words counted: {error}"
    except (EmbedderError, SettingError) as error:
        if mode is SearchMode.VECTOR:
            raise
        note = f"only words counted: {error}"
        is_wanted = mode is SearchMode.HYBRID or options.embedder is not None
        if isinstance(error, SettingError) and not is_wanted:
            note = _once(note)
    return replace(search(), note=note)


def _once(note: str) -> str:
    """Return a note for the first answer of this process that has it, else an empty one."""
    if note in _noted:
        return ""
    _noted.add(note)
    return note


def _remote_answer(
    connection: Connection, index: ElasticsearchSink, query: str, **within: Any
) -> Answer:
    found = index.answer(query, **within)
    return Answer(_joined(connection, found.hits), found.meant, facets=found.facets)


def _joined(connection: Connection, found: Iterable[ElasticsearchHit]) -> list[Hit]:
    """Join hits of a remote index with the registry's facts about their pages.

    A page that the registry no longer stores is left out: the index is behind.
    """
    listed = list(found)
    keys = Many(tuple({bytes.fromhex(hit.key.rpartition(":")[2]) for hit in listed}))
    facts = {
        key_of(source, id_): tuple(rest)
        for source, id_, *rest in connection.execute(_FACTS, (keys,)).fetchall()
    }
    hits = []
    for hit in listed:
        if hit.key not in facts:
            continue
        no, status, lost_count, last_checked, last_changed, published, author = facts[hit.key]
        hits.append(
            Hit(
                url=hit.url,
                source=hit.source,
                title=hit.title,
                headings=hit.headings,
                snippet=hit.snippet,
                score=hit.score,
                language=hit.language,
                description=hit.description,
                lost=is_lost_hit(status, lost_count),
                last_checked=last_checked,
                last_changed=last_changed,
                published=published,
                author=author,
                no=no,
                key=bytes.fromhex(hit.key.rpartition(":")[2]),
                document_id=hit.key,
                sources=hit.sources,
                chunks=hit.chunks,
            )
        )
    return hits


def _place_as_data(chunk: HitChunk, url: str) -> dict[str, Any]:
    """Return the page or section of a chunk, and the address of it; nothing where it has none."""
    if chunk.page is not None:
        return {"page": chunk.page, "link": chunk.link(url)}
    return {"section": chunk.section, "link": chunk.link(url)} if chunk.section else {}


def search_hit_as_data(hit: Hit, images: Sequence[ImageDocument] | None = None) -> dict[str, Any]:
    """Return a hit as JSON; with ``images``, also the images of its page."""
    nested = {} if images is None else {"images": [image.as_json() for image in images]}
    return {
        "id": url_item_id(url_item_kind(hit.url), hit.key),
        "documentId": hit.document_id,
        "url": hit.url,
        "source": hit.source,
        "sources": list(hit.sources),
        "title": hit.title,
        "headings": hit.headings,
        "snippet": hit.snippet,
        "chunks": [
            {
                "number": chunk.number,
                "path": chunk.path,
                "highlight": chunk.highlight,
                **_place_as_data(chunk, hit.url),
            }
            for chunk in hit.chunks
        ],
        "score": hit.score,
        "language": hit.language,
        "description": hit.description,
        "lost": hit.lost,
        "lastChecked": iso_time(hit.last_checked),
        "lastChanged": iso_time(hit.last_changed),
        "published": iso_time(hit.published),
        "author": hit.author,
        "date": iso_time(hit.date),
        **nested,
    }

"""The answers of the tools, read out of the registry and its index over one connection."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple
from zlib import crc32

from smartcrawl.extract.repeated import document_without
from smartcrawl.index.facets import facets_as_data
from smartcrawl.index.query_vectors import QuestionVectors, SearchMode
from smartcrawl.index.search import search_index
from smartcrawl.index.searching import MOST_PROPOSED, PLAIN, AnswerForm, Hit, HitChunk, is_lost_hit
from smartcrawl.model.exceptions import (
    SearchQueryError,
    SmartcrawlError,
    UnknownNameError,
    UsageError,
)
from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.model.options import Options
from smartcrawl.model.redaction import visible_text
from smartcrawl.model.times import iso_time
from smartcrawl.model.urls import (
    normalize_url,
    shown_title,
    url_digest,
    url_digests_of_id,
    url_item_id,
)
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.names import unknown_source_error
from smartcrawl.registry.pack import unpack_stored_document
from smartcrawl.registry.removal.purge import known_request_url
from smartcrawl.registry.visibility import Readable, readable_source_names, readable_sources
from smartcrawl.reports.changes import ChangePlace, page_of_reported_changes, reported_change_runs
from smartcrawl.reports.changes_text import parse_changes_since
from smartcrawl.reports.export import page_as_markdown
from smartcrawl.reports.status import SourceStatus, status_report
from smartcrawl.rules.visibility import EVERYTHING, Reader
from smartcrawl.server.mcp.answers import (
    McpChange,
    McpChanges,
    McpChunk,
    McpCompleteRun,
    McpFacets,
    McpHit,
    McpHits,
    McpPage,
    McpPageFacts,
    McpSource,
    McpSources,
)

#: Characters of one part of a page. A client reads it whole, so that it must fit into its context.
PART: Final = 20_000
_CURSOR: Final = re.compile(r"([0-9]{1,9})-([0-9a-f]{8})")
_CHANGES_CURSOR: Final = re.compile(r"([0-9]{1,15})-([0-9])-([0-9]{1,15})")


class McpRefusalError(SmartcrawlError):
    """A call that cannot be answered; its text says what to do, and goes to the client."""


class TextPart(NamedTuple):
    """A part of a text, and the cursor of the next one; None: it is the last."""

    text: str
    cursor: str | None


def escaped_mcp_text(text: str) -> str:
    r"""Return a text with its lines and tabs; what controls a terminal or is not seen is escaped.

    >>> escaped_mcp_text("a\tb\r\nc\x1b[2J\u202e")
    'a\tb\nc\\x1b[2J\\u202e'

    Source: ATT-20, ATT-64.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(map(visible_text, line.split("\t"))) for line in lines)


def mcp_text_part(text: str, cursor: str | None, most: int = PART) -> TextPart:
    r"""Return the part of a text at a cursor, or its first; parts, joined, are the text.

    A part has at most ``most`` characters and ends with a line, if one ends in its second half. A
    cursor has the place and a checksum of the text: parts of two versions are never joined.

    >>> first = mcp_text_part("one\ntwo\nthree", None, most=9)
    >>> first, mcp_text_part("one\ntwo\nthree", first.cursor, most=9).text
    (TextPart(text='one\ntwo\n', cursor='8-866d669e'), 'three')

    Raises:
        McpRefusalError: the cursor is none, is of another text, or is behind the end.
    """
    version = f"{crc32(text.encode()):08x}"
    start = 0 if cursor is None else _place(cursor, version)
    if start and start >= len(text):
        raise McpRefusalError("the cursor is behind the end: fetch the page without one")
    end = start + most
    if end >= len(text):
        return TextPart(text[start:], None)
    end = text.rfind("\n", start + most // 2, end) + 1 or end
    return TextPart(text[start:end], f"{end}-{version}")


def _place(cursor: str, version: str) -> int:
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise McpRefusalError("cursor must be the next_cursor of an answer of this page")
    if found[2] != version:
        raise McpRefusalError("the page has changed: fetch it without a cursor")
    return int(found[1])


MOST_HITS: Final = 50  #: pages of one answer
_LONGEST: Final = 10_000  #: characters of a hit's text; a chunk that stays whole may be longer
_INDEX_WAIT: Final = 2  #: seconds for which a call waits for an index that is away
_MARKS: Final = ("<em>", "</em>")  #: around found words, as those of the API
_NO_CHUNK: Final = HitChunk(0, "", "", "")  #: of a page without text
_RESOURCE: Final = re.compile(r"smartcrawl://page/([0-9]{1,15})")
_PAGE: Final = """
SELECT r.no, r.id, r.url, o.name, c.title, c.language, c.marked, c.document, s.status, s.lost_count,
       s.last_checked, r.last_changed, c.published, c.author
  FROM record r
  JOIN content c ON c.no = r.content
  JOIN state s ON s.no = r.no
  JOIN source o ON o.no = r.source
 WHERE s.standing = 2 AND {condition} AND (:every OR o.name IN carray(:readable))
 ORDER BY s.last_checked DESC, r.no LIMIT 1
"""
#: The condition on the source lets the query use the index.
_BY_ID: Final = _PAGE.format(
    condition="r.id >= :first AND r.id <= :last AND r.source IN (SELECT no FROM source)"
)
_BY_NUMBER: Final = _PAGE.format(condition="r.no = :no")
_KINDS: Final = "SELECT name, kind FROM source"


@dataclass(frozen=True, slots=True)
class McpQuestion:
    """A search: its words, what to search, and the place in the list."""

    query: str
    sources: Sequence[str] = ()  #: none: all
    language: str = ""  #: ISO 639-1; "": any
    mode: SearchMode = SearchMode.BEST
    limit: int = 10
    offset: int = 0
    form: AnswerForm = PLAIN


def mcp_search(
    connection: Connection,
    question: McpQuestion,
    options: Options,
    vectors: QuestionVectors,
    reader: Reader = EVERYTHING,
) -> McpHits:
    """Return the pages that answer a question, each with the chunk that answers best.

    ``reader``: who asks, here and below; over standard input and output he sees everything.

    Raises:
        McpRefusalError: the question has no word, or names a source that is not known.
        SinkError: the index does not answer.
        NoVectorsError: its mode needs vectors, and there are none.
        EmbedderError: it searches by meaning alone, and the embedder does not answer.
        UnembeddedError: it has not been embedded yet.
    """
    if not any(map(str.isalnum, question.query)):
        raise McpRefusalError("the query has no letter and no digit: give the words to search for")
    _check_sources(connection, question.sources, reader)
    try:
        found = search_index(
            connection,
            question.query,
            replace(options, sink_wait=min(options.sink_wait, _INDEX_WAIT)),
            sources=question.sources,
            limit=question.limit,
            offset=question.offset,
            marks=_MARKS,
            mode=question.mode,
            language=question.language,
            vectors=vectors,
            reader=reader,
            form=question.form,
        )
    except (UnknownNameError, SearchQueryError) as error:
        raise McpRefusalError(str(error)) from error
    after = question.offset + len(found.hits)
    more = len(found.hits) == question.limit and after < MOST_PROPOSED
    return McpHits(
        results=[_hit(hit) for hit in found.hits],
        meant=visible_text(found.meant) if found.meant else None,
        note=visible_text(found.note) if found.note else None,
        next_offset=after if more else None,
        facets=None
        if found.facets is None
        else McpFacets.model_validate(facets_as_data(found.facets)),
    )


def _check_sources(connection: Connection, names: Sequence[str], reader: Reader) -> None:
    known = readable_source_names(connection, reader)
    for name in names:
        if name not in known:
            raise McpRefusalError(str(unknown_source_error(name, known)))


def _hit(hit: Hit) -> McpHit:
    chunk = next(iter(hit.chunks), _NO_CHUNK)
    return McpHit(
        id=url_item_id(url_item_kind(hit.url), hit.key),
        title=visible_text(hit.title),
        url=visible_text(hit.url),
        link=visible_text(chunk.link(hit.url)),
        text=escaped_mcp_text(chunk.text)[:_LONGEST],
        path=[visible_text(heading) for heading in chunk.headings],
        chunks=[
            McpChunk(
                number=chunk.number,
                path=[visible_text(heading) for heading in chunk.headings],
                highlight=visible_text(chunk.highlight),
                page=chunk.page,
                section=visible_text(chunk.section),
                link=visible_text(chunk.link(hit.url)),
            )
            for chunk in hit.chunks
        ],
        source=hit.source,
        language=hit.language,
        date=iso_time(hit.date),
        author=visible_text(hit.author),
        lost=hit.lost,
        number=hit.no,
    )


def mcp_page(
    connection: Connection,
    word: str,
    options: Options,
    *,
    cursor: str | None = None,
    most: int = PART,
    reader: Reader = EVERYTHING,
) -> McpPage:
    """Return a stored page, or the part of its text at a cursor.

    ``word``: its id, its address, or the URI of its resource. ``most``: characters of a part. Of a
    page that several sources have, the one that was visited last is returned.

    Raises:
        McpRefusalError: no stored page is meant, or the cursor is not of this page as it is now.
    """
    row = _page_row(connection, word.strip(), options, readable_sources(connection, reader))
    if row is None:
        raise McpRefusalError(
            f"no stored page has the id or address '{visible_text(word)[:300]}': take those that"
            " search returns"
        )
    no, key, url, source, title, language, marked, packed, status, losses, *times = row
    document = document_without(unpack_stored_document(packed), marked)
    markdown = page_as_markdown(document, title=title, url=url)
    text = escaped_mcp_text(markdown)
    part = mcp_text_part(text, cursor, most)
    return McpPage(
        id=url_item_id(url_item_kind(url), bytes(key)),
        title=visible_text(shown_title(title, url)),
        url=visible_text(url),
        text=part.text,
        metadata=McpPageFacts(
            source=source,
            language=language,
            last_checked=iso_time(times[0]),
            last_changed=iso_time(times[1]),
            published=iso_time(times[2]),
            author=visible_text(times[3]),
            lost=is_lost_hit(status, losses),
            number=no,
            characters=len(text),
        ),
        next_cursor=part.cursor,
    )


def _page_row(connection: Connection, word: str, options: Options, readable: Readable) -> Any:
    limits = {"every": readable is None, "readable": Many(readable or ())}
    if found := _RESOURCE.fullmatch(word):
        return connection.execute(_BY_NUMBER, limits | {"no": int(found[1])}).fetchone()
    span = url_digests_of_id(word)
    if span is None:
        known = known_request_url(connection, word, options.trackers) or word
        key = url_digest(normalize_url(known, options.trackers))
        span = key, key
    named = dict(zip(("first", "last"), span, strict=True))
    return connection.execute(_BY_ID, limits | named).fetchone()


def mcp_sources(connection: Connection, now: int, reader: Reader = EVERYTHING) -> McpSources:
    """Return the sources that were crawled, with counts; ``now``: Unix seconds."""
    readable = readable_sources(connection, reader)
    kinds: dict[str, str] = dict(connection.execute(_KINDS).fetchall())
    *sources, _ = status_report(
        connection, now, visibilities=reader.visibilities, readable=readable
    )
    return McpSources(sources=[_source(one, kinds[str(one.source)]) for one in sources])


def _source(status: SourceStatus, kind: str) -> McpSource:
    complete = None
    if status.complete_run is not None:
        at = iso_time(status.completed_at)
        complete = McpCompleteRun(run=status.complete_run, finished_at=at)
    counts = status.counts
    return McpSource(
        name=str(status.source),
        kind=kind,
        pages=counts.pages,
        stored=counts.held,
        lost=counts.lost,
        due=counts.due,
        last_complete_run=complete,
        visibility=str(status.visibility),
    )


def mcp_changes(
    connection: Connection,
    since: str,
    *,
    source: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
    reader: Reader = EVERYTHING,
) -> McpChanges:
    """Return a part of what changed; ``since`` as of ``parse_changes_since``.

    Raises:
        McpRefusalError: ``since`` or ``cursor`` is wrong, or the source is not known.
    """
    _check_sources(connection, () if source is None else (source,), reader)
    try:
        found = parse_changes_since(since)
    except UsageError as error:
        raise McpRefusalError(f"since: {error}") from error
    after = None
    if cursor is not None:
        place = _CHANGES_CURSOR.fullmatch(cursor)
        if place is None:
            raise McpRefusalError("cursor must be the next_cursor of an answer of this tool")
        after = ChangePlace(*map(int, place.groups()))
    names = readable_source_names(connection, reader) if source is None else [source]
    runs = reported_change_runs(connection, found, names)
    changes, last = page_of_reported_changes(connection, runs, after, limit)
    return McpChanges(
        changes=[_change(change) for change in changes],
        next_cursor=None if last is None else "-".join(map(str, last)),
    )


def _change(change: dict[str, Any]) -> McpChange:
    url, key = change["url"], change["urlHash"]
    title, why, former = change["title"], change["why"], change["formerUrl"]
    return McpChange(
        kind=change["kind"],
        source=change["source"],
        run=change["run"],
        at=change["at"],
        id=None if key is None else url_item_id(url_item_kind(url), bytes.fromhex(key)),
        url=None if url is None else visible_text(url),
        title=None if title is None else visible_text(title),
        former_url=None if former is None else visible_text(former),
        why=None if why is None else visible_text(why),
        pages=change["pages"],
        share=change["share"],
        words_added=change["wordsAdded"],
        words_removed=change["wordsRemoved"],
        headings=[visible_text(heading["heading"]) for heading in change["headings"]],
        lines=[f"{line['sign']} {visible_text(line['text'])}" for line in change["lines"]],
        more_lines=change["moreLines"],
    )

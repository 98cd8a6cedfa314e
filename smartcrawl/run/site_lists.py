"""Lines that repeat on the hosts of a source: new pages are marked by lists, and lists renewed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cached_property
from typing import Final

from smartcrawl.extract.chunks import document_chunks
from smartcrawl.extract.repeated import (
    document_lines,
    document_without,
    marks_as_text,
    repeated_marks,
)
from smartcrawl.extract.wire import ReadDocument
from smartcrawl.index.made_chunks import NO_WORDS, WORDS, MadeChunks
from smartcrawl.index.page_parts import ChunkParts
from smartcrawl.model.documents import Chunk, ChunkSize, Document
from smartcrawl.model.urls import url_host_key
from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.registry.index_protocols import Indexing, Sink
from smartcrawl.registry.site_lists import (
    MarkedContent,
    StoredList,
    changes_since_lists,
    contents_by_host,
    count_contents,
    mark_content_row,
    marked_contents,
    note_lists_made,
    site_list_rows,
    store_site_list_row,
)
from smartcrawl.rules.repeated import (
    NOTHING,
    are_repeated_lines_due,
    find_repeated_lines,
)
from smartcrawl.sources.base import Source
from smartcrawl.sources.site import SiteSource

logger = logging.getLogger(__name__)

_SAMPLE: Final = 2_000  #: pages of a host of which its list is made
_STEP: Final = 50  #: contents that are marked in one transaction


class SiteLists:
    """The lists of one run: those before it mark its pages, and its end renews them."""

    def __init__(
        self,
        source: Source,
        connection: Connection,
        indexing: Indexing,
        *,
        number: int,
        size: ChunkSize,
        are_wanted: bool,
    ) -> None:
        """``number``: source.no; ``size``: of chunks; ``are_wanted``: else all lists get empty."""
        self._connection = connection
        self._indexing = indexing
        self._source = number
        self._size = size
        self._are_wanted = are_wanted
        self._is_site = isinstance(source, SiteSource)

    @cached_property
    def _lists(self) -> dict[str, StoredList]:
        if not (self._is_site and self._are_wanted):
            return {}
        return site_list_rows(self._connection, self._source)

    def parts(self, *, is_elsewhere: bool) -> ChunkParts:
        """Return what has processes make the chunks of the pages that they read.

        ``is_elsewhere``: whether the index is no part of the registry, and makes its words itself.
        """
        dialect = self._connection.dialect
        lists = {host: found.lines for host, found in self._lists.items()}
        return ChunkParts(NO_WORDS if is_elsewhere else WORDS[dialect], self._size, lists)

    def marked(self, url: str, content_type: str, document: Document) -> str:
        """Return the marks of a page by the list of its host; empty: nothing repeats."""
        if not self._lists or "html" not in content_type:
            return ""
        host = url_host_key(url)
        found = self._lists.get(host)
        if found is None:
            return ""
        made = _made_elsewhere(document)
        if made is not None and made.marked is not None and made.host == host:
            return made.marked
        return marks_as_text(repeated_marks(document, found.lines))

    def chunks(self, document: Document, marked: str) -> list[Chunk]:
        """Return the chunks of a document without its marked parts.

        Those that were made where it was read are taken, if the same parts are left out there.
        """
        made = _made_elsewhere(document)
        if made is not None and (made.marked or "") == marked:
            return made
        return document_chunks(document_without(document, marked), self._size)

    def renew(self, run: int, now: int) -> None:
        """Make the lists of a source anew, after a complete run, where enough pages have changed.

        Pages whose marks differ are written to the index. Nothing is requested, and a run without
        changes reads no page.
        """
        if not (self._is_site and self._are_due()):
            return
        moved = 0
        for host, contents in contents_by_host(self._connection, self._source).items():
            moved += self._renew_host(host, contents, run, now)
        with transaction(self._connection):
            note_lists_made(self._connection, self._source, run)
        if moved:
            self._indexing.seal(self._connection)
            logger.info("lines that repeat on many pages: %d pages changed in the index", moved)

    def _are_due(self) -> bool:
        if not self._are_wanted:
            lists = site_list_rows(self._connection, self._source)
            return any(one.lines for one in lists.values())
        changed, ever_made = changes_since_lists(self._connection, self._source)
        if not changed:
            return False
        pages = count_contents(self._connection, self._source)
        return are_repeated_lines_due(changed=changed, pages=pages, ever_made=ever_made)

    def _renew_host(self, host: str, contents: Sequence[int], run: int, now: int) -> int:
        """Make the list of a host; return how many of its contents got other marks."""
        former = site_list_rows(self._connection, self._source).get(host)
        known = NOTHING if former is None else former.lines
        sample: Sequence[int] = ()
        if self._are_wanted:
            sample = contents[:: max(1, -(-len(contents) // _SAMPLE))]
        pages = [document_lines(one.document) for one in marked_contents(self._connection, sample)]
        lines = find_repeated_lines(pages, known)
        if former is None and not lines:
            return 0
        if former is None or lines != known:
            version = 1 if former is None else former.version + 1
            with transaction(self._connection):
                store_site_list_row(
                    self._connection,
                    self._source,
                    host,
                    StoredList(version, lines),
                    run=run,
                    pages=len(contents),
                )
        moved: list[tuple[MarkedContent, str]] = []
        count = 0
        for content in marked_contents(self._connection, contents):
            marked = marks_as_text(repeated_marks(content.document, lines))
            if marked != content.marked:
                moved.append((content, marked))
            if len(moved) == _STEP:
                count += self._move(moved, now)
                moved = []
        return count + self._move(moved, now)

    def _move(self, moved: Sequence[tuple[MarkedContent, str]], now: int) -> int:
        cut = [(one, marked, self.chunks(one.document, marked)) for one, marked in moved]

        def work(sink: Sink, _: int) -> None:
            for content, marked, chunks in cut:
                text = "\n".join(chunk.own_text for chunk in chunks)
                mark_content_row(self._connection, content.no, marked, text)
                sink.remove(content.no)
                sink.put(content.no, content.title, chunks, content.language)
            sink.flush()

        if cut:
            self._indexing.perform(self._connection, work, now=now)
        return len(cut)


def _made_elsewhere(document: Document) -> MadeChunks | None:
    """Return the chunks that were made where a page was read; None: there are none."""
    if not isinstance(document, ReadDocument) or document.faulty:
        return None
    made: MadeChunks | None = document.parts
    return made

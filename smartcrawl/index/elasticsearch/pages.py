"""The pages of a registry as documents of an Elasticsearch (``ports.PageIndex``)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from smartcrawl.index.elasticsearch.bulk import Entry, Fate
from smartcrawl.index.elasticsearch.documents import (
    ElasticsearchImage,
    PageDocument,
    index_document_key,
)
from smartcrawl.index.elasticsearch.sink import ElasticsearchSink
from smartcrawl.index.elasticsearch.versions import index_version
from smartcrawl.model.exceptions import SinkError
from smartcrawl.model.index_pages import IndexedPage

logger = logging.getLogger(__name__)


class ElasticsearchPages:
    """Writes pages, one document each, and tombstones in their place."""

    def __init__(self, sink: ElasticsearchSink) -> None:
        self.sink = sink
        self._written = False  #: whether searches miss some writes

    def write(self, pages: Sequence[IndexedPage], number: int, now: int) -> list[str | None]:
        """Write pages under a claim number; see ``ports.PageIndex``."""
        found: list[str | None] = []
        self._written = True
        for written in self.sink.written(_entry(page, number) for page in pages):
            match written.fate:
                case Fate.DONE:
                    found.append(None)
                case Fate.STALE:
                    found.append("")
                case Fate.REJECTED:
                    found.append(written.reason or "it is refused")
        return found

    def version(self, epoch: int, number: int) -> int:
        """Return the version of a write."""
        return index_version(epoch, number)

    def newest(self) -> int:
        """Return the highest version of documents that refused a write; 0: none did."""
        return self.sink.newest()

    def sealed(self, number: int) -> int:
        """Make a sealed run searchable, and record it; return the highest version so far."""
        self._show()
        return self.sink.sealed(number)

    def purge(self, before: int) -> None:
        """Delete the tombstones that were written before a time; see ``ports.PageIndex``."""
        try:
            gone = self.sink.purge_tombstones(before)
        except SinkError as error:
            logger.warning("old tombstones stay in the index until the next run: %s", error)
            return
        if gone:
            logger.info("%d old tombstone%s deleted from the index", gone, "s" if gone > 1 else "")

    def close(self) -> None:
        """Let searches see what was written, and close the connections."""
        try:
            self._show()
        except SinkError as error:
            logger.warning("searches find the last writes a little later: %s", error)
        self.sink.close()

    def _show(self) -> None:
        if self._written:
            self.sink.refresh()
            self._written = False


def _entry(page: IndexedPage, number: int) -> Entry:
    if page.mark is None:
        return Entry(index_document_key(page.source, page.id), number, None)
    document = PageDocument(
        source=page.source,
        url_hash=page.id,
        url=page.url,
        content_hash=page.mark,
        title=page.title,
        description=page.description,
        language=page.language,
        canonical_url=page.canonical_url,
        content_group=page.content_group,
        last_changed=page.last_changed,
        mime_type=page.mime_type,
        depth=page.depth,
        chunks=page.chunks,
        images=[
            ElasticsearchImage(i.id, i.src, i.alt, i.context, i.width, i.height)
            for i in page.images
        ],
        vectors=page.vectors,
    )
    return Entry(document.key, number, document.as_json())

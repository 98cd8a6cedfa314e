"""The pages of documents on which the chunks of hits are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from smartcrawl.index.searching import Hit, HitChunk
from smartcrawl.model.documents import Section, section_page, section_pages
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.pack import numbers_for_sql, unpack_stored_document

_PDF: Final = "application/pdf"
_ENOUGH: Final = 300  #: characters of a chunk by which it is found in its document
_DOCUMENTS = f"""
SELECT r.no, c.document
  FROM record r JOIN content c ON c.no = r.content
 WHERE r.no IN carray(?)
   AND (r.content_type LIKE '{_PDF}%' OR r.media LIKE '{_PDF}%' OR lower(r.url) LIKE '%.pdf')
"""


def hits_with_document_pages(connection: Connection, hits: Sequence[Hit]) -> list[Hit]:
    """Return hits whose chunks know their page, where they are of a PDF.

    Their stored texts are read: no index has the numbers of pages.
    """
    shown = [hit.no for hit in hits if hit.chunks]
    if not shown:
        return list(hits)
    rows: Any = connection.execute(_DOCUMENTS, (numbers_for_sql(shown),)).fetchall()
    found = {no: unpack_stored_document(packed).sections for no, packed in rows}
    return [
        replace(hit, chunks=tuple(_with_page(chunk, found[hit.no]) for chunk in hit.chunks))
        if hit.no in found
        else hit
        for hit in hits
    ]


def _with_page(chunk: HitChunk, sections: Iterable[Section]) -> HitChunk:
    return replace(chunk, page=document_page_of_chunk(chunk, sections))


def document_page_of_chunk(chunk: HitChunk, sections: Iterable[Section]) -> int | None:
    """Return the number of the page on which a chunk begins; None: its document has no pages."""
    for section in sections:
        heading = section.heading
        if heading and chunk.path != heading and not chunk.path.endswith(f" > {heading}"):
            continue
        for part in (chunk.text[:_ENOUGH], chunk.text[-_ENOUGH:]):
            at = section.text.find(part)
            if at >= 0:
                return section_page(section_pages(section), at)
    return None

"""Stored pages with the same bytes as a body, by the hash of the body (ADR 69)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from smartcrawl.model.documents import CUT, Document
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.pack import unpack_stored_document, unpack_stored_links

#: Any of several equal ones serves. The index is that of files alone, by a condition on ``media``.
_FIND = """
SELECT c.title, c.description, c.language, c.charset, c.keywords, c.document, c.content_hash,
       c.text_hash, c.sample, r.canonical_url, r.signs, l.raw, r.url
  FROM record r JOIN content c ON c.no = r.content LEFT JOIN links l ON l.no = r.no
 WHERE r.source = ? AND r.body_hash = ? AND r.media = ? AND r.configuration = ?
 LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class StoredExtraction:
    """All that was extracted from a body, out of the registry."""

    document: Document  #: includes the links
    content_hash: bytes
    text_hash: bytes
    sample: bytes | None  #: digest of the text that the language was detected from
    signs: int  #: bits of model.pages.PageRecord.signs
    url: str  #: of the page


def find_stored_extraction(
    connection: Connection, source: int, body_hash: bytes, media: str, configuration: int
) -> StoredExtraction | None:
    """Return the extraction of an indexed page of a source with these bytes, or None.

    The page was read as the same type, ``media``, under the same ``configuration``
    (fingerprint.no).
    """
    values = (source, body_hash, media, configuration)
    row: Any = connection.execute(_FIND, values).fetchone()
    if row is None:
        return None
    title, description, language, charset, keywords, packed, content, text, sample = row[:9]
    canonical, signs, raw, url = row[9:]
    links = [] if raw is None else unpack_stored_links(raw)
    kept = tuple(link for link in links if link.type != CUT)
    document = replace(
        unpack_stored_document(packed),
        title=title,
        description=description,
        language=language,
        charset=charset,
        keywords=keywords or "",
        content_type=media.partition(";")[0],
        canonical=canonical,
        links=kept,
        links_cut=any(link.type == CUT and not link.anchor for link in links),
        overlong=tuple(link.url for link in links if link.type == CUT and link.anchor),
    )
    return StoredExtraction(document, content, text, sample, signs, url)

"""Reading the stored content of pages: hashes, language, text length, snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from smartcrawl.model.documents import Document
from smartcrawl.model.pages import Unreadable
from smartcrawl.registry.commit.collapsed import stored_row_had_text
from smartcrawl.registry.commit.snapshots import Place, Snapshots
from smartcrawl.registry.commit.unreadable import find_unreadable_row
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.equal_bytes import StoredExtraction, find_stored_extraction
from smartcrawl.registry.pack import unpack_stored_document

_HASHES = """
SELECT coalesce(c.content_hash, r.content_hash), coalesce(c.text_hash, r.text_hash)
  FROM record r LEFT JOIN content c ON c.no = r.content WHERE r.no = ?
"""
_DOCUMENT = "SELECT document FROM content WHERE no = ?"
#: Changes ascend by number. In a CROSS JOIN, SQLite reads the last ones of all sources first, and
#: not every record of the source.
_LAST_CHANGES = """
SELECT r.no, c.text_hash,
       max(h.run) > (SELECT coalesce(max(no), 0) FROM run WHERE source = :source AND complete)
  FROM (SELECT record, run FROM change ORDER BY no DESC LIMIT :most) AS h
 CROSS JOIN record r CROSS JOIN content c
 WHERE r.no = h.record AND c.no = r.content AND r.source = :source
 GROUP BY r.no, c.text_hash
"""
#: The same with the documents of texts that are not too long for ``rules.shield``.
_LAST_DOCUMENTS = """
SELECT r.no, c.document FROM (SELECT record FROM change ORDER BY no DESC LIMIT :most) AS h
 CROSS JOIN record r CROSS JOIN content c
 WHERE r.no = h.record AND c.no = r.content AND r.source = :source AND c.text_length <= :longest
   AND c.document IS NOT NULL
 GROUP BY r.no, c.no
"""
_MOST_CHANGES: Final = 1_000
_TEXT_LENGTH = "SELECT text_length FROM content WHERE no = ?"
_TITLE = "SELECT title FROM content WHERE no = ?"
_LANGUAGE = "SELECT sample, language FROM content WHERE no = ? AND sample IS NOT NULL"
_CANONICAL_URL = "SELECT canonical_url FROM record WHERE no = ?"
_TURNED = "SELECT max(at) FROM event WHERE record = ?"
_CONFIGURATIONS = "SELECT no FROM fingerprint WHERE extraction = ?"


class ContentReader:
    """The stored contents of one source's pages, by their numbers or by their bytes."""

    def __init__(self, connection: Connection, source: int) -> None:
        self._connection = connection
        self._source = source

    def content_hash(self, no: int) -> bytes | None:
        """Return the hash of a page's stored content."""
        return self.hashes(no)[0]

    def hashes(self, no: int) -> tuple[bytes | None, bytes | None]:
        """Return the hashes of a page's stored content and stored text."""
        row: Any = self._connection.execute(_HASHES, (no,)).fetchone()
        return (None, None) if row is None else (row[0], row[1])

    def had_text(self, no: int, text_hash: bytes) -> bool:
        """Whether a page recently had a text (collapsed.stored_row_had_text)."""
        return stored_row_had_text(self._connection, no, text_hash)

    def turned_at(self, no: int) -> int | None:
        """Return when a page last changed its status (Unix seconds); None: no event reports it."""
        value: int | None = self._connection.execute(_TURNED, (no,)).get
        return value

    def document(self, content: int) -> Document:
        """Return a content's document; without sections if none is stored."""
        packed: bytes | None = self._connection.execute(_DOCUMENT, (content,)).get
        return Document() if packed is None else unpack_stored_document(packed)

    def last_changes(self) -> list[tuple[int, bytes, bool]]:
        """Return the pages that changed last: number, text by now, whether since a complete run.

        They are of the last 1,000 changes of the registry.
        """
        names = {"source": self._source, "most": _MOST_CHANGES}
        rows: Any = self._connection.execute(_LAST_CHANGES, names).fetchall()
        return [(no, bytes(text), bool(since)) for no, text, since in rows]

    def last_documents(self, longest: int) -> Iterator[tuple[int, Document]]:
        """Yield the number and the document of each page that changed last.

        They are of the last 1,000 changes, and have texts of at most ``longest`` characters.
        """
        names = {"source": self._source, "most": _MOST_CHANGES, "longest": longest}
        rows: Any = self._connection.execute(_LAST_DOCUMENTS, names).fetchall()
        for number, packed in rows:
            yield number, unpack_stored_document(packed)

    def text_length(self, content: int) -> int:
        """Return the length of a content's text in characters."""
        return int(self._connection.execute(_TEXT_LENGTH, (content,)).get or 0)

    def title(self, content: int) -> str:
        """Return a content's title."""
        return str(self._connection.execute(_TITLE, (content,)).get or "")

    def language(self, content: int) -> tuple[bytes, str] | None:
        """Return a content's language, after the digest of the text that it was detected by."""
        row: Any = self._connection.execute(_LANGUAGE, (content,)).fetchone()
        return None if row is None else (row[0], row[1])

    def canonical_url(self, no: int) -> str | None:
        """Return the canonical URL that a page named when it was read last."""
        value: str | None = self._connection.execute(_CANONICAL_URL, (no,)).get
        return value

    def snapshot(self, snapshots: Snapshots, no: int) -> Place:
        """Return the place of a page's snapshot (Snapshots.find)."""
        return snapshots.find(self._connection, no)

    def has_body(self, snapshots: Snapshots, snapshot: int) -> bool:
        """Whether a snapshot can be read (Snapshots.is_readable)."""
        return snapshots.is_readable(self._connection, snapshot)

    def unreadable(self, body_hash: bytes, extraction: int, media: str) -> Unreadable | None:
        """Return the reason why an extraction version cannot read a body.

        None: no reason is stored.
        """
        return find_unreadable_row(self._connection, body_hash, extraction, media)

    def extraction(
        self, body_hash: bytes, media: str, configuration: int
    ) -> StoredExtraction | None:
        """Return the stored extraction of a body (find_stored_extraction), or None."""
        return find_stored_extraction(
            self._connection, self._source, body_hash, media, configuration
        )

    def configurations(self, extraction: int) -> frozenset[int]:
        """Return the fingerprints of all configurations under which a version extracted."""
        rows: Any = self._connection.execute(_CONFIGURATIONS, (extraction,))
        return frozenset(no for (no,) in rows)

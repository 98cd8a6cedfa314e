"""The stored pages of sources, one after another, for an export."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from smartcrawl.model.documents import Document
from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.model.urls import url_item_id
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.pack import numbers_for_sql, unpack_stored_document

PAGES_AT_ONCE: Final = 20  #: rows of one statement; their documents are in memory together
ADDRESSES_AT_ONCE: Final = 2_000

_SOURCES = "SELECT no FROM source WHERE name IN carray(?)"
#: Pages with an index entry: a clone has none. ``+`` keeps the order of the numbers: an index on
#: the source would have all of its records sorted for each statement.
_COUNTS = """
SELECT count(*), count(*) FILTER (WHERE s.lost_count > 0)
  FROM record r JOIN state s USING (no)
 WHERE +r.source IN carray(?) AND r.entry > 0
"""
_PAGES = """
SELECT r.no, r.id, r.url, o.name, s.lost_count > 0, r.last_changed, c.title, c.description,
       c.language, c.document
  FROM record r
  JOIN state s USING (no)
  JOIN source o ON o.no = r.source
  JOIN content c ON c.no = r.content
 WHERE r.no > :after AND +r.source IN carray(:sources) AND r.entry > 0
   AND (:lost OR s.lost_count = 0)
 ORDER BY r.no LIMIT :most
"""
_ADDRESSES = """
SELECT r.no, r.url
  FROM record r JOIN state s USING (no)
 WHERE r.no > :after AND +r.source IN carray(:sources) AND r.entry > 0
   AND (:lost OR s.lost_count = 0)
 ORDER BY r.no LIMIT :most
"""


@dataclass(frozen=True, slots=True)
class ExportedPage:
    """One stored page with its text.

    A lost page answers with an error: its text is of an earlier visit. Of the document title,
    description, language, sections and images are known.
    """

    id: str
    url: str
    source: str
    is_lost: bool
    last_changed: int | None  #: Unix seconds
    document: Document


class PageCounts(NamedTuple):
    """The number of pages of some sources that can be exported."""

    pages: int
    lost: int


class ExportedPages:
    """The pages of some sources with text of their own, in the order of their discovery.

    Clones are left out: their original has the text. Each statement reads a few rows, and another
    moment: a run at the same time may add pages while they are read.
    """

    def __init__(self, connection: Connection, sources: Sequence[str], *, lost: bool) -> None:
        """``lost``: whether lost pages are among them."""
        self._connection = connection
        self._lost = lost
        rows: Any = connection.execute(_SOURCES, (Many(sources),)).fetchall()
        self._sources = numbers_for_sql(no for (no,) in rows)

    def counts(self) -> PageCounts:
        """Return how many pages there are, lost ones included."""
        row: Any = self._connection.execute(_COUNTS, (self._sources,)).fetchone()
        return PageCounts(*row)

    def addresses(self) -> Iterator[str]:
        """Yield the address of each page."""
        for _, url in self._rows(_ADDRESSES, ADDRESSES_AT_ONCE):
            yield url

    def __iter__(self) -> Iterator[ExportedPage]:
        """Yield each page."""
        for row in self._rows(_PAGES, PAGES_AT_ONCE):
            _, key, url, source, lost, changed, title, description, language, packed = row
            document = replace(
                unpack_stored_document(packed),
                title=title,
                description=description,
                language=language,
            )
            name = url_item_id(url_item_kind(url), bytes(key))
            yield ExportedPage(name, url, source, bool(lost), changed, document)

    def _rows(self, statement: str, most: int) -> Iterator[Any]:
        names: dict[str, Any] = {"sources": self._sources, "lost": self._lost, "most": most}
        after = 0
        while rows := self._connection.execute(statement, names | {"after": after}).fetchall():
            yield from rows
            after = rows[-1][0]

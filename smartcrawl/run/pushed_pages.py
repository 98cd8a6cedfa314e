"""The stored pages of a source as files for a vector store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from smartcrawl.index.vectorstore.ports import (
    DOMAIN,
    SOURCE,
    URL,
    ItemVersion,
    StoreItem,
    vector_store_file_stem,
)
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.pack import numbers_for_sql, unpack_stored_document
from smartcrawl.reports.export import ExportedPage, exported_file_name, exported_markdown

_AT_ONCE: Final = 2_000  #: rows of one statement without documents

_SOURCE = "SELECT no FROM source WHERE name = ?"
#: Pages with an index entry, as long as they have it: a clone has none, a lost page still does.
#: ``+`` keeps the order of the numbers (reports/export.py).
_VERSIONS = """
SELECT r.no, r.url, c.content_hash
  FROM record r JOIN content c ON c.no = r.content
 WHERE r.no > :after AND +r.source = :source AND r.entry > 0
 ORDER BY r.no LIMIT :most
"""
_ITEMS = """
SELECT r.no, r.url, c.content_hash, c.title, c.description, c.language, c.document
  FROM record r JOIN content c ON c.no = r.content
 WHERE r.no IN carray(?) AND r.entry > 0
 ORDER BY r.no
"""


class PushedPages:
    """The pages of a source that its vector store is to have: those that the index has.

    So a page leaves the store under the same evidence as the index, and one bad night of its server
    rewrites nothing. Each statement reads another moment: a run may change pages meanwhile.
    """

    def __init__(self, connection: Connection, source: str) -> None:
        """``source``: the name of a stored source."""
        self._connection = connection
        self.marks: Mapping[str, str] = {SOURCE: source, DOMAIN: ""}  # not a library's item
        self.key = URL
        self.knows_all = self.keeps_former = True
        self.checks_account = False  # it would take a second list in each push
        self.place_of_store = "VECTOR_STORE_ID, and VECTOR_STORE_URL,"
        self._source = source
        self.source_no = int(connection.execute(_SOURCE, (source,)).get)

    def versions(self) -> Iterator[ItemVersion]:
        """Yield each page."""
        names: dict[str, Any] = {"source": self.source_no, "most": _AT_ONCE}
        after = 0
        while rows := self._connection.execute(_VERSIONS, names | {"after": after}).fetchall():
            for no, url, hash_ in rows:
                yield ItemVersion(no, url, bytes(hash_))
            after = rows[-1][0]

    def items(self, numbers: Sequence[int]) -> Iterator[StoreItem]:
        """Yield those of some pages that the index still has."""
        rows: Any = self._connection.execute(_ITEMS, (numbers_for_sql(numbers),)).fetchall()
        for no, url, hash_, title, description, language, packed in rows:
            document = replace(
                unpack_stored_document(packed),
                title=title,
                description=description,
                language=language,
            )
            # Neither time nor loss: a file changes only with its page.
            page = ExportedPage("", url, self._source, False, None, document)
            body = exported_markdown(page).encode("utf-8", "replace")
            version = ItemVersion(no, url, bytes(hash_))
            digest = sha256(body).digest()
            yield StoreItem(version, run_pushed_file_name(url), body, len(body), digest)

    def kept(self) -> Mapping[int, bytes | None]:
        """Return no page: each has its version."""
        return {}

    def note_refused(self, version: ItemVersion, why: str) -> None:
        """Do nothing: the next push tries again."""


def run_pushed_file_name(url: str) -> str:
    """Return a name for the file of a page, without ending.

    >>> run_pushed_file_name("https://docs.example.com/guide/install.html")
    'docs.example.com_guide_install.html'
    >>> run_pushed_file_name("https://docs.example.com/größe").partition("-")[0]
    'docs.example.com_grösse'
    """
    return vector_store_file_stem(exported_file_name(url, "")) or "page"

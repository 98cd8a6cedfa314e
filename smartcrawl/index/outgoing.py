"""The index writes that a registry transaction asks for, collected within it (ADR 29)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from smartcrawl.index.images import images_to_index
from smartcrawl.index.page_vectors import PageVectors, index_chunk_digests
from smartcrawl.model.documents import Chunk
from smartcrawl.model.index_pages import IndexedImage, IndexedPage
from smartcrawl.model.urls import url_content_group
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.pack import numbers_for_sql
from smartcrawl.registry.remote_chunks import delete_remote_chunk_rows, store_remote_chunk_rows

_AFFECTED = """
SELECT r.no, o.name, r.id, r.content, r.entry, r.sunk, c.content_hash
  FROM record r JOIN source o ON o.no = r.source LEFT JOIN content c ON c.no = r.content
 WHERE r.content IN carray(:contents) OR r.sunk IN carray(:contents) OR r.no IN carray(:again)
"""
_PAGES = """
SELECT r.no, r.url, r.canonical_url, r.last_changed, r.content_type, s.depth, c.no, c.content_hash,
       c.title, c.description, c.language, c.document
  FROM record r JOIN state s USING (no) JOIN content c ON c.no = r.content
 WHERE r.no IN carray(?)
"""
_HELD = "UPDATE record SET sunk = ? WHERE no = ?"
_HELD_VECTORS = "UPDATE record SET sunk_vectors = ? WHERE no = ?"
_HELD_NO_VECTORS = "UPDATE record SET sunk_vectors = 0 WHERE no IN carray(?) AND sunk_vectors <> 0"
_DONE = "UPDATE state SET intent = 0 WHERE no IN carray(:numbers) AND intent <= :number"
_DONE_UNLESS_OPENED = (
    "UPDATE state SET intent = 0 WHERE no IN carray(:numbers) AND intent = :number"
)
_OVERTAKEN = "SELECT no FROM state WHERE no IN carray(:numbers) AND intent < :number"
_ALIVE = "DELETE FROM dead_letter WHERE no IN carray(?)"

Chunked = Callable[[bytes], list[Chunk]]  #: the chunks of a stored document


@dataclass(slots=True)
class Taken:
    """Pages that the index acknowledged so far, by number of record."""

    marks: dict[int, bytes | None] = field(default_factory=dict)
    versions: dict[int, int] = field(default_factory=dict)  #: claim numbers of the writes
    vectors: dict[int, int] = field(default_factory=dict)  #: chunks with a vector
    dead: set[int] = field(default_factory=set)  #: pages that the index refused
    overtaken: set[int] = field(default_factory=set)  #: pages that another worker wrote later


class OutgoingIndexWrites:
    """Collects the index writes that a transaction asks for (``ports.Sink``)."""

    is_elsewhere: Final = True

    def __init__(
        self, connection: Connection, chunked: Chunked, vectors: PageVectors | None = None
    ) -> None:
        """``vectors``: those of the documents; None: no chunk gets any."""
        self._connection = connection
        self._chunked = chunked
        self._vectors = vectors
        self._digests: dict[int, list[bytes]] = {}  #: of contents to write at the next flush
        self._renewed: set[int] = set()  #: contents whose digests change at the next flush
        #: content_hash and digests of contents that ``pages`` read, by content.no
        self.cut: dict[int, tuple[bytes, list[bytes]]] = {}
        self._put: dict[int, Sequence[Chunk]] = {}
        self._contents: set[int] = set()
        self._again: set[int] = set()
        self._former: dict[int, tuple[str, bytes]] = {}  #: sources and ids that pages had
        self._touched: list[tuple[int, int | None]] = []

    def prepare(self, texts: Sequence[tuple[str, Sequence[Chunk]]]) -> Sequence[int]:
        """Write nothing: the index is written while no transaction is open."""
        return ()

    def put(self, content: int, title: str, chunks: Sequence[Chunk]) -> None:
        """Note the chunks of a content row."""
        self._put[content] = chunks
        self._contents.add(content)
        self._renewed.add(content)
        if self._vectors is not None:
            self._digests[content] = index_chunk_digests(title, chunks)

    def remove(self, content: int) -> None:
        """Note that a content row is unused by now, or is written anew."""
        self._put.pop(content, None)
        self._digests.pop(content, None)
        self._contents.add(content)
        self._renewed.add(content)

    def moved(self, contents: Iterable[int]) -> None:
        """Note contents whose original pages may have changed."""
        self._contents.update(contents)

    def again(self, pages: Iterable[int]) -> None:
        """Ask for pages even if the index is known to have them."""
        self._again.update(pages)

    def renamed(self, former: Mapping[int, tuple[str, bytes]]) -> None:
        """Write pages under their new ids, and tombstones under the former ones."""
        self._former.update(former)
        self.again(former)

    def flush(self) -> None:
        """Write the digests of the chunks; the index is written while no transaction is open."""
        if self._renewed:
            delete_remote_chunk_rows(self._connection, self._renewed - self._digests.keys())
            store_remote_chunk_rows(self._connection, self._digests)
        self._renewed, self._digests = set(), {}

    def pages(self, taken: Mapping[int, bytes | None]) -> list[IndexedPage]:
        """Return the pages to write to the index, promotions before removals.

        Pages that it has ``taken``, by number and mark, are left out before they are built.
        """
        names = {"contents": numbers_for_sql(self._contents), "again": numbers_for_sql(self._again)}
        rows: list[Any] = []
        if self._contents or self._again:
            rows = self._connection.execute(_AFFECTED, names).fetchall()
        wanted: dict[int, tuple[str, bytes]] = {}
        gone: list[IndexedPage] = []
        self._touched = []
        for no, source, key, content, entry, sunk, digest in sorted(rows):
            held = content if entry else None
            mark = digest if entry else None
            fresh = no in self._again or (held is not None and held in self._put)
            if not (fresh or held != sunk):
                continue
            self._touched.append((no, held))
            if taken.get(no, b"") == mark:
                continue
            if held is not None:
                wanted[no] = (source, key)
            else:
                gone.append(IndexedPage(no, source, key))
        return [*self._documents(wanted), *gone, *self._tombstones(taken)]

    def _tombstones(self, taken: Mapping[int, bytes | None]) -> Iterator[IndexedPage]:
        """Yield the former pages that the index still has, under negative numbers of their own."""
        for no, (source, key) in sorted(self._former.items()):
            self._touched.append((-no, None))
            if taken.get(-no, b"") is not None:
                yield IndexedPage(-no, source, key)

    def _documents(self, wanted: dict[int, tuple[str, bytes]]) -> list[IndexedPage]:
        found: list[IndexedPage] = []
        if not wanted:
            return found
        images = _images(self._connection, wanted)
        self.cut.clear()
        for row in self._connection.execute(_PAGES, (numbers_for_sql(wanted),)).fetchall():
            no, url, canonical, changed, mime, depth, content, digest, *texts, packed = row
            chunks = self._put.get(content)
            if chunks is None:
                chunks = self._chunked(packed)
            if self._vectors is not None:
                self.cut[content] = (bytes(digest), index_chunk_digests(texts[0], chunks))
            found.append(
                IndexedPage(
                    no,
                    *wanted[no],
                    mark=digest,
                    url=url,
                    canonical_url=canonical,
                    content_group=url_content_group(canonical or url),
                    last_changed=changed,
                    mime_type=(mime or "").partition(";")[0].strip().lower(),
                    depth=depth,
                    title=texts[0],
                    description=texts[1],
                    language=texts[2],
                    chunks=tuple(chunks),
                    images=tuple(images[no]),
                )
            )
        return found if self._vectors is None else self._with_vectors(found)

    def _with_vectors(self, pages: list[IndexedPage]) -> list[IndexedPage]:
        """Return pages with those vectors of their chunks that the registry has by now."""
        assert self._vectors is not None, "the caller looked"
        digests = {page.no: index_chunk_digests(page.title, page.chunks) for page in pages}
        known = self._vectors.of_chunks(self._connection, set().union(*digests.values()))
        return [
            replace(page, vectors={one: known[one] for one in digests[page.no] if one in known})
            for page in pages
        ]

    @property
    def touched(self) -> set[int]:
        """The pages that the transaction touches, as ``pages`` found them."""
        return {no for no, _ in self._touched}

    def note(self, taken: Taken, *, alone: bool) -> bool:
        """Record the state of the index in the registry; the last step of the transaction.

        Pages that the index refused stay open: it still has other content. If this process is not
        ``alone``, pages that another worker is writing under a higher number stay open, too.
        Returns False if another worker has written since: its pages are no longer ``taken``.
        """
        done = [(held, no) for no, held in self._touched if no not in taken.dead]
        if not done:
            return True
        connection = self._connection
        connection.executemany(_HELD, done)
        if self._vectors is not None:
            some = [(taken.vectors.get(no, 0), no) for _, no in done]
            connection.executemany(_HELD_VECTORS, some)
        else:
            connection.execute(_HELD_NO_VECTORS, (numbers_for_sql(no for _, no in done),))
        groups: defaultdict[int, list[int]] = defaultdict(list)
        for _, no in done:
            groups[taken.versions[no]].append(no)
        overtaken: list[int] = []
        for version, group in groups.items():
            names = {"numbers": numbers_for_sql(group), "number": version}
            if alone:
                connection.execute(_DONE, names)
                continue
            rows: Any = connection.execute(_OVERTAKEN, names).fetchall()
            overtaken += [no for (no,) in rows]
            connection.execute(_DONE_UNLESS_OPENED, names)
        connection.execute(_ALIVE, (numbers_for_sql(no for _, no in done),))
        for no in overtaken:
            del taken.marks[no], taken.versions[no]
        return not overtaken


def _images(connection: Connection, pages: Iterable[int]) -> dict[int, list[IndexedImage]]:
    """Return the images of some pages, by their numbers."""
    return {
        no: [IndexedImage(i.id, i.src, i.alt, i.context, i.width, i.height) for i in found]
        for no, found in images_to_index(connection, pages).items()
    }

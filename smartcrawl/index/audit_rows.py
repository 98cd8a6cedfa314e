"""Registry rows that an audit compares with a remote index (ADR 130)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from functools import lru_cache
from typing import Any, Final, NamedTuple

from smartcrawl.index.elasticsearch.documents import index_vectors_hash
from smartcrawl.index.page_vectors import PageVectors
from smartcrawl.model.signatures import unsigned_url
from smartcrawl.model.urls import Trackers, normalize_url, url_digest
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.pack import unpack_stored_links

_PAGE: Final = 2_000  #: records of one statement
_SOURCES = """
SELECT no, name FROM source WHERE :every OR name IN carray(:sources) ORDER BY name
"""
_PAGES = """
SELECT count(*) FROM record r JOIN source o ON o.no = r.source
 WHERE r.entry > 0 AND (:every OR o.name IN carray(:sources))
"""
#: The pages that index/writing.py would write.
_ENTRIES = """
SELECT r.no, r.id, r.url, c.content_hash, c.no
  FROM record r JOIN state s USING (no) JOIN content c ON c.no = r.content
 WHERE r.source = ? AND r.id > ? AND r.entry > 0
 ORDER BY r.id LIMIT ?
"""
_OPEN = """
SELECT r.no, r.id, r.url, ''
  FROM state s JOIN record r USING (no)
 WHERE s.intent > 0 AND r.source = ? AND r.no > ? ORDER BY r.no LIMIT ?
"""
_DEAD = """
SELECT r.no, r.id, r.url, d.reason
  FROM dead_letter d JOIN record r USING (no)
 WHERE r.source = ? AND r.no > ? ORDER BY r.no LIMIT ?
"""
_KNOWN = "SELECT id, no, url FROM record WHERE source = ? AND id IN carray(?)"
_LINKS = """
SELECT l.no, l.raw FROM links l JOIN record r USING (no)
 WHERE r.source = ? AND l.no > ? ORDER BY l.no LIMIT ?
"""
_NONE: Final = PageVectors(None)


class Entry(NamedTuple):
    """A page that belongs in the index."""

    no: int
    id: bytes  #: SHA-256 of the normalized source
    url: str
    content_hash: bytes
    vectors_hash: str = ""  #: of its chunks with a vector (documents.index_vectors_hash)


class Marked(NamedTuple):
    """An open record or a dead letter."""

    no: int
    id: bytes
    url: str
    reason: str  #: why the index refused it; empty for an open record


def audited_sources(connection: Connection, names: Sequence[str]) -> list[tuple[int, str]]:
    """Return (number, name) of some sources, of all where none is named."""
    values = {"every": not names, "sources": Many(names)}
    return [(no, name) for no, name in connection.execute(_SOURCES, values).fetchall()]


def audited_index_page_count(connection: Connection, names: Sequence[str]) -> int:
    """Return the number of pages that belong in the index; of all sources where none is named."""
    values = {"every": not names, "sources": Many(names)}
    return int(connection.execute(_PAGES, values).get)


def audited_entries(
    connection: Connection, source: int, vectors: PageVectors = _NONE
) -> Iterator[Entry]:
    """Yield the pages of a source that belong in the index, in the order of the ids.

    ``vectors`` are those of the index. Each statement reads another moment. A caller without the
    lease may see a run at work.
    """
    last = b""
    while found := connection.execute(_ENTRIES, (source, last, _PAGE)).fetchall():
        some = vectors.chunks_with_one(connection, {row[-1] for row in found})
        for no, key, url, mark, content in found:
            with_one = index_vectors_hash(some.get(content, ()))
            yield Entry(no, bytes(key), url, bytes(mark), with_one)
        last = bytes(found[-1][1])


def audited_open_records(connection: Connection, source: int) -> Iterator[Marked]:
    """Yield the records of a source that a process was writing to the index when it died."""
    return _marked(connection, _OPEN, source)


def audited_dead_letters(connection: Connection, source: int) -> Iterator[Marked]:
    """Yield the records of a source that the index refused."""
    return _marked(connection, _DEAD, source)


def _marked(connection: Connection, statement: str, source: int) -> Iterator[Marked]:
    last = 0
    while found := connection.execute(statement, (source, last, _PAGE)).fetchall():
        yield from (Marked(no, bytes(key), url, reason) for no, key, url, reason in found)
        last = found[-1][0]


def audited_addresses(
    connection: Connection, source: int, ids: Iterable[bytes]
) -> dict[bytes, Any]:
    """Return (number, address) of the records of a source, by their ids."""
    rows = connection.execute(_KNOWN, (source, Many(tuple(ids)))).fetchall()
    return {bytes(key): (no, url) for key, no, url in rows}


def audited_linked_ids(
    connection: Connection, source: int, ids: Set[bytes], trackers: Trackers
) -> set[bytes]:
    """Return those of some ids to whose addresses a page of a source links.

    It reads all links of the source, unless there is no id to look for.
    """
    linked: set[bytes] = set()
    last = 0
    while len(linked) < len(ids) and (
        found := connection.execute(_LINKS, (source, last, _PAGE)).fetchall()
    ):
        for _, raw in found:
            linked |= ids & {_id_of_link(link.url, trackers) for link in unpack_stored_links(raw)}
        last = found[-1][0]
    return linked


@lru_cache(65_536)  # a site's pages have the same menu
def _id_of_link(url: str, trackers: Trackers) -> bytes:
    return url_digest(normalize_url(unsigned_url(url), trackers))

"""The embedded index: FTS5 over chunks, in the registry's file and transaction (design.md 7)."""

from __future__ import annotations

import json
from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from smartcrawl.index.embedded.buffer import Buffer
from smartcrawl.index.queries import phrases
from smartcrawl.model.ports import Connection, Many
from smartcrawl.rules.model import Status

_NEXT = "SELECT coalesce(max(no), 0) + 1 FROM chunk"
_PUT = """
INSERT INTO chunk (no, content, position, title, headings, text) VALUES (?, ?, ?, ?, ?, ?)
"""
_PUT_WORDS = "INSERT INTO chunk_words (rowid, title, headings, text) VALUES (?, ?, ?, ?)"
_HELD = """
SELECT no, content, position, title, headings, text FROM chunk WHERE content IN carray(?)
"""
_MOVE = "UPDATE chunk SET content = ?, position = ? WHERE no = ?"
_REMOVE_WORDS = """
INSERT INTO chunk_words (chunk_words, rowid, title, headings, text)
SELECT 'delete', no, title, headings, text FROM chunk WHERE no IN carray(?)
"""
_REMOVE = "DELETE FROM chunk WHERE no IN carray(?)"
#: bm25 weights: title, headings, text. A page is shown once, by its best chunk.
_SEARCH = """
WITH hit AS (
    SELECT w.rowid AS chunk, k.content AS content, bm25(chunk_words, 8.0, 4.0, 1.0) AS rank
      FROM chunk_words w
      JOIN chunk k ON k.no = w.rowid
      JOIN content c ON c.no = k.content
     WHERE chunk_words MATCH :query
       AND (:sources = '[]' OR c.source IN (SELECT s.no FROM source s, json_each(:sources) j
                                             WHERE s.name = j.value))
     ORDER BY rank LIMIT :pool
)
SELECT hit.chunk, min(hit.rank) AS rank, r.url, o.name, c.title, c.language, c.description,
       s.status, s.lost_count, s.last_checked, r.last_changed, r.no, r.id
  FROM hit
  JOIN content c ON c.no = hit.content
  JOIN record r ON r.content = c.no AND r.entry > 0
  JOIN state s ON s.no = r.no
  JOIN source o ON o.no = r.source
 GROUP BY r.no ORDER BY rank, length(r.url), r.url LIMIT :limit
"""
_TOTAL = "SELECT count(*) FROM chunk_words WHERE chunk_words MATCH :query"
_SNIPPETS = """
SELECT rowid, highlight(chunk_words, 1, :open, :close),
       snippet(chunk_words, 2, :open, :close, ' … ', 32)
  FROM chunk_words WHERE chunk_words MATCH :query AND rowid IN carray(:chunks)
"""
_POOL = 40  #: chunks looked at for each page asked for

_Row = tuple[str, str, str]  #: title, headings, text
_Places = dict[tuple[int, int], None]  #: (content.no, position), of equal rows


class EmbeddedIndex(Buffer):
    """Writes chunks and their words over the registry's connection, in its transaction.

    Changes are buffered until ``flush``, the last step of a batch. FTS5 writes out its own buffer
    whenever another table's statement may have to be rolled back. To do so once a batch instead of
    once a page halves the cost of indexing.
    """

    def flush(self) -> None:
        """Write the additions and removals since the last call.

        A chunk that is removed in one place and added in another keeps its row and its words. So
        only the different chunks of a changed page are written.
        """
        removed, added = self.taken()
        wanted: defaultdict[_Row, _Places] = defaultdict(dict)
        for content, (title, chunks) in added.items():
            for position, chunk in enumerate(chunks):
                row = (title, " > ".join(chunk.headings), chunk.text)
                wanted[row][content, position] = None
        dropped = self._keep(removed, wanted) if removed else array("q")
        rows = self._numbered(wanted)
        self._connection.executemany(_PUT, rows)
        if dropped:
            self._connection.execute(_REMOVE_WORDS, (Many(dropped),))
        self._connection.executemany(_PUT_WORDS, [(row[0], *row[3:]) for row in rows])
        if dropped:
            self._connection.execute(_REMOVE, (Many(dropped),))

    def _keep(self, contents: set[int], wanted: Mapping[_Row, _Places]) -> array[int]:
        """Move chunks of some contents to the places where they are wanted; return the others."""
        moved: list[tuple[int, int, int]] = []
        dropped: list[int] = []
        held: Any = self._connection.execute(_HELD, (Many(sorted(contents)),))
        for no, content, position, title, headings, text in held:
            row, here = (title, headings, text), (content, position)
            places = wanted.get(row)
            if not places:
                dropped.append(no)
                continue
            if here in places:
                del places[here]
            else:
                place, _ = places.popitem()
                moved.append((*place, no))
        self._connection.executemany(_MOVE, moved)
        return array("q", sorted(dropped))

    def _numbered(self, wanted: Mapping[_Row, _Places]) -> list[tuple[int, int, int, *_Row]]:
        """Return the rows of new chunks; chunks of one content are consecutive."""
        number = int(self._connection.execute(_NEXT).get)
        places = sorted((place, row) for row, found in wanted.items() for place in found)
        return [(number + n, *place, *row) for n, (place, row) in enumerate(places)]


@dataclass(frozen=True, slots=True)
class Hit:
    """One page that answers a query."""

    url: str
    source: str
    title: str
    headings: str  #: heading path of the best chunk
    snippet: str
    score: float  #: greater is better
    language: str
    description: str
    lost: bool  #: its last visit found an error; the content is of an earlier visit
    last_checked: int | None  #: Unix seconds
    last_changed: int | None
    no: int = 0  #: number of its record
    key: bytes = b""  #: SHA-256 of the normalized address
    document_id: str = ""  #: id in the index; lastIndexedDocId of its record


def document_id(key: bytes) -> str:
    """Return the id of a page in the embedded index.

    >>> document_id(bytes.fromhex("0b1a"))
    'page_0b1a'

    Source: R0-33, R0-36.
    """
    return f"page_{key.hex()}"


def expression(query: str, *, every: bool) -> str:
    """Return the FTS5 expression of a query; empty if the query has no word.

    Words must all occur in a chunk (``every``) or any of them; "quoted words" stay together.

    >>> expression('don"t  "error code" 42', every=True)
    '"don" "t" "error code" "42"'
    >>> expression('a OR *', every=False)
    '"a" OR "OR"'
    """
    return (" " if every else " OR ").join(f'"{phrase}"' for phrase in phrases(query))


def search(
    connection: Connection,
    query: str,
    *,
    sources: Sequence[str] = (),
    limit: int = 10,
    marks: tuple[str, str] = ("[", "]"),
) -> list[Hit]:
    """Return the pages that answer ``query``, best first; ``sources`` empty means all.

    All words in one chunk come first; where no chunk has them all, any of them counts.
    ``marks`` are put around the words found.
    """
    for every in (True, False):
        match = expression(query, every=every)
        if not match:
            return []
        names: dict[str, Any] = {
            "query": match,
            "sources": json.dumps(list(sources)),
            "limit": limit,
            "pool": max(200, limit * _POOL),
        }
        total: Any = connection.execute(_TOTAL, names).get
        rows = connection.execute(_SEARCH, names).fetchall()
        while len(rows) < limit and names["pool"] < total:
            names["pool"] *= 10  # pages of many chunks took the places of others
            rows = connection.execute(_SEARCH, names).fetchall()
        if rows:
            return _hits(connection, match, rows, marks)
    return []


def _hits(
    connection: Connection, match: str, rows: list[tuple[Any, ...]], marks: tuple[str, str]
) -> list[Hit]:
    names = {
        "query": match,
        "chunks": Many([row[0] for row in rows]),
        "open": marks[0],
        "close": marks[1],
    }
    shown = {chunk: words for chunk, *words in connection.execute(_SNIPPETS, names)}
    return [
        Hit(
            url=url,
            source=source,
            title=title,
            headings=shown[chunk][0],
            snippet=" ".join(shown[chunk][1].split()),
            score=float(f"{-rank:.6g}"),
            language=language,
            description=description,
            lost=status == Status.ERROR or lost_count > 0,
            last_checked=last_checked,
            last_changed=last_changed,
            no=no,
            key=key,
            document_id=document_id(key),
        )
        for chunk, rank, url, source, title, language, description, status, lost_count,
            last_checked, last_changed, no, key in rows
    ]  # fmt: skip

"""Rows of the lists of repeated lines, one a host of a source, and of the marks that they made."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from smartcrawl.model.documents import Document
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.pack import numbers_for_sql, unpack_stored_document
from smartcrawl.rules.model import Word
from smartcrawl.rules.repeated import RepeatedLines

_LISTS: Final = """
SELECT h.name, l.version, l.entries FROM site_list l JOIN host h ON h.no = l.host
 WHERE l.source = ?
"""
_LIST: Final = """
SELECT l.entries FROM site_list l JOIN host h ON h.no = l.host JOIN source s ON s.no = l.source
 WHERE s.name = ? AND h.name = ?
"""
_MADE: Final = "SELECT list_run FROM source WHERE no = ?"
_MADE_NOW: Final = "UPDATE source SET list_run = ? WHERE no = ?"
_RUNS: Final = "SELECT words, reextracted, removed FROM run WHERE source = ? AND no > ?"
_COUNT: Final = "SELECT count(*) FROM content WHERE source = ?"
_PUT: Final = """
INSERT INTO site_list (source, host, version, run, pages, entries)
SELECT ?, no, ?, ?, ?, ? FROM host WHERE name = ?
ON CONFLICT (source, host) DO UPDATE
   SET version = excluded.version, run = excluded.run, pages = excluded.pages,
       entries = excluded.entries
"""
#: Contents with the host of the page that the index has, in their order.
_CONTENTS: Final = """
SELECT c.no, h.name
  FROM content c JOIN record r ON r.content = c.no AND r.entry > 0 JOIN host h ON h.no = r.host
 WHERE c.source = ? AND length(c.document) > 0 AND r.content_type LIKE '%html%'
 ORDER BY h.name, c.no
"""
_DOCUMENTS: Final = (
    "SELECT no, title, language, marked, document FROM content WHERE no IN carray(?)"
)
_MARK: Final = "UPDATE content SET marked = ? WHERE no = ?"
_TEXT: Final = "UPDATE content SET txt = ? WHERE no = ? AND txt IS NOT NULL"
_AT_ONCE: Final = 50  #: documents in memory
#: Words of visits after which a page has another text.
_CHANGED: Final = tuple(word.word for word in (Word.NEW, Word.MODIFIED, Word.MOVED))


class StoredList(NamedTuple):
    """Where lines of a host repeat, and how often the list has changed."""

    version: int
    lines: RepeatedLines


class MarkedContent(NamedTuple):
    """A stored content, and its marks."""

    no: int
    title: str
    language: str  #: ISO 639-1; empty: it is not known
    marked: str  #: see ``extract.repeated``
    document: Document


def site_list_rows(connection: Connection, source: int) -> dict[str, StoredList]:
    """Return the lists of a source (source.no), by host."""
    rows: Any = connection.execute(_LISTS, (source,)).fetchall()
    return {host: StoredList(version, _lines(entries)) for host, version, entries in rows}


def repeated_lines_of_host(connection: Connection, source: str, host: str) -> RepeatedLines | None:
    """Return the lines that repeat on a host of a source (its name); None: it has no list."""
    entries: str | None = connection.execute(_LIST, (source, host)).get
    return None if entries is None else _lines(entries)


def store_site_list_row(
    connection: Connection, source: int, host: str, found: StoredList, *, run: int, pages: int
) -> None:
    """Store the list of a host; the caller opens the transaction."""
    entries = {
        "pairs": sorted([one.hex(), other.hex()] for one, other in found.lines.pairs),
        "places": sorted([line.hex(), at] for line, at in found.lines.places),
    }
    connection.execute(_PUT, (source, found.version, run, pages, json.dumps(entries), host))


def _lines(entries: str) -> RepeatedLines:
    found = json.loads(entries)
    return RepeatedLines(
        frozenset((bytes.fromhex(one), bytes.fromhex(other)) for one, other in found["pairs"]),
        frozenset((bytes.fromhex(line), at) for line, at in found["places"]),
    )


def changes_since_lists(connection: Connection, source: int) -> tuple[int, bool]:
    """Return how many pages changed since the lists of a source were made, and whether any were."""
    made: int = connection.execute(_MADE, (source,)).get
    rows: Any = connection.execute(_RUNS, (source, made)).fetchall()
    changed = 0
    for words, reextracted, removed in rows:
        counts = json.loads(words)
        changed += sum(counts.get(word, 0) for word in _CHANGED) + reextracted + removed
    return changed, made > 0


def note_lists_made(connection: Connection, source: int, run: int) -> None:
    """Note that a run has made the lists of a source; the caller opens the transaction."""
    connection.execute(_MADE_NOW, (run, source))


def count_contents(connection: Connection, source: int) -> int:
    """Return the number of a source's contents."""
    return int(connection.execute(_COUNT, (source,)).get)


def contents_by_host(connection: Connection, source: int) -> dict[str, list[int]]:
    """Return the contents (content.no) of the web pages of a source, by host."""
    rows: Any = connection.execute(_CONTENTS, (source,)).fetchall()
    found: dict[int, str] = {}
    for no, host in rows:
        found.setdefault(no, host)  # pages of several hosts may share one
    hosts: dict[str, list[int]] = {}
    for no, host in found.items():
        hosts.setdefault(host, []).append(no)
    return hosts


def marked_contents(connection: Connection, contents: Sequence[int]) -> Iterator[MarkedContent]:
    """Yield some contents with their marks, a few in memory at once; their spans are counted."""
    for start in range(0, len(contents), _AT_ONCE):
        some = numbers_for_sql(contents[start : start + _AT_ONCE])
        rows: Any = connection.execute(_DOCUMENTS, (some,)).fetchall()
        for no, title, language, marked, packed in sorted(rows):
            document = unpack_stored_document(packed, placed=False)
            yield MarkedContent(no, title, language, marked, document)


def mark_content_row(connection: Connection, content: int, marked: str, text: str) -> None:
    """Store the marks of a content; ``text``: without them. The caller opens the transaction."""
    connection.execute(_MARK, (marked, content))
    connection.execute(_TEXT, (text, content))

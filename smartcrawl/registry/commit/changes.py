"""What changed on the pages of a run: stored with each change, and what changed on many at once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from backports import zstd

from smartcrawl.model.documents import Document
from smartcrawl.model.text_lines import document_text_lines
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.pack import numbers_for_sql, unpack_stored_document
from smartcrawl.rules.changes import (
    ChangedHeading,
    ChangedLine,
    TextChange,
    compare_texts,
    shared_line_digests,
)

#: Of a row of change, for ``unpack_stored_change``.
CHANGE_COLUMNS: Final = "c.words, c.added, c.removed, c.line_count, c.lines, c.detail"
_FORMER: Final = "SELECT title, document FROM content WHERE no = ? AND content_hash <> ?"
_STORE: Final = """
INSERT INTO change (record, run, at, visit_gap, words, added, removed, line_count, lines, detail,
                    body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_COUNT: Final = "SELECT count(*) FROM change WHERE run = ? AND lines IS NOT NULL"
_LINES: Final = """
SELECT no, line_count, lines FROM change WHERE run = ? AND lines IS NOT NULL ORDER BY no
"""
_DETAILS: Final = "SELECT no, lines, detail FROM change WHERE no IN carray(?)"
_FORGET: Final = "DELETE FROM shared_change WHERE run = ?"
_SHARED: Final = """
INSERT INTO shared_change (run, digest, pages, is_added, text) VALUES (?, ?, ?, ?, ?)
"""
_MARK: Final = "UPDATE change SET is_shared = TRUE WHERE no IN carray(?)"
_SAMPLE: Final = 5_000  #: changes of a run in which candidates for shared lines are looked for
_MOST: Final = 200  #: shared lines of a run that are stored, those of the most pages
_SIZE: Final = 8  #: bytes of a digest


class FormerText(NamedTuple):
    """The text of a page before a visit."""

    title: str
    document: bytes  #: as ``pack_stored_document`` packed it; empty in a rehearsal


class StoredChange(NamedTuple):
    """A change of a page as it is stored."""

    text: TextChange
    former_title: str | None  #: None: it is the same


def former_text_row(
    connection: Connection, content: int | None, content_hash: bytes | None
) -> FormerText | None:
    """Return the text of a content that another one is about to replace; None: it is the same."""
    if content is None or content_hash is None:
        return None
    row: Any = connection.execute(_FORMER, (content, content_hash)).fetchone()
    return None if row is None else FormerText(*row)


def store_change_row(
    connection: Connection,
    place: tuple[int, int, int, int | None],
    former: FormerText | None,
    document: Document,
    body: bytes | None,
) -> None:
    """Store that a page was modified, and what changed.

    ``place``: record.no, run.no, Unix seconds, and the seconds since the visit before, None where
    these are not known. ``body``: hash of the body that it had.
    """
    facts: tuple[object, ...] = (None,) * 6
    if former is not None and former.document:
        before = unpack_stored_document(former.document)
        change = compare_texts(document_text_lines(before), document_text_lines(document))
        title = former.title if former.title != document.title else None
        facts = (
            change.words,
            change.added,
            change.removed,
            len(change.lines) + change.more_lines,
            b"".join(line.digest for line in change.lines),
            pack_stored_change(StoredChange(change, title)),
        )
    connection.execute(_STORE, (*place, *facts, body))


def pack_stored_change(stored: StoredChange) -> bytes:
    """Pack headings and lines of a change; its figures and digests have columns."""
    change = stored.text
    value = {
        "headings": change.headings,
        "more": change.more_headings,
        "lines": [(int(line.is_added), line.text, line.words, line.heading)
                  for line in change.lines],
        "title": stored.former_title,
    }  # fmt: skip
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return zstd.compress(text.encode("utf-8", "replace"))


def unpack_stored_change(columns: Sequence[Any]) -> StoredChange | None:
    """Return a change from its ``CHANGE_COLUMNS``; None: how much changed is not known."""
    words, added, removed, line_count, lines, detail = columns
    if words is None:
        return None
    value = json.loads(zstd.decompress(detail))
    kept = tuple(
        ChangedLine(bool(is_added), text, count, heading, digest)
        for (is_added, text, count, heading), digest in zip(
            value["lines"], _digests(bytes(lines)), strict=True
        )
    )
    headings = tuple(ChangedHeading(*heading) for heading in value["headings"])
    more = line_count - len(kept)
    change = TextChange(words, added, removed, headings, value["more"], kept, more)
    return StoredChange(change, value["title"])


def _digests(lines: bytes) -> Iterator[bytes]:
    return (lines[at : at + _SIZE] for at in range(0, len(lines), _SIZE))


def settle_change_rows(connection: Connection, run: int) -> None:
    """Store which lines changed on many pages of a run, and mark pages that changed in no other.

    The caller opens the transaction. Of a large run candidates are looked for in a part of its
    changes, evenly spread, since a line has to be on a tenth of them; then all are counted.
    """
    connection.execute(_FORGET, (run,))
    modified = int(connection.execute(_COUNT, (run,)).get)
    every = -(-modified // _SAMPLE) or 1
    sample = _counted(run_change_rows(connection, run, every=every))
    likely = modified if every == 1 else modified // every // 2  # half of the share is enough here
    candidates = shared_line_digests(sample, likely)
    if not candidates:
        return
    counts = Counter[bytes]()
    first: dict[bytes, int] = {}
    for no, _, digests in run_change_rows(connection, run):
        for digest in candidates.intersection(digests):
            counts[digest] += 1
            first.setdefault(digest, no)
    shared = shared_line_digests(counts, modified)
    whole = [
        no
        for no, line_count, digests in run_change_rows(connection, run)
        if len(digests) == line_count and shared.issuperset(digests)
    ]
    _store_shared(connection, run, {d: counts[d] for d in shared}, first)
    connection.execute(_MARK, (numbers_for_sql(whole),))


def run_change_rows(
    connection: Connection, run: int, *, every: int = 1
) -> Iterator[tuple[int, int, list[bytes]]]:
    """Yield of each change of a run its number, the count of its lines, and their digests.

    A change without a line is left out.
    """
    rows: Any = connection.execute(_LINES, (run,))
    for at, (no, line_count, lines) in enumerate(rows):
        if line_count and at % every == 0:
            yield no, line_count, list(_digests(bytes(lines)))


def _counted(rows: Iterable[tuple[int, int, list[bytes]]]) -> Counter[bytes]:
    return Counter(digest for _, _, digests in rows for digest in set(digests))


def _store_shared(
    connection: Connection, run: int, counts: dict[bytes, int], first: dict[bytes, int]
) -> None:
    most = sorted(counts, key=lambda digest: (-counts[digest], first[digest]))[:_MOST]
    details: Any = connection.execute(_DETAILS, (numbers_for_sql({first[d] for d in most}),))
    said: dict[bytes, tuple[bool, str]] = {}
    for _, lines, detail in details:
        value = json.loads(zstd.decompress(detail))
        for digest, (is_added, text, *_) in zip(
            _digests(bytes(lines)), value["lines"], strict=True
        ):
            said.setdefault(digest, (bool(is_added), text))
    rows = [(run, digest, counts[digest], *said[digest]) for digest in most]
    connection.executemany(_SHARED, rows)

"""The embedded index of a registry in PostgreSQL: stems of chunks in its full-text search."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, Final

from smartcrawl.index.embedded.buffer import Buffer, searchable
from smartcrawl.index.embedded.sqlite import Hit, document_id
from smartcrawl.index.queries import phrases
from smartcrawl.model.documents import Chunk
from smartcrawl.model.ports import Connection, Many
from smartcrawl.rules.model import Status

_AT_ONCE: Final = 500  #: chunks of one statement
_NUMBERS = """
SELECT nextval(pg_get_serial_sequence('content', 'no')) FROM generate_series(1, ?)
"""
_REMOVE = "DELETE FROM chunk WHERE content IN carray(?)"
_PUT = """
INSERT INTO chunk (content, position, title, headings, text, words)
SELECT content, position, title, headings, text,
       setweight(to_tsvector('stems', in_title), 'A')
       || setweight(to_tsvector('stems', in_headings), 'B') || to_tsvector('stems', in_text)
  FROM unnest(?::bigint[], ?::integer[], ?::text[], ?::text[], ?::text[], ?::text[], ?::text[],
              ?::text[])
       AS chunks (content, position, title, headings, text, in_title, in_headings, in_text)
"""
_SEARCH = """
WITH hit AS (
    SELECT k.no AS chunk, k.content AS content, ts_rank_cd(k.words, {query}, 1) AS rank
      FROM chunk k JOIN content c ON c.no = k.content
     WHERE k.words @@ {query}
       AND (:every OR c.source IN (SELECT no FROM source WHERE name IN carray(:sources)))
),
best AS (
    SELECT DISTINCT ON (r.no) r.no, hit.chunk, hit.rank
      FROM hit JOIN record r ON r.content = hit.content AND r.entry > 0
     ORDER BY r.no, hit.rank DESC, hit.chunk
)
SELECT b.rank, r.url, o.name, c.title, c.language, c.description, s.status, s.lost_count,
       s.last_checked, r.last_changed, r.no, r.id,
       ts_headline('stems', translate(k.headings, :joints, :gaps), {query}, :whole),
       ts_headline('stems', translate(k.text, :joints, :gaps), {query}, :part)
  FROM best b
  JOIN record r USING (no)
  JOIN chunk k ON k.no = b.chunk
  JOIN content c ON c.no = r.content
  JOIN state s ON s.no = r.no
  JOIN source o ON o.no = r.source
 ORDER BY b.rank DESC, length(r.url), r.url LIMIT :limit
"""

#: Characters that PostgreSQL reads as parts of tags, paths, hosts and numbers.
_JOINTS: Final = "<&/.-_@+:"
_GAPS: Final = "".join(map(chr, range(0x10, 0x10 + len(_JOINTS))))  #: their substitutes
_WHOLE: Final = str.maketrans(_GAPS, _JOINTS)
_BETWEEN_WORDS: Final = re.compile(r"[^\w\s]+|_+")
#: The same for ASCII, where it takes a tenth of the time.
_SPACED: Final = {code: " " for code in range(128) if _BETWEEN_WORDS.fullmatch(chr(code))}


class PostgresIndex(Buffer):
    """Writes chunks and their words over the registry's connection, in its transaction."""

    def prepare(self, texts: Sequence[tuple[str, Sequence[Chunk]]]) -> Sequence[int]:
        """Write chunks under unused content numbers (``ports.Sink``).

        Finding its words is most of the cost of a new page. Workers that share a run commit one
        after another, and would wait for each other's words.
        """
        numbers = [no for (no,) in self._connection.execute(_NUMBERS, (len(texts),)).fetchall()]
        self._write(
            (number, title, searchable(chunks))
            for number, (title, chunks) in zip(numbers, texts, strict=True)
        )
        return numbers

    def flush(self) -> None:
        """Write the additions and removals since the last call."""
        removed, added = self.taken()
        if removed:
            self._connection.execute(_REMOVE, (Many(sorted(removed)),))
        self._write((content, title, chunks) for content, (title, chunks) in sorted(added.items()))

    def _write(self, contents: Iterable[tuple[int, str, Sequence[Chunk]]]) -> None:
        rows: list[tuple[Any, ...]] = []
        for content, title, chunks in contents:
            for position, chunk in enumerate(chunks):
                texts = (title, " > ".join(chunk.headings), chunk.text)
                rows.append((content, position, *texts, *map(searched, texts)))
        for start in range(0, len(rows), _AT_ONCE):
            columns = zip(*rows[start : start + _AT_ONCE], strict=True)
            self._connection.execute(_PUT, tuple(map(Many, columns)))


def searched(text: str) -> str:
    """Return the words of a text as FTS5 would index them.

    Diacritics are removed. A word ends where letters and digits end.

    >>> searched("<i>/docs/cafés.html</i>").split()
    ['i', 'docs', 'cafes', 'html', 'i']
    """
    if text.isascii():
        return text.translate(_SPACED)
    parted = unicodedata.normalize("NFKD", text)
    text = "".join(letter for letter in parted if not unicodedata.combining(letter))
    return _BETWEEN_WORDS.sub(" ", text)


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
    words = [searched(phrase) for phrase in phrases(query)]
    if not words:
        return []
    start, stop = (mark.replace('"', "") for mark in marks)
    shape = f'StartSel="{start}",StopSel="{stop}"'
    names: dict[str, Any] = {
        "sources": Many(sources),
        "every": not sources,
        "limit": limit,
        "joints": _JOINTS,
        "gaps": _GAPS,
        "whole": f"{shape},HighlightAll=true",
        "part": f"{shape},MaxWords=32,MinWords=16",
    }
    names |= {f"word_{letter_of(place)}": word for place, word in enumerate(words)}
    tests = [f"phraseto_tsquery('stems', :word_{letter_of(n)})" for n in range(len(words))]
    for joint in (" && ", " || "):
        statement = _SEARCH.format(query=f"({joint.join(tests)})")
        rows = connection.execute(statement, names).fetchall()
        if rows:
            return [_hit(row) for row in rows]
    return []


def letter_of(place: int) -> str:
    """Return a number in letters, for the name of a value.

    >>> letter_of(0), letter_of(27)
    ('a', 'bb')
    """
    return chr(ord("a") + place % 26) * (1 + place // 26)


def _hit(row: Sequence[Any]) -> Hit:
    rank, url, source, title, language, description, status, lost_count = row[:8]
    return Hit(
        url=url,
        source=source,
        title=title,
        headings=row[12].translate(_WHOLE),
        snippet=" ".join(row[13].translate(_WHOLE).split()),
        score=float(f"{rank:.6g}"),
        language=language,
        description=description,
        lost=status == Status.ERROR or lost_count > 0,
        last_checked=row[8],
        last_changed=row[9],
        no=row[10],
        key=bytes(row[11]),
        document_id=document_id(row[11]),
    )

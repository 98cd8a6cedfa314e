"""Chunks of pages that a search rates: the first ones, and those far down that have its words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from smartcrawl.index.embedded.conditions import IndexLanguage, fts5_value_letters
from smartcrawl.index.proposing import proposing_search_terms
from smartcrawl.index.queries import Term
from smartcrawl.index.ranking import MOST_PARTS, Ranked, RankedPart, rate_far_parts
from smartcrawl.registry.connection import Connection, Many

_MOST_FAR: Final = 20  #: chunks of one page beyond those that are always looked at
_PARTS = """
SELECT content, no, headings, text, position FROM chunk
 WHERE content IN carray(:contents) AND position < :most ORDER BY content, position
"""
#: Chunks with a word. The sign keeps SQLite from asking FTS5 about each chunk of the pages.
_FAR = """
SELECT {place} AS place, k.content AS content, k.position AS position, k.no AS no FROM {match}
   AND +k.content IN carray(:contents) AND k.position >= :most
"""
_SOME = "SELECT content, no, headings, text, position FROM chunk WHERE no IN carray(:chunks)"

Counts = Callable[[Sequence[Term]], Sequence[int]]
_Parts = dict[int, list[RankedPart]]


def first_parts(connection: Connection, contents: Many) -> _Parts:
    """Return the chunks of some contents that a search always looks at, in order."""
    values = {"contents": contents, "most": MOST_PARTS}
    return _parts(connection.execute(_PARTS, values).fetchall())


def with_far_parts(
    connection: Connection,
    language: IndexLanguage,
    ranked: Sequence[Ranked],
    words: tuple[Sequence[Term], Sequence[float]],
    counts: Counts,
) -> list[Ranked]:
    """Return rated pages whose best chunks may be far down; scores and order stay.

    ``words``: those of the query that some page has, with their weights. ``counts`` returns the
    number of chunks that have each word.
    """
    terms, weights = words
    contents = [one.page.key for one in ranked if one.found and len(one.page.parts) == MOST_PARTS]
    if not contents or not terms:
        return list(ranked)
    asked = {
        place: language.value(terms[place].text) for place in proposing_search_terms(counts(terms))
    }
    found = _places_of_chunks(connection, language, asked, contents)
    chosen = [no for chunks in found.values() for no in _best_chunks(chunks, weights)]
    far = _parts(connection.execute(_SOME, {"chunks": Many(sorted(chosen))}).fetchall())
    return [
        rate_far_parts(one, far[one.page.key], terms, weights) if one.page.key in far else one
        for one in ranked
    ]


_Chunks = dict[int, tuple[int, set[int]]]  #: position, and places of the words; by chunk.no


def _places_of_chunks(
    connection: Connection,
    language: IndexLanguage,
    words: Mapping[int, str],
    contents: Collection[int],
) -> dict[int, _Chunks]:
    """Return the far chunks of some contents that have any of some words.

    ``words``: the values that match them, by their places among the words of the query.
    """
    names = {place: f"word_{fts5_value_letters(place)}" for place in words}
    statement = " UNION ALL ".join(
        _FAR.format(place=place, match=language.match(name)) for place, name in names.items()
    )
    asked: dict[str, object] = {name: words[place] for place, name in names.items()}
    asked |= {"contents": Many(sorted(contents)), "most": MOST_PARTS}
    found: dict[int, _Chunks] = defaultdict(dict)
    for place, content, position, no in connection.execute(statement, asked).fetchall():
        found[content].setdefault(no, (position, set()))[1].add(place)
    return found


def _best_chunks(chunks: _Chunks, weights: Sequence[float]) -> list[int]:
    """Return the chunks that have most of the words, the first of equal ones."""

    def order(no: int) -> tuple[float, int]:
        position, places = chunks[no]
        return -sum(weights[place] for place in places), position

    return sorted(chunks, key=order)[:_MOST_FAR]


def _parts(rows: Sequence[Sequence[int | str]]) -> _Parts:
    found: defaultdict[int, list[RankedPart]] = defaultdict(list)
    for content, no, headings, text, position in rows:
        found[int(content)].append(RankedPart(no, str(headings), str(text), int(position)))
    return found

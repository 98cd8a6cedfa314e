"""Pages that are near to a query in meaning, joined with those that have its words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from smartcrawl.index.embedded.near_chunks import NearPage, nearest_chunks
from smartcrawl.index.embedded.vectors import VectorQuery
from smartcrawl.index.ranking import MOST_SHOWN, ProposedPage, Ranked, RankedPart
from smartcrawl.registry.connection import Connection
from smartcrawl.rules.vectors import fuse, keep_places


def joined_index_rankings(
    by_words: Sequence[Ranked],
    pages: Mapping[Any, ProposedPage],
    near: Sequence[NearPage],
    *,
    fused: bool,
    is_question: bool,
    lacking: Mapping[Any, bool] | None = None,
    text: Sequence[Ranked] = (),
) -> list[Ranked]:
    """Return the pages near to a query, best first; with ``fused`` also those with its words.

    Three lists are joined (ADR 80): the pages as their words rank them, the same pages by
    the words of their best chunk alone, and those that are near. With ``is_question`` the last one
    counts twice, as much as both others (ADR 91).
    Of a page with words of the query the part is that of the words, which are marked in it; of any
    other it is the nearest one. The score of a page that is only near is the cosine, 1 for equal
    meanings; a joined score is that of ``rules.fusion``.
    ``lacking``: pages with chunks that have no vector, and whether they have any. None of them
    comes behind its place among ``text``, the pages as a search by words ranks them; without any
    vector that is its place.
    """
    known = {one.page.key: one for one in by_words}
    found = {page.content: page for page in near if page.content in pages}
    if not fused:
        return [
            _nearest(pages[content], page, 1 - page.distance**2 / 2)
            for content, page in found.items()
        ]
    densest = [one.page.key for one in sorted(by_words, key=_density)]
    joined = []
    for content, score in fuse([list(known), densest, *[list(found)] * (1 + is_question)]):
        if content in known:
            joined.append(known[content]._replace(score=score))
        else:
            joined.append(_nearest(pages[content], found[content], score))
    return _with_places_kept(joined, [*text, *by_words], lacking) if lacking else joined


def _with_places_kept(
    joined: Sequence[Ranked], by_words: Sequence[Ranked], lacking: Mapping[Any, bool]
) -> list[Ranked]:
    """Return joined pages with those that lack vectors no later than by words; scores fall."""
    places: dict[Any, int] = {}
    before: set[str] = set()  # addresses: a page that several sources have is one hit
    for one in by_words:
        if one.page.key in lacking:
            places.setdefault(one.page.key, len(before - {one.page.url}))
        before.add(one.page.url)
    ranked = {one.page.key: one for one in joined}
    fixed = {key for key in places if not lacking[key]}
    kept, least = [], 0.0
    for key in reversed(keep_places(list(ranked), places, fixed)):
        least = max(least, ranked[key].score)
        kept.append(ranked[key]._replace(score=least))
    return kept[::-1]


def parts_of_hits(
    connection: Connection, best: Sequence[Ranked], near: VectorQuery | None
) -> list[list[RankedPart]]:
    """Return the parts to show of each of some pages, best first, by one query for all.

    First the part of the ranking, then those with words of the query and those near to it, joined
    by their ranks. ``near`` None: only words count.
    """
    nearest = {}
    if near is not None:
        contents = [one.page.key for one in best]
        nearest = nearest_chunks(connection, near, contents, MOST_SHOWN)
    return [_parts_of_hit(one, nearest.get(one.page.key, ())) for one in best]


def _parts_of_hit(one: Ranked, nearest: Sequence[RankedPart]) -> list[RankedPart]:
    if one.part is None:
        return []
    by_words = [one.part, *one.others] if one.found else []
    known = {part.key: part for part in (one.part, *one.others, *nearest)}
    lists = [[part.key for part in by_words], [part.key for part in nearest]]
    keys = dict.fromkeys([one.part.key, *(key for key, _ in fuse(lists))])
    return [known[key] for key in keys][:MOST_SHOWN]


def _density(one: Ranked) -> float:
    return -one.densest


def _nearest(page: ProposedPage, near: NearPage, score: float) -> Ranked:
    part = next((part for part in page.parts if part.key == near.chunk), None)
    return Ranked(page, score, part or RankedPart(near.chunk, "", ""), 0)

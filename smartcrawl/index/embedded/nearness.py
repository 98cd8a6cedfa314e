"""Pages that are near to a query in meaning, joined with those that have its words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from smartcrawl.index.embedded.vectors import NearPage
from smartcrawl.index.ranking import ProposedPage, Ranked, RankedPart
from smartcrawl.rules.fusion import fuse


def joined_rankings(
    by_words: Sequence[Ranked],
    pages: Mapping[Any, ProposedPage],
    near: Sequence[NearPage],
    *,
    fused: bool,
) -> list[Ranked]:
    """Return the pages near to a query, best first; with ``fused`` also those with its words.

    Of a page with words of the query the part is that of the words, which are marked in it; of any
    other it is the nearest one. The score of a page that is only near is the cosine, 1 for equal
    meanings; a joined score is that of ``rules.fusion``.
    """
    known = {one.page.key: one for one in by_words}
    found = {page.content: page for page in near if page.content in pages}
    if not fused:
        return [
            _nearest(pages[content], page, 1 - page.distance**2 / 2)
            for content, page in found.items()
        ]
    joined = []
    for content, score in fuse([list(known), list(found)]):
        if content in known:
            joined.append(known[content]._replace(score=score))
        else:
            joined.append(_nearest(pages[content], found[content], score))
    return joined


def _nearest(page: ProposedPage, near: NearPage, score: float) -> Ranked:
    part = next((part for part in page.parts if part.key == near.chunk), None)
    return Ranked(page, score, part or RankedPart(near.chunk, "", ""), 0)

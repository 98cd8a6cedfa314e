"""The steps of a search that all indexes share: correct and relax a query, weigh its words.

An index proposes pages; ``ranking`` sorts them (ADR 48).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from smartcrawl.index.queries import MOST, Query, Term
from smartcrawl.index.ranking import POOL, search_term_weight
from smartcrawl.index.spelling import SpellingFound, corrected_search_query

MOST_PROPOSED: Final = 1_000  #: pages that are rated for one query
_COMMON: Final = 10_000  #: chunks of a word that is common
_ENOUGH: Final = 2_000  #: chunks of rarer words that are enough to propose pages


class Proposal(Protocol):
    """Pages that an index proposes for a query."""

    @property
    def pages(self) -> list[int]:
        """For each term of the query, how many pages have it."""

    @property
    def total(self) -> int:
        """The number of all pages."""

    @property
    def is_empty(self) -> bool:
        """Whether no page is proposed."""


_P_co = TypeVar("_P_co", bound=Proposal, covariant=True)


class Proposer(Protocol[_P_co]):
    """An index that proposes pages."""

    def proposed(self, query: Query, pool: int) -> _P_co:
        """Return at most ``pool`` pages that have any of the words, and all that is required."""

    def nearest(self, word: str, far: bool) -> SpellingFound:
        """Return the words of the index that differ from a word by one error, or two (``far``)."""


def search_pool(limit: int, offset: int, query: Query) -> int:
    """Return how many pages to propose for a page of hits.

    Of a word like C++ an index knows the C alone, so all that it may propose are looked at.
    """
    is_first = limit <= POOL and not offset
    return POOL if is_first and not any(t.signed for t in query.terms) else MOST_PROPOSED


def existing_search_terms(
    terms: Sequence[Term], counted: Callable[[Sequence[Term]], Sequence[int]]
) -> Sequence[Term]:
    """Return the first words of a long query that an index has; of a short query, all.

    ``counted`` returns how often the index has each of at most ``MOST`` words.
    """
    found: list[Term] = []
    for start in range(0, len(terms), MOST) if len(terms) > MOST else ():
        some = terms[start : start + MOST]
        found += [term for term, count in zip(some, counted(some), strict=True) if count]
        if len(found) >= MOST:
            break
    return (found or terms)[:MOST]


def propose_search_hits(
    text: str, asked: Query, index: Proposer[_P_co], limit: int, offset: int = 0
) -> tuple[Query, _P_co, str]:
    """Return the query that is answered, the pages proposed for it, and its corrected text.

    Unknown words are corrected first. While no page is found, less is required. The text is empty
    if no word was corrected. All pages of hits but the first have the same proposals, so that none
    repeats a hit of another.
    """
    pool = search_pool(limit, offset, asked)
    found, meant = index.proposed(asked, pool), ""
    if 0 in found.pages:
        terms, meant = corrected_search_query(text, asked.terms, found.pages, index.nearest)
        if meant:
            asked = asked.only(terms)
            found = index.proposed(asked, pool)
    while found.is_empty and (relaxed := asked.relaxed(found.pages)) is not None:
        asked = relaxed
        found = index.proposed(asked, pool)
    return asked, found, meant


def proposing_search_terms(counts: Sequence[int]) -> list[int]:
    """Return the places of the words by which pages are proposed, given their numbers of chunks.

    Very common words are left out where rarer ones have enough pages: to look up their pages would
    take most of the time. They count in the ranking all the same.

    >>> (
    ...     proposing_search_terms([3_000, 200_000, 40]),
    ...     proposing_search_terms([200_000, 90_000]),
    ...     proposing_search_terms([200_000, 40]),
    ... )
    ([0, 2], [1], [0, 1])
    """
    found: list[int] = []
    chunks = 0
    for count, place in sorted((count, place) for place, count in enumerate(counts)):
        if chunks < _ENOUGH or count < _COMMON:
            found.append(place)
            chunks += count
    return sorted(found)


def weighed_search_terms(
    query: Query, found: Proposal
) -> tuple[dict[int, int], list[Term], list[float]]:
    """Return the terms that some page has, with their weights.

    First their new places by their places in the query.
    """
    known = [place for place, pages in enumerate(found.pages) if pages]
    terms = [query.terms[place] for place in known]
    weights = [search_term_weight(found.pages[place], found.total) for place in known]
    return {place: n for n, place in enumerate(known)}, terms, weights

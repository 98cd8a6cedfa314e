"""The places of the words of a query in chunks, out of the index alone (ADR 161)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from smartcrawl.index.analysis.stems import (
    ANY_END,
    Keys,
    asked_keys,
    asked_keys_of_languages,
    index_keys,
)
from smartcrawl.index.queries import Term
from smartcrawl.index.ranking import (
    LEAD_LENGTH,
    LEAD_PARTS,
    PAGES,
    PageCounts,
    PartCounts,
    RankedPart,
    url_words,
)

WINDOW: Final = 160  #: chunks whose words are counted for the first pages of hits
WIDE: Final = 4_000  #: the same for all further ones
_MOST_COUNTED: Final = 8  #: chunks of one further page


class ChunkFacts(NamedTuple):
    """A chunk without its text: its content, and its place in it."""

    no: int
    content: int
    position: int
    page: Any  #: the same for contents of several sources that are equal


class ChunksAsked(NamedTuple):
    """The request for the chunks that an index proposes.

    Chunks of equal rank are in the order of their hashes, then of those of their contents, of the
    names of their sources and of their places: of what is in the pages, whichever came first.
    """

    words: Sequence[Sequence[Keys]]  #: the keys of each word, of which they have any
    weights: Sequence[float]  #: of the words
    conditions: str  #: on the content ``c`` and on ``p.content``; empty: none
    values: Mapping[str, Any]  #: of the conditions
    most: int  #: chunks
    matching: int  #: chunks that have any of the words, at most


class ChunkPlaces(NamedTuple):
    """Where a chunk has the phrases of a query."""

    title_length: int  #: words
    length: int  #: words of its text and of the descriptions of its pictures
    text: int  #: words of its text alone
    #: For each phrase its places in title, headings, text and descriptions, in this order.
    phrases: Sequence[Sequence[Sequence[int]]]
    headings: str = ""  #: if any of the phrases is there


class Window(NamedTuple):
    """The best chunks of an index for a query, by page."""

    chunks: Mapping[int, Sequence[ChunkFacts]]  #: by content, in the order of their proposal
    first: int  #: pages that are rated before the others
    more: bool  #: whether the index may have other pages
    different: int  #: pages that differ, among all of these
    is_short: bool  #: whether the first pages may have further chunks


def window_of_chunks(best: Sequence[ChunkFacts], *, more: bool, are_all: bool) -> Window:
    """Return the pages of chunks, which are given best first: the first ones, or all.

    The first ``PAGES`` pages have those of the first ``WINDOW`` chunks that are theirs, however
    many follow: their scores do not depend on that. A page that several sources have counts once,
    and so do its chunks. ``more``: whether other chunks follow.
    """
    found: dict[int, list[ChunkFacts]] = {}
    pages: set[Any] = set()
    looked_at: set[tuple[Any, int]] = set()
    for number, chunk in enumerate(best):
        _, content, position, page = chunk
        looked_at.add((page, position))
        if number >= WINDOW and len(looked_at) > WINDOW:
            break
        if page in pages or len(pages) < PAGES:
            pages.add(page)
            if content in found:
                found[content].append(chunk)
            else:
                found[content] = [chunk]
    before, is_short = len(found), more and len(looked_at) < WINDOW
    if not are_all:
        more = more or any(chunk.content not in found for chunk in best)
        return Window(found, before, more, len(pages), is_short)
    known = set(found)
    for chunk in best:
        if chunk.content not in known:
            some = found.setdefault(chunk.content, [])
            if len(some) < _MOST_COUNTED:
                some.append(chunk)
    return Window(found, before, more, len({chunk.page for chunk in best}), is_short)


class AskedPhrases:
    """The phrases by which an index is asked for the words of a query."""

    def __init__(
        self,
        terms: Sequence[Term],
        languages: Sequence[str],
        former: Sequence[Sequence[Keys]] = (),
        gains: Mapping[Keys, float] = MappingProxyType({}),
    ) -> None:
        """``former``: for each term the keys by which words of a former version are asked for.

        ``gains``: what a chunk gains that has the key of a name.
        """
        self._terms, self._former = terms, former
        of_terms = [asked_keys_of_languages(term.text, languages) for term in terms]
        self.of_terms = [
            tuple(dict.fromkeys([*keys, *(former[n] if former else ())]))
            for n, keys in enumerate(of_terms)
        ]
        self.phrases = list(dict.fromkeys(keys for some in self.of_terms for keys in some))
        self._places = {keys: n for n, keys in enumerate(self.phrases)}
        self.gains = list(enumerate(gains.values(), len(self.phrases)))
        self.phrases += gains
        self._by_language: dict[str, list[tuple[int, int]]] = {}

    def terms_of_language(self, language: str) -> list[tuple[int, int]]:
        """Return phrases with their terms in texts of a language, by the places of both.

        A phrase that belongs to two terms counts as the one that has it first.
        """
        found = self._by_language.get(language)
        if found is None:
            asked = [
                [*(asked_keys(term.text, language) or (term.stems,)), *some]
                for term, some in zip(self._terms, self._former or [()] * len(self._terms),
                                      strict=True)
            ]  # fmt: skip
            terms: dict[int, int] = {}
            for rank in range(max(map(len, asked), default=0)):
                for n, forms in enumerate(asked):
                    for keys in forms[rank : rank + 1]:
                        if keys in self._places:
                            terms.setdefault(self._places[keys], n)
            found = self._by_language[language] = list(terms.items())
        return found


class CountedAs(NamedTuple):
    """A page as its words are counted: its address, its length and the terms of the query."""

    url: Collection[int]  #: terms that its address has
    length: int  #: words of all of its texts
    many: int  #: terms of the query
    gains: Sequence[tuple[int, float]] = ()  #: of phrases that are names


def counted_page(
    chunks: Sequence[ChunkFacts],
    places: Mapping[int, ChunkPlaces],
    terms: Sequence[tuple[int, int]],
    page: CountedAs,
) -> tuple[list[RankedPart], PageCounts]:
    """Return the parts of a page, without their texts, and what they have of a query's terms.

    ``terms``: those of phrases (``AskedPhrases.terms_of_language``).
    """
    parts: list[RankedPart] = []
    counted: list[PartCounts] = []
    title: set[int] = set()
    title_length = 0
    lead = [0] * page.many
    before, expected = 0, 0  # words and parts that are known to come first
    for chunk in sorted(chunks, key=_position) if len(chunks) > 1 else chunks:
        known = places.get(chunk.no)
        if known is None:  # it was removed meanwhile
            continue
        above: set[int] = set()
        found: list[tuple[int, int]] = []
        phrases = known.phrases
        for phrase, term in terms:
            in_title, in_headings, in_text, in_pictures = phrases[phrase]
            if in_title:
                title.add(term)
            if in_headings:
                above.add(term)
            if in_text:
                found += [(at, term) for at in in_text]
            if in_pictures:
                found += [(known.text + at, term) for at in in_pictures]
        if len(found) > 1:
            found.sort()
        title_length = known.title_length
        if chunk.position == expected < LEAD_PARTS and before < LEAD_LENGTH:
            for at, term in found:
                lead[term] += before + at < LEAD_LENGTH
            before, expected = before + known.length, expected + 1
        parts.append(
            RankedPart(chunk.no, known.headings, "", chunk.position, "", found, None, bool(above))
        )
        named = 0.0
        for phrase, gain in page.gains:
            if gain > named and any(phrases[phrase]):
                named = gain
        counted.append(PartCounts(found, known.length, above, named))
    return parts, PageCounts(title, title_length, page.url, lead, page.length, counted)


def terms_of_counts(counts: PageCounts) -> frozenset[int]:
    """Return the terms that an index finds in a page."""
    in_parts = {term for part in counts.parts for _, term in part.places}
    return frozenset(in_parts.union(counts.title, *(part.above for part in counts.parts)))


def _position(chunk: ChunkFacts) -> int:
    return chunk.position


class AddressWords:
    """Finds the words of a query in addresses."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self._terms = terms
        self._by_language: dict[str, tuple[dict[str, int], list[tuple[Keys, int]]]] = {}

    def terms(self, url: str, language: str) -> set[int]:
        """Return the terms that an address of a page in a language has."""
        single, others = self._by_language.get(language) or self._of(language)
        known = _address_keys(url, language)
        found = {single[key] for key in known if key in single}
        for keys, n in others:
            if keys[0].endswith(ANY_END):
                is_there = any(key.startswith(keys[0][:-1]) for key in known)
            else:
                is_there = any(known[at : at + len(keys)] == keys for at in range(len(known)))
            if is_there:
                found.add(n)
        return found

    def _of(self, language: str) -> tuple[dict[str, int], list[tuple[Keys, int]]]:
        """Return terms by their keys, those of one key alone apart from all others."""
        asked: dict[Keys, int] = {}
        for n, term in enumerate(self._terms):
            for keys in term.keys(language):
                asked.setdefault(keys, n)
        single = {
            keys[0]: n
            for keys, n in asked.items()
            if len(keys) == 1 and not keys[0].endswith(ANY_END)
        }
        others = [(keys, n) for keys, n in asked.items() if keys[0] not in single or len(keys) > 1]
        found = self._by_language[language] = single, others
        return found


@lru_cache(20_000)
def _address_keys(url: str, language: str) -> Keys:
    return tuple(index_keys(url_words(url), language))

"""One ranking for all indexes, of the pages that an index proposes (ADR 48).

A word counts by how rare it is and where it occurs: title, address, first lines, headings, text.
A page is rated by its best part, and as a whole. The counts come out of an index (ADR 161), or are
taken of the texts.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise, takewhile
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from smartcrawl.index.analysis.stems import BEGINNING, KeyFinder, Keys, index_keys, index_words
from smartcrawl.index.queries import QueryName, Term
from smartcrawl.rules.vectors import fuse, keep_places

POOL: Final = 60  #: pages that an index proposes for the first hits, at most
PAGES: Final = 30  #: pages of these that are rated before all others
MOST_PARTS: Final = 150  #: parts of a page that are looked at
MOST_SHOWN: Final = 3  #: parts of a page that a hit has

# Tuned by bench/quality --half tuning. Halving or doubling any of them changes little.
_TITLE: Final = 16.0  #: weight of an occurrence in a title of a few words
_COVERED: Final = 0.6  #: weight of the words of a title that has few others
_URL: Final = 2.0
_HEADINGS: Final = 1.2  #: weight of an occurrence in the headings of a page that has few of them
_LEAD: Final = 0.5
_BODY: Final = 0.125
_HALF: Final = 1.0  #: occurrences that count half of what any number would
_PAGE_LENGTH: Final = 1_200  #: words of a usual page
_PAGE_BY_LENGTH: Final = 0.4  #: 0: length does not matter; 1: it matters in full
_PART_LENGTH: Final = 120  #: words of a usual part
_SECTION: Final = 250  #: words below one heading of a usual page
_PART_BY_LENGTH: Final = 0.3
_PART: Final = 1 / 16  #: weight of the best part, beside the whole page
_NEARNESS: Final = 0.3  #: weight of words that are near to each other
LETTERS: Final = 6  #: of a usual word, with the space behind it
_NEAR: Final = 6  #: words between two words that count as near
LEAD_LENGTH: Final = 80  #: words at the beginning of a page
LEAD_PARTS: Final = 3  #: parts of a page in which these are
_FOUND: Final = 0.3  #: power of the share that a page has of the words of a query
_MANY: Final = 3  #: words of a query for which that counts, at least
_NAMED: Final = 2.0  #: weight of a name, beside its words
_NAMED_END: Final = 0.8  #: the same of a longer name that ends with it
_EXACT: Final = 0.03  #: weight of a word as it is written in the query, beside its other forms
_EXACT_PARTS: Final = 10  #: parts of a page in which they are looked for
_EXACT_PAGES: Final = 12  #: pages that are rated by them, where counts come out of an index
_SHORTEST: Final = 3  #: letters of a stem by whose first one alone it is looked for
_SUFFIXED: Final = frozenset({"", "en"})  #: languages whose stems differ from words at the end only
_FEW: Final = 3  #: words of a short query
_MOST: Final = 0.5  #: share of the words of a short query that a page must have more of
_SOME: Final = 0.4  #: the same of a longer one

#: Signs between a title and that of its site.
_TITLE_SIGNS: Final = re.compile(r" (?:[—–|·:»]|-{1,3}) |: ")
_SHARING: Final = 4  #: pages that show whether titles have something in common, at least


class RankedPart(NamedTuple):
    """A chunk of a page."""

    key: Any
    headings: str
    text: str
    number: int = 0  #: its place in its page, from 0
    pictures: str = ""  #: descriptions of its pictures
    #: Places of the words of a query in ``searched``, as an index has them: of the word of the
    #: text, and of that of the query. None: they are not known.
    places: Sequence[tuple[int, int]] | None = None
    anchors: str | None = None  #: places in it to which a link leads, as they are stored
    has_above: bool = True  #: whether its headings may have words of a query

    @property
    def searched(self) -> str:
        """Its text, and the descriptions of its pictures."""
        return f"{self.text}\n{self.pictures}" if self.pictures else self.text


class PartCounts(NamedTuple):
    """Where a part has words of a query."""

    places: Sequence[tuple[int, int]]  #: in its text, in order: of the word, and of the term
    length: int  #: words of its text
    above: Collection[int]  #: terms that its headings have
    named: float = 0.0  #: what it gains by a name that is asked for (``named_gain``)


class PageCounts(NamedTuple):
    """Where a page has words of a query, each by the place of its term."""

    title: Collection[int]  #: terms that its title has
    title_length: int  #: words
    url: Collection[int]  #: terms that its address has
    lead: Sequence[int]  #: for each term, how often its first words have it
    length: int  #: words of all of its texts
    parts: Sequence[PartCounts]  #: of its parts, in the same order


class ProposedPage(NamedTuple):
    """A page that an index proposes."""

    key: Any  #: of equal pages of one source, the one with the lower key comes first
    url: str
    title: str
    parts: Sequence[RankedPart]
    matched: frozenset[int]  #: places of the terms that the index found in it
    language: str = ""  #: ISO 639-1, by which its words were analyzed
    counts: PageCounts | None = None  #: out of an index; None: they are taken of its texts
    named: float = 0.0  #: what it gains by names, where its parts do not say it
    source: str = ""  #: where its key does not begin with it


class Ranked(NamedTuple):
    """A rated page."""

    page: ProposedPage
    score: float
    part: RankedPart | None  #: the best one
    found: int  #: how many of the query's words it has
    others: Sequence[RankedPart] = ()  #: the next best ones that have words of the query
    densest: float = 0.0  #: what its best part has of the query's words, however near they are


class NearPage(NamedTuple):
    """A content, and its chunk that is nearest to a query."""

    content: Any  #: content.no; in an index elsewhere the key of a document
    distance: float  #: 0 to 2
    chunk: int  #: chunk.no; in an index elsewhere its position
    hit: Any = None  #: the answer of an index elsewhere that has it


class VectorQuery(NamedTuple):
    """The meaning of a query."""

    embedder: int  #: embedder.no
    vector: bytes
    only: bool = False  #: whether the words of the query do not count
    reads_sentences: bool = False  #: whether the model reads a question, not its words one by one
    #: Returns those of some pages that lack a vector, and whether they have any.
    lacking: Callable[[Collection[Any]], Mapping[Any, bool]] = lambda pages: {}


QueryMeaning = Callable[[str], VectorQuery]  #: of the text of a query


def search_term_weight(pages: int, total: int) -> float:
    """Return the weight of a word that some of all pages have.

    >>> rare, common, everywhere = (search_term_weight(pages, 1000) for pages in (1, 500, 1000))
    >>> rare > common > everywhere > 0
    True
    """
    return math.log(1 + (max(total, pages) - pages + 0.5) / (pages + 0.5))


def named_gain(pages: int, total: int, weight: float, *, whole: bool) -> float:
    """Return what a page or part gains by a name that a query asks for.

    ``pages`` of all have the name: what a whole site has, such as the end of all titles, gains next
    to nothing. ``weight``: of the words of the name. ``whole``: of a name that only ends with it,
    it is less.

    >>> rare, some, everywhere = (named_gain(n, 1000, 5.0, whole=True) for n in (1, 30, 1000))
    >>> rare > some > 1 > everywhere, rare > named_gain(1, 1000, 5.0, whole=False)
    (True, True)
    """
    rarity = search_term_weight(pages, total) / search_term_weight(1, max(total, 1))
    return (_NAMED if whole else _NAMED_END) * rarity * weight


def name_gains(
    names: Sequence[QueryName],
    counts: Sequence[int],
    total: int,
    weights: Mapping[str, float],
) -> dict[str, float]:
    """Return what a part gains by each key of the names of a query that some part has.

    ``counts``: how many of all have each key; ``weights``: of the terms, by their texts.
    """
    found: dict[str, float] = {}
    each = iter(counts)
    for name in names:
        weight = sum(weights.values()) if name.text is None else weights.get(name.text, 0.0)
        for key in name.keys:
            if count := next(each):
                gain = named_gain(count, total, weight, whole=key == name.keys.whole)
                found[key] = gain
    return found


def rank_searched_pages(
    terms: Sequence[Term],
    weights: Sequence[float],
    pages: Sequence[ProposedPage],
    *,
    first: int = POOL,
) -> list[Ranked]:
    """Return the pages that answer a query, best first.

    No further word hides what fewer words find, nor puts it behind all that have more of them; only
    pages with none are left out, unless all are such. ``pages`` are in the order in which they are
    proposed. The ``first`` ones stay before the others, so that further proposals only add
    pages at the end.
    With a word like C++, of which indexes propose the pages that have a C, all are sorted together.
    """
    pool = len(pages) if any(term.signed for term in terms) else first
    finder = _Finder(terms, weights, shared_title_parts([page.title for page in pages[:pool]]))
    best = [finder.rated(page) for page in pages[:pool]]
    others = [finder.rated(page) for page in pages[pool:]]
    some = [one for one in _sorted_best(best) + _sorted_best(others) if one.found]
    return some or _sorted_best(best) + _sorted_best(others)


def first_with_exactness(
    ranked: Sequence[Ranked],
    terms: Sequence[Term],
    weights: Sequence[float],
    *,
    first: int,
    texts: Callable[[Sequence[Ranked]], Sequence[Ranked]],
) -> list[Ranked]:
    """Return ranked pages, of which the first ones count more that have words as they are written.

    Of counts out of an index that is not known. ``texts`` returns pages with the texts of their
    best parts. ``first``: as of ``rank_searched_pages``. A page of several sources is one of these.
    """
    urls = list(dict.fromkeys(one.page.url for one in ranked[:first]))[:_EXACT_PAGES]
    best = list(takewhile(lambda one: one.page.url in urls, ranked[:first]))
    others = ranked[len(best) :]
    exact = _Exactness(terms, weights)
    rated = [one._replace(score=one.score + exact.of_shown(one)) for one in texts(best)]
    found = _sorted_best(rated)
    least = found[-1].score if found else math.inf
    return found + [one if one.score <= least else one._replace(score=least) for one in others]


def rate_far_parts(
    one: Ranked, far: Sequence[RankedPart], terms: Sequence[Term], weights: Sequence[float]
) -> Ranked:
    """Return a rated page whose best parts are of those it has and of others far down.

    Its score stays, so that an index that does not look so far has the same order.
    """
    known = [] if one.part is None else [one.part, *one.others]
    rated = _Finder(terms, weights).rated(one.page._replace(parts=[*known, *far]))
    return one._replace(part=rated.part, others=rated.others)


def _sorted_best(some: Iterable[Ranked]) -> list[Ranked]:
    return sorted(some, key=_best_first)


def _best_first(one: Ranked) -> tuple[float, int, str, str, Any]:
    page = one.page
    return -one.score, len(page.url), page.url, page.source, page.key


def few_search_terms(many: int) -> float:
    """Return how many words are few of a query's, for an order that no score decides."""
    return many * (_MOST if many <= _FEW else _SOME)


def shared_title_parts(titles: Sequence[str]) -> dict[str, int]:
    """Return the parts that half of some titles share, with their words: the name of the site.

    >>> site = " — Python 3.11 documentation"
    >>> shared_title_parts([f"{name}{site}" for name in ("ast", "bdb", "cmd", "dis")])
    {'Python 3.11 documentation': 4}
    >>> shared_title_parts(["Cells: copy", "Cells: move"])
    {}
    """
    parts = Counter(
        part for title in titles for part in {*_TITLE_SIGNS.split(title)} if part != title
    )
    least = max(_SHARING, len(titles) / 2)
    return {part: len(index_words(part)) for part, many in parts.items() if many >= least}


class _Finder:
    """Rates pages for one query."""

    def __init__(
        self,
        terms: Sequence[Term],
        weights: Sequence[float],
        shared: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """``shared``: words of parts of titles that most pages share."""
        self._terms = terms
        self._weights = list(weights)
        self._shared = shared
        self._total = sum(weights) or 1.0
        self._signs = {t.signed: f"{t.signed} {n}" for n, t in enumerate(terms) if t.signed}
        self._signed = _signed_words(self._signs) if self._signs else None
        self._exact = _Exactness(terms, weights)
        self._by_language: dict[str, tuple[KeyFinder, frozenset[str]]] = {}
        self._language = ""
        self._finder, self._beginnings = self._of("")

    def _of(self, language: str) -> tuple[KeyFinder, frozenset[str]]:
        """Return what finds the words in texts of a language, and how all of them begin there.

        The latter is empty where stems differ from words not at their end alone.
        """
        found = self._by_language.get(language)
        if found is None:
            asked = [self._keys(term, language) for term in self._terms]
            first = {keys[0].partition(" ")[0] for forms in asked for keys in forms}
            begin = {key[:-1] if len(key) > _SHORTEST else key[:1] for key in first}
            begin = begin if language in _SUFFIXED else set()
            found = KeyFinder(asked), frozenset(begin)
            self._by_language[language] = found
        return found

    def _keys(self, term: Term, language: str) -> Sequence[Keys]:
        if self._signed is not None and self._signed.search(term.text):
            return [tuple(self._keys_of(term.text, language))]
        return term.keys(language)

    def _stems(self, text: str) -> list[str]:
        return self._keys_of(text, self._language)

    def _keys_of(self, text: str, language: str) -> list[str]:
        """Return the keys of a text, of which each word like C++ is one that no text has."""
        if self._signed is None:
            return index_keys(text, language)
        keys: list[str] = []
        at = 0
        for sign in self._signed.finditer(text):
            keys += index_keys(text[at : sign.start()], language)
            keys.append(self._signs[sign[0].lower()])
            at = sign.end()
        return keys + index_keys(text[at:], language)

    def places(self, tokens: Sequence[str]) -> list[tuple[int, int]]:
        """Return the places of words in a text: of the token, and of the term."""
        return self._finder.places(tokens)

    def _may_have(self, text: str) -> bool:
        """Whether a text may have one of the words; a stem differs from them at its end only."""
        if not self._beginnings or not text.isascii():
            return True
        lower = text.lower()
        return any(beginning in lower for beginning in self._beginnings)

    def counted(self, page: ProposedPage) -> tuple[PageCounts, set[int]]:
        """Return where the texts of a page have the words; where they are as they are written."""
        self._language = page.language
        self._finder, self._beginnings = self._of(page.language)
        title = self._stems(page.title)
        searched = [part.searched for part in page.parts]
        texts = [self._stems(text) if self._may_have(text) else [] for text in searched]
        lead = [0] * len(self._weights)
        for _, term in self.places(_lead(texts)):
            lead[term] += 1
        above = {
            name: {term for _, term in self.places(self._stems(name))}
            for name in {part.headings for part in page.parts}
        }
        counts = PageCounts(
            title={term for _, term in self.places(title)},
            title_length=len(title),
            url={term for _, term in self.places(self._stems(url_words(page.url)))},
            lead=lead,
            length=sum(len(part.text) for part in page.parts) // LETTERS,
            parts=[
                PartCounts(self.places(text), len(text), above[part.headings])
                for part, text in zip(page.parts, texts, strict=True)
            ],
        )
        texts_of_page = [page.title, *(f"{one.headings}\n{one.searched}" for one in page.parts)]
        return counts, self._exact.terms(texts_of_page[: _EXACT_PARTS + 1])

    def rated(self, page: ProposedPage) -> Ranked:
        """Rate a page by its best part and as a whole."""
        counts, exact = (page.counts, set[int]()) if page.counts else self.counted(page)
        body = [0] * len(self._weights)
        own = self._own_title(page.title, counts)
        long = 0.7 + 0.1 * own
        base = [_LEAD * min(often, 2) for often in counts.lead]
        for term in counts.title:
            base[term] += _TITLE / long
        for term in counts.url:
            base[term] += _URL
        rated: list[tuple[float, RankedPart]] = []
        densest = 0.0
        headings: dict[str, Collection[int]] = {}
        is_one = len(body) == 1
        for part, (places, length, above, named) in zip(page.parts, counts.parts, strict=True):
            if above:
                headings[part.headings] = above
            elif not places and not named:
                continue
            near = 0.0
            if is_one:
                found = [len(places)]
                body[0] += found[0]
            else:
                found = [0] * len(body)
                for _, term in places:
                    found[term] += 1
                    body[term] += 1
                if len(places) > 1:
                    near = self._nearness(places)
            words = self._of_part(base, above, found, length)
            densest = max(densest, words)
            rated.append((_PART * words + _NEARNESS * near + named, part))
        covered = {*counts.title, *counts.url, *(n for n, often in enumerate(body) if often)}
        sections = 1 + 0.1 * max(1, counts.length / _SECTION)
        for above in headings.values():
            covered.update(above)
            for term in above:
                base[term] += _HEADINGS / sections
        whole = self._of_page(base, body, counts.length)
        if page.parts and not rated:
            one = counts.parts[0]
            words = self._of_part(base, one.above, [0] * len(body), one.length)
            rated = [(_PART * words, page.parts[0])]
        best = sorted(rated, key=itemgetter(0), reverse=True)[:MOST_SHOWN]
        score = whole + (best[0][0] if best else 0.0) + self._exact.rated(exact & covered)
        covered_title = sum(self._weights[n] for n in counts.title)
        score += _COVERED * covered_title * min(1.0, len(counts.title) / own)
        shown = [part for _, part in best]
        matched = covered | page.matched
        is_named = page.named or any(one.named for one in counts.parts)
        # a page that a name means has all that is asked for, whichever words it has
        terms = max(len(body), 1) if is_named else len(matched)
        score = score * (1.0 if is_named else self._kept(matched)) + page.named
        return Ranked(page, score, next(iter(shown), None), terms, shown[1:], densest)

    def _kept(self, found: Collection[int]) -> float:
        """Return how much of its score a page keeps that has only some words of the query."""
        if len(found) >= len(self._weights) or len(self._weights) < _MANY:
            return 1.0
        return float((sum(self._weights[n] for n in found) / self._total) ** _FOUND)

    def _own_title(self, title: str, counts: PageCounts) -> int:
        """Return how many words of a title are its own, at least one."""
        if not self._shared:
            return max(1, counts.title_length)
        shared = sum(self._shared.get(part, 0) for part in _TITLE_SIGNS.split(title))
        return max(1, counts.title_length - shared)

    def _of_part(
        self, base: Sequence[float], above: Collection[int], found: Sequence[int], length: int
    ) -> float:
        """Rate a part by its words; ``base`` is of its page, ``above`` of its headings."""
        long = 1 - _PART_BY_LENGTH + _PART_BY_LENGTH * length / _PART_LENGTH
        score = 0.0
        for n, each in enumerate(self._weights):
            often = base[n] + (n in above) + found[n] / long
            score += each * often / (often + _HALF)
        return score

    def _nearness(self, found: Sequence[tuple[int, int]]) -> float:
        near = 0.0
        for (at, term), (next_at, next_term) in pairwise(found):
            if term != next_term and 0 < next_at - at <= _NEAR:
                near += min(self._weights[term], self._weights[next_term]) / (next_at - at)
        return min(near, self._total)

    def _of_page(self, base: Sequence[float], body: Sequence[int], length: int) -> float:
        """Rate a page as a whole."""
        long = 1 - _PAGE_BY_LENGTH + _PAGE_BY_LENGTH * length / _PAGE_LENGTH
        score = 0.0
        for n, each in enumerate(self._weights):
            often = base[n] + _BODY * body[n] / long
            score += each * often / (often + _HALF)
        return score


class _Exactness:
    """Rates words of a page that are written as in the query, with the same accents."""

    def __init__(self, terms: Sequence[Term], weights: Sequence[float]) -> None:
        self._weights = weights
        self._is_ascii = [term.text.rstrip(BEGINNING).isascii() for term in terms]
        self._has = [_exact_word(term.text.rstrip(BEGINNING).lower()) for term in terms]

    def terms(self, texts: Sequence[str]) -> set[int]:
        """Return the words that texts of a page have as they are written.

        Texts without accents have all words that are asked without them so.
        """
        is_plain = all(map(str.isascii, texts))
        if is_plain and all(self._is_ascii):
            return set(range(len(self._has)))
        lower = [text.lower() for text in texts]
        return {
            n
            for n, has in enumerate(self._has)
            if (is_plain and self._is_ascii[n]) or any(map(has, lower))
        }

    def rated(self, terms: Iterable[int]) -> float:
        """Return what words that are written so count."""
        return _EXACT * sum(self._weights[n] for n in terms)

    def of_shown(self, one: Ranked) -> float:
        """Rate a page by the texts of its best parts."""
        parts = [] if one.part is None else [one.part, *one.others]
        texts = [one.page.title, *(f"{part.headings}\n{part.searched}" for part in parts)]
        return self.rated(self.terms(texts))


def _lead(texts: Sequence[Sequence[str]]) -> list[str]:
    found: list[str] = []
    for text in texts[:LEAD_PARTS]:
        found += text
    return found[:LEAD_LENGTH]


def url_words(url: str) -> str:
    """Return the part of an address whose words count: its path without the ending of a file."""
    path = unquote(urlsplit(url).path)
    stem, dot, ending = path.rpartition(".")
    return stem if dot and "/" not in ending else path


def _exact_word(word: str) -> Callable[[str], bool]:
    """Return the test whether a text in lower case has a word as it is written.

    Its pattern is made for the first text that needs it, which few queries have.
    """
    pattern = rf"(?<!\w){re.escape(word)}(?!\w)"
    return lambda text: word in text and re.search(pattern, text) is not None


def _signed_words(words: Collection[str]) -> re.Pattern[str]:
    """Return the pattern of words with signs at their ends, where they are words of their own."""
    some = "|".join(f"{re.escape(word)}(?!{re.escape(word[-1])})" for word in sorted(words))
    return re.compile(rf"(?<![^\W_])(?:{some})", re.IGNORECASE)


def parts_to_show(one: Ranked, nearest: Sequence[RankedPart]) -> list[RankedPart]:
    """Return the parts to show of a page, best first.

    First the part of the ranking, then those with words of the query and those near to it, joined
    by their ranks.
    """
    if one.part is None:
        return []
    if not nearest:
        return [one.part, *one.others][: MOST_SHOWN if one.found else 1]
    by_words = [one.part, *one.others] if one.found else []
    known = {part.key: part for part in (one.part, *one.others, *nearest)}
    lists = [[part.key for part in by_words], [part.key for part in nearest]]
    keys = dict.fromkeys([one.part.key, *(key for key, _ in fuse(lists))])
    return [known[key] for key in keys][:MOST_SHOWN]


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
    meanings; a joined score is that of ``rules.vectors``.
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


def _density(one: Ranked) -> float:
    return -one.densest


def _nearest(page: ProposedPage, near: NearPage, score: float) -> Ranked:
    part = next((part for part in page.parts if part.key == near.chunk), None)
    return Ranked(page, score, part or RankedPart(near.chunk, "", ""), 0)

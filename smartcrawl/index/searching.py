"""A search, in the steps that all indexes share, and the pages that it finds (ADR 48).

An index proposes pages that have the words of a query, and pages near to it in meaning; ``ranking``
sorts them. Before that the words are corrected, and less is required while no page is found. For a
misspelt word the index is asked for all words that one error makes of it; its own texts show which
of them exist.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from smartcrawl.index.analysis.function_words import function_words_of
from smartcrawl.index.analysis.marking import Marker, Marks
from smartcrawl.index.analysis.stems import BEGINNING, index_keys, index_words, keys_of_words
from smartcrawl.index.analysis.words import folded, is_unspaced, run_words, text_runs, words_at
from smartcrawl.index.facets import CountingIndex, Facets, search_facets
from smartcrawl.index.queries import (
    MOST,
    Query,
    Term,
    parsed_search_query,
    query_with_beginning,
    search_query_sources,
    search_query_with_word,
)
from smartcrawl.index.ranking import (
    POOL,
    NearPage,
    ProposedPage,
    QueryMeaning,
    Ranked,
    RankedPart,
    VectorQuery,
    few_search_terms,
    joined_index_rankings,
    rank_searched_pages,
    search_term_weight,
)
from smartcrawl.model.documents import PAGE_PLACE, ChunkPlace, place_link
from smartcrawl.registry.visibility import Readable
from smartcrawl.rules.model import Status


@dataclass(frozen=True, slots=True)
class HitChunk:
    """A chunk of a page that answers a query."""

    number: int  #: its place in its page, from 0: ``sort_order`` of the view documents
    path: str  #: the headings above it, outermost first, " > " between
    highlight: str  #: the text around the words found, with marks
    text: str  #: all of it
    page: int | None = None  #: the page of its document, from 1; None: it has no pages
    section: str = ""  #: id of the section or name that answers best; empty: it has none
    #: Its places; None: the index does not have them.
    places: tuple[ChunkPlace, ...] | None = field(default=None, compare=False, repr=False)
    #: First characters in its text of the words found, and which words of the query these are.
    found: tuple[tuple[int, int], ...] = field(default=(), compare=False, repr=False)

    def link(self, url: str) -> str:
        """Return the address of its place; that of the whole page where there is none."""
        return place_link(url, self.section if self.page is None else f"{PAGE_PLACE}{self.page}")

    @property
    def headings(self) -> tuple[str, ...]:
        """The headings above it; one that contains " > " counts as two."""
        return tuple(self.path.split(" > ")) if self.path else ()


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
    published: int | None = None  #: Unix seconds, where the page says it
    author: str = ""  #: where the page says it
    sources: tuple[str, ...] = ()  #: all sources that have it, ``source`` first
    #: At most ``ranking.MOST_SHOWN``, best first; the snippet is of the first. Empty: no text.
    chunks: tuple[HitChunk, ...] = ()

    @property
    def date(self) -> int | None:
        """When the page was published, else when its content last changed."""
        return self.last_changed if self.published is None else self.published


@dataclass(frozen=True, slots=True)
class Answer:
    """The pages that answer a query, best first, and the query that they answer."""

    hits: list[Hit]
    meant: str = ""  #: the query with known words in the place of unknown ones; "": as it was asked
    note: str = ""  #: why meaning did not count, or which chunks it cannot find
    facets: Facets | None = None  #: of the whole answer, where they were asked for


def is_lost_hit(status: int, losses: int) -> bool:
    """Whether the last visit of a stored page found an error: its content is of an earlier one."""
    return status == Status.ERROR or losses > 0


def embedded_document_id(key: bytes) -> str:
    """Return the id of a page in the embedded index.

    >>> embedded_document_id(bytes.fromhex("0b1a"))
    'page_0b1a'

    Source: R0-33, R0-36.
    """
    return f"page_{key.hex()}"


_STEM_ENDS: Final = 5  #: letters by which a stem may be shorter than the beginning of its word
_SHORTEST: Final = 4  #: letters of a word that may be misspelt
_FAR: Final = 7  #: letters of a word that may have two errors
_LONGEST: Final = 30
_FAREST: Final = 14  #: letters of a word that may have two errors, at most: forms grow by square
_MOST: Final = 3  #: words of one query that are looked for, since each asks for many forms
#: Letters and vowels of alphabets, without accents.
_ALPHABETS: Final = (
    ("abcdefghijklmnopqrstuvwxyz", "aeiouy"),
    ("абвгдежзийклмнопрстуфхцчшщъыьэюяіѓєђјљњћџ", "аеиоуыэюя"),
    ("αβγδεζηθικλμνξοπρστυφχψω", "αεηιουω"),
    ("אבגדהוזחטיכלמנסעפצקרשתםןףץך", ""),
    ("ءابتثجحخدذرزسشصضطظعغفقكلمنهويةىپچژگک", "اوي"),
    ("աբգդեզէըթժիլխծկհձղճմյնշոչպջռսվտրցւփքօֆ", ""),
    ("აბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰ", "აეიოუ"),
    ("".join(map(chr, range(0x905, 0x94E))), ""),  # Devanagari
)
_WORD: Final = re.compile(r"[^\W_](?:[^\W_]|[\u0300-\u036f])*")


class SpellingFound(NamedTuple):
    """Forms that a word may stand for, and texts that have some of them."""

    forms: frozenset[str]
    texts: Sequence[str]
    languages: Sequence[str] = ()  #: of the texts; empty: they are not known


_NO_SPELLING: Final = SpellingFound(frozenset(), ())
#: Asks the index for words near to one; the second value allows two errors.
Nearest = Callable[[str, bool], SpellingFound]


def corrected_search_query(
    query: str, terms: Sequence[Term], pages: Sequence[int], nearest: Nearest
) -> tuple[list[Term], str]:
    """Replace the words of a query that the index does not have by the nearest that it has.

    Returns the terms and the query with these words; the query is empty if none was replaced.
    """
    found, meant = list(terms), ""
    unknown = [
        place
        for place, term in enumerate(terms)
        if not pages[place] and not term.quoted and may_search_term_be_misspelt(term)
    ]
    for place in unknown[:_MOST]:
        term = terms[place]
        word = next(words_at(term.text)).form
        instead = _best_form(word, nearest(word, False))
        if not instead and _FAR <= len(word) <= _FAREST:
            instead = _best_form(word, nearest(word, True))
        if instead:
            instead = instead.lower() if term.text == term.text.lower() else instead
            found[place] = Term(instead, tuple(index_keys(instead)))
            shown = _WORD.sub(instead, term.text, count=1)
            meant = search_query_with_word(meant or query, term.text, shown)
    return found, meant


def may_search_term_be_misspelt(term: Term) -> bool:
    """Whether a term is one word of enough letters."""
    found = [word.form for word in words_at(term.text)]
    if len(found) != 1 or is_unspaced(found[0]):
        return False
    letters = [c for c in found[0] if not unicodedata.category(c).startswith("M")]
    return _SHORTEST <= len(letters) <= _LONGEST and all(map(str.isalpha, letters))


def _best_form(word: str, found: SpellingFound) -> str:
    """Return the form that most texts have, as they spell it, "" if they have none.

    A misspelling may stand in one text many times, so that each text counts once. Where they have
    other endings of it alone, it has no fewer accents than the word. No function word is meant:
    every page has these, and none is about them.
    """
    languages = found.languages or [""] * len(found.texts)
    empty = frozenset[str]().union(*map(function_words_of, set(languages)))
    wanted = {folded(form) for form in found.forms} - {folded(word)} - empty
    seen: Counter[str] = Counter()
    spelt: dict[str, Counter[str]] = defaultdict(Counter)
    runs = Counter(run for text in found.texts for run in _runs_to_look_at(text, wanted))
    for run, often in runs.items():
        for start, end, form in run_words(run):
            plain = folded(form)
            if plain in wanted:
                seen[plain] += often
                spelt[plain][run[start:end]] += often
    if seen:
        best = max(seen, key=lambda plain: (seen[plain], plain))
        return max(spelt[best], key=lambda one: (spelt[best][one], one))
    by_language = {one: _by_key(found.forms, _accents(word), one) for one in set(languages)}
    for text, language in zip(found.texts, languages, strict=True):
        keys = by_language[language]
        known = keys.keys() - empty
        seen.update({keys[key] for key in index_keys(text, language) if key in known})
    return max(seen, key=lambda form: (seen[form], form), default="")


def _runs_to_look_at(text: str, wanted: Collection[str]) -> set[str]:
    """Return the different runs of a text, of ASCII those alone that are wanted in lower case."""
    runs = text_runs(text)
    if text.isascii():
        lower = text_runs(text.lower())
        return {run for run, form in zip(runs, lower, strict=True) if form in wanted}
    return {run for run in runs if not run.isascii() or run.lower() in wanted}


def _by_key(forms: Iterable[str], accents: int, language: str) -> dict[str, str]:
    """Return forms by the keys of their stems, for texts that have other endings of them."""
    some = [form for form in sorted(forms, reverse=True) if _accents(form) >= accents]
    return dict(zip(keys_of_words(some, language), some, strict=True))


def _accents(form: str) -> int:
    """Return how many letters of a word lose something when it is folded."""
    return 0 if form.isascii() else sum(folded(letter) != letter for letter in form)


def search_spelling_variants(word: str, *, far: bool = False) -> frozenset[str]:
    """Return the words that one error makes of a word, or two usual ones (``far``).

    >>> [word in search_spelling_variants("stahs") for word in ("stash", "stahs", "lash")]
    [True, False, False]
    >>> far = search_spelling_variants("inittialyze", far=True)
    >>> "initialize" in far, "initials" in far
    (True, False)
    >>> "таблица" in search_spelling_variants("таблтца")
    True
    """
    letters, vowels = _alphabet(word)
    if not far:
        return frozenset(_one(word, letters)) - {word}
    found = (twice for once in _usual(word, vowels) for twice in _usual(once, vowels))
    return frozenset(found) - {word}


def _alphabet(word: str) -> tuple[str, str]:
    """Return letters and vowels of the script of a word; of an unknown script its own letters."""
    plain = folded(word)
    return next(
        (known for known in _ALPHABETS if any(letter in known[0] for letter in plain)),
        ("".join(sorted(set(plain))), ""),
    )


def _one(word: str, letters: Iterable[str]) -> Iterable[str]:
    for at in range(len(word) + 1):
        before, behind = word[:at], word[at:]
        if behind:
            yield before + behind[1:]
        if len(behind) > 1:
            yield before + behind[1] + behind[0] + behind[2:]
        for letter in letters:
            yield before + letter + behind
            if behind:
                yield before + letter + behind[1:]


def _usual(word: str, vowels: str) -> Iterable[str]:
    """Yield a word with a letter left out, doubled or swapped with the next, or another vowel."""
    for at, letter in enumerate(word):
        before, behind = word[:at], word[at + 1 :]
        yield before + behind
        yield before + letter + letter + behind
        if behind:
            yield before + behind[0] + letter + behind[1:]
        if letter in vowels:
            for vowel in vowels:
                yield before + vowel + behind


MOST_PROPOSED: Final = 1_000  #: pages that are rated for one query
_AT_ONCE: Final = 50  #: pages whose best parts are looked for at once, of those with known places
_COMMON: Final = 5_000  #: chunks of a word that is common
_ENOUGH: Final = 1_000  #: chunks of rarer words that are enough to propose pages

_Words = tuple[Sequence[Term], Sequence[float]]  #: those that some page has, with their weights


class Proposed(NamedTuple):
    """Pages that an index proposes for a query."""

    found: Mapping[Any, Any]  #: what the index knows of each page, in order, by their keys
    pages: list[int]  #: for each term of the query, how many pages or chunks have it
    total: int  #: all of them
    first: int = POOL  #: pages that are rated before the others
    more: bool = False  #: whether the index may have others


_NOTHING: Final = Proposed({}, [], 0)


class FoundPage(NamedTuple):
    """A page that several sources may have."""

    ranked: Ranked
    records: list[Any]  #: what the index knows of it in each source

    @property
    def score(self) -> float:
        """The score of the page."""
        return self.ranked.score


_Found = dict[Any, FoundPage]  #: by the address, which is the same in all sources
H = TypeVar("H")
H_co = TypeVar("H_co", covariant=True)


class AnswerForm(NamedTuple):
    """What an answer has beside hits, and how it is made."""

    facets: bool = False  #: whether sources, languages, types and dates are counted; by words alone
    by_date: bool = False  #: the latest pages come first, by words alone
    prefix: bool = False  #: whether the last word may be the beginning of one


PLAIN: Final = AnswerForm()


class FoundHits(NamedTuple, Generic[H]):
    """Hits of an index."""

    hits: list[H]  #: best first
    meant: str  #: the query that they answer; empty: the one that was asked
    facets: Facets | None = None  #: where they were asked for


class SearchedIndex(CountingIndex, Protocol[H_co]):
    """What differs between indexes: their requests, and what they know of pages."""

    def bounded(self, query: Query) -> Query:
        """Return a query with as many words as the index takes."""

    def counted(self, terms: Sequence[Term]) -> Sequence[int]:
        """Return how often the index has each of at most ``MOST`` words."""

    def proposed(self, query: Query, pool: int, least: int) -> Proposed:
        """Return at most ``pool`` pages that have any of the words, and all that is required.

        At least ``least`` if the index has so many.
        """

    def latest(self, query: Query, few: float, most: int) -> Sequence[tuple[Any, Any]]:
        """Return addresses and keys of pages that have any of the words, the latest first.

        Pages with at most ``few`` of the words come behind all others.
        """

    def texts(self, forms: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Return texts of the index that have some of these words, with their languages."""

    def nearest_pages(self, query: Query, near: VectorQuery, pool: int) -> list[NearPage]:
        """Return pages that are near to a query in meaning, and have all that is required."""

    def pages(
        self, query: Query, found: Proposed, near: Sequence[NearPage], places: Mapping[int, int]
    ) -> Mapping[Any, ProposedPage]:
        """Return proposed and near pages by their keys, without those that are gone.

        ``places``: the new places of the terms that some page has.
        """

    def with_best_parts(self, ranked: list[Ranked], words: _Words) -> list[Ranked]:
        """Return rated pages with their best chunks, by what the index knows of these alone."""

    def records(self, key: Any) -> Sequence[tuple[Any, Any]]:
        """Return what the index knows of a page in each source, each with the address."""

    def shown(
        self,
        best: Sequence[FoundPage],
        terms: Sequence[Term],
        marks: Marks,
        near: VectorQuery | None,
    ) -> Sequence[H_co]:
        """Return hits with their chunks; ``near``: the meaning of the query, where it counts."""


def find_index_hits(
    query: str,
    opened: Callable[[Sequence[str]], SearchedIndex[H]],
    *,
    sources: Sequence[str] = (),
    limit: int = 10,
    offset: int = 0,
    marks: Marks = ("[", "]"),
    language: str = "",
    meaning: QueryMeaning | None = None,
    readable: Readable = None,
    form: AnswerForm = PLAIN,
) -> FoundHits[H]:
    """Return the pages that answer a query, best first, and the query that they answer.

    The first ``offset`` pages are left out.
    ``opened`` returns the index for the sources that are searched, all if there are none.
    ``language`` empty means any. ``meaning`` finds the vector of a query, where meaning counts,
    too. ``readable``: the sources that the caller may read; None: all. ``opened`` knows them, too.
    """
    asked = parsed_search_query(query, language)
    wanted = _readable(search_query_sources(sources, asked.sources), readable)
    if not asked.terms or wanted is None or limit < 1:
        return FoundHits([], "", Facets() if form.facets else None)
    index = opened(wanted)
    asked = query_with_beginning(asked, query) if form.prefix else asked
    asked = index.bounded(asked.only(existing_search_terms(asked.terms, index.counted)))
    asked, words, meant = _propose_hits(query, asked, index, limit, offset)
    counts = None
    if form.facets:
        every = _readable(list(sources), readable)
        counts = search_facets(asked, index, lambda: None if every is None else opened(every))
    near = None if meaning is None or form.by_date else meaning(meant or query)
    if near is not None and not near.reads_sentences:
        asked = asked.of_words()
    pool, end = search_pool(limit, offset, asked), offset + limit
    if form.by_date:
        latest, terms = _latest(index, asked, words, offset, limit)
        return FoundHits(list(index.shown(latest, terms, marks, None)), meant, counts)
    if near is None:
        best, terms = _best(index, asked, words, [])
        if len(best) < end and words.more and pool == POOL:  # sources have other texts of a page
            best, terms = _best(index, asked, index.proposed(asked, MOST_PROPOSED, end), [])
    elif near.only:
        best, terms = _best(index, asked, _NOTHING, index.nearest_pages(asked, near, pool))
    else:
        best, terms = _joined_pages(index, asked, near, {pool: words}, end)
    hits = list(index.shown(list(best.values())[offset:end], terms, marks, near))
    return FoundHits(hits, meant, counts)


def _latest(
    index: SearchedIndex[Any], query: Query, found: Proposed, offset: int, limit: int
) -> tuple[list[FoundPage], Sequence[Term]]:
    """Return pages by their date, the latest first, and the words to mark in them.

    The index sorts all pages that it has, not only those that it proposes. Only of the pages that
    are shown the best parts are looked for.
    """
    terms = [term for term, pages in zip(query.terms, found.pages, strict=True) if pages]
    if not terms:
        return [], query.terms
    asked = query.only(terms)
    keys: dict[Any, list[Any]] = {}
    for address, key in index.latest(asked, few_search_terms(len(terms)), MOST_PROPOSED):
        keys.setdefault(address, []).append(key)
    wanted = list(keys)[offset : offset + limit]
    rated: _Found = {}
    rest = wanted
    while rest:
        some, rest = rest[:_AT_ONCE], rest[_AT_ONCE:]
        these = replace(asked, pages=tuple(key for address in some for key in keys[address]))
        proposed = index.proposed(these, MOST_PROPOSED, len(some))
        best, _ = _best(index, these, proposed, [])
        rated |= best
        left = [address for address in some if address not in best]
        rest = (left if len(left) < len(some) else []) + rest  # else they are gone
    return [rated[address] for address in wanted if address in rated], terms


def _readable(wanted: list[str] | None, readable: Readable) -> list[str] | None:
    """Return those of the wanted sources that the caller may read; None: there is none."""
    if readable is None or wanted is None:
        return wanted
    if not wanted:
        return [] if readable else None
    return [name for name in wanted if name in readable] or None


def _joined_pages(
    index: SearchedIndex[Any],
    query: Query,
    near: VectorQuery,
    proposed: Mapping[int, Proposed],
    end: int,
) -> tuple[_Found, Sequence[Term]]:
    """Return pages that have the words of a query or are near to it; the words to mark in them.

    Ranks are joined, so that further proposals could put a page before those that an earlier page
    of hits has shown. They are joined among themselves, and come last, with no higher scores.
    ``proposed``: known proposals for the words, by the size of their pool.
    """
    best: _Found = {}
    pool = POOL
    while True:
        pages = index.nearest_pages(query, near, pool)
        words = proposed.get(pool) or index.proposed(query, pool, pool)
        found, terms = _best(index, query, words, pages, joined_with=near)
        least = min((one.score for one in best.values()), default=inf)
        for address, (one, records) in found.items():
            later = FoundPage(one._replace(score=min(one.score, least)), records)
            best.setdefault(address, later)
        is_all = len(pages) < pool and not words.more
        if is_all or len(best) >= end or pool == MOST_PROPOSED:
            return best, terms
        pool = MOST_PROPOSED


def _best(
    index: SearchedIndex[Any],
    query: Query,
    found: Proposed,
    near: Sequence[NearPage],
    *,
    joined_with: VectorQuery | None = None,
) -> tuple[_Found, Sequence[Term]]:
    """Rate pages; return each once, best first, and the words to mark in them.

    ``near``: pages that are near in meaning. With ``joined_with``, the meaning of the query, their
    order and that of the words are joined.
    """
    fused = joined_with is not None
    places, terms, weights = weighed_search_terms(query, found)
    pages = index.pages(query, found, near, places)
    by_words = [pages[key] for key in found.found if key in pages]
    rank = partial(rank_searched_pages, terms, weights, by_words, first=found.first)
    ranked = index.with_best_parts(rank(), (terms, weights))
    if near:
        lacking = joined_with.lacking([one.page.key for one in ranked]) if joined_with else {}
        ranked = joined_index_rankings(
            ranked, pages, near, fused=fused, is_question=query.is_question, lacking=lacking,
            text=rank() if lacking else (),
        )  # fmt: skip
    once: _Found = {}
    for one in ranked:
        for address, record in index.records(one.page.key):
            once.setdefault(address, FoundPage(one, [])).records.append(record)
    return once, terms or query.terms


class ShownPart(NamedTuple):
    """A part of a page as it is shown."""

    snippet: str  #: its text around the words found, which are marked
    found: tuple[tuple[int, int], ...] = ()  #: as those of a ``HitChunk``


class QueryMarker:
    """Marks the words of a query in the parts of pages that are shown."""

    def __init__(self, terms: Sequence[Term], marks: Marks) -> None:
        self._terms = terms
        self._marks = marks
        self._by_language: dict[str, Marker] = {}
        self._minor: dict[str, frozenset[int]] = {}  # terms that are function words there

    def headings(self, part: RankedPart, language: str) -> str:
        """Return the headings of a part, with marks around the words found."""
        return self._of(language).whole(part.headings) if part.has_above else part.headings

    def shown(self, part: RankedPart, language: str) -> ShownPart:
        """Return a part with marks around the words found.

        Where its text has none, its pictures and keywords are shown if they have one that its
        headings lack.
        """
        marker = self._of(language)
        by_pictures = set[int]()
        if part.pictures and not marker.has(part.text):
            by_pictures = marker.words_of(part.pictures) - marker.words_of(part.headings)
        text = part.pictures if by_pictures else part.text or part.pictures
        places = part.places if text is part.text else None
        if places and (minor := self._minor[language]):
            places = [place for place in places if place[1] not in minor]
        marked = marker.marked_part(text, places)
        return ShownPart(marked.text, marked.found if text is part.text else ())

    def _of(self, language: str) -> Marker:
        marker = self._by_language.get(language)
        if marker is None:
            minor = self._minor[language] = minor_terms(self._terms, language)
            asked = [
                () if n in minor else term.keys(language) for n, term in enumerate(self._terms)
            ]
            marker = self._by_language[language] = Marker(asked, language, self._marks)
        return marker


def minor_terms(terms: Sequence[Term], language: str) -> frozenset[int]:
    """Return the places of the terms that are function words of a language: none has a mark.

    A query has such terms where its other words do not show its language. If there are no others,
    all have marks.

    >>> terms = [Term("numero", ("numero",)), Term("de", ("de",)), Term("page", ("page",))]
    >>> minor_terms(terms, "fr"), minor_terms(terms[1:2], "fr"), minor_terms(terms, "de")
    (frozenset({1}), frozenset(), frozenset())
    """
    known = function_words_of(language)
    found = frozenset(
        n
        for n, term in enumerate(terms)
        if not (term.quoted or term.signed or term.is_beginning)
        and known.issuperset(index_words(term.text))
    )
    return found if len(found) < len(terms) else frozenset()


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


def _propose_hits(
    text: str, asked: Query, index: SearchedIndex[Any], limit: int, offset: int
) -> tuple[Query, Proposed, str]:
    """Return the query that is answered, the pages proposed for it, and its corrected text.

    Unknown words are corrected first. While no page is found, less is required. The text is empty
    if no word was corrected, or no page is found with it. All pages of hits but the first have the
    same proposals, so that none repeats a hit of another.
    """

    def nearest(word: str, far: bool) -> SpellingFound:
        forms = search_spelling_variants(word, far=far)
        found = index.texts(sorted(forms))
        return SpellingFound(forms, *zip(*found, strict=True)) if found else _NO_SPELLING

    pool, end = search_pool(limit, offset, asked), offset + limit
    found, meant = index.proposed(asked, pool, end), ""
    if 0 in found.pages and any(term.is_beginning for term in asked.terms):
        asked = asked.only([
            term if pages else _completed(term, index.texts)
            for term, pages in zip(asked.terms, found.pages, strict=True)
        ])  # fmt: skip
        found = index.proposed(asked, pool, end)
    if 0 in found.pages:
        terms, meant = corrected_search_query(text, asked.terms, found.pages, nearest)
        if meant:
            asked = asked.only(terms)
            found = index.proposed(asked, pool, end)
    while not found.found and (relaxed := asked.relaxed(found.pages)) is not None:
        asked = relaxed
        found = index.proposed(asked, pool, end)
    return asked, found, meant if found.found else ""


def _completed(term: Term, texts: Callable[[Sequence[str]], Sequence[tuple[str, str]]]) -> Term:
    """Return a whole word in place of the beginning of one that no page has.

    The stem of a word may be shorter than the beginning that was typed, such as ``configuratio``.
    So texts with shorter stems are looked through for a word that begins like this. Where there is
    none, the word stays as it is.
    """
    if not term.is_beginning:
        return term
    whole = term.text.rstrip(BEGINNING)
    plain = folded(next(words_at(whole)).form)
    shorter = [plain[:-n] for n in range(1, _STEM_ENDS + 1) if len(plain) - n >= _SHORTEST]
    seen = Counter(
        run[start:end]
        for text, _ in (texts(shorter) if shorter else ())
        for run in text_runs(text)
        for start, end, form in run_words(run)
        if folded(form).startswith(plain)
    )
    form = max(seen, key=lambda one: (seen[one], one), default=whole)
    return Term(form, tuple(index_keys(form)))


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
    query: Query, found: Proposed
) -> tuple[dict[int, int], list[Term], list[float]]:
    """Return the terms that some page has, with their weights.

    First their new places by their places in the query.
    """
    known = [place for place, pages in enumerate(found.pages) if pages]
    terms = [query.terms[place] for place in known]
    weights = [
        term.share * search_term_weight(found.pages[place], found.total)
        for term, place in zip(terms, known, strict=True)
    ]
    return {place: n for n, place in enumerate(known)}, terms, weights

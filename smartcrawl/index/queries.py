"""Parsing of search queries, the same for every index."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

from smartcrawl.index.analysis.asking import asked_words, word_shares
from smartcrawl.index.analysis.function_words import search_function_words
from smartcrawl.index.analysis.names import AskedName, asked_name, is_identifier
from smartcrawl.index.analysis.stems import (
    BEGINNING,
    Keys,
    asked_keys,
    index_keys,
    index_words,
)
from smartcrawl.index.analysis.words import Word, is_unspaced, words_at
from smartcrawl.model.exceptions import SearchQueryError
from smartcrawl.model.file_urls import normalize_file_url, url_of_folder

_PART: Final = re.compile(
    r'(?P<sign>(?<!\S)-(?!-))?(?:"(?P<quoted>[^"]+)"|(?P<name>(?<![^\s-])'
    r'(?:site|in|(?:language|type|after|before)(?=:(?:[^\s"]|"[^"])))):'
    r'(?:"(?P<whole>[^"]*)"|(?P<value>[^\s"]*))|(?P<word>[^\s"]+))'
)
#: The name of a programming language with signs at its end, among signs of the sentence.
_SIGNED: Final = re.compile(r"\W*?(\w+(?:\+\+|#))[^\w+#]*")
_SCHEME: Final = re.compile(r"https?://", re.IGNORECASE)
#: A path of a folder where a host is expected.
_PATH: Final = re.compile(r"/|~|\.{1,2}(?:/|\Z)|\\\\|[A-Za-z]:[\\/]")
MOST: Final = 32  #: words by which one query searches, and parts of each other kind but sources
_LEAST_BEGINNING: Final = 3  #: letters of a word that may be the beginning of one
_READ: Final = 4_096  #: words of one query that are read
_QUESTION: Final = 2  #: function words of a question, at least
#: Articles and the like before an apostrophe, in French, Italian and Catalan.
_ELIDED: Final = re.compile(
    r"(?:[ldjmtsnc]|(?:jus|lors|puis|quoi)?qu|un|(?:d|n|s|qu|b)?(?:a|e|u)ll|a?gl)['\u2019](?=\w\w)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Term:
    """A word of a query, or words that stay together."""

    text: str
    stems: Keys  #: its keys in a text of unknown language
    quoted: bool = False  #: it must occur, if it occurs anywhere
    share: float = 1.0  #: of the weight of a word: the pairs of letters of one share it

    @property
    def is_beginning(self) -> bool:
        """Whether it may be the beginning of a longer word."""
        return self.text.endswith(BEGINNING)

    @property
    def signed(self) -> str:
        """The word with the signs that are a part of it, which no index has; empty: it has none.

        >>> [Term(word, ("c",)).signed for word in ("C++?", "(c#)", "C", "c+", "C++17")]
        ['c++', 'c#', '', '', '']
        """
        found = _SIGNED.fullmatch(self.text) if len(self.stems) == 1 else None
        return found[1].lower() if found else ""

    @property
    def beginning(self) -> str:
        """The letters with which a title may have it, in lower case.

        >>> Term("(Tables)", ("tabl",)).beginning
        'tabl'
        """
        first = next(words_at(self.text), None)
        return self.stems[0] if first is None else first.form[: len(self.stems[0])]

    def keys(self, language: str) -> tuple[Keys, ...]:
        """Return the keys by which it may be in a text of a language (``asked_keys``)."""
        return asked_keys(self.text, language) or (self.stems,)


class QueryName(NamedTuple):
    """A name that a query asks for."""

    keys: AskedName
    text: str | None  #: of the term that is one; None: the whole query is


@dataclass(frozen=True, slots=True)
class Query:
    """A query, parsed."""

    terms: tuple[Term, ...]  #: without function words, unless there are only such
    required: tuple[str, ...] = ()  #: words that must occur
    excluded: tuple[str, ...] = ()  #: words or phrases that must not occur
    sites: tuple[str, ...] = ()  #: hosts and addresses; those of the web without their scheme
    sources: tuple[str, ...] = ()
    excluded_sites: tuple[str, ...] = ()
    excluded_sources: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()  #: as they were written, here and below (``index.filters``)
    excluded_languages: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    excluded_types: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    language: str = ""  #: ISO 639-1, the only one of the pages; empty: any
    pages: tuple[Any, ...] | None = None  #: of an index, by its keys, which alone count; None: all
    is_question: bool = False  #: whether a person might ask another with these words
    names: tuple[QueryName, ...] = ()  #: names that it may be, or that are among its words

    def of_words(self) -> Query:
        """Return the query as key words, as a model takes it that adds up the words of a text."""
        return replace(self, is_question=False)

    def only(self, terms: Sequence[Term]) -> Query:
        """Return the query with other terms."""
        return replace(self, terms=tuple(terms))

    def relaxed(self, pages: Sequence[int]) -> Query | None:
        """Return the query for a second try, when no page has all that is required.

        ``pages`` is the number of pages that have each term. Words that no page has are not
        required; if there are none of these, nothing is. None: nothing was required.
        """
        if not self.required:
            return None
        there = {t.text for t, count in zip(self.terms, pages, strict=True) if count}
        kept = tuple(text for text in self.required if text in there)
        return replace(self, required=kept if kept != self.required else ())


@lru_cache(256)
def parsed_search_query(query: str, language: str = "") -> Query:
    """Parse a query; ``language`` is that of its pages, empty for any.

    Words that signs join stay together, and so do "quoted words", which must occur. Function words
    are left out, unless there are no others. Parts without a letter or digit are left out, and so
    are filters without a value, and characters that no index takes: NUL and halves of
    surrogate pairs. Of the words, and of each other kind of part, the first ``MOST`` count; all
    sources count, because one name may stand for many.

    >>> [term.text for term in parsed_search_query('how do I "undo it" state-of-the-art ?!').terms]
    ['undo it', 'state-of-the-art']
    >>> parsed_search_query("how do I undo it").is_question, parsed_search_query("undo").is_question
    (True, False)
    >>> found = parsed_search_query("who -draft site:a.example/docs in:manual")
    >>> found.terms[0].text, found.excluded, found.sites, found.sources
    ('who', ('draft',), ('a.example/docs',), ('manual',))
    >>> found = parsed_search_query("lamp type:pdf after:2025 -after:2026-05")  # before:2026-05
    >>> found.types, found.after, found.before
    (('pdf',), ('2025',), ('2026-05',))

    Two dashes are part of a word: the option of a program.

    >>> found = parsed_search_query("log --oneline -- -draft")
    >>> [term.text for term in found.terms], found.excluded
    (['log', '--oneline'], ('draft',))
    """
    terms: list[Term] = []
    excluded: list[str] = []
    filters: dict[tuple[str, bool], list[str]] = defaultdict(list)  #: by name and sign
    for part in _PART.finditer(_sayable(query)):
        text = part["quoted"] or part["word"]
        if text is None:
            value = _filter_value(part)
            filters[part["name"], bool(part["sign"])] += [value] if value else []
        elif part["sign"]:
            excluded += [text] * any(c.isalnum() for c in text)
        else:
            terms += _terms(text, quoted=part["quoted"] is not None)
    kept, left_out = _content(terms)
    content = tuple(kept[:_READ])
    required = _first([term.text for term in content if term.quoted])
    return Query(
        content,
        required,
        excluded=_first(excluded),
        sites=_first(filters["site", False]),
        sources=tuple(dict.fromkeys(filters["in", False])),
        excluded_sites=_first(filters["site", True]),
        excluded_sources=tuple(dict.fromkeys(filters["in", True])),
        languages=_first(filters["language", False]),
        excluded_languages=_first(filters["language", True]),
        types=_first(filters["type", False]),
        excluded_types=_first(filters["type", True]),
        after=_first([*filters["after", False], *filters["before", True]]),
        before=_first([*filters["before", False], *filters["after", True]]),
        language=language,
        is_question=left_out >= _QUESTION,
        names=_names(search_query_text(query), content),
    )


def _names(text: str, terms: Sequence[Term]) -> tuple[QueryName, ...]:
    """Return the whole query as a name, and those of its words that are names by their form.

    >>> [one.text for one in _names("with open()", [Term("open()", ("open",))])]
    [None, 'open()']
    """
    found = {keys: QueryName(keys, None)} if (keys := asked_name(text)) else {}
    for term in terms[:MOST]:
        if is_identifier(term.text) and (keys := asked_name(term.text)):
            found.setdefault(keys, QueryName(keys, term.text))
    return tuple(found.values())


def search_query_text(query: str) -> str:
    """Return the words of a query as a person wrote them, without signs and filters.

    >>> search_query_text('how do I "undo it" -draft site:a.example in:manual ?')
    'how do I undo it ?'
    """
    parts = _PART.finditer(_sayable(query))
    words = [part["quoted"] or part["word"] for part in parts if not part["sign"]]
    return " ".join(filter(None, words))


def _sayable(query: str) -> str:
    return query.replace("\0", " ").replace(BEGINNING, " ").encode("utf-8", "ignore").decode()


def query_with_beginning(query: Query, text: str) -> Query:
    """Return the query of a text whose last word may be the beginning of a longer one.

    It stays as it is where the text does not end with a word of at least three letters, or that is
    quoted, excluded, a filter, or written in a script without spaces; and so does a function word.

    >>> [
    ...     [term.is_beginning for term in query_with_beginning(parsed_search_query(q), q).terms]
    ...     for q in ("how to transpo", "red lam ", "red la", '"red lamp"', "red -lamp", "red C++")
    ... ]
    [[True], [False, False], [False, False], [False], [False], [False, False]]
    """
    text = _sayable(text)
    parts = list(_PART.finditer(text))
    last = parts[-1] if parts else None
    if last is None or last.end() < len(text) or not last["word"] or last["sign"]:
        return query
    for place in reversed(range(len(query.terms))):
        term = query.terms[place]
        if not term.quoted and last["word"].endswith(term.text):
            begun = beginning_of_term(term)
            return query.only([*query.terms[:place], begun, *query.terms[place + 1 :]])
    return query


def beginning_of_term(term: Term) -> Term:
    """Return a word as the beginning of one; as it is where it is too short for that."""
    found = list(words_at(term.text))
    is_word = len(found) == 1 and found[0].end == len(term.text)
    if not is_word or is_unspaced(found[0].form) or len(found[0].form) < _LEAST_BEGINNING:
        return term
    return replace(term, text=term.text + BEGINNING)


def search_query_with_word(query: str, word: str, instead: str) -> str:
    """Return a query with another word in place of one, neither excluded nor in quotes.

    >>> search_query_with_word('-lamp "lamp" site:lamp lamp oil', "lamp", "lantern")
    '-lamp "lamp" site:lamp lantern oil'
    """
    query = _sayable(query)
    for part in _PART.finditer(query):
        if part["word"] == word and not part["sign"]:
            return query[: part.start()] + instead + query[part.end() :]
    return query


def search_query_with_sources(query: str, named: Callable[[str], Sequence[str]]) -> str:
    """Return a query whose in: and -in: have the names that ``named`` returns for one.

    >>> search_query_with_sources("in:a -in:b lamp", lambda name: [name + ":1", name + ":2"])
    'in:"a:1" in:"a:2" -in:"b:1" -in:"b:2" lamp'
    """
    query = _sayable(query)
    made, end = "", 0
    for part in _PART.finditer(query):
        name = _filter_value(part)
        if part["name"] != "in" or not name or (found := named(name)) == [name]:
            continue
        sign = part["sign"] or ""
        made += query[end : part.start()] + " ".join(f'{sign}in:"{one}"' for one in found)
        end = part.end()
    return made + query[end:]


def _filter_value(part: re.Match[str]) -> str:
    """Return the value of a filter as it is looked for."""
    return _SCHEME.sub("", part["whole"] or part["value"] or "").strip()


def _first(parts: Sequence[str]) -> tuple[str, ...]:
    """Return the first parts of a query that differ, as many as a database takes in one query."""
    return tuple(dict.fromkeys(parts))[:MOST]


def _terms(text: str, *, quoted: bool) -> list[Term]:
    """Return the terms of a part of a query: one, or pairs of letters of scripts without spaces.

    >>> [term.text for term in _terms("SQLite3の使い方", quoted=False)]
    ['SQLite3', '使い', '方']
    >>> [term.text for term in _terms("l'étranger", quoted=False)]
    ['étranger']
    """
    if quoted:
        keys = tuple(index_keys(text))
        return [Term(text, keys, quoted=True)] * bool(keys)
    text = _ELIDED.sub("", text, count=1) if _ELIDED.match(text) else text
    words = asked_words(text)
    shares = dict(zip(words, word_shares(words), strict=True))
    if not any(is_unspaced(word.form) for word in words):
        keys = tuple(index_keys(text))
        return [Term(text, keys)] * bool(keys)
    found: list[Term] = []
    together: list[Word] = []
    for word in [*words, None]:
        if word is not None and not is_unspaced(word.form):
            together.append(word)
            continue
        if together:
            part = text[together[0].start : together[-1].end]
            found.append(Term(part, tuple(index_keys(part))))
            together = []
        if word is not None:
            pair = text[word.start : word.end]
            found.append(Term(pair, (word.form,), share=shares[word]))
    return found


def _content(terms: Sequence[Term]) -> tuple[list[Term], int]:
    """Return the terms without function words and repetitions, and how many are function words."""
    plain = [word for term in terms if not term.quoted for word in index_words(term.text)]
    without = search_function_words(plain)
    kept = [
        term
        for term in terms
        if term.quoted or term.signed or not without.issuperset(index_words(term.text))
    ]
    found: dict[tuple[str, ...], Term] = {}
    for term in kept or terms:
        key = (*term.stems, term.signed)
        if key not in found or term.quoted:
            found[key] = term
    return list(found.values()), len(terms) - len(kept)


def search_query_sources(sources: Sequence[str], named: Sequence[str]) -> list[str] | None:
    """Return the sources that both an option and a query name; None: there is none in common.

    >>> (
    ...     search_query_sources((), ("a",)),
    ...     search_query_sources(("a", "b"), ("b",)),
    ...     search_query_sources(("a",), ("b",)),
    ...     search_query_sources((), ()),
    ... )
    (['a'], ['b'], None, [])
    """
    if not sources or not named:
        return list(sources or named)
    return [name for name in sources if name in named] or None


def search_query_site(site: str) -> tuple[str, str]:
    """Return the host of a site, as addresses spell it, and the path without a slash at its end.

    >>> search_query_site("Bücher.example/a/"), search_query_site("a.example:8000")
    (('xn--bcher-kva.example', '/a'), ('a.example:8000', ''))
    """
    host, slash, path = site.partition("/")
    host = host.lower()
    with suppress(UnicodeError):  # no name of a host: no address has it
        host = host.encode("idna").decode()
    return host, (slash + path).rstrip("/")


def search_signs_after(path: str) -> str:
    """Return the signs that may follow the path of a site in an address: a part ends there.

    >>> search_signs_after("/docs"), search_signs_after("/list?id=5")
    ('/?', '/?&')
    """
    return "/?&" if "?" in path else "/?"


def search_query_place(site: str) -> str | None:
    """Return the address of a folder or bucket that a site names, without a slash at its end.

    None: it names a host, with or without a path.

    >>> search_query_place("file:///srv/my notes/"), search_query_place("S3://b/docs")
    ('file:///srv/my%20notes', 's3://b/docs')
    >>> search_query_place("file:///"), search_query_place("a.example/docs")
    ('file://', None)

    Raises:
        SearchQueryError: it is no address.
    """
    if "://" not in site:
        if _PATH.match(site):
            raise SearchQueryError(_no_site(site, "is a path"))
        return None
    try:
        found = normalize_file_url(site)
    except (ValueError, TypeError):
        found = None
    if found is None:
        raise SearchQueryError(_no_site(site, "is not an address"))
    return found.removesuffix("/")


def _no_site(site: str, why: str) -> str:
    """Return why a site is refused, and what to write.

    >>> _no_site("/srv/notes", "is a path")
    "site:'/srv/notes' is a path: write site:file:///srv/notes"
    >>> _no_site("9://", "is no address")
    "site:'9://' is no address: write a host, or such as site:file:///home/me"
    """
    with suppress(ValueError):
        return f"site:{site!r} {why}: write site:{url_of_folder(site)}"
    return f"site:{site!r} {why}: write a host, or such as site:file:///home/me"

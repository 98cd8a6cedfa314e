"""Keys of words: what an index has of them, a query asks for, and the ranking compares.

The key of a word is its Snowball stem by the language of its text, without accents. Stems are made
before accents go, because stemmers need them. One function serves index, query, ranking, spelling
and marks, so that all indexes find the same words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain, combinations
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeVar

import Stemmer

from smartcrawl.index.analysis.endings import FURTHER, further_stem
from smartcrawl.index.analysis.words import (
    LONGEST,
    folded,
    is_unspaced,
    run_forms,
    run_words,
    runs_at,
    text_runs,
    without_signs,
)

#: Version of the keys; with it that of the stemmers. Another one has all words analyzed anew.
ANALYSIS_VERSION: Final = f"3 {Stemmer.version()}"

_LATIN, _CYRILLIC, _GREEK, _ARMENIAN = "Latin", "Cyrillic", "Greek", "Armenian"
_HEBREW, _ARABIC, _DEVANAGARI, _TAMIL = "Hebrew", "Arabic", "Devanagari", "Tamil"
#: Stemmers of languages (ISO 639-1).
_STEMMERS: Final[Mapping[str, str]] = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek",
    "en": "english", "eo": "esperanto", "es": "spanish", "et": "estonian", "eu": "basque",
    "fa": "persian", "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi",
    "hu": "hungarian", "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian",
    "nb": "norwegian", "ne": "nepali", "nl": "dutch", "nn": "norwegian", "no": "norwegian",
    "pl": "polish", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian",
    "sv": "swedish", "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip
#: Languages that are not written in Latin letters, by script; empty: scripts without stemmers.
_WRITTEN: Final[Mapping[str, str]] = {
    _CYRILLIC: "ru uk be bg mk kk ky mn tg tt ba cv os ce",
    _GREEK: "el",
    _ARMENIAN: "hy",
    _HEBREW: "he yi",
    _ARABIC: "ar fa ur ps sd ug ks",
    _DEVANAGARI: "hi mr ne sa",
    _TAMIL: "ta",
    "": "ja zh ko th lo km my bo dz ka am ti bn as pa gu or te kn ml si",
}
_SCRIPTS: Final = {code: script for script, codes in _WRITTEN.items() for code in codes.split()}
#: The language by which words are taken in texts of another script, and of unknown language.
_USUAL: Final[Mapping[str, str]] = {
    _LATIN: "en", _CYRILLIC: "ru", _GREEK: "el", _ARMENIAN: "hy", _ARABIC: "ar",
    _DEVANAGARI: "hi", _TAMIL: "ta",
}  # fmt: skip
_BLOCKS: Final = (
    (0x0250, _LATIN), (0x0370, ""), (0x0400, _GREEK), (0x0530, _CYRILLIC), (0x0590, _ARMENIAN),
    (0x0600, _HEBREW), (0x0780, _ARABIC), (0x0900, ""), (0x0980, _DEVANAGARI), (0x0B80, ""),
    (0x0C00, _TAMIL), (0x1E00, ""), (0x1F00, _LATIN), (0x2000, _GREEK),
)  # fmt: skip
#: Letters with accents that people leave out, by language: the stem of the word may depend on them.
_ACCENTED: Final[Mapping[str, str]] = {
    "ca": "àçèéíïòóúü", "cs": "áčďéěíňóřšťúůýž", "da": "åøæ", "de": "äöü", "eo": "ĉĝĥĵŝŭ",
    "es": "áéíóúüñ", "et": "äõöü", "eu": "ñ", "fi": "äö", "fr": "àâçèéêëîïôûù", "ga": "áéíóú",
    "hu": "áéíóöőúüű", "it": "àèéìòù", "lt": "ąčęėįšųūž", "nb": "åøæ", "nl": "éëï", "nn": "åøæ",
    "no": "åøæ", "pl": "ąćęłńóśźż", "pt": "áâãàçéêíóôõú", "ro": "ăâîșț", "ru": "ё",
    "sr": "čćđšž", "sv": "åäö", "tr": "çğıöşü",
}  # fmt: skip
_UNSTEMMED: Final = "\u2e80"  #: the first letter of Han, kana and Hangul, which have no accents
_END: Final = 4  #: letters at the end of a word of which two may lack their accents
_PAIR: Final = 2  #: letters
_CACHED: Final = 50_000  #: runs whose keys are remembered for each language
_CACHED_PARTS: Final = 20_000  #: the same of what stands between spaces
_TITLE: Final = 1_000  #: characters of a title whose keys are remembered, at most
_SHORT: Final = 40  #: characters of a run that is remembered, at most
_MOST_FORMS: Final = 12  #: keys of one word of a query in one language

T = TypeVar("T")
Keys = tuple[str, ...]  #: of a word, or of words that stay together
BEGINNING: Final = "\ue000"  #: sign behind a word of a query that may be the beginning of one
ANY_END: Final = "*"  #: end of a key that stands for all keys with this beginning; no text has it


class Place(NamedTuple):
    """A word in a text with its key."""

    start: int  #: characters
    end: int
    key: str
    form: str  #: in lower case, with accents


def index_keys(text: str, language: str = "") -> list[str]:
    """Return the keys of a text's words in their order; ``language`` is ISO 639-1, "" unknown.

    >>> index_keys("Uncommitted changes: Häuser", "en")
    ['uncommit', 'chang', 'hauser']
    >>> index_keys("Die Häuser, 東京都", "de")
    ['die', 'haus', '東京', '京都']
    """
    text = without_signs(text)
    if text.isascii():
        return list(_items(_known_ascii(language), text_runs(text)))
    return list(chain.from_iterable(_items(_known_parts(language), text.split())))


def _items(known: Mapping[str, T], keys: Sequence[str]) -> Iterable[T]:
    """Return the values of some keys: one call for all is twice as fast as one for each."""
    return itemgetter(*keys)(known) if len(keys) > 1 else [known[key] for key in keys]


def keys_of_words(words: Sequence[str], language: str = "") -> list[str]:
    """Return the keys of many words in a language, each of them one, without remembering them.

    >>> keys_of_words(["changes", "häuser"], "de")
    ['chang', 'haus']
    """
    by = _stemmed_by(language, _LATIN)
    stemmer = _stemmer(by)
    if stemmer is None or by in FURTHER or not all(map(str.isascii, words)):
        return [_key(word, language) for word in words]
    stems = stemmer.stemWords(list(words))
    return [(stem or word)[:LONGEST] for stem, word in zip(stems, words, strict=True)]


def chunk_words(
    title: str, headings: str, text: str, pictures: str, language: str, *, names: str = ""
) -> list[str]:
    """Return title, headings, text and pictures of a chunk as their keys, with spaces between.

    The ``names`` (``analysis.names.name_words``) are behind those of the pictures.

    >>> chunk_words("Häuser", "", "Die Häuser, 東京都", "", "de")
    ['haus', '', 'die haus 東京 京都', '']
    """
    of_pictures = " ".join(index_keys(pictures, language)) if pictures else ""
    of_titles = [
        _known_title(one, language) if len(one) <= _TITLE else " ".join(index_keys(one, language))
        for one in (title, headings)
    ]
    return [*of_titles, " ".join(index_keys(text, language)), f"{of_pictures} {names}".strip()]


@lru_cache(256)  # many chunks have it
def _known_title(title: str, language: str) -> str:
    return " ".join(index_keys(title, language))


def index_words(text: str) -> list[str]:
    """Return the words of a text in their order, without accents and in lower case.

    >>> index_words("don't Café_2")
    ['don', 't', 'cafe', '2']
    """
    return [folded(form) for run in text_runs(text) for form in run_forms(run)]


def index_places(text: str, language: str = "") -> Iterator[Place]:
    """Yield the words of a text with their places and keys."""
    known = _known(language)
    for start, run in runs_at(text):
        keys = known[run]
        if len(keys) == 1 and not is_unspaced(run):
            yield Place(start, start + len(run), keys[0], run)
        else:
            words = zip(run_words(run, language), keys, strict=True)
            yield from (Place(start + at, start + end, key, form) for (at, end, form), key in words)


@lru_cache(4_096)
def asked_keys(text: str, language: str = "") -> tuple[Keys, ...]:
    """Return the keys by which a word, or words that stay together, may be in texts of a language.

    The first are those of the word as it is written. The word may lack its accents, or have some
    that the text lacks, and the stem depends on them in some languages.

    >>> asked_keys("informacao", "pt"), asked_keys("Häuser am Fluss", "de")
    ((('informaca',), ('informacao',), ('inform',)), (('haus', 'am', 'fluss'),))
    >>> asked_keys(f"Häuser{BEGINNING}", "de"), asked_keys(f"Häus{BEGINNING}", "de")
    ((('haus',), ('hauser*',)), (('haus*',),))

    A pair of letters may stand elsewhere than in a text that is this pair alone.

    >>> asked_keys("れ替", "ja")
    (('れ替',), ('替',))
    """
    if text.endswith(BEGINNING):
        forms = [form for run in text_runs(text) for form in run_forms(run, language)]
        begun = [(folded(form) + ANY_END,) for form in forms[:1]]
        whole = [keys for keys in asked_keys(text[:-1], language)
                 if not any(keys[0].startswith(one[:-1]) for (one,) in begun)]  # fmt: skip
        return tuple(dict.fromkeys([*whole, *begun]))
    forms = [form for run in text_runs(text) for form in run_forms(run, language)]
    if not forms:
        return ()
    plain = [folded(form) for form in forms]
    found = [tuple(_key(form, language) for form in forms)]
    if len(text) == _PAIR and forms[0] in text and is_unspaced(text):
        found.insert(0, ("".join(form for letter in text for form in run_forms(letter)),))
    found.append(tuple(_key(form, language) for form in plain))
    if len(forms) == 1 and forms == plain and not is_unspaced(forms[0]):
        found += [(_key(form, language),) for form in _with_accents(forms[0], language)]
    return tuple(dict.fromkeys(found))[:_MOST_FORMS]


def asked_keys_of_languages(text: str, languages: Iterable[str]) -> tuple[Keys, ...]:
    """Return the keys by which a word may be in an index that has texts of some languages."""
    found = chain.from_iterable(asked_keys(text, language) for language in languages)
    return tuple(dict.fromkeys(found)) or asked_keys(text)


class KeyFinder:
    """Finds the words of a query among the keys of a text.

    ``asked``: for each word of the query the keys by which it may be there (``asked_keys``).
    """

    def __init__(self, asked: Sequence[Collection[Keys]]) -> None:
        self.single: dict[str, int] = {}  #: place of the word in the query, by key
        self._begun: dict[str, int] = {}  #: the same by the beginnings of keys
        self._joined: list[tuple[int, Keys]] = []
        for rank in range(max(map(len, asked), default=0)):
            for n, forms in enumerate(asked):
                for keys in list(forms)[rank : rank + 1]:
                    if keys[0].endswith(ANY_END):
                        self._begun.setdefault(keys[0][:-1], n)
                    elif len(keys) == 1:
                        self.single.setdefault(keys[0], n)
                    else:
                        self._joined.append((n, keys))

    @property
    def needs_words(self) -> bool:
        """Whether words asked for stay together, or may begin words that have shorter keys."""
        return bool(self._joined or self._begun)

    def places(self, keys: Sequence[str]) -> list[tuple[int, int]]:
        """Return places of words among keys: of the key, and of the word in the query."""
        single = self.single
        if single.keys().isdisjoint(keys):
            found = []
        else:
            found = [(at, single[key]) for at, key in enumerate(keys) if key in single]
        if self._joined:
            more = {(at, n) for n, joined in self._joined for at in _starts(keys, joined)}
            found = sorted({*found, *more})
        if self._begun:
            found = sorted({*found, *self._beginning(keys)})
        return found

    def _beginning(self, words: Sequence[str]) -> Iterator[tuple[int, int]]:
        for beginning, n in self._begun.items():
            yield from ((at, n) for at, word in enumerate(words) if word.startswith(beginning))

    def spans(self, keys: Sequence[str], forms: Iterable[str]) -> list[tuple[int, int, int]]:
        """Return the words found: of the first key, behind the last, and of the word asked.

        ``forms``: the words as they are written, which stems may be shorter than.
        """
        single = self.single
        found = [(at, at + 1, single[key]) for at, key in enumerate(keys) if key in single]
        if not self._joined and not self._begun:
            return found
        found += [
            (at, at + len(joined), n) for n, joined in self._joined for at in _starts(keys, joined)
        ]
        if self._begun:
            begun = self._beginning([folded(form) for form in forms])
            found = [*{*found, *((at, at + 1, n) for at, n in begun)}]
        return sorted(found)


def _starts(keys: Sequence[str], joined: Keys) -> Iterator[int]:
    first, many = joined[0], len(joined)
    for at, key in enumerate(keys):
        if key == first and tuple(keys[at : at + many]) == joined:
            yield at


class _Known(dict[str, Keys]):
    """Keys of runs in one language; those that were met are remembered."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._language = language

    def __missing__(self, run: str) -> Keys:
        found = tuple(_key(form, self._language) for form in run_forms(run, self._language))
        if len(run) <= _SHORT:
            if len(self) >= _CACHED:
                self.clear()
            self[run] = found
        return found


class _KnownAscii(dict[str, str]):
    """The key of each run of ASCII in one language."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._of = _known(language)

    def __missing__(self, run: str) -> str:
        (found,) = self._of[run]
        if len(run) <= _SHORT:
            if len(self) >= _CACHED:
                self.clear()
            self[run] = found
        return found


class _KnownParts(dict[str, Keys]):
    """Keys of what stands between spaces in one language; most is met again with its signs."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._of = _known(language)

    def __missing__(self, part: str) -> Keys:
        found = tuple(chain.from_iterable(map(self._of.__getitem__, text_runs(part))))
        if len(part) <= _SHORT:
            if len(self) >= _CACHED_PARTS:
                self.clear()
            self[part] = found
        return found


@cache
def _known_parts(language: str) -> _KnownParts:
    return _KnownParts(language)


@cache
def _known_ascii(language: str) -> _KnownAscii:
    return _KnownAscii(language)


@cache
def _known(language: str) -> _Known:
    return _Known(language)


def _key(form: str, language: str) -> str:
    if form[0] >= _UNSTEMMED:
        return form
    by = _stemmed_by(language, _script(form))
    stemmer = _stemmer(by)
    if stemmer is None:
        return folded(form)
    stem = further_stem(form, stemmer.stemWord, by)
    return (folded(stem) or folded(form))[:LONGEST]


def _script(form: str) -> str:
    """Return the script of a word, by its first letter; empty: one without stemmers."""
    code = ord(form[0])
    return next((script for end, script in _BLOCKS if code < end), "")


@cache
def _stemmed_by(language: str, script: str) -> str:
    """Return the language by which words of a script are stemmed in a text of a language."""
    is_own = script == _SCRIPTS.get(language, _LATIN) or (language, script) == ("sr", _CYRILLIC)
    return language if language and is_own else _USUAL.get(script, "")


@cache
def _stemmer(language: str) -> Any:
    """Return the stemmer of a language; None: it has none."""
    return Stemmer.Stemmer(_STEMMERS[language], 0) if language in _STEMMERS else None


def load_stemmers() -> None:
    """Load what keys of words need in any language, for a process that may open no file later."""
    for language in (*_STEMMERS, *FURTHER):
        _key("größe", language)
    index_keys("größe 東京")


def _with_accents(form: str, language: str) -> Iterator[str]:
    """Yield a word with an accent in one place, or in two places of its end."""
    places = _accents(language)
    if not places or len(form) > LONGEST // 4:
        return
    one = [(at, letter) for at, plain in enumerate(form) for letter in places.get(plain, ())]
    for at, letter in reversed(one):
        yield form[:at] + letter + form[at + 1 :]
    for (at, letter), (other, second) in combinations(one, 2):
        if at != other and at >= len(form) - _END:
            yield form[:at] + letter + form[at + 1 : other] + second + form[other + 1 :]


@cache
def _accents(language: str) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for letter in _ACCENTED.get(language, ""):
        found.setdefault(folded(letter), []).append(letter)
    return found

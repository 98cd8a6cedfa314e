"""Words of a text in any script, in their normal form.

Scripts without spaces between words (Chinese, Japanese, Thai and others), and Korean, whose words
carry particles, are taken in overlapping pairs of letters. Words of all others are what Unicode
takes for letters, marks and digits that follow one another.

A word of one letter would be in no pair that another sentence has, too. So a Chinese character
between Japanese endings or particles counts alone (色 in 色を and の色), and a Korean syllable
without its particle (셀 in 셀에서).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

from smartcrawl.model.late_patterns import late_pattern

LONGEST: Final = 128  #: characters of a word that count; longer ones are equal if these are
#: Scripts that are taken in pairs: Thai, Lao, Tibetan, Myanmar, Korean, Khmer, Tai; radicals, kana,
#: bopomofo, Han, Hangul; half-width kana; Han beyond the first plane.
UNSPACED: Final = (
    r"\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf\u0f00\u0f40-\u0fbc\u1000-\u103f"
    r"\u1050-\u109d\u1100-\u11ff\u1780-\u17d3\u17d7\u17dc\u17dd\u1950-\u19c9\u1a20-\u1a7c"
    r"\u2e80-\u2fd5\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3040-\u30fa\u30fc-\u312f\u3131-\u318e"
    r"\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\ua9e0-\ua9fe\uaa60-\uaa7f\uac00-\ud7fb"
    r"\uf900-\ufaff\uff66-\uff9f\uffa0-\uffdc\U00016fe0-\U00018d8f\U0001aff0-\U0001b2fb"
    r"\U00020000-\U0003ffff"
)
#: Signs without a width inside of words: soft hyphen, joiners, and the mark of the byte order.
_JOINERS: Final = "\u00ad\u034f\u061c\u180e\u200c\u200d\u200e\u200f\u2060\ufeff"
_TSHEG: Final = "\u0f0b\u0f0c"  #: between the syllables of Tibetan
_TATWEEL: Final = "\u0640"
#: Blocks with marks: their categories are looked up at the first text that is not of ASCII.
_MARKED: Final = (
    (0x300, 0x1200), (0x135D, 0x1360), (0x1712, 0x1CFA), (0x1DC0, 0x1E00),
    (0x20D0, 0x2100), (0x2CEF, 0x2E00), (0x302A, 0x3030), (0x3099, 0x309B), (0xA66F, 0xA6F2),
    (0xA802, 0xABEE), (0xFB1E, 0xFB1F), (0xFE00, 0xFE30), (0x101FD, 0x10400), (0x10A01, 0x10AE7),
    (0x10D24, 0x11FFF), (0x13430, 0x13460), (0x16100, 0x16FF2), (0x1BC9D, 0x1BC9F),
    (0x1CF00, 0x1CF47), (0x1D165, 0x1D245), (0x1DA00, 0x1DAB0), (0x1E000, 0x1E94B),
    (0xE0100, 0xE01F0),
)  # fmt: skip
_SPACED: Final = {code: " " for code in range(128) if not chr(code).isalnum()}
#: Signs that are no part of a word, the usual ones beyond ASCII.
_SIGN: Final = (
    r"[\u00a0-\u00a9\u00ab\u00ac\u00ae-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u00d7\u00f7"
    r"\u2010-\u2027\u2030-\u203e\u20ac\u2122\u2190-\u21ff\u2500-\u25ff]"
)
_ASCII_RUN: Final = late_pattern("[A-Za-z0-9]+")
_SIGNS: Final = late_pattern(f"{_SIGN}+")
_ONE_SIGN: Final = late_pattern(_SIGN)
_GONE: Final = dict.fromkeys(map(ord, _JOINERS + _TSHEG + _TATWEEL))
#: Marks that a letter loses, so that words with and without them are equal: of Latin, Greek and
#: Cyrillic letters, vowels of Hebrew and Arabic. In other scripts they are parts of the word.
_ACCENTS: Final = late_pattern(
    r"[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a"
    r"\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u1ab0-\u1aff"
    r"\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f\U000e0100-\U000e01ef]+"
)
_LETTERS: Final = str.maketrans({
    "ß": "ss", "ẞ": "ss", "œ": "oe", "æ": "ae", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th",
    "ı": "i", "ħ": "h", "ŧ": "t", "ŋ": "n", "ĸ": "k", "ſ": "s", "ς": "σ",
})  # fmt: skip
_TURKISH: Final = str.maketrans({"I": "ı", "İ": "i"})
_OF_TURKIC: Final = frozenset({"tr", "az"})
#: A Chinese character with nothing but hiragana before it, and a particle or nothing behind it.
_ALONE: Final = late_pattern(
    r"(?:\A|(?<=[\u3041-\u309f]))[\u4e00-\u9fff](?=[をのにがはでともへや]|\Z)"
)
#: A Korean syllable with a particle, but for nouns of two syllables that end as if with one.
_SYLLABLE: Final = late_pattern(
    r"(?![정주회편동논강합성예토호임유문제]의|[마가노고]을)"
    r"([\uac00-\ud7a3])(?:[을를에의]|에서|으로|까지|부터|마다|에는|에도)"
)
_WITH_PARTICLE: Final = 3  #: letters of a syllable with its particle, at most


class Word(NamedTuple):
    """A word, or a pair of letters, in a text."""

    start: int  #: characters from the beginning of the text
    end: int
    form: str  #: in lower case, with accents, of usual width


def text_runs(text: str) -> list[str]:
    """Return what stands between the spaces and signs of a text.

    >>> text_runs("don't café_2、東京")
    ['don', 't', 'café', '2', '東京']
    """
    text = without_signs(text)
    return text.translate(_SPACED).split() if text.isascii() else _runs().findall(text)


def text_with_plain_signs(text: str) -> str:
    """Return a text with a space for each usual sign beyond ASCII; all else keeps its place."""
    return text if text.isascii() else _ONE_SIGN.sub(" ", text)


def text_with_spaces(text: str) -> str:
    """Return a text of ASCII with a space for each sign; its words keep their places."""
    return text.translate(_SPACED)


def without_signs(text: str) -> str:
    """Return a text with spaces for usual signs: most texts are of ASCII but for these."""
    return text if text.isascii() else _SIGNS.sub(" ", text)


def words_at(text: str, language: str = "") -> Iterator[Word]:
    """Yield the words of a text with their places; ``language`` decides on the case of an I.

    >>> [(word.start, word.end, word.form) for word in words_at("SQLiteの表 ｶﾞｽ")]
    [(0, 6, 'sqlite'), (7, 8, '表'), (9, 12, 'ガス')]
    """
    for at, run in runs_at(text):
        for start, end, form in run_words(run, language):
            yield Word(at + start, at + end, form)


def runs_at(text: str) -> Iterator[tuple[int, str]]:
    """Yield the places of ``text_runs``, with these."""
    for found in (_ASCII_RUN if text.isascii() else _runs()).finditer(text):
        yield found.start(), found[0]


def run_words(run: str, language: str = "") -> list[Word]:
    """Return the words of a run of ``text_runs``, with their places in it."""
    if run.isascii():
        form = (run.translate(_TURKISH) if language in _OF_TURKIC else run).lower()
        return [Word(0, len(run), form[:LONGEST])]
    found: list[Word] = []
    for part in _parts().finditer(run):
        if part["unspaced"]:
            found += _pairs(part["unspaced"], part.start())
        elif form := _normal(part[0], language):
            found.append(Word(part.start(), part.end(), form))
    return found


def run_forms(run: str, language: str = "") -> list[str]:
    """Return the forms of the words of a run: those of ``run_words``, faster."""
    if not run.isascii() and _simple().fullmatch(run) and len(run) > 1:
        if syllable := _syllable(run):
            return [syllable]
        forms = list(map(str.__add__, run, run[1:]))
        for found in _ALONE.finditer(run):
            forms[min(found.start(), len(forms) - 1)] = found[0]
        return forms
    return [word.form for word in run_words(run, language)]


def folded(form: str) -> str:
    """Return a word without accents, and with plain letters for ß, œ, æ, ø, ł and the like.

    >>> folded("straße"), folded("øł"), folded("हिन्दी") == "हिन्दी"
    ('strasse', 'ol', True)
    """
    if form.isascii():
        return form
    plain = unicodedata.normalize("NFKD", form.translate(_LETTERS))
    return unicodedata.normalize("NFC", _ACCENTS.sub("", plain))


def is_unspaced(form: str) -> bool:
    """Whether a word is a pair of letters, or one letter, of a script without spaces."""
    return not form.isascii() and _unspaced().match(form) is not None


def _normal(text: str, language: str) -> str:
    """Return a word in its normal form; empty: it has only marks."""
    if language in _OF_TURKIC:
        text = text.translate(_TURKISH)
    form = unicodedata.normalize("NFKC", text)
    if form != text and not _runs().fullmatch(form):  # ½ would become two words
        form = unicodedata.normalize("NFC", text)
    form = form.lower().translate(_GONE)
    if any(map(str.isdecimal, form)):
        form = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in form)
    return unicodedata.normalize("NFC", form)[:LONGEST]


def _pairs(text: str, at: int) -> list[Word]:
    """Return the overlapping pairs of a text's letters, each with its marks."""
    letters = [
        Word(at + one.start(), at + one.end(), _letter(one[0]))
        for one in _clusters().finditer(text)
    ]
    if len(letters) == 1:
        return letters
    joined = "".join(letter.form for letter in letters)
    if len(joined) == len(letters) and _syllable(joined):
        return letters[:1]
    pairs = [
        Word(first.start, second.end, first.form + second.form)
        for first, second in pairwise(letters)
    ]
    for found in _ALONE.finditer(joined) if len(joined) == len(letters) else ():
        pairs[min(found.start(), len(pairs) - 1)] = letters[found.start()]
    return pairs


def _syllable(run: str) -> str:
    """Return the syllable of a run that is one with a particle; empty: it is another run."""
    found = _SYLLABLE.fullmatch(run) if len(run) <= _WITH_PARTICLE else None
    return found[1] if found else ""


def _letter(text: str) -> str:
    return unicodedata.normalize("NFKC", text).translate(_GONE)[: LONGEST // 2]


@cache
def _marks() -> str:
    """Return all marks, for a set of characters in a pattern."""
    ranges: list[list[int]] = []
    for start, end in _MARKED:
        for code in range(start, end):
            if unicodedata.category(chr(code)).startswith("M"):
                if ranges and ranges[-1][1] == code - 1:
                    ranges[-1][1] = code
                else:
                    ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges) + _JOINERS + _TSHEG


@cache
def _runs() -> re.Pattern[str]:
    return re.compile(rf"[^\W_]+(?:[{_marks()}]+[^\W_]*)*")


@cache
def _parts() -> re.Pattern[str]:
    return re.compile(rf"(?P<unspaced>(?:[{UNSPACED}][{_marks()}]*)+)|[^{UNSPACED}]+")


@cache
def _clusters() -> re.Pattern[str]:
    """Return the pattern of a letter with its marks, or of a syllable of Tibetan or old Hangul."""
    return re.compile(
        rf"[\u0f00\u0f40-\u0fbc]+[{_TSHEG}]?|[{UNSPACED}][{_marks()}\u1160-\u11ff\uff9e\uff9f]*"
    )


@cache
def _simple() -> re.Pattern[str]:
    """Return the pattern of kana, Han and Hangul, each letter of which is its own normal form."""
    return re.compile("[\u3041-\u3096\u30a1-\u30fa\u30fc\u4e00-\u9fff\uac00-\ud7a3]+")


@cache
def _unspaced() -> re.Pattern[str]:
    return re.compile(rf"[{UNSPACED}]")

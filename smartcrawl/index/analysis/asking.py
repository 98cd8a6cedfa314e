"""Words of a query in scripts without spaces, without the endings and particles between them.

Of a text each pair of letters is a word. Of a query those count that are about something: a pair of
a particle and a letter of the next word is rare, and would weigh most.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from smartcrawl.index.analysis.words import Word, run_words, runs_at
from smartcrawl.model.late_patterns import late_pattern

#: Hiragana, which are mostly endings, and pairs of a particle and the word beside it.
_BETWEEN: Final = late_pattern(
    "[\u3041-\u309f]{1,2}|[をのにがはでともへや][^\u3041-\u309f]|[^\u3041-\u309f][をのにがはでともへや]"
)
#: Particles and endings of verbs, behind two syllables or characters at least, or Latin letters.
_ENDING: Final = late_pattern(
    r"(?<=[\uac00-\ud7a3]{2})(?:[하되][\uac00-\ud7a3]{1,4}|에서|으로|까지|부터|마다|에게|에는|에도|려면|도록"
    r"|[을를은는이가에의로과와도만기고게면])\Z"
    r"|(?<=[A-Za-z0-9])(?:[을를은는이가에의로과와도만]|에서|으로)\Z"
    r"|(?<=[\u30a1-\u30ff\u4e00-\u9fff]{2})[すしさせ][\u3041-\u309f]*\Z",
)
_CHINESE: Final = "Chinese"
#: Pairs of letters of one script.
_SCRIPTS: Final = {
    "katakana": late_pattern("[\u30a1-\u30ff]{2}"),
    "Korean": late_pattern("[\uac00-\ud7a3]{2}"),
    _CHINESE: late_pattern("[\u3400-\u9fff]{2}"),
}


def asked_words(text: str) -> list[Word]:
    """Return the words of a part of a query, without those that only join others.

    If there are no others, they count.

    >>> [word.form for word in asked_words("スライドの背景を変える")]
    ['スラ', 'ライ', 'イド', '背景', '変え']
    >>> [[word.form for word in asked_words(text)] for text in ("텍스트를", "복제하려면")]
    [['텍스', '스트'], ['복제']]
    >>> [[word.form for word in asked_words(text)] for text in ("削除する", "外したい")]
    [['削除'], ['外し']]
    >>> [[word.form for word in asked_words(text)] for text in ("PDFを", "PDF로", "로")]
    [['pdf'], ['pdf'], ['로']]
    """
    found: list[tuple[Word, bool]] = []
    for at, run in runs_at(text):
        stem = _end(run)
        found += [
            (Word(at + start, at + end, form), end > stem) for start, end, form in run_words(run)
        ]
    kept = [
        word
        for word, is_ending in found
        if not is_ending and (word.form.isascii() or not _BETWEEN.fullmatch(word.form))
    ]
    return kept or [word for word, _ in found]


def word_shares(words: Sequence[Word]) -> list[float]:
    """Return what share of the weight of a word each has, of the words of a part of a query.

    Pairs of katakana or of Korean syllables that follow one another are one word; of Chinese
    characters, which make words of two, half as many words as letters.

    >>> word_shares(asked_words("テストの表示形式"))
    [0.5, 0.5, 0.6666666666666666, 0.6666666666666666, 0.6666666666666666]
    """
    shares: list[float] = []
    while len(shares) < len(words):
        first = len(shares)
        many = 1
        for before, word in pairwise(words[first:]):
            if word.start >= before.end or _script(word) != _script(before):
                break
            many += 1
        whole = (many + 1) / 2 if _script(words[first]) == _CHINESE else 1.0
        shares += [whole / many if _script(words[first]) else 1.0] * many
    return shares


def _script(word: Word) -> str:
    """Return the script of a pair of letters that is a part of a word; empty: it is none."""
    if word.form.isascii():
        return ""
    return next((name for name, pair in _SCRIPTS.items() if pair.fullmatch(word.form)), "")


def _end(run: str) -> int:
    """Return where the endings of a Korean word, or of a Japanese verb at the end, begin."""
    ending = None if run.isascii() else _ENDING.search(run)
    return ending.start() if ending else len(run)

"""Words of a query in scripts without spaces, without the endings and particles between them.

Of a text each pair of letters is a word. Of a query those count that are about something: a pair of
a particle and a letter of the next word is rare, and would weigh most.
"""

from __future__ import annotations

import re
from typing import Final

from smartcrawl.index.analysis.words import Word, run_words, runs_at

#: Pairs of hiragana, which are mostly endings, and of a particle and the word beside it.
_BETWEEN: Final = re.compile(
    "[\u3041-\u309f]{2}|[をのにがはでともへや][^\u3041-\u309f]|[^\u3041-\u309f][をのにがはでともへや]"
)
#: Particles, and endings of verbs, behind two syllables at least.
_ENDING: Final = re.compile(
    r"(?<=[\uac00-\ud7a3]{2})(?:[하되][\uac00-\ud7a3]{1,4}|에서|으로|까지|부터|마다|에게|에는|에도|려면|도록"
    r"|[을를은는이가에의로과와도만기고게면])\Z"
)


def asked_words(text: str) -> list[Word]:
    """Return the words of a part of a query, without those that only join others.

    If there are no others, they count.

    >>> [word.form for word in asked_words("スライドの背景を変える")]
    ['スラ', 'ライ', 'イド', '背景', '変え']
    >>> [[word.form for word in asked_words(text)] for text in ("텍스트를", "복제하려면")]
    [['텍스', '스트'], ['복제']]
    """
    found = [
        (Word(at + start, at + end, form), end > _end(run))
        for at, run in runs_at(text)
        for start, end, form in run_words(run)
    ]
    kept = [
        word for word, is_ending in found if not is_ending and not _BETWEEN.fullmatch(word.form)
    ]
    return kept or [word for word, _ in found]


def _end(run: str) -> int:
    """Return where the endings of a Korean word begin; the length of any other."""
    ending = _ENDING.search(run)
    return ending.start() if ending else len(run)

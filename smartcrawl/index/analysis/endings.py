"""Endings that Snowball's rules leave: of verbs, and of nouns made of verbs.

People ask with a verb what a title says with its noun, and the other way round: "salvare" for
"salvataggio", "закрепить" for "закрепление". Snowball gives these different stems, and its rules
for Turkish know no verbs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from smartcrawl.model.late_patterns import late_pattern

Stem = Callable[[str], str]

#: Endings behind Snowball's stem, by language.
_LEFT: Final[Mapping[str, re.Pattern[str]]] = {
    "it": late_pattern(r"(?<=..)(?:atagg|azion|(?<=...)ic)\Z"),
    "ru": late_pattern(
        r"(?<=..)(?:(?:(?:ова|ева|ыва|ива)н?|[аяе]н|(?<=[бвмпф])лен|а)+|(?<=..[^аеиоуыэюя])к)\Z"
    ),
    "tr": late_pattern(r"(?<=[aeıioöuü])y\Z"),
}
FURTHER: Final = frozenset({*_LEFT, "tr"})  #: languages with such endings
#: Of Turkish verbs: infinitives and verbal nouns with the endings of their cases, and requests.
_VERBAL: Final = late_pattern(
    r"(?<=..)m[ae](?:k|s[ıi](?:n(?:[ıi]n?|[ae]|d[ae]n?)?)?|y[ıiae]|n[ıi]n|d[ae]n?)?\Z"
    r"|(?<=[aeıioöuü])y[ıiuü]n\Z"
)
_TIMES: Final = 3  #: endings that a Turkish stem loses one after the other
_SHORTEST: Final = 3  #: letters that a Turkish stem keeps
_VOWEL: Final = late_pattern(r"(?<=...)[aeıioöuü]\Z")


def further_stem(form: str, stem: Stem, language: str) -> str:
    """Return the stem of a word, with fewer endings than Snowball's where it leaves some.

    ``stem``: Snowball's stem of a word of the language.

    >>> further_stem("закрепление", lambda word: "закреплен", "ru")
    'закреп'
    >>> further_stem("salvataggio", lambda word: "salvatagg", "it")
    'salv'
    """
    found = _turkish(form, stem) if language == "tr" else stem(form)
    left = _LEFT.get(language)
    return found if left is None else left.sub("", found)


def _turkish(form: str, stem: Stem) -> str:
    """Return the stem of a Turkish word; Snowball takes two letters for enough.

    >>> _turkish("sonu", lambda word: "so"), _turkish("silmek", lambda word: word)
    ('son', 'sil')
    """
    whole = _VERBAL.sub("", form)
    found = stem(whole)
    for _ in range(_TIMES):
        shorter = stem(found)
        if len(shorter) < _SHORTEST or shorter == found:
            break
        found = shorter
    return found if len(found) >= _SHORTEST else _VOWEL.sub("", whole)

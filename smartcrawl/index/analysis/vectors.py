"""Words of a chunk in the form of PostgreSQL's full-text search."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from smartcrawl.index.analysis.stems import index_keys

_LAST: Final = 16_383  #: the highest place of a word that PostgreSQL knows


def words_vector(
    title: str, headings: str, text: str, pictures: str, language: str, *, names: str = ""
) -> str:
    """Return the keys of a chunk as a tsvector, with their places.

    Titles and ``names`` (``analysis.names.name_words``) have weight A, headings B. No phrase
    reaches from one of these into another.

    >>> words_vector("Häuser", "", "alte Häuser", "", "de")
    "'haus':1A,5 'alt':4"
    """
    places: defaultdict[str, list[str]] = defaultdict(list)
    before = 0
    for part, weight in ((title, "A"), (headings, "B"), (text, ""), (pictures, "")):
        keys = index_keys(part, language)
        for at, key in enumerate(keys, before + 1):
            places[key].append(f"{min(at, _LAST)}{weight}")
        before += len(keys) + 1
    for at, key in enumerate(names.split(), before + 1):
        places[key].append(f"{min(at, _LAST)}A")
    return " ".join(f"'{key}':{','.join(found)}" for key, found in places.items())

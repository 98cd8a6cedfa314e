"""The known word that a mistyped one resembles, for "did you mean" in messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

_CLOSE: Final = 0.6  #: least similarity of two words, from 0 to 1


def nearest_word(word: str, known: Iterable[str], *, least: float = _CLOSE) -> str | None:
    """Return the known word that is most similar to ``word``, or None.

    >>> nearest_word("--limt", ["--limit", "--format"]), nearest_word("--colour", ["--limit"])
    ('--limit', None)
    """
    return next(iter(similar_words(word, known, most=1, least=least)), None)


def similar_words(
    word: str, known: Iterable[str], *, most: int, least: float = _CLOSE
) -> list[str]:
    """Return the known words that are similar to ``word``, the nearest first.

    >>> similar_words("LOST_TRESHOLD", ["LOST_THRESHOLD", "LOG_LEVEL"], most=3)
    ['LOST_THRESHOLD']
    """
    return get_close_matches(word, list(known), n=most, cutoff=least)


def meant_word(word: str, known: Iterable[str]) -> str:
    """Return a question with the similar known word, or an empty string.

    >>> meant_word("dosc", ["docs", "blog"]), meant_word("x", ["docs"])
    (', did you mean docs?', '')
    """
    near = nearest_word(word, known)
    return f", did you mean {near}?" if near else ""

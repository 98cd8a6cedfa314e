"""Words of the index that a misspelt word may stand for.

The index is asked for all words that one error makes of it; its own texts show which of them exist.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from smartcrawl.index.queries import Term, index_stems, index_words, search_query_with_word

_SHORTEST: Final = 4  #: letters of a word that may be misspelt
_FAR: Final = 7  #: letters of a word that may have two errors
_LONGEST: Final = 30
_FAREST: Final = 14  #: letters of a word that may have two errors, at most: forms grow by square
_MOST: Final = 3  #: words of one query that are looked for, since each asks for many forms
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_VOWELS: Final = "aeiouy"
_WORD: Final = re.compile(r"[^\W_](?:[^\W_]|[\u0300-\u036f])*")


class SpellingFound(NamedTuple):
    """Forms that a word may stand for, and texts that have some of them."""

    forms: frozenset[str]
    texts: Sequence[str]


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
        word = index_words(term.text)[0]
        instead = _best(word, nearest(word, False))
        if not instead and _FAR <= len(word) <= _FAREST:
            instead = _best(word, nearest(word, True))
        if instead:
            found[place] = Term(instead, tuple(index_stems(instead)))
            shown = _WORD.sub(instead, term.text, count=1)
            meant = search_query_with_word(meant or query, term.text, shown)
    return found, meant


def may_search_term_be_misspelt(term: Term) -> bool:
    """Whether a term is one word of enough letters."""
    found = index_words(term.text)
    return len(found) == 1 and _SHORTEST <= len(found[0]) <= _LONGEST and found[0].isalpha()


def _best(word: str, found: SpellingFound) -> str:
    """Return the form that the texts have most often, "" if they have none."""
    seen: Counter[str] = Counter()
    for text in found.texts:
        for each in index_words(text):
            if each in found.forms:
                seen[each] += 2
    if found.texts and not seen:
        by_stem = {
            stem: form for form in sorted(found.forms, reverse=True) for stem in index_stems(form)
        }
        for text in found.texts:
            seen.update(by_stem[stem] for stem in index_stems(text) if stem in by_stem)
    seen.pop(word, None)
    return max(seen, key=lambda form: (seen[form], form), default="")


def search_spelling_variants(word: str, *, far: bool = False) -> frozenset[str]:
    """Return the words that one error makes of a word, or two usual ones (``far``).

    >>> [word in search_spelling_variants("stahs") for word in ("stash", "stahs", "lash")]
    [True, False, False]
    >>> far = search_spelling_variants("inittialyze", far=True)
    >>> "initialize" in far, "initials" in far
    (True, False)
    """
    if not far:
        return frozenset(_one(word, _LETTERS)) - {word}
    return frozenset(twice for once in _usual(word) for twice in _usual(once)) - {word}


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


def _usual(word: str) -> Iterable[str]:
    """Yield a word with a letter left out, doubled or swapped with the next, or another vowel."""
    for at, letter in enumerate(word):
        before, behind = word[:at], word[at + 1 :]
        yield before + behind
        yield before + letter + letter + behind
        if behind:
            yield before + behind[0] + letter + behind[1:]
        if letter in _VOWELS:
            for vowel in _VOWELS:
                yield before + vowel + behind

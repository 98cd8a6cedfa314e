"""A host's answer for an address that cannot exist, and the pages with the same answer."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Final, Self
from urllib.parse import unquote

MIN_WORDS: Final = 8  #: words; shorter answers are no evidence
SHORT: Final = 50  #: words; shorter answers must be equal word by word
MAX_DISTANCE: Final = 3  #: bits between the fingerprints of two longer ones
MAX_APART: Final = 5  #: words by which their lengths may differ
MAX_LENGTH_SHARE: Final = 0.1  #: of the longer one's characters, the same
MAX_TITLE: Final = 200  #: characters of a title that are compared

_GRAM: Final = 3  #: words

# A word, or one sign of a script that writes no spaces: Thai to Lao, Burmese, Khmer, Kana, Han.
_TOKEN: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
    "|[^\\W_\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+"
)


def soft404_random_path(token: str) -> str:
    """Return the path to request from a host; ``token`` is random letters and digits.

    >>> soft404_random_path("k3v9q1")
    '/smartcrawl-does-this-exist-k3v9q1'
    """
    return f"/smartcrawl-does-this-exist-{token}"


def soft404_simhash(words: Sequence[str]) -> int:
    """Return 64 bits that differ less, the more three-word phrases two texts share.

    A bit is set that more than half of the hashes of all phrases have; without words, 0.
    """
    phrases = [words[n : n + _GRAM] for n in range(max(1, len(words) - _GRAM + 1))]
    bits = "".join(f"{_hash(phrase):064b}" for phrase in phrases if phrase)
    majority = len(bits) // 64 // 2
    return sum(1 << 63 - n for n in range(64) if bits[n::64].count("1") > majority)


def soft404_distance(one: int, other: int) -> int:
    """Return the number of bits in which two fingerprints differ.

    >>> soft404_distance(0b1010, 0b0110)
    2
    """
    return (one ^ other).bit_count()


@dataclass(frozen=True, slots=True)
class Soft404Profile:
    """A host's answer for an address that cannot exist, without the address and without numbers."""

    title: str  #: its words, at most 200 characters
    words: int
    text_length: int  #: characters of the words, one space between two
    fingerprint: int
    exact: int  #: 64 bits that only equal words have

    def pack(self) -> str:
        """Return it as JSON of less than 400 characters, for the registry."""
        return json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def unpack(cls, packed: str) -> Self:
        """Return the answer that ``pack`` turned into a string."""
        return cls(**json.loads(packed))


def soft404_profile(title: str, text: str, path: str) -> Soft404Profile | None:
    """Return the profile of a host's answer to a path that cannot exist; None: it is no evidence.

    An answer of fewer than 8 words, its echo of ``path`` not counted, is no evidence about any
    page: a script fills it in. Nor is a longer one of up to 49 words that mentions JavaScript.
    """
    words = _readings(text, path)[0]
    if len(words) < (SHORT if "javascript" in words else MIN_WORDS):
        return None
    return Soft404Profile(
        title=_title(_readings(title, path)[0]),
        words=len(words),
        text_length=len(" ".join(words)),
        fingerprint=soft404_simhash(words),
        exact=_hash(words),
    )


def is_soft404_page(answer: Soft404Profile, *, title: str, text: str, path: str) -> bool:
    """Whether a page under ``path`` (with its query) is its host's answer for missing pages.

    Never true of ``/``: a host that answers everything with its home page still has that page.

    Source: C17.
    """
    return path.replace("/", "") != "" and is_soft404_text(
        answer, title=title, text=text, path=path
    )


def is_soft404_text(answer: Soft404Profile, *, title: str, text: str, path: str) -> bool:
    """Whether a title and text are a host's answer for missing pages, whatever the path.

    Title and text are compared as they are, and without echoes of the path, of its last segment,
    and of that segment without extension, percent-encoded or not. Case, punctuation and words with
    digits do not count. Titles must be equal. So must texts when one is shorter than 50 words;
    longer ones may differ in 3 bits of their fingerprints, and in length by 5 words and a tenth of
    the characters.
    """
    titles = map(_title, _readings(title, path))
    return answer.title in titles and any(
        _is_near(answer, words) for words in _readings(text, path)
    )


def _is_near(answer: Soft404Profile, words: Sequence[str]) -> bool:
    if min(len(words), answer.words) < SHORT:
        return _hash(words) == answer.exact
    length = len(" ".join(words))
    longest = max(length, answer.text_length)
    return (
        abs(len(words) - answer.words) <= MAX_APART
        and abs(length - answer.text_length) <= MAX_LENGTH_SHARE * longest
        and soft404_distance(soft404_simhash(words), answer.fingerprint) <= MAX_DISTANCE
    )


def _readings(text: str, path: str) -> list[list[str]]:
    """Return the words of a text without echoes of a path, and all of its words.

    All words are needed for a missing page ``/contact``: a host that echoes no path may still name
    Contact in its menu.
    """
    whole = rest = _spaced(text)
    for echo in _echoes(path):
        rest = rest.replace(echo, "")
    return [_words(rest), _words(whole)]


def _echoes(path: str) -> list[str]:
    """Return the spellings by which a page may name the requested path, longest first."""
    resource = path.partition("?")[0]
    last = resource.removesuffix("/").rpartition("/")[2]
    written = (path, resource, last, last.rpartition(".")[0])
    echoes = {_spaced(form) for form in (*written, *map(unquote, written))}
    return sorted(sorted(echoes), key=len, reverse=True)


def _spaced(text: str) -> str:
    """Return the words of a text in one case, each between spaces of its own.

    >>> _spaced("/Not-found?")
    ' not  found '
    """
    return "".join(f" {token} " for token in _TOKEN.findall(text.casefold()))


def _words(spaced: str) -> list[str]:
    """Return the words without digits; digits name a request or a time."""
    return [word for word in spaced.split() if not any(map(str.isdigit, word))]


def _title(words: Sequence[str]) -> str:
    return " ".join(words)[:MAX_TITLE]


def _hash(words: Sequence[str]) -> int:
    return int.from_bytes(blake2b(" ".join(words).encode(), digest_size=8).digest(), "big")

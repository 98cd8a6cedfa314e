"""Chains: lists and calendars without end, whose pages bring no news from some page on."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Final

ENDLESS: Final = "endless"  #: word of the note about a chain, and of the marks that are stored
MOST_ALIKE: Final = 20  #: pages in a row without news that end a chain
MAX_CHAINS: Final = 65_536  #: chains whose last pages are kept

_NUMBER: Final = re.compile(r"[0-9]+")
_SPECIAL: Final = re.compile(r"([^0-9A-Za-z_/=&%~:;,-])")


def chain_of_url(url: str) -> str | None:
    """Return the chain of an address: all that differ by their numbers alone; None: it has none.

    >>> chain_of_url("https://example.com/list?page=12&size=50")
    'https://example.com/list?page=0&size=0'
    >>> chain_of_url("https://example.com/list") is None
    True

    The numbers of the host do not count.
    """
    place = url.find("/", len("https://"))
    if place < 0:
        return None
    rest, found = _NUMBER.subn("0", url[place:])
    return url[:place] + rest if found else None


def chain_pattern(url: str) -> str:
    r"""Return a pattern for ``excluded_patterns`` that leaves out the rest of a chain from ``url``.

    With one number that is this one and all greater ones, else it is the whole chain.

    >>> chain_pattern("https://example.com/list.php?page=37")
    '/list[.]php[?]page=(37|3[8-9]|[4-9][0-9]|[0-9]{3,})$'
    >>> chain_pattern("https://example.com/events/1989-12/")
    '/events/[0-9]+-[0-9]+/$'
    """
    rest = url[url.index("/", len("https://")) :]
    numbers = _NUMBER.findall(rest)
    literal = [_SPECIAL.sub(r"[\1]", part) for part in _NUMBER.split(rest)]
    if len(numbers) != 1 or numbers[0].startswith("0"):
        return "[0-9]+".join(literal) + "$"
    digits = numbers[0]
    greater = [digits]
    for place in range(len(digits) - 1, -1, -1):
        if digits[place] != "9":
            left = len(digits) - 1 - place
            tail = "[0-9]" * left if left < 2 else f"[0-9]{{{left}}}"
            greater.append(f"{digits[:place]}[{int(digits[place]) + 1}-9]{tail}")
    greater.append(f"[0-9]{{{len(digits) + 1},}}")
    return f"{literal[0]}({'|'.join(greater)}){literal[1]}$"


class Chains:
    """The chains of one run, by the pages that were first met in it.

    A chain has ended when ``MOST_ALIKE`` pages in a row had the same content, and none had a new
    link that leads out of the chain. Only pages to which a page of the chain led first count: what
    a list or a sitemap names is no chain.
    """

    def __init__(self, most: int = MAX_CHAINS) -> None:
        """``most``: chains whose last pages are kept; the oldest is forgotten first."""
        self._most = most
        self._led: set[int] = set()  #: numbers of pages to which a page of their chain led first
        self._last: OrderedDict[str, tuple[bytes, int]] = OrderedDict()  #: content, pages in a row
        self._ended: set[str] = set()

    def leads(self, number: int) -> None:
        """Note that a page of a chain was the first that led to another one, ``number``."""
        self._led.add(number)

    def has_ended(self, chain: str | None) -> bool:
        """Whether further pages of a chain are not requested."""
        return chain in self._ended

    def is_last(self, number: int, chain: str, content: bytes) -> bool:
        """Whether a page ends its chain, unless it has news (``brought``)."""
        return number in self._led and self._last.get(chain) == (content, MOST_ALIKE - 1)

    def brought(self, number: int, chain: str, content: bytes, *, news: bool) -> None:
        """Count a page: the hash of its content, and whether it has a new link out of the chain."""
        if number not in self._led:
            return
        self._led.discard(number)
        last, count = self._last.pop(chain, (content, 0))
        count = 0 if news else count + 1 if last == content else 1
        self._last[chain] = content, count
        if count >= MOST_ALIKE:
            self._ended.add(chain)
        elif len(self._last) > self._most:
            self._last.popitem(last=False)

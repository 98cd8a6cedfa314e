"""The addresses below the depth that a run was ordered to reach: left out, and never aged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from smartcrawl.model.documents import CUT, Link
from smartcrawl.rules.seal import depth_reason_kind
from smartcrawl.run.offers import Offers
from smartcrawl.run.seeds import Seeds
from smartcrawl.run.shortcomings import Shortcomings

_KEPT: Final = 1000  #: distinct addresses and numbers that are looked up again at the end


class BeyondDepth:
    """Notes links of the deepest pages, of which other pages may lead to the targets, too.

    A run that left an address out has seen a part of its source, so that no absence counts. Where
    every target was reached another way, nothing was left out.
    """

    def __init__(
        self,
        *,
        ordered: int,
        seeds: Seeds,
        offers: Offers,
        shortcomings: Shortcomings,
        is_reached: Callable[[int], bool],
        url_of: Callable[[int], str],
        at_once: bool,
    ) -> None:
        """Take the parts of the run; ``ordered``: its limit.

        ``at_once``: other workers may end the run, so that each notes what it leaves out.
        """
        self._kind = depth_reason_kind(ordered)
        self._seeds = seeds
        self._offers = offers
        self._shortcomings = shortcomings
        self._is_reached = is_reached
        self._url_of = url_of
        self._at_once = at_once
        self._urls: dict[str, None] = {}
        self._numbers: dict[int, None] = {}
        self._overflow: str | None = None  #: an address that was not kept

    def leave(self, links: Iterable[Link]) -> None:
        """Leave out the targets of links that were read from a body."""
        scope = self._seeds.scope.linked
        for link in links:
            followed = link.type == "canonical" or not link.nofollow
            if link.type != CUT and followed and scope.allows(link.url):
                if len(self._urls) < _KEPT:
                    self._urls[link.url] = None
                elif link.url not in self._urls:
                    self._overflow = link.url
        if self._at_once:
            self.note()

    def leave_stored(self, numbers: Iterable[int]) -> None:
        """Leave out the targets of stored links."""
        for number in numbers:
            if self._is_reached(number):
                continue
            if len(self._numbers) < _KEPT:
                self._numbers[number] = None
            elif number not in self._numbers:
                self._overflow = self._overflow or self._url_of(number)
        if self._at_once:
            self.note()

    def note(self) -> None:
        """Note the addresses that nothing led to after all; once for each."""
        left = {no: self._url_of(no) for no in self._numbers if not self._is_reached(no)}
        scope = self._seeds.scope.linked
        for url in self._urls:
            known = self._offers.known([url], scope)
            if not known:
                left.setdefault(-len(left) - 1, url)
            elif not self._is_reached(known[0]):
                left[known[0]] = url
        for url in left.values():
            self._shortcomings.count(self._kind, url)
        if self._overflow is not None and not left:
            self._shortcomings.count(self._kind, self._overflow)
        self._urls, self._numbers, self._overflow = {}, {}, None

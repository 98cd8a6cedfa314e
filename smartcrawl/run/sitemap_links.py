"""Links to sitemaps: given with the source, named by robots.txt, or listed by other sitemaps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from smartcrawl.extract.sitemaps import parsed_llms_txt_url
from smartcrawl.model.options import Options
from smartcrawl.model.urls import url_host_key
from smartcrawl.registry.hosts import HostReader
from smartcrawl.run.batches import Batches
from smartcrawl.run.offers import Offers
from smartcrawl.run.seeds import Seeds
from smartcrawl.run.signed_urls import SignedUrls
from smartcrawl.sources.base import Source
from smartcrawl.sources.kinds import SITE

MAX_NESTING: Final = 3  #: levels of sitemaps: an index of indexes of sitemaps
_Value = TypeVar("_Value")


class SitemapLinks:
    """Offers sitemaps, which need not fit the patterns of the scope.

    The pages that a sitemap lists have the depth of the sitemap.
    """

    def __init__(
        self,
        *,
        seeds: Seeds,
        reader: HostReader,
        offers: Offers,
        batches: Batches,
        signed: SignedUrls,
        options: Options,
    ) -> None:
        self._seeds = seeds
        self._reader = reader
        self._offers = offers
        self._batches = batches
        self._signed = signed
        self._from_robots = options.sitemaps_from_robots
        self._with_llms_txt = options.llms_txt
        self._kinds: dict[int, int] = {}  #: levels of the sitemaps that were named in this run
        self._elsewhere: list[tuple[str, Sequence[str]]] = []  #: named by origins out of scope

    def kind(self, number: int) -> int:
        """Return the level of a sitemap that was named in this run; 0: it was not."""
        return self._kinds.get(number, 0)

    def begin(self, source: Source) -> None:
        """Offer the ``/llms.txt`` beside the seeds and sitemaps of a site, where it is in scope.

        It is a guess: like a sitemap that robots.txt names, it may be absent.
        """
        if self._with_llms_txt and source.kind == SITE.name:
            urls = dict.fromkeys(map(parsed_llms_txt_url, map(self._signed.bare, source.starts)))
            self.offer(urls, (), kind=1, depth=0)

    def named(self, origin: str, urls: Sequence[str]) -> None:
        """Offer the sitemaps that the robots.txt of ``origin`` names, on any host."""
        if not (self._from_robots and urls):
            return
        if self._seeds.scope.holds(origin):
            urls = [self._signed.bare(url) for url in urls]
            self.offer(urls, map(url_host_key, urls), kind=1, depth=0)
        else:
            self._elsewhere.append((origin, urls))

    def named_elsewhere(self) -> None:
        """Offer the sitemaps that were named out of scope, now that the scope moved."""
        elsewhere, self._elsewhere = self._elsewhere, []
        for origin, urls in elsewhere:
            self.named(origin, urls)

    def named_before(self, sitemaps: Callable[[bytes, str], Sequence[str]]) -> None:
        """Offer the sitemaps that the stored robots.txt of the scope's origins name.

        For a run that may have no reason to request robots.txt again. ``sitemaps`` reads the body
        of the robots.txt of an origin.
        """
        for origin in self._reader.robots_origins():
            stored = self._reader.robots(origin) if self._seeds.scope.holds(origin) else None
            if stored is not None:
                self.named(origin, sitemaps(stored.body, origin))

    def offer(
        self,
        urls: Iterable[str],
        hosts: Iterable[str],
        *,
        kind: int,
        depth: int,
        origin: int | None = None,
        given: bool = False,
    ) -> list[int]:
        """Offer the sitemaps that are in scope or on one of ``hosts``; return their numbers.

        ``kind`` is their level, ``origin`` the page that names them; ``given``: with the source.
        """
        scope = self._seeds.scope.with_sitemaps_of(hosts)
        found = self._offers.sitemap_numbers(
            urls, scope, depth, origin=origin, kind=kind, given=given
        )
        numbers = [number for number in found if number != origin]
        for number in numbers:
            if kind < self._kinds.get(number, MAX_NESTING + 1):
                self._kinds[number] = self._batches.batch.kinds[number] = kind
        self._offers.offer(numbers, depth)
        return numbers

    def rename(self, renamed: Mapping[int, int]) -> None:
        """Take the numbers of other workers for addresses that they registered first."""
        renumber_run_sitemap_offers(self._kinds, renamed)


def renumber_run_sitemap_offers(values: dict[int, _Value], renamed: Mapping[int, int]) -> None:
    """Move the values of renamed numbers to the new numbers, where these have none.

    >>> values = {1: 10, 2: 20, 3: 30}
    >>> renumber_run_sitemap_offers(values, {1: 7, 2: 3})
    >>> values
    {3: 30, 7: 10}
    """
    for number in [number for number in values if number in renamed]:
        values.setdefault(renamed[number], values.pop(number))

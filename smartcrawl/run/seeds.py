"""The seeds of a run, its pinned pages, and the scope that they span."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from smartcrawl.model.options import Options
from smartcrawl.model.pages import Page
from smartcrawl.model.redaction import redacted_text
from smartcrawl.model.urls import url_endpoint, url_has_port, url_host_key
from smartcrawl.registry.database.databases import DatabaseControl
from smartcrawl.registry.items import pin_registered_rows
from smartcrawl.registry.pages import PageReader, RegistryReaders
from smartcrawl.registry.registry import Registry
from smartcrawl.registry.runs.run_results import last_start_rows, left_out_start_rows
from smartcrawl.registry.runs.runs import OpenRun, Role
from smartcrawl.registry.site_parts import StoredPart, part_of_source
from smartcrawl.rules.connections import (
    SeedReach,
    bare_connection_host,
    literal_connection_address,
)
from smartcrawl.run.offers import Offers
from smartcrawl.run.site_starts import check_decided_apart, site_part_words
from smartcrawl.sources.base import Source
from smartcrawl.sources.scope import Scope
from smartcrawl.sources.site import SiteSource

logger = logging.getLogger(__name__)


def warn_of_other_run_start(
    registry: Registry, source: Source, run: int, given: set[int], options: Options
) -> None:
    """Log the seeds and sitemaps of the last run that are not among the ``given`` numbers."""
    connection = registry.connection
    left = left_out_start_rows(connection, last_start_rows(connection, source.name, run), given)
    if left:
        logger.warning(
            "The start page of %s changed from %s to %s. Pages linked only from the old "
            "one will be removed. To keep both, declare the source in %s and list both "
            "as seeds; to go back, crawl the old one again",
            source.name,
            ", ".join(redacted_text(start.url) for start in left),
            ", ".join(map(redacted_text, source.starts)),
            options.sources_file,
        )


class Pins:
    """Offers the pinned pages, and registers the addresses that were posted since the last run."""

    def __init__(
        self,
        source: Source,
        registry: Registry,
        opened: OpenRun,
        reader: PageReader,
        offers: Offers,
    ) -> None:
        self._source = source.name
        self._registry = registry
        self._opened = opened
        self._reader = reader
        self._offers = offers
        self._posted = False  #: whether addresses wait that this run has to pin
        self._offered: list[str] = []  #: that waited and are not pinned

    def prepare(self) -> None:
        """Give the frontier the priorities, before anything is offered."""
        for number, _, priority in self._reader.pins():
            self._offers.prioritize(number, priority)

    def offer(self, scope: Scope) -> None:
        """Offer the pages in scope at depth 0; posted addresses are registered with the batch."""
        numbers = self._in_scope(scope)
        waiting = [] if self._opened.joined else self._reader.posted(self._source)
        self._posted = bool(waiting)
        self._offered = [url for url, _, is_pinned in waiting if not is_pinned]
        urls: defaultdict[int, list[str]] = defaultdict(list)
        for url, priority, is_pinned in waiting:
            if is_pinned:
                urls[priority].append(url)
        for priority in sorted(urls):
            fresh = self._offers.numbers(urls[priority], scope, 0, given=True)
            for number in fresh:
                self._offers.prioritize(number, priority)
            numbers += fresh
        numbers += self._offers.numbers(self._offered, scope, 0)
        self._offers.offer(numbers, 0)

    def registered(self, scope: Scope) -> list[int]:
        """Return the numbers of the pinned pages in scope, once the batch is in the registry."""
        if self._posted:
            control = DatabaseControl(self._registry.database, self._registry.connection)
            control.write(
                lambda: pin_registered_rows(
                    control.connection, self._source, self._opened.source, self._offered
                )
            )
        return self._in_scope(scope)

    def _in_scope(self, scope: Scope) -> list[int]:
        return [no for no, url, _ in self._reader.pins() if scope.allows(url)]


class Seeds:
    """The numbers of the seeds and of the sitemaps given with the source, and its scope today."""

    def __init__(
        self,
        *,
        source: Source,
        registry: Registry,
        opened: OpenRun,
        readers: RegistryReaders,
        redirects: int,
    ) -> None:
        """``redirects``: those in a row that are followed; 0: none."""
        self.seeds: set[int] = set()
        self.given: set[int] = set()  #: sitemaps that were given: like seeds, they have to answer
        self.scope: Scope = source.scope
        self.scope_no = registry.fingerprint(self.scope.fingerprint())
        self.moves = 0  #: how often the scope moved
        self.is_open = source.is_open  #: whether the first answer of the seed decides the scope
        self.decided: SiteSource | None = None  #: the source, once that answer has decided
        self._ways = list(source.seeds)  #: addresses by which an open source led to its first page
        self._source = source
        self._registry = registry
        self._opened = opened
        self._readers = readers
        self._redirects = redirects
        self._moved: Callable[[], None] = lambda: None

    def when_moved(self, moved: Callable[[], None]) -> None:
        """Call ``moved`` after each move of the scope, and when it is decided."""
        self._moved = moved

    # An open scope

    def decide(self, url: str, links: Iterable[str] = (), *, lists: bool = False) -> None:
        """Decide how far an open source reaches, by the page at the end of its seed's redirects.

        ``links``: the addresses to which that page leads. ``lists``: whether it is a sitemap or a
        feed. Another worker may have decided before.

        Raises:
            SourceError: the redirects of the seed led into another source.
        """
        source = self._source
        assert isinstance(source, SiteSource), "no other one is open"
        inside = [link for link in links if self.scope.holds(link)]
        found = source.decided(url, inside, self._ways, lists=lists)
        check_decided_apart(self._registry.connection, found)
        self._adopt(self._registry.decide_part(self._opened, part_of_source(found)))

    def follow_decided(self) -> None:
        """Take the decision of another worker about an open scope."""
        stored = self._registry.part(self._opened.source) if self.is_open else None
        if stored is not None and stored.start is not None:
            self._adopt(stored)

    def _adopt(self, stored: StoredPart) -> None:
        """Take the scope that is stored for an open source."""
        given, self.decided = self._source, stored.source(self._source.seeds, self._source.sitemaps)
        self._source = self.decided
        self.is_open = False
        self.scope = replace(self.decided.scope, hosts=self.scope.hosts)
        self.scope_no = self._registry.fingerprint(self.scope.fingerprint())
        self.moves += 1
        self._moved()
        if isinstance(given, SiteSource) and given.by_default:
            logger.info("crawling %s", site_part_words(self.decided))

    def is_seed(self, number: int) -> bool:
        """Whether a page is a seed of this run, or the target of a seed's redirect."""
        return number in self.seeds

    @property
    def all(self) -> list[int]:
        """The numbers of all seeds and given sitemaps."""
        return [*self.seeds, *self.given]

    def store(self, pins: list[int]) -> None:
        """Record the seeds, the pinned pages and the given sitemaps of the run."""
        run = self._opened.no
        self._registry.add_seeds(run, list(self.seeds))
        self._registry.add_seeds(run, pins, Role.PIN)
        self._registry.add_seeds(run, list(self.given), Role.SITEMAP)

    # Hosts

    def endpoints(self) -> list[tuple[str, int]]:
        """Return the (host, port) pairs of the seeds and sitemaps that the operator gave.

        Those of a job came over the HTTP API: only ALLOW_NETWORKS opens a private address to them.
        """
        if self._source.of_job:
            return []
        return [url_endpoint(url) for url in (*self._source.seeds, *self._source.sitemaps)]

    def reaches(self, allowed: Collection[str] = ()) -> dict[str, SeedReach | None]:
        """Return the stored reach of each name among the hosts of ``endpoints``; None: new.

        The ``allowed`` names may lead anywhere from now on: the operator says so.
        """
        hosts = {bare_connection_host(host) for host, _ in self.endpoints()}
        names = sorted(host for host in hosts if literal_connection_address(host) is None)
        for name in names:
            if name in allowed:
                self.store_reach(name, SeedReach.ANY)
        return self._registry.seed_names.reaches(names)

    def store_reach(self, name: str, reach: SeedReach) -> None:
        """Store the reach of a seed's name, which its first answer or the operator showed."""
        self._registry.seed_names.store(name, reach)

    def ports(self) -> list[tuple[str, int]]:
        """Return the (host, port) pairs that the source names as its own."""
        hosts = self.scope.hosts.union(map(url_host_key, self.scope.addresses or ()))
        return [url_endpoint(f"http://{host}/") for host in hosts if url_has_port(host)]

    # Redirects of seeds

    @property
    def scope_moved(self) -> bool:
        """Whether a seed moved the scope away from the one that the source declares."""
        return self.scope != self._source.scope

    def move(self, number: int, target: str) -> bool:
        """Follow a seed's redirect to the same host with or without ``www.``.

        Only the scope of an ad-hoc source moves: a declared source states its hosts. Returns
        whether the scope moved.
        """
        if self.is_open and self.is_seed(number):
            self._ways.append(target)
        moved = self.scope.moved_to(target) if self._source.ad_hoc else None
        if moved is None or not self.is_seed(number):
            return False
        self.scope = moved
        self.scope_no = self._registry.fingerprint(moved.fingerprint())
        self.moves += 1
        self._moved()
        return True

    def redirected(self, number: int, targets: Iterable[int]) -> None:
        """Count the targets of a seed's redirect as seeds."""
        for numbers in (self.seeds, self.given):
            if number in numbers:
                numbers.update(targets)

    def follow_visited(self) -> None:
        """Follow the redirects of seeds that this run visited before it was interrupted.

        In a run that is shared, other workers visited them.
        """
        for numbers in (self.seeds, self.given):
            asked = list(numbers)
            for _ in range(self._redirects):
                targets = self._readers.progress.redirects(asked, self._opened.no)
                for number, (target, _) in targets.items():
                    self.move(number, target)
                asked = [no for _, no in targets.values() if no is not None]
                numbers.update(asked)

    def follow_stored(self, page: Page) -> None:
        """Follow the last stored redirect of a page, if it is a seed that is not due."""
        for numbers in (self.seeds, self.given) if self._redirects else ():
            if page.no in numbers:
                target, number = self._readers.pages.redirect(page.no)
                if target is not None and numbers is self.seeds:
                    self.move(page.no, target)
                if number is not None:
                    numbers.add(number)

    def rename(self, renamed: Mapping[int, int]) -> None:
        """Take the numbers of other workers for addresses that they registered first."""
        for ours in (self.seeds, self.given):
            theirs = {renamed[number] for number in ours if number in renamed}
            ours.difference_update(renamed)
            ours.update(theirs)

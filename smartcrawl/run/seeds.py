"""The seeds of a run and the scope that they span, moved where a seed redirects."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from smartcrawl.model.pages import Page
from smartcrawl.model.urls import url_endpoint, url_has_port, url_host_key
from smartcrawl.registry.pages import RegistryReaders
from smartcrawl.registry.registry import Registry
from smartcrawl.registry.runs.runs import OpenRun, Role
from smartcrawl.rules.connections import (
    SeedReach,
    bare_connection_host,
    literal_connection_address,
)
from smartcrawl.sources.base import Source
from smartcrawl.sources.scope import Scope


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
        self._source = source
        self._registry = registry
        self._opened = opened
        self._readers = readers
        self._redirects = redirects
        self._moved: Callable[[], None] = lambda: None

    def when_moved(self, moved: Callable[[], None]) -> None:
        """Call ``moved`` after each move of the scope."""
        self._moved = moved

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

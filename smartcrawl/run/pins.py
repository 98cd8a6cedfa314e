"""The pinned pages of a run: offered from the beginning, each with its priority (R2-35)."""

from __future__ import annotations

from collections import defaultdict

from smartcrawl.registry.database.control import DatabaseControl
from smartcrawl.registry.pages import PageReader
from smartcrawl.registry.pending_pins import pin_registered_rows
from smartcrawl.registry.registry import Registry
from smartcrawl.registry.runs.runs import OpenRun
from smartcrawl.run.offers import Offers
from smartcrawl.sources.base import Source
from smartcrawl.sources.scope import Scope


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

    def prepare(self) -> None:
        """Give the frontier the priorities, before anything is offered."""
        for number, _, priority in self._reader.pins():
            self._offers.prioritize(number, priority)

    def offer(self, scope: Scope) -> None:
        """Offer the pages in scope at depth 0; posted addresses are registered with the batch."""
        numbers = self._in_scope(scope)
        waiting = [] if self._opened.joined else self._reader.posted(self._source)
        self._posted = bool(waiting)
        urls: defaultdict[int, list[str]] = defaultdict(list)
        for url, priority in waiting:
            urls[priority].append(url)
        for priority in sorted(urls):
            fresh = self._offers.numbers(urls[priority], scope, 0, given=True)
            for number in fresh:
                self._offers.prioritize(number, priority)
            numbers += fresh
        self._offers.offer(numbers, 0)

    def registered(self, scope: Scope) -> list[int]:
        """Return the numbers of the pinned pages in scope, once the batch is in the registry."""
        if self._posted:
            control = DatabaseControl(self._registry.database, self._registry.connection)
            control.write(
                lambda: pin_registered_rows(control.connection, self._source, self._opened.source)
            )
        return self._in_scope(scope)

    def _in_scope(self, scope: Scope) -> list[int]:
        return [no for no, url, _ in self._reader.pins() if scope.allows(url)]

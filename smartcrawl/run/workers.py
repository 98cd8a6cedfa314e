"""The difference between a run of one process and a run that several workers share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Page
from smartcrawl.registry.pages import RegistryReaders
from smartcrawl.registry.registry import Registry
from smartcrawl.registry.runs.run_results import RunResult
from smartcrawl.registry.runs.runs import OpenRun
from smartcrawl.registry.writer import Written
from smartcrawl.run.batches import Batches
from smartcrawl.run.depths import DepthUpdates
from smartcrawl.run.frontier.memory import Frontier, FrontierDepths
from smartcrawl.run.hosts import HostGate, HostNotes
from smartcrawl.run.orders import Orders
from smartcrawl.run.seeds import Seeds
from smartcrawl.run.shortcomings import Shortcomings
from smartcrawl.sources.base import Source

Load = Callable[[Sequence[int]], list[Page]]  #: numbers to pages, with one statement


class Turns(Protocol):
    """The pages that this process asks for, one after the other."""

    @property
    def resting(self) -> bool:
        """Whether ``next_page`` returned None only to let the event loop run."""

    @property
    def pending(self) -> bool:
        """Whether there may be pages left for this process to ask for."""

    @property
    def hurries(self) -> bool:
        """Whether to write a batch at once, because this process has nothing else to do."""

    @property
    def spent(self) -> bool:
        """Whether the run asked for as many pages as it may."""

    def next_page(self, free: Callable[[str], bool]) -> Page | None:
        """Return the next page of a host that is ``free``, or None when there is none now."""

    def verify(self, frontier: Frontier) -> None:
        """Hand out the pages of ``frontier``, which are to be verified before removal."""

    def landed(self, page: Page) -> None:
        """Note that the requests of a page are over."""

    def unanswered(self, page: Page) -> None:
        """Note that a page was asked for and will have no visit: it stays pending."""

    def is_spent(self, page: Page, crawl_delay: float | None, *, asked: bool) -> bool:
        """Whether a page must wait for its host's next turn, because robots.txt took this one.

        ``crawl_delay``: seconds that robots.txt wants between two requests. ``asked``: whether
        robots.txt was requested while the page waited.
        """

    def give_back(self, page: Page) -> None:
        """Let a page that was not asked for have its host's next turn."""


class LastSteps(Protocol):
    """The end of a run, as far as this process takes part in it."""

    @property
    def ours(self) -> bool:
        """Whether this process ends the run, and no other worker has sealed it."""

    def relax(self, depths: DepthUpdates, write: Callable[[], None]) -> None:
        """Hand on depths that became smaller, and the links of pages read in another scope.

        ``write`` commits the open batch.
        """

    def cut_by(self, shortcomings: Shortcomings) -> tuple[str, ...]:
        """Return the reasons why the run did not see everything."""

    def notes(self, shortcomings: Shortcomings) -> tuple[str, ...]:
        """Return the notes about addresses that were left out; call it after ``cut_by``."""

    def leave(self, why: str | None, now: int) -> RunResult | None:
        """Leave the run and return its record; None: this process has to end it.

        ``why``: the reason why this process cannot go on, None if it has nothing left to do.
        """

    def abandon(self, why: str, now: int) -> RunResult | None:
        """Close the run for all of its processes, because the database lost its last commits.

        Return its record; None: the database has no such run any more.
        """

    def ended(self) -> None:
        """Clean up after a run that this process ended."""


class Workers(Protocol):
    """The processes that crawl one run: this one alone, or this one and other workers."""

    @property
    def opened(self) -> OpenRun:
        """The run as it begins for this process."""

    @property
    def gate(self) -> HostGate:
        """The decision which hosts may be asked."""

    @property
    def turns(self) -> Turns:
        """The pages that this process asks for."""

    @property
    def last_steps(self) -> LastSteps:
        """The end of the run, as far as this process takes part in it."""

    def frontier(self, readers: RegistryReaders, load: Load) -> FrontierDepths:
        """Return the frontier that this process offers addresses to."""

    def host_notes(self, readers: RegistryReaders, batches: Batches) -> HostNotes:
        """Return the notes about hosts, such as their robots.txt."""

    def hops(self, number: int) -> int:
        """Return the length of the redirect chain in which other workers found an address."""

    def begin(self, readers: RegistryReaders) -> None:
        """Fill the frontier with the pages that a resumed run reached and did not visit."""

    def start(
        self,
        seeds: Seeds,
        *,
        incomplete: Callable[[str], None],
        wake: Callable[[], None],
        failed: Callable[[SmartcrawlError], None],
    ) -> None:
        """Begin to hand out pages.

        ``wake`` has the engine ask for the next page, ``incomplete`` notes a reason why the run
        will not see everything, ``failed`` ends the run.
        """

    def listen(self, hungry: Callable[[], None], written: Callable[[], None]) -> None:
        """Call ``hungry`` when other workers wait for links that this process found.

        ``written`` is called when a batch is written, in the writer's thread.
        """

    def written(self, written: Written) -> None:
        """Offer the links of a batch that is in the registry to the other workers."""

    def found_over(self) -> bool:
        """Note that another worker sealed the run; False where there is no other worker."""

    def close(self) -> None:
        """Close the connections to the other workers."""

    def release(self) -> None:
        """Give up the right to crawl the source."""


#: Opens a run, or joins it; the last argument is Unix seconds.
OpenWorkers = Callable[[Registry, Source, Options, Orders, int], Workers]

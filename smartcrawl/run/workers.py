"""The difference between a run of one process and a run that several workers share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Protocol, Self

from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Page
from smartcrawl.registry.database.databases import DatabaseControl, Lease
from smartcrawl.registry.items import register_ordered_rows
from smartcrawl.registry.pages import RegistryReaders
from smartcrawl.registry.recomputing import recompute_row_ids
from smartcrawl.registry.registry import Registry
from smartcrawl.registry.runs.run_results import RunResult, stored_run_result
from smartcrawl.registry.runs.runs import OpenRun, RunRequest, count_run_rows
from smartcrawl.registry.site_parts import part_of_source
from smartcrawl.registry.writer import Written
from smartcrawl.run.batches import Batches
from smartcrawl.run.frontier import Frontier, FrontierDepths
from smartcrawl.run.hosts import HostGate, HostNotes
from smartcrawl.run.links import DepthUpdates
from smartcrawl.run.orders import Orders, run_closing_from_orders
from smartcrawl.run.seeds import Seeds
from smartcrawl.run.shortcomings import Shortcomings
from smartcrawl.run.source_hosts import known_source_hosts
from smartcrawl.sources.base import Source


class OwnTurns:
    """The pages of a frontier in memory, up to the limit of the run."""

    hurries = False

    def __init__(self, most: int) -> None:
        """``most``: pages that may be asked for; -1: no limit."""
        self.left = most
        self._frontier: Frontier | None = None
        self._verifies = False

    @property
    def resting(self) -> bool:
        """Whether ``next_page`` returned None only to let the event loop run."""
        return self._frontier is not None and self._frontier.resting

    @property
    def pending(self) -> bool:
        """Whether there are pages left that this run may ask for."""
        waiting = self._frontier is not None and len(self._frontier) > 0
        return waiting and (self._verifies or not self.spent)

    @property
    def spent(self) -> bool:
        """Whether the run asked for as many pages as it may."""
        return self.left == 0

    def hand_out(self, frontier: Frontier) -> None:
        """Hand out the pages of ``frontier``."""
        self._frontier = frontier

    def verify(self, frontier: Frontier) -> None:
        """Hand out the pages of ``frontier`` from now on; the limit does not count for them."""
        self._frontier, self._verifies = frontier, True

    def next_page(self, free: Callable[[str], bool]) -> Page | None:
        """Return the next page of a host that is ``free``, or None when there is none now."""
        if self._frontier is None or (self.spent and not self._verifies):
            return None
        page = self._frontier.next(free)
        if page is not None and self.left > 0 and not self._verifies:
            self.left -= 1
        return page

    def landed(self, page: Page) -> None:
        """Do nothing: only other workers wait for the end of a request."""

    def unanswered(self, page: Page) -> None:
        """Do nothing: the registry has the page as pending."""

    def is_spent(self, page: Page, crawl_delay: float | None, *, asked: bool) -> bool:
        """Return False: the downloader keeps the delay between two requests of one process."""
        return False

    def give_back(self, page: Page) -> None:
        """Do nothing: ``is_spent`` holds no page back."""


class OwnLastSteps:
    """The end of a run that one process ends by itself."""

    ours = True

    def __init__(self, registry: Registry, opened: OpenRun) -> None:
        self._registry = registry
        self._opened = opened

    def relax(self, depths: DepthUpdates, write: Callable[[], None]) -> None:
        """Hand on depths until no page is left whose depth became smaller."""
        if not depths.relaxed:
            write()
            depths.relax()

    def cut_by(self, shortcomings: Shortcomings) -> tuple[str, ...]:
        """Return the reasons why the run did not see everything."""
        return shortcomings.as_reasons()

    def notes(self, shortcomings: Shortcomings) -> tuple[str, ...]:
        """Return the notes about addresses that the run left out."""
        return shortcomings.as_notes()

    def leave(self, why: str | None, now: int) -> RunResult | None:
        """Close the run as interrupted; None if it ended by itself and has to be sealed."""
        if self._opened.over:
            return stored_run_result(self._registry.connection, self._opened.no)
        return None if why is None else self._registry.interrupt(self._opened, (why,), now)

    def abandon(self, why: str, now: int) -> RunResult | None:
        """Close the run as interrupted; None if the database has no such run any more."""
        return self._registry.abandon(self._opened, (why,), now)

    def ended(self) -> None:
        """Do nothing: the registry has everything."""


class Alone:
    """One process, which holds the lease of its source."""

    def __init__(
        self,
        *,
        registry: Registry,
        source: Source,
        options: Options,
        most: int,
        opened: OpenRun,
        lease: Lease,
    ) -> None:
        """``most``: pages that the run may ask for; -1: no limit."""
        self.opened = opened
        self.gate = HostGate(options)
        self.turns = OwnTurns(most)
        self.last_steps = OwnLastSteps(registry, opened)
        self._registry = registry
        self._scope = source.scope
        self._lease = lease

    @classmethod
    def open(
        cls, registry: Registry, source: Source, options: Options, orders: Orders, now: int
    ) -> Self:
        """Open a run of ``source``, or resume its last one.

        Raises:
            RunHeldError: another process crawls this source.
            RunPausedError: its last run is paused, and is not to be resumed.
            RegistryError: the registry cannot be written.
        """
        since = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
        lease = registry.database.take(source.name, since)
        try:
            registry.end_last(source.name, run_closing_from_orders(source, options, orders), now)
            request = RunRequest(
                source=source.name,
                kind=source.kind,
                root=source.ad_hoc_root,
                resume=orders.resume,
                forced=orders.force,
                declared=not source.ad_hoc,
                due=options.due_only and not source.traits.is_listed,
                job=orders.job,
                job_run=orders.job_run,
                part=part_of_source(source),
                visibility=source.declared_visibility,
                hosts=known_source_hosts(source, options, registry.connection),
            )
            opened = registry.open_run(request, now)
            recompute_row_ids(
                registry.connection,
                registry.indexing,
                opened,
                source=source.name,
                trackers=options.trackers,
                now=now,
            )
            control = DatabaseControl(registry.database, registry.connection)
            register_ordered_rows(control, opened, source.name, options.trackers, now)
        except BaseException:
            lease.release()
            raise
        return cls(
            registry=registry,
            source=source,
            options=options,
            most=orders.max_pages or source.max_pages or -1,
            opened=opened,
            lease=lease,
        )

    def frontier(self, readers: RegistryReaders, load: Load) -> Frontier:
        """Return a frontier in memory; a limited run begins with the oldest visits."""
        single = len(self._scope.hosts) == 1 and not self._scope.domains
        rank = readers.pages.last_visits if self.turns.left > 0 else None
        self._frontier = Frontier(load, single_host=single, rank=rank)
        self.turns.hand_out(self._frontier)
        return self._frontier

    def host_notes(self, readers: RegistryReaders, batches: Batches) -> HostNotes:
        """Return the notes about hosts, such as their robots.txt."""
        return HostNotes(readers.hosts, batches)

    def hops(self, number: int) -> int:
        """Return 0: no other worker follows redirects."""
        return 0

    def begin(self, readers: RegistryReaders) -> None:
        """Fill the frontier with the pages that a resumed run reached and did not visit."""
        run = self.opened.no
        if not self.opened.resumed:
            return
        self._frontier.mark_all(readers.progress.visited(run))
        for number, depth in readers.progress.pending(run):
            self._frontier.offer([number], depth)
        if self.turns.left > 0:
            visits, _, _ = count_run_rows(self._registry.connection, run)
            self.turns.left = max(0, self.turns.left - visits)

    def start(
        self,
        seeds: Seeds,
        *,
        incomplete: Callable[[str], None],
        wake: Callable[[], None],
        failed: Callable[[SmartcrawlError], None],
    ) -> None:
        """Do nothing: the engine asks the frontier in memory."""

    def listen(self, hungry: Callable[[], None], written: Callable[[], None]) -> None:
        """Do nothing: no other worker waits for links."""

    def written(self, written: Written) -> None:
        """Do nothing: no other worker waits for links."""

    def found_over(self) -> bool:
        """Return False: no other worker can seal the run."""
        return False

    def close(self) -> None:
        """Do nothing: there is no connection to another worker."""

    def release(self) -> None:
        """Release the lease of the source."""
        self._lease.release()


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

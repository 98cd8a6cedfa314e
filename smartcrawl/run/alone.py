"""A run of one process: nothing is shared, and the frontier is in memory."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Self

from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Page
from smartcrawl.registry.database.control import DatabaseControl
from smartcrawl.registry.database.databases import Lease
from smartcrawl.registry.items import register_ordered_rows
from smartcrawl.registry.pages import RegistryReaders
from smartcrawl.registry.recomputing import recompute_row_ids
from smartcrawl.registry.registry import Registry
from smartcrawl.registry.runs.evidence import count_run_rows
from smartcrawl.registry.runs.run_results import RunResult, stored_run_result
from smartcrawl.registry.runs.runs import OpenRun, RunRequest
from smartcrawl.registry.writer import Written
from smartcrawl.run.batches import Batches
from smartcrawl.run.depths import DepthUpdates
from smartcrawl.run.frontier.memory import Frontier
from smartcrawl.run.hosts import HostGate, HostNotes
from smartcrawl.run.orders import Orders, run_closing_from_orders
from smartcrawl.run.seeds import Seeds
from smartcrawl.run.shortcomings import Shortcomings
from smartcrawl.run.workers import Load
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

"""One run of one source: what is asked next, where links lead, what is written."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Self

from smartcrawl.index.choice import indexing_of
from smartcrawl.model.exceptions import RegistryError, SinkError, SmartcrawlError
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Page
from smartcrawl.model.redaction import redacted
from smartcrawl.registry.commit.snapshot_store import SnapshotStore
from smartcrawl.registry.commit.visit import Judgement
from smartcrawl.registry.database.databases import Lease
from smartcrawl.registry.pages import PageReader
from smartcrawl.registry.registry import Registry, open_registry
from smartcrawl.registry.removal.candidates import Ending
from smartcrawl.registry.removal.sweep import Removed
from smartcrawl.registry.runs.evidence import failed_seeds, failed_sitemaps, silent, tally
from smartcrawl.registry.runs.runs import OpenRun, Role, RunRequest, RunResult
from smartcrawl.registry.runs.starts import last_starts, left_out
from smartcrawl.registry.writer import Writer, Written
from smartcrawl.rules.model import Mode
from smartcrawl.rules.seal import Evidence, reasons
from smartcrawl.run.address_book import AddressBook
from smartcrawl.run.batches import Batches
from smartcrawl.run.collapses import Collapses
from smartcrawl.run.due import DuePages
from smartcrawl.run.extractions import ExtractionPlan
from smartcrawl.run.frontier.memory import Depths, Frontier
from smartcrawl.run.hosts.gate import HostGate
from smartcrawl.run.hosts.notes import HostNotes
from smartcrawl.run.hosts.trust import HostTrust
from smartcrawl.run.links import Links
from smartcrawl.run.orders import Orders, closing_of
from smartcrawl.run.shortcomings import Shortcomings
from smartcrawl.run.stored_pages import StoredPages
from smartcrawl.run.strays import Strays
from smartcrawl.sources.declared import Source
from smartcrawl.sources.extraction import EXTRACTION_VERSION, ExtractionConfig
from smartcrawl.sources.private_files import narrow_data, private_folder
from smartcrawl.sources.refusals import belongs
from smartcrawl.sources.scope import Scope

logger = logging.getLogger(__name__)


class Run:
    """The context that scheduler, middlewares, spider and pipelines share."""

    def __init__(
        self,
        *,
        source: Source,
        options: Options,
        orders: Orders,
        registry: Registry,
        opened: OpenRun,
        lease: Lease,
        now: int,
    ) -> None:
        self.source = source
        self.options = options
        self.orders = orders
        self.registry = registry
        self.opened = opened
        self.forced = opened.forced
        self.configuration = ExtractionConfig.of(source, options)
        fingerprints = {
            mode: registry.fingerprint(self.configuration.fingerprint(mode), EXTRACTION_VERSION)
            for mode in Mode
        }
        self.shortcomings = Shortcomings.loads(opened.cut)  #: why it will not have seen everything
        self.failure: SmartcrawlError | None = None
        self.result: RunResult | None = None
        self._lease = lease
        self._closed = False
        self._reader: PageReader = registry.reader(opened.source)
        self.stored_pages = StoredPages(self._reader, registry)
        self.blocked_hosts = self._reader.blocked_hosts()
        self.strays = Strays()
        self._left = orders.max_pages or source.max_pages or -1
        self.frontier: Depths = self._new_frontier()
        self.frontier.grow(self._reader.last_number())
        self._book = AddressBook(self._reader, registry.numbers.draw, options.trackers)
        closing = closing_of(source, options, orders)
        pace = closing.pace if opened.due else 0
        judgement = Judgement(closing.policy, options.schedule, pace, options.trackers)
        self.batches = Batches(
            Writer(registry, opened, judgement=judgement, merged=self._merged),
            written=self._written,
            shortcomings=self.shortcomings,
            keeps_bodies=registry.snapshots is not None,
            forced=opened.forced,
            shared=opened.shared,
        )
        self.hosts = self._new_hosts()
        forgotten = now - options.max_unverified_days * 86_400 if options.max_unverified_days else 0
        known = self._reader.trust(forgotten)
        self.trust = HostTrust(known, options, self.batches, now, opened.no)
        self.links = Links(
            source=source,
            options=options,
            registry=registry,
            opened=opened,
            reader=self._reader,
            frontier=self.frontier,
            book=self._book,
            batches=self.batches,
            shortcomings=self.shortcomings,
            hops_of=self._hops_of,
        )
        self.extractions = ExtractionPlan(
            configuration=self.configuration,
            fingerprints=fingerprints,
            options=options,
            registry=registry,
            links=self.links,
            frontier=self.frontier,
            trust=self.trust,
            stored_pages=self.stored_pages,
            batches=self.batches,
        )
        self.collapses = Collapses(
            registry=registry,
            opened=opened,
            links=self.links,
            frontier=self.frontier,
            extractions=self.extractions,
            batches=self.batches,
        )
        self._unnamed_followed = False
        #: None: the run asks everything that it reaches
        self.due_pages: DuePages | None = None
        self._verify: Frontier | None = None  #: what was not reached and is looked at
        self._reasons: tuple[str, ...] | None = None  #: as they stood before that
        self.watcher: Callable[[dict[str, Any]], None] | None = None  #: of progress events

    @classmethod
    def open(cls, source: Source, options: Options, orders: Orders, now: int) -> Self:
        """Open a run of ``source``, or go on with its last one.

        Raises:
            RunHeldError: another process crawls this source.
            RegistryError: the registry cannot be opened or written.
        """
        registry = registry_of(options)
        since = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
        lease = registry.database.take(source.name, since)
        try:
            registry.end_last(source.name, closing_of(source, options, orders), now)
            request = RunRequest(
                source=source.name,
                kind=source.kind,
                resume=orders.resume,
                forced=orders.force,
                declared=not source.ad_hoc,
                due=options.due_only,
            )
            opened = registry.open_run(request, now)
            registry.mend(opened, now)
            registry.clear_leftovers(opened, now)
            run = cls(
                source=source,
                options=options,
                orders=orders,
                registry=registry,
                opened=opened,
                lease=lease,
                now=now,
            )
            run._begin(now)
        except BaseException:
            lease.release()
            raise
        return run

    def _begin(self, now: int) -> None:
        """Offer the seeds, and on resume whatever was reached and not visited."""
        if self.opened.due and not self.forced:
            self.due_pages = DuePages(self.links, self._memory, self.extractions, self.batches, now)
        if self.opened.resumed:
            self._memory.mark_all(self._reader.visited(self.opened.no))
            for number, depth in self._reader.pending(self.opened.no):
                self.frontier.offer([number], depth)
        self.links.begin()
        if self.opened.resumed:
            self.links.follow_seeds()
            if self._left > 0:
                visits, _, _ = tally(self.registry.connection, self.opened.no)
                self._left = max(0, self._left - visits)
        self._offer_given(now)

    def _offer_given(self, now: int) -> None:
        """Offer what was registered by hand, too, and remember what the run was asked for."""
        pins = [no for no, url in self._reader.pins() if self.scope.allows(url)]
        self.links.offer(pins, 0)
        self.batches.submit(now)
        self.batches.drain()
        if self.source.ad_hoc and not self.opened.joined:
            self._tell_of_another_start()
        self.registry.add_seeds(self.opened.no, list(self.links.seeds))
        self.registry.add_seeds(self.opened.no, pins, Role.PIN)
        self.registry.add_seeds(self.opened.no, list(self.links.given), Role.SITEMAP)

    def _tell_of_another_start(self) -> None:
        """Name the starts of the last time that this run was not given."""
        connection = self.registry.connection
        given = self.links.seeds | self.links.given
        left = left_out(
            connection, last_starts(connection, self.source.name, self.opened.no), given
        )
        if left:
            logger.warning(
                "%s was started from %s before, and is from %s now: pages that only the former"
                " leads to will age and be removed; to keep both, declare the source in %s with"
                " both as seeds, to go back, start it from the former again",
                self.source.name,
                ", ".join(redacted(start.url) for start in left),
                ", ".join(map(redacted, (*self.source.seeds, *self.source.sitemaps))),
                self.options.sources_file,
            )

    @property
    def scope(self) -> Scope:
        """What belongs to the source today, wherever a seed moved it to."""
        return self.links.scope

    # Where others may be at work, too (sharing.run)

    def _new_frontier(self) -> Depths:
        scope = self.source.scope
        single = len(scope.hosts) == 1 and not scope.domains
        rank = self._reader.last_visits if self._left > 0 else None
        self._memory = Frontier(self._load, single_host=single, rank=rank)
        return self._memory

    def _new_hosts(self) -> HostNotes:
        return HostNotes(self._reader, self.batches)

    def new_gate(self) -> HostGate:
        """Return what says which hosts may be asked."""
        return HostGate(self.options)

    _merged: Callable[[str, str], str] | None = None  #: of what cut the run, as others wrote it

    def _written(self, written: Written) -> None:
        """Take note of a batch that is in the registry."""
        self._book.committed(written.batch.addresses)
        for visit, _ in written.failed:  # its own links were offered; those that stay are, too
            self.links.replay(visit.page)

    def _hops_of(self, number: int) -> int:
        """Return by how many redirects in a row others found an address."""
        return 0

    def _cut_by(self) -> tuple[str, ...]:
        """Return what kept this run from seeing everything."""
        return self.shortcomings.told()

    def start(self, wake: Callable[[], None], failed: Callable[[SmartcrawlError], None]) -> None:
        """Begin to ask; ``wake`` has the engine ask for what is next, ``failed`` ends the run."""

    def listen(self, hungry: Callable[[], None], written: Callable[[], None]) -> None:
        """Have ``hungry`` called when others wait for what was found, and nothing else is left.

        ``written`` is called when a batch is written, in the writer's thread.
        """

    def found_over(self) -> bool:
        """Note that somebody else sealed the run; False where nobody else may."""
        return False

    def landed(self, page: Page) -> None:
        """Note that the requests of a page are over."""

    def unanswered(self, page: Page) -> None:
        """Note a page that was asked and will have no visit."""

    def turn_is_spent(self, page: Page, crawl_delay: float | None, *, asked: bool) -> bool:
        """Whether a page must wait for its host's next turn, for robots.txt had this one.

        Its rules want ``crawl_delay`` seconds between two requests; ``asked``: its host was asked
        for them while it waited.
        """
        return False

    def give_back(self, page: Page) -> None:
        """Let a page that was not asked have its host's next turn."""

    @property
    def hurries(self) -> bool:
        """Whether a batch is to be written at once, because others wait for what it found."""
        return False

    # What is asked next

    def next_page(self, free: Callable[[str], bool]) -> Page | None:
        """Return the next page to ask for, or None when there is none now."""
        if self.failure:
            return None
        if self._verify is not None:
            return self._verify.next(free)
        if self._left == 0:
            return None
        page = self._memory.next(free)
        if page is not None and self._left > 0:
            self._left -= 1
        return page

    @property
    def resting(self) -> bool:
        """Whether ``next_page`` found none for now because others should have the loop, too."""
        return (self._memory if self._verify is None else self._verify).resting

    @property
    def pending(self) -> bool:
        """Whether there are pages left that this run may ask for."""
        if self.failure:
            return False
        if self._verify is not None:
            return bool(len(self._verify))
        return bool(len(self.frontier)) and self._left != 0

    def _load(self, numbers: Sequence[int]) -> list[Page]:
        pages = self.links.pages(numbers)
        for page in pages:
            self.extractions.configure(page)
            offered = self.frontier.depth(page.no)
            if self.forced or page.depth >= offered:
                page.depth = offered
            else:
                self.frontier.mark(page.no, page.depth)
        return pages if self.due_pages is None else self.due_pages.due(pages)

    def relax(self, now: int) -> None:
        """Hand on depths, and what a moved scope leads to, until nothing is left."""
        if not self.links.relaxed:
            self.batches.submit(now)
            self.batches.drain()
            self.links.relax()

    def follow_unnamed(self, now: int) -> None:
        """Follow the stored links of sitemaps that nobody named; once, when all is visited."""
        if self._verify is None and not self._unnamed_followed:
            self._unnamed_followed = True
            self._write_all(now)
            self.links.follow_unnamed()

    def _write_all(self, now: int) -> None:
        """Write what was found, and what that led to (see ``_written``)."""
        self.batches.submit(now)
        self.batches.drain()
        while self.batches.batch:
            self.batches.submit(now)
            self.batches.drain()

    def settle_collapsed(self, now: int) -> None:
        """Decide about the collapsed pages that wait; once, when all else is visited."""
        if self._verify is None:
            self.collapses.settle(now)

    def begin_verify(self, now: int) -> bool:
        """Look at what was not reached for long enough, if the run saw everything.

        Returns whether there is anything to look at; later calls return False.
        """
        if self._verify is not None:
            return False
        self._write_all(now)
        if self.pending:  # what pages lead to that could not be stored
            return False
        self._verify = Frontier(self._load_to_verify)
        self._reasons = reasons(self._evidence())
        if self._reasons:
            return False
        self.registry.begin_verify(self._ending(now))
        self._verify.grow(self._reader.last_number())
        self._verify.offer(self._reader.to_verify(self.opened.no), 0)
        return self.pending

    def _load_to_verify(self, numbers: Sequence[int]) -> list[Page]:
        pages = self.links.pages(numbers)
        for page in pages:
            page.verify = True
        return pages

    def _ending(self, now: int) -> Ending:
        closing = closing_of(self.source, self.options, self.orders)
        closing = replace(closing, in_scope=self._in_scope)  # a seed may have moved it
        return Ending(self.opened.no, self.opened.source, now, closing)

    def _in_scope(self, url: str, depth: int) -> bool:
        inside = self.scope.allows(url) or belongs(self.source, url)
        return inside and not (self.links.max_depth and depth > self.links.max_depth)

    def forces(self, page: Page) -> bool:
        """Whether a page is indexed anew whatever it answers."""
        return self.forced or page.ordered

    def sitemaps_named(self, origin: str, urls: Sequence[str]) -> None:
        """Offer the sitemaps that the robots.txt of an origin names."""
        if self._verify is None:
            self.links.sitemaps_named(origin, urls)

    # How it ends

    def incomplete(self, reason: str) -> None:
        """Note why this run will not have seen everything, such as ``host_down: a.example``."""
        if self._reasons is None:
            self.shortcomings.add(reason)

    def finish(self, reason: str, now: int) -> RunResult:
        """Seal a run that ended by itself, close any other as interrupted; report it.

        ``reason`` is Scrapy's: ``finished``, ``shutdown``, or what closed the spider.
        """
        try:
            self._flush(now)
            if self.failure is not None or reason == "shutdown":
                why = str(self.failure) if self.failure else "interrupted"
                self.result = self.registry.interrupt(self.opened, (why,), now)
            else:
                found = self._reasons if self._reasons is not None else reasons(self._evidence())
                if reason != "finished":
                    found = (reason, *found)
                self.result = self.registry.end(self._ending(now), found, self._removed)
        finally:
            self.close()
        return self.result

    def _removed(self, removed: list[Removed]) -> None:
        if self.watcher is not None:
            for page in removed:
                self.watcher(
                    {
                        "url": page.url,
                        "pageId": page.no,
                        "depth": page.depth,
                        "status": page.status,
                        "outcome": page.word,
                        "deleted": True,
                    }
                )

    def _flush(self, now: int) -> None:
        if self.failure is None:
            try:
                self.batches.submit(now)
                self.batches.drain()
            except (RegistryError, SinkError) as error:
                self.failure = error

    def _evidence(self) -> Evidence:
        connection = self.registry.connection
        visits, unreachable, pending = tally(connection, self.opened.no)
        skipped = self.due_pages.skipped if self.due_pages is not None else 0
        pending += self.collapses.waiting - skipped  # those vouch for nothing yet
        if pending and self._left == 0:
            self.incomplete("max_pages")
        since = self.opened.last_complete
        not_due = self._reader.not_asked_since(self.opened.no, since) if skipped else 0
        return Evidence(
            seeds_failed=tuple(
                map(redacted, (*self._outside(), *failed_seeds(connection, self.opened.no)))
            ),
            cut_by=self._cut_by(),
            sitemaps_failed=tuple(
                map(redacted, failed_sitemaps(connection, self.opened, self.links.given))
            ),
            visits=visits,
            unreachable=unreachable,
            pending=pending,
            skipped=skipped,
            not_due=not_due,
            silent=silent(connection, self.opened.no, since) if skipped else 0,
        )

    def _outside(self) -> tuple[str, ...]:
        """Return the seeds that the source's own scope leaves out."""
        scope = self.source.scope
        return tuple(f"{url} (out of scope)" for url in self.source.seeds if not scope.allows(url))

    def close(self) -> None:
        """Let go of files and of the lease; what was committed stays."""
        if self._closed:
            return
        self._closed = True
        self.batches.close()
        self._reader.close()
        self.registry.numbers.give_back()
        self.registry.close()
        self._lease.release()


def registry_of(options: Options) -> Registry:
    """Open the registry that runs write to, with the choices that come before any of them.

    Raises:
        RegistryError: it cannot be opened or written, or cannot have the name that was chosen.
    """
    if options.snapshot_store == str(options.data_dir / "snapshots"):
        with suppress(OSError):  # what is to be written there says so itself
            private_folder(options.data_dir)
    narrow_data(options.data_dir)
    registry = open_registry(options.registry, partial(indexing_of, options))
    registry.choose(partition=options.partition, table=options.registry_table)
    if options.snapshot_store is not None:
        registry.keep_snapshots(SnapshotStore(options.snapshot_store))
    return registry


def run_of(crawler: Any) -> Run | None:
    """Return the run of a Scrapy crawler's spider; None for a spider that has none."""
    return getattr(crawler.spider, "run", None)

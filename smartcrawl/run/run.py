"""One run of one source: its pages to request, their links, and the batches that it commits."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

from smartcrawl.index.choice import index_writer_of_registry
from smartcrawl.model.exceptions import (
    CommitsLostError,
    RegistryError,
    RunOverError,
    SinkError,
    SmartcrawlError,
)
from smartcrawl.model.memory import return_freed_memory
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Page
from smartcrawl.registry.commit.snapshot_store import SnapshotStore
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.registry import Registry, open_registry
from smartcrawl.registry.removal.sweep import RemovedRecordRow
from smartcrawl.registry.runs.run_results import RunResult
from smartcrawl.registry.writer import Written
from smartcrawl.rules.render_need import RenderMode
from smartcrawl.rules.run_orders import COMMITS_LOST, INTERRUPTED
from smartcrawl.run.batches import Batches, open_run_batches
from smartcrawl.run.collapses import Collapses
from smartcrawl.run.detours import Detours
from smartcrawl.run.ending import RunEnding
from smartcrawl.run.extractions import ExtractionPlan, StoredPages
from smartcrawl.run.freshness import BudgetOrder
from smartcrawl.run.hosts import Strays, open_host_trust
from smartcrawl.run.links import BeyondDepth, DepthUpdates, Links, SignedUrls, SitemapLinks
from smartcrawl.run.listed import ListedFiles
from smartcrawl.run.login_ports import RunLogin
from smartcrawl.run.offers import AddressBook, Offers, UrlBudget
from smartcrawl.run.orders import Halt, Orders, run_depth_limits
from smartcrawl.run.render_mode import render_mode
from smartcrawl.run.seeds import Pins, Seeds, warn_of_other_run_start
from smartcrawl.run.shortcomings import Shortcomings
from smartcrawl.run.site_lists import SiteLists
from smartcrawl.run.spellings import DuePages, LateSpellings, Spellings
from smartcrawl.run.workers import Alone, OpenWorkers, Workers
from smartcrawl.sources.base import Source, SourceExtractionConfig
from smartcrawl.sources.private_files import narrow_private_data, private_folder
from smartcrawl.sources.scope import Scope
from smartcrawl.sources.sharepoint.source import SharepointSource
from smartcrawl.sources.site import source_freshness

if TYPE_CHECKING:
    from smartcrawl.run.library.files import RunLibrary
    from smartcrawl.run.render_choice import RenderChoice


logger = logging.getLogger(__name__)


def open_registry_for_run(options: Options) -> Registry:
    """Open the registry for a run, with the partition and the table name of the settings.

    Raises:
        RegistryError: it cannot be opened or written, or its table cannot have the chosen name.
    """
    if options.elasticsearch is not None and not registry_database(options.registry).exists():
        from smartcrawl.index.remote import check_index_server  # noqa: PLC0415  # the embedded index needs none of it

        check_index_server(options.elasticsearch)
    if options.snapshot_store == str(options.data_dir / "snapshots"):
        with suppress(OSError):  # the first write reports the error
            private_folder(options.data_dir)
    narrow_private_data(options.data_dir)
    registry = open_registry(options.registry, partial(index_writer_of_registry, options))
    registry.database.guard_commits()
    registry.choose(partition=options.partition, table=options.registry_table)
    if options.snapshot_store is not None:
        registry.keep_snapshots(SnapshotStore(options.snapshot_store))
    if options.notify:
        from smartcrawl.run.notices import RunNotices  # noqa: PLC0415  # few runs need it

        registry.notify = RunNotices(options.notify)
    return registry


class Run:
    """The context that scheduler, middlewares, spider and pipelines share.

    ``workers`` hides whether this process crawls alone or shares the run with other workers.
    """

    result: RunResult | None = None  #: its record, once it ended
    failure: SmartcrawlError | None = None  #: the error that ends it
    session: RunLogin | None = None  #: None: its pages need no login, or it is a rehearsal
    _closed = False

    #: Its length, whatever the clock did meanwhile; None: it goes on, or others began it.
    seconds: int | None = None

    def __init__(
        self,
        *,
        source: Source,
        options: Options,
        orders: Orders,
        registry: Registry,
        workers: Workers,
        now: int,
    ) -> None:
        self.source = source
        self.options = options
        self.orders = orders
        self.registry = registry
        self.workers = workers
        self.turns, self.gate = workers.turns, workers.gate
        self.opened = opened = workers.opened
        self.forced, self._began = opened.forced, time.monotonic()
        self.configuration = SourceExtractionConfig.of(source, options)
        self.shortcomings = Shortcomings.loads(opened.cut)  #: why the run will be incomplete
        if opened.shared:
            self.shortcomings.news()  # the registry has these already
        self.halt, self.strays = Halt(), Strays()
        self.watcher: Callable[[dict[str, Any]], None] | None = None  #: receives progress events
        self._readers = registry.readers(opened.source)
        self.blocked_hosts = self._readers.hosts.blocked_hosts()
        self.stored_pages = StoredPages(self._readers, registry)
        self.frontier = workers.frontier(self._readers, self._load)
        self.frontier.grow(self._readers.pages.last_number())
        self._book = self._new_book()
        self.library = self._new_library(orders)
        self.batches = self._new_batches()
        self.hosts = workers.host_notes(self._readers, self.batches)
        self.trust = open_host_trust(self._readers.hosts, options, self.batches, now, opened.no)
        self.seeds = Seeds(
            source=source,
            registry=registry,
            opened=opened,
            readers=self._readers,
            redirects=options.redirects.most,
        )
        self._offers = self._new_offers()
        self._signed = SignedUrls(options.trackers)
        self.sitemaps = self._new_sitemaps()
        self.seeds.when_moved(self._scope_moved)
        self.links = self._new_links()
        self.choice, self.detours = self._new_choice(), self._new_detours()
        self.depths = DepthUpdates(
            opened=opened,
            readers=self._readers,
            frontier=self.frontier,
            links=self.links,
            seeds=self.seeds,
        )
        self.extractions = self._new_extractions()
        self.listed = self._new_listed()
        self.collapses, self.due_pages = self._new_collapses(), self._new_due_pages(now)
        self.spellings = self._new_spellings()
        self.ending = self._new_ending()
        self._pins = Pins(source, registry, opened, self._readers.pages, self._offers)

    def _new_book(self) -> AddressBook:
        numbers, trackers = self.registry.numbers, self.options.trackers
        return AddressBook(self._readers.pages, numbers.draw, trackers, looked_up=numbers.met)

    def _new_library(self, orders: Orders) -> RunLibrary | None:
        """Return the files of the run's library, once; None: its source is of another kind.

        Renamings of a process that died are undone.

        Raises:
            RegistryError: the disk does not permit it.
        """
        if not isinstance(self.source, SharepointSource):
            return None
        from smartcrawl.run.library.files import RunLibrary  # noqa: PLC0415  # other kinds need none of it

        library = RunLibrary(self.source, self.registry, self.opened, batches=orders.retry_batches)
        library.recover()
        return library

    def _new_batches(self) -> Batches:
        return open_run_batches(
            source=self.source,
            options=self.options,
            orders=self.orders,
            registry=self.registry,
            opened=self.opened,
            shortcomings=self.shortcomings,
            written=self._written,
            shelf=None if self.library is None else self.library.shelf,
        )

    def _new_offers(self) -> Offers:
        hosts, started = self._readers.hosts, self.opened.started_at
        budget = UrlBudget(
            hosts,
            self.options,
            self.shortcomings,
            started,
            is_linked=self.frontier.is_reached,
        )
        return Offers(self.frontier, self._book, self.batches, budget)

    def _new_detours(self) -> Detours:
        return Detours(
            self.options,
            self.seeds,
            forces=self.forces,
            may_follow=self.links.may_follow,
        )

    def _new_sitemaps(self) -> SitemapLinks:
        return SitemapLinks(
            seeds=self.seeds,
            reader=self._readers.hosts,
            offers=self._offers,
            batches=self.batches,
            signed=self._signed,
            options=self.options,
        )

    def _scope_moved(self) -> None:
        """Drop cached scope decisions, and offer sitemaps that the old scope refused."""
        self._book.forget()
        self.sitemaps.named_elsewhere()
        if self.seeds.decided is not None:
            self.links.begin_sitemaps()

    def _new_beyond(self) -> BeyondDepth:
        return BeyondDepth(
            ordered=run_depth_limits(self.source, self.options).ordered,
            seeds=self.seeds,
            offers=self._offers,
            shortcomings=self.shortcomings,
            is_reached=self.frontier.is_reached,
            url_of=lambda number: self._book.pages([number], 0)[0].url,
            at_once=self.opened.shared,
        )

    def _new_links(self) -> Links:
        return Links(
            source=self.source,
            depths=run_depth_limits(self.source, self.options),
            beyond=self._new_beyond(),
            last_complete=self.opened.last_complete,
            seeds=self.seeds,
            reader=self._readers.pages,
            frontier=self.frontier,
            book=self._book,
            offers=self._offers,
            sitemaps=self.sitemaps,
            signed=self._signed,
            batches=self.batches,
            shortcomings=self.shortcomings,
            redirects=self.options.redirects,
            hops_of=self.workers.hops,
        )

    def _new_extractions(self) -> ExtractionPlan:
        return ExtractionPlan(
            configuration=self.configuration,
            options=self.options,
            registry=self.registry,
            links=self.links,
            frontier=self.frontier,
            trust=self.trust,
            stored_pages=self.stored_pages,
            batches=self.batches,
            is_listed=self.source.lists,
        )

    def _new_choice(self) -> RenderChoice | None:
        """Return which pages of the run a browser shows; None: none of them."""
        mode = render_mode(self.source, self.options)
        if mode is RenderMode.NO:
            return None
        from smartcrawl.run.render_choice import RenderChoice  # noqa: PLC0415  # imports the browser
        from smartcrawl.run.rendered import RenderedPages  # noqa: PLC0415

        pages = RenderedPages(
            source=self.opened.source,
            most=self.options.render_per_run,
            reader=self._readers.rendered,
            batches=self.batches,
            shortcomings=self.shortcomings,
            hosts=self.hosts,
            is_decided=lambda: self.ending.reasons is not None,
        )
        return RenderChoice(
            mode=mode,
            source=self.source,
            number=self.opened.source,
            options=self.options,
            samples=self._readers.samples,
            batches=self.batches,
            pages=pages,
            configuration=self.configuration,
            is_new=self._is_new_address,
            is_seed=self.seeds.is_seed,
            incomplete=self.incomplete,
        )

    def _is_new_address(self, url: str) -> bool:
        """Whether an address is in scope, and no page has led to it."""
        scope = self.scope.linked
        return scope.allows(url) and not self._offers.known([url], scope)

    def _new_listed(self) -> ListedFiles | None:
        """Return the listing of the run; None where links lead to all pages."""
        if not self.source.traits.is_listed:
            return None
        return ListedFiles(
            opened=self.opened,
            readers=self._readers,
            book=self._book,
            offers=self._offers,
            extractions=self.extractions,
            trust=self.trust,
            batches=self.batches,
            shortcomings=self.shortcomings,
            source=self.source,
        )

    def _new_collapses(self) -> Collapses:
        return Collapses(
            registry=self.registry,
            opened=self.opened,
            links=self.links,
            frontier=self.frontier,
            extractions=self.extractions,
            batches=self.batches,
        )

    def _new_due_pages(self, now: int) -> DuePages | None:
        """Return the filter for due pages; None if the run requests every page that it reaches."""
        if not self.opened.due or self.forced:
            return None
        extractions, batches = self.extractions, self.batches
        due_pages = DuePages(self.links, self.seeds, self.frontier, extractions, batches, now)
        if (freshness := source_freshness(self.source)) is not None:
            schedule, connection = self.options.schedule, self.registry.connection
            due_pages.budget = BudgetOrder(connection, self.opened, freshness, schedule, now)
        return due_pages

    def _new_ending(self) -> RunEnding:
        return RunEnding(
            source=self.source,
            options=self.options,
            orders=self.orders,
            registry=self.registry,
            workers=self.workers,
            readers=self._readers,
            links=self.links,
            seeds=self.seeds,
            depths=self.depths,
            collapses=self.collapses,
            due_pages=self.due_pages,
            late=self._new_late_spellings(),
            batches=self.batches,
            shortcomings=self.shortcomings,
            site_lists=self.site_lists,
        )

    @cached_property
    def site_lists(self) -> SiteLists:
        """Lines that repeat on its hosts."""
        return SiteLists(
            self.source,
            self.registry.connection,
            self.registry.indexing,
            number=self.opened.source,
            size=self.options.chunks,
            are_wanted=self.options.leave_out_repeated,
        )

    def _new_spellings(self) -> Spellings:
        return Spellings(
            source=self.source,
            seeds=self.seeds,
            book=self._book,
            signed=self._signed,
            batches=self.batches,
        )

    def _new_late_spellings(self) -> LateSpellings:
        return LateSpellings(
            seeds=self.seeds,
            registry=self.registry,
            opened=self.opened,
            links=self.links,
            frontier=self.frontier,
            extractions=self.extractions,
            due_pages=self.due_pages,
            trackers=self.options.trackers,
        )

    @classmethod
    def open(
        cls,
        source: Source,
        options: Options,
        orders: Orders,
        now: int,
        open_workers: OpenWorkers = Alone.open,
        *,
        registry: Registry | None = None,
    ) -> Self:
        """Open a run of ``source``, resume its interrupted run, or join a run of other workers.

        ``registry``: None: the one of the options.

        Raises:
            RunHeldError: another process crawls this source in a run that is not shared.
            RegistryError: the registry cannot be opened or written.
        """
        registry = registry or open_registry_for_run(options)
        workers = open_workers(registry, source, options, orders, now)
        opened = workers.opened
        try:
            if not (opened.joined or opened.over):
                registry.mend(opened, now)
            registry.clear_leftovers(opened, now)
            run = cls(
                source=source,
                options=options,
                orders=orders,
                registry=registry,
                workers=workers,
                now=now,
            )
            run._begin(now)
        except BaseException:
            workers.release()
            raise
        return run

    def _begin(self, now: int) -> None:
        """Offer the seeds, and the pending pages of a resumed run."""
        if self.opened.over:
            return
        self._pins.prepare()
        self.workers.begin(self._readers)
        self.links.begin()
        if self.opened.resumed and not self.opened.shared:
            self.seeds.follow_visited()
        try:
            self._offer_given(now)
        except RunOverError:  # another worker sealed the run while this process stalled
            if not self.workers.found_over():
                raise
        if self.opened.resumed:  # it was read whole, through caches that its first write emptied
            return_freed_memory()

    def _offer_given(self, now: int) -> None:
        """Offer the pinned pages, and record the seeds, pins and sitemaps of the run."""
        self._pins.offer(self.scope)
        self.batches.submit(now)
        self.batches.drain()
        pins = self._pins.registered(self.scope)
        if self.source.ad_hoc and not self.opened.joined:
            run, given = self.opened.no, set(self.seeds.all)
            warn_of_other_run_start(self.registry, self.source, run, given, self.options)
        self.seeds.store(pins)

    @property
    def scope(self) -> Scope:
        """The current scope of the source, which a redirect of a seed may have moved."""
        return self.seeds.scope

    # Pages to request

    def start(self, wake: Callable[[], None], failed: Callable[[SmartcrawlError], None]) -> None:
        """Begin to hand out pages.

        ``wake`` makes the engine call ``next_page`` again; ``failed`` ends the run with an error.
        """
        self.workers.start(self.seeds, incomplete=self.incomplete, wake=wake, failed=failed)

    def next_page(self, free: Callable[[str], bool]) -> Page | None:
        """Return the next page of a host that is ``free``, or None when there is none now."""
        if self.is_ending or (self.listed is not None and self.listed.waits):
            return None
        if self.session is not None and (self.session.over or self.session.is_full):
            return None
        return self.turns.next_page(free)

    @property
    def pending(self) -> bool:
        """Whether this process may still get pages to request."""
        lists = self.listed is not None and self.listed.is_open
        if self.session is not None and self.session.over is not None:
            return False
        return not self.is_ending and (lists or self.turns.pending)

    @property
    def is_ending(self) -> bool:
        """Whether no page is requested any more, by a failure or an order."""
        return self.failure is not None or self.halt.order is not None

    def _load(self, numbers: Sequence[int]) -> list[Page]:
        pages = self.extractions.load(numbers, forced=self.forced)
        if self.choice is not None:
            self.choice.pages.load(pages)
        return pages if self.due_pages is None else self.due_pages.due(pages)

    def _written(self, written: Written) -> None:
        """Update this process after a batch was committed."""
        self._book.committed(written.batch.addresses, written.batch.spellings)
        for visit, _ in written.failed:  # so far only the refused body's links were offered
            self.links.replay(visit.page)
        if written.renamed:
            self.links.rename(written.renamed)
        self.workers.written(written)

    def forces(self, page: Page) -> bool:
        """Whether to index a page again even if its content is unchanged."""
        return self.forced or page.state.ordered

    def sitemaps_named(self, origin: str, urls: Sequence[str]) -> None:
        """Offer the sitemaps that the robots.txt of an origin names."""
        if not self.ending.verifies:
            self.sitemaps.named(origin, urls)

    def incomplete(self, reason: str) -> None:
        """Note why this run is incomplete (``host_down: a.example``), unless that is decided."""
        if self.ending.reasons is None:
            self.shortcomings.add(reason)

    # The end

    def begin_batch(self, now: int) -> None:
        """Request the items of a library again that failed, now that all others are done."""
        if self.library is not None and self.listed is not None:
            self.listed.take_again(self.library.retries.begin_next())

    def finish(self, reason: str, now: int) -> RunResult | None:
        """End the run, and return its record; None: the database has no such run any more.

        A shutdown, a failure or an order ends it before its seal; any other end seals it. A shared
        run may be left to its other workers. ``reason``: why Scrapy closed the spider.
        """
        try:
            self._flush(now)
            self.result = self._ended(reason, now)
            if self.result is not None and self.library is not None:
                self.library.finish(is_complete=self.result.complete)
            if not (self.opened.resumed or self.opened.joined):
                self.seconds = int(time.monotonic() - self._began)
        finally:
            self.close()
        return self.result

    def _ended(self, reason: str, now: int) -> RunResult | None:
        why = INTERRUPTED if reason == "shutdown" or self.halt.order is not None else None
        if self.failure is not None:
            why = str(self.failure)
        if not isinstance(self.failure, CommitsLostError):
            try:
                return self.ending.finish(reason, why, now, self._removed)
            except CommitsLostError as error:
                self.failure = error
                logger.error("%s", error)
        return self.workers.last_steps.abandon(COMMITS_LOST, now)

    def _removed(self, removed: list[RemovedRecordRow]) -> None:
        if self.watcher is not None:
            for page in removed:
                self.watcher(page.as_event())

    def _flush(self, now: int) -> None:
        """Write the open batch; an error fails the run, unless another worker has sealed it."""
        if self.failure is None:
            try:
                self.batches.submit(now)
                self.batches.drain()
            except (RegistryError, SinkError) as error:
                self.failure = error
        if isinstance(self.failure, RunOverError) and self.workers.found_over():
            self.failure = None

    def close(self) -> None:
        """Close files and connections, and release the lease; idempotent."""
        if self._closed:
            return
        self._closed = True
        with ExitStack() as stack:  # each of them, also where the registry is away
            stack.callback(self.workers.release)
            stack.callback(self.registry.close)
            stack.callback(self.registry.numbers.give_back)
            if self.library is not None:
                stack.callback(self.library.close)
            stack.callback(self._readers.close)
            stack.callback(self.batches.close)
            stack.callback(self.workers.close)

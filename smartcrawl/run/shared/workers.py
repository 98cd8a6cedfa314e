"""A run that several workers share: joined, crawled together, ended once (design.md 9)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

from smartcrawl.model.exceptions import FrontierError, SettingError, SmartcrawlError
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Page
from smartcrawl.registry.database.postgres import PostgresDatabase
from smartcrawl.registry.database.session import PostgresConnection
from smartcrawl.registry.readers import Readers
from smartcrawl.registry.registry import Registry, Written
from smartcrawl.registry.removal.candidates import Closing
from smartcrawl.registry.runs.membership import Membership, Turn
from smartcrawl.registry.runs.runs import OpenRun, RunResult, result
from smartcrawl.registry.runs.shared_reader import SharedReader
from smartcrawl.run.batches import Batches
from smartcrawl.run.frontier.memory import Depths, Frontier
from smartcrawl.run.frontier.redis.connection import connect, place_of
from smartcrawl.run.frontier.redis.frontier import Claim, RedisFrontier
from smartcrawl.run.frontier.redis.robots import SharedRobots
from smartcrawl.run.hosts.gate import slot_of
from smartcrawl.run.hosts.notes import HostNotes
from smartcrawl.run.links import MAX_HOPS, Links
from smartcrawl.run.orders import Orders, closing_of
from smartcrawl.run.run import Run
from smartcrawl.run.shared.frontier import OVER, SharedFrontier
from smartcrawl.run.shared.gate import SharedGate
from smartcrawl.run.shared.notes import SharedNotes
from smartcrawl.run.shortcomings import Shortcomings, merged
from smartcrawl.run.workers import Load
from smartcrawl.sources.declared import Source

logger = logging.getLogger(__name__)

_ASK_AGAIN: Final = 0.2  #: seconds until a run that is being ended is looked at again
_LOG_AFTER: Final = 2.0  #: seconds of waiting after which a line is logged


def join(source: Source, options: Options, orders: Orders, now: int) -> Run:
    """Join the run that other workers crawl, or open one for them to join.

    Raises:
        SettingError: the registry is a file, which other workers do not see.
        SmartcrawlError: the registry or Redis cannot be opened.
    """
    if isinstance(options.registry, Path):
        raise SettingError(
            f"REDIS_URL is set, but the registry is the file {options.registry}, which other"
            " workers do not see: set REGISTRY_URL=postgresql://…, or leave REDIS_URL empty to"
            " crawl with one worker"
        )
    return Run.open(source, options, orders, now, SharedWorkers.open)


class SharedTurns:
    """The pages that this worker claimed in Redis."""

    def __init__(self, shared: SharedFrontier, download_delay: float) -> None:
        """``download_delay``: seconds between two requests to a host."""
        self._shared = shared
        self._download_delay = download_delay
        self._batches: Batches | None = None
        self._verify: Frontier | None = None

    def write_to(self, batches: Batches) -> None:
        """Watch the batches that this worker writes."""
        self._batches = batches

    def next_page(self, free: Callable[[str], bool]) -> Page | None:
        """Return the next page of a host that is ``free``, or None when there is none now."""
        return self._shared.next(free) if self._verify is None else self._verify.next(free)

    @property
    def resting(self) -> bool:
        """Whether ``next_page`` returned None only to let the event loop run."""
        return self._verify is not None and self._verify.resting

    @property
    def pending(self) -> bool:
        """Whether there may be pages left for this worker to ask for."""
        if self._shared.over:
            return False
        if self._verify is not None and len(self._verify):
            return True
        return self._shared.pending

    @property
    def hurries(self) -> bool:
        """Whether to write a batch at once, because this worker has nothing else to do."""
        is_writing = self._batches is not None and self._batches.is_writing
        return self._shared.starves and not is_writing

    @property
    def spent(self) -> bool:
        """Whether the workers together asked for as many pages as the run may."""
        return self._shared.spent

    def verify(self, frontier: Frontier) -> None:
        """Hand out the pages of ``frontier``, which are to be verified before removal."""
        self._verify = frontier

    def landed(self, page: Page) -> None:
        """Note that the requests of a page are over."""
        self._shared.landed(page)

    def unanswered(self, page: Page) -> None:
        """Note that a page was asked for and will have no visit: it stays pending."""
        self._shared.unanswered(page)

    def is_spent(self, page: Page, crawl_delay: float | None, *, asked: bool) -> bool:
        """Whether a page must wait for its host's next turn, because robots.txt took this one.

        A claim is for one request. The first claim of a host was made before the workers knew its
        Crawl-delay, too.
        """
        first = self._shared.is_first(page)
        if first is None or not (first or asked):
            return False
        host, delay = slot_of(page.host), crawl_delay or 0.0
        self._shared.tell_hosts(lambda hosts: hosts.robots_read(host, delay, asked=asked))
        return bool(delay or self._download_delay)

    def give_back(self, page: Page) -> None:
        """Let a page have its host's next turn, after all workers know the Crawl-delay."""
        self._shared.give_back(page)


class SharedLastSteps:
    """The end of a run that only one of its workers ends."""

    def __init__(
        self,
        registry: Registry,
        membership: Membership,
        redis: RedisFrontier,
        shared: SharedFrontier,
        reader: SharedReader,
    ) -> None:
        self._registry = registry
        self._membership = membership
        self._redis = redis
        self._shared = shared
        self._reader = reader
        self._handed_on = False  #: whether the links of all pages were handed on

    @property
    def ours(self) -> bool:
        """Whether this worker ends the run, and no other worker has sealed it."""
        return self._closes and not self._shared.sealed

    @property
    def _closes(self) -> bool:
        return self._shared.turn is not None and not self._shared.over

    def relax(self, links: Links, write: Callable[[], None]) -> None:
        """Hand on depths that became smaller, and the links of pages read in another scope."""
        if not self.ours:
            return
        write()
        try:
            self._relax(links)
        except FrontierError:  # the courier logs it; with Redis, the turn comes back
            self._handed_on = False
            self._shared.doubt()
            return
        write()

    def _relax(self, links: Links) -> None:
        lowered = self._redis.lowered()
        unsure = self._shared.again or links.scope_moved
        if unsure and not self._handed_on:
            self._handed_on = True
            links.hand_on(self._reader.links())
        while lowered:
            links.hand_on(self._reader.links(lowered))
            lowered = self._redis.lowered()

    def cut_by(self, shortcomings: Shortcomings) -> tuple[str, ...]:
        """Return the reasons of all workers why the run did not see everything."""
        return Shortcomings.loads(merged(self._reader.cut(), shortcomings.news())).told()

    def leave(self, why: str | None, now: int) -> RunResult | None:
        """Leave the run to the other workers; None if this worker ends it.

        A worker ends the run if it has the turn for that, or if no other worker is left.
        """
        self._shared.end()
        connection, run = self._registry.connection, self._membership.run
        if self._shared.over or self._reader.state() in OVER:
            return result(connection, run)
        if why is None and (self._closes or not self._membership.others(connection)):
            return None
        if not self._registry.leave(self._membership, now, why or "interrupted"):
            logger.warning("run %d goes on without this worker", run)
        return result(connection, run)

    def ended(self) -> None:
        """Remove the run from Redis; if that fails, a later run removes it."""
        with suppress(FrontierError):
            self._redis.retire()


class SharedWorkers:
    """The workers of a run, as one of them sees them.

    The registry has the data that all workers need; Redis has the pages that wait, and the worker
    that claimed each page. The worker that finds nothing left to do, and is the first to say so,
    ends the run.
    """

    def __init__(
        self,
        *,
        source: Source,
        options: Options,
        registry: Registry,
        opened: OpenRun,
        membership: Membership,
        redis: RedisFrontier,
        robots: SharedRobots,
        limited: bool,
    ) -> None:
        """``limited``: whether the run may ask for so many pages only."""
        database = registry.database
        readonly = SharedReader(database.connect(readonly=True), opened.no)
        writing = SharedReader(database.connect(), opened.no)

        def retried(work: Callable[[], Turn]) -> Turn:
            with database.translated("write"):
                return database.retried(work)

        self.opened = opened
        self.shared = SharedFrontier(
            redis,
            membership,
            readers=(readonly, writing),
            retried=retried,
            limited=limited,
            capacity=options.concurrent,
        )
        self.shared.over = opened.over
        self.gate = SharedGate(options, self.shared.tell_hosts)
        self.turns = SharedTurns(self.shared, options.download_delay)
        self.last_steps = SharedLastSteps(registry, membership, redis, self.shared, readonly)
        self._membership = membership
        self._robots = robots
        self._reader = readonly
        self._settled = not source.ad_hoc  #: whether the scope moves no more

    @classmethod
    def open(
        cls, registry: Registry, source: Source, options: Options, orders: Orders, now: int
    ) -> Self:
        """Join or open a run in a registry in PostgreSQL."""
        database, connection = registry.database, registry.connection
        assert isinstance(database, PostgresDatabase)
        assert isinstance(connection, PostgresConnection)
        assert options.redis is not None
        client = connect(options.redis)
        since = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
        most = orders.max_pages or source.max_pages
        database.share(connection)
        membership = Membership.enter(database, source.name, since)
        try:
            closing = closing_of(source, options, orders)
            opened = _joined(registry, membership, closing, source, orders=orders)
            redis = RedisFrontier(
                client,
                source.name,
                opened.no,
                per_host=options.per_host,
                delay=options.download_delay,
                most=most,
                robots=options.robots_obeyed,
                place=place_of(options.redis),
            )
            robots = SharedRobots(
                client,
                options.robots_ttl,
                source=source.name,
                run=opened.no,
                began=opened.started_at,
            )
            return cls(
                source=source,
                options=options,
                registry=registry,
                opened=opened,
                membership=membership,
                redis=redis,
                robots=robots,
                limited=most > 0,
            )
        except BaseException:
            membership.release()
            raise

    def frontier(self, readers: Readers, load: Load) -> Depths:
        """Return this worker's side of the frontier in Redis."""
        self._load = load
        return self.shared

    def host_notes(self, readers: Readers, batches: Batches) -> HostNotes:
        """Return the notes about hosts that all workers share."""
        self._batches = batches
        self.turns.write_to(batches)
        return SharedNotes(readers.hosts, batches, self._robots, self.shared)

    def hops(self, number: int) -> int:
        """Return the length of the redirect chain in which other workers found an address."""
        return self._reader.hops(number, MAX_HOPS)

    def begin(self, readers: Readers) -> None:
        """Join the run's part of Redis, or fill it from the registry.

        Raises:
            FrontierError: Redis does not answer.
        """
        self.shared.begin(joined=self.opened.joined)

    def start(
        self,
        links: Links,
        *,
        incomplete: Callable[[str], None],
        wake: Callable[[], None],
        failed: Callable[[SmartcrawlError], None],
    ) -> None:
        """Begin to claim pages; see ``Workers.start``."""
        if self.shared.over:
            return
        loop = asyncio.get_running_loop()

        def call(work: Callable[[], None]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(work)

        def claimed(claim: Claim) -> None:
            if self.gate.claimed(claim):
                incomplete(f"host_down: {claim.host}")

        def load(numbers: Sequence[int]) -> list[Page]:
            self._follow_seeds(links)
            return self._load(numbers)

        self.shared.attach(load=load, claimed=claimed, call=call, wake=wake, failed=failed)

    def _follow_seeds(self, links: Links) -> None:
        """Move the scope with the seeds that other workers visited, until all are visited."""
        if not self._settled:
            links.follow_seeds()
            asked = self._reader.reached([*links.seeds, *links.given])
            self._settled = all(reached.visited for reached in asked)

    def listen(self, hungry: Callable[[], None], written: Callable[[], None]) -> None:
        """Call ``hungry`` when other workers wait for links that this worker found.

        ``written`` is called when a batch is written, in the writer's thread.
        """
        self.shared.hungry = hungry
        self._batches.on_written = written

    def written(self, written: Written) -> None:
        """Offer the links of a batch that is in the registry to the other workers."""
        if written.renamed:
            self.shared.rename(written.renamed)
        self.shared.written(written)

    def found_over(self) -> bool:
        """Note that another worker sealed the run: nothing more can be written to it."""
        self.shared.seal()
        return True

    def close(self) -> None:
        """Close the connections to Redis and the registry that this worker shares a run by."""
        self.shared.close()

    def release(self) -> None:
        """Give up the place among the workers."""
        self._membership.release()


def _joined(
    registry: Registry,
    membership: Membership,
    closing: Closing,
    source: Source,
    *,
    orders: Orders,
) -> OpenRun:
    """Join or open a run; where one is being ended, wait for that."""
    began, logged = time.monotonic(), False
    while True:
        opened = registry.join_run(
            membership,
            closing,
            int(time.time()),
            kind=source.kind,
            resume=orders.resume,
            forced=orders.force,
            declared=not source.ad_hoc,
            job=orders.job,
        )
        if opened is not None:
            return opened
        if not logged and time.monotonic() - began > _LOG_AFTER:
            logger.info("waiting for another worker, which ends the last run of %s", source.name)
            logged = True
        time.sleep(_ASK_AGAIN)

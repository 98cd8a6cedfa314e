"""A run that several workers share: joined, crawled together, ended once (ADR 30)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, Self

from smartcrawl.model.exceptions import FrontierError, SettingError, SmartcrawlError
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Page
from smartcrawl.registry.database.choices import stored_registry_id
from smartcrawl.registry.database.postgres import PostgresDatabase
from smartcrawl.registry.database.session import PostgresConnection
from smartcrawl.registry.database.transactions import transaction
from smartcrawl.registry.pages import RegistryReaders
from smartcrawl.registry.registry import Registry
from smartcrawl.registry.removal.candidates import RemovalChoices
from smartcrawl.registry.runs.membership import Membership, Turn
from smartcrawl.registry.runs.runs import OpenRun, RunRequest
from smartcrawl.registry.runs.shared_reader import SharedReader
from smartcrawl.registry.writer import Written
from smartcrawl.rules.http import MOST_REDIRECTS
from smartcrawl.run.batches import Batches
from smartcrawl.run.frontier.memory import FrontierDepths
from smartcrawl.run.frontier.redis.connection import connect_redis, redis_place
from smartcrawl.run.frontier.redis.exchanges import FrontierClaim
from smartcrawl.run.frontier.redis.frontier import RedisFrontier
from smartcrawl.run.frontier.redis.robots import SharedRobots
from smartcrawl.run.hosts.notes import HostNotes
from smartcrawl.run.orders import Orders, run_closing_from_orders
from smartcrawl.run.run import Run
from smartcrawl.run.seeds import Seeds
from smartcrawl.run.shared.frontier import SharedFrontier
from smartcrawl.run.shared.gate import SharedGate
from smartcrawl.run.shared.last_steps import SharedLastSteps
from smartcrawl.run.shared.notes import SharedNotes
from smartcrawl.run.shared.rules import shared_run_rules
from smartcrawl.run.shared.turns import SharedTurns
from smartcrawl.run.workers import Load
from smartcrawl.sources.base import Source

logger = logging.getLogger(__name__)

_ASK_AGAIN: Final = 0.2  #: seconds until a run that is being ended is looked at again
_LOG_AFTER: Final = 2.0  #: seconds of waiting after which a line is logged


def join_shared_run(source: Source, options: Options, orders: Orders, now: int) -> Run:
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
            translated=partial(database.translated, "read"),
            limited=limited,
            capacity=options.concurrent,
        )
        self.shared.over = opened.over
        self.gate = SharedGate(options, self.shared.update_hosts)
        self.turns = SharedTurns(self.shared, options.download_delay)
        self.last_steps = SharedLastSteps(
            opened=opened,
            registry=registry,
            membership=membership,
            redis=redis,
            shared=self.shared,
            reader=readonly,
        )
        self._membership = membership
        self._registry = registry
        self._robots = robots
        self._database = database
        self._reader = readonly
        self._settled = not source.ad_hoc  #: whether the scope moves no more

    @classmethod
    def open(
        cls, registry: Registry, source: Source, options: Options, orders: Orders, now: int
    ) -> Self:
        """Join or open a run in a registry in PostgreSQL.

        Raises:
            RunDiffersError: other workers crawl the source with another scope or other rules.
        """
        database, connection = registry.database, registry.connection
        assert isinstance(database, PostgresDatabase)
        assert isinstance(connection, PostgresConnection)
        assert options.redis is not None
        client = connect_redis(options.redis)
        since = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
        most = orders.max_pages or source.max_pages
        membership = Membership.enter(database, source.name, since)
        try:
            closing = run_closing_from_orders(source, options, orders)
            rules = shared_run_rules(source, options, orders)
            opened = _joined(registry, membership, closing, source, orders=orders, rules=rules)
            with transaction(connection):
                registry_id = stored_registry_id(connection)
            redis = RedisFrontier(
                client,
                source.name,
                opened.no,
                registry=registry_id,
                per_host=options.per_host,
                delay=options.download_delay,
                most=most,
                robots=options.robots_obeyed,
                place=redis_place(options.redis),
            )
            robots = SharedRobots(
                client,
                options.robots_ttl,
                source=source.name,
                run=opened.no,
                registry=registry_id,
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

    def frontier(self, readers: RegistryReaders, load: Load) -> FrontierDepths:
        """Return this worker's side of the frontier in Redis."""
        self._load = load
        return self.shared

    def host_notes(self, readers: RegistryReaders, batches: Batches) -> HostNotes:
        """Return the notes about hosts that all workers share."""
        self._batches = batches
        self.turns.write_to(batches)
        return SharedNotes(readers.hosts, batches, self._robots, self.shared)

    def hops(self, number: int) -> int:
        """Return the length of the redirect chain in which other workers found an address."""
        return self._reader.hops(number, MOST_REDIRECTS)

    def begin(self, readers: RegistryReaders) -> None:
        """Join the run's part of Redis, or fill it from the registry.

        Raises:
            FrontierError: Redis does not answer.
        """
        self.shared.begin(joined=self.opened.joined)

    def start(
        self,
        seeds: Seeds,
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
                loop.call_soon_threadsafe(self._guarded(work, failed))

        def claimed(claim: FrontierClaim) -> None:
            if self.gate.claimed(claim):
                incomplete(f"host_down: {claim.host}")

        def load(numbers: Sequence[int]) -> list[Page]:
            self._follow_seeds(seeds)
            return self._load(numbers)

        self.shared.attach(load=load, claimed=claimed, call=call, wake=wake, failed=failed)

    def _guarded(
        self, work: Callable[[], None], failed: Callable[[SmartcrawlError], None]
    ) -> Callable[[], None]:
        """Return ``work`` so that an error in it ends the run: the event loop would only log it."""

        def guarded() -> None:
            try:
                with self._database.translated("read"):
                    work()
            except SmartcrawlError as error:
                failed(error)
            except Exception as error:
                logger.exception("the run cannot go on")
                why = f"the run cannot go on ({type(error).__name__}: {error})"
                failed(FrontierError(why))

        return guarded

    def _follow_seeds(self, seeds: Seeds) -> None:
        """Move the scope with the seeds that other workers visited, until all are visited."""
        if not self._settled:
            seeds.follow_visited()
            asked = self._reader.reached(seeds.all)
            self._settled = all(reached.visited for reached in asked)

    def listen(self, hungry: Callable[[], None], written: Callable[[], None]) -> None:
        """Call ``hungry`` when other workers wait for links that this worker found.

        ``written`` is called when a batch is written, in the writer's thread.
        """
        self.shared.hungry = hungry
        self._registry.indexing.when_waiting(lambda: self.shared.call(self.shared.cut))
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
    closing: RemovalChoices,
    source: Source,
    *,
    orders: Orders,
    rules: Mapping[str, str],
) -> OpenRun:
    """Join or open a run; where one is being ended, wait for that."""
    request = RunRequest(
        source=source.name,
        kind=source.kind,
        root=source.ad_hoc_root,
        resume=orders.resume,
        forced=orders.force,
        declared=not source.ad_hoc,
        job=orders.job,
        job_run=orders.job_run,
        rules=rules,
    )
    began, logged = time.monotonic(), False
    while True:
        opened = registry.join_run(membership, request, closing, int(time.time()))
        if opened is not None:
            return opened
        if not logged and time.monotonic() - began > _LOG_AFTER:
            logger.info("waiting for another worker, which ends the last run of %s", source.name)
            logged = True
        time.sleep(_ASK_AGAIN)

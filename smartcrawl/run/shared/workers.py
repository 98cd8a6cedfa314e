"""A run that several workers share: joined, crawled together, ended once (ADR 30)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from smartcrawl.model.batches import StoredRobots
from smartcrawl.model.exceptions import FrontierError, SettingError, SmartcrawlError
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Page
from smartcrawl.model.urls import url_host_key
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.choices import stored_registry_id
from smartcrawl.registry.database.postgres import PostgresDatabase
from smartcrawl.registry.database.session import PostgresConnection
from smartcrawl.registry.hosts import HostReader
from smartcrawl.registry.pages import RegistryReaders
from smartcrawl.registry.registry import Registry
from smartcrawl.registry.removal.candidates import RemovalChoices
from smartcrawl.registry.runs.membership import Membership, digests_of_rules
from smartcrawl.registry.runs.membership import Turn as JoinTurn
from smartcrawl.registry.runs.run_results import RunResult, stored_run_result
from smartcrawl.registry.runs.runs import OpenRun, RunRequest
from smartcrawl.registry.runs.shared_reader import SharedReader
from smartcrawl.registry.site_parts import part_of_source
from smartcrawl.registry.writer import Written
from smartcrawl.rules.http import MOST_REDIRECTS
from smartcrawl.rules.model import Fault
from smartcrawl.run.batches import Batches
from smartcrawl.run.frontier import Frontier, FrontierDepths
from smartcrawl.run.hosts import ABSENT, HostGate, HostGateLimits, HostNotes, Turn, host_gate_slot
from smartcrawl.run.links import DepthUpdates
from smartcrawl.run.orders import Orders, run_closing_from_orders, run_policy_from_orders
from smartcrawl.run.received import Answer
from smartcrawl.run.run import Run
from smartcrawl.run.seeds import Seeds
from smartcrawl.run.shared.connection import connect_redis, redis_place
from smartcrawl.run.shared.data_answers import SharedDataAnswers
from smartcrawl.run.shared.frontier import OVER, HostAct, SharedFrontier
from smartcrawl.run.shared.redis_frontier import RedisFrontier, SharedHosts, SharedRobots
from smartcrawl.run.shared.scripts import FrontierClaim
from smartcrawl.run.shortcomings import Shortcomings, merged_run_shortcomings
from smartcrawl.run.source_hosts import known_source_hosts
from smartcrawl.run.workers import Load
from smartcrawl.sources.base import Source

logger = logging.getLogger(__name__)


_NEWS: Final = 0.1  #: share by which a delay must differ from the last one that was sent
_LATER: Final = 0.1  #: seconds by which a time must be later than the last one that was sent


class SharedGate(HostGate):
    """A gate that sends pauses, parked hosts and delays to Redis, for all workers.

    The scripts apply those of the other workers when they hand out numbers (``SharedHosts``).

    Source: ADR 30; R2-43, R2-45, R2-46.
    """

    def __init__(self, limits: HostGateLimits, update: Callable[[HostAct], None]) -> None:
        super().__init__(limits)
        self._update = update
        self._probed: set[str] = set()  #: parked hosts that this worker probes for all
        self._paces: dict[str, float] = {}  #: seconds by host, as sent last
        self._singles: dict[str, float] = {}  #: monotonic seconds by host, as sent last

    def claimed(self, claim: FrontierClaim) -> bool:
        """Copy the state of a claim's host; return whether another worker gave it up just now."""
        host = host_gate_slot(claim.host)
        if claim.parked:
            self._probed.add(host)
        if claim.down and host not in self.down:
            self.throttled.pop(host, None)
            self.down.add(host)
            return True
        return False

    def pause(self, host: str, seconds: float, now: float) -> None:
        """Send a host no requests for some seconds, from any worker."""
        super().pause(host, seconds, now)
        self._update(lambda hosts: hosts.pause(host, seconds))

    def answered(self, host: str, now: float) -> None:
        """Free a host that answered, for all workers."""
        parked = (
            self.throttled
            and (hold := self.throttled.get(host)) is not None
            and hold.parked is not None
        )
        super().answered(host, now)
        if parked or host in self._probed:
            self._probed.discard(host)
            self._update(lambda hosts: hosts.unpark(host))

    def failed(self, host: str, fault: Fault, now: float, *, ends: bool = True) -> Turn | None:
        """Count a request without a whole answer; see ``HostGate``."""
        turn = super().failed(host, fault, now, ends=ends)
        probed = host in self._probed and fault in ABSENT
        if turn is Turn.DOWN:
            self._update(lambda hosts: hosts.give_up(host))
        elif turn is Turn.PARKED or probed:
            self._probed.discard(host)
            self._update(lambda hosts: self._park(hosts, host))
        return turn

    def _park(self, hosts: SharedHosts, host: str) -> None:
        limits = self._limits
        if hosts.park(host, limits.host_park_seconds) > limits.host_probes:
            hosts.give_up(host)

    def paced(self, host: str, seconds: float) -> None:
        """Set the seconds between two requests to a host, for all workers."""
        before = self._paces.get(host)
        if before is None or abs(seconds - before) > _NEWS * before:
            self._paces[host] = seconds
            self._update(lambda hosts: hosts.set_delay(host, seconds))

    def single(self, host: str, until: float, now: float) -> None:
        """Give a host one request at a time, from all workers."""
        if until > max(now, self._singles.get(host, now)) + _LATER:
            self._singles[host] = until
            self._update(lambda hosts: hosts.set_single(host, until - now))


class SharedNotes(HostNotes):
    """Writes robots.txt files to Redis, for all workers."""

    def __init__(
        self,
        reader: HostReader,
        batches: Batches,
        *,
        robots: SharedRobots,
        data: SharedDataAnswers,
        shared: SharedFrontier,
    ) -> None:
        super().__init__(reader, batches)
        self._data = data
        self._robots = robots
        self._shared = shared

    async def asked_once(
        self, key: str, ask: Callable[[], Awaitable[Answer | str]]
    ) -> Answer | str:
        """Return the answer that another worker got in this run, or that of ``ask``."""
        return await self._data.asked_once(key, ask)

    def robots_of_others(self, origin: str) -> StoredRobots | None:
        """Return the robots.txt that another worker fetched in this run; None: fetch it."""
        with suppress(FrontierError):  # then this worker fetches it
            return self._robots.get(origin)
        return None

    def robots_read(
        self, origin: str, robots: StoredRobots, crawl_delay: float | None = None
    ) -> None:
        """Store the robots.txt of an origin, for all workers."""
        super().robots_read(origin, robots, crawl_delay)
        with suppress(FrontierError):  # then other workers fetch it, too
            self._robots.put(origin, robots)
        host = host_gate_slot(url_host_key(origin))
        self._shared.update_hosts(lambda hosts: hosts.robots_read(host, crawl_delay or 0.0))


#: Keys of a source that decide about no address: paths and trust of one machine.
_OF_A_MACHINE: Final = frozenset({"ca_file", "verify_certificates"})
#: Settings that decide about addresses, by the name of their option.
_SETTINGS: Final = {
    "DEPTH_LIMIT": "depth_limit",
    "REDIRECT_MAX_TIMES": "redirects",
    "ROBOTSTXT_OBEY": "robots_obeyed",
    "SITEMAPS_FROM_ROBOTS": "sitemaps_from_robots",
    "LLMS_TXT": "llms_txt",
    "SOFT_404_DETECTION": "soft_404",
    "OUT_OF_SCOPE_POLICY": "out_of_scope_policy",
    "HOST_URL_BUDGET": "host_url_budget",
    "MAX_HOSTS": "max_hosts",
    "SWEEP_MAX_RATIO": "sweep_max_ratio",
    "SWEEP_MIN_COUNT": "sweep_min_count",
}
#: Settings of the removal policy, by the name of its field.
_POLICY: Final = {
    "LOST_THRESHOLD": "lost_threshold",
    "LOST_MIN_AGE": "lost_min_age",
    "LOST_PURGE_STATUSES": "purge_statuses",
    "ORPHAN_THRESHOLD": "orphan_threshold",
    "ORPHAN_MIN_AGE": "orphan_min_age",
    "LOST_ORPHAN_RULE": "sum_of_thresholds",
}


def shared_run_rules(source: Source, options: Options, orders: Orders) -> dict[str, str]:
    """Return a digest of each key and setting that decides about the pages of a run, by its name.

    The keys are those of sources.toml, also where the arguments of the command have their values.
    """
    left_out = _OF_A_MACHINE | ({"scope"} if source.is_open else set())
    keys = set(source.keys()) - left_out
    dumped = source.model_dump(mode="json", by_alias=True)
    declared = {key: value for key, value in dumped.items() if key in keys}
    policy = run_policy_from_orders(options, orders)
    values: dict[str, Any] = declared | {
        "max_pages": orders.max_pages or source.max_pages,
        "headers": dict(source.request.headers),
        **{name: _plain(getattr(options, option)) for name, option in _SETTINGS.items()},
        **{name: _plain(getattr(policy, part)) for name, part in _POLICY.items()},
        "TRACKING_PARAM_PREFIXES": sorted(options.trackers.prefixes),
        "TRACKING_PARAM_NAMES": sorted(options.trackers.names),
    }
    return digests_of_rules(values)


def _plain(value: Any) -> Any:
    """Return a value as JSON can have it."""
    return sorted(value) if isinstance(value, frozenset | set) else value


class SharedTurns:
    """The pages that this worker claimed in Redis."""

    def __init__(
        self, shared: SharedFrontier, download_delay: float, delays: Mapping[str, float]
    ) -> None:
        """``download_delay``: seconds between two requests to a host; ``delays``: those of some."""
        self._shared = shared
        self._download_delay = download_delay
        self._delays = delays
        self._batches: Batches | None = None
        self._verify: Frontier | None = None

    def write_to(self, batches: Batches) -> None:
        """Watch the batches that this worker writes."""
        self._batches = batches

    def next_page(self, free: Callable[[str], bool]) -> Page | None:
        """Return the next page of a host that is ``free``, or None when there is none now."""
        return self._shared.claims.next(free) if self._verify is None else self._verify.next(free)

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
        return self._shared.claims.starve and not is_writing

    @property
    def spent(self) -> bool:
        """Whether the workers together asked for as many pages as the run may."""
        return self._shared.spent

    def verify(self, frontier: Frontier) -> None:
        """Hand out the pages of ``frontier``, which are to be verified before removal."""
        self._verify = frontier

    def landed(self, page: Page) -> None:
        """Note that the requests of a page are over."""
        self._shared.claims.landed(page)

    def unanswered(self, page: Page) -> None:
        """Note that a page was asked for and will have no visit: it stays pending."""
        self._shared.claims.unanswered(page)

    def is_spent(self, page: Page, crawl_delay: float | None, *, asked: bool) -> bool:
        """Whether a page must wait for its host's next turn, because robots.txt took this one.

        A claim is for one request. The first claim of a host was made before the workers knew its
        Crawl-delay, too.
        """
        first = self._shared.claims.is_first(page)
        if first is None or not (first or asked):
            return False
        host, delay = host_gate_slot(page.host), crawl_delay or 0.0
        self._shared.update_hosts(lambda hosts: hosts.robots_read(host, delay, asked=asked))
        return bool(delay or self._delays.get(host, self._download_delay))

    def give_back(self, page: Page) -> None:
        """Let a page have its host's next turn, after all workers know the Crawl-delay."""
        self._shared.claims.give_back(page)


class SharedLastSteps:
    """The end of a run that only one of its workers ends."""

    def __init__(
        self,
        *,
        opened: OpenRun,
        registry: Registry,
        membership: Membership,
        redis: RedisFrontier,
        shared: SharedFrontier,
        reader: SharedReader,
    ) -> None:
        self._opened, self._run = opened, opened.no
        self._registry = registry
        self._membership = membership
        self._redis = redis
        self._shared = shared
        self._reader = reader
        self._handed_on = False  #: whether the links of all pages were handed on
        self._all: Shortcomings | None = None  #: of all workers, once they were read

    @property
    def ours(self) -> bool:
        """Whether this worker ends the run, and no other worker has sealed it."""
        return self._closes and not self._shared.sealed

    @property
    def _closes(self) -> bool:
        return self._shared.turn is not None and not self._shared.over

    def relax(self, depths: DepthUpdates, write: Callable[[], None]) -> None:
        """Hand on depths that became smaller, and the links of pages read in another scope."""
        if not self.ours:
            return
        write()
        try:
            self._relax(depths)
        except FrontierError:  # the courier logs it; with Redis, the turn comes back
            self._handed_on = False
            self._shared.doubt()
            return
        write()

    def _relax(self, depths: DepthUpdates) -> None:
        lowered = self._redis.lowered()
        unsure = self._shared.again or depths.scope_moved
        if unsure and not self._handed_on:
            self._handed_on = True
            depths.hand_on(self._reader.links())
        while lowered:
            depths.hand_on(self._reader.links(lowered))
            lowered = self._redis.lowered()

    def cut_by(self, shortcomings: Shortcomings) -> tuple[str, ...]:
        """Return the reasons of all workers why the run did not see everything."""
        self._all = Shortcomings.loads(
            merged_run_shortcomings(self._reader.cut(), shortcomings.news())
        )
        return self._all.as_reasons()

    def notes(self, shortcomings: Shortcomings) -> tuple[str, ...]:
        """Return the notes about addresses that any worker left out."""
        return (self._all or shortcomings).as_notes()

    def leave(self, why: str | None, now: int) -> RunResult | None:
        """Leave the run to the other workers; None if this worker ends it.

        A worker ends the run if it has the turn for that, or if no other worker is left.
        """
        self._shared.end()
        connection, run = self._registry.connection, self._run
        if self._shared.over or self._reader.state() in OVER:
            return stored_run_result(connection, run)
        if why is None and (self._closes or not self._membership.others(connection)):
            return None
        if not self._registry.leave(self._membership, now, why or "interrupted"):
            words = "run %d continues without this worker"
            if self._reader.order() is not None:
                words = "run %d ends as requested, once its other workers have left it"
            logger.warning(words, run)
        return stored_run_result(connection, run)

    def abandon(self, why: str, now: int) -> RunResult | None:
        """Close the run as interrupted, under all of its workers."""
        self._shared.end()
        return self._registry.abandon(self._opened, (why,), now)

    def ended(self) -> None:
        """Remove the run from Redis; if that fails, a later run removes it."""
        with suppress(FrontierError):
            self._redis.retire()


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
            f"REDIS_URL is set, but the registry is the file {options.registry}, which "
            "workers on other machines cannot see: set REGISTRY_URL=postgresql://…, or "
            "leave REDIS_URL empty to crawl with one worker"
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
        data: SharedDataAnswers,
        limited: bool,
    ) -> None:
        """``limited``: whether the run may ask for so many pages only."""
        database = registry.database
        readonly = SharedReader(database.connect(readonly=True), opened.no)
        writing = SharedReader(database.connect(), opened.no)

        def retried(work: Callable[[], JoinTurn]) -> JoinTurn:
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
        self.turns = SharedTurns(self.shared, options.download_delay, options.host_delays)
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
        self._robots, self._data = robots, data
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
            hosts = known_source_hosts(source, options, connection)
            request = _run_request(source, options, orders, hosts)
            closing = run_closing_from_orders(source, options, orders)
            opened = _joined(registry, membership, closing, request)
            with transaction(connection):
                registry_id = stored_registry_id(connection)
            redis = RedisFrontier(
                client,
                source.name,
                opened.no,
                registry=registry_id,
                per_host=options.per_host,
                delay=options.download_delay,
                delays=options.host_delays,
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
            data = SharedDataAnswers(
                client, source=source.name, run=opened.no, registry=registry_id
            )
            return cls(
                source=source,
                options=options,
                registry=registry,
                opened=opened,
                membership=membership,
                redis=redis,
                robots=robots,
                data=data,
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
        return SharedNotes(
            readers.hosts, batches, robots=self._robots, data=self._data, shared=self.shared
        )

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
            seeds.follow_decided()
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


def _run_request(
    source: Source, options: Options, orders: Orders, hosts: frozenset[str]
) -> RunRequest:
    return RunRequest(
        source=source.name,
        kind=source.kind,
        root=source.ad_hoc_root,
        resume=orders.resume,
        forced=orders.force,
        declared=not source.ad_hoc,
        job=orders.job,
        job_run=orders.job_run,
        rules=shared_run_rules(source, options, orders),
        part=part_of_source(source),
        visibility=source.declared_visibility,
        hosts=hosts,
    )


def _joined(
    registry: Registry, membership: Membership, closing: RemovalChoices, request: RunRequest
) -> OpenRun:
    """Join or open a run; where one is being ended, wait for that."""
    began, logged = time.monotonic(), False
    while True:
        opened = registry.join_run(membership, request, closing, int(time.time()))
        if opened is not None:
            return opened
        if not logged and time.monotonic() - began > _LOG_AFTER:
            logger.info("waiting for another worker to end the last run of %s", request.source)
            logged = True
        time.sleep(_ASK_AGAIN)

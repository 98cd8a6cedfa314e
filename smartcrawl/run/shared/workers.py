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

from smartcrawl.model.exceptions import FrontierError, RunOverError, SettingError, SmartcrawlError
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Page
from smartcrawl.registry.database.postgres import PostgresDatabase
from smartcrawl.registry.database.session import PostgresConnection
from smartcrawl.registry.registry import Registry, Written
from smartcrawl.registry.removal.candidates import Closing
from smartcrawl.registry.runs.membership import Membership, Turn
from smartcrawl.registry.runs.runs import OpenRun, RunResult, result
from smartcrawl.registry.runs.shared_reader import SharedReader
from smartcrawl.rules.seal import Evidence, reasons
from smartcrawl.run.frontier.memory import Depths
from smartcrawl.run.frontier.redis.connection import connect, place_of
from smartcrawl.run.frontier.redis.frontier import Claim, RedisFrontier
from smartcrawl.run.frontier.redis.robots import SharedRobots
from smartcrawl.run.hosts.gate import HostGate, slot_of
from smartcrawl.run.hosts.notes import HostNotes
from smartcrawl.run.links import MAX_HOPS
from smartcrawl.run.orders import Orders, closing_of
from smartcrawl.run.run import Run, registry_of
from smartcrawl.run.shared.frontier import OVER, SharedFrontier
from smartcrawl.run.shared.gate import SharedGate
from smartcrawl.run.shared.notes import SharedNotes
from smartcrawl.run.shortcomings import Shortcomings, merged
from smartcrawl.sources.declared import Source

logger = logging.getLogger(__name__)

_ASK_AGAIN: Final = 0.2  #: seconds until a run that is being ended is looked at again
_TELL_AFTER: Final = 2.0  #: seconds of waiting after which people are told


class SharedRun(Run):
    """The run as one of its workers sees it.

    Whatever all must know is in the registry; what waits and who holds what is in Redis. The
    worker that finds nothing left to do, and is the first to say so, ends the run.
    """

    _merged = staticmethod(merged)

    def __init__(
        self,
        *,
        membership: Membership,
        redis: RedisFrontier,
        robots: SharedRobots,
        **parts: object,
    ) -> None:
        self._membership = membership
        self._redis = redis
        self._robots = robots
        self._settled = False  #: whether the scope moves no more
        self._handed_on = False  #: whether depths were handed on from everything
        super().__init__(lease=membership, **parts)  # type: ignore[arg-type]
        self.shortcomings.news()  # what the registry had already is none

    @classmethod
    def join(cls, source: Source, options: Options, orders: Orders, now: int) -> Self:
        """Join or open a run; see ``open_run``."""
        if isinstance(options.registry, Path):
            raise SettingError(
                f"REDIS_URL is set, but the registry is the file {options.registry}, which other"
                " workers do not see: set REGISTRY_URL=postgresql://…, or leave REDIS_URL empty to"
                " crawl with one worker"
            )
        registry = registry_of(options)
        database, connection = registry.database, registry.connection
        assert isinstance(database, PostgresDatabase)
        assert isinstance(connection, PostgresConnection)
        assert options.redis is not None
        client = connect(options.redis)
        since = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
        database.share(connection)
        membership = Membership.enter(database, source.name, since)
        try:
            opened = _joined(
                registry, membership, closing_of(source, options, orders), source, orders=orders
            )
            if not (opened.joined or opened.over):
                registry.mend(opened, now)
            redis = RedisFrontier(
                client,
                source.name,
                opened.no,
                per_host=options.per_host,
                delay=options.download_delay,
                most=orders.max_pages or source.max_pages,
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
            run = cls(
                membership=membership,
                redis=redis,
                robots=robots,
                source=source,
                options=options,
                orders=orders,
                registry=registry,
                opened=opened,
                now=now,
            )
            run._begin(now)
        except BaseException:
            membership.release()
            raise
        return run

    # What the run is made of

    def _new_frontier(self) -> Depths:
        database, run = self.registry.database, self.opened.no
        readonly = SharedReader(database.connect(readonly=True), run)
        writing = SharedReader(database.connect(), run)

        def retried(work: Callable[[], Turn]) -> Turn:
            with database.translated("write"):
                return database.retried(work)

        self.shared = SharedFrontier(
            self._redis,
            self._membership,
            readers=(readonly, writing),
            retried=retried,
            limited=self._left > 0,
            capacity=self.options.concurrent,
        )
        self._shared_reader = readonly
        return self.shared

    def _new_hosts(self) -> HostNotes:
        return SharedNotes(self._reader, self.batches, self._robots, self.shared)

    def new_gate(self) -> HostGate:
        """Return a gate that heeds what all workers know."""
        self.gate = SharedGate(self.options, self.shared.tell_hosts)
        return self.gate

    def _hops_of(self, number: int) -> int:
        return self._shared_reader.hops(number, MAX_HOPS)

    def _written(self, written: Written) -> None:
        super()._written(written)
        if written.renamed:
            self.links.rename(written.renamed)
            self.shared.rename(written.renamed)
        self.shared.written(written)

    # How it begins

    def _begin(self, now: int) -> None:
        if self.opened.over:
            self.shared.over = True
            return
        self.shared.begin(joined=self.opened.joined)
        self.links.begin()
        try:
            self._offer_given(now)
        except RunOverError:  # this worker stood still meanwhile
            self.found_over()

    def start(self, wake: Callable[[], None], failed: Callable[[SmartcrawlError], None]) -> None:
        """Begin to ask; ``wake`` has the engine ask for what is next, ``failed`` ends the run."""
        if self.shared.over:
            return
        loop = asyncio.get_running_loop()

        def call(work: Callable[[], None]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(work)

        self.shared.attach(
            load=self._load_shared, claimed=self._claimed, call=call, wake=wake, failed=failed
        )

    def _claimed(self, claim: Claim) -> None:
        if self.gate.claimed(claim):
            self.incomplete(f"host_down: {claim.host}")

    def _load_shared(self, numbers: Sequence[int]) -> list[Page]:
        if self.source.ad_hoc and not self._settled:
            self.links.follow_seeds()
            asked = self._shared_reader.reached([*self.links.seeds, *self.links.given])
            self._settled = all(reached.visited for reached in asked)
        return self._load(numbers)

    # What is asked next

    def next_page(self, free: Callable[[str], bool]) -> Page | None:
        """Return the next page to ask for, or None when there is none now."""
        if self.failure:
            return None
        return self.shared.next(free) if self._verify is None else self._verify.next(free)

    @property
    def resting(self) -> bool:
        """Whether ``next_page`` found none for now because others should have the loop, too."""
        return self._verify is not None and self._verify.resting

    @property
    def pending(self) -> bool:
        """Whether there may be something left for this worker to do."""
        if self.failure or self.shared.over:
            return False
        if self._verify is not None and len(self._verify):
            return True
        return self.shared.pending

    @property
    def hurries(self) -> bool:
        """Whether what this worker found is written at once: it has nothing else to do."""
        return self.shared.starves and not self.batches.is_writing

    def landed(self, page: Page) -> None:
        """Note that the requests of a page are over."""
        self.shared.landed(page)

    def unanswered(self, page: Page) -> None:
        """Note a page that was asked and will have no visit."""
        self.shared.unanswered(page)

    def listen(self, hungry: Callable[[], None], written: Callable[[], None]) -> None:
        """Have ``hungry`` called when others wait for what was found, and nothing else is left."""
        self.shared.hungry = hungry
        self.batches.on_written = written

    def found_over(self) -> bool:
        """Note that nothing can be written any more: somebody else sealed the run."""
        self.shared.seal()
        return True

    # How it ends

    @property
    def _closes(self) -> bool:
        return self.shared.turn is not None and not self.shared.over

    @property
    def _looks_for_more(self) -> bool:
        """Whether this worker ends the run, and nobody has sealed it."""
        return self._closes and not self.shared.sealed

    def relax(self, now: int) -> None:
        """Hand on depths, and what a moved scope leads to; the one that ends the run does so."""
        if not self._looks_for_more:
            return
        self.batches.submit(now)
        self.batches.drain()
        try:
            self._relax()
        except FrontierError:  # the courier tells it; where Redis is there again, so is the turn
            self._handed_on = False
            self.shared.doubt()
            return
        self.batches.submit(now)
        self.batches.drain()

    def _relax(self) -> None:
        lowered = self._redis.lowered()
        unsure = self.shared.again or self.scope != self.source.scope
        if unsure and not self._handed_on:
            self._handed_on = True
            self.links.hand_on(self._shared_reader.links())
        while lowered:
            self.links.hand_on(self._shared_reader.links(lowered))
            lowered = self._redis.lowered()

    def follow_unnamed(self, now: int) -> None:
        """Follow the stored links of sitemaps that nobody named."""
        if self._looks_for_more:
            super().follow_unnamed(now)
            self.batches.submit(now)
            self.batches.drain()

    def settle_collapsed(self, now: int) -> None:
        """Decide about the collapsed pages that wait; the one that ends the run does so."""
        if self._looks_for_more:
            super().settle_collapsed(now)

    def begin_verify(self, now: int) -> bool:
        """Look at what was not reached for long enough; the one that ends the run does so."""
        return self._looks_for_more and super().begin_verify(now)

    def _evidence(self) -> Evidence:
        if self.shared.spent:
            self._left = 0
        return super()._evidence()

    def _cut_by(self) -> tuple[str, ...]:
        return Shortcomings.loads(
            merged(self._shared_reader.cut(), self.shortcomings.news())
        ).told()

    def finish(self, reason: str, now: int) -> RunResult:
        """End the run if that is this worker's turn, else leave it to the others."""
        try:
            self._flush(now)
            self.shared.end()
            connection = self.registry.connection
            if self.shared.over or self._shared_reader.state() in OVER:
                self.result = result(connection, self.opened.no)
            elif self._ends(reason):
                found = self._reasons if self._reasons is not None else reasons(self._evidence())
                if reason != "finished":
                    found = (reason, *found)
                ending = self._ending(now)
                self.result = self.registry.end(ending, found, self._removed, shared=True)
                with suppress(FrontierError):  # then a later run removes it
                    self._redis.retire()
            else:
                self.result = self._leave(now)
        finally:
            self.close()
        return self.result

    def _ends(self, reason: str) -> bool:
        """Whether this worker ends the run: it is its turn, or nobody else is left."""
        if self.failure is not None or reason == "shutdown":
            return False
        return self._closes or not self._membership.others(self.registry.connection)

    def _leave(self, now: int) -> RunResult:
        why = str(self.failure) if self.failure else "interrupted"
        if not self.registry.leave(self._membership, now, why):
            logger.warning("run %d goes on without this worker", self.opened.no)
        return result(self.registry.connection, self.opened.no)

    def _flush(self, now: int) -> None:
        super()._flush(now)
        if isinstance(self.failure, RunOverError):
            self.failure = None
            self.shared.seal()

    def close(self) -> None:
        """Let go of Redis, of connections, and of the place among the workers."""
        if not self._closed:
            self.shared.close()
        super().close()

    # Whose turn it is

    def turn_is_spent(self, page: Page, crawl_delay: float | None, *, asked: bool) -> bool:
        """Whether a page must wait for its host's next turn; see ``Run.turn_is_spent``.

        A claim is for one request. The first of a host came before all knew the Crawl-delay, too.
        """
        first = self.shared.is_first(page)
        if first is None or not (first or asked):
            return False
        host, delay = slot_of(page.host), crawl_delay or 0.0
        self.shared.tell_hosts(lambda hosts: hosts.robots_read(host, delay, asked=asked))
        return bool(delay or self.options.download_delay)

    def give_back(self, page: Page) -> None:
        """Let a page have its host's next turn, after all know what was told of that."""
        self.shared.give_back(page)


def _joined(
    registry: Registry,
    membership: Membership,
    closing: Closing,
    source: Source,
    *,
    orders: Orders,
) -> OpenRun:
    """Join or open a run; where one is being ended, wait for that."""
    began, told = time.monotonic(), False
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
        if not told and time.monotonic() - began > _TELL_AFTER:
            logger.info("waiting for another worker, which ends the last run of %s", source.name)
            told = True
        time.sleep(_ASK_AGAIN)

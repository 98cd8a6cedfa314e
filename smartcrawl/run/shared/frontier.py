"""One worker's side of the frontier that all workers of a run share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress

from smartcrawl.model.exceptions import FrontierLostError, SmartcrawlError
from smartcrawl.model.pages import Page
from smartcrawl.registry.runs.membership import Membership, Turn
from smartcrawl.registry.runs.shared_reader import SharedReader
from smartcrawl.registry.writer import Written
from smartcrawl.run.frontier.memory import FrontierDepths
from smartcrawl.run.frontier.redis.exchanges import FrontierClaim
from smartcrawl.run.frontier.redis.frontier import RedisFrontier
from smartcrawl.run.frontier.redis.heartbeat import ClaimHeartbeat
from smartcrawl.run.shared.claims import Claims
from smartcrawl.run.shared.courier import Courier, HostAct
from smartcrawl.run.shared.desk import RegistryDesk

logger = logging.getLogger(__name__)


class SharedFrontier(FrontierDepths):
    """Offers the pages that this worker finds to all workers, and hands out those it claimed.

    Its depths are those that this worker offered or claimed; Redis and the registry have those of
    the other workers. Found and visited pages are sent to Redis after their commit to the registry.

    ``attach`` begins the work. ``desk`` works in the courier's thread, all else in that of the
    event loop.
    """

    def __init__(
        self,
        redis: RedisFrontier,
        membership: Membership,
        *,
        readers: tuple[SharedReader, SharedReader],
        retried: Callable[[Callable[[], Turn]], Turn],
        translated: Callable[[], AbstractContextManager[None]] = nullcontext,
        limited: bool,
        capacity: int,
    ) -> None:
        """``readers``: of the loop, and of the courier's thread, which also writes with it.

        ``retried`` runs a transaction, again where a restart undid it; ``translated`` turns errors
        of the database into those of this program. ``limited``: whether the run may ask a
        limited number of pages. ``capacity``: most claims in flight.
        """
        super().__init__()
        self.redis = redis
        self.resting = False
        self.turn: Turn | None = None  #: set when this worker ends the run
        self.sealed = False  #: whether the run accepts no more writes
        self.over = False  #: whether the run was ended, by any worker
        self.again = False  #: whether depths may have been lost meanwhile
        self.spent = False  #: whether the run's limit of pages was handed out
        self.moves = 0  #: changes whenever there may be more to do
        self.closed = False
        self.cut_off = False  #: whether this worker cannot write, so that others ask its pages
        self.hungry: Callable[[], None] = lambda: None  #: called when no page waits for this worker
        self.failed: Callable[[SmartcrawlError], None] = lambda error: None
        self.call: Callable[[Callable[[], None]], None] = lambda work: work()
        self._reader, self._courier_reader = readers
        self._capacity = capacity
        self._wake: Callable[[], None] = lambda: None
        self._found = 0  #: pages offered, and not committed yet
        self._quiet: int | None = None  #: ``moves`` when there was no more to do
        self.desk = RegistryDesk(
            self,
            redis,
            membership,
            self._courier_reader,
            retried=retried,
            translated=translated,
            limited=limited,
        )
        self._courier = Courier(redis, self.desk, self._room)
        self.claims = Claims(self, self._courier, membership, self._reader)
        self._heartbeat = ClaimHeartbeat(
            redis, lambda gone: self.call(lambda: self.claims.drop(gone))
        )

    def attach(
        self,
        *,
        load: Callable[[Sequence[int]], list[Page]],
        claimed: Callable[[FrontierClaim], None],
        call: Callable[[Callable[[], None]], None],
        wake: Callable[[], None],
        failed: Callable[[SmartcrawlError], None],
    ) -> None:
        """Begin. ``load`` turns numbers into pages, ``call`` calls a function in the loop's thread.

        ``claimed`` is notified of each claim before that; ``wake`` lets the engine ask for the
        next page; ``failed`` ends the run.
        """
        self.claims.attach(load, claimed)
        self.call, self._wake, self.failed = call, wake, failed
        self._courier.start()
        self._heartbeat.start()

    def __len__(self) -> int:
        """Return the number of pages that wait, as far as this worker knows."""
        return self.claims.ready + self._found

    @property
    def pending(self) -> bool:
        """Whether this worker may have more to do."""
        if self.closed or self.over:
            return False
        return self.turn is None or bool(self.claims.ready) or self._quiet != self.moves

    @property
    def sends(self) -> bool:
        """Whether messages for Redis were not sent yet."""
        return self._courier.carries

    def offer(self, numbers: Sequence[int], depth: int) -> list[int]:
        """Return the numbers that are news to this worker: unreached, or now shallower."""
        news = super().offer(numbers, depth)
        self.moves += bool(news)
        return news

    def _put(self, fresh: Sequence[int]) -> None:
        self._found += len(fresh)

    def rename(self, renamed: Mapping[int, int]) -> None:
        """Move depths and priorities to the numbers that other workers gave the addresses first."""
        for ours, theirs in renamed.items():
            depth = self.depth(ours)
            self.grow(theirs)
            if depth < self.depth(theirs):
                self.mark(theirs, depth)
            if ours in self.priorities:
                self.priorities[theirs] = self.priorities.pop(ours)

    def written(self, written: Written) -> None:
        """Offer the found pages of a committed batch, and end the claims of its visited pages."""
        if self.cut_off:
            self.cut_off = False
            self.moves += 1
        batch = written.batch
        claims = self.claims.visited([*batch.touched, *(visit.page.no for visit in batch.visits)])
        self._found = max(0, self._found - len(written.reached) - len(written.renamed))
        self._courier.send(found=map(self.desk.waiting, written.reached), done=claims)
        # An edit has no claim: without this its links might go unnoticed.
        self.moves += any(not reached.visited for reached in written.reached)

    def update_hosts(self, act: HostAct) -> None:
        """Update the shared record of a host, for all workers."""
        self._courier.send(acts=[act])

    def doubt(self) -> None:
        """Look again whether there is more to do: Redis does not answer, and may lose depths."""
        self.again = True
        self.moves += 1

    def cut(self) -> None:
        """Give all claims back, and ask no page until a batch is written: the index is away.

        Other workers may reach it, and the run would wait for the pages of this one.
        """
        if not (self.cut_off or self.closed or self.turn):
            self.cut_off = True
            logger.warning("no write to the index succeeds: this worker gives its claims back")
            self.claims.release()

    def seal(self) -> None:
        """Ask no more pages: another worker sealed the run, and may still be ending it."""
        self.sealed = True
        self.claims.release()

    def end(self) -> None:
        """Ask no more pages, and give back those that were not visited."""
        if not self.closed:
            self.closed = True
            self.claims.release()
            self._courier.stop()
            self._heartbeat.stop()

    def close(self) -> None:
        """Close the connections."""
        self.end()
        self._reader.close()
        self._courier_reader.close()

    def begin(self, *, joined: bool) -> None:
        """Join the run's part of Redis, or make and fill it.

        Raises:
            FrontierError: Redis does not answer.
        """
        reader = self._reader
        visits = reader.visits()
        if not joined:
            self.redis.retire()  # the keys of an interrupted run
            self.redis.remove_older()
        with suppress(FrontierLostError):  # meanwhile; the courier finds that, too
            if joined and visits:
                made = self.redis.recover(given=visits)
            else:
                made = self.redis.begin(given=visits)
            if made and visits:
                self.desk.fill(reader)

    # For the desk

    def _room(self) -> int:
        if self.closed or self.sealed or self.over or self.cut_off:
            return 0
        return self._capacity - self.claims.asked

    def take(self, claims: Sequence[FrontierClaim]) -> None:
        """Take new claims, or release them where this worker asks no more pages."""
        if self.closed or self.sealed or self.over or self.cut_off:
            self.claims.refuse(claims)
            return
        self.moves += 1
        self.claims.take(claims)
        self._wake()

    def rest(self, moves: int, turn: Turn, *, sealed: bool) -> None:
        """Note that there was no more to do at ``moves``, and that this worker ends the run."""
        self.turn, self._quiet, self.sealed = turn, moves, self.sealed or sealed
        if not self.pending:
            self._wake()

    def found_over(self) -> None:
        """Note that the run is over."""
        self.over = True
        self._wake()

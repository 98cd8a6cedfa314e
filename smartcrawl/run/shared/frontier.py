"""One worker's side of the frontier that all workers of a run share."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from smartcrawl.model.exceptions import FrontierLostError, SmartcrawlError
from smartcrawl.model.pages import Page
from smartcrawl.registry.runs.membership import Membership, Turn
from smartcrawl.registry.runs.shared_reader import Reached, SharedReader
from smartcrawl.registry.writer import Written
from smartcrawl.rules.model import BEFORE_SEAL, RunState
from smartcrawl.run.frontier.memory import Depths
from smartcrawl.run.frontier.redis.frontier import Claim, Exchange, RedisFrontier, Waiting
from smartcrawl.run.frontier.redis.heartbeat import Heartbeat
from smartcrawl.run.hosts.gate import slot_of
from smartcrawl.run.shared.courier import Courier, HostAct

logger = logging.getLogger(__name__)

OVER: Final = (RunState.SWEPT, RunState.INTERRUPTED)


class SharedFrontier(Depths):
    """Offers what this worker finds to all, and hands out what it claimed.

    It knows of every number what this worker did with it; what others did is known by Redis and
    the registry. What is found is told when the registry has it, what is visited likewise.

    ``attach`` begins the work. What the courier brings in its thread is handled by ``call``, in
    that of the event loop.
    """

    def __init__(
        self,
        redis: RedisFrontier,
        membership: Membership,
        *,
        readers: tuple[SharedReader, SharedReader],
        retried: Callable[[Callable[[], Turn]], Turn],
        limited: bool,
        capacity: int,
    ) -> None:
        """``readers``: of the loop, and of the courier's thread, which writes over it as well.

        ``retried`` does a transaction, again where a restart undid it.
        """
        super().__init__()
        self.redis = redis
        self.resting = False
        self.turn: Turn | None = None  #: whether this worker ends the run
        self.sealed = False  #: whether nothing more may be written to the run
        self.over = False  #: whether the run was ended, by whomever
        self.again = False  #: whether depths may have been lost meanwhile
        self.spent = False  #: whether as many were handed out as the run may ask for
        self.hungry: Callable[[], None] = lambda: None  #: told when nothing waits for this worker
        self._membership = membership
        self._reader, self._courier_reader = readers  #: of the loop, and of the courier's thread
        self._retried = retried
        self._limited = limited
        self._capacity = capacity
        self._load: Callable[[Sequence[int]], list[Page]] = lambda numbers: []
        self._claimed: Callable[[Claim], None] = lambda claim: None
        self._failed: Callable[[SmartcrawlError], None] = lambda error: None
        self._call: Callable[[Callable[[], None]], None] = lambda work: work()
        self._wake: Callable[[], None] = lambda: None
        self._ready: deque[Page] = deque()
        self._claims: dict[int, Claim] = {}  #: by number
        self._asked: set[int] = set()  #: claimed, and their requests are not over
        self._found = 0  #: offered, and not told yet
        self._moves = 0  #: changes whenever there may be more to do
        self._quiet: int | None = None  #: moves when nothing was left to do
        self._closed = False
        self._visits = -1  #: of the run, when the registry had more that waits than Redis
        self._courier = Courier(redis, self, self._room)
        self._heartbeat = Heartbeat(redis, lambda gone: self._call(lambda: self.drop(gone)))

    # The run's side

    def attach(
        self,
        *,
        load: Callable[[Sequence[int]], list[Page]],
        claimed: Callable[[Claim], None],
        call: Callable[[Callable[[], None]], None],
        wake: Callable[[], None],
        failed: Callable[[SmartcrawlError], None],
    ) -> None:
        """Begin. ``load`` turns numbers into pages, ``call`` does something in the loop's thread.

        ``claimed`` is told of each claim before that; ``wake`` lets the engine ask for what is
        next; ``failed`` ends the run.
        """
        self._load, self._claimed = load, claimed
        self._call, self._wake, self._failed = call, wake, failed
        self._courier.start()
        self._heartbeat.start()

    def __len__(self) -> int:
        """How many addresses wait, as far as this worker knows."""
        return len(self._ready) + self._found

    @property
    def pending(self) -> bool:
        """Whether there may be something left for this worker to do."""
        if self._closed or self.over:
            return False
        return self.turn is None or bool(self._ready) or self._quiet != self._moves

    @property
    def starves(self) -> bool:
        """Whether all that this worker could ask is asked."""
        return not self._ready and not self._asked

    def offer(self, numbers: Sequence[int], depth: int) -> list[int]:
        """Return those numbers that are news to this worker: unreached, or now shallower."""
        news = super().offer(numbers, depth)
        self._moves += bool(news)
        return news

    def _put(self, fresh: Sequence[int]) -> None:
        self._found += len(fresh)

    def rename(self, renamed: Mapping[int, int]) -> None:
        """Learn that others met addresses first, under other numbers."""
        for ours, theirs in renamed.items():
            depth = self.depth(ours)
            self.grow(theirs)
            if depth < self.depth(theirs):
                self.mark(theirs, depth)

    def next(self, free: Callable[[str], bool]) -> Page | None:
        """Return the next page of a host that is ``free``, or None when there is none now."""
        for page in self._ready:
            if free(page.host):
                self._ready.remove(page)
                return page
        return None

    def is_first(self, page: Page) -> bool | None:
        """Whether a page is the first of its host, as claims say; None: it is under no claim."""
        claim = self._claims.get(page.no)
        return None if claim is None else claim.first

    def give_back(self, page: Page) -> None:
        """Let a page that was not asked have its next turn, whoever claims it then."""
        claim = self._claims.pop(page.no, None)
        if claim is not None:
            self._asked.discard(page.no)
            self._courier.tell(released=[claim])

    def landed(self, page: Page) -> None:
        """Note that the requests of a page are over: its host may be asked for another."""
        claim = self._claims.get(page.no)
        if claim is not None and page.no in self._asked:
            self._asked.discard(page.no)
            self._courier.tell(landed=[claim])

    def unanswered(self, page: Page) -> None:
        """Let go of a page that was asked and will have no visit: it stays pending."""
        claim = self._claims.pop(page.no, None)
        if claim is not None:
            self._asked.discard(page.no)
            self._courier.tell(done=[claim])

    def written(self, written: Written) -> None:
        """Offer what a batch found, and let go of what it visited: the registry has both."""
        batch = written.batch
        done = [*batch.touched, *(visit.page.no for visit in batch.visits)]
        claims = [self._claims.pop(no) for no in done if no in self._claims]
        self._asked.difference_update(done)
        self._found = max(0, self._found - len(written.reached) - len(written.renamed))
        self._courier.tell(found=map(self._waiting, written.reached), done=claims)
        # An edit is under no claim: without this it might look as if nothing came of it.
        self._moves += any(not reached.visited for reached in written.reached)

    def tell_hosts(self, act: HostAct) -> None:
        """Have something told of a host to all workers."""
        self._courier.tell(acts=[act])

    def doubt(self) -> None:
        """Look again whether nothing is left to do: Redis does not tell, and may lose depths."""
        self.again = True
        self._moves += 1

    def drop(self, claims: Iterable[Claim]) -> None:
        """Let go of claims that others may hold by now."""
        for claim in claims:
            if self._claims.get(claim.no) == claim:
                del self._claims[claim.no]
                self._asked.discard(claim.no)
                self._ready = deque(page for page in self._ready if page.no != claim.no)

    def seal(self) -> None:
        """Ask for nothing more: somebody else sealed the run, and may be at its end still."""
        self.sealed = True
        self._courier.tell(released=self._claims.values())
        self._ready.clear()
        self._claims.clear()
        self._asked.clear()

    def end(self) -> None:
        """Ask for nothing more, and give back what was not visited."""
        if not self._closed:
            self._closed = True
            self._courier.tell(released=self._claims.values())
            self._courier.stop()
            self._heartbeat.stop()
            self._ready.clear()
            self._claims.clear()

    def close(self) -> None:
        """Let go of the connections."""
        self.end()
        self._reader.close()
        self._courier_reader.close()

    # Beginning

    def begin(self, *, joined: bool) -> None:
        """Join the run's part of Redis, or make and fill it.

        Raises:
            FrontierError: Redis does not answer.
        """
        reader = self._reader
        visits = reader.visits()
        if not joined:
            self.redis.retire()  # what an interrupted run left there
            self.redis.remove_older()
        with suppress(FrontierLostError):  # meanwhile; the courier finds that, too
            if joined and visits:
                made = self.redis.recover(given=visits)
            else:
                made = self.redis.begin(given=visits)
            if made and visits:
                self._fill(reader)

    def _fill(self, reader: SharedReader) -> None:
        visited: list[Waiting] = []
        waiting: list[Waiting] = []
        for reached in reader.in_line():
            (visited if reached.visited else waiting).append(self._waiting(reached))
        self.redis.refill(waiting, visited)

    def _waiting(self, reached: Reached) -> Waiting:
        since = float(reached.last_checked) if self._limited else None
        return Waiting(reached.no, slot_of(reached.host), reached.depth, since=since)

    # The courier's desk: in its thread

    def _room(self) -> int:
        if self._closed or self.sealed or self.over:
            return 0
        return self._capacity - len(self._asked)

    def arrived(self, exchange: Exchange) -> None:
        """Take what an exchange brought."""
        self.spent = exchange.spent
        for claim in exchange.claims:  # before the next exchange asks for the room that is left
            self._asked.add(claim.no)
        if exchange.claims:
            self._call(lambda: self._take(exchange.claims))
        elif exchange.wait is None and not self._closed:
            self._call(self.hungry)

    def refill(self, lost: FrontierLostError | None) -> bool:
        """Tell Redis what the registry knows of the run; False where it is being ended."""
        reader = self._courier_reader
        if reader.state() not in BEFORE_SEAL:
            self._look(self._moves)
            return False
        if lost is not None:
            logger.warning("%s", lost)
            if not self.redis.recover(given=reader.visits()):
                return True
        self._fill(reader)
        return True

    def looked(self) -> bool:
        """See whether nothing is left to do, when Redis knows of nothing."""
        moves = self._moves
        census = self.redis.census()
        self.spent = census.spent  # others may have taken what was left since the last exchange
        if census.claimed or (census.waiting and not census.spent) or self._courier.carries:
            return False
        if not census.spent and self._left_over():
            self.refill(None)
            return False
        self.again = self.again or census.again
        return self._look(moves)

    def _left_over(self) -> bool:
        """Whether something waits that Redis does not know, for a worker died before it told.

        What is pending still when all of it was handed out again gets no visit in this run.
        """
        reader = self._courier_reader
        if reader.state() not in BEFORE_SEAL or not reader.is_pending():
            return False
        before, self._visits = self._visits, reader.visits()
        return self._visits != before

    def _look(self, moves: int) -> bool:
        """See whether the run is over, or this worker's to be ended."""
        reader = self._courier_reader
        if reader.state() in OVER:
            self._call(self._end_soon)
            return True
        turn = self.turn or self._retried(lambda: self._membership.close(reader.connection))
        if turn is Turn.NOT_OURS:
            return False
        self.again = self.again or turn is Turn.TAKEN_OVER
        sealed = reader.state() not in BEFORE_SEAL  # nobody else goes on with it any more
        self._call(lambda: self._be_quiet(moves, turn, sealed=sealed))
        return True

    def failed(self, error: SmartcrawlError) -> None:
        """End the work: it cannot go on."""
        self._call(lambda: self._failed(error))

    # In the loop's thread again

    def _take(self, claims: Sequence[Claim]) -> None:
        if self._closed or self.sealed or self.over:
            self._asked.difference_update(claim.no for claim in claims)
            self._courier.tell(released=claims)
            return
        self._moves += 1
        known = self._registered(claims)
        for claim in claims:
            self._claims[claim.no] = claim
        for claim in known:
            self.grow(claim.no)
            if claim.depth < self.depth(claim.no):
                self.mark(claim.no, claim.depth)
            self._claimed(claim)
        pages = self._load([claim.no for claim in known])
        fresh = [page for page in pages if page.visited_run < self._membership.run]
        self._ready.extend(fresh)
        over = {claim.no for claim in claims}.difference(page.no for page in fresh)
        self._courier.tell(done=[self._claims.pop(no) for no in over])
        self._asked.difference_update(over)
        self._wake()

    def _registered(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        """Return the claims whose numbers the registry reserved; room is made for these alone."""
        if all(claim.no < len(self.reached) for claim in claims):
            return claims
        last = self._reader.last_number()
        known = [claim for claim in claims if claim.no <= last]
        if len(known) < len(claims):
            logger.warning(
                "numbers in Redis that the registry does not have are not asked: %d; look which"
                " other program writes to this Redis",
                len(claims) - len(known),
            )
        return known

    def _be_quiet(self, moves: int, turn: Turn, *, sealed: bool) -> None:
        self.turn, self._quiet, self.sealed = turn, moves, self.sealed or sealed
        if not self.pending:
            self._wake()

    def _end_soon(self) -> None:
        self.over = True
        self._wake()

"""One worker's side of the frontier that all workers of a run share."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Final, Protocol

from smartcrawl.model.exceptions import FrontierError, FrontierLostError, SmartcrawlError
from smartcrawl.model.pages import Page
from smartcrawl.registry.runs.membership import Membership, Turn
from smartcrawl.registry.runs.shared_reader import Reached, SharedReader
from smartcrawl.registry.writer import Written
from smartcrawl.rules.model import BEFORE_SEAL, PRIORITY, RunState
from smartcrawl.run.frontier import FrontierDepths
from smartcrawl.run.hosts import host_gate_slot
from smartcrawl.run.shared.redis_frontier import ClaimHeartbeat, RedisFrontier, SharedHosts
from smartcrawl.run.shared.scripts import Exchange, FrontierClaim, FrontierNumber

logger = logging.getLogger(__name__)


_POLL: Final = 0.05  #: seconds until an empty frontier is asked again, at first; then it doubles
_LONGEST_POLL: Final = 0.5
_LOOK: Final = 0.25  #: seconds between two checks for the end of the run
_PAUSE: Final = 0.5  #: seconds until an unreachable Redis is tried again
PATIENCE: Final = 600.0  #: seconds that Redis may be unreachable

#: An update of the shared record of a host.
HostAct = Callable[[SharedHosts], object]


class Desk(Protocol):
    """The courier's listener; all methods are called in the courier's thread."""

    def arrived(self, exchange: Exchange) -> None:
        """Process the result of an exchange."""

    def refill(self, lost: FrontierLostError | None) -> bool:
        """Fill Redis from the registry; ``lost`` is the error where Redis lost the frontier.

        Returns False where the run needs Redis no more.
        """

    @property
    def sealed(self) -> bool:
        """Whether another worker sealed the run, or closed it."""

    def looked(self) -> bool:
        """Return whether the run has no page left to ask; called when Redis has none."""

    def failed(self, error: SmartcrawlError) -> None:
        """End the work: it cannot go on."""


@dataclass(slots=True)
class _Post:
    """The messages of the next exchange."""

    found: list[FrontierNumber] = field(default_factory=list)
    landed: list[FrontierClaim] = field(default_factory=list)
    done: list[FrontierClaim] = field(default_factory=list)
    released: list[FrontierClaim] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.found or self.landed or self.done or self.released)


class Courier:
    """Sends one worker's found and ended numbers, and claims new ones, in a thread of its own.

    ``room`` returns how many more numbers the worker takes. Updates of hosts take effect before
    all messages that are sent after them, and are repeated where Redis did not answer.
    """

    def __init__(self, frontier: RedisFrontier, desk: Desk, room: Callable[[], int]) -> None:
        self._frontier = frontier
        self._desk = desk
        self._room = room
        self._post = _Post()
        self._acts: deque[HostAct] = deque()  #: may be repeated, so each must be idempotent
        self._woken = Condition()
        self._called = False  #: whether there are new messages
        self._ended = False
        self._away_since: float | None = None
        self._thread = Thread(target=self._work, name="courier", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def send(
        self,
        *,
        found: Iterable[FrontierNumber] = (),
        landed: Iterable[FrontierClaim] = (),
        done: Iterable[FrontierClaim] = (),
        released: Iterable[FrontierClaim] = (),
        acts: Iterable[HostAct] = (),
    ) -> None:
        """Queue messages and updates of hosts for the next exchange; from any thread."""
        with self._woken:
            post = self._post
            post.found.extend(found)
            post.landed.extend(landed)
            post.done.extend(done)
            post.released.extend(released)
            self._acts.extend(acts)
            self._called = True
            self._woken.notify()

    @property
    def carries(self) -> bool:
        """Whether messages were not sent yet."""
        return bool(self._post or self._acts)

    def stop(self) -> None:
        """Send the last messages, if Redis answers, and end."""
        with self._woken:
            self._ended = True
            self._woken.notify()
        if self._thread.is_alive():
            self._thread.join()

    # In the thread

    def _work(self) -> None:
        pause = 0.0
        looked = 0.0
        while True:
            ended = self._next(pause)
            post = _Post()
            try:
                post = self._taken()
                result = self._exchange(post, 0 if ended else max(0, self._room()))
                if ended:
                    return
                pause = self._wait_of(result, pause)
                idle = result.wait is None and not result.claims and not self.carries
                idle = idle or self._desk.sealed  # its numbers may still wait
                if idle and (post or time.monotonic() >= looked):
                    self._desk.looked()
                    looked = time.monotonic() + _LOOK
            except FrontierLostError as error:
                if ended:
                    return
                self.send(found=post.found)  # Redis may have been filled before their commit
                pause = _PAUSE if not self._refilled(error) else 0.0
            except FrontierError as error:
                if ended or self._gives_up(error):
                    return
                pause = _PAUSE
            except SmartcrawlError as error:
                self._desk.failed(error)
                return
            except Exception as error:  # otherwise the run waits for ever
                logger.exception("cannot share the frontier")
                why = f"cannot share the frontier ({type(error).__name__}: {error})"
                self._desk.failed(FrontierError(why))
                return

    def _next(self, pause: float) -> bool:
        """Wait for messages, at most ``pause`` seconds; return whether the courier is to end."""
        with self._woken:
            if not (self._called or self._ended):
                self._woken.wait(pause)
            self._called = False
            return self._ended

    def _taken(self) -> _Post:
        """Update the hosts, and return the messages of the next exchange."""
        while True:
            with self._woken:
                if not self._acts:
                    post, self._post = self._post, _Post()
                    return post
            self._acts[0](self._frontier.hosts)
            self._acts.popleft()

    def _exchange(self, post: _Post, want: int) -> Exchange:
        result = self._frontier.exchange(
            want, found=post.found, landed=post.landed, done=post.done, released=post.released
        )
        if self._away_since is not None:
            logger.warning("Redis is back")
            self._away_since = None
        self._desk.arrived(result)
        return result

    def _wait_of(self, result: Exchange, before: float) -> float:
        """Return the seconds to wait for messages before the next exchange."""
        if self._room() <= 0:
            return _LONGEST_POLL
        if result.claims:
            return 0.0
        longest = min(_LONGEST_POLL, max(_POLL, 2 * before))
        return longest if result.wait is None else min(longest, max(result.wait, 0.001))

    def _refilled(self, why: FrontierLostError) -> bool:
        try:
            return self._desk.refill(why)
        except FrontierError as error:
            logger.warning("%s", error)
            return False

    def _gives_up(self, error: FrontierError) -> bool:
        """Whether to stop waiting for Redis: it was unreachable for longer than PATIENCE."""
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
            logger.warning("%s; until then no new page is requested", error)
        if now - self._away_since < PATIENCE:
            return False
        self._desk.failed(error)
        return True


class Claims:
    """Turns claims into pages, and sends the end of each claim to Redis.

    All methods belong to the event loop's thread, except ``reserve``.
    """

    def __init__(
        self, depths: FrontierDepths, courier: Courier, membership: Membership, reader: SharedReader
    ) -> None:
        self._depths = depths
        self._courier = courier
        self._membership = membership
        self._reader = reader
        self._load: Callable[[Sequence[int]], list[Page]] = lambda numbers: []
        self._claimed: Callable[[FrontierClaim], None] = lambda claim: None
        self._ready: deque[Page] = deque()
        self._claims: dict[int, FrontierClaim] = {}  #: by number
        self._asked: set[int] = set()  #: claimed numbers whose requests are not over

    def attach(
        self, load: Callable[[Sequence[int]], list[Page]], claimed: Callable[[FrontierClaim], None]
    ) -> None:
        """Set the functions that load pages, and that are notified of each claim before that."""
        self._load, self._claimed = load, claimed

    @property
    def ready(self) -> int:
        """The number of pages that can be asked."""
        return len(self._ready)

    @property
    def asked(self) -> int:
        """The number of claims whose requests are not over."""
        return len(self._asked)

    @property
    def starve(self) -> bool:
        """Whether this worker has no page to ask, and none whose request is not over."""
        return not self._ready and not self._asked

    def reserve(self, claims: Iterable[FrontierClaim]) -> None:
        """Count new claims as asked; called in the courier's thread, before ``take``."""
        for claim in claims:
            self._asked.add(claim.no)

    def take(self, claims: Sequence[FrontierClaim]) -> None:
        """Load the pages of new claims; claims without a page to visit are done.

        If that fails, as where the registry is away, all of them are given back.
        """
        try:
            self._take(claims)
        except BaseException:
            numbers = {claim.no for claim in claims}
            self._ready = deque(page for page in self._ready if page.no not in numbers)
            for number in numbers:
                self._claims.pop(number, None)
            self.refuse(claims)
            raise

    def _take(self, claims: Sequence[FrontierClaim]) -> None:
        known = self._registered(claims)
        depths = self._depths
        for claim in claims:
            self._claims[claim.no] = claim
        for claim in known:
            depths.grow(claim.no)
            if claim.depth < depths.depth(claim.no):
                depths.mark(claim.no, claim.depth)
            self._claimed(claim)
        pages = self._load([claim.no for claim in known])
        fresh = [page for page in pages if page.state.visited_run < self._membership.run]
        self._ready.extend(fresh)
        over = {claim.no for claim in claims}.difference(page.no for page in fresh)
        self._courier.send(done=[self._claims.pop(no) for no in over])
        self._asked.difference_update(over)

    def refuse(self, claims: Iterable[FrontierClaim]) -> None:
        """Release new claims: this worker asks no more pages."""
        self._asked.difference_update(claim.no for claim in claims)
        self._courier.send(released=claims)

    def _registered(self, claims: Sequence[FrontierClaim]) -> Sequence[FrontierClaim]:
        """Return the claims whose numbers the registry reserved; only these get room in memory."""
        if all(claim.no < len(self._depths.reached) for claim in claims):
            return claims
        last = self._reader.last_number()
        known = [claim for claim in claims if claim.no <= last]
        if len(known) < len(claims):
            logger.warning(
                "numbers in Redis that the registry does not know were skipped: %d. "
                "Check which other program writes to this Redis",
                len(claims) - len(known),
            )
        return known

    def next(self, free: Callable[[str], bool]) -> Page | None:
        """Return the next page of a host that is ``free``, or None when there is none now."""
        for page in self._ready:
            if free(page.host):
                self._ready.remove(page)
                return page
        return None

    def is_first(self, page: Page) -> bool | None:
        """Whether the claim of a page is the first of its host; None: the page has no claim."""
        claim = self._claims.get(page.no)
        return None if claim is None else claim.first

    def give_back(self, page: Page) -> None:
        """Release a page that was not asked, so that any worker may claim it."""
        claim = self._claims.pop(page.no, None)
        if claim is not None:
            self._asked.discard(page.no)
            self._courier.send(released=[claim])

    def landed(self, page: Page) -> None:
        """Report the requests of a page as over: its host may get another request."""
        claim = self._claims.get(page.no)
        if claim is not None and page.no in self._asked:
            self._asked.discard(page.no)
            self._courier.send(landed=[claim])

    def unanswered(self, page: Page) -> None:
        """End the claim of a page that was asked and gets no visit: the page stays pending."""
        claim = self._claims.pop(page.no, None)
        if claim is not None:
            self._asked.discard(page.no)
            self._courier.send(done=[claim])

    def visited(self, numbers: Sequence[int]) -> list[FrontierClaim]:
        """Remove the claims of visited numbers, and return them."""
        claims = [self._claims.pop(no) for no in numbers if no in self._claims]
        self._asked.difference_update(numbers)
        return claims

    def drop(self, claims: Iterable[FrontierClaim]) -> None:
        """Remove claims that other workers may have by now."""
        for claim in claims:
            if self._claims.get(claim.no) == claim:
                del self._claims[claim.no]
                self._asked.discard(claim.no)
                self._ready = deque(page for page in self._ready if page.no != claim.no)

    def release(self) -> None:
        """Give all claims back."""
        self._courier.send(released=self._claims.values())
        self._ready.clear()
        self._claims.clear()
        self._asked.clear()


OVER: Final = (RunState.SWEPT, RunState.CANCELLED, RunState.INTERRUPTED)


class RegistryDesk:
    """Compares Redis with the registry, in the courier's thread.

    ``fill`` and ``waiting`` may be called in any thread.
    ``limited``: whether the run may ask a limited number of pages, oldest visits first.
    ``retried`` runs a transaction, again where a restart undid it.
    """

    def __init__(
        self,
        worker: SharedFrontier,
        redis: RedisFrontier,
        membership: Membership,
        reader: SharedReader,
        *,
        retried: Callable[[Callable[[], Turn]], Turn],
        translated: Callable[[], AbstractContextManager[None]] = nullcontext,
        limited: bool,
    ) -> None:
        self._worker = worker
        self._redis = redis
        self._membership = membership
        self._reader = reader
        self._retried = retried
        self._translated = translated
        self._limited = limited
        self._visits = -1  #: of the run, when Redis last lacked a pending page of the registry

    def arrived(self, exchange: Exchange) -> None:
        """Process the result of an exchange."""
        worker = self._worker
        worker.spent = exchange.spent
        worker.claims.reserve(exchange.claims)  # before the next exchange computes its room
        if exchange.claims:
            worker.call(lambda: worker.take(exchange.claims))
        elif exchange.wait is None and not worker.closed:
            worker.call(worker.hungry)

    def refill(self, lost: FrontierLostError | None) -> bool:
        """Fill Redis from the registry; return False where the run is being ended."""
        with self._translated():
            reader = self._reader
            if reader.state() not in BEFORE_SEAL:
                self._look(self._worker.moves)
                return False
            if lost is not None:
                logger.warning("%s", lost)
                if not self._redis.recover(given=reader.visits()):
                    return True
            self.fill(reader)
            return True

    def fill(self, reader: SharedReader) -> None:
        """Write the pages of the run into Redis, waiting or visited as the registry has them."""
        visited: list[FrontierNumber] = []
        waiting: list[FrontierNumber] = []
        for reached in reader.in_line():
            (visited if reached.visited else waiting).append(self.waiting(reached))
        self._redis.refill(waiting, visited)

    def waiting(self, reached: Reached) -> FrontierNumber:
        """Return a reached page as the frontier's number."""
        since = float(reached.last_checked) if self._limited else None
        slot = host_gate_slot(reached.host)
        priority = self._worker.priorities.get(reached.no, PRIORITY)
        return FrontierNumber(reached.no, slot, reached.depth, priority, since)

    @property
    def sealed(self) -> bool:
        """Whether another worker sealed the run, or closed it."""
        return self._worker.sealed

    def looked(self) -> bool:
        """Return whether the run has no page left to ask; called when Redis has none."""
        with self._translated():
            return self._looked()

    def _looked(self) -> bool:
        worker = self._worker
        if worker.cut_off and self._reader.state() not in OVER:
            return False  # it cannot end the run either
        moves = worker.moves
        if worker.sealed:
            return self._look(moves)
        census = self._redis.census()
        worker.spent = census.spent  # other workers may have claimed the rest since the exchange
        if census.claimed or (census.waiting and not census.spent) or worker.sends:
            return False
        if not census.spent and self._lacks_pages():
            self.refill(None)
            return False
        worker.again = worker.again or census.again
        return self._look(moves)

    def _lacks_pages(self) -> bool:
        """Whether Redis lacks pending pages: a worker died after its commit, before its offer.

        A page that is still pending after all were handed out again gets no visit in this run.
        """
        reader = self._reader
        if reader.state() not in BEFORE_SEAL or not reader.is_pending():
            return False
        before, self._visits = self._visits, reader.visits()
        return self._visits != before

    def _look(self, moves: int) -> bool:
        """Return whether the run is over, or decided about which worker ends it."""
        worker, reader = self._worker, self._reader
        if reader.state() in OVER:
            worker.call(worker.found_over)
            return True
        turn = worker.turn or self._retried(lambda: self._membership.close(reader.connection))
        if turn is Turn.NOT_OURS:
            return False
        worker.again = worker.again or turn is Turn.TAKEN_OVER
        sealed = reader.state() not in BEFORE_SEAL  # no other worker goes on with it any more
        worker.call(lambda: worker.rest(moves, turn, sealed=sealed))
        return True

    def failed(self, error: SmartcrawlError) -> None:
        """End the work: it cannot go on."""
        self._worker.call(lambda: self._worker.failed(error))


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
            logger.warning("the index cannot be written to, so this worker gives its pages back")
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

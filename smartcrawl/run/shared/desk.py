"""The courier's desk: results of exchanges, refills of Redis, and the end of the run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol

from smartcrawl.model.exceptions import FrontierLostError, SmartcrawlError
from smartcrawl.registry.runs.membership import Membership, Turn
from smartcrawl.registry.runs.shared_reader import Reached, SharedReader
from smartcrawl.rules.model import BEFORE_SEAL, PRIORITY, RunState
from smartcrawl.run.frontier.redis.exchanges import Exchange, FrontierClaim, FrontierNumber
from smartcrawl.run.frontier.redis.frontier import RedisFrontier
from smartcrawl.run.hosts.gate import host_gate_slot
from smartcrawl.run.shared.claims import Claims

logger = logging.getLogger(__name__)

OVER: Final = (RunState.SWEPT, RunState.CANCELLED, RunState.INTERRUPTED)


class DeskWorker(Protocol):
    """The event loop's side of the frontier; its functions are called by ``call``."""

    claims: Claims
    priorities: dict[int, int]
    turn: Turn | None
    again: bool
    spent: bool
    sealed: bool
    moves: int
    closed: bool
    cut_off: bool
    call: Callable[[Callable[[], None]], None]  #: calls a function in the loop's thread
    hungry: Callable[[], None]
    failed: Callable[[SmartcrawlError], None]

    @property
    def sends(self) -> bool:
        """Whether messages for Redis were not sent yet."""

    def take(self, claims: Sequence[FrontierClaim]) -> None:
        """Take new claims."""

    def rest(self, moves: int, turn: Turn, *, sealed: bool) -> None:
        """Take the registry's decision about which worker ends the run."""

    def found_over(self) -> None:
        """Take the end of the run."""


class RegistryDesk:
    """Compares Redis with the registry, in the courier's thread.

    ``fill`` and ``waiting`` may be called in any thread.
    ``limited``: whether the run may ask a limited number of pages, oldest visits first.
    ``retried`` runs a transaction, again where a restart undid it.
    """

    def __init__(
        self,
        worker: DeskWorker,
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

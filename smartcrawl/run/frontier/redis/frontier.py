"""The frontier of a run, shared by all its workers: numbers in Redis."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from threading import Event, Lock, Thread
from typing import Any, Final

from redis import Redis
from redis.exceptions import RedisError

from smartcrawl.model.exceptions import FrontierError, FrontierLostError
from smartcrawl.run.frontier.redis.exchanges import (
    AT_ONCE,
    Census,
    Ended,
    Exchange,
    FrontierClaim,
    FrontierNumber,
    merged_redis_exchanges,
    redis_exchange_call,
    redis_exchange_result,
    redis_run_prefix,
    redis_slices,
    remove_redis_runs,
)
from smartcrawl.run.frontier.redis.hosts import SharedHosts
from smartcrawl.run.frontier.redis.scripts import RedisScripts, redis_failure

logger = logging.getLogger(__name__)


LEASE: Final = 60.0  #: seconds without a heartbeat after which a worker is dead
HEARTBEAT: Final = 10.0  #: seconds between two heartbeats of a worker


class RedisFrontier:
    """The frontier of one run for one of its workers; any thread may call any method.

    Every number is offered, waits at its host, is claimed, and is done: once per run, for any
    number of workers. Within a host the lowest score comes first. The score is priority *
    1,000,000 + the time of discovery, which makes it breadth first. One step of priority is worth
    11.6 days.

    Redis is a hint and the registry the truth, so the order of steps counts:

    1. The links of a page are committed to the registry together with its outcome.
    2. Then the links are offered and the page is done, in one ``exchange``.
    3. A claimed page that was visited according to the registry is done without a visit.
    4. An idle frontier is over only if the registry has no pending page; else it is refilled.

    On FrontierLostError a worker calls ``recover`` and, where that returns True, ``refill``.

    ``worker`` names this process and no other one, earlier ones included. Over all workers and
    runs, at most ``per_host`` requests are in flight at a host, at least ``delay`` seconds apart;
    ``delays`` has longer ones of single hosts.
    With ``robots`` the first number of a host is handed out alone: under its claim robots.txt is
    read. Further numbers follow after ``SharedHosts.robots_read``, or when the page's request is
    over, or when the claim ended otherwise.
    After ``most`` numbers no more are handed out in this run; 0: no limit.
    ``renew`` must be called every HEARTBEAT seconds, from a thread that is never blocked. All
    times are those of Redis's clock.

    Source: R2-42 to R2-46, M-36; ADR 30; docs/redis.md.
    """

    def __init__(
        self,
        client: Redis,
        source: str,
        run: int,
        *,
        registry: str = "",
        per_host: int,
        delay: float = 0.0,
        delays: Mapping[str, float] | None = None,
        worker: str | None = None,
        lease: float = LEASE,
        most: int = 0,
        robots: bool = False,
        place: str = "Redis",
    ) -> None:
        self.worker = worker or f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._client = client
        self._source, self._run, self._registry = source, run, registry
        self._prefix = redis_run_prefix(source, run, registry)
        self._scripts = RedisScripts(client, place)
        self._limits = {
            "per_host": per_host,
            "delay": delay,
            "delays": dict(delays or {}),
            "lease": lease,
            "most": most,
            "robots": robots,
        }
        self.hosts = SharedHosts(self._scripts, self._prefix, self._limits)
        self._lock = Lock()
        self._incarnation = ""  #: drawn anew whenever the run's keys in Redis are made
        self._calls = 0  #: exchanges that Redis answered
        self._outbox: deque[tuple[dict[str, Any], Ended]] = deque()  #: calls without an answer yet
        self._arrived: list[Exchange] = []  #: results that no caller received yet
        self._claims: dict[str, FrontierClaim] = {}  #: of this worker, by token
        self._landed: set[str] = set()  #: tokens of claims whose request is over

    # Beginning and recovering

    def begin(self, given: int = 0) -> bool:
        """Join a run that was just opened, or has no claims; ``given``: visits so far.

        Returns whether this worker made the run's keys in Redis, and so has to fill them.
        """
        return self._begin(lost="", settle=0.0, given=given)

    def recover(self, settle: float = HEARTBEAT, given: int = 0) -> bool:
        """Join a run that may have living workers, or that Redis lost; ``given``: visits so far.

        Returns whether this worker has to refill it. Then no number is handed out for ``settle``
        seconds, in which every living worker renews its claims.
        """
        return self._begin(lost=self._incarnation, settle=settle, given=given)

    def _begin(self, *, lost: str, settle: float, given: int) -> bool:
        with self._lock:
            maker = secrets.token_hex(4)
            call = {"lost": lost, "settle": settle, "maker": maker, "given": given}
            answer = self._call("begin", call)
            self._forget_calls()
            self._adopt(answer["incarnation"])
            self._renew()
            return bool(answer["made"])

    def refill(
        self, waiting: Iterable[FrontierNumber], visited: Iterable[FrontierNumber] = ()
    ) -> int:
        """Fill Redis with the registry's pending numbers, in its order, and the visited ones.

        It may be called at any time, and again. Claims stay with their workers, and waiting
        numbers keep their places. All other pending numbers wait afterwards. Returns how many
        numbers were missing.

        Raises:
            FrontierLostError: Redis lost the frontier once more.
        """
        added = 0
        for name, numbers in (("visited", visited), ("waiting", waiting)):
            for some in redis_slices(numbers):
                call = {"visited": [], "waiting": [], name: [each.as_data() for each in some]}
                with self._lock:
                    added += self._checked("refill", call)["added"]
        return added

    # Exchanges

    def exchange(
        self,
        want: int = 0,
        *,
        found: Iterable[FrontierNumber] = (),
        landed: Iterable[FrontierClaim] = (),
        done: Iterable[FrontierClaim] = (),
        released: Iterable[FrontierClaim] = (),
    ) -> Exchange:
        """Offer, end and claim numbers with one call, whole or not at all.

        ``landed``: the request is over and its host has one place more; the claim stays.
        ``done``: the outcome is committed. ``released``: not visited; another worker may claim it.
        ``found``: numbers to offer, once per run. Then up to ``want`` numbers are claimed whose
        hosts may be asked now.

        Raises:
            FrontierLostError: see ``recover``; the registry has everything that the call sent.
            FrontierError: Redis cannot be reached. The next call repeats this one first, and
                returns its claims, too.
        """
        ended: Ended = {"landed": list(landed), "done": list(done), "released": list(released)}
        offers = [*redis_slices(found)] or [[]]
        with self._lock:
            self._outbox.extend((redis_exchange_call(0, some, {}), {}) for some in offers[:-1])
            self._outbox.append((redis_exchange_call(want, offers[-1], ended), ended))
            while self._outbox:
                self._arrived.append(self._send(*self._outbox[0]))
                self._outbox.popleft()
            results, self._arrived = self._arrived, []
        return merged_redis_exchanges(results)

    # Heartbeat and census

    def renew(self) -> list[FrontierClaim]:
        """Send a heartbeat; return the claims that other workers may have now: drop their visits.

        Raises:
            FrontierLostError: see ``recover``.
        """
        with self._lock:
            return self._renew()

    def census(self) -> Census:
        """Count the waiting and the claimed numbers."""
        answer = self._look()
        return Census(*(answer[name] for name in Census._fields))

    def lowered(self) -> list[int]:
        """Take up to a thousand numbers that were offered again at a smaller depth."""
        with self._lock:
            answer = self._checked("lowered", {"count": AT_ONCE})
        return [int(number) for number in answer["numbers"]]

    # Tidying up

    def retire(self) -> None:
        """Remove the keys of this run, which the registry has closed.

        Raises:
            FrontierError: Redis does not answer.
        """
        self._remove(lambda run: run == self._run)

    def remove_older(self) -> None:
        """Remove the keys of earlier runs of this source, which the registry has closed.

        Raises:
            FrontierError: Redis does not answer.
        """
        self._remove(lambda run: run < self._run)

    def _remove(self, which: Callable[[int], bool]) -> None:
        try:
            remove_redis_runs(self._client, self._source, which, self._registry)
        except RedisError as error:
            raise redis_failure(error, "remove the keys of ended runs from Redis") from error

    # Calls

    def _send(self, call: dict[str, Any], ended: Ended) -> Exchange:
        """Make an exchange; the script recognizes a repeated one by its number."""
        claimed = sum(len(one.claims) for one in self._arrived)
        answer = self._checked("exchange", {**call, "want": max(0, call["want"] - claimed)})
        try:
            result = redis_exchange_result(answer, ended)
        except (KeyError, TypeError, ValueError) as error:  # Redis may return a stored answer
            raise self._scripts.unread() from error
        self._calls += 1
        if result.malformed:
            logger.warning(
                "entries in the frontier of %s that are not numbers were removed: %d. "
                "Check which other program writes to this Redis",
                self._source,
                result.malformed,
            )
        self._claims.update({claim.token: claim for claim in result.claims})
        self._landed.update(claim.token for claim in ended.get("landed", ()))
        self._drop([*ended.get("done", ()), *ended.get("released", ()), *result.stale])
        return result

    def _renew(self) -> list[FrontierClaim]:
        claims = [
            (*claim.key, claim.host, claim.depth, claim.score, self._flies(claim))
            for _, claim in sorted(self._claims.items(), reverse=True)  # the latest of a number
        ]
        answer = self._call("renew", {"claims": claims})
        if "gap" in answer:
            raise self._lost()
        self._adopt(answer["incarnation"])
        gone = [self._claims[token] for _, token in answer["gone"]]
        self._drop(gone)
        return gone

    def _flies(self, claim: FrontierClaim) -> bool:
        """Whether a claim takes one of its host's places for requests."""
        return not (claim.down or claim.token in self._landed)

    def _drop(self, claims: Iterable[FrontierClaim]) -> None:
        for claim in claims:
            self._claims.pop(claim.token, None)
            self._landed.discard(claim.token)

    def _forget_calls(self) -> None:
        """Drop the calls without an answer: the registry knows which claims they ended."""
        for _, ended in self._outbox:
            self._drop([*ended.get("done", ()), *ended.get("released", ())])
        self._outbox.clear()

    def _adopt(self, incarnation: str) -> None:
        if incarnation != self._incarnation:
            self._incarnation, self._calls = incarnation, 0

    def _look(self) -> dict[str, Any]:
        with self._lock:
            return self._checked("look", {})

    def _checked(self, name: str, call: dict[str, Any]) -> dict[str, Any]:
        """Make a call; where another worker filled Redis anew, renew the claims first."""
        answer = self._call(name, call)
        if answer.get("gap") == "renewed":
            self._renew()
            answer = self._call(name, call)
        if "gap" in answer:
            raise self._lost()
        return answer

    def _call(self, name: str, call: dict[str, Any]) -> dict[str, Any]:
        known = {
            "worker": self.worker,
            "incarnation": self._incarnation,
            "call": self._calls + 1,
        }
        return self._scripts.run(name, self._prefix, {**self._limits, **known, **call})

    def _lost(self) -> FrontierLostError:
        self._forget_calls()
        return FrontierLostError(
            f"Redis lost the frontier of {self._source}, run {self._run}; it is refilled "
            "from the registry. Check why Redis was flushed or restarted without its data"
        )


class ClaimHeartbeat:
    """Renews the claims of a worker, in a thread of its own, until it is stopped.

    ``gone`` is called in that thread, with the claims that other workers may have now. Where Redis
    does not answer, one warning is logged. A lost frontier is handled by the next ``exchange``.

    Source: ADR 30; docs/redis.md.
    """

    def __init__(
        self,
        frontier: RedisFrontier,
        gone: Callable[[list[FrontierClaim]], None],
        seconds: float = HEARTBEAT,
    ) -> None:
        self._frontier = frontier
        self._gone = gone
        self._seconds = seconds
        self._ended = Event()
        self._thread = Thread(target=self._beat, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Begin; the first beat comes after ``seconds``."""
        self._thread.start()

    def stop(self) -> None:
        """End, after the current beat."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _beat(self) -> None:
        silent = False
        while not self._ended.wait(self._seconds):
            try:
                gone = self._frontier.renew()
            except FrontierLostError:
                continue
            except FrontierError as error:
                if not silent:
                    logger.warning(
                        "%s; until then, other workers may take over the pages of this one", error
                    )
                silent = True
                continue
            silent = False
            if gone:
                self._gone(gone)

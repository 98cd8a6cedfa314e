"""The frontier of a run in Redis, shared by all its workers, and the hosts of all runs."""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from threading import Event, Lock, Thread
from typing import Any, Final

from redis import Redis
from redis.exceptions import RedisError

from smartcrawl.model.batches import StoredRobots
from smartcrawl.model.exceptions import FrontierError, FrontierLostError
from smartcrawl.run.shared.scripts import (
    AT_ONCE,
    Census,
    Ended,
    Exchange,
    FrontierClaim,
    FrontierNumber,
    RedisScripts,
    merged_redis_exchanges,
    redis_exchange_call,
    redis_exchange_result,
    redis_failure,
    redis_run_prefix,
    redis_slices,
    remove_redis_runs,
)

logger = logging.getLogger(__name__)


class SharedHosts:
    """Pauses, parks and paces hosts for every worker; hosts are names without port.

    The longest of all delays of a host counts. A worker that claims a number of a parked host
    calls ``unpark`` when the host answers, and ``park`` when it does not.

    ``limits`` are those of the frontier: the most requests in flight for each host, and the least
    seconds between two requests to it.

    Source: R2-43, R2-45, R2-46; ADR 30, 133.
    """

    def __init__(self, scripts: RedisScripts, prefix: str, limits: dict[str, Any]) -> None:
        self._scripts = scripts
        self._prefix = prefix
        self._limits = limits

    def pause(self, host: str, seconds: float) -> None:
        """Send a host no requests for some seconds, as it asked; a longer pause in force stays."""
        self._call(host, "pause", seconds=seconds)

    def park(self, host: str, seconds: float) -> int:
        """Send a host that does not answer no requests; afterwards one request at a time probes it.

        Returns how often in a row it was parked. Parking a parked host changes nothing: the failed
        request was made before.
        """
        return int(self._call(host, "park", seconds=seconds)["times"])

    def unpark(self, host: str) -> None:
        """Free a parked host that answered; a pause stays in force."""
        self._call(host, "unpark")

    def give_up(self, host: str) -> None:
        """Mark a host as down: its numbers are handed out at once, to end without a request."""
        self._call(host, "down")

    def set_delay(self, host: str, seconds: float) -> None:
        """Set the seconds between two requests to a host, which follow from its latency."""
        self._call(host, "pace", milliseconds=round(1000 * seconds))

    def set_single(self, host: str, seconds: float) -> None:
        """Give a host one request at a time for some seconds; a longer time in force stays."""
        self._call(host, "single", seconds=seconds)

    def robots_read(self, host: str, crawl_delay: float, *, asked: bool = True) -> None:
        """Record that the robots.txt of a host was read, and its Crawl-delay in seconds.

        ``asked``: it was fetched from the host just now, which counts as the host's last request.
        Where a run reads the robots.txt of several ports of a host, the longest delay counts.
        """
        self._call(host, "robots", milliseconds=round(1000 * crawl_delay), asked=asked)

    def _call(self, host: str, act: str, **more: Any) -> dict[str, Any]:
        call = {**self._limits, "host": host, "act": act, **more}
        return self._scripts.run("host", self._prefix, call)


class SharedRobots:
    """The robots.txt of each origin (scheme, host and port); ``ttl`` in seconds.

    One worker fetches a robots.txt, and the other workers read it here. A file that another run
    fetched counts if that was after the second in which this run ``began``. All files of this run
    count, because workers that start together fetch them in that very second. The registry stores
    them for longer, for times when the origin does not answer.

    Source: R2-41, R2-74, S-10; ADR 30.
    """

    def __init__(
        self,
        client: Redis,
        ttl: int,
        *,
        source: str = "",
        run: int = 0,
        registry: str = "",
        began: int = 0,
    ) -> None:
        self._client = client
        self._ttl = ttl
        self._run = redis_run_prefix(source, run, registry)
        self._began = began

    def get(self, origin: str) -> StoredRobots | None:
        """Return the robots.txt of an origin in this run; None: fetch it.

        Raises:
            FrontierError: Redis did not answer.
        """
        try:
            kept = self._client.get(_key(origin))
            run, robots = _read(str(kept)) if kept else (None, None)
        except RedisError as error:
            raise redis_failure(error, "read robots.txt out of Redis") from error
        except (ValueError, TypeError, KeyError, AttributeError):
            logger.warning(
                "the robots.txt of %s in Redis was written by another program and is ignored",
                origin,
            )
            return None
        if robots is None or (run != self._run and robots.fetched_at <= self._began):
            return None
        return robots

    def put(self, origin: str, robots: StoredRobots) -> None:
        """Store the robots.txt that an origin sent just now.

        Raises:
            FrontierError: Redis did not answer.
        """
        if not self._ttl:
            return  # it is to be fetched each time
        data = asdict(robots) | {"body": b64encode(robots.body).decode(), "run": self._run}
        try:
            self._client.set(_key(origin), json.dumps(data), ex=self._ttl)
        except RedisError as error:
            raise redis_failure(error, "keep robots.txt in Redis") from error


def _read(kept: str) -> tuple[object, StoredRobots]:
    """Return the prefix of the run that stored a robots.txt, and the robots.txt.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: no worker wrote it.
    """
    values = json.loads(kept)
    run = values.pop("run", None)
    robots = StoredRobots(**values | {"body": b64decode(values["body"], validate=True)})
    texts = (robots.etag, robots.last_modified)
    if not (
        type(robots.fetched_at) is type(robots.status) is int
        and all(text is None or isinstance(text, str) for text in texts)
    ):
        raise TypeError(kept)
    return run, robots


def _key(origin: str) -> str:
    return f"robots:{origin}"


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

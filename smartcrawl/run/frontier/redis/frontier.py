"""What waits for its turn, shared by all workers of a run: numbers in Redis."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from threading import Lock
from typing import Any, Final, NamedTuple

from redis import Redis
from redis.exceptions import RedisError

from smartcrawl.model.exceptions import FrontierLostError
from smartcrawl.run.frontier.redis.hosts import SharedHosts
from smartcrawl.run.frontier.redis.keys import member, prefix_of, remove_runs
from smartcrawl.run.frontier.redis.scripts import Scripts, failure

logger = logging.getLogger(__name__)

LEASE: Final = 60.0  #: seconds after which a worker that is not heard of is dead
HEARTBEAT: Final = 10.0  #: seconds in which every living worker is heard of
PRIORITY: Final = 5  #: of 1 to 10; 1 is asked first
_Ended = dict[str, list["Claim"]]  #: claims by what is told of them: landed, done, released
_AT_ONCE: Final = 1_000  #: numbers in one call: Redis does nothing else meanwhile


class Waiting(NamedTuple):
    """A number, and what its place in the frontier depends on."""

    no: int
    host: str  #: without port: politeness does not tell ports apart
    depth: int
    priority: int = PRIORITY
    since: float | None = None  #: Unix seconds; None: it is discovered now

    def told(self) -> list[Any]:
        """Return it as the scripts read it."""
        told = [member(self.no), self.host, self.depth, self.priority]
        return told if self.since is None else [*told, self.since]


@dataclass(frozen=True, slots=True)
class Claim:
    """One number that a worker holds, and whose host may be asked for it now."""

    no: int
    host: str
    depth: int  #: the smallest at which it was offered so far
    token: str  #: of this claim and no other one
    score: str  #: its place, should it be given back
    down: bool  #: nobody answers at its host: it ends without a request
    parked: bool  #: it probes a host where nobody answered: see ``SharedHosts``
    first: bool = False  #: nobody else is to ask its host before ``SharedHosts.robots_read``


@dataclass(frozen=True, slots=True)
class Exchange:
    """What one call brought."""

    claims: list[Claim] = field(default_factory=list)
    stale: list[Claim] = field(default_factory=list)  #: no longer ours: nothing was changed
    news: list[int] = field(default_factory=list)  #: nobody had offered them in this run
    shallower: list[int] = field(default_factory=list)  #: offered before, at a greater depth
    reaped: int = 0  #: numbers that dead workers held, and that wait again
    wait: float | None = None  #: seconds until more may be claimed; None: nothing waits
    spent: bool = False  #: as many were handed out as the run may ask for
    malformed: int = 0  #: members that no worker wrote, and that were removed


class Census(NamedTuple):
    """The frontier at one moment."""

    waiting: int
    claimed: int
    workers: int  #: heard of within the lease
    spent: bool = False  #: as many were handed out as the run may ask for
    again: bool = False  #: Redis lost the frontier meanwhile, and depths with it


class RedisFrontier:
    """The frontier of one run, as one of its workers sees it; any thread may call any method.

    Every number is offered, waits at its host, is claimed, and is done: once per run, however
    many workers there are. Within a host the lowest score comes first, priority * 1,000,000 + the
    time of discovery, which makes it breadth first; one step of priority is worth 11.6 days.

    Redis is a hint and the registry the truth, so the order of things counts:

    1. what a page leads to is committed to the registry together with its outcome,
    2. then it is offered and the page is done, in one ``exchange``,
    3. what is claimed and visited already, as the registry says, is done without a visit,
    4. what is idle is over only if the registry has nothing pending; else it is refilled.

    On FrontierLostError a worker calls ``recover`` and, where that returns True, ``refill``.

    ``worker`` names this process and no other one, earlier ones included. ``per_host`` requests
    may be in flight at a host and ``delay`` seconds lie between two, over all workers and runs.
    With ``robots`` the first number of a host is handed out alone: under its claim robots.txt is
    read. Further ones follow when that is told, when the page's request is over, or when whoever
    has it let go of it.
    After ``most`` numbers no more are handed out in this run; 0: no limit.
    Its ``renew`` is called every HEARTBEAT seconds, from a thread that nothing holds up. Nobody's
    clock counts but that of Redis.

    Source: R2-42 to R2-46, M-36; design.md 9; reliability.md 6.2, 6.3.
    """

    def __init__(
        self,
        client: Redis,
        source: str,
        run: int,
        *,
        per_host: int,
        delay: float = 0.0,
        worker: str | None = None,
        lease: float = LEASE,
        most: int = 0,
        robots: bool = False,
        place: str = "Redis",
    ) -> None:
        self.worker = worker or f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._client = client
        self._source, self._run = source, run
        self._prefix = prefix_of(source, run)
        self._scripts = Scripts(client, place)
        self._limits = {
            "per_host": per_host,
            "delay": delay,
            "lease": lease,
            "most": most,
            "robots": robots,
        }
        self.hosts = SharedHosts(self._scripts, self._prefix, self._limits)
        self._lock = Lock()
        self._incarnation = ""  #: drawn whenever the run's part of Redis is made
        self._calls = 0  #: that were answered
        self._outbox: deque[tuple[dict[str, Any], _Ended]] = deque()  #: what was not answered yet
        self._arrived: list[Exchange] = []  #: and answers that nobody got to see
        self._held: dict[str, Claim] = {}  #: by token
        self._landed: set[str] = set()  #: tokens of those whose request is over

    # Beginning and recovering

    def begin(self, given: int = 0) -> bool:
        """Join a run that was just opened, or has nothing claimed; ``given``: visits so far.

        Returns whether this worker made the run's part of Redis, and so has to fill it.
        """
        return self._begin(lost="", settle=0.0, given=given)

    def recover(self, settle: float = HEARTBEAT, given: int = 0) -> bool:
        """Join a run that may have living workers, or one that Redis lost; ``given``: its visits.

        Returns whether it is this worker that has to refill it. Then nothing is handed out for
        ``settle`` seconds: meanwhile every living worker tells what it holds.
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

    def refill(self, waiting: Iterable[Waiting], visited: Iterable[Waiting] = ()) -> int:
        """Put in what the registry says is pending, in its order, and what is visited.

        It may be called at any time, and again. What a worker holds stays with it; what waits
        keeps its place; all else that is pending waits, whatever Redis made of it. Returns how
        many numbers were missing.

        Raises:
            FrontierLostError: Redis lost it all once more.
        """
        added = 0
        for name, numbers in (("visited", visited), ("waiting", waiting)):
            for some in _slices(numbers):
                call = {"visited": [], "waiting": [], name: [each.told() for each in some]}
                with self._lock:
                    added += self._checked("refill", call)["added"]
        return added

    # What a page needs

    def exchange(
        self,
        want: int = 0,
        *,
        found: Iterable[Waiting] = (),
        landed: Iterable[Claim] = (),
        done: Iterable[Claim] = (),
        released: Iterable[Claim] = (),
    ) -> Exchange:
        """Do all that a page needs with one call, whole or not at all.

        ``landed``: the request is over and its host has one place more; the claim stays.
        ``done``: the outcome is committed. ``released``: not visited, let others do it.
        ``found``: what is offered, once per run. Then up to ``want`` numbers are claimed whose
        hosts may be asked now.

        Raises:
            FrontierLostError: see ``recover``; what was told is to be looked up in the registry.
            FrontierError: Redis cannot be reached. The next call tells it first; what is claimed
                with that is among its claims.
        """
        ended: _Ended = {"landed": list(landed), "done": list(done), "released": list(released)}
        offers = [*_slices(found)] or [[]]
        with self._lock:
            self._outbox.extend((_told(0, some, {}), {}) for some in offers[:-1])
            self._outbox.append((_told(want, offers[-1], ended), ended))
            while self._outbox:
                self._arrived.append(self._send(*self._outbox[0]))
                self._outbox.popleft()
            results, self._arrived = self._arrived, []
        return _merged(results)

    # Staying alive, and looking after the dead

    def renew(self) -> list[Claim]:
        """Be heard of; return what this worker held and others may hold now: drop those visits.

        Raises:
            FrontierLostError: see ``recover``.
        """
        with self._lock:
            return self._renew()

    def census(self) -> Census:
        """Count what waits and what is held."""
        answer = self._look()
        told = ("waiting", "claimed", "workers", "spent", "again")
        return Census(*(answer[name] for name in told))

    def lowered(self) -> list[int]:
        """Take numbers that were offered again at a smaller depth, a thousand at most."""
        with self._lock:
            answer = self._checked("lowered", {"count": _AT_ONCE})
        return [int(number) for number in answer["numbers"]]

    # Tidying up

    def retire(self) -> None:
        """Remove what Redis holds of this run; the registry has closed it.

        Raises:
            FrontierError: Redis does not answer.
        """
        self._remove(lambda run: run == self._run)

    def remove_older(self) -> None:
        """Remove what Redis holds of earlier runs of this source; the registry has closed them.

        Raises:
            FrontierError: Redis does not answer.
        """
        self._remove(lambda run: run < self._run)

    def _remove(self, which: Callable[[int], bool]) -> None:
        try:
            remove_runs(self._client, self._source, which)
        except RedisError as error:
            raise failure(error, "remove what runs left in Redis") from error

    # Calls

    def _send(self, call: dict[str, Any], ended: _Ended) -> Exchange:
        """Make an exchange; the script knows one that it has answered by its number."""
        claimed = sum(len(one.claims) for one in self._arrived)
        answer = self._checked("exchange", {**call, "want": max(0, call["want"] - claimed)})
        try:
            result = _exchanged(answer, ended)
        except (KeyError, TypeError, ValueError) as error:  # it was kept in Redis for a repetition
            raise self._scripts.unread() from error
        self._calls += 1
        if result.malformed:
            logger.warning(
                "entries of the frontier of %s that are no numbers were removed: %d; look which"
                " other program writes to this Redis",
                self._source,
                result.malformed,
            )
        self._held.update({claim.token: claim for claim in result.claims})
        self._landed.update(claim.token for claim in ended.get("landed", ()))
        self._drop([*ended.get("done", ()), *ended.get("released", ()), *result.stale])
        return result

    def _renew(self) -> list[Claim]:
        held = [
            (*_named(claim), claim.host, claim.depth, claim.score, self._flies(claim))
            for _, claim in sorted(self._held.items(), reverse=True)  # of one number the latest
        ]
        answer = self._call("renew", {"held": held})
        if "gap" in answer:
            raise self._lost()
        self._adopt(answer["incarnation"])
        gone = [self._held[token] for _, token in answer["gone"]]
        self._drop(gone)
        return gone

    def _flies(self, claim: Claim) -> bool:
        """Whether a claim has a place at its host."""
        return not (claim.down or claim.token in self._landed)

    def _drop(self, claims: Iterable[Claim]) -> None:
        for claim in claims:
            self._held.pop(claim.token, None)
            self._landed.discard(claim.token)

    def _forget_calls(self) -> None:
        """Let the registry tell Redis what was to be told: what is over is not held any more."""
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
        """Make a call; where another worker filled Redis anew, tell what is held first."""
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
            f"Redis lost the frontier of {self._source}, run {self._run}: it is filled again from"
            " the registry; look why Redis was flushed, or started without its data"
        )


_ENDINGS: Final = ("landed", "done", "released")


def _told(want: int, found: list[Waiting], ended: _Ended) -> dict[str, Any]:
    """Return an exchange as the script reads it."""
    return {
        "want": want,
        "found": [each.told() for each in found],
        **{how: [_named(one) for one in ended.get(how, ())] for how in _ENDINGS},
    }


def _exchanged(answer: dict[str, Any], ended: _Ended) -> Exchange:
    """Return an exchange as the script answers it."""
    claims = {claim.token: claim for how in ended.values() for claim in how}
    return Exchange(
        claims=[Claim(int(no), *rest) for no, *rest in answer["claims"]],
        stale=[claims[token] for _, token in answer["stale"]],
        news=[int(number) for number in answer["news"]],
        shallower=[int(number) for number in answer["shallower"]],
        reaped=answer["reaped"],
        wait=answer.get("wait"),
        spent=answer.get("spent", False),
        malformed=answer["malformed"],
    )


def _named(claim: Claim) -> tuple[str, str]:
    """Return what the scripts know a claim by."""
    return member(claim.no), claim.token


def _slices(numbers: Iterable[Waiting]) -> Iterator[list[Waiting]]:
    """Yield numbers in lists of what one call may hold."""
    rest = iter(numbers)
    while some := list(islice(rest, _AT_ONCE)):
        yield some


def _merged(results: list[Exchange]) -> Exchange:
    """Return several results as one; what is said of the wait is the last one's."""
    return Exchange(
        claims=[claim for one in results for claim in one.claims],
        stale=[claim for one in results for claim in one.stale],
        news=[number for one in results for number in one.news],
        shallower=[number for one in results for number in one.shallower],
        reaped=sum(one.reaped for one in results),
        wait=results[-1].wait,
        spent=results[-1].spent,
        malformed=sum(one.malformed for one in results),
    )

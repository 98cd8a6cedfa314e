"""Numbers, claims and exchanges, and how the scripts read and write them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple

from smartcrawl.rules.model import PRIORITY
from smartcrawl.run.frontier.redis.keys import redis_member

AT_ONCE: Final = 1_000  #: numbers in one call, during which Redis does nothing else
ENDINGS: Final = ("landed", "done", "released")


class FrontierNumber(NamedTuple):
    """A number, and the values that determine its place in the frontier."""

    no: int
    host: str  #: without port: politeness does not distinguish ports
    depth: int
    priority: int = PRIORITY  #: 1 is handed out first, 10 last
    since: float | None = None  #: Unix seconds; None: it is discovered now

    def as_data(self) -> list[Any]:
        """Return it as the scripts read it."""
        data = [redis_member(self.no), self.host, self.depth, self.priority]
        return data if self.since is None else [*data, self.since]


@dataclass(frozen=True, slots=True)
class FrontierClaim:
    """One number that a worker has claimed, and whose host may be asked for it now."""

    no: int
    host: str
    depth: int  #: the smallest at which it was offered so far
    token: str  #: unique to this claim
    score: str  #: its place, in case it is given back
    down: bool  #: no server answers at its host: it ends without a request
    parked: bool  #: it probes a host where no server answered: see ``SharedHosts``
    first: bool = False  #: no other worker may ask its host before ``SharedHosts.robots_read``

    @property
    def key(self) -> tuple[str, str]:
        """The number and the token by which the scripts identify the claim."""
        return redis_member(self.no), self.token


Ended = dict[str, list[FrontierClaim]]  #: claims by ending: landed, done, released


@dataclass(frozen=True, slots=True)
class Exchange:
    """The result of one call."""

    claims: list[FrontierClaim] = field(default_factory=list)
    stale: list[FrontierClaim] = field(
        default_factory=list
    )  #: lost to other workers: nothing was changed
    news: list[int] = field(default_factory=list)  #: offered for the first time in this run
    shallower: list[int] = field(default_factory=list)  #: offered before, at a greater depth
    reaped: int = 0  #: numbers that dead workers had claimed, and that wait again
    wait: float | None = None  #: seconds until more may be claimed; None: no number waits
    spent: bool = False  #: the run's limit of numbers was handed out
    malformed: int = 0  #: members that no worker wrote, and that were removed


class Census(NamedTuple):
    """The frontier at one moment."""

    waiting: int
    claimed: int
    workers: int  #: alive: seen within the lease
    spent: bool = False  #: the run's limit of numbers was handed out
    again: bool = False  #: Redis lost the frontier in this run, and depths with it


def redis_exchange_call(want: int, found: list[FrontierNumber], ended: Ended) -> dict[str, Any]:
    """Return an exchange as the script reads it."""
    return {
        "want": want,
        "found": [each.as_data() for each in found],
        **{how: [claim.key for claim in ended.get(how, ())] for how in ENDINGS},
    }


def redis_exchange_result(answer: dict[str, Any], ended: Ended) -> Exchange:
    """Return the result of an exchange from the script's answer."""
    claims = {claim.token: claim for how in ended.values() for claim in how}
    return Exchange(
        claims=[FrontierClaim(int(no), *rest) for no, *rest in answer["claims"]],
        stale=[claims[token] for _, token in answer["stale"]],
        news=[int(number) for number in answer["news"]],
        shallower=[int(number) for number in answer["shallower"]],
        reaped=answer["reaped"],
        wait=answer.get("wait"),
        spent=answer.get("spent", False),
        malformed=answer["malformed"],
    )


def redis_slices(numbers: Iterable[FrontierNumber]) -> Iterator[list[FrontierNumber]]:
    """Yield numbers in lists of at most AT_ONCE."""
    rest = iter(numbers)
    while some := list(islice(rest, AT_ONCE)):
        yield some


def merged_redis_exchanges(results: list[Exchange]) -> Exchange:
    """Merge several results; wait and spent are those of the last one."""
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

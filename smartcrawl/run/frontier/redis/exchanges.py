"""Numbers, claims and exchanges, their keys, and how the scripts read and write them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from redis import Redis

from smartcrawl.rules.model import PRIORITY

_PLAIN = "@._-~"  #: unquoted in names of sources; no brace (a hash tag), and no wildcard


def redis_run_prefix(source: str, run: int, registry: str = "") -> str:
    """Return the prefix of the keys of a run; ``registry``: the id of its registry.

    It never begins with the prefix of another source, and has no wildcard and no hash tag.

    >>> redis_run_prefix("docs@2.1", 7)
    'docs@2.1:7:'
    >>> redis_run_prefix("{a}:*", 7)
    '%7Ba%7D%3A%2A:7:'
    >>> redis_run_prefix("docs", 7, "8c1f09aa5e2b7d34")
    '8c1f09aa5e2b7d34:docs:7:'

    Source: R2-42, R2-44 and S-10 as in ADR 135.
    """
    return f"{redis_source_prefix(source, registry)}{run}:"


def redis_source_prefix(source: str, registry: str = "") -> str:
    """Return the prefix of the keys of all runs of a source of a registry."""
    of_registry = f"{registry}:" if registry else ""
    return f"{of_registry}{quote(source, safe=_PLAIN)}:"


def redis_member(number: int) -> str:
    """Return a number as text for Redis, padded so that equal scores sort by number.

    >>> redis_member(42)
    '0000000042'
    """
    return f"{number:010d}"


def remove_redis_runs(
    client: Redis, source: str, which: Callable[[int], bool], registry: str = ""
) -> int:
    """Remove the keys of the runs of a source for which ``which`` holds; return their count."""
    prefix = redis_source_prefix(source, registry)
    keys = (str(key) for key in client.scan_iter(match=f"{prefix}*", count=1_000))
    removed = 0
    for key in keys:
        run, colon, _ = key.removeprefix(prefix).partition(":")
        if colon and run.isdecimal() and which(int(run)):
            removed += int(client.unlink(key))
    return removed


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

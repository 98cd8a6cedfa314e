"""The scripts that Redis runs: their calls, and the numbers, claims and keys in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import islice
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from redis import Redis
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,  # noqa: A004  # redis has names of Python's own
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    TimeoutError,  # noqa: A004  # likewise
)

from smartcrawl.model.exceptions import FrontierError
from smartcrawl.model.redaction import redacted_text
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


NAMES: Final = ("begin", "exchange", "host", "look", "lowered", "refill", "renew")
_TRIES: Final = 2  #: tries of a call: an idle connection may have ended

#: Remedies by class of error; the first class that fits counts.
_REMEDIES: Final = (
    (BusyLoadingError, "it is still loading its data; wait, then start again"),
    (AuthenticationError, "put a valid user and password into REDIS_URL"),
    (NoPermissionError, "give the user of REDIS_URL all commands on all keys (ACL SETUSER)"),
    (OutOfMemoryError, "raise maxmemory of this Redis, or give it more room"),
    (ReadOnlyError, "give the primary in REDIS_URL"),
    (TimeoutError, "check whether it is overloaded, or runs something slow (SLOWLOG GET)"),
    (ConnectionError, "start it, or correct REDIS_URL"),
)


def redis_failure(error: RedisError, doing: str) -> FrontierError:
    """Return an error of Redis as a message: the failed act, the reason and the remedy."""
    remedy = next((say for kind, say in _REMEDIES if isinstance(error, kind)), None)
    why = redacted_text(str(error)) or type(error).__name__
    return FrontierError(f"cannot {doing} ({why}); {remedy or 'see the log of Redis'}")


class RedisScripts:
    """The scripts of one Redis. ``place`` is its name in messages, without a password.

    A script is sent once, and then called by its SHA-1; it is sent again to a Redis that lost it.
    A call whose connection broke is repeated: every script is idempotent.
    """

    def __init__(self, client: Redis, place: str = "Redis") -> None:
        folder = files(__package__).joinpath("lua")
        common = folder.joinpath("common.lua").read_text("utf-8")
        self._place = place
        self._scripts: dict[str, Callable[..., Any]] = {
            name: client.register_script(
                f"{common}\n{folder.joinpath(f'{name}.lua').read_text('utf-8')}"
            )
            for name in NAMES
        }

    def run(self, name: str, prefix: str, call: Mapping[str, Any]) -> dict[str, Any]:
        """Call a script for the run whose keys begin with ``prefix``; return its answer.

        Raises:
            FrontierError: Redis did not answer, or refused; the call may have taken effect.
        """
        arguments = [prefix, json.dumps(call, separators=(",", ":"))]
        tries = _TRIES
        while True:
            tries -= 1
            try:
                answer = self._scripts[name](keys=[f"{prefix}run"], args=arguments)
            except (ConnectionError, TimeoutError) as error:
                if not tries or isinstance(error, AuthenticationError | BusyLoadingError):
                    raise redis_failure(error, f"share the frontier in {self._place}") from error
            except RedisError as error:
                raise redis_failure(error, f"share the frontier in {self._place}") from error
            except ValueError as error:  # as redis-py decodes it
                raise self.unread() from error
            else:
                return self._read(answer)

    def _read(self, answer: object) -> dict[str, Any]:
        try:
            found = json.loads(str(answer))
        except ValueError as error:
            raise self.unread() from error
        if not isinstance(found, dict):
            raise self.unread()
        return found

    def unread(self) -> FrontierError:
        """Return the error of an answer that no script of the frontier gives."""
        return FrontierError(
            f"the frontier in {self._place} has data that no worker wrote: find the other "
            "program that writes to it, and remove the keys of the source (docs/redis.md)"
        )

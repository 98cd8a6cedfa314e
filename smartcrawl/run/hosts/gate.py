"""Which hosts may be asked now: pauses that they ask for, and leaving alone who never answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Final, Protocol

from smartcrawl.rules.model import Fault

#: Nobody is there.
ABSENT: Final = frozenset({Fault.DNS, Fault.REFUSED, Fault.TIME_OUT, Fault.NETWORK})
#: No request was made, which says nothing about the host.
UNASKED: Final = frozenset({Fault.ADDRESS_REFUSED, Fault.ROBOTS_UNKNOWN, Fault.HOST_DOWN})

_NEVER: Final = float("-inf")


class Limits(Protocol):
    """The settings of the host breaker."""

    @property
    def host_failures_to_park(self) -> int:
        """Visits in a row that nobody answers."""

    @property
    def host_failure_seconds(self) -> int:
        """How long they must go on, at least."""

    @property
    def host_park_seconds(self) -> int:
        """How long a host is left alone before a probe."""

    @property
    def host_probes(self) -> int:
        """Failed probes after which a host is down."""


class Turn(StrEnum):
    """What a failure leads to."""

    PARKED = auto()  #: nothing is asked of the host for a while
    DOWN = auto()  #: nothing is asked of it any more


@dataclass(slots=True)
class _Hold:
    """Why a host is held back; times are monotonic seconds."""

    paused: float = _NEVER  #: until when, as it asked
    parked: float | None = None  #: until when, as nobody answers; None: it is not parked
    probes: int = 0  #: that failed

    @property
    def until(self) -> float:
        return self.paused if self.parked is None else max(self.paused, self.parked)


class HostGate:
    """Says of each host whether one more request may go out; ``now`` is monotonic seconds.

    A host that asks for a pause gets one. A host where visit after visit ends without
    anybody being there is parked; then one request at a time probes it. An answer frees it,
    and after some failed probes it is down to the end of the run. Hosts are names without
    port.

    Source: design.md 3, "Host breaker".
    """

    def __init__(self, limits: Limits) -> None:
        self.held: dict[str, _Hold] = {}  #: empty: every host may be asked
        self.down: set[str] = set()
        self._limits = limits
        self._rows: dict[str, tuple[int, float]] = {}  #: failed visits in a row, since when

    def may_ask(self, host: str, now: float, flying: int = 0) -> bool:
        """Whether a host may get a request, with so many of its requests in flight already.

        A host that is down may: its requests end without being sent.
        """
        hold = self.held.get(host)
        if hold is None:
            return True
        return hold.until <= now and (hold.parked is None or not flying)

    def pause(self, host: str, seconds: float, now: float) -> None:
        """Ask nothing of a host for some time; a longer pause that is in force stays."""
        if host not in self.down:
            hold = self.held.setdefault(host, _Hold())
            hold.paused = max(hold.paused, now + seconds)

    def answered(self, host: str, now: float) -> None:
        """Note that somebody is there, whatever was said; a pause stays in force."""
        if self._rows:
            self._rows.pop(host, None)
        if self.held and (hold := self.held.get(host)) is not None:
            hold.parked, hold.probes = None, 0
            if hold.paused <= now:
                del self.held[host]

    def failed(self, host: str, fault: Fault, now: float, *, ends: bool = True) -> Turn | None:
        """Note a request that brought no whole answer, and say what it leads to.

        ``ends`` says that its visit ends with it; only such count until the host is
        parked. What was asked before that, and fails after it, changes nothing.
        """
        if fault in UNASKED or host in self.down:
            return None
        if fault not in ABSENT:
            self.answered(host, now)
            return None
        hold = self.held.get(host)
        if hold is not None and hold.parked is not None:
            return self._probe_failed(host, hold, now) if hold.until <= now else None
        if not ends:
            return None
        count, since = self._rows.get(host, (0, now))
        self._rows[host] = count + 1, since
        limits = self._limits
        enough = count + 1 >= limits.host_failures_to_park
        if not enough or now - since < limits.host_failure_seconds:
            return None
        self.held.setdefault(host, _Hold()).parked = now + limits.host_park_seconds
        return Turn.PARKED

    def _probe_failed(self, host: str, hold: _Hold, now: float) -> Turn:
        hold.probes += 1
        if hold.probes < self._limits.host_probes:
            hold.parked = now + self._limits.host_park_seconds
            return Turn.PARKED
        del self.held[host]
        self.down.add(host)
        return Turn.DOWN

    def paced(self, host: str, seconds: float) -> None:
        """Note the time between two requests that a host's latency suggests."""

    def is_down(self, host: str) -> bool:
        """Whether nothing is asked of a host any more."""
        return host in self.down

    def wait(self, host: str, now: float) -> float:
        """Return the seconds until a host may be asked; 0 when it may be now."""
        hold = self.held.get(host)
        return max(0.0, hold.until - now) if hold is not None else 0.0

    def next_turn(self, now: float) -> float | None:
        """Return the seconds until the first held host may be asked; None when none waits."""
        return min(self._waits(now), default=None)

    def _waits(self, now: float) -> Iterator[float]:
        return (hold.until - now for hold in self.held.values() if hold.until > now)


def slot_of(host: str) -> str:
    """Return Scrapy's download slot of a host: politeness does not tell ports apart.

    >>> slot_of("example.com"), slot_of("127.0.0.1:8801"), slot_of("[::1]:8801")
    ('example.com', '127.0.0.1', '::1')
    """
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).strip("[]")

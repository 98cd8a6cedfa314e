"""The host breaker: pauses that hosts ask for, and parking of hosts that do not answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Final, Protocol

from smartcrawl.rules.model import Fault

#: No server answers at the host.
ABSENT: Final = frozenset({Fault.DNS, Fault.REFUSED, Fault.TIME_OUT, Fault.NETWORK})
#: No request was sent, so the fault is no evidence about the host.
UNASKED: Final = frozenset({Fault.ADDRESS_REFUSED, Fault.ROBOTS_UNKNOWN, Fault.HOST_DOWN})

_NEVER: Final = float("-inf")


class HostGateLimits(Protocol):
    """The settings of the host breaker."""

    @property
    def host_failures_to_park(self) -> int:
        """Consecutive visits without an answer after which a host is parked."""

    @property
    def host_failure_seconds(self) -> int:
        """Least seconds from the first to the last of these visits."""

    @property
    def host_park_seconds(self) -> int:
        """Seconds for which a parked host gets no request before a probe."""

    @property
    def host_probes(self) -> int:
        """Failed probes after which a host is down."""


class Turn(StrEnum):
    """The effect of a failure."""

    PARKED = auto()  #: the host gets no requests for a while
    DOWN = auto()  #: the host gets no more requests


@dataclass(slots=True)
class _Hold:
    """The pause and the parking of a host; times are monotonic seconds."""

    paused: float = _NEVER  #: the end of the pause that the host asked for
    parked: float | None = None  #: the time of the next probe; None: it is not parked
    probes: int = 0  #: failed probes

    @property
    def until(self) -> float:
        return self.paused if self.parked is None else max(self.paused, self.parked)


class HostGate:
    """Decides for each host whether one more request may be sent; ``now`` is monotonic seconds.

    A host that asks for a pause gets one. A host where consecutive visits end without an answer
    is parked; then one request at a time probes it. An answer frees it. After some failed probes
    it is down to the end of the run. Hosts are names without port.

    Source: ADR 133.
    """

    def __init__(self, limits: HostGateLimits) -> None:
        self.throttled: dict[str, _Hold] = {}  #: paused and parked hosts; empty: all may be asked
        self.down: set[str] = set()
        self._limits = limits
        self._rows: dict[str, tuple[int, float]] = {}  #: failed visits in a row, and since when

    def may_ask(self, host: str, now: float, flying: int = 0) -> bool:
        """Whether a host may get a request; ``flying`` of its requests are in flight already.

        A host that is down may: its requests end without being sent.
        """
        hold = self.throttled.get(host)
        if hold is None:
            return True
        return hold.until <= now and (hold.parked is None or not flying)

    def pause(self, host: str, seconds: float, now: float) -> None:
        """Send a host no requests for some seconds; a longer pause that is in force stays."""
        if host not in self.down:
            hold = self.throttled.setdefault(host, _Hold())
            hold.paused = max(hold.paused, now + seconds)

    def answered(self, host: str, now: float) -> None:
        """Free a host that sent any answer; a pause stays in force."""
        if self._rows:
            self._rows.pop(host, None)
        if self.throttled and (hold := self.throttled.get(host)) is not None:
            hold.parked, hold.probes = None, 0
            if hold.paused <= now:
                del self.throttled[host]

    def failed(self, host: str, fault: Fault, now: float, *, ends: bool = True) -> Turn | None:
        """Count a request without a whole answer, and return the effect.

        ``ends``: whether its visit ends with it; until the host is parked, only such requests
        count. A request that was sent before the parking and fails after it changes nothing.
        """
        if fault in UNASKED or host in self.down:
            return None
        if fault not in ABSENT:
            self.answered(host, now)
            return None
        hold = self.throttled.get(host)
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
        self.throttled.setdefault(host, _Hold()).parked = now + limits.host_park_seconds
        return Turn.PARKED

    def _probe_failed(self, host: str, hold: _Hold, now: float) -> Turn:
        hold.probes += 1
        if hold.probes < self._limits.host_probes:
            hold.parked = now + self._limits.host_park_seconds
            return Turn.PARKED
        del self.throttled[host]
        self.down.add(host)
        return Turn.DOWN

    def paced(self, host: str, seconds: float) -> None:
        """Take the seconds between two requests that follow from a host's latency."""

    def is_down(self, host: str) -> bool:
        """Whether a host gets no more requests."""
        return host in self.down

    def wait(self, host: str, now: float) -> float:
        """Return the seconds until a host may be asked; 0 when it may be now."""
        hold = self.throttled.get(host)
        return max(0.0, hold.until - now) if hold is not None else 0.0

    def next_turn(self, now: float) -> float | None:
        """Return the seconds until a paused or parked host may be asked; None: no host waits."""
        return min(self._waits(now), default=None)

    def _waits(self, now: float) -> Iterator[float]:
        return (hold.until - now for hold in self.throttled.values() if hold.until > now)


def host_gate_slot(host: str) -> str:
    """Return Scrapy's download slot of a host: politeness does not distinguish ports.

    >>> (
    ...     host_gate_slot("example.com"),
    ...     host_gate_slot("127.0.0.1:8801"),
    ...     host_gate_slot("[::1]:8801"),
    ... )
    ('example.com', '127.0.0.1', '::1')
    """
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).strip("[]")

"""Politeness of all workers together: each shares its pauses, parks and delays of hosts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from smartcrawl.rules.model import Fault
from smartcrawl.run.frontier.redis.exchanges import FrontierClaim
from smartcrawl.run.frontier.redis.hosts import SharedHosts
from smartcrawl.run.hosts.gate import ABSENT, HostGate, HostGateLimits, Turn, host_gate_slot
from smartcrawl.run.shared.courier import HostAct

_NEWS: Final = 0.1  #: share by which a delay must differ from the last one that was sent


class SharedGate(HostGate):
    """A gate that sends pauses, parked hosts and delays to Redis, for all workers.

    The scripts apply those of the other workers when they hand out numbers (``SharedHosts``).

    Source: ADR 30; R2-43, R2-45, R2-46.
    """

    def __init__(self, limits: HostGateLimits, update: Callable[[HostAct], None]) -> None:
        super().__init__(limits)
        self._update = update
        self._probed: set[str] = set()  #: parked hosts that this worker probes for all
        self._paces: dict[str, float] = {}  #: seconds by host, as sent last

    def claimed(self, claim: FrontierClaim) -> bool:
        """Copy the state of a claim's host; return whether another worker gave it up just now."""
        host = host_gate_slot(claim.host)
        if claim.parked:
            self._probed.add(host)
        if claim.down and host not in self.down:
            self.throttled.pop(host, None)
            self.down.add(host)
            return True
        return False

    def pause(self, host: str, seconds: float, now: float) -> None:
        """Send a host no requests for some seconds, from any worker."""
        super().pause(host, seconds, now)
        self._update(lambda hosts: hosts.pause(host, seconds))

    def answered(self, host: str, now: float) -> None:
        """Free a host that answered, for all workers."""
        parked = (
            self.throttled
            and (hold := self.throttled.get(host)) is not None
            and hold.parked is not None
        )
        super().answered(host, now)
        if parked or host in self._probed:
            self._probed.discard(host)
            self._update(lambda hosts: hosts.unpark(host))

    def failed(self, host: str, fault: Fault, now: float, *, ends: bool = True) -> Turn | None:
        """Count a request without a whole answer; see ``HostGate``."""
        turn = super().failed(host, fault, now, ends=ends)
        probed = host in self._probed and fault in ABSENT
        if turn is Turn.DOWN:
            self._update(lambda hosts: hosts.give_up(host))
        elif turn is Turn.PARKED or probed:
            self._probed.discard(host)
            self._update(lambda hosts: self._park(hosts, host))
        return turn

    def _park(self, hosts: SharedHosts, host: str) -> None:
        limits = self._limits
        if hosts.park(host, limits.host_park_seconds) > limits.host_probes:
            hosts.give_up(host)

    def paced(self, host: str, seconds: float) -> None:
        """Set the seconds between two requests to a host, for all workers."""
        before = self._paces.get(host)
        if before is None or abs(seconds - before) > _NEWS * before:
            self._paces[host] = seconds
            self._update(lambda hosts: hosts.set_delay(host, seconds))

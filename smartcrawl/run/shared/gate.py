"""Politeness of all workers together: what one learns of a host, the others heed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from smartcrawl.rules.model import Fault
from smartcrawl.run.frontier.redis.frontier import Claim
from smartcrawl.run.frontier.redis.hosts import SharedHosts
from smartcrawl.run.hosts.gate import ABSENT, HostGate, Limits, Turn, slot_of
from smartcrawl.run.shared.courier import HostAct

_NEWS: Final = 0.1  #: share by which a delay must differ to be told


class SharedGate(HostGate):
    """A gate that tells all workers of pauses, of hosts where nobody answers, and of delays.

    What others tell is heeded when numbers are handed out (``SharedHosts``).

    Source: design.md 9; R2-43, R2-45, R2-46.
    """

    def __init__(self, limits: Limits, tell: Callable[[HostAct], None]) -> None:
        super().__init__(limits)
        self._tell = tell
        self._probed: set[str] = set()  #: hosts that this worker probes, as all agreed
        self._paces: dict[str, float] = {}  #: seconds, as told last

    def claimed(self, claim: Claim) -> bool:
        """Note what is known of a claim's host; return whether it was given up just now."""
        host = slot_of(claim.host)
        if claim.parked:
            self._probed.add(host)
        if claim.down and host not in self.down:
            self.held.pop(host, None)
            self.down.add(host)
            return True
        return False

    def pause(self, host: str, seconds: float, now: float) -> None:
        """Ask nothing of a host for some time, nor let others ask."""
        super().pause(host, seconds, now)
        self._tell(lambda hosts: hosts.pause(host, seconds))

    def answered(self, host: str, now: float) -> None:
        """Note that somebody is there."""
        parked = self.held and (hold := self.held.get(host)) is not None and hold.parked is not None
        super().answered(host, now)
        if parked or host in self._probed:
            self._probed.discard(host)
            self._tell(lambda hosts: hosts.unpark(host))

    def failed(self, host: str, fault: Fault, now: float, *, ends: bool = True) -> Turn | None:
        """Note a request that brought no whole answer; see ``HostGate``."""
        turn = super().failed(host, fault, now, ends=ends)
        probed = host in self._probed and fault in ABSENT
        if turn is Turn.DOWN:
            self._tell(lambda hosts: hosts.give_up(host))
        elif turn is Turn.PARKED or probed:
            self._probed.discard(host)
            self._tell(lambda hosts: self._park(hosts, host))
        return turn

    def _park(self, hosts: SharedHosts, host: str) -> None:
        limits = self._limits
        if hosts.park(host, limits.host_park_seconds) > limits.host_probes:
            hosts.give_up(host)

    def paced(self, host: str, seconds: float) -> None:
        """Let all workers leave that time between two requests to a host."""
        before = self._paces.get(host)
        if before is None or abs(seconds - before) > _NEWS * before:
            self._paces[host] = seconds
            self._tell(lambda hosts: hosts.set_delay(host, seconds))

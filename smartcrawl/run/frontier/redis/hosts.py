"""The politeness records of hosts, shared by all workers of all runs."""

from __future__ import annotations

from typing import Any

from smartcrawl.run.frontier.redis.scripts import RedisScripts


class SharedHosts:
    """Pauses, parks and delays hosts for every worker; hosts are names without port.

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

    def robots_read(self, host: str, crawl_delay: float, *, asked: bool = True) -> None:
        """Record that the robots.txt of a host was read, and its Crawl-delay in seconds.

        ``asked``: it was fetched from the host just now, which counts as the host's last request.
        Where a run reads the robots.txt of several ports of a host, the longest delay counts.
        """
        self._call(host, "robots", milliseconds=round(1000 * crawl_delay), asked=asked)

    def _call(self, host: str, act: str, **more: Any) -> dict[str, Any]:
        call = {**self._limits, "host": host, "act": act, **more}
        return self._scripts.run("host", self._prefix, call)

"""What all workers of all runs must know about a host to be polite to it."""

from __future__ import annotations

from typing import Any

from smartcrawl.run.frontier.redis.scripts import Scripts


class SharedHosts:
    """Pauses, parks and delays hosts for every worker; hosts are names without port.

    Of all delays the longest counts. Whoever claims at a parked host says ``unpark`` when that
    is answered, and ``park`` when it is not.

    ``limits`` are those of the frontier: requests in flight for each host, and the seconds
    between two requests to it, at least.

    Source: R2-43, R2-45, R2-46; design.md 3, "Host breaker", and 9.
    """

    def __init__(self, scripts: Scripts, prefix: str, limits: dict[str, Any]) -> None:
        self._scripts = scripts
        self._prefix = prefix
        self._limits = limits

    def pause(self, host: str, seconds: float) -> None:
        """Ask nothing of a host for some time, as it wants; a longer pause in force stays."""
        self._tell(host, "pause", seconds=seconds)

    def park(self, host: str, seconds: float) -> int:
        """Leave a host alone where nobody answers; after that one request at a time probes it.

        Returns how often in a row it was parked. Parking what is parked changes nothing: such a
        request was made before.
        """
        return int(self._tell(host, "park", seconds=seconds)["times"])

    def unpark(self, host: str) -> None:
        """Note that somebody is there; a pause stays in force."""
        self._tell(host, "unpark")

    def give_up(self, host: str) -> None:
        """Hand out what waits for a host at once, marked as down: this run asks nothing of it."""
        self._tell(host, "down")

    def set_delay(self, host: str, seconds: float) -> None:
        """Leave so much time between two requests to a host, as its latency suggests."""
        self._tell(host, "pace", milliseconds=round(1000 * seconds))

    def robots_read(self, host: str, crawl_delay: float, *, asked: bool = True) -> None:
        """Note that robots.txt is known, and the seconds that it wants between two requests.

        ``asked``: the host was asked for it just now, which counts as its last request. Where a
        run reads those of several ports of a host, the longest delay counts.
        """
        self._tell(host, "robots", milliseconds=round(1000 * crawl_delay), asked=asked)

    def _tell(self, host: str, act: str, **more: Any) -> dict[str, Any]:
        call = {**self._limits, "host": host, "act": act, **more}
        return self._scripts.run("host", self._prefix, call)

"""Records of hosts beside their pages: robots.txt, soft-404 profile, Retry-After."""

from __future__ import annotations

import hashlib

from smartcrawl.model.batches import StoredRobots
from smartcrawl.model.urls import url_host_key
from smartcrawl.registry.hosts import HostReader
from smartcrawl.run.batches import Batches


class HostNotes:
    """Adds the records of this run to the batches, and reads those of earlier runs."""

    def __init__(self, reader: HostReader, batches: Batches) -> None:
        self._reader = reader
        self._batches = batches

    def stored_robots(self, origin: str) -> StoredRobots | None:
        """Return the last readable robots.txt of an origin, of any run."""
        return self._reader.robots(origin)

    def robots_of_others(self, origin: str) -> StoredRobots | None:
        """Return the robots.txt that another worker fetched in this run; None: fetch it."""
        return None

    def robots_read(
        self, origin: str, robots: StoredRobots, crawl_delay: float | None = None
    ) -> None:
        """Record the robots.txt of an origin; ``crawl_delay`` in seconds."""
        self._batches.batch.robots[origin] = robots
        tally = self._batches.batch.tally(url_host_key(origin))
        tally.robots = hashlib.sha256(robots.body).digest()
        tally.crawl_delay_ms = None if crawl_delay is None else round(1000 * crawl_delay)

    def robots_failed(self, origin: str, why: str) -> None:
        """Record why the robots.txt of an origin could not be fetched."""
        self._batches.batch.tally(url_host_key(origin)).robots_error = why

    def stored_not_found(self, host: str, since: int) -> str | None:
        """Return a host's answer for missing pages; empty: an error status; None: not known."""
        return self._reader.not_found(host, since)

    def not_found_read(self, host: str, profile: str) -> None:
        """Record a host's answer for missing pages; empty: an error status."""
        self._batches.batch.tally(host).not_found = profile

    def asks_for_time(self, url: str, seconds: int) -> None:
        """Record the seconds of a host's Retry-After."""
        self._batches.batch.tally(url_host_key(url)).retry_after = seconds

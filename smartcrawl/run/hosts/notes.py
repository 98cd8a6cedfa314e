"""What hosts say beside their pages: robots.txt, what cannot exist, when to ask them again."""

from __future__ import annotations

import hashlib

from smartcrawl.model.batches import StoredRobots
from smartcrawl.model.urls import host_key
from smartcrawl.registry.host_facts import HostReader
from smartcrawl.run.batches import Batches


class HostNotes:
    """Keeps what hosts say in this run with the batches, and finds what they said before."""

    def __init__(self, reader: HostReader, batches: Batches) -> None:
        self._reader = reader
        self._batches = batches

    def stored_robots(self, origin: str) -> StoredRobots | None:
        """Return the last robots.txt of an origin that could be read, in any run."""
        return self._reader.robots(origin)

    def robots_of_others(self, origin: str) -> StoredRobots | None:
        """Return what another worker of this run read; None: ask."""
        return None

    def robots_read(
        self, origin: str, robots: StoredRobots, crawl_delay: float | None = None
    ) -> None:
        """Keep what the robots.txt of an origin says; ``crawl_delay`` in seconds."""
        self._batches.batch.robots[origin] = robots
        tally = self._batches.batch.tally(host_key(origin))
        tally.robots = hashlib.sha256(robots.body).digest()
        tally.crawl_delay_ms = None if crawl_delay is None else round(1000 * crawl_delay)

    def robots_failed(self, origin: str, why: str) -> None:
        """Note that the robots.txt of an origin could not be had."""
        self._batches.batch.tally(host_key(origin)).robots_error = why

    def stored_not_found(self, host: str, since: int) -> str | None:
        """Return what a host answers for what cannot exist; empty: a status. None: not known."""
        return self._reader.not_found(host, since)

    def not_found_read(self, host: str, profile: str) -> None:
        """Keep what a host answers for what cannot exist."""
        self._batches.batch.tally(host).not_found = profile

    def asks_for_time(self, url: str, seconds: int) -> None:
        """Note what the Retry-After of a host asks for."""
        self._batches.batch.tally(host_key(url)).retry_after = seconds

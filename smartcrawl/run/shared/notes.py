"""Host notes that all workers of a run share (ADR 30)."""

from __future__ import annotations

from contextlib import suppress

from smartcrawl.model.batches import StoredRobots
from smartcrawl.model.exceptions import FrontierError
from smartcrawl.model.urls import url_host_key
from smartcrawl.registry.hosts import HostReader
from smartcrawl.run.batches import Batches
from smartcrawl.run.frontier.redis.robots import SharedRobots
from smartcrawl.run.hosts.gate import host_gate_slot
from smartcrawl.run.hosts.notes import HostNotes
from smartcrawl.run.shared.frontier import SharedFrontier


class SharedNotes(HostNotes):
    """Writes robots.txt files to Redis, for all workers."""

    def __init__(
        self, reader: HostReader, batches: Batches, robots: SharedRobots, shared: SharedFrontier
    ) -> None:
        super().__init__(reader, batches)
        self._robots = robots
        self._shared = shared

    def robots_of_others(self, origin: str) -> StoredRobots | None:
        """Return the robots.txt that another worker fetched in this run; None: fetch it."""
        with suppress(FrontierError):  # then this worker fetches it
            return self._robots.get(origin)
        return None

    def robots_read(
        self, origin: str, robots: StoredRobots, crawl_delay: float | None = None
    ) -> None:
        """Store the robots.txt of an origin, for all workers."""
        super().robots_read(origin, robots, crawl_delay)
        with suppress(FrontierError):  # then other workers fetch it, too
            self._robots.put(origin, robots)
        host = host_gate_slot(url_host_key(origin))
        self._shared.update_hosts(lambda hosts: hosts.robots_read(host, crawl_delay or 0.0))

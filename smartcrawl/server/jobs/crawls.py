"""The places where jobs are crawled, as the launcher sees them (ADR 59)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.processes import Process
from smartcrawl.registry.database.databases import Database
from smartcrawl.server.jobs.processes import BegunRun


class StartError(SmartcrawlError):
    """A crawl cannot be started, and trying again would not help."""


class Sight(Enum):
    """The state of a run's crawl, as its place sees it."""

    CRAWLING = "crawling"  #: it waits there, runs, or cannot be seen now
    GONE = "gone"  #: no process crawls for the run; the registry knows how far it came
    NOT_STARTED = "not started"  #: the request to start it did not arrive


@dataclass(frozen=True, slots=True)
class Exited:
    """The end of a run's process."""

    status: int  #: exit status; negative: the signal that ended it
    pid: int | None


class Crawls(Protocol):
    """A place where jobs are crawled, for one thread. It outlives connections to the registry."""

    def look(self, begun: Sequence[BegunRun], now: int) -> None:
        """Look at the runs that this server watches, before they are asked for one by one."""

    def can_start(self, now: int) -> bool:
        """Whether the place takes a crawl now; else the runs wait."""

    def still_has(self, id_: str) -> bool:
        """Whether a process of a run that was paused may not have ended yet."""

    def start(self, begun: BegunRun, *, resume: bool) -> Process | None:
        """Start a crawl; return its process, or None if the place has not started it yet.

        Raises:
            StartError: it cannot be started.
        """

    def sight(self, begun: BegunRun, now: int) -> Sight | Exited:
        """Return the state of a run's crawl."""

    def place_of_log(self, begun: BegunRun) -> str:
        """Return where the log of a run is, for messages."""

    def reason_of_death(self, begun: BegunRun) -> str:
        """Return the reason of a run whose crawl died."""


def api_job_is_crawling(database: Database, source: str, process: Process | None) -> bool:
    """Whether the process that crawls a source, which need be no child of this server, is alive.

    ``process``: None if it is not known; then the lease of the source decides.
    """
    if process is not None and process.is_here:
        return process.is_alive()
    return database.is_held(source)

"""The stored robots.txt copies, and what they allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from smartcrawl.extract.robots_txt import Answer
from smartcrawl.model.option_groups import RobotsOptions
from smartcrawl.model.times import iso_time
from smartcrawl.model.urls import url_host_key
from smartcrawl.registry.connection import Connection
from smartcrawl.sources.base import Source
from smartcrawl.sources.request_keys import SourceRequest

if TYPE_CHECKING:  # imports the schedule of jobs, which few commands need
    from smartcrawl.sources.jobs import JobDefinition

#: From the parser and the agent to the function that reads a body.
RobotsReader = Callable[[type[Any], str], Callable[[bytes], Callable[[str], Any]]]

_ROBOTS_FAILED = """
SELECT robots_error, robots_failed_at FROM host
 WHERE name = ? AND robots_failed_at > coalesce(robots_fetched_at, 0)
"""
_ROBOTS = "SELECT fetched_at, status, body FROM robots WHERE origin = ?"


class StoredRobotsReport:
    """Stored robots.txt copies, parsed when they are first needed.

    ``read`` parses a body to a function that returns the answer for an address.
    """

    def __init__(
        self, connection: Connection, read: Callable[[bytes], Callable[[str], Any]]
    ) -> None:
        self._connection = connection
        self._read = read
        self._known: dict[str, tuple[Callable[[str], Any] | None, int, int] | None] = {}

    def answer(self, url: str) -> tuple[Any, int, int] | None:
        """Return (answer, status, time of the copy) for an address; None without a copy.

        The answer is None where the status means that there are no rules.
        """
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        if origin not in self._known:
            row: Any = self._connection.execute(_ROBOTS, (origin,)).fetchone()
            self._known[origin] = row and (
                self._read(row[2]) if row[1] < 400 else None,
                row[1],
                row[0],
            )
        found = self._known[origin]
        if found is None:
            return None
        says, status, fetched_at = found
        return says(url) if says is not None else None, status, fetched_at

    def forbids(self, url: str) -> str | None:
        """Return why a stored robots.txt forbids an address; None if it does not, or has no copy.

        ``read`` has to be ``robots_txt.robots_txt_answers``.
        """
        found = self.answer(url)
        if found is None or found[0] is None or found[0].allowed:
            return None
        return f"disallowed by robots.txt, line {found[0].line}: {found[0].rule!r}"

    def failure(self, url: str) -> tuple[str, int] | None:
        """Return (reason, time) of the last failed request, if it was later than the copy.

        Files have none: the name of a bucket may be that of a host.
        """
        if not url.startswith(("http://", "https://")):
            return None
        row: Any = self._connection.execute(_ROBOTS_FAILED, (url_host_key(url),)).fetchone()
        return None if row is None else (str(row[0]), int(row[1]))


class RobotsOfSources:
    """The stored robots.txt copies, as the runs of each source read them.

    A job has a user agent of its own, and may not obey robots.txt; so may a declared source. What
    neither says is in the settings.
    """

    def __init__(
        self,
        connection: Connection,
        read: RobotsReader,
        options: RobotsOptions,
        *,
        obeyed: bool,
        jobs: Mapping[str, JobDefinition],
        sources: Mapping[str, Source],
    ) -> None:
        """``obeyed`` is ROBOTSTXT_OBEY; ``jobs``: those that stand for their sources, by name.

        ``sources``: those that are declared, likewise.
        """
        self._connection = connection
        self._read = read
        self._options = options
        self._obeyed = obeyed
        self._jobs = jobs
        self._requests = {name: source.request for name, source in sources.items()}
        self._by_agent: dict[str, StoredRobotsReport] = {}

    def is_obeyed(self, source: str) -> bool:
        """Whether the runs of a source obey robots.txt."""
        job, request = self._jobs.get(source), self._requests.get(source, SourceRequest())
        if job is not None:
            return job.config.respect_robots_txt
        return self._obeyed if request.obey_robots is None else request.obey_robots

    def rule(self, url: str, source: str) -> dict[str, Any] | None:
        """Return what the stored copy says of an address to a source, as ``why`` has it.

        None: there is no copy, and no request for one has failed.
        """
        robots = self.of(source)
        answer, failure = robots.answer(url), robots.failure(url)
        if answer is None and failure is None:
            return None
        found, status, fetched_at = answer or (None, None, None)
        rule = Answer(True) if found is None else found
        return {
            "allowed": rule.allowed if answer is not None else None,
            "rule": rule.rule,
            "line": rule.line,
            "isRobotsTxt": rule.is_robots_txt,
            "agent": rule.agent,
            "status": status,
            "fetchedAt": iso_time(fetched_at),
            "error": failure[0] if failure is not None else None,
            "failedAt": iso_time(failure[1]) if failure is not None else None,
            "obeyed": self.is_obeyed(source),
        }

    def of(self, source: str) -> StoredRobotsReport:
        """Return the copies for the agent of a source."""
        job, options = self._jobs.get(source), self._options
        own = self._requests.get(source, SourceRequest()).user_agent or options.user_agent
        agent = options.agent or (own if job is None else job.config.user_agent)
        if agent not in self._by_agent:
            read = self._read(options.parser, agent)
            self._by_agent[agent] = StoredRobotsReport(self._connection, read)
        return self._by_agent[agent]

"""The sources that a posted address may join, and what keeps it out (R2-34, R2-57)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from smartcrawl.extract.robots_txt import robots_txt_check
from smartcrawl.model.options import Options
from smartcrawl.model.program import program_name
from smartcrawl.model.robots_options import RobotsOptions
from smartcrawl.model.urls import normalize_url, url_digest, url_host_key
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.hosts import HostReader
from smartcrawl.registry.items import has_row_of_documents_name
from smartcrawl.registry.jobs import stored_job_rows
from smartcrawl.reports.sources_today import reported_sources_today
from smartcrawl.reports.stored_robots import RobotsOfSources
from smartcrawl.rules.connections import ConnectionGuard
from smartcrawl.server.frontier.addresses import PostedUrl
from smartcrawl.server.private_addresses import names_private_job_address
from smartcrawl.sources.base import Source, belongs_to_source
from smartcrawl.sources.declared import load_declared_sources
from smartcrawl.sources.jobs import JobDefinition
from smartcrawl.sources.kinds import DOCUMENTS
from smartcrawl.sources.scope import SiteScope

_SOURCES: Final = "SELECT name FROM source ORDER BY name"
_EVERY: Final = 0  #: no source: facts about hosts are the same for all
_PRIVATE: Final = "it is an address that ALLOW_NETWORKS does not allow"
_FORBIDDEN: Final = "the stored robots.txt of its host forbids it"


class Candidate(NamedTuple):
    """A posted address, and the sources that it may join."""

    id: bytes
    url: str
    host: str  #: as ``host.name``
    priority: int
    sources: tuple[str, ...]  #: none: it is blocked
    refusal: str = ""  #: the reason why it is


def _may_hold(source: Source, url: str) -> bool:
    """Whether the host of an address is in scope, or in the one that a seed may move to."""
    return source.scope.holds(url) or (source.ad_hoc and source.scope.moved_to(url) is not None)


class Holders:
    """All sources of today: declared ones, jobs, and those that an address began."""

    def __init__(self, connection: Connection, options: Options, robots: RobotsOptions) -> None:
        self._connection = connection
        self._options = options
        self._may_be_single = has_row_of_documents_name(connection)
        declared = load_declared_sources(*options.source_files)
        jobs = stored_job_rows(connection)
        self._may_be_single &= not declared.declares(DOCUMENTS.name)
        self._holders = self._sources_of_today(declared, jobs)
        self._by_host: dict[str, list[Source]] = {}
        self._robots = RobotsOfSources(
            connection,
            robots_txt_check,
            robots,
            obeyed=options.robots_obeyed,
            jobs={name: job for name, job in jobs.items() if not declared.declares(name)},
        )

    @property
    def names(self) -> list[str]:
        """The names of the sources."""
        return [*(source.name for source in self._holders), DOCUMENTS.name]

    def candidates(self, posted: Sequence[PostedUrl]) -> list[Candidate]:
        """Return the posted addresses, each with the sources that may take it."""
        options = self._options
        guard = ConnectionGuard(options.allow_networks, options.allow_ports)
        blocked = HostReader(self._connection, _EVERY).blocked_hosts()
        refused: dict[str, str] = {}
        found = []
        for each in posted:
            url, host = each.url, url_host_key(each.url)
            if host not in refused:
                private = names_private_job_address(url, guard)
                refused[host] = _blocked() if host in blocked else _PRIVATE if private else ""
            sources, why = ((), refused[host]) if refused[host] else self._sources(url, host)
            key = url_digest(normalize_url(url, options.trackers))
            found.append(Candidate(key, url, host, each.priority, sources, why))
        return found

    def _sources(self, url: str, host: str) -> tuple[tuple[str, ...], str]:
        """Return the sources whose scope and robots.txt allow an address, or why none does.

        An address whose host is in no scope joins that of single pages.
        """
        if host not in self._by_host:
            self._by_host[host] = [each for each in self._holders if _may_hold(each, url)]
        near = self._by_host[host]
        if not near:
            return self._single(url, host)
        fit = [each for each in near if belongs_to_source(each, url)]
        if not fit:
            first = near[0]
            return (), f"{first.name} does not take it: {first.scope.refusal(url)}"
        allowed = tuple(each.name for each in fit if self._is_allowed(url, each.name))
        return allowed, "" if allowed else _FORBIDDEN

    def _single(self, url: str, host: str) -> tuple[tuple[str, ...], str]:
        """Return the source of single pages, or why it does not take an address."""
        unread = SiteScope(hosts=frozenset({host})).refusal(url)
        if unread is not None:
            return (), unread
        if not self._may_be_single:
            return (), f"no source has it in scope, and {DOCUMENTS.name} is that of other pages"
        if not self._is_allowed(url, DOCUMENTS.name):
            return (), _FORBIDDEN
        return (DOCUMENTS.name,), ""

    def _is_allowed(self, url: str, source: str) -> bool:
        """Whether the stored robots.txt of its origin allows an address; none allows all."""
        if not self._robots.is_obeyed(source):
            return True
        answer = self._robots.of(source).answer(url)
        return answer is None or answer[0] is not False

    def _sources_of_today(
        self, declared: Mapping[str, Source], jobs: Mapping[str, JobDefinition]
    ) -> list[Source]:
        known = {name: job.source() for name, job in jobs.items()} | dict(declared)
        rows: list[Any] = self._connection.execute(_SOURCES).fetchall()
        names = dict.fromkeys([*known, *(name for (name,) in rows)])
        found = reported_sources_today(self._connection, known, names)
        # No scope holds single pages: each is added by its address.
        return [source for source in found if source.kind != DOCUMENTS.name]


def _blocked() -> str:
    return f"its host is blocked; list those that are: {program_name()} hosts"

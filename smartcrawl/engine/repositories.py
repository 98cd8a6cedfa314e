"""Listings of repositories with the settings of a crawl: guard, TLS, proxy, token, waits."""

from __future__ import annotations

from collections.abc import Callable

from scrapy.settings import BaseSettings

from smartcrawl.engine.download.certificates import CertificateTrust, lane_tls_context
from smartcrawl.engine.download.proxies import EnvironmentProxies
from smartcrawl.model.options import Options
from smartcrawl.rules.connections import ConnectionGuard
from smartcrawl.sources.github.address import quoted_repository_path
from smartcrawl.sources.github.api import GithubApi, github_token
from smartcrawl.sources.github.listing import ListedCommit, RepositoryListing
from smartcrawl.sources.github.source import GithubSource


def repository_listing_of_scrapy_settings(
    source: GithubSource,
    options: Options,
    settings: BaseSettings,
    *,
    known: str | None,
    wait: Callable[[float], bool],
) -> RepositoryListing:
    """Return the listing of a repository.

    ``known``: the facts of a listing whose files are all stored (ListedCommit.dumps). ``wait``
    pauses for some seconds, and returns whether the crawl ends meanwhile.

    Raises:
        SettingError: the token, or the proxy of the environment, cannot be used.
    """
    api = GithubApi(
        options.github.api,
        guard=ConnectionGuard(options.allow_networks, options.allow_ports),
        tls=lane_tls_context(settings, CertificateTrust.of(source, options)),
        proxy=EnvironmentProxies(settings).proxy_of(options.github.api),
        token=github_token(),
        user_agent=str(settings["USER_AGENT"]),
        timeout=settings.getfloat("DOWNLOAD_TIMEOUT"),
        retries=settings.getint("RETRY_TIMES"),
        longest_wait=options.retry_after_max_wait,
        wait=wait,
    )
    return RepositoryListing(
        source.address,
        api=api,
        rules=source.scope.rules,
        known=None if known is None else ListedCommit.loads(known),
    )


def downloader_place_of_raw_file(options: Options, commit: ListedCommit) -> str:
    """Return the URL below which the files of a listed commit are read."""
    place = f"{options.github.raw}/{commit.repository}/{commit.sha}"
    return f"{place}/{quoted_repository_path(commit.folder)}" if commit.folder else place

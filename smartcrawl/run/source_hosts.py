"""The hosts that a run of a source may ask, as far as they are known before it."""

from __future__ import annotations

from urllib.parse import urlsplit

from smartcrawl.model.options import Options
from smartcrawl.model.urls import url_host_key
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.hosts import stored_source_hosts
from smartcrawl.sources.base import Source
from smartcrawl.sources.kinds import GITHUB, SHAREPOINT
from smartcrawl.sources.site import SiteSource


def known_source_hosts(
    source: Source, options: Options, connection: Connection | None
) -> frozenset[str]:
    """Return the hosts of the starts, of the scope, and of the stored pages of a source.

    A domain whose subdomains belong to the source is ``.name`` (``rules.side_by_side``). All
    repositories share the hosts of the API, and so do document libraries with Microsoft Graph. A
    folder or a bucket has none, since it has no delays.
    ``connection``: None without a registry.
    """
    if not any(kind.is_polite for kind in source.kinds):
        return frozenset()
    found = {url_host_key(url) for url in (*source.seeds, *source.sitemaps) if _is_web(url)}
    if GITHUB in source.kinds:
        urls = (options.github.web, options.github.api, options.github.raw)
        found |= {url_host_key(url) for url in urls}
    if SHAREPOINT in source.kinds:
        found |= source.scope.hosts
        if options.sharepoint.api == "graph":
            found.add(url_host_key(options.sharepoint.graph_url))
    if isinstance(source, SiteSource):
        found |= source.scope.hosts
        found |= {f".{name}" for name in source.scope.domains}
        found |= {f".{name}" for name in source.data_hosts}
    if connection is not None:
        found |= set(stored_source_hosts(connection, source.name))
    return frozenset(host for host in found if host.strip("."))


def _is_web(url: str) -> bool:
    return urlsplit(url).scheme in ("http", "https")

"""Known addresses that are nearly the same as a given one."""

from __future__ import annotations

from collections.abc import Sequence

from smartcrawl.model.urls import Trackers, normalize_url, request_url, url_digest
from smartcrawl.registry.connection import Connection

_KNOWN = "SELECT DISTINCT url FROM record WHERE id = ?"


def reported_near_misses(connection: Connection, url: str, trackers: Trackers) -> list[str]:
    """Return known addresses that differ from ``url`` in scheme, slash or www. only."""
    known = request_url(url) or request_url(f"https://{url}")
    if known is None:
        return []
    scheme, _, rest = known.partition("://")
    host, _, path = rest.partition("/")
    other = host.removeprefix("www.") if host.startswith("www.") else f"www.{host}"
    paths: Sequence[str] = (path, path.rstrip("/"), f"{path}/", path.partition("?")[0])
    found: dict[str, None] = {}
    for way in (scheme, "http" if scheme == "https" else "https"):
        for name in (host, other):
            for tail in paths:
                key = url_digest(normalize_url(f"{way}://{name}/{tail}", trackers))
                for (near,) in connection.execute(_KNOWN, (key,)):
                    found[str(near)] = None
    return list(found)

"""The look-up of a new source's hosts before its first run: a typo leaves nothing behind."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

from smartcrawl.model.exceptions import SourceError
from smartcrawl.model.options import Options
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.names import stored_source_names
from smartcrawl.sources.base import Source

_RESOLVER: Final = "smartcrawl.engine.download.network.GuardedResolver"
_SECONDS: Final = 10  #: after which the run begins, and meets the name server itself


async def resolve_crawled_hosts(
    source: Source, options: Options, settings: Mapping[str, Any]
) -> None:
    """Refuse a source that was never crawled if no host of its seeds and sitemaps resolves.

    With a proxy, or a resolver of the user's own, names are not looked up here.

    Raises:
        SourceError: no host has an address; nothing was recorded.
    """
    if str(settings["HTTPPROXY_ENABLED"]) in ("1", "True", "true"):
        return
    if settings["TWISTED_DNS_RESOLVER"] != _RESOLVER:
        return
    urls = (*source.seeds, *source.sitemaps)
    hosts = dict.fromkeys(urlsplit(url).hostname or "" for url in urls)
    if not hosts:  # the source of single pages has only pinned ones
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(_SECONDS):
            reason = await _unresolved(hosts)
            if reason is not None and not _is_known(source.name, options):
                raise SourceError(_refusal(list(hosts), reason))


def _refusal(hosts: list[str], reason: str) -> str:
    names = f"the host name {hosts[0]}" if len(hosts) == 1 else f"none of {', '.join(hosts)}"
    can = "cannot" if len(hosts) == 1 else "can"
    return (
        f"{names} {can} be resolved ({reason}); nothing was recorded. Check the spelling, "
        "and that this machine is online"
    )


async def _unresolved(hosts: Iterable[str]) -> str | None:
    """Return why no host resolves, or None as soon as one does."""
    reason = "no name"
    for host in hosts:
        try:
            await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError as error:
            reason = error.strerror or str(error)
        except UnicodeError:
            reason = "not a host name"
        else:
            return None
    return reason


def _is_known(source: str, options: Options) -> bool:
    """Whether the registry has the source, so that a run of it records the failure."""
    database = registry_database(options.registry)
    if not database.exists():
        return False
    with database.translated("read"):
        connection = database.open()
        try:
            return source in stored_source_names(connection)
        finally:
            connection.close()

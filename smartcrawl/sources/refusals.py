"""Sources that an address belongs to, and the reasons of the others to refuse it."""

from __future__ import annotations

from collections.abc import Iterable

from smartcrawl.model.urls import request_url
from smartcrawl.sources.base import Source


def belongs_to_source(source: Source, url: str) -> bool:
    """Whether an address is in a source's scope, or in the scope that its seed may move to.

    The scope of an ad-hoc source moves with its seed between a host and that host with
    ``www.``. When the seed fails, its target is unknown, and no page is excluded for that.
    """
    if source.scope.allows(url):
        return True
    moved = source.scope.moved_to(url) if source.ad_hoc else None
    return moved is not None and moved.allows(url)


def source_refusals(sources: Iterable[Source], url: str) -> dict[str, str]:
    """Return the reasons of sources with the address's host or root to refuse it, by name."""
    requested = request_url(url)
    found: dict[str, str] = {}
    for source in sources:
        why = source.scope.refusal(url)
        known = url if source.lists(url) else requested
        if known is not None and why is not None and source.scope.holds(known):
            found[source.name] = why
    return found

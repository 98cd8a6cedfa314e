"""The API that a library is asked by (SHAREPOINT_API)."""

from __future__ import annotations

from smartcrawl.model.option_groups import SharepointOptions
from smartcrawl.sources.sharepoint.access import Fetch, KnownDrive, LibraryApi
from smartcrawl.sources.sharepoint.graph import GraphApi
from smartcrawl.sources.sharepoint.rest import RestApi
from smartcrawl.sources.sharepoint.source import SharepointSource


def library_api(
    source: SharepointSource,
    options: SharepointOptions,
    fetch: Fetch,
    known: KnownDrive | None = None,
) -> LibraryApi:
    """Return the client of a source's API; no request is sent yet.

    ``known``: the drive as the last listing had it, of which Graph lists the changes alone.

    Raises:
        SettingError: credentials are missing or wrong.
    """
    if options.api == "graph":
        return GraphApi(source, options, fetch, known=known)
    return RestApi(source, options, fetch)

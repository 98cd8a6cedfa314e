"""Domains of document libraries: sources, what their steps owe, and the last reports."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from smartcrawl.server.pages.pages import Pages

_KINDS: Final = {
    "file_sources": "library",
    "list_sources": "list",
    "sitepage_sources": "site pages",
}
#: What is owed, in words, by the step that does it.
_OWED: Final = {"download": "to download", "process": "to process", "embed": "to embed"}


def add_pages(pages: Pages) -> None:
    """Add the page."""

    async def show(request: Request) -> Response:
        found = await pages.read(request, "/api/v1/libraries")
        domains = [(domain, _rows(domain)) for domain in found["domains"]]
        values: dict[str, Any] = {"domains": domains, "found": found}
        return pages.show(request, "libraries.html", title="Libraries", **values)

    pages.add("/libraries", show, navigated="Libraries")


def _rows(domain: dict[str, Any]) -> list[tuple[dict[str, Any], str, str]]:
    """Return the sources of a domain, each with its kind and with what is owed, in words."""
    return [
        (source, _KINDS[source["sourceType"]], library_owed_words(source))
        for source in domain["sources"]
    ]


def library_owed_words(source: dict[str, Any]) -> str:
    """Return what the steps of a library owe, in words; "": nothing.

    >>> library_owed_words({"owed": {"download": 1, "process": 0, "embed": 3}, "embedFailed": 2})
    '1 to download, 3 to embed, 2 of them refused'
    """
    owed = source["owed"]
    words = [f"{owed[step]:,} {text}" for step, text in _OWED.items() if owed[step]]
    if source["embedFailed"]:
        words.append(f"{source['embedFailed']:,} of them refused")
    return ", ".join(words)

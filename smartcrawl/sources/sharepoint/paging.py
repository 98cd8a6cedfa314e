"""The walk from page to page of a listing: links that stay within it, and an end."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote, urljoin, urlsplit

from smartcrawl.model.redaction import redacted_line
from smartcrawl.sources.sharepoint.access import (
    LibraryRefusedError,
    library_origin,
    sharepoint_words,
)

_SLACK: Final = 1_000  #: pages of a listing beyond the number of its items
_MOST_PROBLEMS: Final = 100  #: that are named; the rest is counted


class PageWalk:
    """The links of one listing: each once, on the same origin, and of the same list."""

    def __init__(
        self, first: str, *others: str, items: int | None = None, also: str | None = None
    ) -> None:
        """Set up the walk from the first page.

        ``others``: other addresses of the list. ``also``: pattern of further paths, in lower case.
        ``items``: how many the list may have.
        """
        self.page = 1
        self._origin = library_origin(first)
        self._paths = {_path(url) for url in (first, *others)}
        self._also = re.compile(also) if also else None
        self._seen = {first}
        self._most = None if items is None else items + _SLACK

    def following(self, link: str, current: str) -> str:
        """Return the URL of the next page.

        Raises:
            LibraryRefusedError: the link leaves the list, or was followed before.
        """
        url = self.checked(link, current)
        if url in self._seen:
            raise LibraryRefusedError(
                f"the link to page {self.page + 1} leads to a page that was read; crawl again later"
            )
        self.page += 1
        if self._most is not None and self.page > self._most:
            raise LibraryRefusedError(
                f"the listing has more than {self._most:,} pages, and fewer items; crawl again"
                " later"
            )
        self._seen.add(url)
        return url

    def checked(self, link: str, current: str) -> str:
        """Return the whole URL of a link.

        Raises:
            LibraryRefusedError: the link leaves the list.
        """
        try:
            url = urljoin(current, link)
            origin, path = library_origin(url), _path(url)
        except ValueError as error:
            raise LibraryRefusedError(
                f"the link to page {self.page + 1} is not a URL; crawl again later"
            ) from error
        if origin != self._origin:
            raise LibraryRefusedError(
                f"the link to page {self.page + 1} leads to {sharepoint_words(origin)}, which gets"
                " no token; check site_url, and that no proxy changes answers"
            )
        if path not in self._paths and not (self._also and self._also.fullmatch(path)):
            raise LibraryRefusedError(
                f"the link to page {self.page + 1} leads to another list"
                f" ({sharepoint_words(path)}); crawl again later"
            )
        return url


def _path(url: str) -> str:
    """Return the path of a URL for comparison: servers encode and spell their own differently."""
    return unquote(urlsplit(url).path).lower().rstrip("/")


class Problems:
    """The problems of one listing, each with its place."""

    def __init__(self, place: str) -> None:
        """Set up; ``place``: the library, for the messages."""
        self.named: list[str] = []
        self._place = place
        self._more = 0

    def add(self, why: str) -> None:
        """Note a problem; from the hundred-and-first on they are counted only."""
        if len(self.named) < _MOST_PROBLEMS:
            self.named.append(redacted_line(f"{self._place} ({why})"))
            return
        if self._more:
            self.named.pop()
        self._more += 1
        self.named.append(f"{self._place} ({self._more:,} more problems like these)")

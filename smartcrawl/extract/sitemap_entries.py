"""Entries of a sitemap or a feed, its formats and its faults."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum, auto
from typing import Final, NamedTuple

import can_ada

from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.urls import join_url

MAX_ENTRIES: Final = 50_000  #: addresses read from one sitemap
WEB: Final = re.compile(r"https?://\S+", re.IGNORECASE).fullmatch  #: the form of an address
MAX_LASTMOD: Final = 64  #: characters
MAX_TEXT: Final = 4_096  #: characters of one element, or of one line
MAX_ELEMENTS: Final = 2_000_000  #: or lines of text; a genuine element has 40 bytes or more


class SitemapKind(StrEnum):
    """The format of a sitemap."""

    URLSET = auto()  #: sitemaps.org, of pages
    INDEX = auto()  #: sitemaps.org, of other sitemaps
    TEXT = auto()  #: one address a line
    LLMS_TXT = auto()  #: Markdown with links
    RSS = auto()  #: 0.9 to 2.0
    ATOM = auto()

    @property
    def is_feed(self) -> bool:
        """Whether it names new pages only, not all pages."""
        return self in (SitemapKind.RSS, SitemapKind.ATOM)


class SitemapFault(StrEnum):
    """Reasons to take nothing from a body."""

    XML_FORBIDDEN = auto()  #: it has a document type declaration
    TOO_LARGE = auto()  #: more than ``MAX_SITEMAP`` bytes, unpacked, or ``MAX_ELEMENTS``
    BROKEN = auto()  #: XML that is not well-formed or has another root, or truncated gzip
    NOT_A_SITEMAP = auto()  #: HTML, other text, other bytes, nothing


class SitemapError(SmartcrawlError):
    """A body that is no sitemap, or cannot be read to its end; nothing of it counts."""

    def __init__(self, message: str, kind: SitemapFault) -> None:
        super().__init__(message)
        self.kind = kind


class Entry(NamedTuple):
    """One address of a sitemap.

    ``url`` is one to request (see ``urls.request_url``). ``lastmod`` is as written, at most 64
    characters, empty when there is none; it need not be a date.
    """

    url: str
    lastmod: str


@dataclass(frozen=True, slots=True)
class Sitemap:
    """The entries of a sitemap or a feed, and whether they are complete."""

    kind: SitemapKind
    entries: tuple[Entry, ...]  #: distinct by address, in document order; of an index: sitemaps
    cut: bool  #: whether there are more than ``MAX_ENTRIES``
    dropped: int  #: entries without an http(s) address of at most 2,083 characters


@dataclass(slots=True)
class SitemapAddresses:
    """The addresses found so far, in document order, each with its first date."""

    lastmods: dict[str, str] = field(default_factory=dict)  #: by address
    cut: bool = False
    dropped: int = 0

    def add(self, url: str | None, lastmod: str = "") -> None:
        """Add an entry; None stands for one without an address."""
        if url is None:
            self.dropped += 1
        elif not (known := self.lastmods.get(url)):
            if known is None and len(self.lastmods) >= MAX_ENTRIES:
                self.cut = True
            else:
                self.lastmods[url] = lastmod

    def sitemap(self, kind: SitemapKind) -> Sitemap:
        """Return the sitemap of these addresses."""
        entries = tuple(Entry(url, lastmod) for url, lastmod in self.lastmods.items())
        return Sitemap(kind, entries, self.cut, self.dropped)


def join_sitemap_link(base: can_ada.URL, href: str) -> str | None:
    """Return ``href`` as a URL to request; None for an empty one, not the sitemap itself."""
    return join_url(base, href) if href else None


def sitemap_too_large(name: str, bound: str) -> SitemapError:
    """Return the error of a sitemap beyond a limit."""
    return SitemapError(
        f"{name} has more than {bound}: split it, and name its parts in a sitemap index",
        SitemapFault.TOO_LARGE,
    )

"""Nouns of content: links, images, sections, chunks, documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

CUT: Final = "cut"  #: type of the mark that some links were not stored: a link to the page itself


class Link(NamedTuple):
    """One outgoing link of a page, before any filter (M-02).

    ``url`` is absolute, without fragment and credentials. ``type`` is ``hyperlink``, ``frame``,
    ``refresh``, ``next``, ``prev``, ``alternate``, ``canonical`` or ``redirect``; those of a
    sitemap or feed are ``entry`` and ``sitemap``, and ``anchor`` is their lastmod. ``nofollow`` is
    true for ``rel=nofollow`` on the link itself; a page's own nofollow is on the document. The type
    ``cut`` is a link to the page itself: the page has more links than are kept.
    """

    url: str
    anchor: str
    type: str
    nofollow: bool


class Image(NamedTuple):
    """One image of a page.

    ``src`` is as written, without fragment, so that equal bodies have equal hashes; it is absolute
    on a page with ``<base href>``. Width and height are CSS pixels, from its attributes.
    ``context`` is its caption, title or heading, at most 300 characters.
    """

    src: str
    alt: str
    width: int | None = None
    height: int | None = None
    context: str = ""


class Section(NamedTuple):
    """One heading (``level`` 1 to 6, or 0 before the first) and the text below it."""

    level: int
    heading: str
    text: str


class Chunk(NamedTuple):
    """A searchable part of a document: heading path, outermost first, and ≤ 1,500 characters."""

    headings: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """The contents of one body. Nothing in it depends on the configuration of the crawl."""

    title: str = ""
    description: str = ""
    language: str = ""  #: ISO 639-1, empty when unsure
    sections: tuple[Section, ...] = ()
    images: tuple[Image, ...] = ()
    links: tuple[Link, ...] = ()  #: unfiltered, distinct by URL, in document order
    canonical: str | None = None  #: absolute URL
    noindex: bool = False  #: meta robots
    nofollow: bool = False  #: meta robots
    links_cut: bool = False  #: whether there are more than are kept
    overlong: tuple[str, ...] = ()  #: beginnings of links that are too long to be requested
    charset: str = ""  #: as used for decoding
    content_type: str = ""  #: MIME type without parameters
    declared: str = ""  #: ISO 639-1, the language that it declares
    keywords: str = ""  #: of ``<meta name="keywords">``, as written; not searched

    @property
    def text(self) -> str:
        """Headings and text in reading order, one block a line."""
        return "\n".join(part for s in self.sections for part in (s.heading, s.text) if part)

    @property
    def text_length(self) -> int:
        """Characters of ``text``."""
        sizes = [len(part) for s in self.sections for part in (s.heading, s.text) if part]
        return sum(sizes) + max(0, len(sizes) - 1)

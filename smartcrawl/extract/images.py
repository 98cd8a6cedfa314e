"""The images of a page: their addresses, and the text around them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import can_ada

from smartcrawl.extract.sections import Heading, markup_line
from smartcrawl.model.documents import Image
from smartcrawl.model.urls import MAX_URL_LENGTH, join_url, unsigned_url

MAX_IMAGES: Final = 1_000  #: of one page
MAX_ALT: Final = 1_000  #: characters
MAX_CONTEXT: Final = 300  #: characters
MAX_SIDE: Final = 100_000  #: CSS pixels

_SOURCES: Final = ("src", "data-src", "data-original", "data-lazy-src")
_SETS: Final = ("srcset", "data-srcset")
_FOREIGN: Final = re.compile(r"\s*+(?!https?:)[a-z][a-z0-9+.-]*+:", re.IGNORECASE)
_PIXELS: Final = re.compile(r"\s*+([0-9]{1,6}+)(?:\.[0-9]*+)?+(?![0-9%])")
_CANDIDATE: Final = re.compile(r"([^\s,]\S*(?<!,))(?:\s++([^\s,]+))?[^,]*")
_CANDIDATES: Final = 100  # of a ``srcset`` that are read
_SIZE: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?(?=[wx]\Z)")
_TOKENS: Final = 400  # of a caption or heading that are read, and so many characters
_CHARACTERS: Final = 2_000


@dataclass(slots=True)
class _Found:
    """An image, and the texts that may become its context."""

    alt: str
    width: int | None
    height: int | None
    title: str = ""
    caption: str = ""
    heading: int = -1  #: index of the heading at or before it
    announced: bool = False  #: named by Open Graph, and not met on the page so far


@dataclass(slots=True)
class _Figure:
    """An open ``<figure>``."""

    members: list[_Found] = field(default_factory=list)
    caption: str = ""
    start: int | None = None  #: first token of its ``<figcaption>`` while that is open


class ParsedImages:
    """The images of one page, collected as they are met.

    Images are distinct by their address as written. The first occurrence counts, but a later one
    may add an alternative text. An image that is announced for other sites (``og:image``) is an
    image of the page, too; an occurrence on the page counts more.

    Source: R0-59, G-02; HTML Standard, section 4.8.4; The Open Graph protocol.
    """

    __slots__ = ("_announced", "_figures", "_found", "_offered")

    def __init__(self) -> None:
        self._found: dict[str, _Found] = {}
        self._announced: _Found | None = None  # the last one; the next properties belong to it
        self._figures: list[_Figure] = []
        self._offered: str | None = None  # address from the sources of the open ``<picture>``

    def add(self, attributes: Mapping[str, str], alt: str, heading: int) -> str:
        """Take an ``<img>`` and return its address; ``heading``: index of the one at or before it.

        An image without an http(s) address is skipped, and so is one of at most one pixel.
        """
        width, height = _pixels(attributes.get("width")), _pixels(attributes.get("height"))
        if width is not None and height is not None and width <= 1 and height <= 1:
            return ""
        src = _source(attributes) or self._offered
        if not src:
            return ""
        alt = alt[:MAX_ALT].rstrip()
        known = self._found.get(src)
        if known is not None and not known.announced:
            known.alt = known.alt or alt
            return src
        if known is not None:
            del self._found[src]
            alt = alt or known.alt
            width, height = width or known.width, height or known.height
        elif len(self._found) >= MAX_IMAGES:
            return ""
        title = attributes.get("title", "")
        title = title and markup_line(title)[:MAX_CONTEXT].rstrip()
        found = _Found(alt, width or None, height or None, title, heading=heading)
        self._found[src] = found
        if self._figures:
            self._figures[-1].members.append(found)
        return src

    def announce(self, name: str, content: str) -> None:
        """Take a property of Open Graph whose name begins with ``og:image``."""
        if name in ("og:image", "og:image:url"):
            src = _usable(content)
            if src and src not in self._found and len(self._found) < MAX_IMAGES:
                self._found[src] = _Found("", None, None, announced=True)
            self._announced = self._found.get(src)
        elif self._announced is not None and self._announced.announced:
            match name:
                case "og:image:alt":
                    self._announced.alt = markup_line(content)[:MAX_ALT].rstrip()
                case "og:image:width":
                    self._announced.width = _pixels(content) or None
                case "og:image:height":
                    self._announced.height = _pixels(content) or None

    def open_picture(self) -> None:
        """Take the start of a ``<picture>``."""
        self._offered = ""

    def offer(self, attributes: Mapping[str, str]) -> None:
        """Take a ``<source>``; in a ``<picture>`` it serves an ``<img>`` without address."""
        if self._offered == "":
            self._offered = _of_set(attributes)

    def close_picture(self) -> None:
        """Take the end of a ``<picture>``."""
        self._offered = None

    def open_figure(self) -> None:
        """Take the start of a ``<figure>``."""
        self._figures.append(_Figure())

    def open_caption(self, start: int) -> None:
        """Take the start of a ``<figcaption>``, whose first token will be ``start``."""
        if self._figures and self._figures[-1].start is None:
            self._figures[-1].start = start

    def close_caption(self, tokens: Sequence[str]) -> None:
        """Take the end of a ``<figcaption>``."""
        figure = self._figures[-1] if self._figures else None
        if figure is not None and figure.start is not None:
            figure.caption = figure.caption or _context(tokens, figure.start, len(tokens))
            figure.start = None

    def close_figure(self) -> None:
        """Take the end of a ``<figure>``; without a caption it uses that of its outer figure."""
        figure = self._figures.pop()
        if figure.caption:
            for found in figure.members:
                found.caption = figure.caption
        elif self._figures:
            self._figures[-1].members += figure.members

    def images(self, tokens: Sequence[str], headings: Sequence[Heading]) -> dict[str, Image]:
        """Return the images in document order, by address as written.

        An image's context is the caption of its figure, or else its title attribute, or else the
        nearest heading before it that has text.
        """
        images: dict[str, Image] = {}
        near, done = "", 0  # text of the last heading before ``done`` that has some
        for src, found in self._found.items():
            context = found.caption or found.title
            if not context:
                for heading in reversed(headings[done : found.heading + 1]):
                    text = _context(tokens, heading.start, heading.end)
                    if text:
                        near = text
                        break
                done = max(done, found.heading + 1)
                context = near
            title = found.title if found.caption else ""
            images[src] = Image(src, found.alt, found.width, found.height, context, title)
        return images


def document_images(images: Iterable[Image], base: can_ada.URL) -> tuple[Image, ...]:
    """Return images of a page with ``<base href>``, distinct by their absolute addresses."""
    found: dict[str, Image] = {}
    for image in images:
        src = join_url(base, image.src)
        if src is not None:
            src = unsigned_url(src)
            known = found.setdefault(src, image._replace(src=src))
            if image.alt and not known.alt:
                found[src] = known._replace(alt=image.alt)
    return tuple(found.values())


def _source(attributes: Mapping[str, str]) -> str:
    """Return the address of an ``<img>``, or the one that a script will set, or an empty string."""
    for name in _SOURCES:
        value = attributes.get(name)
        if value is not None and (src := _usable(value)):
            return src
    return _of_set(attributes)


def _usable(address: str) -> str:
    """Return an address without fragment, or an empty string when its scheme is not http(s).

    >>> _usable(" a.png#x"), _usable("data:image/gif;base64,R0"), _usable("#x")
    ('a.png', '', '')
    """
    if _FOREIGN.match(address):
        return ""
    src = address.partition("#")[0].strip()
    return src if len(src) <= MAX_URL_LENGTH else ""


def _of_set(attributes: Mapping[str, str]) -> str:
    """Return the largest candidate of a ``srcset``, the first of equals, or an empty string."""
    best, most = "", -1.0
    for name in _SETS:
        for candidate in islice(_CANDIDATE.finditer(attributes.get(name, "")), _CANDIDATES):
            match = _SIZE.match(candidate[2] or "")
            size = float(match[0]) if match else 1.0
            if size > most and (src := _usable(candidate[1])):
                best, most = src, size
        if best:
            break
    return best


def _pixels(value: str | None) -> int | None:
    """Return a width or height in CSS pixels; None when it is no number up to ``MAX_SIDE``.

    >>> _pixels("640"), _pixels("12.5px"), _pixels("0"), _pixels("50%"), _pixels("auto")
    (640, 12, 0, None, None)
    """
    match = _PIXELS.match(value) if value is not None else None
    return int(match[1]) if match and int(match[1]) <= MAX_SIDE else None


def _context(tokens: Sequence[str], start: int, end: int) -> str:
    """Return the beginning of some tokens as one line."""
    text = ""
    for token in tokens[start : min(end, start + _TOKENS)]:
        text += token[:_CHARACTERS]
        if len(text) > _CHARACTERS:
            break
    return markup_line(text)[:MAX_CONTEXT].rstrip()

"""Pages as an index elsewhere takes them."""

from __future__ import annotations

from dataclasses import dataclass

from smartcrawl.model.documents import Chunk


@dataclass(frozen=True, slots=True)
class IndexedImage:
    """One image of a page, as an index elsewhere takes it."""

    id: str
    src: str  #: absolute
    alt: str
    context: str
    width: int | None  #: CSS pixels
    height: int | None  #: CSS pixels


@dataclass(frozen=True, slots=True)
class IndexedPage:
    """What an index elsewhere takes of one page; without a ``mark`` the page is taken out of it."""

    no: int
    source: str
    id: bytes  #: SHA-256 of the normalized source
    mark: bytes | None = None  #: hash of the content
    url: str = ""
    canonical_url: str | None = None
    content_group: str = ""
    last_changed: int | None = None  #: Unix seconds
    mime_type: str = ""
    depth: int = 0
    title: str = ""
    description: str = ""
    language: str = ""
    chunks: tuple[Chunk, ...] = ()
    images: tuple[IndexedImage, ...] = ()

"""Pages in the form of an external index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from smartcrawl.model.documents import Chunk


class EmbedderKey(NamedTuple):
    """Name, model and dimension of an embedder; vectors of different keys are never compared."""

    name: str
    model: str
    dimension: int


@dataclass(frozen=True, slots=True)
class IndexedImage:
    """One image of a page, in the form of an external index."""

    id: str
    src: str  #: absolute
    alt: str
    context: str
    width: int | None  #: CSS pixels
    height: int | None  #: CSS pixels


@dataclass(frozen=True, slots=True)
class IndexedPage:
    """One page of an external index; a page without a ``mark`` is deleted from it."""

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
    vectors: Mapping[bytes, bytes] = field(default_factory=dict)  #: by the digests of chunks

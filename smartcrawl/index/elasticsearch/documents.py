"""Documents of pages, with chunks and images inside, so that a page is replaced at once."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from smartcrawl.index.elasticsearch.mapping import analyzer_suffix
from smartcrawl.model.documents import Chunk
from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.model.urls import url_item_id

_BITS: Final = 40  #: low bits of a version for the claim number; the epoch is above them


def index_version(epoch: int, number: int) -> int:
    """Return the version of a write under a claim number.

    >>> index_version(1, 7)
    1099511627783

    Raises:
        ValueError: the number does not fit.
    """
    if epoch < 0 or not 0 <= number < 1 << _BITS:
        raise ValueError(f"no version can be made of epoch {epoch} and number {number}")
    return epoch << _BITS | number


def epoch_of_index_version(version_: int) -> int:
    """Return the epoch of a version."""
    return version_ >> _BITS


def claim_of_index_version(version_: int) -> int:
    """Return the claim number of a version."""
    return version_ & ((1 << _BITS) - 1)


_DIGITS: Final = 8  #: decimal places of the numbers of a vector, of which float32 keeps fewer


@dataclass(frozen=True, slots=True)
class ElasticsearchImage:
    """One image of a page."""

    id: str  #: id of its own document (R0-64)
    src: str  #: absolute
    alt: str = ""
    context: str = ""
    width: int | None = None  #: CSS pixels
    height: int | None = None  #: CSS pixels

    def as_json(self, page_id: str, page_url: str) -> dict[str, Any]:
        """Return it as a child of a page, under the names of the mapping.

        Unknown values are left out.

        Source: R0-26, R0-64, R0-65.
        """
        fields = {
            "id": self.id,
            "parentPageId": page_id,
            "parentPageUrl": page_url,
            "source": page_url,
            "src": self.src,
            "alt": self.alt,
            "context": self.context,
            "width": self.width,
            "height": self.height,
        }
        return {name: value for name, value in fields.items() if value not in (None, "")}


@dataclass(frozen=True, slots=True)
class PageDocument:
    """The searchable document of one page."""

    source: str
    url_hash: bytes  #: SHA-256 of the normalized address: the registry's id
    url: str
    content_hash: bytes
    title: str = ""
    description: str = ""
    language: str = ""  #: ISO 639-1, empty when unsure
    canonical_url: str | None = None
    content_group: str | None = None  #: contentGroupId (R0-74)
    last_changed: int | None = None  #: Unix seconds
    mime_type: str = ""
    depth: int = 0
    chunks: Sequence[Chunk] = ()
    images: Sequence[ElasticsearchImage] = ()
    vectors: Mapping[bytes, bytes] = field(default_factory=dict)  #: by the digests of chunks

    @property
    def id(self) -> str:
        """The registry's id of the page, which is the same in every index (R0-02)."""
        return url_item_id(url_item_kind(self.url), self.url_hash)

    @property
    def key(self) -> str:
        """Its ``_id``."""
        return index_document_key(self.source, self.url_hash)

    def as_json(self) -> dict[str, Any]:
        """Return it as it is written, without unknown values.

        Title, headings and text of a chunk are in the fields of its language: ``text_en``, or
        ``text`` for a language without an analyzer. A page without text has one chunk, by which
        its title is found.
        """
        ending = analyzer_suffix(self.language)
        some = self.chunks or (Chunk((), ""),)
        digests = [chunk.digest(self.title) for chunk in some]
        chunks = [
            {
                "position": position,
                "level": chunk.level,
                "types": list(chunk.types),
                "repeated": chunk.repeated,
                "hash": digest.hex(),
                f"title{ending}": self.title,
                f"headings{ending}": chunk.path,
                f"text{ending}": chunk.text,
            }
            | self._vector(digest)
            for position, (chunk, digest) in enumerate(zip(some, digests, strict=True))
        ]
        fields = {
            "key": self.key,
            "id": self.id,
            "source": self.source,
            "url": self.url,
            "urlLength": len(self.url),
            "urlHash": self.url_hash.hex(),
            "canonicalUrl": self.canonical_url,
            "title": self.title,
            "description": self.description,
            "language": self.language,
            "contentHash": f"sha256:{self.content_hash.hex()}",
            "contentGroupId": self.content_group,
            "lastChanged": None
            if self.last_changed is None
            else index_timestamp(self.last_changed),
            "mimeType": self.mime_type,
            "depth": self.depth,
            "vectorsHash": index_vectors_hash(one for one in digests if one in self.vectors),
            "chunks": chunks,
            "images": [image.as_json(self.id, self.url) for image in self.images],
        }
        return {name: value for name, value in fields.items() if value not in (None, "", [])}

    def _vector(self, digest: bytes) -> dict[str, Any]:
        """Return the vector of a chunk as a field; nothing where it has none."""
        if digest not in self.vectors:
            return {}
        numbers = array("f", self.vectors[digest])
        if sys.byteorder == "big":
            numbers.byteswap()
        return {"vector": [round(number, _DIGITS) for number in numbers]}


def index_vectors_hash(digests: Iterable[bytes]) -> str:
    """Return the hash of the set of chunks that have a vector, by their digests; empty for none.

    >>> index_vectors_hash([b"a", b"b"]) == index_vectors_hash([b"b", b"a", b"b"])
    True
    >>> index_vectors_hash([])
    ''
    """
    some = sorted(set(digests))
    return f"sha256:{sha256(b''.join(some)).hexdigest()}" if some else ""


def index_document_key(source: str, url_hash: bytes) -> str:
    """Return the ``_id`` of a page.

    >>> index_document_key("docs", bytes.fromhex("8c1f"))
    'docs:8c1f'
    """
    return f"{source}:{url_hash.hex()}"


def index_tombstone(of: str, now: int) -> dict[str, Any]:
    """Return the tombstone of a removed page; ``of`` is its key.

    The tombstone has the number of the removal as its version, so that no older write brings the
    page back: Elasticsearch itself forgets the versions of deleted documents after a minute.
    """
    return {
        "key": of,
        "source": of.rpartition(":")[0],
        "deleted": True,
        "deletedAt": index_timestamp(now),
    }


def index_timestamp(seconds: int) -> str:
    """Return Unix seconds as ISO 8601 (M-44).

    >>> index_timestamp(1_750_000_000)
    '2025-06-15T15:06:40Z'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

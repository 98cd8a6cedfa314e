"""Documents of pages, with chunks and images inside; the fields and template of their index.

Searches use the words that are made here, as the embedded index has them; they are not stored.
For queries of others there is a text analyzer for each language, without a list of stop words.
They stay, because people search for them ("the who", "to be"). Accents are folded last, because
stemmers need them.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from smartcrawl.index.analysis.names import name_words
from smartcrawl.index.analysis.stems import chunk_words
from smartcrawl.model.documents import Chunk, ChunkPlace, EmbedderKey
from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.model.urls import url_item_id

_FOLD: Final = "asciifolding"

#: Filters of each language by ISO 639-1 code; ``stem_…`` and ``elide_…`` are declared below.
_CHAINS: Final[Mapping[str, tuple[str, ...]]] = {
    "ar": ("lowercase", "decimal_digit", "arabic_normalization", "stem_arabic"),
    "bg": ("lowercase", "stem_bulgarian"),
    "bn": ("lowercase", "decimal_digit", "indic_normalization", "bengali_normalization",
           "stem_bengali"),
    "ca": ("elide_catalan", "lowercase", "stem_catalan"),
    "cs": ("lowercase", "stem_czech"),
    "da": ("lowercase", "stem_danish"),
    "de": ("lowercase", "german_normalization", "stem_light_german"),
    "el": ("lowercase_greek", "stem_greek"),
    "en": ("stem_possessive_english", "lowercase", "stem_english"),
    "es": ("lowercase", "stem_light_spanish"),
    "et": ("lowercase", "stem_estonian"),
    "eu": ("lowercase", "stem_basque"),
    "fa": ("lowercase", "decimal_digit", "arabic_normalization", "persian_normalization"),
    "fi": ("lowercase", "stem_finnish"),
    "fr": ("elide_french", "lowercase", "stem_light_french"),
    "ga": ("lowercase_irish", "stem_irish"),
    "gl": ("lowercase", "stem_galician"),
    "hi": ("lowercase", "decimal_digit", "indic_normalization", "hindi_normalization",
           "stem_hindi"),
    "hu": ("lowercase", "stem_hungarian"),
    "hy": ("lowercase", "stem_armenian"),
    "id": ("lowercase", "stem_indonesian"),
    "it": ("elide_italian", "lowercase", "stem_light_italian"),
    "lt": ("lowercase", "stem_lithuanian"),
    "lv": ("lowercase", "stem_latvian"),
    "nl": ("lowercase", "stem_dutch"),
    "nn": ("lowercase", "stem_light_nynorsk"),
    "no": ("lowercase", "stem_norwegian"),
    "pt": ("lowercase", "stem_light_portuguese"),
    "ro": ("lowercase", "stem_romanian"),
    "ru": ("lowercase", "stem_russian"),
    "sv": ("lowercase", "stem_swedish"),
    "tr": ("apostrophe", "lowercase_turkish", "stem_turkish"),
    "zh": ("cjk_width", "lowercase", "cjk_bigram"),
}  # fmt: skip
#: Languages that are analyzed like another one.
_LIKE: Final[Mapping[str, str]] = {"ja": "zh", "ko": "zh", "nb": "no"}
_ARTICLES: Final[Mapping[str, str]] = {
    "catalan": "d l m n s t",
    "french": "l m t qu n s j d c jusqu quoiqu lorsqu puisqu",
    "italian": "c l all dall dell nell sull coll pell gl agl dagl degl negl sugl un m t s v d",
}

#: Endings of field names: one for each language, and an empty one for all others.
SUFFIXES: Final[tuple[str, ...]] = ("", *(f"_{code}" for code in _CHAINS))


def analyzer_suffix(language: str) -> str:
    """Return the ending of the fields for text of a language.

    >>> analyzer_suffix("en"), analyzer_suffix("ja"), analyzer_suffix("pl"), analyzer_suffix("")
    ('_en', '_zh', '', '')
    """
    code = _LIKE.get(language, language)
    return f"_{code}" if code in _CHAINS else ""


def analyzer(ending: str) -> str:
    """Return the name of the analyzer of the fields with an ending."""
    return f"smartcrawl{ending}"


def analysis() -> dict[str, Any]:
    """Return the index settings that declare all analyzers."""
    chains = {"": ("lowercase",)} | {f"_{code}": chain for code, chain in _CHAINS.items()}
    return {
        "analyzer": {
            analyzer(ending): {
                "type": "custom",
                "tokenizer": "standard",
                "filter": [*chain, _FOLD],
            }
            for ending, chain in chains.items()
        },
        "filter": {
            name: _declared(name)
            for name in sorted({name for chain in chains.values() for name in chain})
            if name.startswith(("stem_", "elide_", "lowercase_"))
        },
    }


def _declared(name: str) -> dict[str, Any]:
    kind, _, language = name.partition("_")
    match kind:
        case "stem":
            return {"type": "stemmer", "language": language}
        case "elide":
            articles = _ARTICLES[language].split()
            return {"type": "elision", "articles": articles, "articles_case": "true"}
        case _:
            return {"type": "lowercase", "language": language}


#: Version of the fields. It rises with each change that an older index cannot take.
MAPPING_VERSION: Final = 3
FORMER_VERSION: Final = 2  #: has no words that are made here; searches use its texts
#: Fields of a chunk that are searched, with their weights, as in the embedded index.
WEIGHTS: Final[Mapping[str, int]] = {"title": 8, "headings": 4, "text": 1, "pictures": 1}
#: Fields of the words of a chunk, which are made here, in the order of ``WEIGHTS``.
WORDS: Final[tuple[str, ...]] = tuple(f"{name}Words" for name in WEIGHTS)
_NESTED_LIMIT: Final = 50_000  #: chunks and images of one page; Elasticsearch's own is 10,000
_LONGEST: Final = 8_191  #: characters of a keyword; a longer one is stored, but not found
_PRIORITY: Final = 500  #: priority among templates that match the same names


def index_settings() -> dict[str, Any]:
    """Return the settings of an index that this program relies on."""
    return {
        "index": {
            "auto_expand_replicas": "0-1",
            "mapping": {"nested_objects": {"limit": str(_NESTED_LIMIT)}},
            "analysis": analysis(),
        }
    }


def index_mappings(embedder: EmbedderKey | None = None) -> dict[str, Any]:
    """Return the fields of a page and of a tombstone, with vectors if there is an embedder."""
    keyword = {"type": "keyword", "ignore_above": _LONGEST}
    text = {"type": "text", "analyzer": analyzer("")}
    meta: dict[str, Any] = {"product": "smartcrawl", "version": MAPPING_VERSION}
    chunk = _chunk()
    page: dict[str, Any] = {}
    if embedder is not None:
        meta["embedder"] = embedder._asdict()
        chunk["vector"] = _vector(embedder.dimension)
        page["vectorsHash"] = keyword
    return {
        "dynamic": "false",
        "_meta": meta,
        "_source": {"excludes": [f"chunks.{name}" for name in WORDS]},
        "properties": {
            "key": keyword,  # the same as _id, which cannot be sorted by
            "id": keyword,  # id of the registry
            "source": keyword,
            "deleted": {"type": "boolean"},
            "deletedAt": {"type": "date"},
            "url": keyword,
            "urlLength": {"type": "integer"},
            "urlHash": keyword,
            "canonicalUrl": keyword,
            "title": text,
            "description": text,
            "language": keyword,
            "contentHash": keyword,
            "contentGroupId": keyword,
            "lastChanged": {"type": "date"},
            "published": {"type": "date"},
            "author": text,
            "mimeType": keyword,
            "depth": {"type": "integer"},
            **page,
            "chunks": {"type": "nested", "dynamic": "false", "properties": chunk},
            "images": {
                "type": "nested",
                "dynamic": "false",
                "properties": {
                    "id": keyword,
                    "parentPageId": keyword,
                    "parentPageUrl": keyword,
                    "source": keyword,  # the address of the page that shows it
                    "src": keyword,
                    "alt": text,
                    "context": text,
                    "width": {"type": "integer"},
                    "height": {"type": "integer"},
                },
            },
        },
    }


def _chunk() -> dict[str, Any]:
    fields = {
        f"{name}{ending}": {"type": "text", "analyzer": analyzer(ending)}
        for ending in SUFFIXES
        for name in WEIGHTS
    }
    words = {name: {"type": "text", "analyzer": "whitespace"} for name in WORDS}
    return {"position": {"type": "integer"}, **fields, **words}


def _vector(dimension: int) -> dict[str, Any]:
    return {
        "type": "dense_vector",
        "dims": dimension,
        "index": True,
        "similarity": "cosine",
        "index_options": {"type": "hnsw"},
    }


def mapped_embedder(mappings: Mapping[str, Any]) -> EmbedderKey | None:
    """Return the embedder whose vectors an index has; None: it has no field for vectors."""
    named = mappings.get("_meta", {}).get("embedder")
    return None if named is None else EmbedderKey(**named)


def index_template(pattern: str, embedder: EmbedderKey | None = None) -> dict[str, Any]:
    """Return the composable template of the indices whose names match a pattern."""
    return {
        "index_patterns": [pattern],
        "priority": _PRIORITY,
        "template": {"settings": index_settings(), "mappings": index_mappings(embedder)},
        "_meta": {"product": "smartcrawl", "version": MAPPING_VERSION},
    }


#: Filter of searches: every document but tombstones.
LIVING: Final[Mapping[str, Any]] = {"bool": {"must_not": [{"term": {"deleted": True}}]}}


def mapping_differences(wanted: Any, found: Any, place: str = "") -> Iterator[str]:
    """Yield the differences of ``found`` from ``wanted``; ``found`` may have more entries.

    Elasticsearch returns settings as texts, so numbers and switches are compared as texts.

    >>> list(
    ...     mapping_differences({"a": {"b": 1, "c": True}}, {"a": {"b": "1", "c": "false", "d": 2}})
    ... )
    ['a.c is false, not true']
    >>> list(mapping_differences({"a": {"b": 1}}, {}))
    ['a is absent']
    """
    if not isinstance(wanted, Mapping):
        texts = [str(one).lower() if isinstance(one, bool) else str(one) for one in (wanted, found)]
        if texts[0] != texts[1]:
            yield f"{place} is {texts[1]}, not {texts[0]}"
        return
    for name, value in wanted.items():
        where = f"{place}.{name}" if place else name
        if not isinstance(found, Mapping) or name not in found:
            yield f"{where} is absent"
        else:
            yield from mapping_differences(value, found[name], where)


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
    published: int | None = None  #: Unix seconds, where the page says it
    author: str = ""
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

        def words_of_chunk(chunk: Chunk, position: int) -> Iterator[tuple[str, str]]:
            texts = (self.title, chunk.path, chunk.text, chunk.pictures)
            names = name_words(*texts[:3], chunk.places, first=not position)
            return zip(WORDS, chunk_words(*texts, self.language, names=names), strict=True)

        digests = [chunk.digest(self.title) for chunk in some]
        chunks = [
            {
                "position": position,
                "level": chunk.level,
                "types": list(chunk.types),
                "repeated": chunk.repeated,
                "hash": digest.hex(),
                "places": [_place(place) for place in chunk.places],
                f"title{ending}": self.title,
                f"headings{ending}": chunk.path,
                f"text{ending}": chunk.text,
            }
            | ({f"pictures{ending}": chunk.pictures} if chunk.pictures else {})
            | {name: words for name, words in words_of_chunk(chunk, position) if words}
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
            "published": None if self.published is None else index_timestamp(self.published),
            "author": self.author,
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


def _place(place: ChunkPlace) -> dict[str, Any]:
    return {"start": place.start, "id": place.id} | ({"defines": True} if place.defines else {})


def indexed_chunk_places(places: Sequence[Mapping[str, Any]]) -> tuple[ChunkPlace, ...]:
    """Return the places of a chunk, as ``PageDocument.as_json`` writes them."""
    return tuple(ChunkPlace(one["start"], one["id"], one.get("defines", False)) for one in places)


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

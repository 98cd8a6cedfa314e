"""Settings, fields, text analyzers and template of an index of pages.

Text analyzers, one for each language, without lists of stop words.

Stop words stay, because people search for them ("the who", "to be"); the embedded index has them,
too. Accents are folded last, because stemmers need them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from smartcrawl.model.documents import EmbedderKey

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
MAPPING_VERSION: Final = 2
#: Fields of a chunk that are searched, with their weights, as in the embedded index.
WEIGHTS: Final[Mapping[str, int]] = {"title": 8, "headings": 4, "text": 1}
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
    return {"position": {"type": "integer"}, **fields}


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

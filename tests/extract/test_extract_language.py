"""Which language a text is in, and when a page's own word counts."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.extract.language import _detector, detected_language

TEXTS = {
    "de": "Der Crawler besucht jede Seite, die er kennt, und fragt, ob sie sich geändert hat.",
    "en": "The crawler visits every page that it knows and asks whether it has changed since.",
    "fr": "Le robot visite chaque page qu'il connaît et demande si elle a changé depuis lors.",
    "pl": "Robot odwiedza każdą znaną mu stronę i pyta, czy zmieniła się od ostatniej wizyty.",
    "ru": "Робот посещает каждую известную ему страницу и спрашивает, изменилась ли она.",
    "ja": "クローラーは知っているすべてのページを訪れ、変更があったかどうかを尋ねます。",
}
NO_LANGUAGE = "0123 4567 +++ 89 === 1,2 3.4 -- 77 %% 12:34 // 2024-01-01 <> 55 66 77 88 99 00 11"


@pytest.mark.covers("R0-32", "R0-59", "G-28")
@pytest.mark.parametrize("code", TEXTS)
def test_text_tells_its_language_whatever_is_declared(code):
    text = TEXTS[code].replace(", ", ",\n")

    assert detected_language(text) == code
    assert detected_language(text, "en" if code != "en" else "de") == code
    assert detected_language(text.upper()) == code


@pytest.mark.parametrize(
    ("declared", "code"),
    [
        ("de", "de"),
        ("DE-at", "de"),
        ("zh_TW", "zh"),
        (" fr ", "fr"),
        ("iw", "he"),
        ("", ""),
        ("x-klingon", ""),
        ("deu", ""),
        ("qq", ""),
        ("a ", ""),
        ("b c", ""),
    ],
)
def test_declaration_counts_when_the_text_is_short(declared, code):
    assert detected_language("Home Login", declared) == code


def test_declaration_counts_when_the_detector_is_unsure():
    assert detected_language(NO_LANGUAGE, "cs") == "cs"
    assert detected_language(NO_LANGUAGE) == ""


def test_declaration_counts_when_the_detector_has_no_code_of_two_letters():
    cebuano = (
        "Ang lungsod nahimutang sa habagatang bahin sa lalawigan ug adunay daghang mga tawo nga "
        "nagpuyo niini sukad pa kaniadto."
    )

    assert detected_language(cebuano, "tl") == "tl"
    assert detected_language(cebuano) == ""


def test_norwegian_keeps_its_declared_form():
    text = (
        "Dette er en lengre tekst om hvordan roboten besøker hver side den kjenner, og spør "
        "om noe har endret seg siden forrige gang."
    )

    assert detected_language(text) == "no"
    for declared in ("nb-NO", "nn", "no"):
        assert detected_language(text, declared) == declared[:2]
    assert detected_language(text, "sv") == "no"
    assert detected_language(TEXTS["de"], "nb") == "de"


def test_only_the_beginning_is_looked_at():
    """The whole text would cost 20 times as much (ADR 132)."""
    assert detected_language(TEXTS["de"] * 30 + TEXTS["en"] * 1000) == "de"


def test_model_is_loaded_once_and_never_downloaded(monkeypatch):
    def refuse(*_):
        raise AssertionError("the detector went to the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    _detector.cache_clear()

    assert detected_language(TEXTS["en"]) == "en"
    assert detected_language(TEXTS["de"]) == "de"
    assert _detector.cache_info().misses == 1


def test_half_a_surrogate_pair_is_no_word_of_any_language():
    assert detected_language(f"\ud800 {TEXTS['en']} \udfff") == "en"


@given(st.text(st.characters()), st.text())
def test_answer_is_a_code_of_two_letters_or_nothing(text, declared):
    code = detected_language(text, declared)

    assert code == "" or (len(code) == 2 and code.isascii() and code.islower())

"""Characters that nobody sees, in what people and language models read."""

import json

import pytest

from smartcrawl.model.redaction import escaped_tags, escaped_text, json_safe_text, visible_text


@pytest.mark.parametrize("char", ["\U000e0000", "\U000e0041", "\U000e007f"])
def test_tag_characters_are_shown_as_escapes(char: str):
    """ATT-64."""
    assert escaped_text(f"a{char}b") == f"a\\U{ord(char):08x}b"
    assert escaped_tags(f"a{char}\nb") == f"a\\U{ord(char):08x}\nb"
    printed = json_safe_text(json.dumps(f"a{char}b", ensure_ascii=False))
    assert printed.isascii()
    assert json.loads(printed) == f"a{char}b"


#: One of each kind: zero width, soft hyphen, invisible operators, marks of direction, fillers,
#: annotations, selectors, musical and shorthand controls, tags.
UNSEEN = (
    "\u200b\u00ad\u034f\u2060\u2062\u2064\u206a\u206f\ufeff\u061c\u200e\u202e\u2066\u115f\u1160\u3164"
    "\uffa0\u17b4\u17b5\u180b\u180e\ufff9\ufffb\ufe00\ufe0e\ufe0f\U0001bca0\U0001d173\U000e0001"
    "\U000e0041\U000e0100\U000e01ef\U000e0fff\u200c\u200d\u2028"
)


@pytest.mark.parametrize("char", UNSEEN)
@pytest.mark.parametrize(("before", "after"), [("a", "b"), ("", ""), (" ", "\u0645"), ("日", "本")])
def test_what_is_not_seen_is_an_escape_between_letters_that_need_none(
    char: str, before: str, after: str
):
    """ATT-64."""
    shown = visible_text(f"{before}{char}{after}")
    if before == "日" and "\U000e0100" <= char <= "\U000e01ef":
        assert shown == f"{before}{char}{after}", "it selects the form of the ideograph"
    else:
        assert shown == before + char.encode("unicode_escape").decode() + after


@pytest.mark.parametrize(
    "text",
    [
        "می\u200cخواهم",  # Persian
        "क्\u200dष न्\u200cन",  # Devanagari
        "శ్\u200cర",  # Telugu
        "ක්\u200dර",  # Sinhala
        "ᠠ\u180b",  # Mongolian
        "葛\U000e0100",
        "👩\u200d💻 👩🏽\u200d🔬 🏳\ufe0f\u200d🌈 ❤\ufe0f 1\ufe0f\u20e3 ©\ufe0e",
    ],
)
def test_what_a_script_or_a_symbol_needs_stays(text: str):
    assert visible_text(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("م\u200c\u200cخ", "م\\u200c\\u200cخ"),
        ("م\u200c", "م\\u200c"),
        ("م\u200c خ", "م\\u200c خ"),
        ("👩\u200da", "👩\\u200da"),
        ("❤\ufe0f\ufe0f", "❤\ufe0f\\ufe0f"),
        ("葛\U000e0100\U000e0101", "葛\U000e0100\\U000e0101"),
        ("ᠠ\u180b\u180c", "ᠠ\u180b\\u180c"),
        ("🏴\U000e0067\U000e007f", "🏴\\U000e0067\\U000e007f"),
    ],
)
def test_what_spells_words_beside_the_text_does_not(text: str, shown: str):
    """ATT-64: bytes may be written in runs of joiners, selectors or tags."""
    assert visible_text(text) == shown


def test_a_page_of_such_characters_takes_no_time_beyond_its_length():
    assert len(visible_text("\u200b" * 200_000)) == 200_000 * len("\\u200b")

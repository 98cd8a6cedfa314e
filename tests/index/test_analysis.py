"""Words and keys of texts in any script, and marks around them."""

import re
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.index.analysis import words
from smartcrawl.index.analysis.marking import SHOWN, Marker
from smartcrawl.index.analysis.stems import (
    asked_keys,
    asked_keys_of_languages,
    index_keys,
    index_places,
    index_words,
)
from smartcrawl.index.analysis.words import LONGEST, folded, is_unspaced, words_at

#: Texts of all kinds of scripts, and what is hard in them.
SCRIPTS = st.text(
    st.sampled_from(
        "aZéßøıIİ 1²½_-.,'\n\u0301\u200b\u200c\u200d\u00adﬁＰｱｶﾞﾊﾟ。東京タワはガ\u3099ー가각ᄀ"
        "\u1161\u11a8กำนี่่ກຂ\u0f40\u0f0b\u0f72កខ\u17d2မ\u103cहिन्दीتابَشмёйΑάςאָ🙂𠀀\U0001d4bd"
    ),
    max_size=40,
)


def forms(text: str, language: str = "") -> list[str]:
    return [word.form for word in words_at(text, language)]


@pytest.mark.parametrize(
    ("form", "expected"),
    [("京", True), ("東京", True), ("größe", False), ("ё", False), ("a", False)],
)
def test_only_letters_of_scripts_without_spaces_are_unspaced(form: str, expected: bool):
    assert is_unspaced(form) is expected


@pytest.mark.long(but=12)
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Linux™ costs ½ €", ["linux", "costs", "½"]),
        ("x² ① 3.11", ["x2", "1", "3", "11"]),
        ("東京タワー", ["東京", "京タ", "タワ", "ワー"]),
        ("表 ABC表", ["表", "abc", "表"]),
        ("第3章", ["第", "3", "章"]),
        ("ｶﾞｷﾞﾊﾟ", ["ガギ", "ギパ"]),
        ("か\u3099き", ["がき"]),
        ("ＰＤＦ　ﾃｽﾄ", ["pdf", "テス", "スト"]),
        ("한국어는", ["한국", "국어", "어는"]),
        ("가나", ["가나"]),
        ("ภาษาไทย", ["ภา", "าษ", "ษา", "าไ", "ไท", "ทย"]),
        ("ភាសាខ្មែរ", ["ភាសា", "សាខ្", "ខ្មែ", "មែរ"]),
        ("မြန်မာ", ["မြန်", "န်မာ"]),
        ("ພາສາ", ["ພາ", "າສ", "ສາ"]),
        ("བོད་སྐད་ཡིག", ["བོདསྐད", "སྐདཡིག"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("می\u200cروم", ["میروم"]),
        ("co\u00adop zero\u200dwidth", ["coop", "zerowidth"]),
        ("e\u0301te\u0301", ["été"]),
        ("١٢٣ १२", ["123", "12"]),
        ("🙂 _ — \u0301", []),
    ],
)  # fmt: skip
def test_words_of_a_text(text: str, found: list[str]):
    assert forms(text) == found


@pytest.mark.parametrize(
    ("word", "plain"),
    [
        ("Ångström", "angstrom"),
        ("œuvre", "oeuvre"),
        ("łódź", "lodz"),
        ("đá", "da"),
        ("ß", "ss"),
        ("й", "и"),
        ("ήρθες", "ηρθεσ"),
        ("كِتَابٌ", "كتاب"),
        ("שָׁלוֹם", "שלום"),
        ("ガ", "ガ"),
        ("हिन्दी", "हिन्दी"),
    ],
)
def test_a_word_without_accents(word: str, plain: str):
    assert index_words(word) == [plain]


def test_the_case_of_an_i_is_that_of_the_language():
    assert (forms("ISPARTA İZMİR", "tr"), forms("ISPARTA")) == (["ısparta", "izmir"], ["isparta"])
    for language in ("tr", "en", ""):
        keys = {index_keys(word, language)[0] for word in ("Isparta", "ISPARTA", "isparta")}
        asked = {keys for (keys,) in asked_keys("isparta", language)}
        assert keys <= asked


@pytest.mark.long(but=9)
@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("de", "Zeilenhöhen", "Zeilenhöhe"),
        ("de", "Straßen", "Strasse"),
        ("de", "Häuser", "Haus"),
        ("fr", "chevaux", "cheval"),
        ("es", "canciones", "canción"),
        ("pt", "informações", "informacao"),
        ("it", "possibilità", "possibilita"),
        ("ru", "таблицы", "таблица"),
        ("ru", "полёт", "полета"),
        ("tr", "tabloları", "tablolari"),
        ("sv", "böckerna", "bocker"),
        ("nb", "bøker", "boker"),
        ("pl", "tabelami", "tabela"),
        ("en", "connections", "connected"),
        ("ja", "settings", "setting"),
        ("", "таблицы", "таблица"),
        ("ar", "الكِتابُ", "كتاب"),
    ],
)
def test_a_query_finds_other_forms_of_a_word_in_texts_of_a_language(
    language: str, one: str, other: str
):
    for text, query in ((one, other), (one, folded(one.lower())), (one, one)):
        assert tuple(index_keys(text, language)) in asked_keys(query, language)


def test_words_of_another_script_have_stems_of_their_own_language():
    """A text that changes its language in the middle."""
    assert index_keys("Tabellen таблицы", "de") == ["tabell", "таблиц"]
    assert index_keys("таблицы settings", "ru") == ["таблиц", "set"]
    assert index_keys("settings", "uk") == ["set"]
    assert index_keys("налаштування", "uk") == ["налаштування"]


def test_a_word_is_asked_for_by_the_stems_of_all_languages_of_an_index():
    assert asked_keys_of_languages("transponieren", ["", "de"]) == (
        ("transponieren",), ("transponi",),
    )  # fmt: skip
    assert asked_keys_of_languages("the rows", ["en"]) == (("the", "row"),)
    assert asked_keys_of_languages("?!", ["en"]) == ()


def test_a_text_of_ten_megabytes_without_a_space_is_cut():
    assert index_keys("a" * 10_000_000) == ["a" * LONGEST]
    assert len(index_keys("表" * 1_000_000)) == 999_999
    assert all(len(key) <= LONGEST for key in index_keys("e\u0301" * 300 + "ก" + "\u0e48" * 999))


@given(SCRIPTS)
def test_all_ways_to_the_keys_of_a_text_agree(text: str):
    for language in ("", "de", "ja", "tr", "ar"):
        keys = index_keys(text, language)
        places = list(index_places(text, language))

        assert keys == [place.key for place in places]
        assert " ".join(keys).split() == keys
        assert not any(sign in key for key in keys for sign in "'\"\\&|!():*<")
        at = -1
        for place in places:
            assert at < place.start < place.end <= len(text)
            at = place.start


@given(SCRIPTS)
def test_a_text_is_found_by_itself(text: str):
    for language in ("", "de", "ja"):
        if keys := index_keys(text, language):
            assert tuple(keys) in asked_keys(text, language)


# Marks


def marked(text: str, *words: str, language: str = "en") -> str:
    asked = [asked_keys(word, language) for word in words]
    return Marker(asked, language, ("[", "]")).whole(text)


def snippet(text: str, *words: str, language: str = "en") -> str:
    asked = [asked_keys(word, language) for word in words]
    return Marker(asked, language, ("[", "]")).part(text)


def test_marks_are_around_the_words_of_the_text_as_it_is_written():
    assert marked("Die Zeilenhöhen, und ZEILENHÖHE", "zeilenhohe", language="de") == (
        "Die [Zeilenhöhen], und [ZEILENHÖHE]"
    )
    assert marked("an error code; the code", "error code") == "an [error code]; the code"
    assert marked("行と列を入れ替える", "行と", "列を", "入れ", language="ja") == (
        "[行]と[列]を[入れ]替える"
    )
    assert marked("ｶﾞｽの元栓", "ガス", language="ja") == "[ｶﾞｽ]の元栓"
    assert marked("nothing", "else") == "nothing"


def test_a_snippet_is_the_part_with_most_words():
    filler = "some other words that stand between them. " * 9
    found = snippet(f"One lamp. {filler} Here the lamp needs an oil. {filler}", "lamp", "oil")

    assert found.startswith("… Here the [lamp] needs an [oil]. some")
    assert found.endswith(" …")
    assert len(found.replace("…", "").split()) == SHOWN
    assert snippet("a lamp", "lamp") == "a [lamp]"
    assert snippet(filler, "lamp") == " ".join(filler.split()[:SHOWN]) + " …"
    whole = " ".join(filler.split()[:SHOWN])
    assert snippet(whole, "lamp") == whole


def test_a_snippet_of_a_script_without_spaces_has_a_part_of_the_text():
    text = "これは長い文章です。" * 30 + "表の行と列を入れ替える。" + "そして続きます。" * 30
    found = snippet(text, "入れ", "れ替", language="ja")

    assert "[入れ替]える" in found
    assert found.startswith("… ")
    assert found.endswith(" …")
    assert 40 < len(found) < 100


@given(SCRIPTS, SCRIPTS)
def test_marks_change_nothing_but_what_they_add(text: str, query: str):
    asked = [asked_keys(word.form, "de") for word in words_at(query)]
    marker = Marker(asked, "de", ("\x02", "\x03"))

    whole = marker.whole(text)
    assert whole.replace("\x02", "").replace("\x03", "") == text
    part = marker.part(text).replace("\x02", "").replace("\x03", "")
    assert part.removeprefix("… ").removesuffix(" …") in " ".join(text.split())


def test_every_mark_of_unicode_is_in_a_block_that_is_looked_at():
    """Blocks leave out the most of the planes: it takes a fifth of the time."""
    kept = words._marks()
    listed = re.compile(f"[{kept}]")
    lacking = [
        hex(code)
        for code in range(0x80, sys.maxunicode + 1)
        if unicodedata.category(char := chr(code)).startswith("M") and not listed.match(char)
    ]
    assert not lacking
    assert not any(map(listed.match, "a1é漢あ한"))


@pytest.mark.parametrize("text", ["open() a-b_c 3.11 don't", "Größe é_2、東京 한글을 ok"])
def test_runs_of_ascii_are_those_of_any_text(text: str):
    of_all = [(one.start(), one[0]) for one in words._runs().finditer(text)]
    assert list(words.runs_at(text)) == of_all

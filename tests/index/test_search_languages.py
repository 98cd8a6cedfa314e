"""Searches of texts in many languages and scripts, and of what is hard in them."""

import pytest

from tests.index.asking import search
from tests.registry.build import Desk

BASE = "http://a.example/"
#: Texts by their language, with a query in another form of their words.
PAGES = {
    "de": ("Die Tabellen werden transponiert", "tabelle transponieren"),
    "ru": ("Закрепление строк и столбцов", "закрепить строку"),
    "tr": ("Sayfa sonu eklemek ve silmek", "sayfa sonunu silme"),
    "it": ("Salvataggio dei documenti", "salvare un documento"),
    "el": ("Εκτύπωση των σελίδων", "σελίδα"),
    "ar": ("طِبَاعَةُ المُسْتَنَدِ", "المستند"),
    "he": ("הַדְפָּסַת מִסְמָכִים", "מסמכים"),
    "hi": ("तालिका की पंक्तियाँ", "तालिका"),
    "ja": ("文字の色を変更する", "色"),
    "zh": ("冻结单元格的首行", "首行冻结"),
    "ko": ("셀의 배경을 바꿉니다", "셀에서"),
    "th": ("การพิมพ์เอกสาร", "เอกสาร"),
    "km": ("ការបោះពុម្ពឯកសារ", "ឯកសារ"),
    "bo": ("བོད་སྐད་ཡིག", "བོད་སྐད"),
    "ka": ("დოკუმენტის ბეჭდვა", "ბეჭდვა"),
    "hy": ("Փաստաթղթի տպում", "տպում"),
}


@pytest.fixture
def many(desk: Desk) -> Desk:
    """A registry with a page in each language."""
    for language, (text, _) in PAGES.items():
        desk.index(BASE + language, text, document_fields={"language": language})
    return desk


def found(desk: Desk, query: str) -> list[str]:
    return [hit.url.removeprefix(BASE) for hit in search(desk.connection, query, limit=99)]


def snippet(desk: Desk, query: str) -> str:
    (hit, *_) = search(desk.connection, query)
    return hit.snippet


def test_a_query_finds_its_page_in_each_language(many: Desk):
    for language, (_, query) in PAGES.items():
        assert found(many, query)[:1] == [language], query


def test_a_query_in_all_scripts_finds_all_pages(many: Desk):
    query = " ".join(query for _, query in PAGES.values())
    assert set(found(many, query)) == set(PAGES)


def test_marks_are_around_the_words_alone(many: Desk):
    assert snippet(many, "закрепить") == "[Закрепление] строк и столбцов"
    assert snippet(many, "salvare") == "[Salvataggio] dei documenti"
    assert snippet(many, "色を変える") == "文字の[色]を変更する"
    assert snippet(many, "셀에서") == "[셀]의 배경을 바꿉니다"
    assert snippet(many, "المستند") == "طِبَاعَةُ [المُسْتَنَدِ]"


def test_a_pair_of_letters_of_another_word_is_not_marked(desk: Desk):
    desk.index(BASE + "a", "シートをエクスポートする", document_fields={"language": "ja"})

    assert snippet(desk, "エクスポートする") == "シートを[エクスポート]する"
    assert snippet(desk, "シート") == "[シート]をエクスポートする"


def test_a_function_word_has_no_mark_in_a_page_of_its_language(desk: Desk):
    for language in ("fr", "de"):
        text = f"le numéro de page, {language.upper()}DE"
        desk.index(BASE + language, text, document_fields={"language": language})

    shown = {hit.language: hit.snippet for hit in search(desk.connection, "numero de page")}
    assert shown == {"fr": "le [numéro] de [page], FRDE", "de": "le [numéro] [de] [page], DEDE"}
    assert {hit.snippet for hit in search(desk.connection, "de")} == {
        "le numéro [de] page, FRDE", "le numéro [de] page, DEDE"
    }  # fmt: skip
    assert "[de page]" in snippet(desk, 'numero "de page"')

    desk.index(BASE + "plain", "un chapitre de livre", document_fields={"language": "fr"})
    assert snippet(desk, "chapitre de livre") == "un [chapitre] de [livre]"


def test_function_words_of_another_script_do_not_count(desk: Desk):
    desk.index(BASE + "a", "Экспорт в PDF и в HTML", document_fields={"language": "ru"})
    desk.index(BASE + "b", "셀 및 행", document_fields={"language": "ko"})

    assert snippet(desk, "экспорт в pdf") == "[Экспорт] в [PDF] и в HTML"
    assert snippet(desk, "행 및 셀") == "[셀] 및 [행]"


def test_a_text_that_changes_its_language_is_found_by_each_of_them(desk: Desk):
    text = "Die Zeilen werden fixiert. Строки закреплены. 行の高さを変更する。 행의 높이."
    desk.index(BASE + "a", text, document_fields={"language": "de"})

    for query in ("zeile", "строка", "行", "高さ", "행을", "높이"):
        assert found(desk, query) == ["a"], query
    assert "[Строки]" in snippet(desk, "строку")


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Cafe\u0301 au lait", "café"),
        ("Café au lait", "cafe\u0301"),
        ("می\u200cروم به خانه", "میروم"),
        ("co\u00adoperate zero\u200bwidth", "cooperate"),
        ("क\u094d\u200dष", "क\u094dष"),
        ("ﾃﾞｰﾀの入力", "データ"),
        ("データの入力", "ﾃﾞｰﾀ"),
        ("ＰＤＦ　ファイル", "pdf"),
        ("كتاب جديد", "كِتَابٌ"),
        ("٢٠٢٦ سنة", "2026"),
        ("İSTANBUL", "istanbul"),
        ("Straße", "STRASSE"),
    ],
)
def test_the_way_in_which_a_word_is_written_does_not_matter(desk: Desk, text: str, query: str):
    desk.index(BASE + "a", text)
    desk.index(BASE + "b", "other words 別の文")

    assert found(desk, query) == ["a"]
    assert "[" in snippet(desk, query)


def test_texts_and_queries_without_a_space_are_cut(desk: Desk):
    desk.index(BASE + "a", "x" * 1_000_000 + " fuse")
    desk.index(BASE + "b", "表" * 20_000 + "。ヒューズ")

    assert found(desk, "fuse") == ["a"]
    assert found(desk, "ヒューズ") == ["b"]
    assert found(desk, "x" * 10_000) == ["a"]
    assert found(desk, "表" * 10_000) == ["b"]
    assert len(snippet(desk, "ヒューズ")) < 300
    assert found(desk, "absent " * 1_500 + "fuse") == ["a"]


@pytest.mark.parametrize("query", ["의", "の", "をに", "하는 방법", "как это", "如何", "的"])
def test_a_query_of_endings_and_function_words_alone_is_answered(many: Desk, query: str):
    assert isinstance(found(many, query), list)


def test_korean_nouns_that_end_as_if_with_a_particle_are_whole(desk: Desk):
    desk.index(BASE + "a", "사용자 정의 색상", document_fields={"language": "ko"})
    desk.index(BASE + "b", "정을 나누다", document_fields={"language": "ko"})

    assert found(desk, "정의") == ["a"]
    assert found(desk, "정을") == ["b"]

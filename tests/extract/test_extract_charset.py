"""Which charset a body is read in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.extract.html import parse_html, parse_plain_text
from smartcrawl.extract.sniff import decode_charset, sniffed_media_type, wide_charset

RUSSIAN = (
    "Съешь же ещё этих мягких французских булок, да выпей чаю. Широкая электрификация южных "
    "губерний даст мощный толчок подъёму сельского хозяйства. "
) * 5


@pytest.mark.parametrize(
    ("body", "content_type", "charset", "text"),
    [
        (b"\xef\xbb\xbfgr\xc3\xbcn", "text/html; charset=iso-8859-1", "utf-8", "grün"),
        ("grün".encode("utf-16"), "text/html; charset=utf-8", "utf-16-le", "grün"),
        ("grün".encode("utf-16-le"), "text/html; charset=utf-16", "utf-16-le", "grün"),
        (b"<meta charset=utf-8>\xfc", "text/html; charset=ISO-8859-1", "cp1252", None),
        (b"<meta charset=koi8-r>\xc1", "", "koi8-r", "<meta charset=koi8-r>а"),
        (b"<?xml version='1.0' encoding='iso-8859-2'?>\xb1", "", "iso8859-2", None),
        (b"<meta charset=utf-16>a", "", "utf-8", "<meta charset=utf-16>a"),
        (b"<meta charset=koi8-r>\xc1", "text/html; charset=bogus", "koi8-r", None),
        (b"<meta charset=koi8-r>\xc3\xbc", "text/html; charset=bogus", "utf-8", None),
        (b"gr\xc3\xbcn", "", "utf-8", "grün"),
        (b"plain", "", "utf-8", "plain"),
        (b"\x80", "", "cp1252", "€"),
        ("grün für".encode() + b"\xc3", "text/html; charset=utf-8", "utf-8", "grün für\ufffd"),
        (b"caf\xe9", "text/html; charset=utf-8", "cp1252", "café"),  # a lie
        (b"a\0b", "", "utf-8", "ab"),
        (b"", "", "utf-8", ""),
    ],
)
def test_bom_then_header_then_declaration_then_utf8_then_guess(body, content_type, charset, text):
    got, decoded = decode_charset(body, content_type, markup=True)

    assert got == charset
    assert text is None or decoded == text


def test_undeclared_text_is_guessed():
    charset, text = decode_charset(RUSSIAN.encode("cp1251"), "", markup=True)

    assert (charset, text) == ("cp1251", RUSSIAN)


TEXTS = {
    "el": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα. ",
    "es": "Todos los seres humanos nacen libres e iguales; ¿qué razón dotó el año? ",
    "fr": "Tous les êtres humains naissent libres et égaux en droits, où qu’ils soient. ",
    "ja": "すべての人間は、生れながらにして自由であり、尊厳と権利とについて平等である。",
    "ko": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. ",
    "pl": "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. ",
    "pt": "Todos os seres humanos nascem livres e iguais; são dotados de razão e de consciência. ",
    "ru": "Все люди рождаются свободными и равными в своём достоинстве и правах. ",
    "zh": "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。",
    "zt": "人人生而自由，在尊嚴和權利上一律平等。他們賦有理性和良心，誠應和睦相處，情同手足。",
}


@pytest.mark.parametrize(
    ("language", "codec"),
    [
        ("el", "iso8859-7"), ("es", "cp1252"), ("fr", "cp1252"), ("ja", "cp932"), ("ja", "euc_jp"),
        ("ja", "iso2022_jp"), ("ko", "cp949"), ("pl", "cp1250"), ("pl", "iso8859-2"),
        ("pt", "cp1252"), ("ru", "cp866"), ("ru", "cp855"), ("ru", "iso8859-5"), ("ru", "koi8-r"),
        ("ru", "mac-cyrillic"), ("zh", "gb18030"), ("zt", "big5hkscs"),
        *((language, wide) for wide in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
          for language in ("fr", "ru")),
        ("zh", "utf-32-le"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("markup", [False, True])
def test_undeclared_text_of_a_language_is_read_in_its_charset(language, codec, markup):
    text = TEXTS[language] * 4
    text = f"<html><body><p>{text}</p></body></html>" if markup else text
    body = text.encode(codec)

    assert decode_charset(body, "", markup=markup)[1] == text
    if not markup:
        assert sniffed_media_type("text/plain", body) == "text/plain"
        document = parse_plain_text(body, content_type="text/plain", url="file:///a.txt")
        assert document.text == text.strip()


@pytest.mark.parametrize(
    ("body", "header", "charset"),
    [
        ('<meta charset="gb2312"><p>灯塔立在港口', "", "utf-8"),
        ('<meta charset="gb2312"><p>灯塔', "", "gb18030"),  # too few characters to know
        ('<meta charset="iso-8859-1"><p>é', "", "utf-8"),
        ('<meta charset="gb2312"><p>灯塔立在港口', "text/html; charset=gb2312", "gb18030"),
        ('<meta charset="iso-2022-jp"><p>lamp', "", "iso2022_jp"),
    ],
)
def test_valid_utf8_wins_over_what_a_page_declares_but_not_over_a_header(body, header, charset):
    assert decode_charset(body.encode(), header, markup=True)[0] == charset


@pytest.mark.parametrize(
    "body",
    [bytes(range(256)) * 4, b"\0\0\1\2" * 50, b"ab\0\0" * 50, b"some words\0" * 9, b"a\0b\0"],
    ids=range(5),
)
def test_zero_bytes_alone_make_no_wide_text(body):
    assert wide_charset(body) == ""


def test_guess_finds_the_text_behind_much_markup():
    body = b"<script>" + b"x=1;" * 20_000 + b"</script>" + RUSSIAN.encode("cp1251")

    assert decode_charset(body, "", markup=True)[0] == "cp1251"


def test_one_broken_byte_does_not_change_the_charset_of_a_page():
    assert decode_charset("grüße für alle".encode() + b" \xe4", "", markup=True) == (
        "utf-8",
        "grüße für alle \ufffd",
    )


@pytest.mark.parametrize(
    "codec", ["unicode_escape", "raw_unicode_escape", "utf-7", "punycode", "rot13", "base64"]
)
def test_codecs_that_are_no_charsets_are_not_believed(codec):
    r"""With unicode_escape the body ``\ud800`` would become a lone surrogate."""
    for body, header in (
        (rb"\ud800", f"text/html; charset={codec}"),
        (rf"<meta charset={codec}>\ud800".encode(), ""),
    ):
        assert decode_charset(body, header, markup=True) == ("utf-8", body.decode())


def test_plain_text_declares_nothing_in_its_body():
    assert decode_charset(b"<meta charset=koi8-r>", "", markup=False)[0] == "utf-8"


def test_charset_is_kept_on_the_document_and_text_is_decoded_once():
    document = parse_html(
        "<meta charset=utf-8><p>Привет".encode("cp1251"),
        content_type="text/html; charset=windows-1251",
        url="http://h/",
    )

    assert (document.charset, document.text) == ("cp1251", "Привет")


@given(
    st.binary() | st.text().map(lambda text: text.encode("utf-16", "surrogatepass")),
    st.sampled_from(["", "x; charset=utf-16-be", "x; charset=gb18030", "x; charset=iso-2022-jp"]),
    st.booleans(),
)
def test_every_body_becomes_text_without_surrogates_and_nul(body, content_type, markup):
    _, text = decode_charset(body, content_type, markup=markup)

    text.encode()
    assert "\0" not in text

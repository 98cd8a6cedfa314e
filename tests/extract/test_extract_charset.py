"""Which charset a body is read in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.extract.html import parse_html
from smartcrawl.extract.sniff import decode_charset

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
        (b"<meta charset=koi8-r>\xc3\xbc", "text/html; charset=bogus", "koi8-r", None),
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

"""Which type a body is of, whatever its name and its header say."""

import gzip
import zlib

import brotli
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.extract import sniff
from smartcrawl.extract.formats import FORMATS
from smartcrawl.extract.html import HTML_TYPES, TEXT_TYPES
from smartcrawl.extract.html import sniffed_media_type as former_name
from smartcrawl.extract.sniff import (
    BINARY,
    CSV,
    DOCX,
    EPUB,
    JSON,
    MARKDOWN,
    ODP,
    ODS,
    ODT,
    PDF,
    PPTX,
    XLSB,
    XLSX,
    XML,
)
from smartcrawl.extract.sniff import sniffed_media_type as sniffed
from tests.extract.made_documents import epub, every, odt, slides, word, word_of, workbook, zipped

URL = "http://site.example/dir/file"
PAGE = b"<!DOCTYPE html><html><title>404</title><p>not found</html>"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 100
UNKNOWN = ["", "application/octet-stream", "binary/octet-stream", "nonsense"]

DOCUMENTS = every()
FILES = {mime: DOCUMENTS[mime] for mime in (PDF, DOCX, PPTX, XLSX, XLSB, ODT, ODP, ODS, EPUB)}


def test_former_name_still_works():
    assert former_name is sniffed
    assert {"text/html", "application/xhtml+xml"} == HTML_TYPES
    assert {"text/plain"} == TEXT_TYPES


@pytest.mark.covers("R0-60")
@pytest.mark.parametrize("mime", FILES)
@pytest.mark.parametrize(
    "header",
    [
        *UNKNOWN,
        "text/html; charset=utf-8",
        "text/plain",
        "application/pdf",
        "application/zip",
        "application/x-zip-compressed",
        "application/msword",
        "application/json",
        "text/csv",
        "text/xml",
        "image/png",
        *FILES,
    ],
)
def test_file_is_what_it_begins_like_and_holds_under_any_header_and_name(mime, header):
    for name in ("", ".html", ".txt", ".pdf", ".docx", ".json", ".csv"):
        assert sniffed(header, FILES[mime], URL + name) == mime


def test_a_whole_pdf_behind_a_page_is_a_pdf():
    head = b"<html><head><meta http-equiv=refresh content=0></head><body></body></html>\n"
    for header in ("", PDF, "text/html", "text/plain"):
        assert sniffed(header, head + FILES[PDF], f"{URL}.pdf") == PDF
    quoted = head + b"%PDF-1.4 is how a file begins that ends with %%EOF" + b" and more" * 200
    cut = head + FILES[PDF].replace(b"%%EOF", b"")
    late = head + b"<!-- comment -->" * 90 + FILES[PDF]
    for body in (quoted, cut, late):
        assert sniffed("text/html", body, f"{URL}.pdf") == "text/html"


@pytest.mark.parametrize(
    "header",
    [*FILES, "application/msword", "application/vnd.ms-excel", "application/zip", JSON, CSV, XML],
)
def test_error_page_under_the_header_of_a_file_is_a_page(header):
    assert sniffed(header, PAGE, URL) == "text/html"
    assert sniffed(header, b"\xef\xbb\xbf \n<!-- x --><HTML lang=en>", URL) == "text/html"


@pytest.mark.parametrize("header", [*FILES, JSON, CSV, XML, MARKDOWN, "image/png", "audio/x"])
@pytest.mark.parametrize("body", [b"", b"\0\1", b"text", b"{}"])
def test_header_is_believed_when_nothing_speaks_against_it(header, body):
    assert sniffed(header, body, URL + ".html") == header


@pytest.mark.parametrize(
    ("header", "mime"),
    [
        ("application/x-pdf", PDF),
        ("application/vnd.ms-word.document.macroEnabled.12", DOCX),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.template", DOCX),
        ("application/vnd.ms-powerpoint.slideshow.macroEnabled.12", PPTX),
        ("application/vnd.ms-excel.sheet.macroEnabled.12", XLSX),
        ("application/vnd.oasis.opendocument.text-template", ODT),
        ("Text/X-Markdown; charset=utf-8", MARKDOWN),
        ("text/tab-separated-values", CSV),
        ("application/csv", CSV),
        ("text/json", JSON),
        ("application/ld+json", JSON),
        ("application/geo+json; x=y", JSON),
        ("text/xml", XML),
        ("application/rss+xml", XML),
        ("application/atom+xml", XML),
        ("application/xhtml+xml", "application/xhtml+xml"),
        ("image/svg+xml", "image/svg+xml"),
    ],
)
def test_several_names_of_a_type_are_one(header, mime):
    assert sniffed(header, b"x", URL) == mime


@pytest.mark.parametrize("header", ["", "text/plain; charset=utf-8", "application/octet-stream"])
@pytest.mark.parametrize(
    ("name", "body", "mime"),
    [
        ("a.csv", b"a,b\n1,2\n", CSV),
        ("A.TSV", b"a\tb\n", CSV),
        ("a.csv", b"{a},b", CSV),
        ("README.md", b"# Title", MARKDOWN),
        ("x.markdown", b"<h1 align=center>x</h1>", MARKDOWN),
        ("a.json", b' {"a": 1}', JSON),
        ("a.json", b"\xef\xbb\xbf[1]", JSON),
        ("a.json", '{"ä": 1}'.encode("utf-16"), JSON),
        ("a.json?b=c.md#d.csv", b"[]", JSON),
        ("a.json", b"[" + b"1," * 50_000 + b"1]", JSON),
        ("a.json", b"{not json", "text/plain"),
        ("a.json", b"text", "text/plain"),
        ("a.json", b"[" * 60_000, "text/plain"),
        ("a.json", b"[" + b"9" * 10_000 + b"]", JSON),
        ("a.txt", b"a,b\n1,2\n", "text/plain"),
        ("csv", b"a,b", "text/plain"),
        ("a.csv/", b"a,b", "text/plain"),
        ("a.csv", b"\0\1\2", "application/octet-stream"),
        ("a.md", b"\0\1\2", "application/octet-stream"),
    ],
)
def test_text_is_what_its_name_says_unless_its_first_bytes_deny_it(header, name, body, mime):
    assert sniffed(header, body, f"http://site.example/{name}") == mime


def test_empty_body_is_nothing_by_its_name():
    assert sniffed("", b" \n", "http://site.example/a.csv") == "application/octet-stream"
    assert sniffed("text/plain", b"", "http://site.example/a.md") == "text/plain"


def test_json_without_header_and_name_is_told_by_parsing_it():
    assert sniffed("", b'{"a": [1]}', URL) == JSON
    assert sniffed("", b"{a: 1}", URL) == "text/plain"
    assert sniffed("text/plain", b'{"a": [1]}', URL) == "text/plain"
    assert sniffed("", b"[" + b"1," * 50_000 + b"1]", URL) == "text/plain"


def test_page_without_header_is_one_whatever_its_name():
    for name in (".csv", ".md", ".json"):
        assert sniffed("", PAGE, URL + name) == "text/html"
        assert sniffed("text/plain", PAGE, URL + name) != "text/html"


def test_xml_that_is_a_page_is_read_as_one_and_one_that_mentions_pages_is_not():
    page = b'<?xml version="1.0"?>\n<html xmlns="http://www.w3.org/1999/xhtml">'
    sitemap = b'<?xml version="1.0"?><urlset xmlns:xhtml="http://www.w3.org/1999/xhtml">'
    assert sniffed("text/xml", page, URL) == "text/html"
    assert sniffed("text/xml", b"<x:html xmlns:x='y'>", URL) == "text/html"
    assert sniffed("text/xml", sitemap, URL) == XML
    assert sniffed("application/atom+xml", b"<feed><html>", URL) == XML


def test_zip_that_is_no_document_stays_one():
    body = zipped({"a.txt": "a", "word/readme.txt": "b"})
    assert sniffed("", body, URL) == "application/zip"
    assert sniffed("application/msword", body, URL) == "application/zip"
    assert sniffed("application/java-archive", body, URL) == "application/java-archive"
    assert sniffed("", zipped({"inner.docx": word()}), URL) == "application/zip"
    assert sniffed(DOCX, body, URL) == DOCX  # whose reader will say what is wrong


def test_office_file_is_told_by_its_content_types_before_its_parts():
    document = word_of("<w:p/>")
    assert sniffed("", document, URL) == DOCX
    types = '<Types><Override ContentType="application/vnd.ms-excel.sheet.macroEnabled.main+xml"/>'
    assert sniffed("", zipped({"[Content_Types].xml": types, "word/document.xml": ""}), URL) == XLSX
    assert sniffed("", zipped({"[Content_Types].xml": "", "ppt/presentation.xml": ""}), URL) == PPTX
    assert sniffed("", zipped({"xl/workbook.xml": ""}), URL) == XLSX


def test_workbook_within_a_document_does_not_count():
    office = "application/vnd.openxmlformats-officedocument"
    types = (
        f'<Types><Default Extension="xlsx" ContentType="{office}.spreadsheetml.sheet"/>'
        f'<Override ContentType="{office}.wordprocessingml.document.main+xml"/></Types>'
    )
    files = {"[Content_Types].xml": types, "word/embeddings/a.xlsx": workbook()}
    assert sniffed("", zipped(files), URL) == DOCX


def test_first_member_tells_the_type_of_opendocument_and_epub():
    assert sniffed("", odt(), URL) == ODT
    assert sniffed("", epub(), URL) == EPUB
    sheet = zipped({"mimetype": "application/vnd.oasis.opendocument.spreadsheet"})
    assert sniffed("", sheet, URL) == "application/vnd.oasis.opendocument.spreadsheet"
    assert sniffed("", zipped({"META-INF/container.xml": "", "mimetype": "x"}), URL) == EPUB


def test_truncated_office_file_keeps_its_type_so_that_its_error_is_told():
    for mime, body in ((DOCX, word()), (PPTX, slides()), (ODT, odt())):
        assert sniffed("", body[: len(body) * 3 // 4], URL) in (mime, "application/zip")
    assert sniffed("", word_of("<w:p/>")[:-60], URL) == DOCX
    assert sniffed(PPTX, slides()[:1000], URL) == PPTX


def test_old_office_is_not_read_and_an_encrypted_new_one_is_known():
    assert sniffed("application/msword", OLE, URL) == "application/msword"
    assert sniffed("", OLE, URL) == "application/x-ole-storage"
    assert sniffed(DOCX, OLE, URL) == "application/x-ole-storage"
    assert sniffed("text/plain", OLE, f"{URL}a.doc/b") == "application/x-ole-storage"
    assert sniffed(DOCX, OLE + sniff.ENCRYPTED_MARK, URL) == DOCX
    assert not FORMATS & {"application/msword", "application/x-ole-storage"}


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("a.doc", "application/msword"),
        ("a.DOT?v=1#top", "application/msword"),
        ("a.xls", "application/vnd.ms-excel"),
        ("a.xlt", "application/vnd.ms-excel"),
        ("a.ppt", "application/vnd.ms-powerpoint"),
        ("a.pps", "application/vnd.ms-powerpoint"),
        ("a.pot", "application/vnd.ms-powerpoint"),
        ("a.msi", "application/x-ole-storage"),
    ],
)
@pytest.mark.parametrize("header", ["", "application/octet-stream", "text/plain", DOCX])
def test_an_old_file_of_office_is_named_by_its_ending(name: str, media_type: str, header: str):
    assert sniffed(header, OLE, f"{URL}{name}") == media_type
    assert sniffed("application/x-other", OLE, f"{URL}{name}") == "application/x-other"


def test_pictures_and_archives_under_the_header_of_a_text_are_what_they_are():
    for header in ("text/html", "text/plain", JSON, CSV, MARKDOWN, PDF, DOCX):
        assert sniffed(header, b"\x89PNG\r\n\x1a\n", URL) == "image/png"
    assert sniffed("", b"{\\rtf1 text}", URL) == "application/rtf"
    assert sniffed("application/msword", b"{\\rtf1 text}", URL) == "application/rtf"


def test_formats_are_neither_pages_nor_plain_text():
    assert set(DOCUMENTS) == FORMATS
    assert not FORMATS & (HTML_TYPES | TEXT_TYPES)


MARKS = [
    b"PK\x03\x04",
    b"PK\x01\x02",
    b"PK\x05\x06",
    b"mimetype",
    b"[Content_Types].xml",
    b"\0\0\0\0",
]


@given(
    st.sampled_from(["", "text/plain", *FORMATS]),
    st.binary(max_size=40)
    | st.lists(st.sampled_from(MARKS) | st.binary(max_size=30)).map(b"".join),
    st.sampled_from(["", URL + ".json", "no url"]),
)
def test_no_body_makes_it_fail(header, body, url):
    for start in (b"", b"PK\x03\x04", b"{"):
        assert "/" in sniffed(header, start + body, url)


@given(st.data())
def test_no_broken_archive_makes_it_fail(data):
    body = bytearray(FILES[data.draw(st.sampled_from([DOCX, ODT]))])
    for _ in range(data.draw(st.integers(1, 20))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    assert "/" in sniffed("", bytes(body), URL)


_LONG = (
    b"<!doctype html><title>T</title>" + " ".join(f"<p>word {n}</p>" for n in range(90)).encode()
)
_PACKS = [gzip.compress, brotli.compress, zstd.compress, zlib.compress]


@pytest.mark.covers("R4-39", "R0-60")
@pytest.mark.parametrize("pack", _PACKS)
@pytest.mark.parametrize("header", ["text/html", "text/html; charset=utf-8", "TEXT/HTML;a=b"])
def test_a_page_that_is_still_packed_is_garbled(pack, header):
    assert sniff.is_garbled_text(header, pack(_LONG), held=False)
    assert not sniff.is_garbled_text(header, _LONG, held=True)


@pytest.mark.covers("R4-39", "R0-60")
@pytest.mark.parametrize("pack", _PACKS)
@pytest.mark.parametrize("header", ["", "text/plain", "text/markdown", "text/csv", JSON, XML])
def test_another_text_that_is_packed_is_garbled_where_it_was_text_before(pack, header):
    packed = pack(_LONG)

    assert sniff.is_garbled_text(header, packed, held=True)
    assert not sniff.is_garbled_text(header, packed, held=False)


@pytest.mark.parametrize("header", ["application/gzip", "image/png", "application/pdf"])
def test_what_is_declared_as_binary_is_not_garbled(header):
    assert not sniff.is_garbled_text(header, gzip.compress(_LONG), held=True)


@pytest.mark.parametrize(
    ("header", "body"),
    [
        ("text/html", _LONG.decode().encode("utf-16")),
        ("text/html; charset=utf-16le", "Он был здесь. ".encode("utf-16-le") * 90),
        ("text/html", "\0".join("a page that is full of zeros").encode() * 20),
        ("text/html; charset=iso-2022-jp", "東京は晴れ ".encode("iso-2022-jp") * 90),
        ("text/html; charset=shift_jis", "東京は晴れ ".encode("shift_jis") * 90),
        ("text/html", "<html><title>T</title><p>Grüße aus Łódź".encode("utf-16-le")),
        ("text/html", b"<p>one \x0b and \x02 or \x1a slip of an editor</p>"),
        ("text/html", b"\x01\x02\x03"),
        ("text/html", b"\x01\x02\x03\x04" + b"a" * 124),
        ("text/html", b""),
        ("text/html", b"\x89PNG\r\n\x1a\n" + bytes(range(32)) * 9),
    ],
)
def test_text_in_any_charset_with_some_slips_is_not_garbled(header, body):
    assert not sniff.is_garbled_text(header, body, held=True)


_SEPARATED = "name\x1fcity\x1e" * 200
_FEW_KINDS = [_SEPARATED, "\x1c\x1d" + _SEPARATED, "step\x0b" * 90, "N\x08NA\x08A\x01\x02" * 90]


@pytest.mark.covers("R4-39", "R0-60")
@pytest.mark.parametrize("header", ["text/html", "text/csv", "text/markdown", XML])
@pytest.mark.parametrize("text", _FEW_KINDS)
def test_a_text_with_few_kinds_of_control_characters_is_not_garbled(header, text):
    assert not sniff.is_garbled_text(header, text.encode(), held=True)


@pytest.mark.parametrize("header", ["", "text/plain"])
@pytest.mark.parametrize("text", _FEW_KINDS)
def test_a_plain_text_with_control_characters_is_not_read_and_removes_nothing(header, text):
    assert sniffed(header, text.encode(), URL) == BINARY
    assert sniff.is_garbled_text(header, text.encode(), held=True)


def test_the_share_of_control_characters_decides():
    assert sniff.is_garbled_text("text/html", b"\x01\x02\x03\x04" + b"a" * 123, held=False)
    head = b"a" * 1_445
    assert not sniff.is_garbled_text("text/html", head + b"\x01" * 200, held=False)

"""What documents say that are no pages, and that no body of theirs does more than fail."""

import json
import random
import re
import zipfile
from dataclasses import replace
from importlib import import_module
from io import BytesIO
from itertools import pairwise

import pytest

from smartcrawl.extract import html, sniff
from smartcrawl.extract.chunks import document_chunks
from smartcrawl.extract.formats import (
    FORMATS,
    FormatError,
    FormatFault,
    common,
    markdown,
    pdf,
    read_document,
)
from smartcrawl.extract.formats import zipped as archive
from smartcrawl.extract.formats.common import parsed_document
from smartcrawl.extract.hashes import document_content_hash, text_hash
from smartcrawl.extract.pool import parse_document_answer
from smartcrawl.extract.sniff import (
    CSV,
    DOCX,
    EML,
    EPUB,
    JSON,
    MARKDOWN,
    NOTEBOOK,
    ODS,
    ODT,
    PDF,
    PPTX,
    XLS,
    XLSB,
    XLSX,
    XML,
)
from smartcrawl.extract.wire import wire_document
from smartcrawl.model.documents import Document, Section
from smartcrawl.model.urls import MAX_URL_LENGTH
from tests.extract import made_documents as documents
from tests.extract.made_documents import ENGLISH, drawn, epub, linking, odt, word_of, zipped
from tests.tiers import examples

URL = "http://site.example/dir/document"
for _name in ("csv_text", "docx", "epub", "json_text", "odt", "pdf", "pptx", "xlsx", "xml_text"):
    import_module(f"smartcrawl.extract.formats.{_name}")  # before a test changes their limits
DOCUMENTS = documents.every()
BROKEN = (FormatFault.CORRUPT, FormatFault.ENCRYPTED, FormatFault.TOO_LARGE)
PACKED = (DOCX, PPTX, XLSX, ODT, EPUB)


def read(body: bytes | str, mime: str, header: str = "", url: str = URL) -> Document:
    body = body.encode() if isinstance(body, str) else body
    return read_document(body, media_type=mime, content_type=header, url=url)


def text(body: bytes | str, mime: str, header: str = "") -> str:
    return read(body, mime, header).text


def without_blocks(document: Document) -> tuple[Section, ...]:
    return tuple(section._replace(blocks=(), spans=(), head=()) for section in document.sections)


def fault(body: bytes | str, mime: str, words: str | None = None) -> FormatFault:
    with pytest.raises(FormatError, match=words) as caught:
        read(body, mime)
    return caught.value.kind


# All formats


@pytest.mark.covers("R1-13")
@pytest.mark.parametrize(
    ("mime", "table"),
    [
        (DOCX, (["year", "pages"], ["2026", "12"])),
        (PPTX, (["left", "right"],)),
        (ODT, (["a", "b"],)),
        (MARKDOWN, (["a", "b"], ["1", "2"])),
    ],
)
def test_tables_are_blocks_with_their_cells(mime, table):
    found = [(s.text, block) for s in read(DOCUMENTS[mime], mime).sections for block in s.blocks]
    text, block = next((text, block) for text, block in found if block.kind == "table")
    at, rows = block.start, []
    for ends in block.rows:
        rows.append([text[start:end].strip() for start, end in pairwise((at, *ends))])
        at = ends[-1]
    assert rows == list(table)


@pytest.mark.parametrize("mime", [XLSX, CSV])
def test_sheets_are_tables_with_tabs(mime):
    for section in read(DOCUMENTS[mime], mime).sections:
        [block] = section.blocks
        assert (block.start, block.end, block.rows) == (0, len(section.text), ())
        assert block.head == ("\n" in section.text)


def test_names_of_columns_are_known_where_a_document_has_them():
    slides = read(DOCUMENTS[PPTX], PPTX).sections
    assert [block.head for section in slides for block in section.blocks] == [True]
    body = "<w:tbl><w:tr>{}<w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
    for properties, head in (("<w:trPr><w:tblHeader/></w:trPr>", True), ("", False)):
        [section] = read(word_of(body.format(properties)), DOCX).sections
        assert [block.head for block in section.blocks] == [head]


_SWITCHED = ("", "<w:tblHeader/>", '<w:tblHeader w:val="0"/>')
_FORMER = "<w:trPrChange><w:trPr><w:tblHeader/></w:trPr></w:trPrChange>"


def rows_of_word(*properties: str) -> str:
    """A table of DOCX with a row for each of these properties."""
    rows = (
        f"<w:tr><w:trPr>{one}</w:trPr><w:tc><w:p><w:r><w:t>r{n}</w:t></w:r></w:p></w:tc></w:tr>"
        for n, one in enumerate(properties)
    )
    return f"<w:tbl>{''.join(rows)}</w:tbl>"


@pytest.mark.parametrize(
    ("properties", "head"),
    [
        ((1, 1, 0), 2),
        ((1, 0, 1), 1),
        ((0, 1, 0), 0),
        ((1, 2, 0), 1),
        ((2, 0), 0),
        ((1, 1), 2),
    ],
)
def test_each_row_of_word_that_is_repeated_names_the_columns(properties, head):
    body = rows_of_word(*(_SWITCHED[one] for one in properties))

    [section] = read(word_of(body), DOCX).sections

    assert [block.head for block in section.blocks] == [head]
    assert section.text.split() == [f"r{n}" for n in range(len(properties))]


def test_a_former_mark_of_a_head_row_names_no_columns():
    [section] = read(word_of(rows_of_word(_FORMER, "")), DOCX).sections

    assert [block.head for block in section.blocks] == [0]


@pytest.mark.parametrize(
    ("body", "heads"),
    [
        ("<H><R>a</R><R>b</R></H><R>c</R>", [2]),
        ("<H><R>a</R></H><R>b</R><R>c</R>", [1]),
        ("<R>a</R><H><R>b</R></H><R>c</R>", [0]),
        ("<R>a</R><R>b</R>", [0]),
    ],
)
def test_each_head_row_of_opendocument_names_the_columns(body, heads):
    body = body.replace("H>", "table:table-header-rows>")
    body = body.replace("<R>", "<table:table-row><table:table-cell><text:p>")
    body = body.replace("</R>", "</text:p></table:table-cell></table:table-row>")

    [section] = read(odt(f"<table:table>{body}</table:table>"), ODT).sections

    assert [block.head for block in section.blocks] == heads


def test_parts_of_a_long_table_of_word_repeat_all_head_rows():
    body = rows_of_word(_SWITCHED[1], _SWITCHED[1], *[""] * 3_000)

    first, *others = document_chunks(read(word_of(body), DOCX))

    assert first.text.startswith("r0\nr1\nr2\n")
    assert others
    assert all(chunk.text.startswith("r0\nr1\n") for chunk in others)
    assert {chunk.repeated for chunk in others} == {len("r0\nr1\n")}


@pytest.mark.covers("R0-60")
@pytest.mark.parametrize("mime", DOCUMENTS)
def test_every_format_gives_text_type_and_hashes(mime):
    document = read(DOCUMENTS[mime], mime)

    assert document.content_type == mime
    assert document.title
    assert document.text
    assert text_hash(document) == text_hash(read(DOCUMENTS[mime], mime))
    assert document_content_hash(document) == document_content_hash(read(DOCUMENTS[mime], mime))
    assert text_hash(document) != text_hash(Document())


@pytest.mark.covers("R0-60", "R0-46")
def test_hash_is_that_of_the_text_and_not_of_the_bytes():
    again, other = documents.pdf("Report one"), documents.pdf("Report two")
    once = read(documents.pdf("Report one", title="Other"), PDF)

    assert text_hash(read(again, PDF)) == text_hash(once)
    assert text_hash(read(other, PDF)) != text_hash(once)


def test_type_that_is_not_read_and_url_that_is_not_absolute_are_refused():
    for mime in ("text/html", "application/zip", ""):
        with pytest.raises(ValueError, match="not a format"):
            read(b"", mime)
    for mime in FORMATS:
        with pytest.raises(ValueError, match="parsed"):
            read(DOCUMENTS[mime], mime, url="/document")


@pytest.mark.parametrize("mime", DOCUMENTS)
def test_text_is_limited(mime, monkeypatch):
    monkeypatch.setattr(common, "MAX_TEXT", 3)

    assert fault(DOCUMENTS[mime], mime, "characters of text") is FormatFault.TOO_LARGE


@pytest.mark.parametrize("mime", [*PACKED, PDF])
@pytest.mark.parametrize("body", [b"", b"x", b"PK\x03\x04", b"%PDF-1.7", b"\0" * 1000])
def test_what_is_no_file_of_its_format_is_corrupt(mime, body):
    assert fault(body, mime) is FormatFault.CORRUPT


@pytest.mark.parametrize("mime", PACKED)
def test_truncated_package_is_corrupt(mime):
    body = DOCUMENTS[mime]
    for size in (len(body) - 10, len(body) // 2, 100):
        assert fault(body[:size], mime, "not a complete ZIP") is FormatFault.CORRUPT


@pytest.mark.parametrize("mime", [MARKDOWN, CSV])
@pytest.mark.parametrize("body", [b"", b" \n", b"\xef\xbb\xbf"])
def test_empty_text_is_an_empty_document(mime, body):
    assert read(body, mime).sections == ()


@pytest.mark.parametrize("mime", PACKED)
def test_package_of_another_kind_is_corrupt(mime):
    assert fault(zipped({"a.txt": "a"}), mime) is FormatFault.CORRUPT


def mutated(body: bytes, draw: random.Random) -> bytes:
    """Return ``body`` with some bytes flipped, taken out, doubled or cut off."""
    changed = bytearray(body)
    for _ in range(draw.choice((1, 1, 2, 5, 20, 100))):
        at = draw.randrange(len(changed))
        match draw.randrange(6):
            case 0:
                del changed[at : at + draw.randrange(1, 50)]
            case 1:
                changed[at:at] = changed[: draw.randrange(60)]
            case 2 if draw.random() < 0.2:
                del changed[max(1, at) :]
            case _:
                changed[at] = draw.randrange(256)
        changed = changed or bytearray(b"x")
    return bytes(changed)


#: Calamine makes their grids at once, however large a broken file says that they are:
#: test_bad_inputs.py reads them in a process with a limit of memory.
GRIDS = (ODS, XLS, XLSB)


@pytest.mark.long(but=8)
@pytest.mark.parametrize("mime", sorted({*DOCUMENTS}.difference(GRIDS)))
def test_no_broken_body_does_more_than_fail(mime):
    draw = random.Random(mime)
    for _ in range(examples(150)):
        document, kind = outcome(mutated(DOCUMENTS[mime], draw), mime)
        assert kind in (None, *BROKEN)
        written = document.title + document.text
        assert "\0" not in written
        written.encode()  # fails on lone surrogates


def outcome(body: bytes, mime: str) -> tuple[Document, FormatFault | None]:
    """Return what a body says, or an empty document and why it says nothing."""
    try:
        return read(body, mime), None
    except FormatError as error:
        return Document(title=str(error)), error.kind


@pytest.mark.long(but=2)
@pytest.mark.parametrize("mime", PACKED)
def test_no_broken_part_does_more_than_fail(mime):
    """The bytes within an archive are changed, whose checksums would else tell at once."""
    draw = random.Random(mime)
    with zipfile.ZipFile(BytesIO(DOCUMENTS[mime])) as source:
        files = {name: source.read(name) for name in source.namelist()}
    written = [name for name in files if name.endswith(("xml", ".rels", ".opf", ".xhtml"))]
    for _ in range(examples(100)):
        name = draw.choice(written)
        changed = zipped({**files, name: mutated(files[name], draw)}, zipfile.ZIP_STORED)
        _, kind = outcome(changed, mime)
        assert kind in (None, *BROKEN)


def test_reader_that_fails_is_an_error_of_the_document(monkeypatch):
    def failing(*_: object) -> str:
        raise KeyError("x")

    monkeypatch.setattr(pdf, "_text", failing)

    assert fault(DOCUMENTS[PDF], PDF, "its reader failed: KeyError") is FormatFault.CRASHED


def test_memory_that_does_not_suffice_is_an_error_of_the_document(monkeypatch):
    def failing(*_: object) -> str:
        raise MemoryError

    monkeypatch.setattr(pdf, "_text", failing)

    assert fault(DOCUMENTS[PDF], PDF, "more memory") is FormatFault.MEMORY


# PDF


@pytest.mark.covers("R0-60")
def test_pdf_gives_title_language_paragraphs_and_links():
    body = documents.pdf(
        f"Report\n{ENGLISH * 6}\nNext part. {ENGLISH * 3}",
        '<a href="http://Other.example/w#top">web</a> <a href="mailto:a@b.example">mail</a>'
        ' <a href="../c.html">near</a> <a href="http://other.example/w">again</a>',
    )

    document = read(body, PDF)

    assert document.title == "Annual report"
    assert document.language == "en"
    assert without_blocks(document) == (
        Section(
            0,
            "",
            f"Report\n{(ENGLISH * 6).strip()}\nNext part. {(ENGLISH * 3).strip()}"
            "\nweb mail near again",
        ),
    )
    links = [link.url for link in document.links]
    assert links == ["http://other.example/w", "http://site.example/c.html"]


@pytest.mark.parametrize("title", ["untitled", "Microsoft Word - draft.doc", " ", "Document1"])
def test_title_of_a_pdf_is_its_first_line_when_only_a_program_gave_one(title):
    assert read(documents.pdf("First line\nSecond", title=title), PDF).title == "First line"


@pytest.mark.parametrize(
    ("lines", "paragraphs"),
    [
        (("A line that goes", "on below."), "A line that goes on below."),
        (("Ends here.", "not below"), "Ends here.\nnot below"),
        (("One", "Two", "Three"), "One\nTwo\nThree"),
        (("A line of rather more than forty characters, ", "Capitals or not, goes on below"), None),
        (("Title of a page", "Name of a writer"), "Title of a page\nName of a writer"),
        (("2024 11 12 13 14", "2025 12 13 14 15"), "2024 11 12 13 14\n2025 12 13 14 15"),
        (("Short", "A very much longer line of text"), "Short\nA very much longer line of text"),
    ],
)
def test_lines_of_a_pdf_are_joined_where_one_plainly_goes_on(lines, paragraphs):
    expected = paragraphs or " ".join(line.strip() for line in lines)
    assert text(drawn(*lines), PDF) == expected


def test_word_divided_at_the_end_of_a_line_is_one_again():
    assert pdf._paragraphs("a declara\x02tion and a declara\ufffetion") == (
        "a declaration and a declaration"
    )
    assert pdf._paragraphs("\r\n a \r\n\r\nB\rC\r\n") == "a\nB C"


def test_pdf_keeps_characters_beyond_the_basic_plane():
    body = drawn("xy", pageCompression=0)
    fonts = body.replace(b"/Encoding /WinAnsiEncoding", b"/ToUnicode 99 0 R")
    stream = (
        b"99 0 obj<</Length 200>>stream\n/CIDInit /ProcSet findresource begin begincmap\n"
        b"1 begincodespacerange <00> <ff> endcodespacerange\n"
        b"2 beginbfchar <78> <D835DC65> <79> <00660069> endbfchar endcmap\nendstream endobj\n"
    )
    at = fonts.index(b"1 0 obj")

    assert text(fonts[:at] + stream + fonts[at:], PDF) == "\U0001d465fi"


def test_pdf_without_text_is_an_empty_document():
    document = read(drawn(), PDF)

    assert (document.sections, document.title, document.links) == ((), "", ())


@pytest.mark.covers("R0-60")
def test_pdf_that_wants_a_password_is_encrypted_and_one_that_only_forbids_is_read():
    assert fault(documents.pdf("secret", password="x"), PDF, "the PDF is encrypted") is (
        FormatFault.ENCRYPTED
    )
    assert text(documents.pdf("not to be printed", password=""), PDF) == "not to be printed"


def test_truncated_pdf_is_read_as_far_as_it_goes_or_is_corrupt():
    body = documents.pdf(*(f"Page {number}" for number in range(50)))

    assert fault(body[:600], PDF) is FormatFault.CORRUPT
    document, kind = outcome(body[: len(body) * 3 // 4], PDF)
    assert kind is FormatFault.CORRUPT or "Page 1" in document.text


def tree(kids: str, count: int) -> bytes:
    """Return a PDF whose page tree is ``kids``: object 3 is a page, object 2 the tree itself."""
    return (
        "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
        f"2 0 obj<</Type/Pages/Kids[{kids}]/Count {count}>>endobj\n"
        "3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj\n"
        "trailer<</Root 1 0 R>>\n%%EOF"
    ).encode()


def test_page_tree_without_end_is_corrupt():
    assert fault(tree("2 0 R 2 0 R", 7), PDF, "none of the 7 pages") is FormatFault.CORRUPT


def test_page_that_cannot_be_loaded_is_left_out():
    assert read(tree("3 0 R 8 0 R", 2), PDF).sections == ()


def test_pages_of_a_pdf_are_limited(monkeypatch):
    """ATT-33."""
    monkeypatch.setattr(pdf, "MAX_PAGES", 2)

    assert text(documents.pdf("a", "b"), PDF) == "a\nb"
    assert fault(documents.pdf("a", "b", "c"), PDF, "has 3 pages") is FormatFault.TOO_LARGE


def test_number_of_pages_in_a_pdf_is_not_believed():
    """ATT-33."""
    assert read(tree("3 0 R", 2**30), PDF).sections == ()


# DOCX


@pytest.mark.covers("R0-60")
def test_docx_gives_headings_by_style_tables_in_place_and_links():
    document = read(documents.word(), DOCX)

    assert (document.title, document.language) == ("Annual report", "en")
    assert without_blocks(document) == (
        Section(1, "Report", f"R&D <b> {ENGLISH.strip()}"),
        Section(1, "Figures", "year pages\n2026 12"),
        Section(2, "Details", "See the other site"),
    )
    assert [(link.url, link.anchor) for link in document.links] == [
        ("https://other.example/x?a=1", "the other site")
    ]


def run(content: str, properties: str = "") -> str:
    return f"<w:r><w:rPr>{properties}</w:rPr><w:t>{content}</w:t></w:r>"


def paragraph(content: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr>{content}</w:p>"


@pytest.mark.parametrize(
    ("unseen", "seen"),
    [
        ("<w:del><w:r><w:delText>x</w:delText></w:r></w:del>", ""),
        (f"<w:moveFrom>{run('x')}</w:moveFrom>", ""),
        (f"<w:ins>{run('x')}</w:ins>", "x"),
        (run("x", "<w:vanish/>"), ""),
        (run("x", "<w:vanish w:val='0'/>"), "x"),
        ("<w:r><w:instrText>PAGE</w:instrText></w:r>", ""),
        ("<w:r><w:tab/><w:noBreakHyphen/></w:r>", " -"),
        (f"<mc:AlternateContent><mc:Choice>{run('x')}</mc:Choice><mc:Fallback>{run('x')}"
         "</mc:Fallback></mc:AlternateContent>", "x"),
    ],
)  # fmt: skip
def test_docx_gives_the_text_that_is_seen(unseen, seen):
    tabs = "<w:tabs><w:tab w:val='left'/></w:tabs><w:rPr><w:vanish/></w:rPr>"
    body = paragraph(run("a") + unseen + run("b"), tabs)

    assert text(word_of(body), DOCX) == f"a{seen}b"


def test_docx_headings_follow_style_chains_and_own_levels():
    styles = (
        "<w:style w:styleId='H2'><w:name w:val='heading 2'/></w:style>"
        "<w:style w:styleId='Own'><w:name w:val='Own'/><w:basedOn w:val='H2'/></w:style>"
        "<w:style w:styleId='Deep'><w:pPr><w:outlineLvl w:val='8'/></w:pPr></w:style>"
        "<w:style w:styleId='Loop'><w:basedOn w:val='Loop'/></w:style>"
        "<w:style w:styleId='Plain'><w:basedOn w:val='H2'/><w:outlineLvl w:val='9'/></w:style>"
    )
    body = "".join(
        paragraph(run(name), f"<w:pStyle w:val='{name}'/>")
        for name in ("Own", "Loop", "Deep", "Plain", "Missing")
    ) + paragraph(run("direct"), "<w:outlineLvl w:val='0'/>")

    assert read(word_of(body, styles=styles), DOCX).sections == (
        Section(2, "Own", "Loop"),
        Section(6, "Deep", "Plain\nMissing"),
        Section(1, "direct", ""),
    )


def test_docx_keeps_text_boxes_nested_tables_breaks_and_notes():
    box = f"<w:r><w:txbxContent>{paragraph(run('boxed'))}</w:txbxContent></w:r>"
    table = (
        f"<w:tbl><w:tr><w:tc>{paragraph(run('a'))}{paragraph(run('b'))}</w:tc>"
        f"<w:tc><w:tbl><w:tr><w:tc>{paragraph(run('c'))}</w:tc></w:tr></w:tbl></w:tc></w:tr></w:tbl>"
    )
    body = paragraph(run("one") + box + run("two")) + table + paragraph(run("x<w:br/>y"))
    body = body.replace("x<w:br/>y", "x</w:t><w:br/><w:t>y")
    notes = f"<w:footnote>{paragraph(run('a note'))}</w:footnote>"

    lines = text(word_of(body, footnotes=notes), DOCX).split("\n")

    assert lines[:3] == ["one", "boxed", "two"]
    assert lines[-3:] == ["x", "y", "a note"]
    assert " ".join(lines[3:-3]).split() == ["a", "b", "c"]


#: Begin and end of a table, end of a cell, end of a row, and a text, as each format writes them.
NESTED = {
    DOCX: (
        "<w:tbl><w:tr><w:tc>", "</w:tc></w:tr></w:tbl>", "</w:tc><w:tc>",
        "</w:tc></w:tr><w:tr><w:tc>", "<w:p><w:r><w:t>{}</w:t></w:r></w:p>",
    ),
    ODT: (
        "<table:table><table:table-row><table:table-cell>",
        "</table:table-cell></table:table-row></table:table>",
        "</table:table-cell><table:table-cell>",
        "</table:table-cell></table:table-row><table:table-row><table:table-cell>",
        "<text:p>{}</text:p>",
    ),
    "text/html": (
        "<table><tr><td>", "</td></tr></table>", "</td><td>", "</td></tr><tr><td>", "{}"
    ),
}  # fmt: skip


@pytest.mark.parametrize("mime", NESTED)
@pytest.mark.parametrize(
    ("table", "tables"),
    [
        ("{{00}|Rich{00}}", ["00", "00"]),
        ("{a|{b|c}d}", ["b|c"]),
        ("{{a{b}c}|d}", ["b"]),
        ("{a{b|c;d|e}|f;g|h}", ["b|c;d|e"]),
        ("{a;{b;c}}", ["b;c"]),
        ("{a|b;c|d}", ["a|b;c|d"]),
    ],
)
def test_nested_tables_are_blocks_and_what_is_around_them_is_text(mime, table, tables):
    *marks, text = NESTED[mime]
    parts = re.findall(r"\w+|[{}|;]", table)
    body = "".join(
        marks["{}|;".index(part)] if part in "{}|;" else text.format(part) for part in parts
    )
    if mime == DOCX:
        document = read(word_of(body), mime)
    elif mime == ODT:
        document = read(odt(body), mime)
    else:
        document = html.parse_html(body.encode(), content_type=mime, url=URL)
    (section,) = document.sections
    assert section.text.split() == re.findall(r"\w+", table)
    found = []
    for block in section.blocks:
        at, rows = block.start, []
        for ends in block.rows:
            rows.append("|".join(section.text[i:j].strip() for i, j in pairwise((at, *ends))))
            at = ends[-1]
        assert at == block.end
        found.append(";".join(rows))
    assert found == tables
    answer = wire_document(replace(document, content_type=DOCX))
    assert parse_document_answer(answer, DOCX).faulty == 0


def message(body: str = "The lamps of the quay.", more: str = "") -> str:
    return (
        "Subject: =?utf-8?q?L=C3=A4mps?=\nFrom: Ann <ann@a.example>\n"
        f"Date: Mon, 05 Jan 2026 10:00:00 +0000\nMIME-Version: 1.0\n{more}\n{body}\n"
    )


def test_eml_is_read_with_its_headers_the_text_for_people_and_messages_in_it():
    parts = (
        "--x\nContent-Type: multipart/alternative; boundary=y\n\n"
        "--y\nContent-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: "
        "quoted-printable\n\nCaf=E9\n--y\nContent-Type: text/html\n\n<p>other</p>\n--y--\n"
        "--x\nContent-Type: application/pdf\nContent-Disposition: attachment; "
        f"filename=a.pdf\n\nx\n--x\nContent-Type: message/rfc822\n\n{message('inner')}\n--x--"
    )
    document = read(message(parts, "Content-Type: multipart/mixed; boundary=x\n"), EML)
    head = ["Lämps", "From: Ann <ann@a.example>", "Date: Mon, 05 Jan 2026 10:00:00 +0000"]
    assert document.title == "Lämps"
    assert document.text.split("\n") == [*head, "Café", *head, "inner", "a.pdf"]
    page = message('<p>a <a href="http://b.example/">link</a>', "Content-Type: text/html\n")
    assert [link.url for link in read(page, EML).links] == ["http://b.example/"]


def test_messages_in_each_other_end():
    body = message()
    for _ in range(50):
        body = message(body, "Content-Type: message/rfc822\n")
    assert read(body, EML).text.count("Lämps") == 10


def test_spreadsheets_of_other_programs_are_read_by_calamine():
    spaces = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "table", "text")
    )
    content = (
        f"<office:document-content {spaces}><office:body><office:spreadsheet><table:table"
        " table:name='Prices'><table:table-row><table:table-cell office:value-type='string'>"
        "<text:p>lamp</text:p></table:table-cell></table:table-row></table:table>"
        "</office:spreadsheet></office:body></office:document-content>"
    )
    manifest = '<m:manifest xmlns:m="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>'
    body = zipped({"mimetype": ODS, "content.xml": content, "META-INF/manifest.xml": manifest})
    document = read(body, ODS, url="file:///srv/Prices%202026.ods")
    assert (document.title, document.text) == ("Prices 2026.ods", "Prices\nlamp")
    for broken in (b"PK", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(2_000)):
        assert fault(broken, XLS) in BROKEN
    assert fault(b"\xd0\xcf\x11\xe0" + sniff.ENCRYPTED_MARK, XLS) is FormatFault.ENCRYPTED


def test_docx_links_of_fields_and_within_the_document():
    body = (
        f"<w:hyperlink r:id='out'>{run('out')}</w:hyperlink>"
        f"<w:hyperlink w:anchor='below'>{run('in')}</w:hyperlink>"
        "<w:fldSimple w:instr=' HYPERLINK &quot;http://a.example/1&quot; '/>"
        "<w:r><w:fldChar/><w:instrText>HYPER</w:instrText></w:r>"
        '<w:r><w:instrText>LINK "http://a.example/2" \\o x</w:instrText><w:fldChar/></w:r>'
        "<w:r><a:hlinkClick r:id='out'/></w:r>"
    )

    assert [(link.url, link.anchor) for link in read(word_of(paragraph(body)), DOCX).links] == [
        ("http://site.example/b.html", "out"),
        ("http://a.example/1", ""),
        ("http://a.example/2", ""),
    ]


BOMB = '<!DOCTYPE d [<!ENTITY a "' + "x" * 1000 + '">' + "".join(
    f'<!ENTITY {name} "{f"&{below};" * 100}">' for below, name in zip("abc", "bcd", strict=True)
) + "]>"  # fmt: skip


@pytest.mark.parametrize("declaration", ["<!DOCTYPE d>", '<!DOCTYPE d SYSTEM "file:///x">', BOMB])
def test_document_type_declaration_in_a_package_is_refused(declaration):
    for name, files in (("word/document.xml", {}), ("word/styles.xml", {"styles": ""})):
        body = word_of(paragraph(run("x")), **files)
        with zipfile.ZipFile(BytesIO(body)) as source:
            parts = {part: source.read(part) for part in source.namelist()}
        parts[name] = declaration.encode() + parts[name]
        assert fault(zipped(parts), DOCX, "type declaration") is FormatFault.CORRUPT


def test_password_of_an_office_file_is_told():
    body = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 2000 + sniff.ENCRYPTED_MARK
    for mime in (DOCX, PPTX, XLSX):
        assert fault(body, mime, "wants a password") is FormatFault.ENCRYPTED


# PPTX, XLSX


@pytest.mark.covers("R0-60")
def test_pptx_gives_a_section_for_each_slide_that_is_shown():
    document = read(documents.slides(), PPTX)

    assert document.title == "Opening & aims"
    assert without_blocks(document) == (
        Section(
            1,
            "Opening & aims",
            "First point\nSecond point\nread more\nleft right\nSpeak slowly",
        ),
        Section(1, "Closing", ""),
    )
    assert [(link.url, link.anchor) for link in document.links] == [
        ("https://other.example/more", "read more")
    ]


@pytest.mark.covers("R0-60")
def test_xlsx_gives_a_section_for_each_sheet_that_is_shown():
    document = read(documents.workbook(), XLSX)

    assert document.title == "Stock"
    assert without_blocks(document) == (
        Section(
            1,
            "Goods in store",
            "name\tcount\tprice\nnuts & bolts\t12\t1.5\n\ttwo lines\t\tTRUE",
        ),
        Section(1, "Other", "x\t1000000000"),
    )


# ODT, EPUB


@pytest.mark.covers("R0-60")
def test_odt_gives_headings_tables_notes_and_links_from_within_the_package():
    document = read(odt(), ODT)

    assert (document.title, document.language) == ("Report", "en")
    assert without_blocks(document) == (
        Section(1, "Report", ""),
        Section(1, "Figures", f"R&D {ENGLISH}b.\na b"),
        Section(2, "Details", "one\ntwo\nnote\nbelow"),
    )
    assert [(link.url, link.anchor) for link in document.links] == [
        ("http://site.example/dir/b.html", "b")
    ]


def test_odt_gives_the_text_that_is_seen():
    body = (
        "<text:tracked-changes><text:p>x</text:p></text:tracked-changes>"
        "<text:p>a<office:annotation><text:p>x</text:p></office:annotation>"
        "<draw:frame><svg:title>x</svg:title><draw:text-box><text:p>b</text:p></draw:text-box>"
        "<svg:desc>x</svg:desc></draw:frame>c<text:title>d</text:title></text:p>"
    )

    assert text(odt(body), ODT) == "a\nb\ncd"


def test_a_short_text_has_the_language_that_its_package_declares():
    page = "<html xmlns='http://www.w3.org/1999/xhtml'><body><p>OK</p></body></html>"
    book = epub(**{"OEBPS/text/chapter 1.xhtml": page, "OEBPS/text/two.xhtml": page})

    assert read(book, EPUB).language == "en"
    assert read(odt("<text:p>OK</text:p>"), ODT).language == "en"


@pytest.mark.parametrize(
    "files",
    [
        {"META-INF/manifest.xml": "<manifest><encryption-data/></manifest>"},
        {"encrypted-package": "x"},
    ],
)
def test_encrypted_odt_is_told(files):
    assert fault(odt(**files), ODT, "wants a password") is FormatFault.ENCRYPTED


@pytest.mark.covers("R0-60")
def test_epub_gives_its_chapters_by_the_spine_and_links_that_leave_the_book():
    document = read(epub(), EPUB)

    assert (document.title, document.description, document.language) == ("A & B", "Short", "en")
    assert without_blocks(document) == (
        Section(1, "One", f"{ENGLISH}next web"),
        Section(2, "Two", "the end"),
    )
    assert [(link.url, link.anchor) for link in document.links] == [
        ("https://other.example/w", "web")
    ]


@pytest.mark.parametrize("protection", [(0x2F,), (0x86, 0x2F)])
def test_xls_that_wants_a_password_is_encrypted_and_one_that_is_only_for_reading_is_read(
    protection,
):
    assert fault(documents.xls(*protection), XLS, "wants a password") is FormatFault.ENCRYPTED
    assert read(documents.xls(0x86), XLS) == read(documents.xls(), XLS)


def test_xlsb_with_a_cut_sheet_is_broken():
    with zipfile.ZipFile(BytesIO(documents.xlsb())) as source:
        files = {name: source.read(name) for name in source.namelist()}
    (sheet,) = (name for name in files if "sheet" in name and name.endswith(".bin"))
    body = zipped({**files, sheet: files[sheet][: len(files[sheet]) // 2]})

    assert fault(body, XLSB, "the workbook is broken") is FormatFault.CORRUPT


def test_epub_under_rights_management_is_encrypted_and_one_with_masked_fonts_is_read():
    def encrypted(part: str) -> dict[str, str]:
        reference = f"<enc:CipherReference URI='{part}'/>"
        return {"META-INF/encryption.xml": f"<encryption>{reference}</encryption>"}

    assert fault(epub(**encrypted("OEBPS/text/two.xhtml")), EPUB, "rights") is (
        FormatFault.ENCRYPTED
    )
    assert read(epub(**encrypted("OEBPS/font.otf")), EPUB) == read(epub(), EPUB)


def test_epub_without_chapter_or_package_is_corrupt():
    container = "<container><rootfile full-path='missing.opf'/></container>"
    assert fault(epub(**{"META-INF/container.xml": container}), EPUB) is FormatFault.CORRUPT
    missing = "<package><manifest><item id='a' href='a.xhtml' media-type='application/xhtml+xml'/>"
    missing += "</manifest><spine><itemref idref='a'/></spine></package>"
    assert fault(epub(**{"OEBPS/book.opf": missing}), EPUB, "a.xhtml") is FormatFault.CORRUPT


# Bombs


@pytest.mark.covers("R0-60")
@pytest.mark.parametrize("mime", PACKED)
def test_member_that_unpacks_to_more_than_a_hundred_times_is_refused(mime):
    """ATT-32."""
    main = {
        DOCX: "word/document.xml",
        PPTX: "ppt/presentation.xml",
        XLSX: "xl/worksheets/sheet1.xml",
        ODT: "content.xml",
        EPUB: "OEBPS/book.opf",
    }[mime]
    with zipfile.ZipFile(BytesIO(DOCUMENTS[mime])) as source:
        files = {name: source.read(name) for name in source.namelist()}
    files[main] += b" " * 20_000_000

    assert fault(zipped(files), mime, "unpacks to") is FormatFault.TOO_LARGE


def test_members_together_are_limited(monkeypatch):
    """ATT-32."""
    monkeypatch.setattr(archive, "MAX_UNPACKED", 500)

    for mime in PACKED:
        assert fault(DOCUMENTS[mime], mime, "unpacks to") is FormatFault.TOO_LARGE


def test_number_of_members_is_limited(monkeypatch):
    """ATT-32."""
    monkeypatch.setattr(archive, "MAX_MEMBERS", 5)

    for mime in PACKED:
        files = dict.fromkeys("abcdef", b"")
        assert fault(zipped(files), mime, "more than 5 parts") is FormatFault.TOO_LARGE


def test_size_in_the_directory_is_not_believed():
    """ATT-32."""
    body = word_of(paragraph(run("x")) + " " * 20_000_000)
    with zipfile.ZipFile(BytesIO(body)) as source:
        size = source.getinfo("word/document.xml").file_size
    lying = body.replace(size.to_bytes(4, "little"), (2_000).to_bytes(4, "little"))

    assert fault(lying, DOCX) in (FormatFault.CORRUPT, FormatFault.TOO_LARGE)


def test_archive_within_an_archive_is_never_opened():
    bomb = zipped({"zeros": bytes(30_000_000)})
    with zipfile.ZipFile(BytesIO(DOCUMENTS[DOCX])) as source:
        files = {name: source.read(name) for name in source.namelist()}
    files |= {f"word/embeddings/{number}.zip": bomb for number in range(50)}

    assert read(zipped(files, zipfile.ZIP_STORED), DOCX) == read(DOCUMENTS[DOCX], DOCX)


def test_method_or_password_of_a_member_is_told():
    body = word_of(paragraph(run("x")))
    with zipfile.ZipFile(BytesIO(body)) as source:
        files = {name: source.read(name) for name in source.namelist()}
    assert fault(zipped(files, zipfile.ZIP_LZMA), DOCX, "method 14") is FormatFault.CORRUPT
    flagged = body.replace(b"PK\x01\x02\x14\x03\x14\0\0\0", b"PK\x01\x02\x14\x03\x14\0\1\0")
    assert fault(flagged, DOCX, "wants a password") is FormatFault.ENCRYPTED


# Markdown


@pytest.mark.covers("R0-60")
def test_markdown_gives_front_matter_headings_tables_code_and_links():
    document = read(DOCUMENTS[MARKDOWN], MARKDOWN)

    assert (document.title, document.description) == ("Notes: all", "What was noted")
    assert (document.language, document.charset) == ("en", "utf-8")
    assert without_blocks(document) == (
        Section(1, "First & last", f"{ENGLISH}See the guide and x < y."),
        Section(2, "Table", "a b\n1 2\ndef f():\n    return 1"),
    )
    assert [link.url for link in document.links] == ["http://site.example/guide.md"]


@pytest.mark.parametrize(
    ("source", "title", "written"),
    [
        ("# One\n\ntext", "One", "One\ntext"),
        ("just text\n\nmore", "just text", "just text\nmore"),
        ('+++\ntitle = "Two"\n+++\ntext', "Two", "text"),
        ("---\nlang: de\n...\n# H", "H", "H"),
        ("---\n\ntext\n\n---\n\nmore", "text", "text\nmore"),
        ("---\ntitle: open", "title: open", "title: open"),
        ("a <b>b</b> <script>x</script>\n\n<div>c</div>", "a b", "a b\nc"),
    ],
)
def test_title_and_text_of_markdown(source, title, written):
    document = read(source, MARKDOWN)

    assert (document.title, document.text) == (title, written)


@pytest.mark.parametrize("name", ["a.mdx", "a.qmd"])
def test_markdown_of_site_generators_is_read_by_its_ending(name):
    body = "---\nsidebar_position: 1\ntitle: Lamps\n---\n\n# Lamps\n\nText.\n\n## Fuses\n"
    url = f"http://site.example/{name}"

    assert sniff.sniffed_media_type("", body.encode(), url) == MARKDOWN
    document = read(body, MARKDOWN, url=url)
    assert (document.title, document.text) == ("Lamps", "Lamps\nText.\nFuses")


def test_imports_of_mdx_are_no_text():
    body = "---\ntitle: T\n---\nimport A from './a'\nexport const b = 1\n\n# H\n\nimport it <A/>"

    assert text(body, MARKDOWN) == "import A from './a' export const b = 1\nH\nimport it"
    document = read(body, MARKDOWN, url="http://site.example/a.mdx?x=1")
    assert document.text == "H\nimport it"


def test_front_matter_of_eight_megabytes_is_refused():
    body = "---\n" + "key: value\n" * 800_000 + "---\n# H\n"

    assert fault(body, MARKDOWN, "the Markdown text has more than") is FormatFault.TOO_LARGE


def test_notebook_gives_its_text_and_code_and_nothing_else():
    picture = {"data": {"image/png": "iVBORw0KGgo"}, "output_type": "display_data"}
    cells = [
        {"cell_type": "markdown", "source": ["# Lamps\n", "A ![p](attachment:p.png) lamp."]},
        {"cell_type": "code", "source": "print('````')\n", "outputs": [picture]},
        {"cell_type": "raw", "source": "raw"},
        {"cell_type": "code", "input": ["x = 1"]},
        {"cell_type": "heading", "level": 2, "source": "Old"},
        {"cell_type": "markdown", "source": 7},
        "no cell",
    ]
    body = json.dumps({"cells": cells, "metadata": {"kernelspec": {"name": "python3"}}})

    assert sniff.sniffed_media_type("", body.encode(), "file:///a/b.ipynb") == NOTEBOOK
    assert sniff.sniffed_media_type("application/json", body.encode(), "file:///b.ipynb") == (
        NOTEBOOK
    )
    document = read(body, NOTEBOOK)
    assert document.title == "Lamps"
    assert [section[:3] for section in document.sections] == [
        (1, "Lamps", "A lamp.\nprint('````')\nx = 1"),
        (2, "Old", ""),
    ]
    assert [block.kind for block in document.sections[0].blocks] == ["code", "code"]


@pytest.mark.parametrize("body", ["[]", "{", "7"])
def test_notebook_that_is_none_is_corrupt(body):
    assert fault(body, NOTEBOOK, "the notebook") is FormatFault.CORRUPT


def test_notes_in_chapters_of_a_book_are_text():
    page = "<html><body><p>text</p><aside>note</aside><footer>end</footer></body></html>"

    assert text(epub(**{"OEBPS/text/two.xhtml": page}), EPUB).endswith("text\nnote\nend")


def test_markdown_is_limited(monkeypatch):
    monkeypatch.setattr(markdown, "MAX_MARKDOWN", 10)

    assert fault("x" * 11, MARKDOWN, "more than 10 characters") is FormatFault.TOO_LARGE


def test_deep_markdown_does_not_fail():
    assert "x" in text("> " * 50 + "x", MARKDOWN)
    for source in ("> " * 20_000 + "x", "[" * 2_000, "- " * 3_000, "*a_ " * 2_000):
        read(source, MARKDOWN)


# CSV, JSON, XML


@pytest.mark.covers("R0-60")
@pytest.mark.parametrize(
    ("source", "rows"),
    [
        ("a,b\n1,2\n", "a\tb\n1\t2"),
        ("a;b\n1,5;2,5\n", "a\tb\n1,5\t2,5"),
        ("a\tb\r\n1\t2", "a\tb\n1\t2"),
        ("a|b\n1|2", "a\tb\n1\t2"),
        ('a,"b,\n""c""",,\n,,\n,x', 'a\tb, "c"\n\tx'),
        ("one column\nonly", "one column\nonly"),
        ('a,"open\nb', "a\topen b"),
    ],
)
def test_csv_gives_rows_by_lines_and_columns_by_tabs(source, rows):
    assert text(source, CSV) == rows


def test_csv_is_decoded_as_its_header_or_its_bytes_say():
    assert (
        text("ключ,é".encode("cp1251", "ignore"), CSV, "text/csv; charset=windows-1251") == "ключ"
    )
    assert text("ä,b".encode("utf-16"), CSV) == "ä\tb"
    assert text("a\0b,c", CSV) == "ab\tc"


def test_csv_cell_may_be_long():
    assert len(text('a,"' + "x" * 300_000 + '"', CSV)) > 300_000


@pytest.mark.covers("R0-60")
def test_json_gives_keys_and_values_in_reading_order():
    body = (
        '{"title": "The T", "list": ["a", 1, 2.50, true, null, ["b"]], "deep": {"k": {"l": "m"}},'
        ' "k": 1, "k": 2, "none": null, "big": 1' + "0" * 5_000 + ', "nan": NaN}'
    )

    document = read(body, JSON)

    assert document.title == "The T"
    lines = document.text.split("\n")
    assert lines[:12] == [
        "title: The T", "list", "a", "1", "2.50", "true", "b", "deep", "k", "l: m", "k: 1", "k: 2",
    ]  # fmt: skip
    assert lines[12:] == ["none", "big: 1" + "0" * 5_000, "nan: NaN"]


@pytest.mark.parametrize(
    ("body", "written"), [("1", "1"), ('"a\\nb"', "a\nb"), ("[]", ""), ("{}", "")]
)
def test_json_may_be_a_plain_value_or_empty(body, written):
    assert text(body, JSON) == written


def test_json_text_is_fit_to_be_stored():
    assert text('{"a\\u0000\\ud800": "\\udfff\\u0004x"}', JSON) == "a\ufffd: \ufffdx"


@pytest.mark.parametrize("body", ["", "{", "{'a': 1}", "[1,]", "nonsense", "\0"])
def test_json_that_does_not_parse_is_corrupt(body):
    assert fault(body, JSON, "not well-formed") is FormatFault.CORRUPT


@pytest.mark.parametrize("body", ["[" * 100_000, '{"a":' * 100_000, "[" * 5_000 + "]" * 5_000])
def test_json_that_is_nested_too_deep_is_too_large(body):
    assert fault(body, JSON, "too deep") is FormatFault.TOO_LARGE


@pytest.mark.covers("R0-60")
@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("<a><b>x</b><c>y</c></a>", "x\ny"),
        ("<p>run <i>on</i> and <b>o</b>n</p>", "run on and on"),
        ("<a>\n <b>\n x\n y</b>\n <b>z</b>\n</a>", "x y\nz"),
        ("<a><!-- c --><![CDATA[<x>]]> &amp; &#228;</a>", "<x> & ä"),
        ("\n\n<?xml version='1.0'?><x:a y='z'>u</x:a>", "u"),
        ("<a/>", ""),
    ],
)
def test_xml_gives_the_text_of_its_elements(source, lines):
    assert text(source, XML) == lines


def test_xml_title_and_language():
    document = read(
        "<r xml:lang='de'><x>a</x><dc:title>T <b>U</b></dc:title><title>V</title></r>", XML
    )

    assert (document.title, document.language) == ("T U", "de")


def test_xml_is_decoded_as_it_declares():
    body = "<?xml version='1.0' encoding='windows-1251'?><a>ключ</a>".encode("cp1251")

    assert text(body, XML) == "ключ"
    assert text("<?xml version='1.0' encoding='utf-16'?><a>ä</a>".encode("utf-16"), XML) == "ä"


@pytest.mark.parametrize(
    "declaration",
    [
        BOMB,
        '<!DOCTYPE d [<!ENTITY d SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE d SYSTEM "http://127.0.0.1:9/x.dtd" [<!ENTITY % p SYSTEM "file:///x"> %p;]>',
        "<!DOCTYPE d [<!ENTITY d '<x>y</x>'>]>",
    ],
)
def test_entities_of_a_document_type_are_not_expanded(declaration):
    assert text(f"{declaration}<a>before &d; after</a>", XML) == "before after"


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("", FormatFault.CORRUPT),
        ("text", FormatFault.CORRUPT),
        ("<a>", FormatFault.CORRUPT),
        ("<a>&x;</a>", FormatFault.CORRUPT),
        ("<a>" * 600, FormatFault.TOO_LARGE),
        ("<a b='" + "x" * 3_000_000 + "'/>", FormatFault.TOO_LARGE),
        ("<a><!--" + "x" * 3_000_000 + "--></a>", FormatFault.TOO_LARGE),
    ],
)
def test_xml_that_is_broken_or_has_no_end(source, kind):
    assert fault(source, XML) is kind


def test_a_title_is_made_of_the_beginning_of_a_long_line():
    """Only so much of it is looked at: white space does not make the rest part of the title."""
    for blanks, title in ((798, "a b"), (799, "a"), (900, "a")):
        section = Section(0, "", f"a{' ' * blanks}b")
        assert parsed_document(url="http://a.example/", text=[section]).title == title


def test_a_link_of_a_pdf_is_read_up_to_twice_the_length_of_an_address():
    """What follows ``#`` does not count, so that the address may be longer than its target."""
    most = 2 * MAX_URL_LENGTH - 1  # of bytes, without the zero at the end
    target = "http://a.example/a"
    for length, found in ((most, [target]), (most + 1, [])):
        body = linking(f"{target}#".ljust(length, "x"))
        assert [link.url for link in read(body, PDF).links] == found


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("slidenum", ""),
        ("datetime1", ""),
        ("datetimeFigureOut", ""),
        ("TxLink", "inside"),
        ("", "inside"),
    ],
)
def test_pptx_fields_have_their_text_unless_it_changes_by_itself(kind: str, shown: str):
    """Such as the number of the slide and the date of the day."""
    deck = documents.slide_of(
        f'<a:r><a:t>no. </a:t></a:r><a:fld type="{kind}"><a:t>inside</a:t></a:fld>'
    )

    assert [section.text for section in read(deck, PPTX).sections] == [f"no. {shown}".strip()]

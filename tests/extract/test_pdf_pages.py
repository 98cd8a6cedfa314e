"""Headings, pages, titles and form values of PDF files."""

from __future__ import annotations

import io

import pytest
from reportlab.pdfgen import canvas

from smartcrawl.extract.formats import read_document
from smartcrawl.extract.formats.pdf import Bookmark, pdf_sections, pdf_title
from smartcrawl.extract.sniff import PDF
from smartcrawl.index.places import chunk_with_best_place, places_in_document
from smartcrawl.index.searching import HitChunk
from smartcrawl.model.documents import Document, Section
from tests.extract.made_documents import drawn

URL = "http://site.example/dir/the%20lamps.v2.pdf"
SENTENCE = "A sentence of the text that is long enough to be a line of its own. "


def read(body: bytes) -> Document:
    return read_document(body, media_type=PDF, content_type="", url=URL)


def book(*pages: list[tuple[str, float]], bookmarks: tuple[Bookmark, ...] = (), title: str = ""):
    """Return a PDF; each page has lines with their sizes."""
    stream = io.BytesIO()
    page = canvas.Canvas(stream)
    page.setTitle(title)
    for number, lines in enumerate(pages):
        at = 780.0
        for line, size in lines:
            at -= 1.5 * size
            page.setFont("Helvetica", size)
            page.drawString(72, at, line)
        for mark in bookmarks:
            if mark.page == number:
                page.bookmarkPage(mark.title)
                page.addOutlineEntry(mark.title, mark.title, mark.level - 1)
        page.showPage()
    page.save()
    return stream.getvalue()


def outline(sections: tuple[Section, ...] | list[Section]) -> list[tuple[int, str, str, list[str]]]:
    """Return level, heading, text and places of each section."""
    return [
        (part.level, part.heading, part.text, [span.target for span in (*part.head, *part.spans)])
        for part in sections
    ]


def test_bookmarks_are_headings_and_each_part_knows_its_page():
    body = book(
        [("Lamps", 24), ("Before all.", 11)],
        [("1 Fuses", 16), ("Of two ampere.", 11)],
        [("More of it.", 11), ("1.1 Spare ones", 13), ("In the lid.", 11)],
        bookmarks=(
            Bookmark(1, "Fuses", 1),
            Bookmark(2, "Spare ones", 2),
            Bookmark(1, "Index of lamps", 2),
        ),
    )

    assert outline(read(body).sections) == [
        (0, "", "Lamps\nBefore all.", ["page=1"]),
        (1, "Fuses", "Of two ampere.\nMore of it.", ["page=2", "page=3"]),
        (2, "Spare ones", "", ["page=3"]),
        (1, "Index of lamps", "In the lid.", ["page=3"]),
    ]


@pytest.mark.parametrize(
    ("texts", "bookmarks", "expected"),
    [
        ({0: "a\nb"}, [], [(0, "", "a\nb", ["page=1"])]),
        ({0: "a", 2: "b"}, [], [(0, "", "a\nb", ["page=1", "page=3"])]),
        ({0: "a"}, [Bookmark(1, "Not there", 0)], [(1, "Not there", "a", ["page=1"])]),
        ({0: "x\nA long\ntitle\ny"}, [Bookmark(9, "A Long Title", 0)],
         [(0, "", "x", ["page=1"]), (6, "A Long Title", "y", ["page=1"])]),
        ({0: "IV. Lamps\ny"}, [Bookmark(1, "Lamps", 0)], [(1, "Lamps", "y", ["page=1"])]),
        ({0: "Lamps\ny"}, [Bookmark(1, "2.3 Lamps", 0)], [(1, "2.3 Lamps", "y", ["page=1"])]),
        ({0: "a"}, [Bookmark(1, "Gone", 7)],
         [(0, "", "a", ["page=1"]), (1, "Gone", "", ["page=8"])]),
        ({}, [], []),
    ],
)  # fmt: skip
def test_title_of_a_bookmark_is_found_in_its_page(texts, bookmarks, expected):
    assert outline(pdf_sections(texts, bookmarks)) == expected


@pytest.mark.long
def test_many_bookmarks_of_one_page_take_no_square_of_time():
    lines = "\n".join(f"line {number}" for number in range(20_000))

    sections = pdf_sections({0: lines}, [Bookmark(1, f"Mark {n}", 0) for n in range(20_000)])

    assert len(sections) == 20_000


def test_bookmarks_in_a_circle_end():
    """10,000 siblings, of which the last is followed by the first."""
    count = 10_000
    objects = [
        "<</Type/Catalog/Pages 2 0 R/Outlines 4 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]>>",
        f"<</First 5 0 R/Last {4 + count} 0 R/Count {count}>>",
    ]
    objects += [
        f"<</Title(Mark {n} x)/Parent 4 0 R/Next {5 + (n + 1) % count} 0 R/Dest[3 0 R/Fit]>>"
        for n in range(count)
    ]
    body = "%PDF-1.4\n" + "".join(f"{n} 0 obj{one}endobj\n" for n, one in enumerate(objects, 1))

    document = read(f"{body}trailer<</Root 1 0 R/Size {len(objects) + 1}>>\n%%EOF".encode())

    assert len(document.sections) == count


@pytest.mark.parametrize(
    ("lines", "given", "title"),
    [
        ([("Fuses of", 24), ("the lamps", 24), ("by A. Writer", 12), (SENTENCE, 11)], "(anonymous)",
         "Fuses of the lamps"),
        ([("79", 30), ("Fuses", 20), (SENTENCE, 11), (SENTENCE, 11)], "79", "Fuses"),
        ([("1", 21.5), ("Fuses", 20), (SENTENCE, 11), (SENTENCE, 11)], "", "1 Fuses"),
        ([("1", 22), ("Fuses", 20), (SENTENCE, 11), (SENTENCE, 11)], "", "Fuses"),
        ([("Fuses", 20), ("of lamps", 18.65), (SENTENCE, 11), (SENTENCE, 11)], "",
         "Fuses of lamps"),
        ([("Fuses", 20), ("of lamps", 18.5), (SENTENCE, 11), (SENTENCE, 11)], "", "Fuses"),
        ([("ACME", 10), ("Fuses", 20), (SENTENCE, 11), (SENTENCE, 11)], "fuses.indd", "Fuses"),
        ([("Fuses", 20), (SENTENCE, 11)], "Lamps and fuses", "Lamps and fuses"),
        ([("Short line", 11), (SENTENCE, 11)], "", "Short line"),
        ([(SENTENCE * 4, 3), ("which goes on", 3)], "", "the lamps.v2"),
        ([("79", 11)], "untitled", "the lamps.v2"),
    ],
)  # fmt: skip
def test_title_is_the_given_one_or_the_largest_first_lines_or_the_name_of_the_file(
    lines, given, title
):
    assert read(book(lines, title=given)).title == title


@pytest.mark.parametrize(
    "given",
    ["(anonymous)", "79", "Microsoft Word - a.doc", "lamps.dvi", "a.b.pdf", "untitled-2", ""],
)
def test_names_of_files_and_programs_are_no_titles(given):
    assert pdf_title(given) == ""


def form(value: str) -> bytes:
    stream = io.BytesIO()
    page = canvas.Canvas(stream)
    page.drawString(72, 700, "Name of the lamp")
    page.acroForm.textfield(name="a", value=value, x=72, y=600, width=400, maxlen=len(value) + 1)
    page.showPage()
    page.save()
    return stream.getvalue()


def test_values_of_forms_are_text():
    assert "Zephyrine" in read(form("Zephyrine")).text


def test_a_megabyte_in_a_field_is_read_as_far_as_a_string_of_pdfium_goes():
    assert 6_000 < read(form("word " * 200_000)).text.count("word") <= 200_000


def test_page_of_a_chunk_is_that_on_which_it_begins():
    pages = {n: "\n".join(f"Line {i} of page {n + 1}." for i in range(9)) for n in range(30)}
    marks = [Bookmark(1, "Lamps", 0), Bookmark(2, "Fuses", 10)]
    sections = pdf_sections(pages, marks)

    def page(path: str, text: str) -> int | None:
        chunk = HitChunk(0, path, "", text)
        return chunk_with_best_place(chunk, places_in_document(chunk, sections)).page

    assert page("Lamps", "Line 3 of page 5.\nLine 4 of page 5.") == 5
    assert page("Lamps > Fuses", "Line 0 of page 11.") == 11
    assert page("Lamps > Fuses", "Line 8 of page 29.\nLine 0 of page 30.") == 29
    assert page("Lamps > Fuses", "") == 11
    assert page("Lamps", "not there") is None
    assert not places_in_document(HitChunk(0, "", "", "a"), (Section(0, "", "a"),))
    assert HitChunk(0, "", "", "", 214).link("http://a.example/b.pdf#x") == (
        "http://a.example/b.pdf#page=214"
    )


def test_lines_without_a_size_that_stands_out_name_the_file():
    assert read(drawn("2024 11", "2025 12")).title == "the lamps.v2"

"""Documents that are made to cost much: each has its outcome in words, and its reader goes on."""

import asyncio
import random
import resource
import sys
from collections.abc import Iterator
from io import BytesIO

import openpyxl
import pytest
from reportlab.pdfgen import canvas

from smartcrawl.extract.formats.common import FormatError, FormatFault
from smartcrawl.extract.html import parse_html
from smartcrawl.extract.pool import FormatPool
from smartcrawl.extract.sniff import CSV, EML, MARKDOWN, ODS, PDF, XLS, XLSB, XLSX
from smartcrawl.model.documents import Document
from smartcrawl.model.placed_spans import with_placed_spans
from tests.extract import made_documents as documents
from tests.extract.test_extract_formats import mutated

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of a process")

MIB = 1024 * 1024
MEMORY = 256 * MIB  #: the least that EXTRACT_MEMORY_MB may be
SECONDS = 5


@pytest.fixture(scope="module")
def pool() -> Iterator[FormatPool]:
    opened = FormatPool(1, MEMORY, SECONDS, 2 * SECONDS)
    yield opened
    asyncio.run(opened.close())


def read(pool: FormatPool, body: bytes, mime: str, name: str = "file") -> Document:
    url = f"file:///srv/docs/{name}"
    return asyncio.run(pool.read(body, media_type=mime, content_type="", url=url))


def outcome(pool: FormatPool, body: bytes, mime: str, name: str = "file") -> Document | FormatError:
    """Return what is read; then the next document is read, and no process has had more memory."""
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # of other tests' processes, too
    try:
        found: Document | FormatError = read(pool, body, mime, name)
    except FormatError as error:
        found = error
    assert read(pool, b"a,b\n1,2\n", CSV).text == "a\tb\n1\t2"
    now = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert now == most or now * 1024 < 2 * MEMORY
    return found


def kind_of(pool: FormatPool, body: bytes, mime: str) -> FormatFault | None:
    """Return why a document is not read; None if it is."""
    try:
        assert "\0" not in read(pool, body, mime).text
    except FormatError as error:
        return error.kind
    return None


def test_a_workbook_with_one_cell_in_the_last_corner(pool):
    book = openpyxl.Workbook()
    book.active["XFD1048576"] = "lamp"
    stream = BytesIO()
    book.save(stream)

    found = outcome(pool, stream.getvalue(), XLSX)

    assert isinstance(found, Document)
    assert found.text.split() == ["Sheet", "lamp"]


@pytest.mark.parametrize("mime", [ODS, XLS, XLSB])
def test_broken_workbooks_of_calamine(pool, mime):
    body, draw = documents.every()[mime], random.Random(mime)
    kinds = {None: 0, **dict.fromkeys(FormatFault, 0)}
    for _ in range(40):
        kinds[kind_of(pool, mutated(body, draw), mime)] += 1

    assert kinds[None]
    assert kinds[FormatFault.CORRUPT]
    assert kinds[FormatFault.CRASHED] == 0
    assert isinstance(outcome(pool, body, mime), Document)


def bookmarks(count: int) -> bytes:
    """Return a PDF whose bookmarks follow each other in a circle."""
    first, last = 4, 3 + count
    objects = {
        1: f"<</Type/Catalog/Pages 2 0 R/Outlines {last + 1} 0 R>>",
        2: "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        3: "<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 100]/Contents "
        f"{last + 2} 0 R/Resources<</Font<</F1 {last + 3} 0 R>>>>>>",
        last + 1: f"<</Type/Outlines/First {first} 0 R/Last {last} 0 R/Count {count}>>",
        last + 2: "<</Length 44>>stream\nBT /F1 18 Tf 20 50 Td (A lamp of oil.) Tj ET\nendstream",
        last + 3: "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    }
    for number in range(first, last + 1):
        following = number + 1 if number < last else first
        objects[number] = (
            f"<</Title(Part {number})/Parent {last + 1} 0 R/Next {following} 0 R"
            f"/First {following} 0 R/Dest[3 0 R/Fit]>>"
        )
    body, places = "%PDF-1.4\n", []
    for number in sorted(objects):
        places.append(len(body))
        body += f"{number} 0 obj{objects[number]}endobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    body_end = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer<</Size {size}/Root 1 0 R>>\n"
    return f"{body}{body_end}startxref\n{len(body)}\n%%EOF".encode()


def test_ten_thousand_bookmarks_in_a_circle(pool):
    found = outcome(pool, bookmarks(10_000), PDF)

    assert isinstance(found, Document)
    assert found.text.count("A lamp of oil.") == 1
    assert 1 < len(found.sections) <= 10_001


def test_a_field_of_a_form_with_a_megabyte(pool):
    stream = BytesIO()
    form = canvas.Canvas(stream)
    form.drawString(20, 700, "A form about lamps.")
    form.acroForm.textfield(name="a", value="lamp " * 200_000, x=20, y=20, width=500, height=600,
                            fieldFlags="multiline", maxlen=2_000_000)  # fmt: skip
    form.save()

    found = outcome(pool, stream.getvalue(), PDF)

    assert isinstance(found, Document)
    assert found.text.startswith("A form about lamps.\nlamp lamp ")


def test_messages_in_each_other_fifty_deep(pool):
    body = "Subject: lamp\n\nthe innermost\n"
    for _ in range(50):
        body = f"Subject: lamp\nMIME-Version: 1.0\nContent-Type: message/rfc822\n\n{body}"

    found = outcome(pool, body.encode(), EML)

    assert isinstance(found, Document)
    assert found.title == "lamp"
    assert len(found.sections) <= 11


def test_front_matter_of_eight_mebibytes(pool):
    lines = "".join(f"key{number}: a lamp of oil\n" for number in range(8 * MIB // 24))
    body = f"---\ntitle: Lamps\n{lines}---\n\n# Lamps\n\nA lamp takes a fuse.\n"

    found = outcome(pool, body.encode(), MARKDOWN, "lamps.mdx")

    assert isinstance(found, FormatError)
    assert found.kind is FormatFault.TOO_LARGE
    assert "characters" in str(found)


def test_text_that_looks_like_our_marks():
    marks = "".join(map(chr, range(0x11)))
    words = "".join(f"{mark}w{number} " for number, mark in enumerate(marks))
    body = (
        f"<h1>A {words}</h1><p>{words}<a href=b>{words}</a><code>c{words}</code>"
        f"<pre>{words}\n{words}</pre><table><tr><td>{words}<td>{words}</table>"
    )

    page = parse_html(
        body.encode(), content_type="text/html; charset=utf-8", url="http://a.example/"
    )
    plain = parse_html(
        body.translate(dict.fromkeys(range(0x11), " ")).encode(),
        content_type="text/html; charset=utf-8",
        url="http://a.example/",
    )

    assert [word for word in page.text.split() if word.strip(marks)]
    assert len(page.text.replace(" ", "")) <= len(body)
    assert {f"w{number}" for number in range(0x11)} <= set(_words(page.text, marks))
    assert [section.level for section in page.sections] == [s.level for s in plain.sections]
    for section in with_placed_spans(page).sections:
        for span in section.spans:
            assert 0 <= span.start <= span.end <= len(section.text)
        for block in section.blocks:
            assert 0 <= block.start < block.end <= len(section.text)


def _words(text: str, marks: str) -> Iterator[str]:
    for mark in marks:
        text = text.replace(mark, " ")
    yield from text.split()

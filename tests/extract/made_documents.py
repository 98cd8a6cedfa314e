"""Documents of every format that is read, made by other programs or by hand."""

from __future__ import annotations

import io
import struct
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import docx
import openpyxl
import pptx
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from pptx.oxml import parse_xml
from pptx.util import Inches
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.pdfgen import canvas
from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate

from smartcrawl.extract import sniff

ENGLISH = "A crawler visits every page that it knows and asks whether it has changed. "
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def zipped(files: dict[str, str | bytes], method: int = ZIP_DEFLATED) -> bytes:
    """Return a ZIP file; a first member ``mimetype`` is stored, as ODT and EPUB want it."""
    stream = io.BytesIO()
    with ZipFile(stream, "w", method) as archive:
        for name, content in files.items():
            kind = ZIP_STORED if name == "mimetype" else method
            archive.writestr(ZipInfo(name), content, kind)
    return stream.getvalue()


def pdf(*pages: str, password: str | None = None, title: str = "Annual report") -> bytes:
    """Return a PDF with a paragraph of markup (reportlab's) on each page."""
    stream = io.BytesIO()
    encrypt = StandardEncryption(password, canPrint=0) if password is not None else None
    template = SimpleDocTemplate(stream, title=title, encrypt=encrypt, lang="en-GB")
    style = getSampleStyleSheet()["Normal"]
    flow: list[object] = []
    for page in pages:
        flow += [*(Paragraph(part, style) for part in page.split("\n")), PageBreak()]
    template.build(flow[:-1])
    return stream.getvalue()


def drawn(*lines: str, **options: object) -> bytes:
    """Return a PDF of one page with these lines, each where it is."""
    stream = io.BytesIO()
    page = canvas.Canvas(stream, **options)
    for number, line in enumerate(lines):
        page.drawString(72, 700 - 14 * number, line)
    page.showPage()
    page.save()
    return stream.getvalue()


def linking(url: str) -> bytes:
    """Return a PDF of one page with a link."""
    stream = io.BytesIO()
    page = canvas.Canvas(stream)
    page.drawString(72, 700, "a link")
    page.linkURL(url, (72, 690, 200, 710))
    page.showPage()
    page.save()
    return stream.getvalue()


def word() -> bytes:
    """Return a DOCX by python-docx: title, headings, a table between paragraphs, a link."""
    document = docx.Document()
    document.core_properties.title = "Annual report"
    document.core_properties.language = "en"
    document.add_heading("Report", 0)
    document.add_paragraph(f"R&D <b> {ENGLISH}")
    document.add_heading("Figures", 1)
    table = document.add_table(2, 2)
    for row, column, text in ((0, 0, "year"), (0, 1, "pages"), (1, 0, "2026"), (1, 1, "12")):
        table.cell(row, column).text = text
    document.add_heading("Details", 2)
    paragraph = document.add_paragraph("See ")
    target = document.part.relate_to(
        "https://other.example/x?a=1#b", RELATIONSHIP_TYPE.HYPERLINK, is_external=True
    )
    link, run, text = (OxmlElement(name) for name in ("w:hyperlink", "w:r", "w:t"))
    link.set(qn("r:id"), target)
    text.text = "the other site"
    run.append(text)
    link.append(run)
    paragraph._p.append(link)
    stream = io.BytesIO()
    document.save(stream)
    return stream.getvalue()


def word_of(body: str, **parts: str) -> bytes:
    """Return a DOCX with ``body`` in ``<w:body>``, and further parts by their names."""
    names = 'xmlns:w="urn:w" xmlns:r="urn:r" xmlns:mc="urn:mc" xmlns:a="urn:a"'
    relations = "".join(
        f'<Relationship Id="{name}" Type="{OFFICE}/{name}" Target="{name}.xml"/>' for name in parts
    )
    relations += (
        f'<Relationship Id="out" Type="{OFFICE}/hyperlink" Target="../b.html"'
        ' TargetMode="External"/>'
    )
    files = {
        "[Content_Types].xml": _content_types("wordprocessingml.document", "/word/document.xml"),
        "_rels/.rels": _relations(
            f'<Relationship Id="a" Type="{OFFICE}/officeDocument" Target="/word/document.xml"/>'
        ),
        "word/_rels/document.xml.rels": _relations(relations),
        "word/document.xml": f"<w:document {names}><w:body>{body}</w:body></w:document>",
    }
    for name, content in parts.items():
        files[f"word/{name}.xml"] = f"<w:part {names}>{content}</w:part>"
    return zipped(files)


def _relations(content: str) -> str:
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{content}</Relationships>'


def _content_types(main: str, part: str) -> str:
    mime = f"application/vnd.openxmlformats-officedocument.{main}.main+xml"
    return (
        f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="xml"'
        f' ContentType="application/xml"/><Override PartName="{part}"'
        f' ContentType="{mime}"/></Types>'
    )


def slides() -> bytes:
    """Return a PPTX by python-pptx: two slides, a table, a link, notes, a hidden slide."""
    deck = pptx.Presentation()
    deck.core_properties.title = "PowerPoint Presentation"
    one = deck.slides.add_slide(deck.slide_layouts[1])
    one.placeholders[1].text = "First point\nSecond point"
    run = one.placeholders[1].text_frame.add_paragraph().add_run()
    run.text = "read more"
    run.hyperlink.address = "https://other.example/more"
    one.shapes.title.text = "Opening & aims"
    table = one.shapes.add_table(1, 2, Inches(1), Inches(1), Inches(4), Inches(1)).table
    table.cell(0, 0).text, table.cell(0, 1).text = "left", "right"
    one.notes_slide.notes_text_frame.text = "Speak slowly"
    two = deck.slides.add_slide(deck.slide_layouts[5])
    two.shapes.title.text = "Closing"
    hidden = deck.slides.add_slide(deck.slide_layouts[5])
    hidden.shapes.title.text = "Not shown"
    hidden._element.set("show", "0")
    stream = io.BytesIO()
    deck.save(stream)
    return stream.getvalue()


def slide_of(field: str) -> bytes:
    """Return a PPTX of a slide whose only paragraph has this markup."""
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    names = "http://schemas.openxmlformats.org/drawingml/2006/main"
    paragraph = parse_xml(f'<a:p xmlns:a="{names}">{field}</a:p>')
    body = slide.placeholders[1].text_frame
    body._txBody.replace(body.paragraphs[0]._p, paragraph)
    stream = io.BytesIO()
    deck.save(stream)
    return stream.getvalue()


def workbook() -> bytes:
    """Return an XLSX by openpyxl: two sheets with gaps, a hidden one, an empty one."""
    book = openpyxl.Workbook()
    book.properties.title = "Stock"
    first = book.active
    first.title = "Goods in store"
    first.append(["name", "count", "price"])
    first.append(["nuts & bolts", 12, 1.5])
    first.append([])
    first.append([None, "two\nlines", None, True])
    book.create_sheet("Empty")
    book.create_sheet("Other").append(["x", 10**9])
    hidden = book.create_sheet("Hidden")
    hidden.append(["secret"])
    hidden.sheet_state = "hidden"
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def odt(body: str = "", **files: str) -> bytes:
    """Return an ODT; ``body`` is what ``<office:text>`` holds."""
    body = body or (
        '<text:p text:style-name="P1">Report</text:p>'
        f'<text:h text:outline-level="1">Fig<text:span>ures</text:span></text:h>'
        f"<text:p>R&amp;D<text:s text:c='3'/>{ENGLISH}"
        '<text:a xlink:href="../b.html"> b</text:a><text:a xlink:href="#top">.</text:a></text:p>'
        "<table:table><table:table-row><table:table-cell><text:p>a</text:p></table:table-cell>"
        "<table:table-cell><text:p>b</text:p></table:table-cell></table:table-row></table:table>"
        '<text:h text:outline-level="2">Details</text:h><text:p>one<text:line-break/>two</text:p>'
        "<text:p>note<text:note><text:note-citation>1</text:note-citation><text:note-body>"
        "<text:p>below</text:p></text:note-body></text:note></text:p>"
    )
    names = " ".join(f'xmlns:{name}="urn:{name}"' for name in (
        "office", "text", "table", "xlink", "style", "draw", "svg", "dc", "meta",
    ))  # fmt: skip
    return zipped({
        "mimetype": sniff.ODT,
        "content.xml": f"<office:document-content {names}><office:automatic-styles>"
        '<style:style style:name="P1" style:parent-style-name="Title"/></office:automatic-styles>'
        f"<office:body><office:text>{body}</office:text></office:body></office:document-content>",
        "meta.xml": f"<office:document-meta {names}><office:meta><dc:language>en</dc:language>"
        "</office:meta></office:document-meta>",
        "META-INF/manifest.xml": "<manifest/>",
        **files,
    })  # fmt: skip


def epub(**files: str) -> bytes:
    """Return an EPUB with two chapters, which the manifest names in another order."""
    page = "<html xmlns='http://www.w3.org/1999/xhtml'><body>{}</body></html>"
    return zipped({
        "mimetype": sniff.EPUB,
        "META-INF/container.xml": "<container><rootfiles><rootfile full-path='OEBPS/book.opf'/>"
        "</rootfiles></container>",
        "OEBPS/book.opf": "<package xmlns:dc='urn:dc'><metadata><dc:title>A &amp; B</dc:title>"
        "<dc:language>en-GB</dc:language><dc:description>&lt;p&gt;Short&lt;/p&gt;</dc:description>"
        "</metadata><manifest>"
        "<item id='two' href='text/two.xhtml' media-type='application/xhtml+xml'/>"
        "<item id='one' href='text/chapter%201.xhtml' media-type='application/xhtml+xml'/>"
        "<item id='picture' href='p.png' media-type='image/png'/></manifest>"
        "<spine><itemref idref='one'/><itemref idref='two'/><itemref idref='picture'/></spine>"
        "</package>",
        "OEBPS/text/two.xhtml": page.format("<h2>Two</h2><p>the end</p>"),
        "OEBPS/text/chapter 1.xhtml": page.format(
            f"<h1>One</h1><p>{ENGLISH}<a href='two.xhtml'>next</a>"
            " <a href='https://other.example/w'>web</a></p>"
        ),
        **files,
    })  # fmt: skip


def _open_document(kind: str, mime: str, body: str) -> bytes:
    spaces = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{space}:1.0"'
        for name, space in (
            *((name, name) for name in ("office", "table", "text", "presentation")),
            ("draw", "drawing"),
        )
    )
    manifest = '<m:manifest xmlns:m="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>'
    return zipped({
        "mimetype": mime,
        "content.xml": f"<office:document-content {spaces}><office:body><office:{kind}>{body}"
        f"</office:{kind}></office:body></office:document-content>",
        "META-INF/manifest.xml": manifest,
    })  # fmt: skip


def ods() -> bytes:
    """Return an ODS with a sheet of two rows."""
    rows = "".join(
        f"<table:table-row>{''.join(cells)}</table:table-row>"
        for cells in (
            [f"<table:table-cell office:value-type='string'><text:p>{text}</text:p>"
             "</table:table-cell>" for text in row]
            for row in (("lamp", "fuse"), ("reading", "two amperes"))
        )
    )  # fmt: skip
    body = f"<table:table table:name='Fuses'>{rows}</table:table>"
    return _open_document("spreadsheet", sniff.ODS, body)


def odp() -> bytes:
    """Return an ODP with a slide: a title and a text."""
    boxes = "".join(
        f"<draw:frame presentation:class='{kind}'><draw:text-box><text:p>{text}</text:p>"
        "</draw:text-box></draw:frame>"
        for kind, text in (("title", "Lamps"), ("outline", "A lamp takes a fuse."))
    )
    body = f"<draw:page draw:name='page1'>{boxes}</draw:page>"
    return _open_document("presentation", sniff.ODP, body)


def _xls_record(number: int, data: bytes = b"") -> bytes:
    return struct.pack("<HH", number, len(data)) + data


def xls(*protection: int) -> bytes:
    """Return an XLS of BIFF8, with a sheet of two rows, in an OLE file of 512-byte sectors.

    ``protection``: the numbers of records that follow its first one.
    """
    begin = struct.pack("<HHHHII", 0x600, 5, 0, 0, 0, 6)
    sheet = _xls_record(0x809, begin[:2] + struct.pack("<H", 0x10) + begin[4:])
    for row, cells in enumerate((("lamp", "fuse"), ("reading", "two amperes"))):
        for column, text in enumerate(cells):
            cell = struct.pack("<HHHHB", row, column, 0, len(text), 0) + text.encode("ascii")
            sheet += _xls_record(0x204, cell)
    sheet += _xls_record(0x0A)
    name = b"Fuses"
    before = _xls_record(0x809, begin) + b"".join(_xls_record(one) for one in protection)
    before += _xls_record(0x42, struct.pack("<H", 1200))
    at = len(before) + 4 + 8 + len(name) + 4
    bound = _xls_record(0x85, struct.pack("<IHBB", at, 0, len(name), 0) + name)
    book = (before + bound + _xls_record(0x0A) + sheet).ljust(4_096, b"\0")
    end, free, table = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD
    count = len(book) // 512
    chain = [table, end, *range(3, count + 2), end]
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16)
    header += struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(10)
    header += struct.pack("<IIIIIIII", 1, 1, 0, 4_096, end, 0, end, 0)
    header += struct.pack("<109I", 0, *[free] * 108)
    entries = b"".join(
        _ole_entry(*entry)
        for entry in (("Root Entry", 5, 1, end, 0), ("Workbook", 2, free, 2, len(book)))
    )
    sectors = struct.pack("<128I", *chain, *[free] * (128 - len(chain)))
    return header + sectors + entries.ljust(512, b"\0") + book


def _ole_entry(name: str, kind: int, child: int, start: int, size: int) -> bytes:
    named = name.encode("utf-16-le") + b"\0\0"
    free = 0xFFFFFFFF
    fields = struct.pack("<HBBIII", len(named), kind, 1, free, free, child)
    return named.ljust(64, b"\0") + fields + bytes(36) + struct.pack("<IQ", start, size)


def _xlsb_record(number: int, data: bytes = b"") -> bytes:
    kind = bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80, number >> 7])
    size, length = len(data), b""
    while size > 0x7F:
        length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
    return kind + length + bytes([size]) + data


def _wide(text: str) -> bytes:
    return struct.pack("<I", len(text)) + text.encode("utf-16-le")


def xlsb() -> bytes:
    """Return an XLSB with a sheet of two rows."""
    bundle = struct.pack("<II", 0, 1) + _wide("rId1") + _wide("Fuses")
    book = b"".join(
        _xlsb_record(*record) for record in ((131,), (143,), (156, bundle), (144,), (132,))
    )
    rows = b""
    for row, cells in enumerate((("lamp", "fuse"), ("reading", "two amperes"))):
        rows += _xlsb_record(0, struct.pack("<I", row) + bytes(13))
        for column, text in enumerate(cells):
            rows += _xlsb_record(6, struct.pack("<II", column, 0) + _wide(text))
    size = struct.pack("<IIII", 0, 1, 0, 1)
    sheet = b"".join(
        [_xlsb_record(129), _xlsb_record(148, size), _xlsb_record(145), rows, _xlsb_record(146)]
    ) + _xlsb_record(130)  # fmt: skip
    main = "application/vnd.ms-excel.sheet.binary.macroEnabled.main"
    return zipped({
        "[Content_Types].xml": f"<Types xmlns='{_PACKAGE}/content-types'>"
        f"<Override PartName='/xl/workbook.bin' ContentType='{main}'/></Types>",
        "_rels/.rels": f"<Relationships xmlns='{_PACKAGE}/relationships'><Relationship Id='rId1'"
        f" Type='{OFFICE}/officeDocument' Target='xl/workbook.bin'/></Relationships>",
        "xl/workbook.bin": book,
        "xl/_rels/workbook.bin.rels": f"<Relationships xmlns='{_PACKAGE}/relationships'>"
        f"<Relationship Id='rId1' Type='{OFFICE}/worksheet' Target='worksheets/sheet1.bin'/>"
        "</Relationships>",
        "xl/worksheets/sheet1.bin": sheet,
    })  # fmt: skip


MARKDOWN = f"""---
title: "Notes: all"
description: What was noted
lang: en
---

# First & last

{ENGLISH} See [the guide](../guide.md) and `x < y`.

## Table

| a | b |
|---|---|
| 1 | 2 |

```python
def f():
    return 1
```
""".encode()


def every() -> dict[str, bytes]:
    """Return one sound document of each type."""
    return {
        sniff.PDF: pdf(f"Report\n{ENGLISH * 6}", '<a href="http://other.example/w">web</a>'),
        sniff.DOCX: word(),
        sniff.PPTX: slides(),
        sniff.XLSX: workbook(),
        sniff.ODT: odt(),
        sniff.EPUB: epub(),
        sniff.EML: b"Subject: Lamps\nFrom: Ann <ann@a.example>\n\nA lamp takes a fuse.\n",
        sniff.ODP: odp(),
        sniff.ODS: ods(),
        sniff.XLS: xls(),
        sniff.XLSB: xlsb(),
        sniff.MARKDOWN: MARKDOWN,
        sniff.RST: b"Lamps\n=====\n\nA *lamp* is lit.\n",
        sniff.ASCIIDOC: b"= Lamps\n\nA *lamp* is lit.\n",
        sniff.ORG: b"* Lamps\nA *lamp* is lit.\n",
        sniff.LATEX: b"\\section{Lamps}\nA \\emph{lamp} is lit.\n",
        sniff.CSV: b"name;count\nnuts;12\nbolts;13\n",
        sniff.JSON: b'{"title": "T", "items": [1, {"a": "b"}], "none": null}',
        sniff.NOTEBOOK: b'{"cells": [{"cell_type": "markdown", "source": ["# T\\n", "text"]}]}',
        sniff.XML: b"<?xml version='1.0'?><doc><title>T</title><p>a <b>b</b> c</p></doc>",
    }

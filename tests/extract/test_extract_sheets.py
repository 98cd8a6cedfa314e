"""Sheets of workbooks: their cells count, not how far apart they are."""

import io
import zipfile
from datetime import date, datetime, time, timedelta

import openpyxl
import pytest
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont

from smartcrawl.extract.formats import FormatError, FormatFault, read_document, xlsx
from smartcrawl.extract.formats.zipped import ZipArchive
from smartcrawl.extract.sniff import XLSX
from tests.extract import made_documents as documents

SHEET = "xl/worksheets/sheet1.xml"
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def text(body: bytes) -> str:
    document = read_document(body, media_type=XLSX, content_type="", url="http://site.example/")
    return "\n".join(section.text for section in document.sections)


def rewritten(body: bytes, **parts: str) -> bytes:
    """Return a workbook with other texts in parts of it, by name without folder and ending."""
    out = io.BytesIO()
    source = zipfile.ZipFile(io.BytesIO(body))
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in source.namelist():
            key = name.rpartition("/")[2].removesuffix(".xml")
            archive.writestr(name, parts.get(key, source.read(name)))
    return out.getvalue()


def with_rows(xml: str, head: str = "<sheetData>", foot: str = "</sheetData>") -> bytes:
    """Return a workbook of one sheet with these rows."""
    out, book = io.BytesIO(), openpyxl.Workbook()
    book.save(out)
    sheet = f'<worksheet xmlns="{MAIN}">{head}{xml}{foot}</worksheet>'
    return rewritten(out.getvalue(), sheet1=sheet)


def cell(place: str, value: str = "") -> str:
    value = value or f"at {place}"
    return f'<c r="{place}" t="inlineStr"><is><t>{value}</t></is></c>'


def row(number: int, *cells: str) -> str:
    return f'<row r="{number}">{"".join(cells)}</row>'


@pytest.mark.covers("R0-60")
def test_two_cells_in_opposite_corners_cost_two_cells(tmp_path):
    body = with_rows(row(1, cell("A1")) + row(1_048_576, cell("XFD1048576")))
    packed = xlsx.pack_spreadsheet_cells(ZipArchive(body))

    assert packed is not None
    assert list(map(xlsx.spreadsheet_cell_place, packed.places(0))) == [
        (0, 0),
        (1_048_575, 16_383),
    ]
    assert text(body) == "at A1\n" + "\t" * 100 + "at XFD1048576"


def test_a_sparse_sheet_may_begin_with_a_cell_without_a_value():
    empty = '<c r="A1"><v/></c>'
    body = with_rows(row(1, empty, cell("B1"), cell("C1")) + row(1_048_576, cell("D1048576")))
    last = row(1_048_576, cell("XFD1048576"))
    wide = with_rows(row(1, empty, cell("B1"), cell("C1")) + last)

    assert text(wide) == "\tat B1\tat C1\n" + "\t" * 100 + "at XFD1048576"
    assert text(body) == "\tat B1\tat C1\n\t\t\tat D1048576"


def test_cells_along_a_diagonal_are_no_grid():
    places = [f"{openpyxl.utils.get_column_letter(n)}{n}" for n in range(1, 3_001)]
    body = with_rows("".join(row(n, cell(place)) for n, place in enumerate(places, 1)))
    packed = xlsx.pack_spreadsheet_cells(ZipArchive(body))

    assert packed is not None
    assert len(packed.places(0)) == 3_000
    found = text(body).split("\n")
    assert [line.strip() for line in found] == [f"at {place}" for place in places]
    assert [len(line) - len(line.lstrip()) for line in found[:3]] == [0, 1, 2]


@pytest.mark.parametrize(
    "rows",
    [
        row(4_294_967_295, cell("A4294967295")),
        row(1, cell("A1")) + '<row r="4294967295"/>',
        row(1, cell("A1")) + row(1_048_577, cell("A1048577")),
        row(1, cell("XFE1")),
        row(1, cell("ZZZZ1")),
        row(1_048_576, cell("A1048576")) + "<row><c><v>1</v></c></row>",
        row(1, cell("XFD1"), "<c><v>1</v></c>"),
        row(1, "<c r=''><v>1</v></c>"),
    ],
    ids=["row", "empty row", "next row", "next column", "letters", "a row", "a cell", "nowhere"],
)
def test_what_is_outside_of_the_format_is_malformed(rows):
    with pytest.raises(FormatError, match=r"and the format has|not a valid place") as error:
        text(with_rows(rows))
    assert error.value.kind is FormatFault.CORRUPT


def test_a_sheet_as_programs_write_it_is_read_as_it_is():
    assert xlsx.pack_spreadsheet_cells(ZipArchive(documents.workbook())) is None
    assert (
        xlsx.pack_spreadsheet_cells(
            ZipArchive(with_rows(row(1, cell("A1")) + row(60_000, cell("A60000"))))
        )
        is None
    )


@pytest.mark.parametrize(
    "rows",
    [
        "<row>" + "<row/>" * 1_100 + "<c><v>1</v></c></row>",
        row(1, cell("A1")).replace('"', "'"),
        "<!-- a remark -->" + row(1, cell("A1")),
        row(1, '<c r="A1" t="str"><v><![CDATA[x]]></v></c>'),
        row(1, cell("A1")).replace("<c ", "<c\n"),
    ],
    ids=["rows without numbers", "other quotes", "a remark", "CDATA", "a line break"],
)
def test_a_sheet_that_is_written_in_another_way_is_walked(rows):
    body = with_rows(rows)

    assert xlsx.pack_spreadsheet_cells(ZipArchive(body)) is not None
    assert text(body) in ("1", "at A1", "x")


def test_names_with_a_prefix_are_walked():
    xml = row(1, cell("A1")) + row(900_000, cell("Z900000"))
    body = with_rows("", head="", foot="")
    prefixed = xml
    for name in ("row", "c", "is", "t"):
        prefixed = prefixed.replace(f"<{name} ", f"<x:{name} ").replace(f"<{name}>", f"<x:{name}>")
        prefixed = prefixed.replace(f"</{name}>", f"</x:{name}>")
    sheet = f'<x:worksheet xmlns:x="{MAIN}"><x:sheetData>{prefixed}</x:sheetData></x:worksheet>'

    assert text(rewritten(body, sheet1=sheet)) == "at A1\n" + "\t" * 25 + "at Z900000"


def values() -> openpyxl.Workbook:
    """Return a workbook with every kind of value."""
    book = openpyxl.Workbook()
    first = book.active
    first["B2"], first["C2"], first["D2"], first["E2"] = 1, 1.5, -2e300, 1e-7
    first["B3"], first["C3"] = True, False
    first["B4"], first["C4"] = date(2024, 2, 29), datetime(2024, 2, 29, 13, 14, 15)
    first["D4"], first["E4"] = time(13, 14), timedelta(hours=30, minutes=1)
    first["B5"], first["C5"], first["D5"] = "a & b < c", " two\nlines ", "=1+1"
    first["B6"], first["C6"] = "#DIV/0!", "\u0130 \U0001f600 _x000D_ \u00ad"
    first["E7"] = CellRichText("plain ", TextBlock(InlineFont(b=True), "bold"), " end")
    first["B8"] = 0.25
    first["B8"].number_format = "0.00%"
    first["B9"] = 45_000.5
    first["B9"].number_format = "yyyy-mm-dd hh:mm"
    book.create_sheet("Empty")
    second = book.create_sheet("Second")
    second.append(["same", None, None, "far"])
    second.append([None, "same"])
    hidden = book.create_sheet("Hidden")
    hidden["A1"] = "secret"
    hidden.sheet_state = "hidden"
    chart = book.create_chartsheet("Chart")
    chart.add_chart(openpyxl.chart.BarChart())
    book.create_sheet("Last").append(["last"])
    return book


@pytest.mark.parametrize("epoch", [openpyxl.utils.datetime.WINDOWS_EPOCH,
                                   openpyxl.utils.datetime.MAC_EPOCH])  # fmt: skip
def test_values_of_a_sparse_sheet_are_those_of_a_dense_one(monkeypatch, epoch):
    out, book = io.BytesIO(), values()
    book.epoch = epoch
    book.save(out)
    body = out.getvalue()
    dense = text(body)
    assert xlsx.pack_spreadsheet_cells(ZipArchive(body)) is None

    monkeypatch.setattr(xlsx, "_is_dense", lambda xml: False)

    assert xlsx.pack_spreadsheet_cells(ZipArchive(body)) is not None
    assert text(body) == dense
    assert "bold" in dense
    assert "secret" not in dense
    assert "same\t\t\tfar\n\tsame" in dense


def test_cells_in_any_order_are_read_in_theirs():
    rows = row(900_000, cell("B900000"), cell("A900000")) + row(5, cell("C5"), cell("B5"))

    assert text(with_rows(rows)) == "\tat B5\tat C5\nat A900000\tat B900000"


def test_many_cells_that_are_far_apart_are_read_in_portions():
    rows = "".join(row(n, cell(f"A{n}", f"x{n}"), cell(f"XFD{n}", f"y{n}"))
                   for n in range(50, 1_048_576, 50))  # fmt: skip
    found = text(with_rows(rows)).split("\n")

    assert [line.split() for line in found[:2]] == [["x50", "y50"], ["x100", "y100"]]
    assert len(found) == 20_971


def test_a_sheet_that_is_named_twice_is_read_twice_and_a_part_that_is_missing_is_broken():
    body = with_rows(row(1, cell("A1")) + row(900_000, cell("Z900000")))
    source = zipfile.ZipFile(io.BytesIO(body)).read("xl/workbook.xml").decode()
    at = source.index("<sheet ")
    sheet = source[at : source.index("/>", at) + 2]
    twice = source.replace(sheet, sheet + sheet.replace('name="Sheet"', 'name="Again"'))
    once = text(body)

    assert text(rewritten(body, workbook=twice)) == f"{once}\n{once}"
    with pytest.raises(FormatError) as error:
        text(rewritten(body, workbook=source.replace('id="rId1"', 'id="rId77"')))
    assert error.value.kind is FormatFault.CORRUPT

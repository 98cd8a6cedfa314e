"""XLSX, by calamine: a section for each sheet, a line for each row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from itertools import groupby, islice
from operator import itemgetter, le
from typing import Final

from python_calamine import (
    CalamineError,
    CalamineSheet,
    CalamineWorkbook,
    PasswordError,
    SheetVisibleEnum,
    WorksheetNotFound,
    XmlError,
    ZipError,
)

from smartcrawl.extract.formats import opc, sheets
from smartcrawl.extract.formats.archive import ZipArchive
from smartcrawl.extract.formats.common import (
    FormatError,
    FormatFault,
    check_document_text,
    clean_document_text,
    corrupt_document,
    document_table_section,
    parsed_document,
)
from smartcrawl.model.documents import Document, Section

_BROKEN: Final = (CalamineError, WorksheetNotFound, XmlError, ZipError)
_WHOLE: Final = 1e15  #: below, a float without fraction is written as a whole number
_MAX_GAP: Final = 100  #: tabs between two cells in a row of a sparse sheet
_PANIC: Final = "PanicException"  #: class of Rust's panics; no Exception, and not importable


def read_format(body: bytes, *, content_type: str, url: str) -> Document:
    """Return the document of a workbook: rows without empty cells at the end, columns by tabs.

    Values are those that the program stored, formulas are not computed. Hidden sheets, empty rows,
    comments and charts are left out. The heading of a sheet is its name. The cost of a sheet
    depends on the number of its cells, not on the distance between them.
    """
    archive = ZipArchive(body)
    archive.declared()
    try:
        text = _sheets(body, sheets.pack_spreadsheet_cells(archive))
    except PasswordError as error:
        what = "the workbook is encrypted: it wants a password"
        raise FormatError(FormatFault.ENCRYPTED, what) from error
    except _BROKEN as error:
        raise corrupt_document(f"the workbook is broken: {error}") from error
    except FormatError:
        raise
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise corrupt_document(f"the workbook is broken: {error}") from None
    properties = opc.opc_properties(archive)
    return parsed_document(
        url=url,
        text=text,
        title=properties.get("title", ""),
        declared=properties.get("language", ""),
    )


def _sheets(body: bytes, packed: sheets.PackedWorkbook | None) -> list[Section]:
    found: list[Section] = []
    size = 0
    with CalamineWorkbook.from_filelike(BytesIO(packed.body if packed else body)) as workbook:
        for number, sheet in enumerate(workbook.sheets_metadata):
            if sheet.visible != SheetVisibleEnum.Visible:
                continue
            try:
                rows = workbook.get_sheet_by_index(number)
            except WorksheetNotFound:  # the sheet is a chart
                continue
            lines = _lines(rows) if packed is None else _sparse(rows, packed.places(number))
            text = _joined(lines, size)
            size += len(text)
            if text:
                name = " ".join(sheet.name.split())
                found.append(document_table_section(1, name, text, head="\n" in text))
    return found


def _lines(sheet: CalamineSheet) -> Iterator[str]:
    """Yield the rows of a sheet, from its first column with a cell."""
    for row in sheet.iter_rows():
        yield "\t".join(map(_written, row)).rstrip("\t")


def _sparse(sheet: CalamineSheet, places: Sequence[int]) -> Iterator[str]:
    """Yield the rows of a sheet whose cells were at ``places`` before they were put together."""
    top, left = sheet.start or (0, 0)
    values = (
        (places[at], _written(value))
        for down, row in enumerate(sheet.iter_rows(), top)
        for at, value in enumerate(row, down * sheets.WIDTH + left)
        if at < len(places)
    )
    in_order = all(map(le, places, islice(places, 1, None)))
    cells = values if in_order else iter(sorted(values, key=itemgetter(0)))  # stable
    edge = min((sheets.spreadsheet_cell_place(at)[1] for at in places), default=0)
    for _, found in groupby(cells, lambda cell: sheets.spreadsheet_cell_place(cell[0])[0]):
        written: list[str] = []
        last = edge
        for column, text in {
            sheets.spreadsheet_cell_place(at)[1]: text for at, text in found
        }.items():
            if text:
                written += ("\t" * min(column - last, _MAX_GAP), text)
                last = column
        yield "".join(written)


def _joined(rows: Iterable[str], size: int) -> str:
    """Return rows as lines; ``size`` characters were read before."""
    lines: list[str] = []
    for written in rows:
        if written:
            size += len(written) + 1
            check_document_text(size)
            lines.append(written)
    return "\n".join(lines)


def _written(value: object) -> str:
    """Return a cell as text: one line, dates in ISO 8601."""
    if isinstance(value, str):
        return clean_document_text(" ".join(value.split()))
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < _WHOLE else repr(value)
    return str(value)

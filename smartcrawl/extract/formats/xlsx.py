"""XLSX, by calamine: a section for each sheet, a line for each row."""

from __future__ import annotations

from io import BytesIO
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

from smartcrawl.extract.formats import opc
from smartcrawl.extract.formats.archive import Archive
from smartcrawl.extract.formats.common import (
    FormatError,
    FormatFault,
    check_text,
    clean,
    corrupt,
    document,
)
from smartcrawl.items import Document, Section

_BROKEN: Final = (CalamineError, WorksheetNotFound, XmlError, ZipError)
_WHOLE: Final = 1e15  #: below, a float without fraction is written as a whole number
_PANIC: Final = "PanicException"  #: how Rust's panics are called; no Exception, and not importable


def read(body: bytes, *, content_type: str, url: str) -> Document:
    """Return what a workbook says: rows without empty cells at the end, columns by tabs.

    Values are those that the program stored, formulas are not computed. Hidden sheets, empty rows,
    comments and charts are left out. The heading of a sheet is its name.
    """
    archive = Archive(body)
    archive.declared()
    try:
        text = _sheets(body)
    except PasswordError as error:
        what = "the workbook is encrypted: it wants a password"
        raise FormatError(FormatFault.ENCRYPTED, what) from error
    except _BROKEN as error:
        raise corrupt(f"the workbook is broken: {error}") from error
    except FormatError:
        raise
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise corrupt(f"the workbook is broken: {error}") from None
    told = opc.properties(archive)
    return document(
        url=url, text=text, title=told.get("title", ""), declared=told.get("language", "")
    )


def _sheets(body: bytes) -> list[Section]:
    found: list[Section] = []
    size = 0
    with CalamineWorkbook.from_filelike(BytesIO(body)) as workbook:
        for number, sheet in enumerate(workbook.sheets_metadata):
            if sheet.visible != SheetVisibleEnum.Visible:
                continue
            try:
                rows = workbook.get_sheet_by_index(number)
            except WorksheetNotFound:  # a sheet that is a chart
                continue
            text = _rows(rows, size)
            size += len(text)
            if text:
                found.append(Section(1, " ".join(sheet.name.split()), text))
    return found


def _rows(sheet: CalamineSheet, size: int) -> str:
    lines: list[str] = []
    for row in sheet.iter_rows():
        written = "\t".join(map(_written, row)).rstrip("\t")
        if written:
            size += len(written) + 1
            check_text(size)
            lines.append(written)
    return "\n".join(lines)


def _written(value: object) -> str:
    """Return a cell as text: one line, dates in ISO 8601."""
    if isinstance(value, str):
        return clean(" ".join(value.split()))
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < _WHOLE else repr(value)
    return str(value)

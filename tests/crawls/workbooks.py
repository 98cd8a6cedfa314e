"""Workbooks that answer in place of pages: small, wide, broken and long ones."""

import io
import zipfile

from openpyxl import Workbook

from tests.site_server import Page

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def xlsx(text: str) -> bytes:
    out, book = io.BytesIO(), Workbook()
    book.active.append(["name", text])
    book.save(out)
    return out.getvalue()


def workbook(rows: str) -> Page:
    """Return a page that answers with a workbook of these rows."""
    out = io.BytesIO()
    source = zipfile.ZipFile(io.BytesIO(xlsx("x")))
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in source.namelist():
            sheet = f'<worksheet xmlns="{MAIN}"><sheetData>{rows}</sheetData></worksheet>'
            archive.writestr(name, sheet if "sheet1" in name else source.read(name))
    return Page(out.getvalue(), content_type="application/octet-stream")


def row(number: int, place: str, text: str) -> str:
    cell = f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'
    return f'<row r="{number}">{cell}</row>'


def long(count: int = 200_000, name: str = "late") -> Page:
    """Return a page whose workbook takes seconds: its many cells are not written as usual."""
    cells = "".join(f"<row r='{n}'><c r='A{n}'><v>{n * 7919 % 99991}</v></c></row>"
                    for n in range(1, count))  # fmt: skip
    return workbook(cells + row(count, f"A{count}", f"{name} words"))

"""PDF, by PDFium: text by page, links of annotations."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, Final

import pypdfium2
from pypdfium2 import raw

from smartcrawl.extract.formats.common import (
    MAX_REFERENCES,
    FormatError,
    FormatFault,
    check_document_text,
    corrupt_document,
    document_too_large,
    given_document_title,
    parsed_document,
)
from smartcrawl.extract.links import Reference
from smartcrawl.model.documents import Document, Section
from smartcrawl.model.urls import MAX_URL_LENGTH

MAX_PAGES: Final = 20_000
_EVERYWHERE: Final = (-1e6, 1e6, 1e6, -1e6)  #: left, top, right, bottom, beyond any page
_ADDRESS: Final = 2 * MAX_URL_LENGTH  #: bytes; longer addresses are ignored
_LANGUAGE: Final = 64  #: UTF-16 units of the language tag
_HYPHEN: Final = re.compile("[\x02\xad\ufffe](?:\r?\n)?")  #: PDFium's marks of a divided word
_FULL: Final = 0.8  #: least width of a line within a paragraph, as a part of the widest line
_LONG: Final = 40  #: characters of the widest line at least; lines of a title page are shorter
_PASSWORD: Final = frozenset({raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY})


def read_format(body: bytes, *, content_type: str, url: str) -> Document:
    """Return title, text and links of a PDF: all pages in one section, paragraphs as lines.

    A word that is divided at the end of a line is joined. Lines are joined where one clearly
    continues in the next. A page that PDFium cannot load is left out, unless it can load none.
    Images are not read: a scan has no text. Fonts of this machine have no influence where none can
    be opened (``extract.confine``).
    """
    pdf = _opened(body)
    try:
        pages = len(pdf)
        if pages > MAX_PAGES:
            raise document_too_large(f"the PDF has {pages:,} pages; at most {MAX_PAGES:,} are read")
        references: list[Reference] = []
        texts = list(_pages(pdf, pages, references))
        title, declared = given_document_title(_property(pdf, "Title")), _language(pdf)
    finally:
        pdf.close()
    text = "\n".join(filter(None, texts))
    return parsed_document(
        url=url,
        text=[Section(0, "", text)] if text else [],
        title=title,
        declared=declared,
        references=references,
    )


def _opened(body: bytes) -> Any:
    try:
        return pypdfium2.PdfDocument(body)
    except pypdfium2.PdfiumError as error:
        if error.err_code in _PASSWORD:
            what = "the PDF is encrypted: it wants a password, or a security handler"
            raise FormatError(FormatFault.ENCRYPTED, what) from error
        raise corrupt_document(f"the PDF cannot be opened: {error}") from error


def _pages(pdf: Any, pages: int, references: list[Reference]) -> Iterator[str]:
    size = failed = 0
    for number in range(pages):
        try:
            page = pdf.get_page(number)
        except pypdfium2.PdfiumError:
            failed += 1
            continue
        with suppress(pypdfium2.PdfiumError):
            text = _paragraphs(_text(page))
            size += len(text) + 1
            check_document_text(size)
            yield text
        if len(references) < MAX_REFERENCES:
            references += _references(pdf.raw, page.raw)
        page.close()
    if failed and failed == pages:
        raise corrupt_document(f"none of the {pages:,} pages of the PDF can be loaded")


def _text(page: Any) -> str:
    """Return the text of a page in PDFium's order.

    ``get_text_range`` is limited to UCS-2, ``get_text_bounded`` reads the text twice.
    """
    textpage = page.get_textpage()
    try:
        room = 2 * textpage.count_chars() + 2
        check_document_text(room // 2)
        units = (ctypes.c_ushort * room)()
        count = raw.FPDFText_GetBoundedText(textpage.raw, *_EVERYWHERE, units, room)
        written = memoryview(units).cast("B")[: 2 * count].tobytes()
        return written.decode("utf-16-le", "replace").replace("\0", "")
    finally:
        textpage.close()


def _paragraphs(text: str) -> str:
    """Return ``text`` with a line for each paragraph, as far as its lines show that.

    A line continues in the next if the next begins in lower case. It also does if it is nearly as
    wide as the widest, ends in a letter or comma, and the next begins with a letter: rows of
    figures, lists and headings stay.
    """
    if "\x02" in text or "\xad" in text or "\ufffe" in text:
        text = _HYPHEN.sub("", text)
    if "\r" in text.replace("\r\n", "\n"):
        text = text.replace("\r\n", "\n").replace("\r", " ")
    lines = [row for line in text.splitlines() if (row := line.strip())]
    if not lines:
        return ""
    full = max(_LONG, _FULL * max(map(len, lines)))
    line = lines[0]
    parts = [line]
    for following in islice(lines, 1, None):
        first, last = following[0], line[-1]
        if (first.islower() and last not in ".:!?") or (
            len(line) >= full and first.isalpha() and (last.isalpha() or last == ",")
        ):
            parts += (" ", following)
        else:
            parts += ("\n", following)
        line = following
    return "".join(parts)


def _references(pdf: Any, page: Any) -> Iterator[Reference]:
    """Yield the web addresses of a page's link annotations; PDF gives them no text."""
    position, link = ctypes.c_int(0), raw.FPDF_LINK()
    address = ctypes.create_string_buffer(_ADDRESS)
    while raw.FPDFLink_Enumerate(page, position, link):
        size = raw.FPDFAction_GetURIPath(pdf, raw.FPDFLink_GetAction(link), address, _ADDRESS)
        if 1 < size <= _ADDRESS:
            yield Reference(address.value.decode("utf-8", "replace"), "hyperlink", nofollow=False)


def _property(pdf: Any, name: str) -> str:
    return str(pdf.get_metadata_value(name))


def _language(pdf: Any) -> str:
    units = (ctypes.c_ushort * _LANGUAGE)()
    size = raw.FPDFCatalog_GetLanguage(pdf, units, ctypes.sizeof(units))
    if not 2 < size <= ctypes.sizeof(units):
        return ""
    return bytes(units)[: size - 2].decode("utf-16-le", "replace")

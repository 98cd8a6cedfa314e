"""PDF, by PDFium: text by page, headings of bookmarks, links of annotations."""

from __future__ import annotations

import ctypes
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, islice
from math import isclose
from operator import attrgetter
from typing import Any, Final, NamedTuple

import pypdfium2
from pypdfium2 import raw

from smartcrawl.extract.formats.common import (
    MAX_HEADINGS,
    MAX_REFERENCES,
    MAX_TITLE,
    FormatError,
    FormatFault,
    check_document_text,
    clean_document_text,
    corrupt_document,
    document_too_large,
    given_document_title,
    parsed_document,
)
from smartcrawl.extract.links import Reference, document_file_stem
from smartcrawl.extract.sections import markup_line
from smartcrawl.model.documents import PAGE_PLACE, PLACE, Document, Section, Span
from smartcrawl.model.urls import MAX_URL_LENGTH

MAX_PAGES: Final = 20_000
_EVERYWHERE: Final = (-1e6, 1e6, 1e6, -1e6)  #: left, top, right, bottom, beyond any page
_ADDRESS: Final = 2 * MAX_URL_LENGTH  #: bytes; longer addresses are ignored
_LANGUAGE: Final = 64  #: UTF-16 units of the language tag
_HYPHEN: Final = re.compile("[\x02\xad\ufffe](?:\r?\n)?")  #: PDFium's marks of a divided word
_FULL: Final = 0.8  #: least width of a line within a paragraph, as a part of the widest line
_LONG: Final = 40  #: characters of the widest line at least; lines of a title page are shorter
_ANNOTATIONS: Final = 10_000  #: of a page that are looked at
_TYPED: Final = frozenset({raw.FPDF_ANNOT_WIDGET, raw.FPDF_ANNOT_FREETEXT})
_DEPTH: Final = 15  #: of bookmarks within each other
_LEVELS: Final = 6
_COMPARED: Final = 3_000_000  #: lines with titles of bookmarks, at most
_TITLE_LINES: Final = 3  #: that a heading may take
_NUMBERS: Final = 12  #: letters and digits before a heading that its bookmark has not
_NUMBER: Final = re.compile(
    r"^\s*+(?:(?:chapter|appendix|part|section)\s*+)?(?:[0-9][0-9.]*+|[ivxlc]++[.):]|[a-z][.)])++\s+"
)
_PAGE_NAME: Final = re.compile(r"(?:page|seite|p\.?)?\s*[0-9]+", re.IGNORECASE)
_NO_TITLE: Final = re.compile(
    r"\(?(?:anonymous|unknown|none|null|no title|untitled)\)?.{0,3}"
    r"|\S+\.(?:docx?|indd|qxd|tex|dvi|pptx?|pdf|ps|fm|pmd|xlsx?|rtf|odt|book|html?)"
    r"|microsoft (?:word|excel|powerpoint)\b.*|slide ?\d*|(?:layout|print|untitled)[ -]?\d+",
    re.IGNORECASE,
)
_LETTERS: Final = 3  #: least of a title
_FIRST: Final = 3_000  #: characters of the first page whose sizes are compared
_LARGER: Final = 1.15  #: how much larger than the usual line a title is, at least
_SAME: Final = 0.93  #: lines of at least this part of the largest size belong to the title
_PASSWORD: Final = frozenset({raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY})


def read_format(body: bytes, *, content_type: str, url: str) -> Document:
    """Return title, text and links of a PDF: paragraphs as lines, its bookmarks as headings.

    Each part of the text has the place of its page (``page=2``). A word that is divided at the end
    of a line is joined. Lines are joined where one clearly continues in the next. Values of form
    fields and typed notes are text. A page that PDFium cannot load is left out, unless it can load
    none. Images are not read: a scan has no text. Fonts of this machine have no influence where
    none can be opened (``extract.confine``).
    """
    pdf = _opened(body)
    try:
        pages = len(pdf)
        if pages > MAX_PAGES:
            raise document_too_large(f"the PDF has {pages:,} pages; at most {MAX_PAGES:,} are read")
        references: list[Reference] = []
        texts = dict(_pages(pdf, pages, references))
        given, declared = _property(pdf, "Title"), _language(pdf)
        sections = pdf_sections(texts, _bookmarks(pdf))
        title = pdf_title(given) or _shown_title(pdf, texts) or document_file_stem(url)
    finally:
        pdf.close()
    return parsed_document(
        url=url,
        text=sections,
        title=title if sections else given,
        declared=declared,
        references=references,
    )


def _opened(body: bytes) -> Any:
    try:
        pdf = pypdfium2.PdfDocument(body)
        with suppress(pypdfium2.PdfiumError):
            pdf.init_forms()
        return pdf
    except pypdfium2.PdfiumError as error:
        if error.err_code in _PASSWORD:
            what = "the PDF is encrypted: it wants a password, or a security handler"
            raise FormatError(FormatFault.ENCRYPTED, what) from error
        raise corrupt_document(f"the PDF cannot be opened: {error}") from error


def _pages(pdf: Any, pages: int, references: list[Reference]) -> Iterator[tuple[int, str]]:
    """Yield the text of each page that can be read, with its number from 0 on."""
    size = failed = 0
    for number in range(pages):
        try:
            page = pdf.get_page(number)
        except pypdfium2.PdfiumError:
            failed += 1
            continue
        if len(references) < MAX_REFERENCES:
            references += _references(pdf.raw, page.raw)
        if _has_typed_text(page.raw) and raw.FPDFPage_Flatten(page.raw, raw.FLAT_NORMALDISPLAY):
            page.close()
            page = pdf.get_page(number)
        with suppress(pypdfium2.PdfiumError):
            text = clean_document_text(_paragraphs(_text(page)))
            size += len(text) + 1
            check_document_text(size)
            yield number, text
        page.close()
    if failed and failed == pages:
        raise corrupt_document(f"none of the {pages:,} pages of the PDF can be loaded")


def _has_typed_text(page: Any) -> bool:
    """Whether a page has form fields or typed notes, whose texts are not part of it so far."""
    for number in range(min(raw.FPDFPage_GetAnnotCount(page), _ANNOTATIONS)):
        annotation = raw.FPDFPage_GetAnnot(page, number)
        if annotation:
            kind = raw.FPDFAnnot_GetSubtype(annotation)
            raw.FPDFPage_CloseAnnot(annotation)
            if kind in _TYPED:
                return True
    return False


class Bookmark(NamedTuple):
    """An entry of the outline: a heading on a page, whose number counts from 0."""

    level: int
    title: str
    page: int


def _bookmarks(pdf: Any) -> list[Bookmark]:
    """Return the bookmarks that lead to a page, by their pages; further ones are left out."""
    found: list[Bookmark] = []
    for entry in islice(pdf.get_toc(max_depth=_DEPTH), MAX_HEADINGS):
        with suppress(pypdfium2.PdfiumError, UnicodeError):
            title = markup_line(clean_document_text(entry.get_title()))[:MAX_TITLE].rstrip()
            target = entry.get_dest()
            page = target.get_index() if target is not None else None
            if title and page is not None and not _PAGE_NAME.fullmatch(title):
                found.append(Bookmark(entry.level + 1, title, page))
    return sorted(found, key=attrgetter("page"))


def pdf_sections(texts: Mapping[int, str], bookmarks: Iterable[Bookmark]) -> list[Section]:
    """Return the texts of pages as sections, each part with the place of its page.

    A bookmark is the heading of what follows the line that has its title; where no line has it, of
    its page. The line itself is left out.
    """
    sections = _Sections()
    patience = _COMPARED
    by_page: defaultdict[int, list[Bookmark]] = defaultdict(list)
    for bookmark in bookmarks:
        by_page[bookmark.page].append(bookmark)
    for page in sorted(texts.keys() | by_page.keys()):
        lines = texts.get(page, "").split("\n") if texts.get(page) else []
        keys = [_key(line) for line in lines]
        at = 0
        for bookmark in by_page[page]:
            patience -= len(keys) - at
            place = _heading_place(keys, at, _key(bookmark.title)) if patience > 0 else None
            if place is not None:
                sections.add(page, lines[at : place.start])
                at = place.stop
            sections.begin(bookmark, page)
        sections.add(page, lines[at:])
    return sections.found()


def _heading_place(keys: Sequence[_Key], start: int, title: _Key) -> range | None:
    """Return the lines, from ``start`` on, that are a title, its number before it or not."""
    if not title.whole:
        return None
    for at in range(start, len(keys)):
        whole, bare = "", ""
        for end in range(at, min(at + _TITLE_LINES, len(keys))):
            whole += keys[end].whole
            bare += keys[end].bare if end == at else keys[end].whole
            if whole == title.whole or (bare and bare == title.bare):
                return range(at, end + 1)
            if len(whole) > len(title.whole) + _NUMBERS:
                break
    return None


class _Key(NamedTuple):
    """The letters and digits of a line, which is compared with a title."""

    whole: str
    bare: str  #: without the number of a chapter


def _key(line: str) -> _Key:
    if len(line) > 2 * MAX_TITLE:  # it is no title
        return _Key("-", "-")
    line = line.casefold()
    parts = (line, _NUMBER.sub("", line))
    return _Key(*("".join(filter(str.isalnum, part)) for part in parts))


class _Sections:
    """The sections of a PDF while its pages are read in their order."""

    def __init__(self) -> None:
        self._found: list[Section] = []
        self._open = Section(0, "", "")
        self._lines: list[str] = []
        self._spans: list[Span] = []
        self._size = 0
        self._page = -1

    def begin(self, bookmark: Bookmark, page: int) -> None:
        """Begin the section of a bookmark."""
        self._end()
        head = (Span(PLACE, 0, 0, f"{PAGE_PLACE}{page + 1}"),)
        level = min(bookmark.level, _LEVELS)
        self._open, self._page = Section(level, bookmark.title, "", head=head), page

    def add(self, page: int, lines: Sequence[str]) -> None:
        """Add lines of a page to the open section."""
        if not lines:
            return
        if page != self._page:
            self._spans.append(Span(PLACE, self._size, self._size, f"{PAGE_PLACE}{page + 1}"))
            self._page = page
        self._lines += lines
        self._size += sum(map(len, lines)) + len(lines)

    def _end(self) -> None:
        if self._open.heading or self._lines:
            text = "\n".join(self._lines)
            self._found.append(self._open._replace(text=text, spans=tuple(self._spans)))
        self._lines, self._spans, self._size, self._page = [], [], 0, -1

    def found(self) -> list[Section]:
        self._end()
        return self._found


def pdf_title(text: str) -> str:
    """Return the title in the properties of a PDF; empty if it names a file or nothing.

    >>> [pdf_title(text) for text in ("Fuses and lamps", "(anonymous)", "79", "report-v2.indd")]
    ['Fuses and lamps', '', '', '']
    """
    title = given_document_title(text)
    return title if _is_title(title) else ""


def _is_title(text: str) -> bool:
    letters = sum(map(str.isalpha, text))
    return letters >= _LETTERS and len(text) < MAX_TITLE and not _NO_TITLE.fullmatch(text)


def _shown_title(pdf: Any, texts: Mapping[int, str]) -> str:
    """Return the largest first lines of the first page that has text, or its short first line."""
    number = next((number for number, text in texts.items() if text), None)
    if number is None:
        return ""
    with suppress(pypdfium2.PdfiumError):
        page = pdf.get_page(number)
        try:
            largest = _largest_lines(page)
        finally:
            page.close()
        if _is_title(largest):
            return largest
    first = texts[number].partition("\n")[0]
    return first if _is_title(first) else ""


def _largest_lines(page: Any) -> str:
    """Return the first lines of the largest size of a page; empty where none is larger."""
    textpage = page.get_textpage()
    try:
        lines = list(_sized_lines(textpage))
    finally:
        textpage.close()
    sizes = sorted((size, sum(map(str.isalpha, line))) for size, line in lines)
    worded = [size for size, letters in sizes if letters >= _LETTERS]
    if not worded:
        return ""
    half, before = sum(letters for _, letters in sizes) / 2, accumulate(n for _, n in sizes)
    usual = next(size for (size, _), letters in zip(sizes, before, strict=True) if letters >= half)
    largest = worded[-1]
    if largest < _LARGER * usual:
        return ""
    parts: list[str] = []
    for size, line in lines:
        if isclose(size, largest, rel_tol=1 - _SAME):
            parts.append(line)
        elif parts:
            break
    return markup_line(clean_document_text(_HYPHEN.sub("", " ".join(parts))))


def _sized_lines(textpage: Any) -> Iterator[tuple[float, str]]:
    """Yield the first lines of a page, each with the height of its largest character."""
    box, line, size = raw.FS_RECTF(), "", 0.0
    for at in range(min(textpage.count_chars(), _FIRST)):
        code = raw.FPDFText_GetUnicode(textpage.raw, at)
        if code in (10, 13):
            if line.strip():
                yield size, line.strip()
            line, size = "", 0.0
        elif code and not 0xD800 <= code < 0xE000 and code <= sys.maxunicode:
            line += chr(code)
            if not chr(code).isspace() and raw.FPDFText_GetLooseCharBox(textpage.raw, at, box):
                size = max(size, abs(box.top - box.bottom))
    if line.strip():
        yield size, line.strip()


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

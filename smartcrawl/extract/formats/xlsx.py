"""XLSX, by calamine: a section for each sheet, a line for each row.

The cells of XLSX sheets before calamine reads them: no grid is larger than its cells.

calamine makes a grid from a sheet's first cell to its last one, even if it is empty between them:
two cells can need 17,000,000,000 others. So a sheet that is sparse, or has unusual XML, is
rewritten with its cells side by side, and ``PackedWorkbook`` has their former places.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BytesIO
from itertools import groupby, islice
from operator import itemgetter, le
from typing import Final
from xml.sax.saxutils import escape, quoteattr
from zipfile import ZIP_DEFLATED, ZipFile

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

from smartcrawl.extract.formats import zipped
from smartcrawl.extract.formats.common import (
    FormatError,
    FormatFault,
    check_document_text,
    clean_document_text,
    corrupt_document,
    document_table_section,
    given_document_title,
    parsed_document,
)
from smartcrawl.extract.formats.zipped import MAX_TAG, Attributes, ZipArchive, walk_markup
from smartcrawl.extract.links import document_file_name
from smartcrawl.model.documents import Document, Section

MAX_ROW: Final = 1_048_576  #: of the format
MAX_COLUMN: Final = 16_384  #: XFD
WIDTH: Final = 64  #: columns of a sheet whose cells are side by side
_SMALL: Final = 65_536  #: cells of a grid that is made even if it is empty
_BYTES: Final = 4  #: of XML for each further cell of a grid; a cell in it takes 20 or more
_COLUMN_BITS: Final = 14
_PORTION: Final = 10_000  #: pieces of XML that are written at once
_MAIN: Final = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"

_REFERENCE: Final = re.compile(r"([A-Za-z]{1,3})([0-9]{1,7})", re.ASCII)
#: Rows and cells in their usual form; sheets with other forms are walked.
_PLAIN: Final = re.compile(rb'<(?:row|c) (?:[a-z:]+="[^"<>]*" )*?r="([A-Z]{0,3})([0-9]{1,7})"')
_ENDS: Final = (b" ", b">", b"/", b"\t", b"\n", b"\r")  #: characters after the name of an element
#: All beginnings of a row or a cell, with those that ``_PLAIN`` does not match.
_TAGS: Final = tuple(b"<" + name + end for name in (b"row", b"c") for end in _ENDS)
#: Remarks, CDATA, and encodings that calamine decodes first.
_UNUSUAL: Final = (b"<!", b"\0")
_PREFIXED: Final = re.compile(rb":(?:row|sheetData|c[\s/>])")
#: Elements of a cell that contain its value.
_VALUE: Final = frozenset({"v", "is", "t", "r", "rPh"})


class PackedWorkbook:
    """A workbook whose sheets have their cells side by side, and the places of these cells."""

    def __init__(self, body: bytes, places: list[array[int]]) -> None:
        self.body = body
        self._places = places

    def places(self, sheet: int) -> array[int]:
        """Return the place of each cell of a sheet, in the order of the new one.

        See ``spreadsheet_cell_place``.
        """
        if sheet >= len(self._places):
            raise corrupt_document("the workbook does not say where all of its sheets are")
        return self._places[sheet]


def spreadsheet_cell_place(packed: int) -> tuple[int, int]:
    """Return row and column of a place, both from 0."""
    return packed >> _COLUMN_BITS, packed & (MAX_COLUMN - 1)


def pack_spreadsheet_cells(archive: ZipArchive) -> PackedWorkbook | None:
    """Return a workbook with its cells side by side; None if calamine can read it as it is.

    Raises:
        FormatError: a row or column is beyond those that the format has, or a part is broken.

    Source: ECMA-376, part 1, section 18.3.1; [MS-OI29500] 2.1.606.
    """
    main = zipped.opc_main_part(archive, "xl/workbook.xml")
    parts = _parts(archive, main)
    if all(_is_dense(archive.portions(part)) for part in dict.fromkeys(parts) if part):
        return None
    written: dict[str, array[int]] = {}
    stream = BytesIO()
    with ZipFile(stream, "w", ZIP_DEFLATED, compresslevel=1) as target:
        for part in filter(None, parts):
            if part not in written:
                with target.open(part, "w") as member:
                    written[part] = _Cells(member.write).pack(archive.portions(part), part)
        for name in _others(archive, main):
            if name not in written:
                target.writestr(name, archive.read(name))
    return PackedWorkbook(stream.getvalue(), [written.get(part, array("q")) for part in parts])


class _Sheets:
    """The relations of a workbook's sheets, in their order."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def start(self, name: str, attributes: Attributes) -> None:
        if name == "sheet":
            ids = [value for key, value in attributes.items() if key.endswith(":id")]
            self.found.append(ids[0] if ids else "")

    def end(self, name: str) -> None:
        pass

    def text(self, text: str) -> None:
        pass


def _parts(archive: ZipArchive, main: str) -> list[str]:
    """Return the part of each sheet; an empty string for one without rows, such as a chart."""
    relations = zipped.opc_relations(archive, main)
    seen = _Sheets()
    walk_markup(seen, archive.portions(main), part=main)
    spelled = {name.lower(): name for name in archive.names}  # calamine ignores case
    found = []
    for key in seen.found:
        relation = relations.get(key)
        has_rows = relation is not None and not relation.external and relation.kind == "worksheet"
        found.append(spelled.get(relation.target.lower(), "") if relation and has_rows else "")
    return found


def _others(archive: ZipArchive, main: str) -> list[str]:
    """Return the existing parts beside the sheets that calamine needs."""
    folder, _, name = main.rpartition("/")
    targets = [found.target for found in zipped.opc_relations(archive, main).values()]
    known = [
        "[Content_Types].xml",
        "_rels/.rels",
        main,
        f"{folder}/_rels/{name}.rels".lstrip("/"),
        *targets,
    ]
    wanted = {name.lower() for name in known}
    return [name for name in archive.names if name.lower() in wanted]


def _is_dense(xml: Iterable[bytes]) -> bool:
    """Whether a sheet has the usual form, and a grid that is in proportion to its XML."""
    rows, columns, size = 0, b"", 0
    tail = b""
    for portion in xml:
        size += len(portion)
        cut = (text := tail + portion).rfind(b"<")
        text, tail = text[: max(cut, 0)], text[max(cut, 0) :]
        if len(tail) > MAX_TAG or any(words in text for words in _UNUSUAL):
            return False
        found = _PLAIN.findall(text)
        begun = text.count(b"<row") + text.count(b"<c")  # and others such as <cols>
        if len(found) != begun and len(found) != sum(map(text.count, _TAGS)):
            return False
        if b":" in text and _PREFIXED.search(text):
            return False
        for letters in {letters for letters, _ in found}:
            columns = max(columns, letters, key=lambda name: (len(name), name))
        rows = max(rows, *map(int, {number for _, number in found})) if found else rows
    width = _column(columns.decode())
    grid = rows * width
    return rows <= MAX_ROW and width <= MAX_COLUMN and grid <= _SMALL + size // _BYTES


def _column(letters: str) -> int:
    """Return the number of a column, from 1; 0 without letters.

    >>> _column("A"), _column("xfd")
    (1, 16384)
    """
    number = 0
    for letter in letters.upper():
        number = 26 * number + ord(letter) - 64
    return number


def _letters(column: int) -> str:
    """Return the name of a column from 0 to WIDTH - 1."""
    high, low = divmod(column, 26)
    return (chr(64 + high) if high else "") + chr(65 + low)


_NAMES: Final = tuple(map(_letters, range(WIDTH)))


class _Cells:
    """One walk over a sheet, which writes the cells with a value next to each other."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._places = array("q")
        self._out: list[str] = []
        self._inside = False  # sheetData
        self._row = self._column = 0  # of the open cell, from 0
        self._cell: Attributes | None = None  # open, and without a value so far
        self._open = 0  # elements that are written and not yet closed
        self._skipped = 0  # open elements that are not written

    def pack(self, xml: Iterable[bytes], part: str) -> array[int]:
        """Write the XML of the new sheet; return the place of each of its cells.

        Raises:
            FormatError: see ``pack_spreadsheet_cells`` of this module.
        """
        self._out.append(f"<worksheet xmlns={quoteattr(_MAIN)}><sheetData><row r='1'>")
        walk_markup(self, xml, part=part)
        self._out.append("</row></sheetData></worksheet>")
        self._flush()
        return self._places

    def _flush(self) -> None:
        self._write("".join(self._out).encode())
        self._out.clear()

    def start(self, name: str, attributes: Attributes) -> None:
        if not self._inside:
            self._inside = name == "sheetData"
        elif self._skipped or (self._open and name not in _VALUE):
            self._skipped += 1
        elif self._open:
            kept = " xml:space='preserve'" if attributes.get("xml:space") == "preserve" else ""
            self._out.append(f"<{name}{kept}>")
            self._open += 1
        elif self._cell is not None:
            if name in ("v", "is"):
                self._begin(self._cell)
                self._cell = None
                self._out.append(f"<{name}>")
                self._open = 2
            else:
                self._skipped = 1
        elif name == "row":
            if "r" in attributes:
                self._row = _row(attributes["r"]) - 1
            self._column = 0
            _check(self._row, 0)
        elif name == "c":
            if "r" in attributes:
                self._row, self._column = _position(attributes["r"])
            _check(self._row, self._column)
            self._cell = attributes

    def _begin(self, cell: Attributes) -> None:
        number = len(self._places)
        self._places.append(self._row << _COLUMN_BITS | self._column)
        row, column = divmod(number, WIDTH)
        if number and not column:
            self._out.append(f"</row><row r='{row + 1}'>")
        kept = "".join(f" {key}={quoteattr(cell[key])}" for key in ("s", "t") if key in cell)
        self._out.append(f"<c r='{_NAMES[column]}{row + 1}'{kept}>")

    def end(self, name: str) -> None:
        if not self._inside:
            return
        if self._skipped:
            self._skipped -= 1
        elif self._open > 1:
            self._out.append(f"</{name}>")
            self._open -= 1
        elif name == "c":
            if self._open:
                self._out.append("</c>")
            self._open, self._cell = 0, None
            self._column += 1
            if len(self._out) > _PORTION:
                self._flush()
        elif name == "row":
            self._row += 1
            self._column = 0
        elif name == "sheetData":
            self._inside = False

    def text(self, text: str) -> None:
        if self._open > 1 and not self._skipped:
            self._out.append(escape(text, {"\r": "&#13;"}))


def _row(text: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= 10 else 0
    if not 0 < number <= MAX_ROW:
        raise corrupt_document(f"a sheet has a row {text[:20]!r}, and the format has {MAX_ROW:,}")
    return number


def _position(text: str) -> tuple[int, int]:
    """Return row and column of a cell, both from 0."""
    found = _REFERENCE.fullmatch(text)
    if found is None:
        raise corrupt_document(f"a sheet has a cell at {text[:20]!r}, which is not a valid place")
    return _row(found[2]) - 1, _column(found[1]) - 1


def _check(row: int, column: int) -> None:
    if row >= MAX_ROW or column >= MAX_COLUMN:
        raise corrupt_document(
            f"a sheet has a cell in row {row + 1:,} and column {column + 1:,}, and the format has"
            f" {MAX_ROW:,} rows and {MAX_COLUMN:,} columns"
        )


_BROKEN: Final = (CalamineError, OSError, WorksheetNotFound, XmlError, ZipError)  #: OSError: cut
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
    text = read_workbook(lambda: workbook_sections(body, pack_spreadsheet_cells(archive)))
    properties = zipped.opc_properties(archive)
    return parsed_document(
        url=url,
        text=text,
        title=given_document_title(properties.get("title", "")) or document_file_name(url),
        declared=properties.get("language", ""),
    )


def read_workbook(read: Callable[[], list[Section]]) -> list[Section]:
    """Return the sections that ``read`` gives by calamine.

    Raises:
        FormatError: the workbook wants a password, or is broken.
    """
    try:
        return read()
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


def workbook_sections(body: bytes, packed: PackedWorkbook | None = None) -> list[Section]:
    """Return a section for each visible sheet; ``packed``: the same with its cells side by side."""
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
        for at, value in enumerate(row, down * WIDTH + left)
        if at < len(places)
    )
    in_order = all(map(le, places, islice(places, 1, None)))
    cells = values if in_order else iter(sorted(values, key=itemgetter(0)))  # stable
    edge = min((spreadsheet_cell_place(at)[1] for at in places), default=0)
    for _, found in groupby(cells, lambda cell: spreadsheet_cell_place(cell[0])[0]):
        written: list[str] = []
        last = edge
        for column, text in {spreadsheet_cell_place(at)[1]: text for at, text in found}.items():
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

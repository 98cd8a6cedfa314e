"""Lists: one CSV with a row an item, and each item as Markdown that is made of its row."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

from smartcrawl.extract.library.markup import NoteWriter, rewrite_markup
from smartcrawl.model.markdown import (
    clean_text,
    escape_all_markdown,
    escape_markdown,
    escape_markdown_start,
    markdown_heading,
    one_text_line,
)

#: Around HTML in a cell; SharePoint itself puts rich text into such an element.
_RICH: Final = '<div class="ExternalClass'
_RICH_START: Final = f'{_RICH}">'
_RICH_END: Final = "</div>"
#: Keys of objects for people, lookups and terms, the best first.
_NAMES: Final = (
    "Title", "LookupValue", "displayName", "Label", "Value", "Name", "EMail", "Email", "FileName",
)  # fmt: skip
_JOIN: Final = "; "  #: between the values of one field
#: A note that is HTML: from a tag that rich text begins with to the end of another.
_IS_RICH: Final = re.compile(
    r"\s*<(?:a|b|blockquote|br|div|em|font|h[1-6]|i|img|ol|p|pre|span|strong|table|u|ul)[\s/>].*>\s*\Z",
    re.IGNORECASE | re.DOTALL,
)
_ZONED: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)")


def csv_cell_of_field(type_: str, value: Any) -> str:
    """Return the text of a field; empty for one without a value.

    People, lookups and terms are named by what people see of them, several values are joined by
    ``; ``, times are ISO 8601 in UTC, numbers have no exponent, a link has its address behind its
    description. HTML stays as it is within an element that shows what it is; a ``note`` is HTML if
    it is made of elements. ``type_`` may be written as SharePoint's ``TypeAsString``.

    Source: R3-57.
    """
    text = _text(type_.lower(), value)
    return clean_text(text.replace("\r\n", "\n")).strip()


def html_of_cell(cell: str) -> str | None:
    """Return the markup of a cell of HTML, None for one of plain text."""
    return cell if cell.startswith(_RICH) else None


def _text(type_: str, value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "Yes" if value else "No"
        case str():
            return _of_string(type_, value)
        case int() | float():
            if type_ == "boolean":
                return "Yes" if value else "No"
            return _number(value)
        case list():
            texts = (" ".join(_text(type_, one).split()) for one in value)
            return _JOIN.join(filter(None, texts))
        case Mapping():
            if isinstance(value.get("results"), list):
                return _text(type_, value["results"])
            return _of_object(value)
        case _:
            raise TypeError(f"no value of JSON: {type(value).__name__}")


def _of_string(type_: str, value: str) -> str:
    match type_:
        case "html":
            return _rich(value)
        case "note" if _IS_RICH.match(value):
            return _rich(value)
        case "boolean":
            return {"1": "Yes", "true": "Yes", "0": "No", "false": "No"}.get(value.lower(), value)
        case "date" | "datetime" if _ZONED.fullmatch(value.strip()):
            return _time(value.strip())
        case _:
            return value


def _rich(value: str) -> str:
    """Return HTML in the element that marks it; empty where it has neither text nor images."""
    value = value.strip()
    if not value or value.startswith(_RICH):
        return value
    return f"{_RICH_START}{value}{_RICH_END}"


def _number(value: float) -> str:
    """Return a number without exponent, and without a fraction that is zero."""
    if isinstance(value, int) or not math.isfinite(value):
        return str(value)
    text = format(Decimal(repr(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _time(value: str) -> str:
    """Return a time with its zone in UTC, without a fraction that is zero."""
    try:
        found = datetime.fromisoformat(value).astimezone(UTC)
    except (ValueError, OverflowError):
        return value
    return found.isoformat().replace("+00:00", "Z")


def _of_object(value: Mapping[str, Any]) -> str:
    """Return the visible text of an object: a link, or the name of a person, item or term."""
    address = value.get("Url")
    if isinstance(address, str):
        described = value.get("Description")
        if isinstance(described, str) and described.strip() not in ("", address):
            return f"{described} ({address})"
        return address
    for name in _NAMES:
        if isinstance(value.get(name), str) and value[name].strip():
            return str(value[name])
    others = [one for key, one in value.items() if not _is_about(key) and _is_plain(one)]
    if others:
        return _text("", others[0])
    return _text("", value.get("Id", value.get("LookupId")))


def _is_about(key: str) -> bool:
    """Whether a key is data about an object: its type, or an id."""
    return "odata" in key or key.startswith("__") or key.lower() in ("id", "lookupid", "wssid")


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float) and value != ""


ID: Final = "ID"  #: title of the first column
_TITLE: Final = "Title"  #: internal name of the column that names an item
_QUOTED: Final = re.compile('[",\r\n]')
_CELL: Final = re.compile(r'(?:"((?:[^"]++|"")*+)"|([^",\r\n]*+))(,|\r\n|\n|\Z)')
_UNSAFE: Final = str.maketrans({"<": "%3C", ">": "%3E", " ": "%20", "\\": "%5C"})


class ListColumn(NamedTuple):
    """A visible column of a list."""

    name: str  #: internal, the key of its values
    title: str  #: as people see it
    type: str  #: text, note, html, number, boolean, date, user and so on


class ListRow(NamedTuple):
    """An item as its row of the CSV has it: its ID, and its cells by the titles of columns."""

    id: int
    cells: Mapping[str, str]


def csv_list_columns(found: Iterable[Sequence[str]]) -> list[ListColumn]:
    """Return columns in the order of the CSV: the one that names items first.

    A title that another column has, or that is ``ID``, gets the internal name behind it.
    """
    columns = [ListColumn(*map(one_text_line, column)) for column in found]
    columns.sort(key=lambda column: column.name != _TITLE)
    seen, named = {ID}, []
    for column in columns:
        title = column.title or column.name
        if title in seen:
            title = f"{title} ({column.name})"
        while title in seen:
            title += "'"
        seen.add(title)
        named.append(column._replace(title=title))
    return named


def csv_list_row(columns: Sequence[ListColumn], item_id: int, fields: Mapping[str, Any]) -> ListRow:
    """Return the row of an item; ``columns`` are those of ``csv_list_columns``."""
    cells = {one.title: csv_cell_of_field(one.type, fields.get(one.name)) for one in columns}
    return ListRow(item_id, cells)


def csv_list(columns: Sequence[ListColumn], rows: Iterable[ListRow]) -> bytes:
    """Return the CSV of a list: UTF-8, lines that end with ``\\r\\n``, a row an item.

    Cells are as the list has them: HTML stays HTML. Rows are in the order given.

    Source: R3-57; RFC 4180.
    """
    titles = [column.title for column in columns]
    lines = [_line([ID, *titles])]
    lines += [_line([str(row.id), *(row.cells.get(title, "") for title in titles)]) for row in rows]
    return "".join(lines).encode()


def read_csv_of_list(body: bytes) -> list[ListRow]:
    """Return the rows of a list's CSV; lines may end with a line feed alone.

    Raises:
        ValueError: it is no UTF-8 or no CSV of a list; the message names the row.

    Source: R3-57; RFC 4180.
    """
    rows = _csv_rows(body.decode("utf-8-sig"))
    header = next(rows, [])
    if not header or header[0] != ID or len(set(header)) < len(header):
        raise ValueError(f"row 1: the first column is not {ID}, or two have the same title")
    found = []
    for number, (item, *cells) in enumerate(rows, 2):
        if len(cells) != len(header) - 1 or not re.fullmatch("[0-9]{1,18}", item):
            raise ValueError(f"row {number}: no {ID}, or not {len(header)} cells")
        found.append(ListRow(int(item), dict(zip(header[1:], cells, strict=True))))
    return found


def markdown_of_list_item(row: ListRow, url: str) -> str:
    """Return an item as Markdown: its title, its address, and each field that is not empty.

    The title is the first cell, or the ID. HTML becomes text: blocks are lines, cells of a table
    are divided by ``|``, a link has its address behind it. No text is markup.

    Source: R3-57; CommonMark 0.31.
    """
    texts = {title: list(_cell_lines(cell, url)) for title, cell in row.cells.items()}
    first = next(iter(texts.values()), [])
    parts = [markdown_heading(1, first[0] if first else f"{ID} {row.id}")]
    if url:
        parts.append(f"<{clean_text(url).translate(_UNSAFE)}>")
    for title, lines in texts.items():
        if not lines:
            continue
        name = f"**{escape_all_markdown(title)}:**"
        escaped = [escape_markdown(line) for line in lines]
        if len(lines) == 1:
            parts.append(f"{name} {escaped[0]}")
        else:
            parts += [name, *map(escape_markdown_start, escaped)]
    return "\n\n".join(parts) + "\n"


def _cell_lines(cell: str, url: str) -> Iterator[str]:
    """Yield the lines of a cell that are not empty."""
    markup = html_of_cell(cell)
    text = cell if markup is None else rewrite_markup(markup, url, NoteWriter)[1].note()
    text = clean_text(text)
    yield from filter(None, (" ".join(line.split()) for line in text.split("\n")))


def _line(cells: Iterable[str]) -> str:
    return ",".join(map(_quoted, cells)) + "\r\n"


def _quoted(cell: str) -> str:
    if _QUOTED.search(cell):
        return '"' + cell.replace('"', '""') + '"'
    return cell


def _csv_rows(text: str) -> Iterator[list[str]]:
    """Yield the rows of a CSV without empty ones."""
    at, number = 0, 1
    row: list[str] = []
    while at < len(text) or row:
        found = _CELL.match(text, at)
        if found is None:
            raise ValueError(f"row {number}: a quote is missing or misplaced")
        quoted, plain, end = found.groups()
        row.append(plain if quoted is None else quoted.replace('""', '"'))
        at = found.end()
        if end != ",":
            if row != [""]:
                yield row
            row, number = [], number + 1

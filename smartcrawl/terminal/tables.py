"""Tables that fit the terminal: names are folded, numbers and words never.

A column that does not fit goes below its row. In a pipe each row is one line, however long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import islice, pairwise
from typing import IO, Any, Final, NamedTuple, Self

from rich.cells import cell_len, chop_cells

from smartcrawl.model.redaction import escaped_text
from smartcrawl.terminal.markup import escape
from smartcrawl.terminal.output import Output

_CHUNK: Final = 1_000  #: rows whose widths are compared before they are printed
_LEAST: Final = 12  #: columns of a folded name
_PADDED: Final = 60  #: most columns that a row in a pipe is padded to
_BELOW: Final = 4  #: columns before a line below its row
#: Places to break a name: not between the digits of a number, a date or an address.
_BREAKS: Final = re.compile(r"(?:[/:?&=_;@ ]|(?<!\d)[.,-]|[.,-](?!\d))+")


class Kind(Enum):
    """Placement of the cells of a column."""

    NUMBER = auto()  #: on the right, never broken
    WORD = auto()  #: on the left, never broken
    NAME = auto()  #: on the left, folded where there is no room
    WHOLE = auto()  #: an address or a command: below the row where there is no room, unbroken
    NOTE = auto()  #: a sentence: below the row where there is no room, wrapped


class Column(NamedTuple):
    """One column of a table."""

    key: str
    head: str
    kind: Kind


def printed_number_column(key: str, head: str = "") -> Column:
    """Return a column of numbers."""
    return Column(key, head or key, Kind.NUMBER)


def printed_word_column(key: str, head: str = "") -> Column:
    """Return a column of words that are never broken, such as times."""
    return Column(key, head or key, Kind.WORD)


def printed_name_column(key: str, head: str = "") -> Column:
    """Return a column of names, which may be folded."""
    return Column(key, head or key, Kind.NAME)


def printed_whole_column(key: str, head: str = "") -> Column:
    """Return a column of addresses or commands, which can be copied."""
    return Column(key, head or key, Kind.WHOLE)


def printed_note_column(key: str, head: str = "") -> Column:
    """Return a column of sentences, which most rows do not have."""
    return Column(key, head or key, Kind.NOTE)


def print_table(
    columns: Sequence[Column],
    rows: Iterable[Mapping[str, Any] | str],
    *,
    empty: str = "",
    file: IO[str] | None = None,
) -> None:
    """Print rows as a table, or the sentence ``empty`` where there are none.

    A string among the rows is a heading. On a terminal, columns without text are left out.
    """
    output = Output(file)
    widths = [cell_len(column.head) for column in columns]
    printed = False
    for chunk in _chunks(rows):
        found = [row if isinstance(row, str) else _cells(columns, row) for row in chunk]
        if output.width is not None and not printed and len(chunk) < _CHUNK:
            filled = [n for n in range(len(columns)) if any(_is_filled(row, n) for row in found)]
            columns, widths = [columns[n] for n in filled], [widths[n] for n in filled]
            found = [row if isinstance(row, str) else [row[n] for n in filled] for row in found]
        for row in found:
            if not isinstance(row, str):
                widths = [max(pair) for pair in zip(widths, map(cell_len, row), strict=True)]
        layout = Layout.of(columns, widths, output.width)
        if not printed:
            layout.print_head(output)
        printed = True
        for row in found:
            if isinstance(row, str):
                output.say(f"[bold]{escape(row)}[/]")
            else:
                layout.print_row(output, row)
    if not printed and empty:
        output.say(escape(empty))


def _chunks(rows: Iterable[Mapping[str, Any] | str]) -> Iterator[list[Mapping[str, Any] | str]]:
    source = iter(rows)
    while chunk := list(islice(source, _CHUNK)):
        yield chunk


def _is_filled(row: str | Sequence[str], n: int) -> bool:
    """Whether a row has text in a column."""
    return not isinstance(row, str) and bool(row[n])


def _cells(columns: Sequence[Column], row: Mapping[str, Any]) -> list[str]:
    return [escaped_text(_text(row[column.key])) for column in columns]


def _text(value: Any) -> str:
    """Return the text of a cell.

    >>> _text(None), _text(1234), _text("a")
    ('', '1,234', 'a')
    """
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else str(value)


class Layout(NamedTuple):
    """The places of columns in a line, and below it."""

    columns: Sequence[Column]
    widths: dict[int, int]  #: columns of the terminal, by the number of each column in the line
    gaps: int  #: spaces between two numbers; two before any other column
    limited: bool  #: whether lines have a width

    @classmethod
    def of(cls, columns: Sequence[Column], natural: Sequence[int], width: int | None) -> Self:
        """Place columns whose longest cells have these widths.

        Sentences go below the row first, then addresses. Without room for numbers and words no
        column stays in the line.
        """
        if width is None:
            padded = {n: min(one, _PADDED) for n, one in enumerate(natural)}
            return cls(columns, padded, 2, limited=False)
        inline = list(range(len(columns)))
        while inline:
            for gaps in (2, 1):
                least = {n: _least(columns[n], natural[n]) for n in inline}
                spare = width - sum(least.values()) - _spaces(columns, inline, gaps)
                if spare < 0:
                    continue
                for n in inline:
                    more = min(spare, natural[n] - least[n])
                    least[n] += more
                    spare -= more
                return cls(columns, least, gaps, limited=True)
            loose = [
                n
                for kind in (Kind.NAME, Kind.WHOLE, Kind.NOTE)
                for n in inline
                if columns[n].kind is kind
            ]
            inline = [n for n in inline if n != loose[-1]] if loose else []
        return cls(columns, {}, 2, limited=True)

    def print_head(self, output: Output) -> None:
        """Print the names of the columns in the line."""
        if self.widths:
            heads = {n: self.columns[n].head for n in self.widths}
            output.line(f"[bold]{escape(self._line(heads))}[/]")

    def print_row(self, output: Output, row: Sequence[str]) -> None:
        """Print one row, and below it the cells that have no place in the line."""
        folded = {n: self._folded(n, row[n]) for n in self.widths}
        for place in range(max((len(lines) for lines in folded.values()), default=0)):
            part = {n: lines[place] if place < len(lines) else "" for n, lines in folded.items()}
            output.line(escape(self._line(part)))
        for n, column in enumerate(self.columns):
            if n in self.widths or not row[n]:
                continue
            text = row[n] if column.kind is Kind.WHOLE else f"{column.head}: {row[n]}"
            first = " " * _BELOW if self.widths or n else ""
            output.say(escape(text), label=first, indent=_BELOW + 2)

    def _folded(self, n: int, text: str) -> list[str]:
        if self.limited and self.columns[n].kind is Kind.NAME:
            return fold_printed_cell(text, self.widths[n])
        return [text]

    def _line(self, cells: Mapping[int, str]) -> str:
        line, before = "", None
        for n, text in cells.items():
            kind = self.columns[n].kind
            if before is not None:
                line += " " * (self.gaps if kind is before is Kind.NUMBER else 2)
            space = " " * (self.widths[n] - cell_len(text))
            line += space + text if kind is Kind.NUMBER else text + space
            before = kind
        return line.rstrip()


def _least(column: Column, natural: int) -> int:
    """Return the least width of a column in the line."""
    return min(natural, _LEAST) if column.kind is Kind.NAME else natural


def _spaces(columns: Sequence[Column], inline: Sequence[int], gaps: int) -> int:
    """Return the spaces between the columns of a line."""
    kinds = [columns[n].kind for n in inline]
    return sum(gaps if one is other is Kind.NUMBER else 2 for one, other in pairwise(kinds))


def fold_printed_cell(text: str, width: int) -> list[str]:
    """Return a name in lines of at most ``width`` columns, broken after its parts.

    A number is only broken where it is longer than a line.

    >>> fold_printed_cell("docs.example.com:8080", 14), fold_printed_cell("page12345", 6)
    (['docs.example.', 'com:8080'], ['page', '12345'])
    >>> fold_printed_cell("127.0.0.1:8000", 12)
    ['127.0.0.1:', '8000']
    """
    lines = []
    while cell_len(text) > width:
        part = len(chop_cells(text, width)[0])
        ends = [found.end() for found in _BREAKS.finditer(text, 0, part)]
        at = ends[-1] if ends and ends[-1] > part // 3 else _before_number(text, part)
        lines.append(text[:at].rstrip())
        text = text[at:].lstrip()
    return [*lines, text]


def _before_number(text: str, at: int) -> int:
    """Return ``at``, or the beginning of the number that it would break."""
    begin = at
    while 0 < begin < len(text) and text[begin].isdigit() and text[begin - 1].isdigit():
        begin -= 1
    return begin or at

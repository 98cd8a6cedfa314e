"""The text of map files: CSV as RFC 4180 has it, whole numbers, and times with microseconds.

A cell that begins with ``=``, ``+``, ``-`` or ``@`` stays as it is, because maps are read back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import BinaryIO, Final, NamedTuple

Cell = str | int | None  #: None: unknown

SECOND: Final = 1_000_000  #: microseconds
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NEEDS_QUOTES: Final = re.compile(r'[",\r\n]').search
_NUMBER: Final = re.compile(r"0|-?[1-9][0-9]{0,17}").fullmatch
_TIME: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})\.([0-9]{6})Z"
).fullmatch
#: One cell and what ends it. Repetitions are possessive: no text is read twice.
_CELL: Final = re.compile(rb'(?:"((?:[^"]|"")*+)"|([^",\r\n]*+))(,|\r\n)').match
_LINE: Final = b"\r\n"
_BLOCK: Final = 1 << 20  #: bytes


class MapRecord(NamedTuple):
    """One record of a map file, or the reason why it cannot be read."""

    line: int  #: number of its first line, from 1
    cells: list[str]
    problem: str = ""  #: empty: none


def sharepoint_map_line(cells: Iterable[Cell]) -> bytes:
    r"""Return a record of a map file in UTF-8 with its end.

    Half of a surrogate pair, which has no UTF-8, becomes its escape.

    >>> sharepoint_map_line(["a,b", 'a "b" c', "=1+1", 5, None, ""])
    b'"a,b","a ""b"" c",=1+1,5,,\r\n'
    """
    line = ",".join(_cell(cell) for cell in cells) + "\r\n"
    return line.encode("utf-8", "backslashreplace")


def _cell(cell: Cell) -> str:
    if cell is None:
        return ""
    text = str(cell)
    return '"' + text.replace('"', '""') + '"' if _NEEDS_QUOTES(text) else text


def sharepoint_map_records(data: bytes) -> Iterator[MapRecord]:
    r"""Yield the records of a map; reading goes on at the line behind a damaged one.

    >>> [record.cells or record.problem for record in sharepoint_map_records(b'a,"b"\r\n"c\r\n')]
    [['a', 'b'], 'a quotation mark or a line break is in the wrong place']
    """
    return sharepoint_map_file_records(BytesIO(data))


def sharepoint_map_file_records(file: BinaryIO, block: int = _BLOCK) -> Iterator[MapRecord]:
    """Yield the records of a file as ``sharepoint_map_records`` does, without all of it in memory.

    ``block``: bytes that are read at once.

    Raises:
        OSError: it cannot be read.
    """
    data, start, line, is_ended = b"", 0, 1, False
    while True:
        end = data.find(_LINE, start)
        cells: tuple[list[bytes], int] | None = None
        goes_on = end < 0
        if end >= 0:
            plain = data[start:end]
            end += len(_LINE)
            if b'"' in plain:
                cells = _quoted(data, start)
                goes_on = cells is None
            elif not (b"\n" in plain or b"\r" in plain):
                cells = plain.split(b","), end
        if goes_on and not is_ended:  # perhaps behind the end of the block
            more = file.read(max(block, len(data) - start))
            data, start, is_ended = data[start:] + more, 0, not more
            continue
        if start >= len(data):
            return
        if end < 0:
            yield MapRecord(line, [], "the file ends in it")
            return
        if cells is None:
            yield MapRecord(line, [], "a quotation mark or a line break is in the wrong place")
        else:
            found, end = cells
            yield _decoded(line, found)
        line += data.count(b"\n", start, end)
        start = end


def _quoted(data: bytes, start: int) -> tuple[list[bytes], int] | None:
    """Return the cells of the record at ``start``, and where it ends; None: it is damaged."""
    cells: list[bytes] = []
    while (found := _CELL(data, start)) is not None:
        quoted = found[1]
        cells.append(found[2] if quoted is None else quoted.replace(b'""', b'"'))
        start = found.end()
        if found[3] == _LINE:
            return cells, start
    return None


def _decoded(line: int, cells: list[bytes]) -> MapRecord:
    try:
        return MapRecord(line, [cell.decode() for cell in cells])
    except UnicodeDecodeError:
        return MapRecord(line, [], "it is not UTF-8")


def sharepoint_map_number(text: str) -> int | None:
    """Return a whole number; an empty text is unknown.

    >>> sharepoint_map_number("12"), sharepoint_map_number("")
    (12, None)

    Raises:
        ValueError: it is no whole number as a map has it.
    """
    if not text:
        return None
    if not _NUMBER(text):
        raise ValueError("is not a number")
    return int(text)


def sharepoint_map_time(microseconds: int) -> str:
    """Return a time as maps have it (R3.9); ``microseconds`` since 1970.

    >>> sharepoint_map_time(1_705_314_600_000_000), sharepoint_map_time(-1)
    ('2024-01-15T10:30:00.000000Z', '1969-12-31T23:59:59.999999Z')
    """
    time = _EPOCH + timedelta(microseconds=microseconds)
    return time.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def sharepoint_map_microseconds(text: str) -> int | None:
    """Return the microseconds since 1970 of a time of a map; an empty text is unknown.

    >>> sharepoint_map_microseconds("2024-01-15T10:30:00.000000Z")
    1705314600000000

    Raises:
        ValueError: it is no time as a map has it.
    """
    if not text:
        return None
    found = _TIME(text)
    try:
        if found is None:
            raise ValueError
        time = datetime(*map(int, found.groups()), tzinfo=UTC)  # type: ignore[arg-type,misc]
    except ValueError:
        raise ValueError("is not a time") from None
    return (time - _EPOCH) // timedelta(microseconds=1)

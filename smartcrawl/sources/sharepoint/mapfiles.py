"""The maps of a library: what it has, what is stored, what is embedded (R3-28, R3-50 to R3-55).

A map is an export of the registry that is read back. A row that cannot be read makes work: its
item is downloaded again. It is CSV as RFC 4180 has it, with whole numbers, and times with
microseconds. A cell that begins with ``=``, ``+``, ``-`` or ``@`` stays as it is, because maps are
read back.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Self
from urllib.parse import unquote

from smartcrawl.model.library import LibraryItem
from smartcrawl.sources.private_files import (
    READABLE_FILE,
    WRITING,
    remove_abandoned_sharepoint_files,
    retry_busy_sharepoint_file,
)
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG
from smartcrawl.sources.sharepoint.paths import path_of_sharepoint_map, sharepoint_map_path

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


_UNIQUE_ID: Final = "sharepoint_unique_file_id"


class SharepointMapRow(NamedTuple):
    """One item that the library has; the fields are the columns (R3-50)."""

    sharepoint_listitem_id: int | None
    sharepoint_unique_file_id: str
    filename: str
    file_type: str  #: lower case, without the dot
    file_size: int | None  #: bytes
    url: str  #: percent-encoded
    raw_url: str  #: not encoded
    server_relative_url: str
    last_modified_utc: str
    last_modified_timestamp: int | None  #: Unix seconds

    @classmethod
    def of(cls, item: LibraryItem) -> Self:
        """Return the row of an item."""
        return cls(
            item.listitem_id,
            item.unique_id,
            item.filename,
            item.file_type,
            item.file_size,
            item.url,
            unquote(item.url),
            item.server_relative_url,
            sharepoint_map_time(item.last_modified),
            item.last_modified // SECOND,
        )


class FilesMapRow(NamedTuple):
    """One item that is stored, or failed; the fields are the columns (R3-51)."""

    sharepoint_listitem_id: int | None
    sharepoint_unique_file_id: str
    filename: str
    file_type: str  #: lower case, without the dot
    server_relative_url: str
    file_relative_path: str  #: path with backslashes (R3-54); empty: not on disk
    file_size: int | None  #: bytes
    last_modified_utc: str
    last_modified_timestamp: int | None  #: Unix seconds
    downloaded_utc: str  #: when the file reached the disk (R3-55)
    downloaded_timestamp: int | None  #: Unix seconds
    sharepoint_error: str
    processing_error: str

    @classmethod
    def of(
        cls,
        item: LibraryItem,
        path: str = "",
        downloaded: int | None = None,
        *,
        sharepoint_error: str = "",
        processing_error: str = "",
    ) -> Self:
        """Return the row of an item.

        ``path``: with slashes, relative to the crawler's folder; empty: it is not on disk.
        ``downloaded``: Unix microseconds.
        """
        return cls(
            item.listitem_id,
            item.unique_id,
            item.filename,
            item.file_type,
            item.server_relative_url,
            sharepoint_map_path(path),
            item.file_size,
            sharepoint_map_time(item.last_modified),
            item.last_modified // SECOND,
            "" if downloaded is None else sharepoint_map_time(downloaded),
            None if downloaded is None else downloaded // SECOND,
            sharepoint_error,
            processing_error,
        )

    @property
    def path(self) -> str:
        """Its path with slashes, relative to the crawler's folder; empty: it is not on disk."""
        return self.file_relative_path.replace("\\", "/")


class MapState(StrEnum):
    """Results of reading a map."""

    MISSING = "missing"
    DAMAGED = "damaged"  #: not one row of it is known
    WHOLE = "whole"  #: single rows may be damaged


class ReadMap(NamedTuple):
    """A map as read back."""

    rows: dict[str, FilesMapRow]  #: by unique id, without those that agree
    damaged: list[str]  #: for the log: place and reason of what was not read
    state: MapState
    agreeing: Set[str] = frozenset()  #: unique ids of the rows that are as they were expected


# Writing


class MapFileWriter:
    """A map file that gets its header at once and its rows in batches (R3-28).

    It writes at the path that it is given, so readers of that path see a part of a map; see
    ``replaced_sharepoint_map``. Use it as a context manager: without an error, its end is on disk
    (fsync).
    """

    def __init__(self, path: Path, row: type[NamedTuple], *, every: int | None = None) -> None:
        """Make the file with its header; ``every``: rows of a batch.

        Raises:
            OSError: it cannot be written.
        """
        self._every = every or CRAWLER_HARDCODED_CONFIG.APPEND_TO_MAP_FILES_EVERY_X_LINES
        self._columns = len(row._fields)
        self._waiting: list[bytes] = []
        self._has_rows = False
        self._file = retry_busy_sharepoint_file(
            lambda: _file_with(path, sharepoint_map_line(row._fields))
        )

    def write(self, row: tuple[Cell, ...]) -> None:
        """Append a row. The first is written at once, others with their batch.

        Raises:
            ValueError: it has not the columns of the header.
            OSError: it cannot be written.
        """
        if len(row) != self._columns:
            raise ValueError(f"a row has {len(row)} cells, the map has {self._columns} columns")
        self._waiting.append(sharepoint_map_line(row))
        if not self._has_rows or len(self._waiting) >= self._every:
            self._flush()
        self._has_rows = True

    def _flush(self) -> None:
        data = b"".join(self._waiting)
        self._waiting.clear()
        while data:
            data = data[retry_busy_sharepoint_file(partial(os.write, self._file, data)) :]

    def finish(self) -> None:
        """Write the last rows, and return when all are on disk.

        Raises:
            OSError: they cannot be written.
        """
        self._flush()
        os.fsync(self._file)

    def close(self) -> None:
        """Close the file; rows that were not written are lost."""
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.finish()
        finally:
            self.close()


def _file_with(path: Path, header: bytes) -> int:
    """Make a file with a header, which appears whole and locked; return it open for appending."""
    first = path.with_name(f"{path.name}.{secrets.token_hex(4)}{WRITING}")
    opened = os.open(
        first, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, READABLE_FILE
    )
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        os.write(opened, header)
        os.rename(first, path)
    except BaseException:
        os.close(opened)
        with suppress(OSError):
            first.unlink()
        raise
    return opened


@contextmanager
def replaced_sharepoint_map(
    path: Path, row: type[NamedTuple], *, every: int | None = None
) -> Iterator[MapFileWriter]:
    """Write a map beside ``path``, and rename it over ``path`` when it is whole and on disk.

    So no process ever reads a map that is being written. After an error the old map stays.

    Raises:
        OSError: it cannot be written.
    """
    remove_abandoned_sharepoint_files(path)
    sibling = path.with_name(f".{path.name}.{secrets.token_hex(4)}{WRITING}")
    writer = MapFileWriter(sibling, row, every=every)
    try:
        with writer:
            yield writer
        retry_busy_sharepoint_file(lambda: os.replace(sibling, path))
    except BaseException:
        with suppress(OSError):
            sibling.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


# Reading


def read_sharepoint_files_map(
    path: Path, is_expected: Callable[[FilesMapRow], bool] = lambda row: False
) -> ReadMap:
    """Return the rows of a ``files_map.csv`` that are as a map is written; it never raises.

    Two rows with one id are both damaged, because neither is known to be right. Of rows that are
    expected only the id is kept: a large map takes a fifth of the memory then.
    """
    try:
        with retry_busy_sharepoint_file(lambda: path.open("rb")) as file:
            return _read_files_map(path, sharepoint_map_file_records(file), is_expected)
    except FileNotFoundError:
        return ReadMap({}, [], MapState.MISSING)
    except OSError as error:
        why = f"{path} cannot be read ({error.strerror})"
        return ReadMap({}, [why], MapState.DAMAGED)


def _read_files_map(
    path: Path, records: Iterator[MapRecord], is_expected: Callable[[FilesMapRow], bool]
) -> ReadMap:
    header = next(records, None)
    if header is None or tuple(header.cells) != FilesMapRow._fields:
        why = "it is empty" if header is None else header.problem or "these are other columns"
        return ReadMap({}, [f"{path}: line 1: {why}"], MapState.DAMAGED)
    rows: dict[str, FilesMapRow] = {}
    agreeing: set[str] = set()
    lines: dict[str, int] = {}  # the first line of each id
    twice: set[str] = set()
    damaged: list[str] = []
    for record in records:
        try:
            if record.problem:
                raise ValueError(record.problem)
            row = _files_map_row(record.cells)
        except ValueError as error:
            damaged.append(f"{path}: line {record.line}: {error}")
            continue
        unique_id = row.sharepoint_unique_file_id
        if unique_id in lines:
            twice.add(unique_id)
            damaged.append(
                f"{path}: line {record.line}: its id is that of line {lines[unique_id]}, too;"
                " neither counts"
            )
            continue
        lines[unique_id] = record.line
        if is_expected(row):
            agreeing.add(unique_id)
        else:
            rows[unique_id] = row
    for unique_id in twice:
        rows.pop(unique_id, None)
    return ReadMap(rows, damaged, MapState.WHOLE, agreeing - twice)


def sharepoint_map_unique_ids(path: Path) -> set[str]:
    """Return the unique ids of the rows of a map that is whole.

    Raises:
        OSError: it cannot be read.
        ValueError: a row of it cannot be read, or it has no such column.
    """
    records = sharepoint_map_records(retry_busy_sharepoint_file(path.read_bytes))
    header = next(records, None)
    if header is None or _UNIQUE_ID not in header.cells:
        raise ValueError(f"it has no column {_UNIQUE_ID}")
    column, found = header.cells.index(_UNIQUE_ID), set()
    for record in records:
        if record.problem or len(record.cells) != len(header.cells):
            raise ValueError(f"line {record.line} is damaged")
        found.add(record.cells[column])
    return found


def _files_map_row(cells: list[str]) -> FilesMapRow:
    """Return the row that these cells are.

    Raises:
        ValueError: a map is not written like this.
    """
    if len(cells) != len(FilesMapRow._fields):
        raise ValueError(f"it has {len(cells)} columns instead of {len(FilesMapRow._fields)}")
    text = dict(zip(FilesMapRow._fields, cells, strict=True))
    numbers: dict[str, int | None] = {}
    for column in ("sharepoint_listitem_id", "file_size"):
        numbers[column] = _checked(column, sharepoint_map_number, text[column])
        if (numbers[column] or 0) < 0:
            raise ValueError(f"{column} is negative")
    for name in ("last_modified", "downloaded"):
        known = _checked(f"{name}_utc", sharepoint_map_microseconds, text[f"{name}_utc"])
        seconds = _checked(f"{name}_timestamp", sharepoint_map_number, text[f"{name}_timestamp"])
        if seconds != (None if known is None else known // SECOND):
            raise ValueError(f"{name}_timestamp is another time than {name}_utc")
        numbers[f"{name}_timestamp"] = seconds
    if not text["sharepoint_unique_file_id"]:
        raise ValueError("sharepoint_unique_file_id is empty")
    path = text["file_relative_path"]
    if path and path_of_sharepoint_map(path) is None:
        raise ValueError("file_relative_path is not a path below the storage")
    return FilesMapRow(**{**text, **numbers})  # type: ignore[arg-type]


def _checked(column: str, read: Callable[[str], int | None], text: str) -> int | None:
    try:
        return read(text)
    except ValueError as error:
        raise ValueError(f"{column} {error}") from error


class EmbeddedFile(NamedTuple):
    """A file in a store that has embedded it."""

    file: str  #: its id
    store: str  #: id of the store
    uploaded_at: int | None  #: Unix seconds, by the server
    embedded_at: int | None


class VectorstoreMapRow(NamedTuple):
    """One item that is embedded, or could not be; the fields are the columns (R3-52)."""

    openai_file_id: str
    vector_store_id: str
    file_relative_path: str  #: path with backslashes (R3-54); empty: it is not on disk
    sharepoint_listitem_id: int | None
    sharepoint_unique_file_id: str
    filename: str
    file_type: str
    file_size: int | None  #: bytes
    last_modified_utc: str
    last_modified_timestamp: int | None  #: Unix seconds
    downloaded_utc: str  #: that of the map of files (R3-55)
    downloaded_timestamp: int | None
    uploaded_utc: str
    uploaded_timestamp: int | None
    embedded_utc: str
    embedded_timestamp: int | None
    sharepoint_error: str
    processing_error: str
    embedding_error: str

    @classmethod
    def of(cls, row: FilesMapRow, embedded: EmbeddedFile | None, error: str) -> Self:
        """Return the row of an item; without an embedded file its ids and times are empty."""
        uploaded = embedded and embedded.uploaded_at
        since = embedded and embedded.embedded_at
        return cls(
            embedded.file if embedded else "",
            embedded.store if embedded else "",
            row.file_relative_path,
            row.sharepoint_listitem_id,
            row.sharepoint_unique_file_id,
            row.filename,
            row.file_type,
            row.file_size,
            row.last_modified_utc,
            row.last_modified_timestamp,
            row.downloaded_utc,
            row.downloaded_timestamp,
            sharepoint_map_time(uploaded * SECOND) if uploaded else "",
            uploaded or None,
            sharepoint_map_time(since * SECOND) if since else "",
            since or None,
            row.sharepoint_error,
            row.processing_error,
            error,
        )

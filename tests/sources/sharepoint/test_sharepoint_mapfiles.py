"""The maps: written to the letter, replaced when whole, and read back without trust."""

import csv
import errno
import fcntl
import io
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smartcrawl.model.library import LibraryItem
from smartcrawl.sources.private_files import retry_busy_sharepoint_file
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG
from smartcrawl.sources.sharepoint.mapfiles import (
    FilesMapRow,
    MapFileWriter,
    MapState,
    ReadMap,
    SharepointMapRow,
    read_sharepoint_files_map,
    replaced_sharepoint_map,
    sharepoint_map_file_records,
    sharepoint_map_microseconds,
    sharepoint_map_records,
    sharepoint_map_time,
)

EVERY = CRAWLER_HARDCODED_CONFIG.APPEND_TO_MAP_FILES_EVERY_X_LINES
TIME = 1_705_314_600_000_000
ITEM = LibraryItem(
    12, "0f8fad5b-d9cb-469f-a165-70867728950e", "Q1, \"final\".DOCX",
    "/sites/demo/Shared Documents/Reports & more/Q1, \"final\".DOCX", 4096, TIME,
    "https://contoso.sharepoint.com/sites/demo/Shared%20Documents/Reports%20%26%20more/"
    "Q1%2C%20%22final%22.DOCX",
)  # fmt: skip
PATH = 'DOMAIN01/01_files/source01/02_embedded/Reports & more/Q1, "final".DOCX'
ROW = FilesMapRow.of(ITEM, PATH, TIME + 1_500_000)
FILES_HEADER = (
    "sharepoint_listitem_id,sharepoint_unique_file_id,filename,file_type,server_relative_url,"
    "file_relative_path,file_size,last_modified_utc,last_modified_timestamp,downloaded_utc,"
    "downloaded_timestamp,sharepoint_error,processing_error\r\n"
)


def rows_of(number):
    return [ROW._replace(sharepoint_unique_file_id=f"id-{i}") for i in range(number)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "files_map.csv"


def write(path, rows):
    with replaced_sharepoint_map(path, FilesMapRow) as writer:
        for row in rows:
            writer.write(row)


# Writing


@pytest.mark.covers("R3-50")
def test_the_map_of_what_the_library_has(tmp_path):
    path = tmp_path / "sharepoint_map.csv"
    with replaced_sharepoint_map(path, SharepointMapRow) as writer:
        writer.write(SharepointMapRow.of(ITEM))

    assert path.read_bytes().decode() == (
        "sharepoint_listitem_id,sharepoint_unique_file_id,filename,file_type,file_size,url,raw_url,"
        "server_relative_url,last_modified_utc,last_modified_timestamp\r\n"
        '12,0f8fad5b-d9cb-469f-a165-70867728950e,"Q1, ""final"".DOCX",docx,4096,'
        "https://contoso.sharepoint.com/sites/demo/Shared%20Documents/Reports%20%26%20more/"
        "Q1%2C%20%22final%22.DOCX,"
        '"https://contoso.sharepoint.com/sites/demo/Shared Documents/Reports & more/'
        'Q1, ""final"".DOCX",'
        '"/sites/demo/Shared Documents/Reports & more/Q1, ""final"".DOCX",'
        "2024-01-15T10:30:00.000000Z,1705314600\r\n"
    )


@pytest.mark.covers("R3-51", "R3-54", "R3-55")
def test_the_map_of_what_is_stored(path):
    write(path, [ROW, FilesMapRow.of(ITEM, sharepoint_error="423", processing_error="p")])

    start = (
        '12,0f8fad5b-d9cb-469f-a165-70867728950e,"Q1, ""final"".DOCX",docx,'
        '"/sites/demo/Shared Documents/Reports & more/Q1, ""final"".DOCX",'
    )
    assert path.read_bytes().decode() == (
        f"{FILES_HEADER}{start}"
        '"DOMAIN01\\01_files\\source01\\02_embedded\\Reports & more\\Q1, ""final"".DOCX",4096,'
        "2024-01-15T10:30:00.000000Z,1705314600,2024-01-15T10:30:01.500000Z,1705314601,,\r\n"
        f"{start},4096,2024-01-15T10:30:00.000000Z,1705314600,,,423,p\r\n"
    )
    assert ROW.path == PATH


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@a", " a ", "é", "😀", "a'b", "a\tb"])
def test_a_cell_stays_as_it_is(path, cell):
    row = ROW._replace(filename=cell)
    write(path, [row])

    assert f",{cell},docx,".encode() in path.read_bytes()
    assert read_sharepoint_files_map(path).rows == {row.sharepoint_unique_file_id: row}


def test_half_of_a_surrogate_pair_is_written_as_its_escape(path):
    write(path, [ROW._replace(filename="a\ud800b"), *rows_of(1)])

    assert [row.filename for row in read_sharepoint_files_map(path).rows.values()] == [
        "a\\ud800b", ROW.filename,
    ]  # fmt: skip


def test_another_reader_of_csv_reads_the_same(path):
    rows = [ROW._replace(filename=text) for text in ('a"b', "a\r\nb", "a,b", '"', "\n", "")]
    write(path, rows)

    read = list(csv.reader(io.StringIO(path.read_bytes().decode(), newline=""), strict=True))

    assert read[0] == list(FilesMapRow._fields)
    assert [cells[2] for cells in read[1:]] == [row.filename for row in rows]


@pytest.mark.covers("R3-152", "R3-28")
def test_header_and_first_row_are_written_at_once_others_in_batches(path):
    def lines():
        return path.read_bytes().count(b"\r\n")

    with MapFileWriter(path, FilesMapRow) as writer:
        assert path.read_bytes() == FILES_HEADER.encode()
        seen = []
        for row in rows_of(2 * EVERY + 4):
            writer.write(row)
            seen.append(lines() - 1)
    batches = [1, *[1] * (EVERY - 1)]
    assert seen == [*batches, *[1 + EVERY] * EVERY, *[1 + 2 * EVERY] * 4]
    assert lines() == 1 + 2 * EVERY + 4
    assert len(read_sharepoint_files_map(path).rows) == 2 * EVERY + 4
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_row_with_other_columns_is_refused(path):
    with MapFileWriter(path, FilesMapRow) as writer, pytest.raises(ValueError, match="10 cells"):
        writer.write(SharepointMapRow.of(ITEM))
    assert path.read_bytes() == FILES_HEADER.encode()


@pytest.mark.covers("R3-63")
def test_a_map_is_replaced_only_when_it_is_whole(path):
    write(path, rows_of(3))
    before = path.read_bytes()

    with replaced_sharepoint_map(path, FilesMapRow) as writer:
        for row in rows_of(50):
            writer.write(row)
            assert path.read_bytes() == before
    assert len(read_sharepoint_files_map(path).rows) == 50

    before = path.read_bytes()
    with pytest.raises(ValueError, match="10 cells"):
        write(path, [ROW, SharepointMapRow.of(ITEM)])
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


KILLED = """
import os, signal, sys
from pathlib import Path
from smartcrawl.sources.sharepoint.mapfiles import FilesMapRow, replaced_sharepoint_map
with replaced_sharepoint_map(Path(sys.argv[1]), FilesMapRow) as writer:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.covers("R3-119")
def test_what_a_killed_process_left_is_removed_and_no_more(path):
    write(path, rows_of(2))
    before = path.read_bytes()
    run = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert run.returncode == -9
    assert path.read_bytes() == before
    (left,) = path.parent.glob(".files_map.csv.*")

    with replaced_sharepoint_map(path, FilesMapRow) as one:
        assert not left.exists()
        one.write(ROW)
        write(path, rows_of(3))  # does not remove what another process writes
        assert len(read_sharepoint_files_map(path).rows) == 3
    assert list(read_sharepoint_files_map(path).rows) == [ROW.sharepoint_unique_file_id]


@pytest.mark.covers("R3-28", "R3-63")
def test_an_action_is_repeated_while_another_process_is_in_its_way():
    errors = [errno.EBUSY, errno.EAGAIN, errno.ESTALE]

    def action():
        if errors:
            raise OSError(errors.pop(), "busy")
        return "done"

    assert retry_busy_sharepoint_file(action, wait=0) == "done"

    tries = []

    def broken(number):
        tries.append(number)
        raise OSError(number, "no")

    with pytest.raises(OSError, match="no"):
        retry_busy_sharepoint_file(lambda: broken(errno.EBUSY), wait=0)
    assert len(tries) == 6
    with pytest.raises(OSError, match="no"):
        retry_busy_sharepoint_file(lambda: broken(errno.ENOSPC), wait=0)
    assert len(tries) == 7


def test_a_writer_holds_a_lock(path):
    with MapFileWriter(path, FilesMapRow), path.open() as opened:
        with pytest.raises(BlockingIOError):
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert os.stat(path).st_nlink == 1


# Reading

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ['a\r\n"b"', "\n", "\r", '"', '""', "😀,مرحبا", "\ufeff", "=1", "a\0b", "\u2028"]
)
TIMES = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
PARTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0\\/"), min_size=1, max_size=9
).filter(lambda name: name not in (".", ".."))
ITEMS = st.builds(
    LibraryItem,
    st.integers(0, 10**17),
    NAMES.filter(bool),
    NAMES,
    NAMES,
    st.integers(0, 10**17),
    TIMES,
    st.just("https://a.example/x"),
)
ROWS = st.builds(
    lambda item, parts, time, one, two: FilesMapRow.of(
        item, "/".join(parts), time, sharepoint_error=one, processing_error=two
    ),
    ITEMS, st.lists(PARTS, max_size=3), st.none() | TIMES, NAMES, NAMES,
)  # fmt: skip


@pytest.mark.covers("R3-28", "R3-51", "R3-123")
@settings(max_examples=40)
@given(rows=st.lists(ROWS, max_size=6, unique_by=lambda row: row.sharepoint_unique_file_id))
def test_what_is_written_is_read(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("maps") / "files_map.csv"
    write(path, rows)

    read = read_sharepoint_files_map(path)

    assert (list(read.rows.values()), read.damaged, read.state) == (rows, [], MapState.WHOLE)
    assert list(read.rows) == [row.sharepoint_unique_file_id for row in rows]


def test_unknown_numbers_and_times_are_empty(path):
    row = ROW._replace(
        sharepoint_listitem_id=None, file_size=None, last_modified_utc="",
        last_modified_timestamp=None,
    )  # fmt: skip
    write(path, [row])

    assert read_sharepoint_files_map(path).rows == {row.sharepoint_unique_file_id: row}


def damaged(path, column, value):
    """Return the reasons why a row with one other cell is damaged; two good rows are beside it."""
    one, two = rows_of(2)
    write(path, [one, ROW._replace(**{column: value}), two])
    read = read_sharepoint_files_map(path)
    assert read.state is MapState.WHOLE
    assert {key: read.rows[key] for key in ("id-0", "id-1")} == {"id-0": one, "id-1": two}
    assert all(line.startswith(f"{path}: line ") for line in read.damaged)
    assert len(read.rows) == 3 - len(read.damaged)
    return [line.removeprefix(f"{path}: line 3: ") for line in read.damaged]


@pytest.mark.covers("R3-110")
@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("sharepoint_listitem_id", "x", "sharepoint_listitem_id is not a number"),
        ("sharepoint_listitem_id", "1.0", "sharepoint_listitem_id is not a number"),
        ("sharepoint_listitem_id", "01", "sharepoint_listitem_id is not a number"),
        ("sharepoint_listitem_id", "٣", "sharepoint_listitem_id is not a number"),
        ("file_size", "-1", "file_size is negative"),
        ("file_size", "1 ", "file_size is not a number"),
        ("file_size", "9" * 5000, "file_size is not a number"),
        ("sharepoint_unique_file_id", "", "sharepoint_unique_file_id is empty"),
        ("last_modified_utc", "2024-01-15T10:30:00Z", "last_modified_utc is not a time"),
        ("last_modified_utc", "2024-02-30T10:30:00.000000Z", "last_modified_utc is not a time"),
        (
            "last_modified_utc", "2024-01-15T10:30:01.000000Z",
            "last_modified_timestamp is another time than last_modified_utc",
        ),
        (
            "last_modified_timestamp", None,
            "last_modified_timestamp is another time than last_modified_utc",
        ),
        ("downloaded_utc", "", "downloaded_timestamp is another time than downloaded_utc"),
        ("downloaded_timestamp", "0", "downloaded_timestamp is another time than downloaded_utc"),
        ("file_relative_path", "..\\x", "file_relative_path is not a path below the storage"),
        ("file_relative_path", "/etc/passwd", "file_relative_path is not a path below the storage"),
    ],
)  # fmt: skip
def test_an_edited_cell_damages_its_row(path, column, value, reason):
    assert damaged(path, column, value) == [reason]


def test_a_good_row_is_not_damaged(path):
    assert damaged(path, "filename", "x") == []


WRONG = "a quotation mark or a line break is in the wrong place"


@pytest.mark.covers("R3-110")
@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"id-1,", b"id-1,,", "it has 14 columns instead of 13"),
        (b"id-1,", b'"id-1,', WRONG),
        (b"id-1,", b'i"d-1,', WRONG),
        (b"id-1,", b'"id"-1,', WRONG),
        (b"id-1,", b"id-\xff,", "it is not UTF-8"),
        (b"id-1,", b"id\n-1,", WRONG),
        (b"x.md", b"x\n.md", WRONG),
        (b"x.md", b"x\r.md", WRONG),
        (b"x.md", b"x\xff.md", "it is not UTF-8"),
        (b"id-1,x.md", b"id-1;x.md", "it has 12 columns instead of 13"),
    ],
)
def test_a_damaged_row_costs_no_other(path, old, new, reason):
    plain = ROW._replace(filename="x.md", server_relative_url="/x", file_relative_path="x")
    one, _, two = rows_of(3)
    middle = plain if old.startswith(b"x") or old.endswith(b"md") else ROW
    write(path, [one, middle._replace(sharepoint_unique_file_id="id-1"), two])
    data = path.read_bytes()
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, new))

    read = read_sharepoint_files_map(path)

    assert (read.rows, read.state) == ({"id-0": one, "id-2": two}, MapState.WHOLE)
    assert read.damaged == [f"{path}: line 3: {reason}"]


def test_a_truncated_last_line_is_damaged(path):
    write(path, rows_of(2))
    data = path.read_bytes()
    last = data.rindex(b"12,id-1")
    for length in range(last + 1, len(data)):
        path.write_bytes(data[:length])
        read = read_sharepoint_files_map(path)
        assert list(read.rows) == ["id-0"]
        assert read.damaged == [f"{path}: line 3: the file ends in it"]


def test_rows_with_one_id_do_not_count(path):
    rows = rows_of(4)
    rows[2] = rows[0]._replace(filename="a\nb")
    rows.append(rows[0])
    write(path, rows)

    read = read_sharepoint_files_map(path)

    assert list(read.rows) == ["id-1", "id-3"]
    assert read.damaged == [
        f"{path}: line {line}: its id is that of line 2, too; neither counts" for line in (4, 7)
    ]


@pytest.mark.covers("R3-110")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: b"", "it is empty"),
        (lambda data: b"\xef\xbb\xbf" + data, "these are other columns"),
        (lambda data: data.replace(b"file_size", b"size", 1), "these are other columns"),
        (lambda data: data.replace(b"\r\n", b"\n"), "the file ends in it"),
        (lambda data: data.replace(b",", b";"), "these are other columns"),
        (lambda data: data.decode().encode("utf-16"), "the file ends in it"),
        (lambda data: data[50:], "these are other columns"),
        (lambda data: b"\0" * 4096, "the file ends in it"),
        (lambda data: data.replace(b"filename,file_type", b"file_type,filename"), "other columns"),
    ],
)
def test_a_map_with_another_header_is_damaged_as_a_whole(path, change, reason):
    write(path, rows_of(2))
    path.write_bytes(change(path.read_bytes()))

    read = read_sharepoint_files_map(path)

    assert (read.rows, read.state) == ({}, MapState.DAMAGED)
    (line,) = read.damaged
    assert line.startswith(f"{path}: line 1: ")
    assert reason in line


@pytest.mark.covers("R3-109")
def test_a_map_that_is_missing_or_no_file(path):
    assert read_sharepoint_files_map(path) == ReadMap({}, [], MapState.MISSING)
    path.mkdir()
    why = f"{path} cannot be read (Is a directory)"
    assert read_sharepoint_files_map(path) == ReadMap({}, [why], MapState.DAMAGED)


def test_of_rows_that_are_expected_only_the_ids_are_kept(path):
    """Two rows with one id do not count, whether they are expected or not."""
    ids = ("aa", "bb", "cc")
    rows = {id_: ROW._replace(sharepoint_unique_file_id=id_) for id_ in ids}
    other = rows["cc"]._replace(filename="other.txt")
    write(path, [*rows.values(), other])

    read = read_sharepoint_files_map(path, lambda row: row in (rows["aa"], rows["cc"]))

    assert read.rows == {"bb": rows["bb"]}
    assert read.agreeing == {"aa"}
    assert len(read.damaged) == 1


@given(data=st.binary(max_size=300) | st.text('",\r\n ab', max_size=60).map(str.encode))
def test_no_bytes_raise(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("maps") / "files_map.csv"
    path.write_bytes(FILES_HEADER.encode() + data)

    read = read_sharepoint_files_map(path)

    assert read.state is MapState.WHOLE
    assert not read.rows
    assert bool(read.damaged) is bool(data)


@given(TIMES)
def test_a_time_is_read_as_it_is_written(microseconds):
    text = sharepoint_map_time(microseconds)
    assert len(text) == 27
    assert sharepoint_map_microseconds(text) == microseconds


@given(
    data=st.lists(
        st.sampled_from(
            [b"a", b'"', b'""', b",", b"\r\n", b"\n", b"\r", b"\xff", b'"x\r\ny"', "é".encode()]
        ),
        max_size=30,
    ).map(b"".join),
    block=st.integers(1, 9),
)
def test_records_are_the_same_however_much_is_read_at_once(data, block):
    assert list(sharepoint_map_file_records(io.BytesIO(data), block)) == list(
        sharepoint_map_records(data)
    )

"""Change detection and the integrity check of document libraries."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.library import (
    Corrections,
    ExpectedFile,
    Move,
    StoredRow,
    decide_library_corrections,
    integrity_line,
    is_changed,
)


class Fields(NamedTuple):
    filename: str = "Q1.docx"
    server_relative_url: str = "/sites/demo/Docs/Q1.docx"
    file_size: int | None = 10
    last_modified: str = "2024-01-15T10:30:00.000000Z"
    file_type: str = "docx"


OLD = Fields()


@pytest.mark.covers("R3-02", "R3-32", "R3-98", "R3-129", "R3-130")
@pytest.mark.parametrize(
    ("change", "changed"),
    [
        ({}, False),
        ({"filename": "q1.docx"}, True),
        ({"filename": "Q0.docx"}, True),
        ({"server_relative_url": "/sites/demo/Docs/A/Q1.docx"}, True),
        ({"file_size": 9}, True),
        ({"file_size": 11}, True),
        ({"file_size": None}, True),
        ({"last_modified": "2024-01-15T10:30:00.000001Z"}, True),
        ({"last_modified": "2023-01-15T10:30:00.000000Z"}, True),
        ({"file_type": "pdf"}, False),
    ],
)
def test_an_item_changed_when_one_of_four_fields_is_another(change, changed):
    new = OLD._replace(**change)

    assert is_changed(new, OLD) is is_changed(OLD, new) is changed


A, B = "s/02_embedded/a/x.md", "s/02_embedded/b/x.md"
Y = "s/02_embedded/y.md"
ORIGINAL = "s/01_originals/a/x.md"


def file(*paths, size=5):
    return ExpectedFile(paths, size)


def corrected(expected, rows, on_disk, damaged=frozenset()):
    """Return the corrections that are not empty, by name."""
    found = decide_library_corrections(expected, rows, on_disk, damaged)
    return {name: value for name, value in found._asdict().items() if value}


ONE = {"1": file(A)}
ROW = {"1": StoredRow(A)}
CASES = {
    "nothing": ({}, {}, {}, {}),
    "all is well": (ONE, ROW, {A: 5}, {"verified": 1}),
    "R3-134 no row": (ONE, {}, {}, {"missing_in_map": ("1",)}),
    "R3-134 no row, and its place is taken": (ONE, {}, {A: 5}, {"missing_in_map": ("1",)}),
    "R3-134 no row is no reason to move": (
        ONE, {}, {B: 5}, {"missing_in_map": ("1",), "orphans": (B,)},
    ),
    "B1 R3-104 R3-135": (ONE, ROW, {}, {"missing_on_disk": ("1",)}),
    "R3-79 an empty path without an error": (
        ONE, {"1": StoredRow("")}, {}, {"missing_on_disk": ("1",)},
    ),
    "B2 R3-105 R3-136": (ONE, ROW, {A: 5, Y: 1, B: 5}, {"orphans": (B, Y), "verified": 1}),
    "B3 R3-106 R3-137": (ONE, ROW, {B: 5}, {"moves": (Move("1", B, A),)}),
    "B3 a row with another path": (
        ONE, {"1": StoredRow(B)}, {B: 5}, {"moves": (Move("1", B, A),)},
    ),
    "a row with another path belongs at the first place": (
        {"1": file(A, ORIGINAL)}, {"1": StoredRow(Y)}, {B: 5}, {"moves": (Move("1", B, A),)},
    ),
    "a row with another path, and its file is at its place": (
        ONE, {"1": StoredRow(B)}, {A: 5}, {"missing_on_disk": ("1",)},
    ),
    "RD-13 another size": (
        ONE, ROW, {B: 6}, {"missing_on_disk": ("1",), "orphans": (B,)},
    ),
    "RD-13 another name": (
        ONE, ROW, {Y: 5}, {"missing_on_disk": ("1",), "orphans": (Y,)},
    ),
    "RD-13 an unknown size": (
        {"1": file(A, size=None)}, ROW, {B: 5}, {"missing_on_disk": ("1",), "orphans": (B,)},
    ),
    "RD-13 a damaged file": (
        ONE, ROW, {B: 5}, {"missing_on_disk": ("1",), "orphans": (B,)}, {B},
    ),
    "RD-13 the first of two": (
        ONE, ROW, {"z/x.md": 5, B: 5}, {"moves": (Move("1", B, A),), "orphans": ("z/x.md",)},
    ),
    "RD-13 each file is moved once": (
        {"1": file(A), "2": file("c/x.md")}, {"1": StoredRow(A), "2": StoredRow("c/x.md")},
        {B: 5}, {"moves": (Move("1", B, A),), "missing_on_disk": ("2",)},
    ),
    "RD-13 a file that is referred to stays": (
        {"1": file(A), "2": file(B)}, {"1": StoredRow(A), "2": StoredRow(B)},
        {B: 5}, {"missing_on_disk": ("1",), "verified": 1},
    ),
    "RD-13 a row with the path of another item": (
        {"1": file(A), "2": file(B)}, {"1": StoredRow(B), "2": StoredRow(B)},
        {B: 5}, {"missing_on_disk": ("1",), "verified": 1},
    ),
    "M-50 an error without a file": (ONE, {"1": StoredRow("", True)}, {}, {}),
    "M-50 an error without a file, and there is one": (
        ONE, {"1": StoredRow("", True)}, {A: 5}, {"orphans": (A,)},
    ),
    "M-50 an error with the old file": (
        ONE, {"1": StoredRow(B, True)}, {B: 5}, {"verified": 1},
    ),
    "M-50 an error and the old file is missing": (
        ONE, {"1": StoredRow(B, True)}, {}, {"missing_on_disk": ("1",)},
    ),
    "M-50 an error with the old file and its original": (
        ONE, {"1": StoredRow(B, True, ORIGINAL)}, {B: 5, ORIGINAL: 5}, {"verified": 1},
    ),
    "E3 M-51 empty in the library": ({"1": file(A, size=0)}, ROW, {A: 0}, {"verified": 1}),
    "B4 M-51 empty on disk": (ONE, ROW, {A: 0}, {"missing_on_disk": ("1",)}),
    "B4 M-51 one byte": (ONE, ROW, {A: 1}, {"verified": 1}),
    "B4 M-51 empty, and the size is unknown": (
        {"1": file(A, size=None)}, ROW, {A: 0}, {"missing_on_disk": ("1",)},
    ),
    "B4 M-51 empty, and its file is elsewhere": (
        ONE, ROW, {A: 0, B: 5}, {"moves": (Move("1", B, A),)},
    ),
    "B4 damaged": (ONE, ROW, {A: 5}, {"missing_on_disk": ("1",)}, {A}),
    "an empty file of the library is elsewhere": (
        {"1": file(A, size=0)}, ROW, {B: 0}, {"moves": (Move("1", B, A),)},
    ),
    "M-53 processed": (
        {"1": file(A, ORIGINAL)}, {"1": StoredRow(A, original=ORIGINAL)}, {A: 7, ORIGINAL: 5},
        {"verified": 1},
    ),
    "M-53 not processed yet": (
        {"1": file(A, ORIGINAL)}, {"1": StoredRow(ORIGINAL)}, {ORIGINAL: 5}, {"verified": 1},
    ),
    "M-53 not processed yet, and an old result": (
        {"1": file(A, ORIGINAL)}, {"1": StoredRow(ORIGINAL)}, {A: 7, ORIGINAL: 5},
        {"orphans": (A,), "verified": 1},
    ),
    "M-53 an original at a wrong path": (
        {"1": file(A, ORIGINAL)}, {"1": StoredRow(ORIGINAL)}, {B: 5},
        {"moves": (Move("1", B, ORIGINAL),)},
    ),
    "a list has one original": (
        {"1": file("1.md", ORIGINAL), "2": file("2.md", ORIGINAL)},
        {"1": StoredRow(ORIGINAL), "2": StoredRow(ORIGINAL)},
        {B: 5}, {"moves": (Move("1", B, ORIGINAL),)},
    ),
    "a withheld item stays": ({}, {"1": StoredRow(A)}, {A: 5}, {"verified": 1}),
    "a withheld item with its original": (
        {}, {"1": StoredRow(A, original=ORIGINAL)}, {A: 5, ORIGINAL: 5}, {"verified": 1},
    ),
    "a withheld item without a file": ({}, {"1": StoredRow(A)}, {}, {}),
}  # fmt: skip


@pytest.mark.covers(
    "R3-33", "R3-104", "R3-105", "R3-106", "R3-107", "R3-125", "R3-131", "R3-132", "R3-133",
    "R3-134", "R3-135", "R3-136", "R3-137",
)  # fmt: skip
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_corrections(case):
    expected, rows, on_disk, corrections, *damaged = case

    assert corrected(expected, rows, on_disk, *damaged) == corrections


def test_a_row_has_no_error_and_no_original_unless_it_says_so():
    assert StoredRow(A) == (A, False, "")


PATHS = st.sampled_from([f"{folder}/{name}" for folder in "abc" for name in ("x", "y")])
IDS = st.sampled_from("1234")
SIZES = st.integers(0, 2)
EXPECTED = st.dictionaries(
    IDS, st.builds(lambda path, size: ExpectedFile((path,), size), PATHS, SIZES | st.none())
)
ROWS = st.dictionaries(IDS, st.builds(StoredRow, st.just("") | PATHS, st.booleans()))


@pytest.mark.covers("R3-37", "R3-38", "R3-39")
@given(EXPECTED, ROWS, st.dictionaries(PATHS, SIZES))
def test_each_item_and_each_file_has_one_correction_at_most(expected, rows, on_disk):
    found = decide_library_corrections(expected, rows, on_disk)

    moved = [move.unique_id for move in found.moves]
    items = [*found.missing_in_map, *found.missing_on_disk, *moved]
    assert len(items) == len(set(items))
    assert set(items) <= set(expected)
    assert set(found.missing_in_map) == expected.keys() - rows.keys()
    gone = [*found.orphans, *(move.source for move in found.moves)]
    assert len(gone) == len(set(gone))
    assert set(gone) <= set(on_disk)
    targets = [move.target for move in found.moves]
    assert len(targets) == len(set(targets))
    for move in found.moves:
        assert move.source.rpartition("/")[2] == move.target.rpartition("/")[2]
        assert on_disk[move.source] == expected[move.unique_id].size
    for unique_id, row in rows.items():
        kept = unique_id not in expected or row.has_error or row.path in expected[unique_id].paths
        assert not kept or row.path not in gone


@given(EXPECTED, ROWS, st.dictionaries(PATHS, SIZES))
def test_a_corrected_source_needs_no_second_correction(expected, rows, on_disk):
    """When all downloads, moves and deletions were carried out, the next check finds nothing."""
    if len({item.paths for item in expected.values()}) < len(expected):
        return  # two items of a library are never at one place
    found = decide_library_corrections(expected, rows, on_disk)
    disk = {path: size for path, size in on_disk.items() if path not in found.orphans}
    for move in found.moves:
        disk[move.target] = disk.pop(move.source)
    after = {
        unique_id: StoredRow(expected[unique_id].paths[0]) if unique_id in expected else row
        for unique_id, row in rows.items()
        if unique_id not in expected or not row.has_error
    }
    for unique_id in (*found.missing_in_map, *found.missing_on_disk):
        item = expected[unique_id]
        after[unique_id] = StoredRow(item.paths[0])
        disk[item.paths[0]] = 1 if item.size is None else item.size
    if any(row.has_error for row in rows.values()):
        return  # its file stays where it was
    again = decide_library_corrections(expected, after, disk)
    assert again == Corrections((), (), (), (), again.verified)


@pytest.mark.covers("R3-139")
@pytest.mark.parametrize(
    ("counts", "line"),
    [
        ((0, 0, 0, 0), "Integrity check passed: 0 files verified"),
        ((0, 0, 0, 12000), "Integrity check passed: 12000 files verified"),
        ((1, 0, 0, 5), "Integrity check corrected: 1 missing, 0 orphans deleted, 0 moved"),
        ((0, 2, 0, 5), "Integrity check corrected: 0 missing, 2 orphans deleted, 0 moved"),
        ((0, 0, 3, 5), "Integrity check corrected: 0 missing, 0 orphans deleted, 3 moved"),
    ],
)
def test_the_line_of_the_log(counts, line):
    assert integrity_line(*counts) == line

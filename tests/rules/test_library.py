"""Change detection and the integrity check of document libraries."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.library import (
    LackingFile,
    Move,
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


def lacking(**files):
    """Files that items lack: ids with path and size."""
    return [LackingFile(id_, *file) for id_, file in files.items()]


ONE = lacking(one=(A, 5))
CASES = {
    "nothing": ([], {}, {}),
    "B1 R3-104 R3-135": (ONE, {}, {"missing_on_disk": ("one",)}),
    "B2 R3-105 R3-136": ([], {Y: 1, B: 5}, {"orphans": (B, Y)}),
    "B3 R3-106 R3-137": (ONE, {B: 5}, {"moves": (Move("one", B, A),)}),
    "RD-13 another size": (ONE, {B: 6}, {"missing_on_disk": ("one",), "orphans": (B,)}),
    "RD-13 another name": (ONE, {Y: 5}, {"missing_on_disk": ("one",), "orphans": (Y,)}),
    "RD-13 an unknown size": (
        lacking(one=(A, None)), {B: 5}, {"missing_on_disk": ("one",), "orphans": (B,)},
    ),
    "RD-13 the first of two": (
        ONE, {"z/x.md": 5, B: 5}, {"moves": (Move("one", B, A),), "orphans": ("z/x.md",)},
    ),
    "RD-13 each file is moved once": (
        lacking(one=(A, 5), two=("c/x.md", 5)), {B: 5},
        {"moves": (Move("one", B, A),), "missing_on_disk": ("two",)},
    ),
    "RD-13 two files of one name": (
        lacking(one=(A, 5), two=("c/x.md", 5)), {"z/x.md": 5, B: 5},
        {"moves": (Move("one", B, A), Move("two", "z/x.md", "c/x.md"))},
    ),
    "E3 an empty file of the library is elsewhere": (
        lacking(one=(A, 0)), {B: 0}, {"moves": (Move("one", B, A),)},
    ),
}  # fmt: skip


@pytest.mark.covers("R3-104", "R3-105", "R3-106", "R3-135", "R3-136", "R3-137")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_corrections(case):
    files, spare, corrections = case

    found = decide_library_corrections(files, spare)

    assert {name: value for name, value in found._asdict().items() if value} == corrections


PATHS = st.sampled_from([f"{folder}/{name}" for folder in "abc" for name in ("x", "y")])
SIZES = st.integers(0, 2)
LACKING = st.dictionaries(PATHS, SIZES | st.none()).map(
    lambda files: [LackingFile(f"id of {path}", path, size) for path, size in files.items()]
)


@pytest.mark.covers("R3-37", "R3-38", "R3-39")
@given(LACKING, st.dictionaries(PATHS, SIZES))
def test_each_item_and_each_file_has_one_correction(files, spare):
    found = decide_library_corrections(files, spare)

    wanted = {file.unique_id: file for file in files}
    moved = [move.unique_id for move in found.moves]
    assert sorted([*found.missing_on_disk, *moved]) == sorted(wanted)
    gone = [*found.orphans, *(move.source for move in found.moves)]
    assert sorted(gone) == sorted(spare)
    for move in found.moves:
        file = wanted[move.unique_id]
        assert (move.target, spare[move.source]) == (file.path, file.size)
        assert move.source.rpartition("/")[2] == move.target.rpartition("/")[2]
    left = [(path.rpartition("/")[2], spare[path]) for path in found.orphans]
    for unique_id in found.missing_on_disk:
        file = wanted[unique_id]
        assert (file.path.rpartition("/")[2], file.size) not in left


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

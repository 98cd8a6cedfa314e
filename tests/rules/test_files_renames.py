"""Renamed files of listed sources (docs/decisions.md)."""

import re
import time
from heapq import heappush
from itertools import takewhile
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules import files as renames
from smartcrawl.rules.files import NO_BYTES, FileRecord, renamed_records
from tests.rules.manual import table

MANY = 10_000
BYTES = {"empty": NO_BYTES, "unread": None}
FOLDERS = st.lists(st.sampled_from("abc"), max_size=4)
PATHS = st.builds(lambda folder, name: "/".join([*folder, name]), FOLDERS, st.sampled_from("xyz"))
HASHES = st.sampled_from([b"A", b"B", NO_BYTES, None])
FILES = st.lists(st.tuples(PATHS, HASHES), max_size=9)


def files(cell: str) -> list[FileRecord]:
    """Return the files of a cell, such as ``1 a/x A, 2 a/y empty``."""
    found = re.findall(r"(\d+) (\S+) (\w+)", cell)
    return [FileRecord(int(no), path, BYTES.get(b, b.encode())) for no, path, b in found]


@pytest.mark.parametrize(("absent", "new", "renamed"), table("Renamed files"))
def test_renamed_files_are_the_manuals(absent, new, renamed):
    expected = {int(no): int(old) for no, old in re.findall(r"(\d+) is (\d+)", renamed)}

    for turned in (1, -1):
        assert renamed_records(files(absent)[::turned], files(new)[::turned]) == expected


def rank(old: FileRecord, new: FileRecord) -> tuple[object, ...]:
    """Return the order of a match among all possible ones, the best first."""
    folders = old.folder, new.folder
    shared = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(*folders, strict=False))))
    steps = len(folders[0]) + len(folders[1]) - 2 * shared
    return old.name != new.name, -shared, steps, old.no, new.no


def nearest_first(absent: list[FileRecord], new: list[FileRecord]) -> dict[int, int]:
    """Match the best pair again and again, whatever time that takes."""
    found: dict[int, int] = {}
    pairs = [(rank(o, n), o, n) for o in absent for n in new if o.body_hash == n.body_hash]
    for _, old, fresh in sorted(pairs, key=lambda pair: pair[0]):
        real = old.body_hash not in (None, NO_BYTES)
        if real and fresh.no not in found and old.no not in found.values():
            found[fresh.no] = old.no
    return found


def numbered(listed: list[tuple[str, bytes | None]], start: int) -> list[FileRecord]:
    return [FileRecord(no, *file) for no, file in enumerate(listed, start)]


@given(FILES, FILES, st.randoms(use_true_random=False))
def test_matches_are_those_of_all_pairs_best_first(absent, new, random):
    olds, news = numbered(absent, 0), numbered(new, 100)

    found = renamed_records(olds, news)

    assert found == nearest_first(olds, news)
    assert list(found) == sorted(found)
    random.shuffle(olds)
    random.shuffle(news)
    assert renamed_records(iter(olds), iter(news)) == found


@given(FILES, FILES)
def test_as_many_are_renamed_as_have_equal_bytes(absent, new):
    olds, news = numbered(absent, 0), numbered(new, 100)
    found = renamed_records(olds, news)
    hashes = [[record.body_hash for record in side] for side in (olds, news)]

    assert len(set(found.values())) == len(found)
    assert len(found) == sum(min(side.count(b) for side in hashes) for b in (b"A", b"B"))


def test_a_file_has_a_name_and_folders():
    assert FileRecord(1, "a/b/c", None).name == "c"
    assert FileRecord(1, "a/b/c", None).folder == ("a", "b")
    assert (FileRecord(1, "c", None).name, FileRecord(1, "c", None).folder) == ("c", ())


@pytest.mark.long(but=2)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("old/{}", "new/{}"),
        ("old/{}/x", "new/{}/x"),
        ("old/{}", "new/n{}"),
        ("x/{}/" + "y/" * 50 + "z", "y/{}"),
    ],
    ids=["a folder", "equal names", "new names", "deep folders"],
)
def test_many_equal_files_take_no_time_of_all_pairs(before, after):
    """All pairs of 10,000 equal files are 100,000,000."""
    absent = [FileRecord(no, before.format(no), b"A") for no in range(MANY)]
    new = [FileRecord(MANY + no, after.format(no), b"A") for no in range(MANY)]
    start = time.process_time()

    found = renamed_records(absent, new)

    assert time.process_time() - start < 5
    assert len(found) == len(set(found.values())) == MANY


def test_unmatched_files_are_not_moved_at_each_level_of_a_deep_tree():
    deep = [FileRecord(no, "a/" * no + "x", b"A") for no in range(MANY // 20)]

    with patch.object(renames, "heappush", wraps=heappush) as moved:
        assert renamed_records(deep, []) == {}

    assert moved.call_count < 10 * len(deep)

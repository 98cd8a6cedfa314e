"""The maps of a dry run: where they are while it goes on, and what is left of them (R3-61)."""

import os
from pathlib import Path

import pytest

from smartcrawl.model.library import LibraryItem, LibraryRow, SourceType
from smartcrawl.run.library.maps import DryLibraryMaps, remove_dry_run_maps
from smartcrawl.sources.sharepoint.mapfiles import read_sharepoint_files_map
from smartcrawl.sources.sharepoint.source import SharepointSource

ITEM = LibraryItem(3, "id-3", "a.txt", "/sites/x/Docs/a.txt", 4, 1_700_000_000_000_000, "http://a")
ROW = LibraryRow(
    1, *ITEM[:6], path="02_embedded/a.txt", downloaded=5, sharepoint_error=None,
    processing_error=None,
)  # fmt: skip


@pytest.fixture
def source(tmp_path: Path) -> SharepointSource:
    return SharepointSource(
        name="D.s", domain="D", source_id="s", source_type=SourceType.FILES,
        site_url="https://a.example/sites/x", url_part="/Docs", storage=tmp_path / "storage",
    )  # fmt: skip


def maps(source: SharepointSource) -> list[Path]:
    return sorted(source.folder.glob("*_map_*"))


@pytest.mark.covers("R3-61")
def test_both_maps_are_there_until_the_end_and_so_are_new_folders(
    source: SharepointSource, tmp_path: Path
):
    time = tmp_path.stat().st_mtime_ns
    with DryLibraryMaps(source) as dry:
        dry.add_listed(ITEM)
        dry.write_files_map([ROW, ROW._replace(no=2, unique_id="id-4")])
        dry.write_files_map([ROW])  # compared again
        files, listed = maps(source)
        id_ = files.name.removeprefix("files_map_")
        assert listed.name == f"sharepoint_map_{id_}"
        assert b"/sites/x/Docs/a.txt" in listed.read_bytes()
        (row,) = read_sharepoint_files_map(files).rows.values()
        assert row.file_relative_path == "D\\01_files\\s\\02_embedded\\a.txt"

    assert list(tmp_path.iterdir()) == []
    assert tmp_path.stat().st_mtime_ns == time


def test_an_error_leaves_nothing_either(source: SharepointSource):
    source.folder.mkdir(parents=True)
    (source.folder / "files_map.csv").write_text("mine")
    os.utime(source.folder, ns=(1, 2))

    def fail() -> None:
        assert len(maps(source)) == 1
        raise KeyError

    with pytest.raises(KeyError), DryLibraryMaps(source):
        fail()

    assert [path.name for path in source.folder.iterdir()] == ["files_map.csv"]
    assert source.folder.stat().st_mtime_ns == 2


def test_the_time_of_another_change_stays(source: SharepointSource):
    source.folder.mkdir(parents=True)
    os.utime(source.folder, ns=(1, 2))

    with DryLibraryMaps(source):
        (source.folder / "new").write_text("by another process")
        os.utime(source.folder, ns=(1, 99))

    assert source.folder.stat().st_mtime_ns != 2


def test_a_folder_that_another_process_uses_by_now_stays(source: SharepointSource):
    with DryLibraryMaps(source):
        (source.folder / "new").write_text("by another process")

    assert [path.name for path in source.folder.iterdir()] == ["new"]


def test_only_abandoned_maps_of_dry_runs_are_removed(source: SharepointSource):
    remove_dry_run_maps(source.folder)  # there is no folder
    source.folder.mkdir(parents=True)
    id_ = "0123456789abcdef"
    left = [f"files_map_{id_}.csv", f"sharepoint_map_{id_}.csv", f"files_map_{id_}.csv.0a.writing"]
    mine = ["files_map.csv", "files_map_old.csv", f"vectorstore_map_{id_}.csv", f"files_map_{id_}"]
    for name in left + mine:
        (source.folder / name).write_text("")
    with DryLibraryMaps(source):
        there = {path.name for path in source.folder.iterdir()}
        assert there & {*left, *mine} == set(mine)
        remove_dry_run_maps(source.folder)
        assert {path.name for path in source.folder.iterdir()} == there

    assert {path.name for path in source.folder.iterdir()} == set(mine)


def test_a_file_in_place_of_the_folder_is_an_error(source: SharepointSource):
    source.folder.parent.mkdir(parents=True)
    source.folder.write_text("a file")

    with pytest.raises(OSError), DryLibraryMaps(source):  # noqa: PT011  # the system's words
        pass

    assert source.folder.read_text() == "a file"

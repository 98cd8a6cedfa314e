"""The archive of a crawl, byte by byte, and the maps of one moment (R3-20 to R3-23)."""

import json
import os
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

import pytest

from smartcrawl.model.exceptions import SourceError
from smartcrawl.run.library import report as library_archive
from smartcrawl.run.library.report import (
    LibraryReport,
    library_run_archives,
    library_run_maps_snapshot,
    write_library_run_archive,
)
from tests.run.test_library_metadata import domain

__all__ = ["domain"]
START = datetime(2025, 1, 15, 14, 20, 0, 5, tzinfo=UTC)
END = datetime(2025, 1, 15, 14, 25, 0, tzinfo=UTC)
MAP = "sharepoint_unique_file_id,filename,server_relative_url,sharepoint_error,processing_error\r\n"
ROWS = "b,q.md,/a/q.md,locked,\r\na,p.md,/a/p.md,,no HTML\r\nc,r.md,/a/r.md,,\r\nbad\r\n"
TOP = "DOMAIN01/01_files/source01"


@pytest.fixture
def report(domain):
    """The report of a crawl of one source, with maps on disk."""
    folder = domain.every_source[0].folder
    folder.mkdir(parents=True)
    (folder / "files_map.csv").write_bytes((MAP + ROWS).encode())
    (folder / "vectorstore_map.csv").write_bytes(
        b"sharepoint_unique_file_id,embedding_error\r\nb,failed\r\n"
    )
    (folder / "files_map_jb_1.csv").write_bytes(b"of a dry run")
    (folder / ".files_map.csv.1.writing").write_bytes(b"under way")
    found = LibraryReport(domain, "crawl", "full", "all")
    found.skip(domain.every_source[0], "no connection")
    return found


def written(report, end=END, keep=0):
    """Write its archive."""
    return write_library_run_archive(report, {"domain_id": "DOMAIN01"}, (START, end), keep=keep)


@pytest.mark.covers("R3-20", "R3-21", "R3-22", "M-49")
def test_an_archive_has_the_report_and_each_map(report, domain):
    path = written(report)
    storage = domain.path.parents[2]
    assert path == storage / "reports/crawls/2025-01-15_14-25-00_DOMAIN01_all_full.zip"
    assert report.archive == "crawls/2025-01-15_14-25-00_DOMAIN01_all_full"
    with ZipFile(path) as archive:
        assert archive.namelist() == [
            "report.json", f"{TOP}/files_map.csv", f"{TOP}/vectorstore_map.csv"
        ]  # fmt: skip
        assert archive.read(f"{TOP}/files_map.csv") == (MAP + ROWS).encode()
        content = json.loads(archive.read("report.json"))
    (source,) = content.pop("sources")
    assert content == {
        "report_id": report.archive,
        "type": "crawl",
        "created_utc": "2025-01-15T14:25:00.000000Z",
        "parameters": {"domain_id": "DOMAIN01"},
        "started_utc": "2025-01-15T14:20:00.000005Z",
        "ended_utc": "2025-01-15T14:25:00.000000Z",
        "complete": False,
        "withheld": 0,
    }
    assert (source["sourceId"], source["reason"], source["runs"]) == (
        "source01", "no connection", []
    )  # fmt: skip
    known = {"a": ("p.md", "/a/p.md"), "b": ("q.md", "/a/q.md")}
    errors = {"a": {"processing_error": "no HTML"},
              "b": {"sharepoint_error": "locked", "embedding_error": "failed"}}  # fmt: skip
    assert source["errors"] == [
        {"sharepoint_unique_file_id": id_, "filename": name, "server_relative_url": url}
        | errors[id_]
        for id_, (name, url) in known.items()
    ]


def test_the_same_crawl_gives_the_same_bytes_and_a_taken_name_a_number(report):
    first = written(report)
    digest = sha256(first.read_bytes()).digest()
    second, third = written(report), written(report)
    assert [path.name for path in (second, third)] == [
        "2025-01-15_14-25-00_DOMAIN01_all_full_2.zip",
        "2025-01-15_14-25-00_DOMAIN01_all_full_3.zip",
    ]
    assert report.archive.endswith("_full_3")
    with ZipFile(third) as archive:
        assert json.loads(archive.read("report.json"))["report_id"] == report.archive
    assert sha256(first.read_bytes()).digest() == digest
    first.unlink()
    assert sha256(written(report).read_bytes()).digest() == digest


def test_the_newest_archives_of_each_domain_are_kept(report, domain):
    storage = domain.path.parents[2]
    older = [written(report, END.replace(minute=minute)) for minute in (1, 3, 2)]
    same = written(report, END.replace(minute=3))
    other = older[0].with_name("2020-01-01_00-00-00_OTHER_all_full.zip")
    foreign = older[0].with_name("notes.txt")
    impossible = older[0].with_name("2020-13-01_00-00-00_OTHER_all_full.zip")
    for path in (other, foreign, impossible):
        path.write_bytes(b"x")
    found = library_run_archives(storage, "DOMAIN01")
    assert [each.path for each in found] == [same, older[1], older[2], older[0]]
    assert [each.domain for each in library_run_archives(storage)][-1] == "OTHER"
    newest = written(report, keep=2)
    assert set(newest.parent.iterdir()) == {newest, same, other, foreign, impossible}
    assert library_run_archives(storage / "none") == []


def test_an_archive_that_a_process_left_behind_goes_and_one_that_fails_leaves_none(
    report, monkeypatch
):
    folder = written(report).parent
    left = folder / ".2024-01-01_00-00-00_OTHER_all_full.zip.abcd.writing"
    left.write_bytes(b"PK")
    written(report)
    before = sorted(folder.iterdir())
    assert left not in before

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(library_archive, "_write", full)
    with pytest.raises(OSError, match="No space"):
        written(report)
    assert sorted(folder.iterdir()) == before


def test_maps_are_those_of_one_moment(report, domain, monkeypatch):
    folder = domain.every_source[0].folder
    outside = folder.parents[3] / "outside.csv"
    outside.write_bytes(b"secret")
    (folder / "linked_map.csv").symlink_to(outside)
    opened, changes = os.open, [b"new", b"newer"]

    def replaced(path, *given):
        found = opened(path, *given)
        if changes and Path(path).name == "vectorstore_map.csv":
            for name in ("files_map.csv", "vectorstore_map.csv"):
                (folder / "aside").write_bytes(changes[-1])
                (folder / "aside").rename(folder / name)
            changes.pop()
        return found

    monkeypatch.setattr(library_archive.os, "open", replaced)
    assert library_run_maps_snapshot(domain) == {
        f"{TOP}/files_map.csv": b"new", f"{TOP}/vectorstore_map.csv": b"new"
    }  # fmt: skip
    changes[:] = [b"x"] * 1_000
    with pytest.raises(SourceError, match="change all the time"):
        library_run_maps_snapshot(domain)

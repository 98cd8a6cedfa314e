"""`scrapy library crawl`, its archive, and what else is done with the maps of a domain."""

import json
import re
import shutil
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.libraries import DOMAIN
from tests.crawls.library_stage import BEFORE, LibraryStage, rest_stage

pytestmark = pytest.mark.long(but=1)

__all__ = ["rest_stage"]
TOP = f"{DOMAIN}/01_files/source01"


def archives(libraries) -> list[Path]:
    """Return all files of the folder of archives, hidden ones too."""
    folder = libraries.storage / "reports" / "crawls"
    return sorted(folder.iterdir()) if folder.is_dir() else []


def archived(path):
    """Return the report of an archive."""
    with ZipFile(path) as archive:
        return json.loads(archive.read("report.json"))


@pytest.mark.long
@pytest.mark.covers("R3-13", "R3-20", "R3-21", "R3-22", "R3-23", "R3-66", "M-49")
def test_a_crawl_ends_with_an_archive_and_its_steps_alone_do_not(
    rest_stage: LibraryStage, crawl: Crawl
):
    libraries, _ = rest_stage.begin(crawl, lambda library: library.add("new.md", b"New."))
    libraries.library("process", DOMAIN)
    libraries.download()
    assert archives(libraries) == []
    (libraries.storage / "reports" / "crawls").mkdir(parents=True)
    (libraries.storage / "reports" / "crawls" / ".x.zip.1234.writing").write_bytes(b"PK")
    found = libraries.library("crawl", DOMAIN)
    (path,) = archives(libraries)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_DOMAIN01_all_incremental\.zip", path.name)
    assert found["report"] == f"crawls/{path.stem}"
    assert "embed is left out" in found["result"].err
    with ZipFile(path) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert names == ["report.json", f"{TOP}/files_map.csv", f"{TOP}/sharepoint_map.csv"]
        for name in names[1:]:
            assert archive.read(name) == (libraries.storage / "crawler" / name).read_bytes()
    report = archived(path)
    assert report["report_id"] == found["report"]
    assert (report["type"], report["complete"], report["withheld"]) == ("crawl", True, 0)
    assert report["parameters"] == {
        "domain_id": DOMAIN, "mode": "incremental", "scope": "all", "source_id": None,
        "dry_run": False, "retry_batches": 2,
    }  # fmt: skip
    assert report["started_utc"] < report["ended_utc"] == report["created_utc"]
    (source,) = report["sources"]
    assert (source.pop("runs"), source.pop("errors")) == ([3], [])
    assert source == found["sources"][0]
    assert source["listed"] == source["unchanged"] == len(BEFORE) + 1

    libraries.crawl.environment["LIBRARY_REPORTS_KEEP"] = "1"
    second = libraries.library("crawl", DOMAIN, "--scope", "files", "--mode", "full")
    (kept,) = archives(libraries)
    assert kept.name.startswith(path.name[:10])
    assert kept.stem.endswith("DOMAIN01_files_full")
    listed = json.loads(libraries.crawl.run("library", "reports", "--format", "json").out)
    assert [each["reportId"] for each in listed] == [second["report"]]
    assert listed[0]["size"] == kept.stat().st_size
    assert second["report"] in libraries.crawl.run("library", "reports", DOMAIN).out
    assert "no report of OTHER" in libraries.crawl.run("library", "reports", "OTHER").out


def test_maps_of_another_program_are_adopted(rest_stage: LibraryStage, crawl: Crawl):
    libraries, _ = rest_stage.begin(crawl)
    refused = libraries.library("adopt", DOMAIN, expect=3)["sources"][0]
    assert "already has its items" in refused["reason"]
    for path in crawl.data_dir.iterdir():
        if path.name != "library":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    (libraries.folder() / "02_embedded" / "readme.md").write_bytes(b"other bytes")
    libraries.server.log.clear()
    found = libraries.library("adopt", DOMAIN)["sources"][0]
    assert (found["adopted"], found["downloaded"], libraries.downloads()) == (2, 1, 1)
    assert libraries.disk() == BEFORE
    libraries.check_maps()
    shutil.rmtree(libraries.folder())
    for path in crawl.data_dir.iterdir():
        if path.name != "library":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert "is missing" in libraries.library("adopt", DOMAIN, expect=3)["sources"][0]["reason"]


def test_only_a_spreadsheet_gets_cells_with_a_prefix(rest_stage: LibraryStage, crawl: Crawl):
    libraries, _ = rest_stage.begin(crawl, lambda library: library.add("=1+1.txt", b"Sum."))
    libraries.download()
    before = libraries.facts(), (libraries.folder() / "files_map.csv").read_bytes()
    place = crawl.folder / "sheets"
    words = ("export", DOMAIN, "--spreadsheet", str(place))
    assert libraries.library(*words)["files"] == [
        f"{place}/{TOP}/files_map.csv", f"{place}/{TOP}/sharepoint_map.csv"
    ]  # fmt: skip
    text = (place / TOP / "files_map.csv").read_bytes()
    assert b",'=1+1.txt,txt," in text
    assert text.replace(b"'=", b"=") == before[1]
    assert (libraries.facts(), (libraries.folder() / "files_map.csv").read_bytes()) == before
    assert "--spreadsheet FOLDER" in crawl.run("library", "export", DOMAIN, expect=1).err
    inside = ("library", "export", DOMAIN, "--spreadsheet", str(libraries.storage / "crawler"))
    assert "are read back" in crawl.run(*inside, expect=1).err
    with (libraries.folder() / "files_map.csv").open("ab") as file:
        file.write(b'"cut')
    assert "files_map.csv is damaged" in crawl.run("library", *words, expect=1).err


def test_cleanup_says_why_nothing_was_removed(rest_stage: LibraryStage, crawl: Crawl):
    libraries, _ = rest_stage.begin(crawl)
    assert "nothing was removed" in crawl.run("library", "cleanup", DOMAIN, expect=1).err
    columns = b"openai_file_id,sharepoint_unique_file_id\r\n"
    (libraries.folder() / "vectorstore_map.csv").write_bytes(columns)
    assert "has no vector_store_id" in crawl.run("library", "cleanup", DOMAIN, expect=1).err
    assert "no domain 'OTHER'" in crawl.run("library", "cleanup", "OTHER", expect=1).err


@pytest.mark.alone
@pytest.mark.covers("R3-20", "R3-23")
@pytest.mark.parametrize(("fate", "archives_then"), [("within", 0), ("before", 0), ("after", 1)])
def test_a_crawl_that_is_killed_at_its_archive_leaves_a_whole_one_or_none(
    rest_stage: LibraryStage, crawl: Crawl, fate: str, archives_then: int
):
    libraries, _ = rest_stage.begin(crawl)
    crawl.environment |= {"ARRANGED_BY": "tests.crawls.killed_archive", "DIES_AT": fate}
    crawl.run("library", "crawl", DOMAIN, expect=-9)
    for name in ("ARRANGED_BY", "DIES_AT"):
        del crawl.environment[name]
    whole = [path for path in archives(libraries) if path.suffix == ".zip"]
    assert len(whole) == archives_then
    assert len(json.loads(crawl.run("library", "reports", "--format", "json").out)) == archives_then

    libraries.library("crawl", DOMAIN)

    found = archives(libraries)
    assert len(found) == archives_then + 1
    for path in found:
        assert archived(path)["complete"] is True
        with ZipFile(path) as archive:
            assert archive.testzip() is None

"""Libraries in unusual states: odd names, long paths, withheld removals, lost registries, links."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.library_cases import LONG_NAME, LONG_PATH
from tests.crawls.library_stage import (
    BEFORE,
    Q1,
    LibraryStage,
    LibraryStages,
    library_stages,
    staged,
)
from tests.servers.sharepoint import SharepointServer
from tests.servers.sharepoint.graph_items import item_id

pytestmark = pytest.mark.long(but=1)

__all__ = ["library_stages"]  # a fixture

_ROOT = "/sites/demo/Shared Documents"
#: Paths in a library that no path on disk may follow (item 6), and what the map says of them.
ODD = {
    "../up.txt": "a part of its path is '..'",
    "a/../../b.txt": "a part of its path is '..'",
    "./here.txt": "a part of its path is '.'",
    "/etc/passwd.txt": "a part of its path is empty",
    "nul\0name.txt": "its path has a NUL character",
    "C:\\windows\\a.txt": "its path has a backslash",
}


@pytest.fixture(params=["rest", "graph"])
def stage(library_stages: LibraryStages, request: pytest.FixtureRequest) -> LibraryStage:
    """The three files of BEFORE, by each API."""
    return library_stages.of(request.param, "sqlite")


@pytest.fixture
def rest_stage(library_stages: LibraryStages) -> LibraryStage:
    """The three files of BEFORE, by REST, which alone counts the items of a library."""
    return library_stages.of("rest", "sqlite")


def test_names_that_lead_elsewhere_get_a_row_and_no_file(crawl: Crawl, stage: LibraryStage) -> None:
    libraries, library = stage.begin(crawl)
    outside = {path for path in crawl.folder.rglob("*") if libraries.folder() not in path.parents}
    for path in ODD:
        library.add(path, b"words")
    library.add("fine.txt", b"Fine.")

    found = libraries.download(expect=3)

    assert libraries.disk() == BEFORE | {"fine.txt": b"Fine."}, found["log"]
    now = {path for path in crawl.folder.rglob("*") if libraries.folder() not in path.parents}
    assert [path for path in now - outside if path.suffix == ".txt"] == []
    rows = libraries.rows("files_map.csv")
    errors = {url.removeprefix(f"{_ROOT}/"): row["sharepoint_error"] for url, row in rows.items()}
    assert {path: errors[path] for path in ODD} == ODD
    assert {rows[f"{_ROOT}/{path}"]["file_relative_path"] for path in ODD} == {""}
    assert found["failed"] == len(ODD)
    assert f"Integrity check passed: {len(BEFORE) + 1} files verified" in found["log"]


def test_what_the_system_cannot_name_is_noted_beside(crawl: Crawl, stage: LibraryStage) -> None:
    libraries, library = stage.begin(crawl)
    entries = {path: library.add(path, b"Long.") for path in (LONG_NAME, LONG_PATH)}

    found = libraries.download(expect=None)

    assert libraries.disk() == BEFORE, found["log"]
    notes = libraries.disk(top="03_failed")
    rows = libraries.rows("files_map.csv")
    listed = libraries.rows("sharepoint_map.csv")
    for path, why in ((LONG_NAME, "256 bytes"), (LONG_PATH, "the system takes 4,095")):
        row, name = rows[f"{_ROOT}/{path}"], f"{entries[path].unique_id}.txt"
        assert row["file_relative_path"] == f"DOMAIN01\\01_files\\source01\\03_failed\\{name}"
        assert why in row["sharepoint_error"]
        assert why in found["log"]
        url, reason = notes[name].decode().splitlines()
        assert url == listed[f"{_ROOT}/{path}"]["url"]
        assert reason == row["sharepoint_error"]
    assert len(notes) == 2
    facts = libraries.facts()
    again = libraries.download(expect=None)
    assert (libraries.downloads(), again["added"], again["changed"]) == (0, 0, 0)
    assert libraries.facts() == facts
    library.rename(LONG_NAME, "short.txt")
    library.delete(LONG_PATH)
    libraries.download()
    assert libraries.disk() == BEFORE | {"short.txt": b"Long."}
    assert libraries.disk(top="03_failed") == {}


def test_a_name_that_is_too_long_counts_once(crawl: Crawl, stage: LibraryStage) -> None:
    """A new one is added once, a renamed one changed once; no mode counts it again."""
    libraries, library = stage.begin(crawl)
    library.add(LONG_NAME, b"Long whale.")
    library.rename("Reports/Q1.txt", f"{'q' * 252}.txt")
    renamed = f"{_ROOT}/Reports/{'q' * 252}.txt"
    keys = ("added", "changed", "failed", "removed", "unchanged", "downloaded")

    first = libraries.download()

    assert [first[key] for key in keys] == [1, 1, 0, 0, 2, 0], first["log"]
    assert libraries.disk().keys() == BEFORE.keys() - {"Reports/Q1.txt"}
    notes, rows = libraries.disk(top="03_failed"), libraries.rows("files_map.csv")
    assert len(notes) == 2
    for words in ((), ("--mode", "full"), ()):
        found = libraries.download(*words)
        downloads = 2 if words else 0
        assert [found[key] for key in keys] == [0, 0, 0, 0, 4, downloads], words
        assert libraries.disk(top="03_failed") == notes
        after = libraries.rows("files_map.csv")
        for url in (f"{_ROOT}/{LONG_NAME}", renamed):
            assert "256 bytes" in after[url]["sharepoint_error"]
            assert after[url]["file_relative_path"] == rows[url]["file_relative_path"]
    for note in notes.values():  # its words are no text of a page
        for word in ("bytes", "system", "takes"):
            assert word in note.decode()
            assert crawl.hits(word) == []
    assert crawl.hits("warm") == []


def test_a_file_that_grows_too_large_keeps_its_former_text(
    crawl: Crawl, stage: LibraryStage
) -> None:
    libraries, library = stage.begin(crawl)
    library.update("Reports/Q1.txt", b"stormy " * 100)
    crawl.environment["DOWNLOAD_MAXSIZE"] = "500"

    for _ in range(2):
        found = libraries.download(expect=3)
        assert (found["failed"], found["unchanged"], found["removed"]) == (1, 2, 0), found["log"]
        assert libraries.downloads() == 0
        assert libraries.disk() == BEFORE
        assert libraries.hits("warm") == [f"{_ROOT}/Reports/Q1.txt"]
    error = libraries.rows("files_map.csv")[f"{_ROOT}/Reports/Q1.txt"]["sharepoint_error"]
    assert error.endswith("its 700 bytes exceed DOWNLOAD_MAXSIZE; raise it")

    crawl.environment["DOWNLOAD_MAXSIZE"] = "800"
    assert libraries.download()["downloaded"] == 1
    assert libraries.hits("stormy") == [f"{_ROOT}/Reports/Q1.txt"]


@pytest.mark.covers("R3-54", "R3-75")
def test_a_missing_file_that_cannot_be_had_has_no_path(crawl: Crawl, stage: LibraryStage) -> None:
    """The map names no file that is not there; the next crawl brings it."""
    libraries, _ = stage.begin(crawl)
    url = f"{_ROOT}/Reports/Q1.txt"
    before = libraries.rows("files_map.csv")
    (libraries.folder() / "02_embedded" / "Reports" / "Q1.txt").unlink()
    libraries.server.fail(404, "GetFileById|/content")

    found = libraries.download(expect=3)

    row = libraries.rows("files_map.csv")[url]
    assert (row["file_relative_path"], row["downloaded_utc"]) == ("", "")
    assert row["sharepoint_error"] != ""
    same = ("sharepoint_unique_file_id", "filename", "file_size", "last_modified_utc")
    assert [row[key] for key in same] == [before[url][key] for key in same]
    assert found["failed"] == 1
    libraries.server.faults.clear()

    libraries.download()

    assert libraries.downloads() == 1
    assert libraries.disk() == BEFORE
    libraries.check_maps()


def test_items_that_need_no_request_wait_for_no_host(crawl: Crawl, stage: LibraryStage) -> None:
    """Else each file of a renamed folder would wait as long as one that is downloaded."""
    libraries, library = stage.begin(crawl)
    noted = crawl.folder / "latencies"
    crawl.environment |= {
        "ARRANGED_BY": "tests.crawls.noted_latencies", "LATENCIES": str(noted),
        "AUTOTHROTTLE_ENABLED": "1", "AUTOTHROTTLE_START_DELAY": "0",
    }  # fmt: skip
    library.rename("Reports", "Old")
    libraries.download()
    renamed = [float(line) for line in noted.read_text("utf-8").splitlines()]
    noted.unlink()
    library.add("new.txt", b"New.")

    libraries.download()

    downloaded = [float(line) for line in noted.read_text("utf-8").splitlines()]
    assert renamed.count(0.0) == 2  # the others are answers of the API
    assert 0.0 not in downloaded
    assert downloaded


@pytest.mark.parametrize("api", ["rest", "graph"])
def test_withheld_removals_stay_until_they_are_approved(
    api: str,
    tmp_path_factory: pytest.TempPathFactory,
    ask: Any,
    sharepoint: SharepointServer,
    crawl: Crawl,
) -> None:
    files = {f"many/{number:02}.txt": f"whale {number}".encode() for number in range(30)}
    stage = staged(files, tmp_path_factory.mktemp("many"), ask, sharepoint, api)
    libraries, library = stage.begin(crawl)
    before = libraries.facts()
    for path in list(files)[:12]:
        library.delete(path)

    found = libraries.download(expect=3)

    assert (found["withheld"], found["removed"]) == (12, 0), found["log"]
    assert libraries.facts() == before
    assert len(libraries.rows("files_map.csv")) == 30
    assert len(libraries.rows("sharepoint_map.csv")) == 18
    assert len(libraries.crawl.hits("whale")) == 30
    again = libraries.download(expect=3)
    assert (again["withheld"], again["removed"], libraries.downloads()) == (12, 0, 0)
    assert libraries.facts() == before
    run = str(crawl.runs()[0]["run"])
    crawl.run("orphans", "--approve", run, "--max", "12")
    assert len(libraries.crawl.hits("whale")) == 18
    third = libraries.download()
    assert (third["removed"], libraries.downloads()) == (12, 0)
    left = dict(list(files.items())[12:])
    assert libraries.disk() == left
    libraries.check_maps()


def test_an_empty_registry_adopts_the_files_of_a_valid_map(
    crawl: Crawl, stage: LibraryStage
) -> None:
    libraries, library = stage.begin(crawl)
    facts, rows = libraries.facts(), libraries.rows("files_map.csv")
    for file in crawl.data_dir.glob("registry.db*"):
        file.unlink()

    found = libraries.download()

    assert libraries.downloads() == 0, found["log"]
    assert libraries.facts() == facts
    assert libraries.rows("files_map.csv") == rows
    assert crawl.hits("warm") == ["/sites/demo/Shared%20Documents/Reports/Q1.txt"]
    library.delete("readme.md")
    assert libraries.download()["removed"] == 1
    assert "readme.md" not in libraries.disk()


def test_an_empty_registry_adopts_no_file_that_does_not_fit(
    crawl: Crawl, stage: LibraryStage
) -> None:
    libraries, library = stage.begin(crawl)
    for file in crawl.data_dir.glob("registry.db*"):
        file.unlink()
    (libraries.folder() / "02_embedded" / "Reports" / "Q1.txt").write_bytes(Q1[::-1])
    library.update("Reports/Q2.txt", b"Stormy.")
    library.rename("readme.md", "read.md")

    found = libraries.download()

    assert libraries.downloads() == 3, found["log"]
    after = {"Reports/Q1.txt": Q1, "Reports/Q2.txt": b"Stormy.", "read.md": BEFORE["readme.md"]}
    assert libraries.disk() == after
    libraries.check_maps()


@pytest.mark.parametrize("has_map", [True, False])
def test_a_library_that_is_away_takes_no_file_of_an_empty_registry(
    crawl: Crawl, stage: LibraryStage, has_map: bool
) -> None:
    """No row is no reason to delete (ADR 83)."""
    libraries, library = stage.begin(crawl)
    for file in crawl.data_dir.glob("registry.db*"):
        file.unlink()
    if not has_map:
        (libraries.folder() / "files_map.csv").unlink()
    library.site.allowed = False

    libraries.download(expect=3)

    assert libraries.disk() == BEFORE
    library.site.allowed = True
    libraries.download()
    assert libraries.disk() == BEFORE
    libraries.check_maps()


@pytest.mark.parametrize("where", ["02_embedded/Reports", "02_embedded", ".incoming"])
def test_no_file_is_written_or_removed_through_a_link(
    where: str, crawl: Crawl, stage: LibraryStage
) -> None:
    libraries, library = stage.begin(crawl)
    outside = crawl.folder / "outside"
    outside.mkdir()
    (outside / "Q1.txt").write_bytes(b"secret")
    place = libraries.folder() / where
    if place.is_dir():
        place.rename(crawl.folder / "was")
    place.symlink_to(outside)
    library.add("Reports/new.txt", b"New.")

    found = libraries.download(expect=None)

    assert [path.name for path in outside.iterdir()] == ["Q1.txt"], found["log"]
    assert (outside / "Q1.txt").read_bytes() == b"secret"
    if where == "02_embedded/Reports":
        assert libraries.disk() == BEFORE | {"Reports/new.txt": b"New."}
        libraries.check_maps()
        return
    assert (found["complete"], "Traceback" in found["log"]) == (False, False)
    assert str(place) in found["reason"]
    place.unlink()
    libraries.download()
    assert libraries.disk() == BEFORE | {"Reports/new.txt": b"New."}


@pytest.mark.covers("R3-138", "R3-139", "RD-13")
def test_a_correction_that_fails_stops_no_other(crawl: Crawl, stage: LibraryStage) -> None:
    libraries, library = stage.begin(crawl)
    top = libraries.folder() / "02_embedded"
    (top / "Reports" / "Q1.txt").unlink()
    (top / "Reports" / "Q2.txt").rename(top / "Q2.txt")
    (top / "extra.txt").write_bytes(b"extra")
    entry = library.find("Reports/Q1.txt")
    pattern = f"GetFileById\\('{entry.unique_id}'|/items/{item_id(entry)}/content"
    libraries.server.fail("404", pattern, times=None)

    found = libraries.download(expect=3)

    after = {path: body for path, body in BEFORE.items() if path != "Reports/Q1.txt"}
    assert libraries.disk() == after, found["log"]
    counts = {"missingInMap": 0, "missingOnDisk": 1, "orphans": 1, "moved": 1, "verified": 2}
    assert found["integrity"] == counts
    assert "Integrity check corrected: 1 missing, 1 orphans deleted, 1 moved" in found["log"]
    rows = libraries.rows("files_map.csv")
    assert "404" in rows[f"{_ROOT}/Reports/Q1.txt"]["sharepoint_error"]
    assert rows[f"{_ROOT}/Reports/Q2.txt"]["sharepoint_error"] == ""
    libraries.server.faults.clear()
    libraries.download()
    assert libraries.disk() == BEFORE
    libraries.check_maps()


@pytest.mark.covers("R3-118")
def test_a_source_that_is_held_is_left_alone(crawl: Crawl, stage: LibraryStage) -> None:
    """Two steps at one source are never at work together (D2, R3-118)."""
    libraries, library = stage.begin(crawl)
    library.update("Reports/Q1.txt", b"Warmer.")
    before = _bytes(libraries.folder())
    with crawl.held("DOMAIN01.source01"):
        found = libraries.download(expect=4)
        assert "DOMAIN01.source01" in found["reason"]
        assert _bytes(libraries.folder()) == before
    assert libraries.download()["changed"] == 1


def _bytes(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_first_count_of_unread_items_is_accepted(
    crawl: Crawl, rest_stage: LibraryStage
) -> None:
    libraries, library = rest_stage.begin(crawl)
    for file in crawl.data_dir.glob("registry.db*"):
        file.unlink()
    library.find("Reports/Q1.txt").trimmed = True

    first = libraries.download()

    assert first["complete"], first["log"]
    assert "counts 1 item more than it lists: the app may not read everything" in first["log"]
    library.delete("Reports/Q2.txt")
    second = libraries.download()
    assert (second["complete"], second["removed"]) == (True, 1)
    assert "may not read everything" not in second["log"]

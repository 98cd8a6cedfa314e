"""Whole crawls by Graph with stored delta tokens: few requests, and no change is lost.

Each change of a library by a run that has a token is in test_library_story.py, kills are in
test_library_kill.py, random histories in test_library_histories.py.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest

from tests.crawls.commands import Crawl, path_of
from tests.crawls.libraries import DOMAIN, LibraryCrawl
from tests.servers.sharepoint import Library, SharepointServer
from tests.servers.sharepoint.graph_items import item_id

pytestmark = pytest.mark.long(but=2)

_DELTA = "root/delta"
_TEXTS = "SELECT r.url, k.text FROM chunk k JOIN record r ON r.content = k.content"
_TOKEN = "SELECT delta FROM library_drive"
FILES = {
    f"{folder}/{number}.txt": f"whale {folder} {number}".encode()
    for folder in ("guide", "notes", "notes/old") for number in range(3)
}  # fmt: skip


@pytest.fixture
def libraries(crawl: Crawl, sharepoint: SharepointServer) -> LibraryCrawl:
    return LibraryCrawl(crawl, sharepoint, api="graph")


@pytest.fixture
def library(libraries: LibraryCrawl) -> Library:
    site = libraries.server.tenant.site("/sites/demo")
    library = site.library("Documents", "Shared Documents")
    for path, content in FILES.items():
        library.add(path, content)
    library.add("notes/picture.png", b"\x89PNG")
    libraries.declare(site, "file_sources", sharepoint_url_part="/Shared Documents")
    return library


def has_token(libraries: LibraryCrawl) -> bool:
    """Whether the last download asked for the changes since a token, and for nothing more."""
    asked = [each.target for each in libraries.server.asked(pattern=_DELTA)]
    return bool(asked) and all("token=" in target for target in asked)


def check(libraries: LibraryCrawl, library: Library) -> None:
    """Disk, maps and index are as the library."""
    files = library.files()
    shown = {path: file.content for path, file in files.items() if path.endswith(".txt")}
    assert libraries.disk() == shown
    libraries.check_maps()
    listed = {
        url.partition("/Shared Documents/")[2] for url in libraries.rows("sharepoint_map.csv")
    }
    assert listed == set(files)
    texts = {unquote(path_of(url)): text for url, text in libraries.crawl.rows(_TEXTS)}
    assert texts == {f"{library.path}/{path}": body.decode() for path, body in shown.items()}


def counts(found: dict[str, Any]) -> dict[str, int]:
    names = ("added", "changed", "removed", "downloaded", "failed", "withheld")
    return {name: found[name] for name in names if found[name]}


def test_an_unchanged_library_costs_four_requests(
    libraries: LibraryCrawl, library: Library
) -> None:
    first = libraries.download()
    assert (first["listed"], first["skipped"]) == (9, 1)
    assert not has_token(libraries)
    before = (libraries.folder() / "sharepoint_map.csv").read_bytes()

    second = libraries.download()

    assert len(libraries.server.asked()) == second["requests"] <= 4
    assert has_token(libraries)
    assert (second["listed"], second["unchanged"], second["skipped"]) == (9, 9, 1)
    assert counts(second) == {}
    assert second["complete"]
    assert (libraries.folder() / "sharepoint_map.csv").read_bytes() == before
    assert "Integrity check passed: 9 files verified" in second["log"]


def test_changes_over_several_tokens_add_up(libraries: LibraryCrawl, library: Library) -> None:
    libraries.server.tenant.delta_twice = True
    libraries.download()

    library.rename("notes", "remarks")
    library.update("guide/0.txt", "a shark")
    library.delete("guide/1.txt")
    found = libraries.download()
    assert has_token(libraries)
    assert counts(found) == {"changed": 7, "removed": 1, "downloaded": 1}
    check(libraries, library)

    library.relocate("remarks/old", "guide/older")
    library.rename("guide", "manual")
    library.add("manual/older/new.txt", "fresh treasure")
    library.swap("remarks/0.txt", "remarks/1.txt")
    found = libraries.download()
    assert has_token(libraries)
    assert counts(found) == {"added": 1, "changed": 7, "downloaded": 1}
    check(libraries, library)

    library.restore("manual/1.txt")
    library.replace("remarks/2.txt", "another shark")
    found = libraries.download()
    assert has_token(libraries)
    assert counts(found) == {"added": 2, "removed": 1, "downloaded": 2}
    check(libraries, library)

    last = libraries.download()
    assert (counts(last), last["requests"]) == ({}, 4)


@pytest.mark.parametrize("files", [200, pytest.param(1_000, marks=pytest.mark.long)])
def test_a_renamed_folder_of_many_files_downloads_none(
    libraries: LibraryCrawl, library: Library, files: int
) -> None:
    for number in range(files):
        library.add(f"many/{number // 100}/{number}.txt", f"whale {number}")
    libraries.download()
    library.rename("many", "few")

    found = libraries.download()

    assert libraries.downloads() == 0
    assert len(libraries.server.asked()) <= 4
    assert counts(found) == {"changed": files}
    assert (found["listed"], found["unchanged"]) == (files + 9, 9)
    check(libraries, library)


def test_a_file_that_could_not_be_had_is_asked_for_again_unnamed(
    libraries: LibraryCrawl, library: Library
) -> None:
    """Its change is named by one delta, and the token after it is stored."""
    libraries.download()
    entry = library.update("guide/0.txt", "a shark")
    libraries.server.fail("423", f"/items/{item_id(entry)}/content", times=None)
    found = libraries.download(expect=3)
    assert found["failed"] == 1
    libraries.server.faults.clear()

    found = libraries.download()

    assert has_token(libraries)
    assert counts(found) == {"changed": 1, "downloaded": 1}
    check(libraries, library)


def test_a_removal_that_is_withheld_needs_no_second_mention(
    libraries: LibraryCrawl, library: Library
) -> None:
    libraries.download()
    library.delete("notes")
    library.delete("guide/0.txt")
    for _ in range(2):
        found = libraries.download(expect=3)
        assert (found["removed"], found["withheld"]) == (0, 7)
        assert len(libraries.disk()) == len(libraries.rows("files_map.csv")) == 9
        assert len(libraries.rows("sharepoint_map.csv")) == 2
    assert has_token(libraries)

    libraries.crawl.run("orphans", "--approve", "3", "--max", "7")
    found = libraries.download()

    assert found["removed"] == 7
    check(libraries, library)


def test_a_forgotten_token_costs_a_whole_listing_and_no_change(
    libraries: LibraryCrawl, library: Library
) -> None:
    libraries.download()
    library.rename("notes/0.txt", "zero.txt")
    library.delete("guide/1.txt")
    libraries.server.tenant.forget_delta_tokens("resyncChangesUploadDifferences")
    library.add("new.txt", "fresh treasure")

    found = libraries.download()

    assert [each.status for each in libraries.server.asked(pattern=_DELTA)] == [410, 200]
    assert "has forgotten the last listing" in found["log"]
    assert counts(found) == {"added": 1, "changed": 1, "removed": 1, "downloaded": 1}
    check(libraries, library)
    found = libraries.download()
    assert has_token(libraries)
    assert counts(found) == {}


def test_the_full_mode_lists_all_and_stores_a_new_token(
    libraries: LibraryCrawl, library: Library
) -> None:
    libraries.download()
    (before,) = libraries.crawl.rows(_TOKEN)
    library.add("new.txt", "fresh treasure")

    found = libraries.download("--mode", "full")

    assert not has_token(libraries)
    assert found["downloaded"] == 10
    (after,) = libraries.crawl.rows(_TOKEN)
    assert after != before
    libraries.download()
    assert has_token(libraries)
    check(libraries, library)


def test_a_change_of_the_api_downloads_nothing(libraries: LibraryCrawl, library: Library) -> None:
    libraries.use("rest")
    libraries.download()
    for api in ("graph", "rest", "graph"):
        libraries.use(api)
        found = libraries.download()
        assert (counts(found), found["unchanged"]) == ({}, 9), api
        assert not has_token(libraries), "a token is of no use after a listing by another API"
        check(libraries, library)
    libraries.download()
    assert has_token(libraries)


def test_a_filter_ends_the_use_of_a_token(libraries: LibraryCrawl, library: Library) -> None:
    libraries.download()
    declaration = libraries.storage / "domains" / DOMAIN / "domain.json"
    plain = declaration.read_text()
    library.column("Status", "Choice", choices=("Active", "Done"), indexed=True)
    library.find("guide/0.txt").values["Status"] = "Done"  # a listing without any item is not whole
    declaration.write_text(plain.replace('"filter": ""', '"filter": "fields/Status eq \'Done\'"'))
    libraries.download("--retry-batches", "1", expect=None)
    assert libraries.server.asked(pattern=_DELTA) == []
    declaration.write_text(plain)
    library.add("new.txt", "fresh treasure")

    found = libraries.download()

    assert not has_token(libraries)
    assert (found["listed"], found["added"]) == (10, 1)
    check(libraries, library)


def test_a_token_of_another_library_is_dropped(libraries: LibraryCrawl, library: Library) -> None:
    libraries.download()
    other = library.site.library("Other", "Other Documents")
    for path in ("guide/0.txt", "guide/1.txt", "guide/2.txt"):
        other.add(path, "a shark")
    declaration = libraries.storage / "domains" / DOMAIN / "domain.json"
    declaration.write_text(declaration.read_text().replace("/Shared Doc", "/Other Doc"))

    found = libraries.download(expect=None)

    assert not has_token(libraries)
    assert (found["listed"], found["added"]) == (3, 3)


def test_counts_that_rest_accepted_stay_accepted(libraries: LibraryCrawl, library: Library) -> None:
    """Graph counts nothing, so it changes nothing about what may be lacking."""
    library.never_checked_in("draft.txt", "a draft")
    libraries.use("rest")
    assert libraries.download()["complete"]
    libraries.use("graph")
    libraries.download()
    libraries.use("rest")

    found = libraries.download()

    assert found["complete"], found["reasons"]
    library.never_checked_in("draft 2.txt", "a draft")
    found = libraries.download()
    assert "trimmed" in " ".join(found["reasons"])


def test_an_incomplete_listing_stores_no_token(libraries: LibraryCrawl, library: Library) -> None:
    libraries.download()
    (before,) = libraries.crawl.rows(_TOKEN)
    library.update("guide/0.txt", "a shark")
    library.delete("guide/1.txt")
    libraries.server.fail("broken", _DELTA, item=1, times=None)
    found = libraries.download("--retry-batches", "1", expect=3)
    assert (found["complete"], found["removed"]) == (False, 0)
    assert libraries.crawl.rows(_TOKEN) == [before]
    libraries.server.faults.clear()

    found = libraries.download()

    assert has_token(libraries)
    assert found["removed"] == 1
    check(libraries, library)

"""Whole crawls of a library to the end of its vector store (R3-80 to R3-116)."""

import csv
import io
import json
import os
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.libraries import DOMAIN, SOURCE, LibraryCrawl, keys_of_source
from tests.crawls.library_stage import BEFORE, Q1, LibraryStage, rest_stage
from tests.index.vectorstore.store_server import Asked, MakingStores, making_stores_server
from tests.lab.test_library_story import CASES, Case
from tests.openai_server import Reply, error
from tests.servers.sharepoint import Library

pytestmark = pytest.mark.long(but=1)

__all__ = ["rest_stage"]  # a fixture

KEYS = {
    "uploaded", "attached", "detached", "left", "completed", "embedFailed", "skipped",
    "adopted", "inProgress", "vectorStoreId",
}  # fmt: skip
COLUMNS = [
    "openai_file_id", "vector_store_id", "file_relative_path", "sharepoint_listitem_id",
    "sharepoint_unique_file_id", "filename", "file_type", "file_size", "last_modified_utc",
    "last_modified_timestamp", "downloaded_utc", "downloaded_timestamp", "uploaded_utc",
    "uploaded_timestamp", "embedded_utc", "embedded_timestamp", "sharepoint_error",
    "processing_error", "embedding_error",
]  # fmt: skip


class Place:
    """A library that was downloaded, and a server of vector stores."""

    def __init__(self, libraries: LibraryCrawl, library: Library, server: MakingStores) -> None:
        self.libraries, self.library, self.server = libraries, library, server
        self.libraries.crawl.environment |= server.settings
        self.theirs: set[str] = set()

    def embed(self, *words: str, expect: int | None = 0) -> dict[str, Any]:
        """Embed; return what the JSON says of the only source, and the log."""
        self.server.asked.clear()
        found = self.libraries.library("embed", DOMAIN, *words, expect=expect)
        (source,) = found["sources"]
        return {**source, "log": found["result"].err}

    def add_others(self) -> None:
        """Let other programs, and another source, have files in the store."""
        (store,) = self.server.stores
        other = {"smartcrawl_domain": DOMAIN, "smartcrawl_source": "elsewhere"}
        self.theirs = {
            self.server.put("theirs", store=store),
            self.server.put("loose", store=None),
            self.server.put("other", store=store, **other, smartcrawl_item="1"),
            self.server.put("page", store=store, smartcrawl_source=SOURCE),
        }

    def domain(self) -> Path:
        return self.libraries.storage / "domains" / DOMAIN / "domain.json"

    def map_rows(self) -> list[dict[str, str]]:
        text = (self.libraries.folder() / "vectorstore_map.csv").read_bytes().decode()
        reader = csv.DictReader(io.StringIO(text, newline=""))
        rows = list(reader)
        assert reader.fieldnames == COLUMNS
        return rows

    def check(self, files: dict[str, bytes]) -> None:
        """Store, library and map agree; nothing is there twice, nothing of others was touched."""
        (store,) = self.server.stores
        assert self.theirs <= self.server.uploads.keys()
        rows = self.libraries.rows("files_map.csv").values()
        root = f"{DOMAIN}\\01_files\\{SOURCE}\\02_embedded\\"
        expected = sorted(
            (row["sharepoint_unique_file_id"], sha256(body).hexdigest())
            for path, body in files.items()
            for row in rows
            if row["file_relative_path"] == root + path.replace("/", "\\")
        )
        assert len(expected) == len(files)
        ours = {
            id_: entry for id_, entry in self.server.stores[store].items() if id_ not in self.theirs
        }
        assert {entry["status"] for entry in ours.values()} <= {"completed"}
        found = sorted(
            (entry["attributes"]["smartcrawl_item"], entry["attributes"]["smartcrawl_hash"])
            for entry in ours.values()
        )
        assert found == expected
        assert ours.keys() <= self.server.uploads.keys()
        for id_ in self.server.uploads.keys() - self.theirs - ours.keys():
            assert id_ in self.server.detached, "an upload that left no store"
        assert self.server.deleted <= self.server.failures, "the account lost a file"
        mapped = self.map_rows()
        assert {row["openai_file_id"]: row["sharepoint_unique_file_id"] for row in mapped} == {
            id_: entry["attributes"]["smartcrawl_item"] for id_, entry in ours.items()
        }
        by_id = {row["sharepoint_unique_file_id"]: row for row in rows}
        for row in mapped:
            same = by_id[row["sharepoint_unique_file_id"]]
            assert {key: row[key] for key in same if key in row} == {
                key: value for key, value in same.items() if key in row
            }
            assert row["vector_store_id"] == store
            stem = self.server.uploads[row["openai_file_id"]]["filename"]
            assert stem.startswith(row["filename"].rpartition(".")[0] + "-")
            assert row["uploaded_timestamp"] == str(self.server.clock)
            assert row["embedded_utc"].endswith(".000000Z")
            assert row["embedding_error"] == ""


@pytest.fixture
def server() -> Iterator[MakingStores]:
    with making_stores_server() as server:
        yield server


@pytest.fixture
def begin(crawl: Crawl, rest_stage: LibraryStage, server: MakingStores) -> Callable[[], Place]:
    def begin() -> Place:
        libraries, library = rest_stage.begin(crawl)
        return Place(libraries, library, server)

    return begin


@pytest.mark.covers("R3-30", "R3-52", "R3-53", "R3-54", "R3-55", "R3-83")
def test_a_first_embed_makes_the_store_and_a_second_reads_its_list(begin: Callable[[], Place]):
    place = begin()
    text = (
        place.domain()
        .read_text("utf-8")
        .replace(
            '"description"', '"other": {"b": 1.50, "a": [ ]}, "vector_store_id" : "", "description"'
        )
    )
    place.domain().write_text(text, encoding="utf-8")

    first = place.embed()

    assert (first["uploaded"], first["attached"], first["completed"]) == (3, 3, 3), first["log"]
    assert first.keys() - {"log"} == (keys_of_source() | KEYS) - {"log"}
    assert list(place.server.made) == ["vs_1"] == [first["vectorStoreId"]]
    assert place.server.made["vs_1"]["name"] == DOMAIN
    assert f"Created vector store '{DOMAIN}' (ID=vs_1)" in first["log"]
    assert place.domain().read_text("utf-8") == text.replace(
        '"vector_store_id" : ""', '"vector_store_id" : "vs_1"'
    )
    place.add_others()
    place.check(BEFORE)
    second = place.embed()
    assert (second["uploaded"], second["unchanged"]) == (0, 3)
    assert set(place.server.acts) == {"list", "uploads"}
    place.check(BEFORE)


@pytest.mark.covers("M-16", "R3-83")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_change_reaches_the_store(case: Case, begin: Callable[[], Place]):
    place = begin()
    place.embed()
    place.add_others()
    before = {row["openai_file_id"] for row in place.map_rows()}
    case.change(place.library)
    place.libraries.download()
    seen: list[set[str]] = []
    place.server.after = lambda asked: seen.append(_items(place.server))

    found = place.embed()

    assert found["embedFailed"] == 0
    place.check(case.after)
    after = {row["openai_file_id"] for row in place.map_rows()}
    assert len(after - before) == case.added + case.changed
    assert len(before - after) == case.changed + case.removed
    lasting = _items(place.server)
    assert all(lasting & seen[0] <= each for each in seen), "a former version left too early"
    place.embed()
    assert {"upload", "attach", "detach", "delete"}.isdisjoint(place.server.acts)


@pytest.mark.covers("R3-97", "R3-147")
def test_a_restored_file_is_given_again_with_the_properties_that_it_had(
    begin: Callable[[], Place],
):
    place = begin()
    place.embed()
    place.add_others()
    metadata = place.domain().with_name("files_metadata.json")
    entries = json.loads(metadata.read_text("utf-8"))
    (first,) = [entry for entry in entries if entry["filename"] == "Q1.txt"]
    first["tags"] = {"deep": ["kept"]}
    metadata.write_text(json.dumps(entries), encoding="utf-8")
    place.library.delete("Reports/Q1.txt")
    place.libraries.download()
    assert place.embed()["detached"] == 1
    place.check({path: body for path, body in BEFORE.items() if body != Q1})
    place.library.restore("Reports/Q1.txt")
    place.libraries.download()

    found = place.embed()

    assert (found["uploaded"], found["detached"]) == (1, 0)
    place.check(BEFORE)
    of_file = [
        entry for entry in json.loads(metadata.read_text("utf-8")) if entry["filename"] == "Q1.txt"
    ]
    assert [entry["tags"] for entry in of_file] == [{"deep": ["kept"]}] * 2
    assert len({entry["openai_file_id"] for entry in of_file}) == 2


def _items(server: MakingStores) -> set[str]:
    return {
        entry["attributes"].get("smartcrawl_item", "")
        for entry in server.stores["vs_1"].values()
        if entry["status"] == "completed"
    }


@pytest.mark.covers("R3-111", "R3-115")
def test_files_that_others_removed_are_given_again(begin: Callable[[], Place]):
    """C1 and C5; one of them is still listed in the store."""
    place = begin()
    place.embed()
    gone, deleted, listed = place.server.stores["vs_1"]
    del place.server.stores["vs_1"][gone]
    del place.server.stores["vs_1"][deleted]
    del place.server.uploads[deleted]
    del place.server.uploads[listed]
    place.server.detached |= {gone}
    found = place.embed()
    assert (found["uploaded"], found["detached"], found["left"]) == (3, 1, 1)
    assert listed not in place.server.stores["vs_1"]
    place.check(BEFORE)
    assert place.embed()["uploaded"] == 0


@pytest.mark.covers("R3-115")
def test_a_list_of_the_account_that_lacks_a_file_is_no_proof(begin: Callable[[], Place]):
    place = begin()
    place.embed()
    cut = {"object": "list", "data": [], "has_more": False}
    place.server.answer = lambda asked: Reply(cut) if asked.act == "uploads" else None
    found = place.embed()
    assert (found["uploaded"], found["detached"], found["unchanged"]) == (0, 0, 3)
    assert place.server.acts.count("find") == 3


@pytest.mark.covers("R3-82", "R3-86", "R3-113")
def test_a_file_that_cannot_be_embedded_fails_once(begin: Callable[[], Place]):
    """C3: it is tried again when it changes, or with mode=full."""
    place = begin()
    place.embed()
    place.server.fails = lambda text: "it has no text" if "Bad" in text else ""
    place.library.update("Reports/Q1.txt", "Bad.")
    place.libraries.download()

    found = place.embed(expect=3)

    assert (found["embedFailed"], found["detached"]) == (1, 2), found["log"]
    assert "its old version was removed as well" in json.dumps(found["reasons"])
    for line in (*found["reasons"], "Q1.txt is moved to 03_failed/Reports/Q1.txt"):
        assert line in found["log"]
    assert "Documents/Reports/Q1.txt (file-" in found["log"]
    assert (place.libraries.folder() / "03_failed/Reports/Q1.txt").read_bytes() == b"Bad."
    assert not (place.libraries.folder() / "02_embedded/Reports/Q1.txt").exists()
    rows = {row["filename"]: row for row in place.map_rows()}
    failed = rows["Q1.txt"]
    assert (
        failed["file_relative_path"] == f"{DOMAIN}\\01_files\\{SOURCE}\\03_failed\\Reports\\Q1.txt"
    )
    assert "it has no text" in failed["embedding_error"]
    assert failed["openai_file_id"] == failed["vector_store_id"] == failed["embedded_utc"] == ""
    assert failed["uploaded_timestamp"] == ""
    second = place.embed(expect=3)  # it is owed until it changes
    assert (second["uploaded"], second["embedFailed"], second["complete"]) == (0, 0, False)
    (reason,) = second["reasons"]
    assert reason.startswith("/sites/demo/Shared Documents/Reports/Q1.txt: ")
    assert "with --mode full" in reason
    assert reason in second["log"]
    again = place.libraries.download()
    assert (again["downloaded"], again["changed"]) == (0, 0), again["log"]
    assert (place.libraries.folder() / "03_failed/Reports/Q1.txt").exists()
    place.server.fails = lambda text: ""
    assert place.embed("--mode", "full")["completed"] == 3
    place.check(BEFORE | {"Reports/Q1.txt": b"Bad."})


@pytest.mark.covers("R3-80", "R3-114")
def test_a_store_that_is_gone_ends_the_embedding(begin: Callable[[], Place]):
    """C4: nothing is cleared, and no other store is made."""
    place = begin()
    place.embed()
    before = place.map_rows()
    kept = place.server.stores.pop("vs_1")
    found = place.embed(expect=3)
    assert "404" in json.dumps(found["reasons"])
    assert place.server.acts == ["list"]
    assert place.map_rows() == before
    place.server.stores["vs_1"] = kept
    assert place.embed()["unchanged"] == 3


@pytest.mark.covers("R3-116")
def test_a_store_that_cannot_be_made_skips_the_embedding(begin: Callable[[], Place]):
    """C6; the next embed makes it."""
    place = begin()
    place.server.answer = _refuses("make")
    found = place.embed(expect=3)
    assert "does not create the vector store" in found["reason"]
    assert "embedding is skipped" in found["log"]
    place.server.answer = lambda asked: None
    assert place.embed()["completed"] == 3
    assert list(place.server.made) == ["vs_1"]
    place.check(BEFORE)


def test_a_store_whose_id_was_not_written_is_found_again(begin: Callable[[], Place]):
    place = begin()
    folder = place.domain().parent
    place.server.after = lambda asked: folder.chmod(0o500) if asked.act == "make" else None
    try:
        place.embed(expect=None)
    finally:
        folder.chmod(0o700)
    place.server.after = lambda asked: None
    place.embed()
    assert list(place.server.made) == ["vs_1"]
    place.check(BEFORE)


@pytest.mark.covers("R3-121")
def test_limited_uploads_leave_the_former_version_but_removals_go(begin: Callable[[], Place]):
    """D5: the right to vanish comes first."""
    place = begin()
    place.embed()
    place.library.update("Reports/Q1.txt", "Warmer.")
    place.library.delete("readme.md")
    place.libraries.download()
    place.server.answer = _refuses("upload", 429)
    found = place.embed(expect=3)
    assert (found["uploaded"], found["detached"], found["embedFailed"]) == (0, 1, 0)
    assert len(place.server.stores["vs_1"]) == 2
    place.server.answer = lambda asked: None
    place.embed()
    place.check({"Reports/Q1.txt": b"Warmer.", "Reports/Q2.txt": BEFORE["Reports/Q2.txt"]})


def _refuses(act: str, status: int = 400) -> Callable[[Asked], Reply | None]:
    return lambda asked: error("no", status) if asked.act == act else None


@pytest.mark.covers("R3-85")
def test_files_in_progress_are_left_to_the_next_run(begin: Callable[[], Place]):
    place = begin()
    place.libraries.crawl.environment["VECTOR_STORE_WAIT_SECONDS"] = "0"
    place.server.looks = 1_000
    found = place.embed(expect=3)
    assert (found["inProgress"], found["embedFailed"]) == (3, 0)
    place.server.looks = 0
    for entry in place.server.stores["vs_1"].values():
        entry["left"] = 0
    second = place.embed()
    assert second["uploaded"] == 0
    place.check(BEFORE)


@pytest.mark.covers("R3-107")
def test_a_file_with_other_bytes_is_downloaded_again(begin: Callable[[], Place]):
    """B4: its size and its date are the same."""
    place = begin()
    file = place.libraries.folder() / "02_embedded/Reports/Q1.txt"
    modified = file.stat().st_mtime_ns
    file.write_bytes(b"x" * len(Q1))
    os.utime(file, ns=(modified, modified))
    found = place.embed(expect=3)
    assert (found["skipped"], found["uploaded"]) == (1, 2)
    assert place.libraries.download()["downloaded"] == 1
    assert place.embed()["uploaded"] == 1
    place.check(BEFORE)


@pytest.mark.covers("R3-84")
def test_a_full_embed_gives_every_file_beside_the_former(begin: Callable[[], Place]):
    place = begin()
    place.embed()
    place.add_others()
    before = set(place.server.stores["vs_1"]) - place.theirs
    seen: list[set[str]] = []
    place.server.after = lambda asked: seen.append(_items(place.server))
    found = place.embed("--mode", "full")
    assert (found["completed"], found["detached"]) == (3, 3)
    assert before.isdisjoint(place.server.stores["vs_1"])
    assert all(seen[0] <= each for each in seen)
    assert before <= place.server.uploads.keys()
    place.check(BEFORE)


@pytest.mark.covers("R3-84", "R3-86")
def test_a_second_store_keeps_its_files_until_a_cleanup_is_ordered(begin: Callable[[], Place]):
    """What no store has any more is listed, and deleted with --yes."""
    place = begin()
    place.embed()
    place.add_others()
    first, second, third = place.server.stores["vs_1"].keys() - place.theirs
    held = {id_: place.server.stores["vs_1"][id_] for id_ in (first, second)}
    place.server.stores["vs_other"] = place.server.made["vs_other"] = {"id": "vs_other"}
    place.server.stores["vs_other"] = dict(held)
    found = place.embed("--mode", "full")
    assert (found["detached"], found["left"]) == (3, 3)
    assert place.server.stores["vs_other"] == held
    assert {first, second, third} <= place.server.uploads.keys()
    assert "3 uploads stay in the account" in found["log"]
    assert "library cleanup --files" in found["log"]
    place.server.made["vs_1"], place.server.made["vs_other"] = [
        {"id": id_, "object": "vector_store", "name": "", "created_at": 0, "status": "completed"}
        for id_ in ("vs_1", "vs_other")
    ]
    crawl = place.libraries.crawl

    listed = json.loads(crawl.run("library", "cleanup", "--files", "--format", "json").out)

    assert [file["file"] for file in listed["files"]] == [third]
    assert (listed["listed"], listed["deleted"]) == (1, 0)
    assert third in place.server.uploads
    said = crawl.run("library", "cleanup", "--files").out
    assert third in said
    assert "cleanup --files --yes" in said
    place.server.answer = _refuses("list", 500)
    refused = crawl.run("library", "cleanup", "--files", "--yes", expect=1).err
    assert "nothing was deleted" in refused
    place.server.answer = lambda asked: None
    before = set(place.server.uploads)
    done = crawl.run("library", "cleanup", "--files", "--yes", "--format", "json")
    assert json.loads(done.out)["deleted"] == 1
    assert before - place.server.uploads.keys() == {third}
    again = json.loads(crawl.run("library", "cleanup", "--files", "--format", "json").out)
    assert again["listed"] == 0
    del place.server.stores["vs_other"], place.server.made["vs_other"]
    gone = json.loads(crawl.run("library", "cleanup", "--files", "--format", "json").out)
    assert {file["file"] for file in gone["files"]} == {first, second}


def test_files_of_cleanup_are_no_matter_of_a_domain(begin: Callable[[], Place]):
    crawl = begin().libraries.crawl
    for words in (("cleanup", DOMAIN, "--files"), ("cleanup", DOMAIN, "--yes"), ("cleanup",)):
        crawl.run("library", *words, expect=2)


def test_a_lost_map_is_written_again_and_a_lost_registry_adopts(begin: Callable[[], Place]):
    place = begin()
    place.embed()
    path = place.libraries.folder() / "vectorstore_map.csv"
    whole = path.read_bytes()
    for damage in (path.unlink, lambda: path.write_bytes(b"\xff")):
        damage()
        assert place.embed()["uploaded"] == 0
        assert path.read_bytes() == whole
    path.unlink()
    for file in place.libraries.crawl.data_dir.glob("registry.db*"):
        file.unlink()
    place.libraries.download()
    found = place.embed()
    assert (found["uploaded"], found["adopted"], found["detached"]) == (0, 3, 0)
    place.check(BEFORE)

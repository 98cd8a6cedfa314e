"""Lists, site pages and odd files to the end of the vector store, with both databases (R3.13)."""

import csv
import io
import json
import random
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.libraries import DOMAIN, LibraryCrawl
from tests.crawls.library_stage import BEFORE, LibraryStages, library_stages
from tests.crawls.test_library_embed import Place, server
from tests.index.vectorstore.store_server import Asked, MakingStores
from tests.openai_server import Reply
from tests.servers.sharepoint import SharepointServer, Text

pytestmark = pytest.mark.long

__all__ = ["library_stages", "server"]  # fixtures


@pytest.fixture(params=["rest-sqlite", "graph-postgres"])
def place(
    request: pytest.FixtureRequest,
    library_stages: LibraryStages,
    tmp_path: Path,
    ask: Any,
    server: MakingStores,
) -> Iterator[Place]:
    """The three files of BEFORE, downloaded by an API into a registry in a database."""
    api, stack = request.param.split("-")
    spare = request.getfixturevalue("spare_registries") if stack == "postgres" else None
    url = spare.take() if spare is not None else None
    libraries, library = library_stages.of(api, stack).begin(Crawl(tmp_path, ask, url))
    yield Place(libraries, library, server)
    if spare is not None:
        spare.put_back(url)


def stored(server: MakingStores) -> dict[str, tuple[str, str]]:
    """Return hash and text of what is embedded, by item."""
    (store,) = server.stores
    found = {
        entry["attributes"]["smartcrawl_item"]: (
            entry["attributes"]["smartcrawl_hash"], server.uploads[id_]["content"],
        )
        for id_, entry in server.stores[store].items()
        if entry["status"] == "completed"
    }  # fmt: skip
    kept = server.uploads.keys() - server.stores[store].keys()
    assert len(found) == len(server.stores[store])
    assert (kept - server.detached, server.deleted - server.failures) == (set(), set())
    return found


def check_kind(libraries: LibraryCrawl, server: MakingStores, kind: str) -> None:
    """Store, disk and maps of a kind agree."""
    expected = {}
    for row in libraries.rows("files_map.csv", kind).values():
        path = row["file_relative_path"].partition("\\02_embedded\\")[2].replace("\\", "/")
        body = (libraries.folder(kind) / "02_embedded" / path).read_bytes()
        expected[row["sharepoint_unique_file_id"]] = (sha256(body).hexdigest(), body.decode())
    assert stored(server) == expected
    text = (libraries.folder(kind) / "vectorstore_map.csv").read_text("utf-8")
    rows = csv.DictReader(io.StringIO(text, newline=""))
    (store,) = server.stores.values()
    assert {row["openai_file_id"] for row in rows} == store.keys()


class Kind:
    """The items of a list or of site pages, with changes to them."""

    def __init__(self, libraries: LibraryCrawl, kind: str) -> None:
        self.libraries, self.kind = libraries, kind
        site = libraries.server.tenant.site("/sites/demo")
        if kind == "list_sources":
            self.list = site.list("Tasks", "Tasks")
            self.ids = [self.list.add(Title=title).id for title in ("Mow", "Sow", "Go")]
            libraries.declare(site, kind, list_name="Tasks")
        else:
            self.pages = site.pages()
            for name in ("Home", "News", "Old"):
                self.put(name, name)
            libraries.declare(site, kind, sharepoint_url_part="/SitePages")

    def put(self, name: str, words: str) -> None:
        """Add or edit a page."""
        self.pages.page(f"{name}.aspx", name, [[Text(f"<p>{words}</p>")]])

    def change(self) -> None:
        """Edit an item, remove one, and add one."""
        if self.kind == "list_sources":
            self.list.change(self.ids[0], Title="Mow twice")
            self.list.remove(self.ids[1])
            self.list.add(Title="Rest")
        else:
            self.put("Home", "other words")
            self.pages.delete("News.aspx")
            self.put("Fresh", "fresh")

    def embed(self, **counts: int) -> None:
        """Download, process and embed, to these counts."""
        self.libraries.download()
        self.libraries.process()
        (source,) = self.libraries.library("embed", DOMAIN)["sources"]
        assert {key: source[key] for key in counts} == counts, source


@pytest.mark.covers("R3-16", "R3-83")
@pytest.mark.parametrize("api", ["rest", "graph"])
@pytest.mark.parametrize("kind", ["list_sources", "sitepage_sources"])
def test_lists_and_pages_are_embedded_as_they_are_processed(
    crawl: Crawl, sharepoint: SharepointServer, server: MakingStores, kind: str, api: str
):
    libraries = LibraryCrawl(crawl, sharepoint, api)
    libraries.crawl.environment |= server.settings
    items = Kind(libraries, kind)
    items.embed(uploaded=3, completed=3)
    check_kind(libraries, server, kind)
    items.change()

    items.embed(uploaded=2, completed=2, detached=2)

    check_kind(libraries, server, kind)
    items.embed(uploaded=0, detached=0)
    check_kind(libraries, server, kind)


@pytest.mark.covers("R3-16", "R3-80", "R3-81", "R3-87", "R3-112")
def test_a_store_is_made_equal_with_either_database(place: Place):
    """What others have in the store stays; the metadata are written after the map."""
    place.embed()
    place.add_others()
    place.check(BEFORE)
    place.library.update("Reports/Q1.txt", "Warmer.")
    place.library.rename("readme.md", "read.md")
    place.library.delete("Reports/Q2.txt")
    place.libraries.download()
    map_file = place.libraries.folder() / "vectorstore_map.csv"
    map_file.write_bytes(map_file.read_bytes() + b"damaged")

    found = place.embed()

    assert (found["uploaded"], found["detached"]) == (2, 3), found["log"]
    place.check({"Reports/Q1.txt": b"Warmer.", "read.md": BEFORE["readme.md"]})
    (metadata,) = place.libraries.storage.rglob("files_metadata.json")
    assert metadata.stat().st_mtime_ns >= map_file.stat().st_mtime_ns
    assert {entry["openai_file_id"] for entry in json.loads(metadata.read_text())} >= {
        row["openai_file_id"] for row in place.map_rows()
    }
    assert place.embed()["unchanged"] == 2


@pytest.mark.covers("R3-64", "R3-65", "R3-82")
def test_a_file_that_is_not_there_is_skipped_until_it_is(place: Place):
    """The precondition of the step: what the store has of such an item stays."""
    place.embed()
    place.library.update("Reports/Q1.txt", "Warmer.")
    place.libraries.download()
    (place.libraries.folder() / "02_embedded/Reports/Q1.txt").unlink()

    found = place.embed(expect=3)

    assert (found["skipped"], found["uploaded"], found["detached"]) == (1, 0, 0)
    (reason,) = found["reasons"]
    assert "Q1.txt is missing on disk; the next download fetches it" in reason
    assert len(place.server.uploads) == 3
    place.libraries.download()
    assert place.embed()["uploaded"] == 1
    place.check(BEFORE | {"Reports/Q1.txt": b"Warmer."})


@pytest.mark.covers("R3-122")
@pytest.mark.parametrize("act", ["list", "upload", "attach", "detach"])
def test_a_store_that_does_not_answer_is_left_for_the_next_run(place: Place, act: str):
    """D6: an answer that breaks off is one that did not come; nothing is failed or lost by it."""
    place.embed()
    place.library.update("Reports/Q1.txt", "Warmer.")
    place.library.delete("readme.md")
    place.libraries.download()
    before = set(place.server.uploads)
    silent = Reply(b"", is_done=True, breaks_off=True)
    place.server.answer = lambda asked: silent if asked.act == act else None

    found = place.embed(expect=3)

    assert (found["embedFailed"], found["skipped"]) == (0, 0), found["log"]
    assert "the next push continues from here" in json.dumps(found["reasons"])
    assert before <= place.server.uploads.keys()
    place.server.answer = lambda asked: None
    place.embed()
    place.check({"Reports/Q1.txt": b"Warmer.", "Reports/Q2.txt": BEFORE["Reports/Q2.txt"]})


@pytest.mark.covers("R3-125", "R3-126")
def test_an_empty_file_fails_and_a_type_without_text_is_no_item(place: Place):
    """E3 and E4."""
    place.server.fails = lambda text: "the file is empty" if not text else ""
    place.library.add("empty.txt", b"")
    place.library.add("photo.png", b"\x89PNG")
    place.libraries.download()

    found = place.embed(expect=3)

    assert (found["completed"], found["embedFailed"], found["skipped"]) == (3, 1, 0)
    assert (place.libraries.folder() / "03_failed/empty.txt").read_bytes() == b""
    (failed,) = (row for row in place.map_rows() if row["filename"] == "empty.txt")
    assert "the file is empty" in failed["embedding_error"]
    assert not any(row["filename"] == "photo.png" for row in place.map_rows())
    for words in ((), ("--mode", "full"), ()):
        again = place.libraries.download(*words)
        assert again["downloaded"] == (4 if words else 0), again["log"]
        assert again["integrity"]["missingOnDisk"] == 0, again["log"]
        assert place.embed(expect=None)["uploaded"] == 0
        row = place.libraries.rows("files_map.csv")["/sites/demo/Shared Documents/empty.txt"]
        assert "03_failed" in row["file_relative_path"]
        assert (place.libraries.folder() / "03_failed/empty.txt").read_bytes() == b""
        assert not (place.libraries.folder() / "02_embedded/empty.txt").exists()
        (checked,) = place.libraries.library("check", DOMAIN)["sources"]
        assert checked["integrity"]["missingOnDisk"] == 0


@pytest.mark.covers("R3-123")
def test_names_in_the_store_keep_their_letters(place: Place):
    """E1."""
    named = {"grün 🚀 שלום.txt": b"Green.", "概要.md": "概要".encode()}
    for path, body in named.items():
        place.library.add(path, body)
    place.libraries.download()
    place.embed()
    place.check(BEFORE | named)


@pytest.mark.covers("R3-83")
def test_a_document_whose_text_cannot_be_extracted_is_judged_by_the_store(place: Place):
    """Also one that could be read before: the hash is that of the download."""
    broken = {"broken.pdf": b"%PDF-1.7 cut", "broken.docx": b"PK no archive"}
    for path, body in broken.items():
        place.library.add(path, body)
    place.library.update("Reports/Q1.txt", "Warmer.")
    downloaded = place.libraries.download(expect=3)
    assert (downloaded["failed"], downloaded["complete"]) == (2, False)
    named = {reason.partition(": ")[0] for reason in downloaded["reasons"]}
    assert named == {f"/sites/demo/Shared Documents/{path}" for path in broken}
    assert all(reason in downloaded["log"] for reason in downloaded["reasons"])

    found = place.embed()

    assert (found["completed"], found["skipped"]) == (5, 0), found["reasons"]
    place.check(BEFORE | broken | {"Reports/Q1.txt": b"Warmer."})
    place.library.update("broken.pdf", b"%PDF-1.7 cut again")
    place.libraries.download(expect=None)
    place.server.fails = lambda text: "it has no text" if "again" in text else ""
    assert place.embed(expect=3)["embedFailed"] == 1
    (failed,) = (row for row in place.map_rows() if row["filename"] == "broken.pdf")
    assert "it has no text" in failed["embedding_error"]
    assert "03_failed" in failed["file_relative_path"]


def test_failures_by_chance_end_as_the_library_is(place: Place):
    """Random histories with a store that fails now and then: after one quiet run all are equal."""
    rng = random.Random(place.libraries.crawl.environment["SHAREPOINT_LOGIN_URL"][-3:])
    files = dict(BEFORE)

    def sometimes(asked: Asked) -> Reply | None:
        if rng.random() > 0.2:
            return None
        return rng.choice([Reply({}, 500, is_done=True), Reply({}, 503), Reply(b"<", is_done=True)])

    for number in range(4):
        _edit(rng, place, files, number)
        place.libraries.download()
        place.server.answer = sometimes
        place.embed(expect=None)
        place.server.answer = lambda asked: None
    place.embed(expect=None)
    place.embed()
    place.check(files)


def _edit(rng: random.Random, place: Place, files: dict[str, bytes], number: int) -> None:
    """Make two changes to the library, and to what it should have."""
    for each in range(2):
        path = rng.choice(sorted(files))
        body = f"words {number}.{each}".encode()
        match rng.choice(["add", "update", "rename", "delete"]):
            case "add":
                place.library.add(f"new {number}.{each}.txt", body)
                files[f"new {number}.{each}.txt"] = body
            case "update":
                place.library.update(path, body)
                files[path] = body
            case "rename":
                name = f"renamed {number}.{each}.txt"
                place.library.rename(path, name)
                folder, slash, _ = path.rpartition("/")
                files[f"{folder}{slash}{name}"] = files.pop(path)
            case "delete" if len(files) > 2:
                place.library.delete(path)
                del files[path]

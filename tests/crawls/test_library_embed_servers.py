"""Libraries to the end of a real server of vector stores, and of ours (R3.14 C and D).

Each test sees the store as any client does. `blunt` is ours with the ways of ogx, the real one,
which is in the slow tier: its packages are installed at first use.
"""

import csv
import io
import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.libraries import DOMAIN, SOURCE, LibraryCrawl
from tests.crawls.library_stage import BEFORE, Q1, LibraryStage, rest_stage
from tests.index.vectorstore.any_store import SERVERS, AnyStore, any_server, any_store
from tests.lab.test_library_story import CASES, Case
from tests.servers import POISON
from tests.servers.sharepoint import Library

__all__ = ["rest_stage"]  # a fixture

pytestmark = [pytest.mark.alone, pytest.mark.long(but=1)]


@pytest.fixture(scope="module", params=SERVERS)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a server."""
    with any_server(request.param) as address:
        yield address


class Shore:
    """A library that was downloaded, and a store with two files of others."""

    def __init__(self, libraries: LibraryCrawl, library: Library, server: AnyStore) -> None:
        self.libraries, self.library, self.server = libraries, library, server
        settings = server.settings
        libraries.crawl.environment |= {
            name: value for name, value in settings.items() if name != "VECTOR_STORE_ID"
        }
        self.name_store(server.store)
        other = {"smartcrawl_domain": DOMAIN, "smartcrawl_source": "elsewhere"}
        self.theirs = {
            server.put("theirs", colour="red"),
            server.put("of another source", smartcrawl_item="1", **other),
            server.put("attached nowhere", is_attached=False),
        }

    def name_store(self, store: str) -> None:
        """Write the id of a store into domain.json."""
        path = self.libraries.storage / "domains" / DOMAIN / "domain.json"
        known = json.loads(path.read_text("utf-8"))
        path.write_text(json.dumps(known | {"vector_store_id": store}), encoding="utf-8")

    def embed(self, *words: str, expect: int = 0) -> dict[str, Any]:
        """Embed; return what the JSON says of the only source."""
        (source,) = self.libraries.library("embed", DOMAIN, *words, expect=expect)["sources"]
        return dict(source)

    def ours(self) -> dict[str, tuple[str, str]]:
        """Return item and hash of our completed files by their ids."""
        found = {}
        for id_, file in self.server.files().items():
            marks = file.attributes or {}
            if id_ not in self.theirs and marks.get("smartcrawl_source") == SOURCE:
                assert file.status == "completed"
                found[id_] = str(marks["smartcrawl_item"]), str(marks["smartcrawl_hash"])
        return found

    def check(self, files: dict[str, bytes]) -> None:
        """Store, library and map agree; nothing is there twice, nothing of others was touched."""
        items = {
            row["file_relative_path"].rpartition("02_embedded\\")[2].replace("\\", "/"): id_
            for row in self.libraries.rows("files_map.csv").values()
            for id_ in [row["sharepoint_unique_file_id"]]
        }
        ours = self.ours()
        expected = [(items[path], sha256(body).hexdigest()) for path, body in files.items()]
        assert sorted(ours.values()) == sorted(expected)
        left = {file for (file,) in self.libraries.crawl.rows("SELECT file FROM left_upload")}
        assert self.server.uploads() - left == ours.keys() | self.theirs
        text = (self.libraries.folder() / "vectorstore_map.csv").read_text("utf-8")
        rows = csv.DictReader(io.StringIO(text, newline=""))
        mapped = {row["openai_file_id"] for row in rows if row["openai_file_id"]}
        assert mapped == ours.keys()


@pytest.fixture
def shore(crawl: Crawl, rest_stage: LibraryStage, url: str) -> Iterator[Shore]:
    libraries, library = rest_stage.begin(crawl)
    with any_store(url) as server:
        yield Shore(libraries, library, server)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_change_reaches_the_store(case: Case, shore: Shore):
    shore.embed()
    shore.check(BEFORE)
    before = shore.ours().keys()
    case.change(shore.library)
    shore.libraries.download()

    shore.embed()

    shore.check(case.after)
    after = shore.ours().keys()
    assert len(after - before) == case.added + case.changed
    second = shore.embed()
    assert (second["uploaded"], second["detached"], second["adopted"]) == (0, 0, 0)
    assert shore.ours().keys() == after


@pytest.mark.covers("R3-111", "R3-112", "R3-115")
def test_files_that_others_removed_are_given_again(shore: Shore):
    """C1, C2 and C5."""
    shore.embed()
    detached, deleted, _ = shore.ours()
    shore.server.detach(detached)
    shore.server.detach(deleted)
    shore.server.delete(deleted)
    assert shore.embed()["uploaded"] == 2
    assert deleted not in shore.server.uploads()
    shore.check(BEFORE)


@pytest.mark.covers("R3-113")
def test_a_file_that_cannot_be_embedded_fails_once(shore: Shore):
    """C3: it is tried again when it changes."""
    shore.embed()
    shore.library.update("Reports/Q1.txt", POISON)
    shore.libraries.download()

    found = shore.embed(expect=3)

    assert (found["embedFailed"], found["completed"]) == (1, 0)
    assert (shore.libraries.folder() / "03_failed/Reports/Q1.txt").read_text() == POISON
    others = {path: body for path, body in BEFORE.items() if body != Q1}
    shore.check(others)
    assert shore.embed(expect=3)["uploaded"] == 0  # an earlier failure is owed still
    shore.library.update("Reports/Q1.txt", "Warmer.")
    shore.libraries.download()
    assert shore.embed()["completed"] == 1
    shore.check(others | {"Reports/Q1.txt": b"Warmer."})


@pytest.mark.covers("R3-114")
def test_a_store_that_is_gone_ends_the_embedding(shore: Shore):
    """C4: nothing is cleared, and no other store is made."""
    shore.embed()
    stores = shore.server.stores()
    shore.name_store(f"{shore.server.store}0")
    found = shore.embed(expect=3)
    assert "has no vector store" in json.dumps(found["reasons"])
    assert shore.server.stores() == stores
    shore.name_store(shore.server.store)
    assert shore.embed()["unchanged"] == 3
    shore.check(BEFORE)


@pytest.mark.covers("R3-117", "R3-119")
@pytest.mark.parametrize("fate", ["after upload", "after attach", "before detach"])
def test_an_embedding_that_is_killed_goes_on(shore: Shore, fate: str):
    """D1 and D3: of several changes the last state counts."""
    shore.embed()
    shore.library.update("Reports/Q1.txt", "Warm.")
    shore.library.update("Reports/Q1.txt", "Warmer.")
    shore.library.delete("Reports/Q2.txt")
    shore.library.add("new.txt", "New.")
    shore.libraries.download()
    crawl = shore.libraries.crawl
    killed = {
        "ARRANGED_BY": "tests.crawls.killed_embed", "DIES_AT": fate,
        "PLACES": str(crawl.folder / "places"), "VECTOR_STORE_CONCURRENCY": "1",
    }  # fmt: skip
    crawl.environment |= killed
    crawl.run("library", "embed", DOMAIN, expect=-9)
    for name in killed:
        del crawl.environment[name]

    shore.embed()

    shore.check(
        {"Reports/Q1.txt": b"Warmer.", "readme.md": BEFORE["readme.md"], "new.txt": b"New."}
    )


def test_a_lost_registry_takes_the_files_of_the_store_over(shore: Shore):
    """No second copy of the library is embedded beside the first."""
    shore.embed()
    before = shore.ours()
    for left in shore.libraries.crawl.data_dir.glob("registry.db*"):
        left.unlink()
    shore.libraries.download()
    found = shore.embed()
    assert (found["adopted"], found["uploaded"]) == (3, 0)
    assert shore.ours() == before
    shore.check(BEFORE)

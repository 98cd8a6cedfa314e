"""`push` on a real server of vector stores and on ours, which therefore cannot drift apart.

Each test sees the store as any client does (`any_store`). `blunt` is ours with the ways of ogx, the
real one, which is in the slow tier: its packages are installed at first use.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.killed_push import TRANSACTIONS
from tests.commands.two_sources import TwoSources
from tests.crawls.commands import Scrapy
from tests.index.vectorstore.any_store import SERVERS, AnyStore, any_server, any_store
from tests.servers import POISON

pytestmark = [pytest.mark.long(but=4), pytest.mark.alone]

KILLED = -9
TEXTS = [f"page {n} is about {word}" for n, word in enumerate(("jobs", "bread", "rain", "tea"))]


class Place(TwoSources):
    """A registry of two sources, and a store."""

    def __init__(self, folder: Path, ask: Scrapy, server: AnyStore) -> None:
        super().__init__(folder, ask, TEXTS)
        self.server = server
        self.environment |= server.settings
        self.expected = {f"http://docs.example/{n}": text for n, text in enumerate(TEXTS)}
        self._pushes = 0

    def put(self, name: str, text: str) -> None:
        """Change a page, or add one."""
        url = f"http://docs.example/{name}"
        self.desk.source = "docs"
        self.desk.open()
        self.desk.index(url, text)
        self.desk.seal()
        self.expected[url] = text

    def drop(self, name: str) -> None:
        url = f"http://docs.example/{name}"
        self.desk.connection.execute("UPDATE record SET entry = 0 WHERE url = ?", (url,)).fetchall()
        del self.expected[url]

    def push(self, fate: str = "0", expect: int = 0, source: str = "docs") -> list[str]:
        """Push, to die at a place; return the places that were passed."""
        self._pushes += 1
        passed = self.folder / f"places{self._pushes}"
        self.run(
            *("push", "--source", source), expect=expect, ARRANGED_BY="tests.commands.killed_push",
            DIES_AT=fate, PLACES=str(passed), LIST_PAGE="2", VECTOR_STORE_CONCURRENCY="1",
        )  # fmt: skip
        return passed.read_text("utf-8").splitlines()

    def rows(self) -> list[tuple[object, ...]]:
        statement = "SELECT url, status, file FROM store_file ORDER BY intent"
        return self.desk.connection.execute(statement).fetchall()

    def check(self, *theirs: str) -> None:
        """The store has each page once.

        The account has besides only the files ``theirs``, and those that left the store by a push:
        another store may have them.
        """
        texts = self.server.texts()
        assert texts.keys() == self.expected.keys()
        for url, text in self.expected.items():
            assert len(texts[url]) == 1
            assert text in texts[url][0]
        ours = {
            id_ for id_, file in self.server.files().items()
            if (file.attributes or {}).get("smartcrawl_source") == "docs"
        }  # fmt: skip
        assert len(ours) == len(self.expected)
        left = self.desk.connection.execute("SELECT file FROM left_upload").fetchall()
        assert self.server.uploads() - {file for (file,) in left} == ours | set(theirs)


@pytest.fixture(scope="module", params=SERVERS)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a server."""
    with any_server(request.param) as address:
        yield address


@pytest.fixture
def place(tmp_path: Path, ask: Scrapy, url: str) -> Iterator[Place]:
    with any_store(url) as server:
        place = Place(tmp_path, ask, server)
        yield place
        place.desk.close()


@pytest.mark.covers("M-47")
def test_a_second_push_reads_the_list_to_its_end_and_changes_nothing(place: Place):
    place.push()
    place.check()
    before = place.server.files()

    passed = place.push()
    counted = place.json("push", "--source", "docs")

    asked = [place for place in passed if place.split()[1] not in TRANSACTIONS]
    assert asked == ["before listed_page", "after listed_page"] * 2
    assert (counted["pages"], counted["unchanged"], counted["uploaded"]) == (4, 4, 0)
    assert place.server.files() == before


def test_a_list_of_several_pages_is_read_whole(place: Place):
    place.push()
    place.push(source="shop")
    for n in range(3):
        place.server.put(f"theirs {n}")
    place.desk.connection.execute("DELETE FROM store_file").fetchall()

    passed = place.push()  # all that it knows of its files is the list
    counted = place.json("push", "--source", "docs")

    assert passed.count("before listed_page") == 4
    assert "before upload" not in passed
    assert (counted["unchanged"], counted["uploaded"], counted["detached"]) == (4, 0, 0)


def test_a_changed_page_is_completed_before_its_former_version_leaves(place: Place):
    place.push()
    place.put("1", "another text")

    passed = place.push("before detach", KILLED)

    assert [text for text in place.server.texts()["http://docs.example/1"] if TEXTS[1] in text]
    assert passed.index("after note_completed") < passed.index("before detach")
    assert len(place.server.texts()["http://docs.example/1"]) == 2
    place.push()
    place.check()


def test_a_page_that_is_gone_leaves_before_anything_is_given(place: Place):
    place.push()
    place.drop("2")
    place.put("new", "a new page")

    passed = place.push()

    assert passed.index("after detach") < passed.index("before upload")
    place.check()


def test_files_of_others_are_not_touched(place: Place):
    theirs = place.server.put("theirs", colour="red")
    loose = place.server.put("attached nowhere", is_attached=False)
    place.push(source="shop")
    [shop] = place.server.files().keys() - {theirs}
    before = {id_: place.server.files()[id_] for id_ in (theirs, shop)}
    place.push()
    place.put("0", "changed")
    place.drop("1")

    place.push()

    after = place.server.files()
    assert {id_: after[id_] for id_ in before} == before
    assert place.server.text(loose) == "attached nowhere"
    place.push(source="shop")
    assert shop in place.server.files()


@pytest.mark.long(but=1)
@pytest.mark.parametrize(
    "fate", ["after intend", "after upload", "after attach", "after note_completed", "after detach"]
)
def test_a_push_that_is_killed_is_made_up_for_by_the_next(place: Place, fate: str):
    place.push()
    place.put("0", "changed")
    place.put("größe/überall", "umlauts in the address")
    place.drop("1")
    assert place.push(fate, KILLED)[-1] == fate

    place.push()

    place.check()
    assert "before upload" not in place.push()


def test_an_upload_that_another_program_deletes_is_given_anew(place: Place):
    place.push("after note_upload", KILLED)
    [upload] = place.server.uploads()
    place.server.delete(upload)

    place.push(expect=3)  # the page is named
    place.push()

    place.check()


def test_a_file_that_another_program_detaches_and_deletes_is_given_anew(place: Place):
    place.push()
    gone = sorted(place.server.files())[0]
    place.server.detach(gone)
    place.server.delete(gone)

    passed = place.push()

    assert passed.count("after upload") == 1
    place.check()


def test_a_file_that_is_in_no_account_any_more_leaves_the_store_with_its_page(place: Place):
    place.push()
    [gone] = (
        id_ for id_, file in place.server.files().items()
        if (file.attributes or {})["smartcrawl_url"] == "http://docs.example/2"
    )  # fmt: skip
    place.server.delete(gone)
    place.drop("2")

    place.push()

    place.check()


def test_a_page_that_cannot_be_embedded_is_named_and_tried_again(place: Place):
    place.push()
    place.put("1", f"a text with {POISON}")

    result = place.run("push", "--source", "docs", expect=3)

    assert "push: http://docs.example/1: the store could not embed it: " in result.err
    assert "cannot be embedded" in result.err
    assert len(place.server.files()) == len(place.server.uploads()) == 4, "the former version stays"
    place.push(expect=3)
    place.put("1", "a text without")
    place.push()
    place.check()


def test_a_store_that_is_gone_is_named_and_none_is_made(place: Place):
    place.push()
    rows, stores = place.rows(), place.server.stores()
    place.server.remove()
    place.put("1", "changed")

    result = place.run("push", "--source", "docs", expect=1)

    assert f"has no vector store {place.server.store} (40" in result.err
    assert "set VECTOR_STORE_ID" in result.err
    assert place.server.stores() == stores - {place.server.store}
    assert place.rows() == rows

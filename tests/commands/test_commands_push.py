"""`push`, as a person would type it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from smartcrawl.registry.database.sqlite import SqliteDatabase
from tests.commands.two_sources import TwoSources
from tests.crawls.commands import Scrapy
from tests.index.vectorstore.store_server import STORE, Stores, stores_server
from tests.openai_server import KEY, error

KEYS = ["source", "vectorStoreId", "pages", "unchanged", "uploaded", "completed", "adopted",
        "detached", "left", "failed", "inProgress", "error"]  # fmt: skip


class Place(TwoSources):
    """A registry of two sources, and a server of vector stores."""

    def __init__(self, folder: Path, ask: Scrapy, server: Stores) -> None:
        super().__init__(folder, ask, ["cancel a paused job", "bread"])
        self.server = server
        self.environment |= server.settings


@pytest.fixture
def place(tmp_path: Path, ask: Scrapy) -> Iterator[Place]:
    with stores_server() as server:
        place = Place(tmp_path, ask, server)
        yield place
        place.desk.close()


@pytest.mark.covers("M-47")
def test_push_says_where_text_goes_and_counts(place: Place):
    dry = place.json("push", "--source", "docs", "--dry-run")
    assert place.server.asked == []
    first = place.run("push", "--source", "docs")
    again = place.json("push", "--source", "docs")

    assert (dry["pages"], dry["uploaded"], dry["dryRun"]) == (2, 2, True)
    assert first.err == (
        f"push: the text of 2 pages is sent to {place.server.host}, vector store {STORE}\n"
    )
    assert first.out == f"2 pages of docs, 0 unchanged, 2 pushed ({STORE})\n"
    assert list(again) == KEYS
    assert (again["unchanged"], again["uploaded"], again["error"]) == (2, 0, None)
    assert place.server.texts().keys() == {"http://docs.example/0", "http://docs.example/1"}
    place.check_files_have_no_key()


def test_status_and_why_say_what_is_pushed(place: Place):
    place.run("push", "--source", "docs")

    [docs, shop, total] = place.json("status")["sources"] + [place.json("status")["total"]]
    why = place.json("why", "http://docs.example/0")["records"][0]

    assert docs["pushed"] == [{"vectorStoreId": STORE, "completed": 2, "open": 0}]
    assert shop["pushed"] == total["pushed"] == []
    [file] = why["pushed"]
    assert (file["vectorStoreId"], file["status"]) == (STORE, "completed")
    assert file["file"] in place.server.stores[STORE]
    assert f"2 pages in {STORE}" in place.run("status", "--source", "docs").out
    assert (
        f"completed in {STORE} as {file['file']}" in place.run("why", "http://docs.example/0").out
    )


def test_push_names_pages_that_fail_and_exits_with_3(place: Place):
    place.server.fails = lambda text: "no \x1b[2J text" if "bread" in text else ""

    result = place.run("push", "--source", "docs", expect=3)

    assert "push: http://docs.example/1: the store could not embed it: no" in result.err
    assert "\x1b[2J" not in result.err
    assert "1 pushed" in result.out
    assert "1 failed" in result.out


def test_push_to_a_store_that_is_gone_exits_with_1(place: Place):
    del place.server.stores[STORE]

    result = place.run("push", "--source", "docs", expect=1)

    assert f"has no vector store {STORE}" in result.err
    assert place.server.stores == {}


def test_a_key_that_is_refused_is_shown_nowhere(place: Place):
    place.server.answer = lambda asked: error(f"Incorrect API key provided: {KEY}", 401)

    result = place.run("push", "--source", "docs", expect=1)

    assert "401" in result.err
    assert "check OPENAI_API_KEY" in result.err
    assert len(place.server.asked) == 1


def test_one_push_a_store_at_a_time(place: Place):
    database = SqliteDatabase(place.folder / "data" / "registry.db")
    lease = database.take(f"vector store {STORE}", "2026-11-26T00:00:00+00:00")
    try:
        result = place.run("push", "--source", "shop", expect=4)
    finally:
        lease.release()

    assert f"pushes to the vector store {STORE} since 2026-11-26" in result.err
    assert place.server.asked == []
    place.run("push", "--source", "shop")


@pytest.mark.parametrize(
    ("changed", "status", "message"),
    [
        ({"VECTOR_STORE_ID": ""}, 2, "no vector store: set VECTOR_STORE_ID"),
        ({"VECTOR_STORE_ID": "vs/../x"}, 1, "VECTOR_STORE_ID is 'vs/../x'"),
        ({"VECTOR_STORE_URL": "https://api.openai.com"}, 1, "ends in /v1"),
        ({"VECTOR_STORE_URL": "https://u:p@api.openai.com/v1"}, 1, "without credentials"),
        (
            {"VECTOR_STORE_URL": "https://api.openai.com/v1", "OPENAI_API_KEY": ""},
            1,
            "the environment has no OPENAI_API_KEY",
        ),
    ],
)
def test_wrong_settings_name_their_remedy(
    place: Place, changed: dict[str, str], status: int, message: str
):
    assert message in place.run("push", "--source", "docs", expect=status, **changed).err
    assert place.server.asked == []


def test_push_needs_a_known_source(place: Place):
    assert "give a source, such as" in place.run("push", expect=2).err
    assert "known: docs, shop" in place.run("push", "--source", "dosc", expect=1).err

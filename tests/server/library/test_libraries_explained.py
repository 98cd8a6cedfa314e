"""Domains of libraries as an endpoint and a page show them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from smartcrawl.server.explained.answers import Libraries
from smartcrawl.server.keys import Scope
from smartcrawl.server.stores import Stores
from tests.server.api_client import ask
from tests.server.items.conftest import Desk
from tests.server.library.conftest import declare
from tests.server.pages.browsing import Visitor, made_key, words
from tests.server.pages.test_every_page import Noted

pytestmark = pytest.mark.sqlite
PATH = "/api/v1/libraries"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path / "data" / "registry.db", tmp_path)
    yield desk
    desk.close()


def fill(desk: Desk, folder: Path) -> None:
    """Two domains, of which one has a mistake; four items of a library, each owed another step."""
    declare(folder, description="What <b>we</b> know", vector_store_name="demo")
    declare(folder, "DOMAIN02", name=5)
    desk.execute("UPDATE source SET name = 'DOMAIN01.source01', kind = 'sharepoint' WHERE no = 1")
    for number in range(4):
        desk.put(f"https://contoso.sharepoint.com/sites/a/{number}.pdf")
    numbers = [no for (no,) in desk.rows("SELECT no FROM record ORDER BY no DESC LIMIT 4")]
    for place, no in enumerate(numbers):
        desk.execute(
            "INSERT INTO library_item (no, source, listitem_id, unique_id, filename,"
            " server_relative_url, file_size, last_modified, path, processing_error)"
            " VALUES (?, 1, ?, ?, 'a', 'a', 1, 1, ?, ?)",
            (no, place, str(place), None if place == 0 else f"{place}.pdf",
             "no text" if place == 1 else None),
        )  # fmt: skip
    desk.execute("INSERT INTO vector_store (no, url, id) VALUES (1, 'http://127.0.0.1', 'vs_1')")
    desk.execute(
        "INSERT INTO store_file (intent, store, source, no, url, content_hash, name, status,"
        " intended_at) VALUES ('a', 1, 1, ?, 'a', ?, 'a', 'completed', 1)",
        (numbers[2], bytes(32)),
    )
    desk.execute(
        "INSERT INTO embed_failure (no, source, facts, hash, error) VALUES (?, 1, ?, ?, 'no')",
        (numbers[3], bytes(32), bytes(32)),
    )
    reports = folder / "library" / "reports" / "crawls"
    reports.mkdir(parents=True)
    (reports / "2025-06-15_03-00-12_DOMAIN01_all_incremental.zip").write_bytes(b"12345")


def test_domains_have_their_sources_with_what_is_owed(desk: Desk, tmp_path: Path):
    fill(desk, tmp_path)

    found = desk.read(PATH)

    Libraries.model_validate(found)
    one, two = found["domains"]
    assert (one["domainId"], one["name"], one["vectorStore"]) == ("DOMAIN01", "Demo", "demo")
    library, tasks = one["sources"]
    assert library["source"] == "DOMAIN01.source01"
    assert (library["items"], library["files"], library["embedFailed"]) == (4, 3, 1)
    assert library["owed"] == {"download": 1, "process": 1, "embed": 2}
    assert library["status"]["lastRun"]["run"] == 1
    assert (tasks["sourceId"], tasks["sourceType"], tasks["status"]) == (
        "list01", "list_sources", None
    )  # fmt: skip
    (report,) = one["reports"]
    assert (report["endedAt"], report["scope"], report["bytes"]) == (
        "2025-06-15T03:00:12Z", "all", 5
    )  # fmt: skip
    assert (two["domainId"], two["sources"]) == ("DOMAIN02", [])
    assert "has problems" in two["problem"]


def test_a_key_of_some_sources_sees_these_alone(desk: Desk, tmp_path: Path):
    fill(desk, tmp_path)
    few = made_key(desk.place.parent, Scope.READ, "DOMAIN01.list01")
    none = made_key(desk.place.parent, Scope.READ, "one")

    (domain,) = ask(desk.app, "GET", PATH, headers={"X-API-Key": few}).json()["domains"]
    assert [one["sourceId"] for one in domain["sources"]] == ["list01"]
    assert domain["reports"] == []
    assert ask(desk.app, "GET", PATH, headers={"X-API-Key": none}).json()["domains"] == []


def test_a_private_library_is_as_if_it_were_not_there(desk: Desk, tmp_path: Path):
    fill(desk, tmp_path)
    desk.execute("UPDATE source SET visibility = 'private' WHERE no = 1")

    domain = desk.read(PATH)["domains"][0]

    assert [one["sourceId"] for one in domain["sources"]] == ["list01"]


class Statements(list[str]):
    """Statements in their order."""

    add = list.append


def test_more_domains_take_no_more_statements(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    declare(tmp_path)
    statements, read = Statements(), Stores.read
    monkeypatch.setattr(
        Stores,
        "read",
        lambda stores, work: read(stores, lambda seen: work(Noted(seen, statements))),
    )
    desk.read(PATH)
    one = len(statements)
    for number in range(2, 5):
        declare(tmp_path, f"DOMAIN0{number}")

    assert len(desk.read(PATH)["domains"]) == 4
    assert len(statements) == 2 * one


def test_the_page_of_libraries_has_what_is_owed_in_words(desk: Desk, tmp_path: Path):
    assert "No domain of document libraries is declared" in words(
        Visitor(desk.app).page("/libraries").get_element_by_id("main")
    )
    fill(desk, tmp_path)

    page = Visitor(desk.app).page("/libraries")

    text = words(page.get_element_by_id("main"))
    assert "1 to download, 1 to process, 2 to embed, 1 of them refused" in text
    assert "What <b>we</b> know" in text
    assert "DOMAIN02 is not read: the domain.json" in text
    assert "2025-06-15_03-00-12_DOMAIN01_all_incremental" in text
    assert page.xpath("//a[@href='/runs/1']")
